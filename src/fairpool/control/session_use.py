"""When sessions were last used: kept in memory, and written to the database once in a while for all of them.

A write for each request would make every read a write. A crash forgets the last `SAVE_S` seconds at most, so that an
idle session may end that much too early.
"""

from __future__ import annotations

from fairpool.model.ids import SECOND_MS, Instant

SAVE_S = 30.0
KEPT_MS = 3600 * SECOND_MS
"""Afterwards the database knows it as well."""


class SessionUse:
    """By session, the moment of its last request to this process."""

    def __init__(self) -> None:
        self._latest: dict[str, Instant] = {}
        self._unsaved: set[str] = set()

    def note(self, session: str, now: Instant) -> None:
        self._latest[session] = now
        self._unsaved.add(session)

    def latest(self, session: str) -> Instant:
        """0: not as long as this process remembers."""
        return self._latest.get(session, Instant(0))

    def unsaved(self, now: Instant) -> dict[str, Instant]:
        """What is to be written now, once."""
        found = {session: self._latest[session] for session in self._unsaved}
        self._unsaved = set()
        self._latest = {session: at for session, at in self._latest.items() if now - at < KEPT_MS}
        return found

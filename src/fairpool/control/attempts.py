"""Wrong passwords cost time: each further one doubles the wait before the next is looked at. No clock in here."""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.model.ids import SECOND_MS, Instant

FREE = 3
"""So many slips are anybody's."""
FREE_OF_AN_ADDRESS = 20
"""Many people may sit behind one address, or on one machine."""
LONGEST_S = 60
FORGOTTEN_MS = 15 * 60 * SECOND_MS
REMEMBERED_MAX = 10_000
"""Names and addresses; beyond that the oldest are forgotten, so that strangers cannot fill our memory."""


class Attempts:
    """Failures by name and by address, in memory: a restart forgives, which costs an attacker more than it gives."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, Instant]] = {}

    def wait_s(self, names: Iterable[str], now: Instant) -> int:
        """How long until another attempt under any of these names is looked at; 0: now."""
        return max((self._wait_s(name, now) for name in names), default=0)

    def failed(self, names: Iterable[str], now: Instant) -> None:
        for name in names:
            count, since = self._failures.pop(name, (0, now))
            fresh = now - since < FORGOTTEN_MS
            self._failures[name] = (count + 1 if fresh else 1, now)
        while len(self._failures) > REMEMBERED_MAX:
            self._failures.pop(next(iter(self._failures)))

    def succeeded(self, names: Iterable[str]) -> None:
        for name in names:
            self._failures.pop(name, None)

    def _wait_s(self, name: str, now: Instant) -> int:
        count, last = self._failures.get(name, (0, now))
        free = FREE_OF_AN_ADDRESS if name.startswith("from ") else FREE
        if count < free:
            return 0
        wait_s = min(1 << min(count - free, 10), LONGEST_S)
        until = last + wait_s * SECOND_MS
        return max(0, -(-(until - now) // SECOND_MS))

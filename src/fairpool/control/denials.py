"""Counts refused requests: repeated attempts must not fill the audit log, and none may go uncounted."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairpool.model.ids import SECOND_MS, Instant

WINDOW_MS = 60 * SECOND_MS
DENIALS_A_MINUTE = 60
"""Refused requests of one caller that have an entry each; the others of that minute have one together."""


@dataclass(slots=True)
class UnlistedRefusals:
    """How many refusals of a caller have no entry of their own."""

    name: str
    subject_type: str
    count: int = 0


class Denials:
    """Refused requests of each caller in this minute, and those of earlier ones that are not yet written down."""

    def __init__(self) -> None:
        self._minute = 0
        self._count: dict[str, UnlistedRefusals] = {}
        self._over: list[UnlistedRefusals] = []

    def is_worth_a_line(self, caller: str, now: Instant, name: str, subject_type: str) -> bool:
        """Whether one more refusal gets an entry of its own. Name and type: for the entry about those that do not."""
        self._turn(now)
        mine = self._count.setdefault(caller, UnlistedRefusals(name, subject_type))
        mine.count += 1
        return mine.count <= DENIALS_A_MINUTE

    def unlisted(self, now: Instant, *, is_closing: bool = False) -> list[UnlistedRefusals]:
        """Take what is to be written down: of minutes that are over, or of this one too."""
        if is_closing:
            self._end_minute()
        self._turn(now)
        over, self._over = self._over, []
        return over

    def put_back(self, many: list[UnlistedRefusals]) -> None:
        """What was taken and could not be written down."""
        self._over[:0] = many

    def _turn(self, now: Instant) -> None:
        minute = now // WINDOW_MS
        if minute != self._minute:
            self._minute = minute
            self._end_minute()

    def _end_minute(self) -> None:
        for each in self._count.values():
            if each.count > DENIALS_A_MINUTE:
                self._over.append(replace(each, count=each.count - DENIALS_A_MINUTE))
        self._count.clear()

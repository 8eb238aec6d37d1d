"""Whether the clock of the machine was set, and by how much: what pods held is counted by the time that passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from fairpool.model.ids import Instant

NOTICED_MS: Final = 2000
"""A clock that is corrected by less is not set, but on its way to the right time."""


class ClockJumps:
    """Compares the clock of the machine with one that is never set."""

    def __init__(self, steady_ms: Callable[[], int] | None) -> None:
        """`steady_ms`: milliseconds from any beginning; None: the clock is believed."""
        self._steady_ms = steady_ms
        self._last: tuple[int, int] | None = None
        self.jumped_ms = 0
        """By how much it was set, since this was last set to 0."""

    def look(self, now: Instant) -> None:
        """Compare the two."""
        if self._steady_ms is None:
            return
        steady = self._steady_ms()
        if self._last is not None:
            jumped = (now - self._last[0]) - (steady - self._last[1])
            if abs(jumped) >= NOTICED_MS:
                self.jumped_ms += jumped
        self._last = now, steady

"""A clock whose wall time can be set wrong."""

from __future__ import annotations

from fairpool.engines.simulated.clock import EPOCH, Clock, VirtualClock
from fairpool.model.ids import SECOND_MS, Instant


class SkewedClock(VirtualClock):
    """`now` is the true time. `wall` is the clock of a machine: it jumps while the true time passes evenly."""

    def __init__(self, now: Instant = EPOCH) -> None:
        super().__init__(now)
        self.wall = WallTime(self)

    def jump(self, seconds: float) -> None:
        """Set the wall time forward or, below zero, back."""
        self.wall.off_by_ms += round(seconds * SECOND_MS)


class WallTime:
    """The time of another clock, with an offset."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.off_by_ms = 0

    def now(self) -> Instant:
        return Instant(self._clock.now() + self.off_by_ms)

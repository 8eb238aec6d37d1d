"""What time it is: by hand in tests, or in step with real time, perhaps faster, where somebody watches."""

from __future__ import annotations

import time
from typing import Protocol

from fairpool.model.ids import SECOND_MS, Instant

EPOCH = Instant(0)


class Clock(Protocol):
    """Whoever has the time."""

    def now(self) -> Instant:
        """This moment."""


class VirtualClock:
    """Time that passes when told to.

    `now` is the true time of the world. `wall` is the clock on somebody's wall, which may be set wrong: what it shows
    jumps while the world goes on evenly.
    """

    def __init__(self, now: Instant = EPOCH) -> None:
        self._now = now
        self.wall = WrongClock(self)

    def now(self) -> Instant:
        return self._now

    def set(self, now: Instant) -> None:
        """The true time does not go back; for that there is the wall."""
        assert now >= self._now, f"time cannot go back from {self._now} to {now}"
        self._now = now

    def advance(self, seconds: float) -> None:
        self.set(Instant(self._now + round(seconds * SECOND_MS)))

    def jump(self, seconds: float) -> None:
        """The clock on the wall is set, forward or (below zero) back."""
        self.wall.off_by_ms += round(seconds * SECOND_MS)


class WrongClock:
    """Shows the time of another clock, so much late or early."""

    def __init__(self, right: Clock, off_by_ms: int = 0) -> None:
        self._right = right
        self.off_by_ms = off_by_ms

    def now(self) -> Instant:
        return Instant(self._right.now() + self.off_by_ms)


class WallClock:
    """Real time since `origin`, so many times as fast.

    It hangs on the time of day and not on the life of a process: with the same origin and speed, a process that
    starts later finds the simulation as much later.
    """

    def __init__(self, origin: Instant, speed: float = 1.0) -> None:
        self._origin = origin
        self._speed = speed
        self._latest = origin

    def now(self) -> Instant:
        elapsed_ms = time.time() * SECOND_MS - self._origin
        # The time of day may be set back while we run; ours then waits for it.
        self._latest = max(self._latest, Instant(self._origin + int(elapsed_ms * self._speed)))
        return self._latest

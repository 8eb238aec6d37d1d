"""Numbers that all processes of a world see: the time, and at which of its steps the control plane is to die."""

from __future__ import annotations

import mmap
import os
import signal
from pathlib import Path

from fairpool.model.ids import Instant
from tests.fault_injection.skewed_clock import SkewedClock

NOW, WALL, STEPS_LEFT, IS_DEAD = range(4)
NUMBERS = 4


class SharedNumbers:
    """A mapped file. One process creates it, the others open it."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(8 * NUMBERS))
        with path.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 8 * NUMBERS)
        self.numbers = memoryview(self._map).cast("q")

    def now(self) -> Instant:
        return Instant(self.numbers[NOW])

    def wall(self) -> Instant:
        return Instant(self.numbers[WALL])

    def take_step(self) -> None:
        """A step of the control plane. The last one that is left ends the process; 0 left: it may take any number."""
        left = self.numbers[STEPS_LEFT]
        self.numbers[STEPS_LEFT] = max(0, left - 1)
        if left == 1:
            self.numbers[IS_DEAD] = 1  # others notice the end of a process only some time later
            os.kill(os.getpid(), signal.SIGKILL)


class SharedClock(SkewedClock):
    """A virtual clock that other processes read."""

    def __init__(self, now: Instant, shared: SharedNumbers) -> None:
        self._shared = shared
        super().__init__(now)
        self._publish()

    def set(self, now: Instant) -> None:
        super().set(now)
        self._publish()

    def jump(self, seconds: float) -> None:
        super().jump(seconds)
        self._publish()

    def _publish(self) -> None:
        self._shared.numbers[NOW], self._shared.numbers[WALL] = self.now(), self.wall.now()

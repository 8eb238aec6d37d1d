"""Clocks of simulations."""

from __future__ import annotations

from typing import Protocol

from fairpool.model.ids import SECOND_MS, Instant

EPOCH = Instant(0)


class Clock(Protocol):
    """A source of time."""

    def now(self) -> Instant:
        """The current time."""


class VirtualClock:
    """Time that passes only when it is advanced."""

    def __init__(self, now: Instant = EPOCH) -> None:
        self._now = now

    def now(self) -> Instant:
        return self._now

    def set(self, now: Instant) -> None:
        """Set the time, never back."""
        assert now >= self._now, f"time cannot go back from {self._now} to {now}"
        self._now = now

    def advance(self, seconds: float) -> None:
        self.set(Instant(self._now + round(seconds * SECOND_MS)))

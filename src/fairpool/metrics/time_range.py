"""A question about a time: which slots answer it, and how they become at most as many points as asked for.

A point is the average of its slots, weighted with how much of each was measured. Where nothing was, there is no point.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from fairpool.metrics.block import Values, resampled
from fairpool.metrics.idle_time import idle_slots
from fairpool.metrics.resolution import DAY_S, FINE, HOUR_S, HOURS, MINUTES, Resolution, resolution_for

LOOK_BACK: Final = {FINE: HOUR_S, MINUTES: DAY_S, HOURS: DAY_S}
"""How far before a range it is looked when a device was last used."""


class Point(NamedTuple):
    """A value, and when the time that it is the average of begins."""

    at_s: int
    value: float


class SeriesSubject(NamedTuple):
    """One thing that is measured, and the group that its samples are kept in."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class Curve:
    """What is asked of a subject: columns with their factors, added up."""

    subject: SeriesSubject
    terms: Mapping[int, float]
    constant: float = 0.0
    is_idle_time: bool = False
    """Instead: for how many seconds a device has not been used."""


@dataclass(frozen=True, slots=True)
class TimeRange:
    """From `start_s` on and before `end_s`."""

    start_s: int
    end_s: int
    resolution: Resolution
    slots_per_point: int

    @classmethod
    def chosen(cls, start_s: int, end_s: int, samples: int, now_s: int) -> Self:
        """In the resolution that has enough slots for this many points."""
        resolution = resolution_for(start_s, end_s, samples, now_s)
        slots = _slots(start_s, end_s, resolution)
        return cls(start_s, end_s, resolution, -(-slots // samples))

    @property
    def first_s(self) -> int:
        """Where the first slot begins, which may be before the range."""
        return self.start_s - self.start_s % self.resolution.step_s

    @property
    def slots(self) -> int:
        return _slots(self.start_s, self.end_s, self.resolution)

    @property
    def point_count(self) -> int:
        return -(-self.slots // self.slots_per_point)

    @property
    def point_s(self) -> int:
        """The time that one point stands for."""
        return self.slots_per_point * self.resolution.step_s

    @property
    def look_back_slots(self) -> int:
        """Slots before the first that idle times are counted from."""
        return LOOK_BACK[self.resolution] // self.resolution.step_s

    def idle_times(self, values: Values) -> Values:
        """A column for each slot, of a device's slots from `look_back_slots` before the first one on."""
        return idle_slots(values)[:, self.look_back_slots :]

    def resampled(self, values: Values) -> Values:
        """A column for each point, from one for each slot."""
        return resampled(values, self.slots_per_point)

    def points(self, values: Values, curve: Curve) -> list[Point]:
        """Of a curve; `values` has a column for each point."""
        terms = {1: float(self.resolution.step_s)} if curve.is_idle_time else curve.terms
        if any(column >= len(values) for column in terms):  # kept before there was such a column
            return []
        total = sum(factor * values[column].astype(float) for column, factor in terms.items()) + curve.constant
        starts = (max(self.start_s, self.first_s + at * self.point_s) for at in range(values.shape[1]))
        return [
            Point(at_s, value) for at_s, value in zip(starts, map(float, total), strict=True) if not math.isnan(value)
        ]


def _slots(start_s: int, end_s: int, resolution: Resolution) -> int:
    first_s = start_s - start_s % resolution.step_s
    return max(1, -(-(end_s - first_s) // resolution.step_s))

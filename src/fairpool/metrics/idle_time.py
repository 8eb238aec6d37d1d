"""How long a device has done nothing, from its samples. A missing sample is not idleness: it begins to count anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from fairpool.metrics.block import COVERAGE, Values
from fairpool.metrics.catalogue import DeviceColumn, is_device
from fairpool.metrics.resolution import FINE

GAP_S: Final = 2 * FINE.step_s
"""Between two samples of a device: where more are missing, it begins to count anew."""


class IdleTimes:
    """For how long devices have done nothing, from one sample to the next."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float]] = {}

    def learn(self, group: str, subject: str, at_s: int, idle_s: float) -> None:
        """What is known from a sample of before."""
        self._known[group, subject] = (at_s, idle_s)

    def add(self, group: str, subjects: Sequence[str], values: Values, at_s: int) -> None:
        """Fills in the column of these samples: a row for each subject, without coverage."""
        for subject, row in zip(subjects, values, strict=True):
            if is_device(subject):
                idle_s = self._idle_s(group, subject, at_s, float(row[DeviceColumn.UTILIZATION - 1]))
                row[DeviceColumn.IDLE_S - 1] = idle_s
                self._known[group, subject] = (at_s, idle_s)

    def _idle_s(self, group: str, subject: str, at_s: int, utilization: float) -> float:
        if utilization != 0:
            return utilization * 0  # NaN: not measured
        before_s, idle_s = self._known.get((group, subject), (0, 0.0))
        if not 0 <= at_s - before_s <= GAP_S or np.isnan(idle_s):
            return float(FINE.step_s)
        return idle_s + (at_s - before_s)

    def forget_before(self, at_s: int) -> None:
        """Devices that are gone."""
        self._known = {key: known for key, known in self._known.items() if known[0] >= at_s}


def idle_slots(values: Values) -> Values:
    """The coverage, and for each slot of a device: so many slots up to its end without use; NaN: not measured."""
    if len(values) <= DeviceColumn.UTILIZATION:
        return np.full((2, values.shape[1]), np.nan, np.float32)
    utilization = values[DeviceColumn.UTILIZATION]
    numbers = np.arange(1, len(utilization) + 1)
    since = np.maximum.accumulate(np.where(utilization == 0, 0, numbers))
    idle = np.where(np.isnan(utilization), np.nan, numbers - since).astype(np.float32)
    return np.stack((values[COVERAGE], idle))

"""How long a device has done nothing, from its samples. A missing sample is not idleness: it begins to count anew."""

from __future__ import annotations

import numpy as np

from fairpool.metrics.block import COVERAGE, Values
from fairpool.metrics.catalogue import DeviceColumn


def idle_slots(values: Values) -> Values:
    """The coverage, and for each slot of a device: so many slots up to its end without use; NaN: not measured."""
    if len(values) <= DeviceColumn.UTILIZATION:
        return np.full((2, values.shape[1]), np.nan, np.float32)
    utilization = values[DeviceColumn.UTILIZATION]
    numbers = np.arange(1, len(utilization) + 1)
    since = np.maximum.accumulate(np.where(utilization == 0, 0, numbers))
    idle = np.where(np.isnan(utilization), np.nan, numbers - since).astype(np.float32)
    return np.stack((values[COVERAGE], idle))

"""What is in use now, from samples of the last minute."""

from __future__ import annotations

from typing import Final

import numpy as np

from fairpool.metrics.block import Values
from fairpool.metrics.catalogue import NODE_ITSELF, DeviceColumn, NodeColumn, PodDeviceColumn, WorkColumn
from fairpool.metrics.resolution import FINE

NOW_S: Final = 60
"""An older sample says nothing about now."""
IDLE_S: Final = 300
"""A device is idle after more than this without use."""
NODE_MEASURED: Final = (
    NodeColumn.GPU_UTILIZATION,
    NodeColumn.GPU_MEMORY_BYTES,
    NodeColumn.CPU_CORES,
    NodeColumn.MEMORY_BYTES,
)
DEVICE_MEASURED: Final = (DeviceColumn.UTILIZATION, DeviceColumn.MEMORY_BYTES)
WORK_MEASURED: Final = (
    WorkColumn.GPU_UTILIZATION,
    WorkColumn.GPU_MEMORY_BYTES,
    WorkColumn.CPU_CORES,
    WorkColumn.MEMORY_BYTES,
)
POD_DEVICE_MEASURED: Final = tuple(PodDeviceColumn)


def is_node_measured(subject: str, row: Values) -> bool:
    """Whether a sample of a node or device has more than what is held of it."""
    columns = NODE_MEASURED if subject == NODE_ITSELF else DEVICE_MEASURED
    return any(column < len(row) and not np.isnan(row[column]) for column in columns)


def is_work_measured(subject: str, row: Values) -> bool:
    """The same of a workload, a pod, or what a pod has of a device."""
    columns = WORK_MEASURED if subject.count("/") < 2 else POD_DEVICE_MEASURED
    return any(column < len(row) and not np.isnan(row[column]) for column in columns)


def amount(row: Values, column: int) -> float | None:
    """Of a sample; None: not measured."""
    if column >= len(row) or np.isnan(row[column]):
        return None
    return float(row[column])


def known_amounts(row: Values) -> dict[int, float]:
    """By column, of a sample without its coverage."""
    return {column: float(value) for column, value in enumerate(row, 1) if not np.isnan(value)}


def latest_amounts(values: Values) -> dict[int, float]:
    """By column: what was measured last, if that was not long ago."""
    found = ((column, _last(values[column])) for column in range(1, len(values)))
    return {column: value for column, value in found if value is not None}


def _last(row: Values) -> float | None:
    recent = row[-(NOW_S // FINE.step_s) :]
    known = recent[~np.isnan(recent)]
    return float(known[-1]) if len(known) else None

"""What a node uses now, from its samples of the last minutes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from fairpool.metrics.block import Values
from fairpool.metrics.catalogue import NODE_ITSELF, NodeColumn, device
from fairpool.metrics.idle_time import idle_slots
from fairpool.metrics.resolution import FINE

NOW_S: Final = 60
"""An older sample says nothing about now."""
IDLE_S: Final = 300
"""A device is idle after more than this without use."""
WINDOW_S: Final = IDLE_S + NOW_S


@dataclass(frozen=True, slots=True)
class NodeUse:
    """None: not measured within the last minute."""

    cpu_cores: float | None
    memory_bytes: float | None
    gpu_memory_bytes: float | None
    idle_devices: frozenset[int]


def node_use(subjects: Mapping[str, Values], gpus: int) -> NodeUse:
    """From the slots of a node and its devices; the last slot is that of now."""
    itself = subjects.get(NODE_ITSELF)
    return NodeUse(
        _latest(itself, NodeColumn.CPU_CORES),
        _latest(itself, NodeColumn.MEMORY_BYTES),
        _latest(itself, NodeColumn.GPU_MEMORY_BYTES),
        frozenset(index for index in range(gpus) if _is_idle(subjects.get(device(index)))),
    )


def known_amounts(row: Values) -> dict[int, float]:
    """By column, of a sample without its coverage."""
    return {column: float(value) for column, value in enumerate(row, 1) if not np.isnan(value)}


def latest_amounts(values: Values) -> dict[int, float]:
    """By column: what was measured last, if that was not long ago."""
    found = ((column, _last(values[column])) for column in range(1, len(values)))
    return {column: value for column, value in found if value is not None}


def _latest(values: Values | None, column: NodeColumn) -> float | None:
    if values is None or column >= len(values):
        return None
    return _last(values[column])


def _is_idle(values: Values | None) -> bool:
    if values is None:
        return False
    slots = _last(idle_slots(values)[1])
    return slots is not None and slots * FINE.step_s > IDLE_S


def _last(row: Values) -> float | None:
    recent = row[-(NOW_S // FINE.step_s) :]
    known = recent[~np.isnan(recent)]
    return float(known[-1]) if len(known) else None

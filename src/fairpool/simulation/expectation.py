"""Checks expected figures against the simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.model.ids import NodeName, WorkloadId
from fairpool.model.quantity import gpus_text
from fairpool.model.status import WorkloadPhase
from fairpool.simulation.checkpoint import Check
from fairpool.simulation.scenario import Expected, Figure, Value
from fairpool.simulation.step_tables import GONE
from fairpool.simulation.tally import preemptions
from fairpool.simulation.world import Stage

QUEUED = frozenset({WorkloadPhase.PENDING, WorkloadPhase.CREATING})
IN_GPUS = frozenset({Figure.ALLOCATED, Figure.PROJECT_ALLOCATED, Figure.NODE_ALLOCATED})


def checked(stage: Stage, phase: str, expected: Expected) -> Check:
    """Compare one figure with the world as it is."""
    reached = _reached(stage, expected)
    if isinstance(expected.value, int) and isinstance(reached, tuple):
        passed = expected.value == len(reached)
    else:
        passed = expected.value == reached
    if passed:
        reached = expected.value  # a number where a number was asked for; who it was matters when it is not right
    return Check(phase, str(expected), _text(expected, expected.value), _text(expected, reached), passed, stage.now)


def _reached(stage: Stage, expected: Expected) -> Value:
    of = expected.of
    match expected.figure:
        case Figure.ALLOCATED:
            return stage.gpus_held_milli()
        case Figure.PROJECT_ALLOCATED:
            return sum(level.gpus_milli for name, level in stage.levels().items() if stage.project_of(name) == of)
        case Figure.PROJECT_QUEUED:
            levels = stage.levels().items()
            return _names(name for name, each in levels if each.phase in QUEUED and stage.project_of(name) == of)
        case Figure.NODE_ALLOCATED:
            return stage.node_held_milli(NodeName(of))
        case Figure.PHASE:
            return _names(name for name, level in stage.levels().items() if level.phase.value == of)
        case Figure.JOB:
            level = stage.level(WorkloadId(of))
            return GONE if level is None else level.phase.value
    return sum(preemptions(stage.history()).values())


def _names(names: Iterable[WorkloadId]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _text(expected: Expected, value: Value) -> str:
    if expected.figure in IN_GPUS and isinstance(value, int):
        return gpus_text(value)
    if isinstance(value, tuple):
        return f"{len(value)}: {', '.join(value)}" if value else "0"
    return str(value)

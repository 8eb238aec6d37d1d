"""Checks expected figures against the simulated cluster."""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.model.ids import NodeName, WorkloadId
from fairpool.model.quantity import gpus_text
from fairpool.model.status import WorkloadPhase
from fairpool.simulation.checkpoint import Check
from fairpool.simulation.scenario import Expected, Figure, Value
from fairpool.simulation.simulated_cluster import SimulatedCluster
from fairpool.simulation.step_tables import GONE
from fairpool.simulation.tally import preemptions

QUEUED = frozenset({WorkloadPhase.PENDING, WorkloadPhase.CREATING})
IN_GPUS = frozenset({Figure.ALLOCATED, Figure.PROJECT_ALLOCATED, Figure.NODE_ALLOCATED})


def compare(cluster: SimulatedCluster, phase: str, expected: Expected) -> Check:
    """Compare one figure with the cluster as it is now."""
    reached = _reached(cluster, expected)
    if isinstance(expected.value, int) and isinstance(reached, tuple):
        passed = expected.value == len(reached)
    else:
        passed = expected.value == reached
    if passed:
        reached = expected.value  # a number where a number was asked for; who it was matters when it is not right
    return Check(phase, str(expected), _text(expected, expected.value), _text(expected, reached), passed, cluster.now)


def _reached(cluster: SimulatedCluster, expected: Expected) -> Value:
    of = expected.of
    match expected.figure:
        case Figure.ALLOCATED:
            return cluster.gpus_held_milli()
        case Figure.PROJECT_ALLOCATED:
            return sum(
                report.gpus_milli for name, report in cluster.reports().items() if cluster.project_of(name) == of
            )
        case Figure.PROJECT_QUEUED:
            reports = cluster.reports().items()
            return _names(name for name, each in reports if each.phase in QUEUED and cluster.project_of(name) == of)
        case Figure.NODE_ALLOCATED:
            return cluster.node_held_milli(NodeName(of))
        case Figure.PHASE:
            return _names(name for name, report in cluster.reports().items() if report.phase.value == of)
        case Figure.JOB:
            report = cluster.report(WorkloadId(of))
            return GONE if report is None else report.phase.value
    return sum(preemptions(cluster.history()).values())


def _names(names: Iterable[WorkloadId]) -> tuple[str, ...]:
    return tuple(sorted(names))


def _text(expected: Expected, value: Value) -> str:
    if expected.figure in IN_GPUS and isinstance(value, int):
        return gpus_text(value)
    if isinstance(value, tuple):
        return f"{len(value)}: {', '.join(value)}" if value else "0"
    return str(value)

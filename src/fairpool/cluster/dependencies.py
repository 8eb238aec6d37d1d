"""Dependencies between workloads: which are met, and which can no longer be met. Pure.

That a dependency was met is kept in the workload's state, because the workload it names may be deleted long before the
dependent one runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import StrEnum

from fairpool.cluster.workload_state import Halt, WorkloadState
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.spec import Dependency, DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase


class WorkloadOutcome(StrEnum):
    """What became of a workload, for those that depend on it."""

    OPEN = "open"
    """It may still complete: it waits, runs, or is suspended."""
    COMPLETED = "completed"
    FAILED = "failed"
    GONE = "deleted"


OutcomeOf = Callable[[WorkloadId], WorkloadOutcome]


def outcome_of(spec: WorkloadSpec | None, state: WorkloadState) -> WorkloadOutcome:
    """What became of a workload, from its declaration and its state."""
    halt = state.halt if spec is None or spec.run <= state.run else None
    if halt is not None and halt.phase is WorkloadPhase.COMPLETED:
        return WorkloadOutcome.COMPLETED
    if halt is not None and halt.phase is WorkloadPhase.FAILED:
        return WorkloadOutcome.FAILED
    return WorkloadOutcome.GONE if spec is None or spec.desired_state is DesiredState.DELETE else WorkloadOutcome.OPEN


def with_met_dependencies(
    spec: WorkloadSpec, state: WorkloadState, pods: Sequence[PodRecord], outcomes: OutcomeOf
) -> WorkloadState:
    """The state with every dependency that is met by now. A workload that has pods has met all of them."""
    if not unmet_dependencies(spec, state):
        return state
    met = tuple(each.workload for each in spec.after if pods or _is_met(each, state, outcomes))
    return replace(state, met=met) if met != state.met else state


def _is_met(dependency: Dependency, state: WorkloadState, outcomes: OutcomeOf) -> bool:
    if dependency.workload in state.met:
        return True
    outcome = outcomes(dependency.workload)
    return outcome is WorkloadOutcome.COMPLETED or (dependency.any_end and outcome is not WorkloadOutcome.OPEN)


def unmet_dependencies(spec: WorkloadSpec, state: WorkloadState) -> list[Dependency]:
    """The dependencies it still waits for."""
    return [each for each in spec.after if each.workload not in state.met]


def failed_dependency(spec: WorkloadSpec, state: WorkloadState, outcomes: OutcomeOf, now: Instant) -> Halt | None:
    """The failure of a workload with a dependency that can no longer be met."""
    words = {WorkloadOutcome.FAILED: "failed", WorkloadOutcome.GONE: "was deleted"}
    for each in unmet_dependencies(spec, state):
        outcome = outcomes(each.workload)
        if outcome in words:
            detail = f"dependency failed: {each.name} {words[outcome]}, and this job starts only after it completes"
            return Halt(WorkloadPhase.FAILED, Cause.DEPENDENCY, now, detail)
    return None


def waiting_text(dependencies: Sequence[Dependency]) -> str:
    """`waits for prep and clean to finish`."""
    names = [each.name for each in dependencies]
    shown = names if len(names) <= 3 else [*names[:2], f"{len(names) - 2} others"]
    joined = " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1])))
    return f"waits for {joined} to finish"

"""State of a workload that is recorded beside its pods: failures, timers, the pool it waits in, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, WorkloadId
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.status import WorkloadPhase


@dataclass(frozen=True, slots=True)
class Halt:
    """How a workload ended. No pod of it runs until a user resumes it, if it can be resumed."""

    phase: WorkloadPhase
    cause: Cause
    at: Instant
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GroupDates:
    """Dates of a pod group that the scheduler needs in later cycles."""

    group: GroupId
    started_at: Instant | None = None
    stale_since: Instant | None = None


@dataclass(frozen=True, slots=True)
class AvoidedNode:
    """A node that refused a pod of this workload recently."""

    node: NodeName
    until: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """The state of one workload in one of its runs."""

    workload: WorkloadId
    run: int = 0
    failures: int = 0
    refusals: int = 0
    """Starts that failed since one last succeeded: a node refused, or the image could not be pulled."""
    failure: str = ""
    """Message of the latest failure or refusal of this run."""
    first_incarnation: int = 0
    """Incarnations start here: above 0 after the ledger was lost, because earlier ones may have been used."""
    retry_at: Instant = Instant(0)
    """When pods of a gang that failed are tried again. What fails until then belongs to the same failure."""
    halt: Halt | None = None
    active_since: Instant | None = None
    """When it first ran in this run."""
    pool: PoolName | None = None
    """The node pool it waits in."""
    groups: tuple[GroupDates, ...] = ()
    avoided: tuple[AvoidedNode, ...] = ()
    met: tuple[WorkloadId, ...] = ()
    """Workloads it depended on and that have ended as required: they may be deleted by now."""

    def next_incarnation(self, last: PodRecord | None) -> int:
        """The incarnation of the pod after `last`; the first one only if the index never had a pod."""
        if last is None:
            return self.first_incarnation
        return max(last.incarnation, self.first_incarnation) + 1

    def dates(self, group: GroupId) -> GroupDates:
        return next((each for each in self.groups if each.group == group), GroupDates(group))

    @property
    def has_stale_group(self) -> bool:
        return any(each.stale_since is not None for each in self.groups)

"""What is remembered of a workload beside its pods: failures, clocks, the pool it tries, and that it came to an end."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, WorkloadId
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.status import WorkloadPhase


@dataclass(frozen=True, slots=True)
class Halt:
    """Nothing of this workload runs until a person resumes it, if it can be resumed."""

    phase: WorkloadPhase
    cause: Cause
    at: Instant
    detail: str = ""


@dataclass(frozen=True, slots=True)
class GroupDates:
    """The two dates of a pod group that outlive a cycle."""

    group: GroupId
    started_at: Instant | None = None
    stale_since: Instant | None = None


@dataclass(frozen=True, slots=True)
class AvoidedNode:
    """A node that refused its pods lately."""

    node: NodeName
    until: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadState:
    """One workload in one of its runs."""

    workload: WorkloadId
    run: int = 0
    failures: int = 0
    refusals: int = 0
    """Starts that did not happen since one last did: a node refused, or the image could not be had."""
    failure: str = ""
    """The latest failure or refusal of this run, in words."""
    first_incarnation: int = 0
    """Lives are counted from here: above 0 when the ledger was lost and earlier numbers may have been used."""
    halt: Halt | None = None
    active_since: Instant | None = None
    """When it first ran in this run."""
    pool: PoolName | None = None
    """The node pool it tries now."""
    groups: tuple[GroupDates, ...] = ()
    avoided: tuple[AvoidedNode, ...] = ()
    met: tuple[WorkloadId, ...] = ()
    """Workloads it had to wait for and that have ended as it wanted: they may be gone by now."""

    def next_incarnation(self, last: PodRecord | None) -> int:
        """The number of the life after this one. Only a pod that never lived has the first: also an adopted one did."""
        if last is None:
            return self.first_incarnation
        return max(last.incarnation, self.first_incarnation) + 1

    def dates(self, group: GroupId) -> GroupDates:
        return next((each for each in self.groups if each.group == group), GroupDates(group))

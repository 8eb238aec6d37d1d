"""History of workloads: the events that are recorded with every change, and reported to the control plane."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpool.cluster.grace_period import grace_text
from fairpool.model.decision_record import DecisionRecord
from fairpool.model.ids import Instant, NodeName, PodId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Outcome, PodRecord
from fairpool.model.pod_usage import PodUsage


class EventKind(StrEnum):
    """What happened."""

    CREATED = "created"
    PROMISED = "promised"
    WITHDRAWN = "withdrawn"
    BOUND = "bound"
    STARTED = "started"
    RELEASING = "releasing"
    ENDED = "ended"
    HALTED = "halted"
    RESUMED = "resumed"
    NEAR_LIMIT = "near-limit"
    """A workload that leaves its GPUs idle will soon be stopped."""
    ADOPTED = "adopted"

    @classmethod
    def _missing_(cls, value: object) -> EventKind | None:
        return cls.CREATED if value == "born" else None  # in ledgers from before it was renamed


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of history. The ledger numbers it."""

    at: Instant
    kind: EventKind
    workload: WorkloadId
    pod: PodId | None = None
    node: NodeName | None = None
    cause: str = ""
    """A `Cause`, where there is one."""
    detail: str = ""
    outcome: Outcome | None = None
    """Of an ENDED pod. Reports have the latest pod of each index, the history has all of them."""
    exit_code: int | None = None
    usage: PodUsage | None = None
    """Of a pod that is CREATED, BOUND, ADOPTED or ENDED, so that its usage can be counted from any of these lines."""
    decision: DecisionRecord | None = None
    """Of the first event that follows from a decision of the scheduler about a workload."""


PHASE_EVENTS: Mapping[PodPhase, EventKind] = {
    PodPhase.WAITING: EventKind.CREATED,
    PodPhase.PROMISED: EventKind.PROMISED,
    PodPhase.BOUND: EventKind.BOUND,
    PodPhase.RUNNING: EventKind.STARTED,
    PodPhase.RELEASING: EventKind.RELEASING,
    PodPhase.ENDED: EventKind.ENDED,
}


ACCOUNTED = frozenset({EventKind.CREATED, EventKind.BOUND, EventKind.ENDED})
"""Kinds of events with which the usage of a pod begins, changes or ends."""


def pod_events(pod: PodRecord, before: PodPhase | None, now: Instant, usage: PodUsage | None) -> Iterator[Event]:
    """The events of a pod that was in another phase before, or did not exist (None)."""
    if before is PodPhase.PROMISED and pod.phase is PodPhase.WAITING:
        kind = EventKind.WITHDRAWN
    else:
        kind = PHASE_EVENTS[pod.phase]
    if before is None and kind is not EventKind.CREATED:
        yield Event(at=now, kind=EventKind.CREATED, workload=pod.workload, pod=pod.id, usage=usage)
    yield Event(
        at=now,
        kind=kind,
        workload=pod.workload,
        pod=pod.id,
        node=pod.node,
        cause=pod.cause.value if pod.cause is not None else "",
        detail=_detail(pod),
        outcome=pod.outcome,
        exit_code=pod.exit_code,
        usage=usage if kind in ACCOUNTED else None,
    )


def _detail(pod: PodRecord) -> str:
    words = pod.detail or pod.start_failure
    if pod.phase is not PodPhase.RELEASING:
        return words
    return f"{words}; {grace_text(pod.grace_s)}" if words else grace_text(pod.grace_s)

"""What happened to whom: the lines of a workload's history, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.ids import Instant, NodeName, PodId, WorkloadId
from fairpool.model.pod_record import Outcome


class EventKind(StrEnum):
    """What can happen."""

    BORN = "born"
    PROMISED = "promised"
    WITHDRAWN = "withdrawn"
    BOUND = "bound"
    STARTED = "started"
    RELEASING = "releasing"
    ENDED = "ended"
    HALTED = "halted"
    RESUMED = "resumed"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One line of history. The ledger gives it its number."""

    at: Instant
    kind: EventKind
    workload: WorkloadId
    pod: PodId | None = None
    node: NodeName | None = None
    cause: str = ""
    """A `Cause`, where there is one."""
    detail: str = ""
    outcome: Outcome | None = None
    """Of an end, how it ended: the level tells of the latest life only, the history of every one."""
    exit_code: int | None = None

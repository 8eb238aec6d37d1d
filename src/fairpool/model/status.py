"""Phases of workloads, and the table that maps them to classic status names.

Inside there is one set of phases, each with a cause beside it. Older commands and the older API speak of `Succeeded`,
`TimedOut` or `CrashLoopBackOff`; those words are made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from fairpool.model.pod_record import Cause
from fairpool.model.workload import WorkloadKind


class WorkloadPhase(StrEnum):
    """The phase of a workload."""

    CREATING = "Creating"
    """Declared; the cluster has not seen it yet."""
    PENDING = "Pending"
    """Waits for a place, or for the end of a back-off."""
    INITIALIZING = "Initializing"
    """Has its places; not all pods it needs are running yet."""
    RUNNING = "Running"
    """At least the pods it needs run."""
    DEGRADED = "Degraded"
    """Runs, but not as declared: a node is silent, or replicas are missing."""
    STOPPED = "Stopped"
    """Holds nothing and can be resumed."""
    DELETING = "Deleting"
    FAILED = "Failed"
    COMPLETED = "Completed"


HOLDS_NOTHING = frozenset({WorkloadPhase.STOPPED, WorkloadPhase.FAILED, WorkloadPhase.COMPLETED})
"""Phases that last until a user does something."""


class WaitReason(StrEnum):
    """Why a workload that should run does not (all of it). Beside `Cause`, which is about ends."""

    DEPENDENCY = "dependency"
    """Waits for another workload to end."""
    QUEUED = "queued"
    """The scheduler has not placed it; the reason is in its verdict."""
    BACK_OFF = "back-off"
    """Failed, and waits before it is tried again. Holds nothing meanwhile."""
    STARTING = "starting"
    IMAGE = "image"
    """The image cannot be fetched; after the first attempt it holds nothing and waits before it is tried again."""
    EVICTED = "evicted"
    """Being evicted; it will be placed again."""
    STOPPING = "stopping"
    NODE_SILENT = "node-silent"
    SHORT = "short"
    """Fewer pods than declared."""


Reason = Cause | WaitReason | None

ANY = None

CLASSIC: tuple[tuple[WorkloadPhase, Reason, WorkloadKind | None, str], ...] = (
    # The first row that matches counts; None matches everything.
    (WorkloadPhase.PENDING, WaitReason.BACK_OFF, WorkloadKind.TRAIN, "Error"),
    (WorkloadPhase.PENDING, WaitReason.BACK_OFF, ANY, "CrashLoopBackOff"),
    (WorkloadPhase.PENDING, WaitReason.IMAGE, ANY, "ImagePullBackOff"),
    (WorkloadPhase.PENDING, WaitReason.EVICTED, ANY, "Terminating"),
    (WorkloadPhase.INITIALIZING, WaitReason.IMAGE, ANY, "ImagePullBackOff"),
    (WorkloadPhase.INITIALIZING, ANY, ANY, "ContainerCreating"),
    (WorkloadPhase.RUNNING, WaitReason.STOPPING, ANY, "Terminating"),
    (WorkloadPhase.DEGRADED, ANY, ANY, "Running"),
    (WorkloadPhase.STOPPED, Cause.PREEMPTED, ANY, "Preempted"),
    (WorkloadPhase.STOPPED, Cause.TIME_LIMIT, ANY, "TimedOut"),
    (WorkloadPhase.STOPPED, Cause.IDLE_LIMIT, ANY, "TimedOut"),
    (WorkloadPhase.STOPPED, ANY, ANY, "Suspended"),
    (WorkloadPhase.DELETING, ANY, ANY, "Terminating"),
    (WorkloadPhase.FAILED, Cause.REFUSED, ANY, "ContainerCannotRun"),
    (WorkloadPhase.FAILED, Cause.IMAGE, ANY, "ContainerCannotRun"),
    (WorkloadPhase.COMPLETED, ANY, ANY, "Succeeded"),
    (WorkloadPhase.CREATING, ANY, ANY, "Pending"),
)

_EXACT: Mapping[WorkloadPhase, str] = MappingProxyType({phase: phase.value for phase in WorkloadPhase})

CLASSIC_WORDS = tuple(sorted({*(word for *_, word in CLASSIC), *_EXACT.values()}))
"""Every status that a list can show, classic words and phases."""


def classic_word(phase: WorkloadPhase, reason: Reason, kind: WorkloadKind) -> str:
    """The status that older commands show."""
    for row_phase, row_reason, row_kind, word in CLASSIC:
        if row_phase is phase and row_reason in (ANY, reason) and row_kind in (ANY, kind):
            return word
    return _EXACT[phase]

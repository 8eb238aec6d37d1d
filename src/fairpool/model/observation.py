"""What the cluster tells an engine to do, and what an engine can say it saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, Token, WorkloadId
from fairpool.model.node import Node
from fairpool.model.spec import DEFAULT_GRACE_S, Program
from fairpool.model.workload import PodShape, WorkloadKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Start this life, here, on these devices. The engine keeps it beside the pod: it is what a lost ledger is
    rebuilt from."""

    pod: PodId
    workload: WorkloadId
    index: int
    incarnation: int
    group: GroupId
    pod_set: str
    run: int
    name: str
    """The name of the workload, for people and for the pod's environment."""
    project: QueueId
    kind: WorkloadKind
    node: NodeName
    boot_id: str
    """The node must still be in this boot, otherwise the order is void."""
    devices: tuple[int, ...]
    shape: PodShape
    program: Program
    born_at: Instant
    grace_s: int = DEFAULT_GRACE_S
    pods: int = 1
    """Pods of the workload."""
    together: bool = False
    """They are one run and must find each other, unlike those of a sweep."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Give notice to this life, wait its grace, then end it; a life that never started must not start any more."""

    pod: PodId
    node: NodeName | None
    grace_s: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOrder:
    """The end of this life is written down everywhere: its traces may go."""

    pod: PodId
    node: NodeName | None


Order = StartOrder | StopOrder | ForgetOrder


class OrderStatus(StrEnum):
    """What an engine says to one order."""

    DONE = "done"
    """Also when it had been done before."""
    LATER = "later"
    """Not now; ask again."""
    REFUSED = "refused"
    """Not here, and asking again will not help."""
    UNKNOWN = "unknown"
    """No answer came: it may have been done or not."""


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The reply to one order, with the engine's words."""

    pod: PodId
    status: OrderStatus
    message: str = ""


class PodState(StrEnum):
    """What an engine sees of a pod."""

    STARTING = "starting"
    """It has the order: pulling the image, making room."""
    RUNNING = "running"
    EXITED = "exited"


EVICTED = "Evicted: "
"""How an engine begins to say that it stopped a pod because of what that did; it counts as a failure of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """One pod as the engine sees it."""

    order: StartOrder
    state: PodState
    exit_code: int | None = None
    message: str = ""
    """What the engine has to say about it: why it does not start, by what it was killed."""
    running_since: Instant | None = None
    after_notice: bool = False
    """Of an exited pod: it had been told to stop. What ended by itself before that has done its work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node as the engine sees it."""

    node: Node
    boot_id: str
    silent_since: Instant | None = None
    """When it was last heard of, if it does not answer now."""
    gone: bool = False
    """Nothing of what ran there can still be running: its agent has stopped everything by now, or somebody said so.
    The engine decides it, by a clock that does not jump."""
    message: str = ""
    """What the engine has to say about it: which of its devices are withheld, and why."""
    images: tuple[str, ...] | None = None
    """Patterns of the images it can run, see `model.image_name`; None: whatever can be pulled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything an engine sees, at a moment after it was asked. What is not in it does not exist, except pods on
    silent nodes."""

    at: Instant
    nodes: Mapping[NodeName, ObservedNode] = field(default_factory=dict)
    pods: Mapping[PodId, ObservedPod] = field(default_factory=dict)
    token: Token = Token(0)
    """The highest token it has been shown."""

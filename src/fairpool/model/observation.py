"""Orders to an engine, their results, and the observed state of nodes and pods."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fairpool.model.container_rules import Privilege
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, Token, WorkloadId
from fairpool.model.node import Node
from fairpool.model.pod_usage import PodUsage
from fairpool.model.spec import DEFAULT_GRACE_S, DistributedRun, Program
from fairpool.model.workload import PodShape, WorkloadKind


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOrder:
    """Start this pod on this node and these devices. The engine keeps it beside the pod: a lost ledger is rebuilt from
    such orders."""

    pod: PodId
    workload: WorkloadId
    index: int
    incarnation: int
    group: GroupId
    pod_set: str
    run: int
    name: str
    """The name of the workload, for messages and for the pod's environment."""
    project: QueueId
    kind: WorkloadKind
    node: NodeName
    boot_id: str
    """The node must still be in this boot, otherwise the order is void."""
    devices: tuple[int, ...]
    shape: PodShape
    program: Program
    created_at: Instant
    grace_s: int = DEFAULT_GRACE_S
    pods: int = 1
    """Pods of the workload."""
    together: bool = False
    """They are one run and must find each other, unlike those of a sweep."""
    minimum: int | None = None
    """Of an elastic run: how many of them are enough."""
    distributed: DistributedRun | None = None
    usage: PodUsage | None = None
    """What it was given, for the accounting of a rebuilt ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StopOrder:
    """Send SIGTERM to this pod and kill it after its grace period; one that never started must not start any more."""

    pod: PodId
    node: NodeName | None
    grace_s: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForgetOrder:
    """The end of this pod is recorded everywhere: its files may be removed."""

    pod: PodId
    node: NodeName | None
    with_output: bool = False
    """Its output too, and that of pods of its workload that were forgotten before."""


Order = StartOrder | StopOrder | ForgetOrder


class OrderStatus(StrEnum):
    """How an engine replied to one order."""

    DONE = "done"
    """Also when it had been done before."""
    LATER = "later"
    """Not now; ask again."""
    REFUSED = "refused"
    """Not here, and asking again will not help."""
    UNKNOWN = "unknown"
    """No reply arrived: it may have been done or not."""


@dataclass(frozen=True, slots=True)
class OrderResult:
    """The engine's reply to one order."""

    pod: PodId
    status: OrderStatus
    message: str = ""


class PodState(StrEnum):
    """What an engine sees of a pod."""

    STARTING = "starting"
    """It has the order: pulling the image, making room."""
    RUNNING = "running"
    EXITED = "exited"


CONFIG_ERROR = "CreateContainerConfigError"
"""How the message about a start begins that lacks something which users declare, such as a credential: no other node
could start it either."""
EVICTED = "Evicted: "
"""How a message begins when the engine stopped a pod because of what the pod did; it counts as a failure of the pod."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPod:
    """One pod as the engine sees it."""

    order: StartOrder
    state: PodState
    exit_code: int | None = None
    message: str = ""
    """Why it does not start, or by what it was killed."""
    running_since: Instant | None = None
    after_notice: bool = False
    """Of an exited pod: it was being stopped. A pod that exited by itself before that has finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedNode:
    """One node as the engine sees it."""

    node: Node
    boot_id: str
    silent_since: Instant | None = None
    """When it last answered, if it does not answer now."""
    gone: bool = False
    """Nothing that ran there can still run: its agent has stopped everything by now, or an administrator confirmed
    it. The engine decides it, by a monotonic clock."""
    message: str = ""
    """Which of its devices are withheld, and why."""
    images: tuple[str, ...] | None = None
    """Patterns of the images it can run, see `model.image_name`; None: whatever can be pulled."""
    privileges: tuple[Privilege, ...] | None = None
    """What its containers may be given; None: its pods do not run in containers, or it is not known."""
    directory_users: bool = False
    """Its pods are processes that can run with the uid and gid of a directory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Everything an engine sees, at a moment after it was asked. What is not in it does not exist, except pods on
    silent nodes."""

    at: Instant
    nodes: Mapping[NodeName, ObservedNode] = field(default_factory=dict)
    pods: Mapping[PodId, ObservedPod] = field(default_factory=dict)
    token: Token = Token(0)
    """The highest fencing token it has seen."""
    number: int = 0
    """Counts the observations of one engine that differ from the one before."""
    changed_pods: frozenset[PodId] | None = None
    """Pods that are not as in the observation with the number before, or not in it any more; None: not known."""

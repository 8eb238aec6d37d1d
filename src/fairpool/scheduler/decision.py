"""The parts of a plan: binds, promises, evictions, and a verdict for every group left waiting.

All of it is data. Sentences are made from it in `explain.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fairpool.model.ids import ClaimId, GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.problem import Problem
from fairpool.scheduler.policy import Pass


@dataclass(frozen=True, slots=True)
class Bind:
    """Start this pod now: its place is free."""

    pod: PodId
    group: GroupId
    node: NodeName
    devices: tuple[int, ...] = ()
    claims: tuple[tuple[ClaimId, tuple[str, ...]], ...] = ()
    """Claims that this bind allocates, with their devices."""


@dataclass(frozen=True, slots=True)
class Promise:
    """This pod has a place as soon as others have left it."""

    pod: PodId
    group: GroupId
    node: NodeName
    devices: tuple[int, ...]
    since: Instant


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """What a queue is owed, may fairly have and holds, of GPUs, in thousandths."""

    queue: QueueId
    quota_milli: int
    fair_share_milli: int
    held_milli: int


@dataclass(frozen=True, slots=True)
class EvictionReason:
    """For which group and by which pass a pod is evicted."""

    by: Pass
    winner: GroupId | None = None
    """None for a stale gang, which is evicted for no other group."""
    taken: QueueFigures | None = None
    """For reclaim, the figures of the two queues at the level where they part, before anything was taken."""
    gaining: QueueFigures | None = None
    wanted_milli: int = 0
    """GPUs that the winner asks for."""
    moved_to: NodeName | None = None
    restarts_with_group: bool = False
    """It could have stayed where it is, but its gang restarts as a whole."""


@dataclass(frozen=True, slots=True)
class Evict:
    """Stop this pod."""

    pod: PodId
    group: GroupId
    node: NodeName
    reason: EvictionReason


class WithdrawReason(StrEnum):
    """Why a promise is not kept."""

    EXPIRED = "expired"
    NODE_GONE = "node gone"
    NO_LONGER_FITS = "no longer fits"


@dataclass(frozen=True, slots=True)
class Withdraw:
    """A promise of an earlier cycle that is given up."""

    pod: PodId
    group: GroupId
    node: NodeName
    why: WithdrawReason


class Resource(StrEnum):
    """The three resources that quotas are about."""

    GPU = "gpu"
    CPU = "cpu"
    MEMORY = "memory"


@dataclass(frozen=True, slots=True)
class NotReady:
    """Fewer pods exist than the group needs to start."""

    pod_set: str
    needs: int
    exist: int
    gated: int = 0


@dataclass(frozen=True, slots=True)
class NoQueue:
    """Its queue does not exist, or is not one that can hold pods."""

    queue: QueueId
    exists: bool


@dataclass(frozen=True, slots=True)
class OverLimit:
    """It would take a queue on its path beyond its limit."""

    queue: QueueId
    above: int
    """How far above the group's own queue: 0 is its project, 1 the department."""
    resource: Resource
    limit: int
    held: int
    asked: int


@dataclass(frozen=True, slots=True)
class OverQuota:
    """It may not be preempted, so it must stay within quota, and a queue on its path has not enough left."""

    queue: QueueId
    above: int
    resource: Resource
    quota: int
    held: int
    """By pods that may not be preempted either."""
    asked: int


GPUS_WITHHELD = "GPUs failed or used by processes outside Fairpool"
"""What excludes a node that has enough devices, and may not give them out."""


@dataclass(frozen=True, slots=True)
class NoNodeMatches:
    """No node would take one of its pods even if it were empty."""

    nodes: int
    excluded: tuple[tuple[str, int], ...]
    """What excludes nodes, and how many, the first cause of each node counted; most excluding first."""


@dataclass(frozen=True, slots=True)
class Fragmented:
    """Enough is free in total, but not together."""

    asked_milli: int
    """GPUs of one pod, which must be on one node (or on one device)."""
    pods: int
    found: int
    """How many of the pods there would be room for."""
    free_milli: int
    largest_milli: int
    largest_node: NodeName | None
    one_device: bool
    """The pod asks for a portion of a device: `largest_milli` is the free part of one device."""


@dataclass(frozen=True, slots=True)
class NoDomainFits:
    """Its pods must be together in one domain of a topology, and no domain has room for all of them."""

    topology: str
    level: str
    pods: int
    most_in_one: int
    domain: str


@dataclass(frozen=True, slots=True)
class WaitsForVictims:
    """It has a promise: it starts when the pods that must leave have left."""

    nodes: tuple[NodeName, ...]
    leaving: int
    since: Instant


@dataclass(frozen=True, slots=True)
class ProtectedVictims:
    """Pods that it could take GPUs from are within their minimum runtime."""

    pods: int
    gpus_milli: int
    until: Instant


@dataclass(frozen=True, slots=True)
class NeverFits:
    """All the nodes that could take its pods, empty and in service, have no room for as many as must start together."""

    pods: int
    """That must start together."""
    room: int
    """How many of them there would be room for."""
    asked_milli: int
    """GPUs of all these pods."""
    gpus_milli: int
    """GPUs of all these nodes."""
    nodes: int


@dataclass(frozen=True, slots=True)
class Obstacle:
    """The quota that keeps a group, within its project's quota, from getting back what its project is owed."""

    queue: QueueId
    resource: Resource
    quota: int
    held: int
    asked: int
    mine: bool
    """It is a queue above the group's own; otherwise one that holds what the group is owed."""
    is_department: bool = True
    follows: bool = False
    """Unlimited and a department: some project of it is unlimited too, which it may follow."""


@dataclass(frozen=True, slots=True)
class NotItsTurn:
    """Not enough is free, and by the rules of sharing it may not reclaim or preempt more now."""

    figures: QueueFigures
    asked_milli: int
    pods: int
    found: int
    free_milli: int
    ahead: QueueFigures | None
    """The other project that holds most, if any holds something."""
    may_reclaim: bool
    """It is within its fair share, but no queue holds more than it should in a place where it fits."""
    obstacle: Obstacle | None = None


@dataclass(frozen=True, slots=True)
class NoRoom:
    """It asks for no GPU, and there is not enough CPU, memory, pod slots or another resource where it may run."""

    excluded: tuple[tuple[str, int], ...]
    pods: int
    found: int


Why = (
    NotReady
    | NoQueue
    | OverLimit
    | OverQuota
    | NoNodeMatches
    | NeverFits
    | Fragmented
    | NoDomainFits
    | WaitsForVictims
    | ProtectedVictims
    | NotItsTurn
    | NoRoom
)


@dataclass(frozen=True, slots=True)
class ClosedNode:
    """A node on which an administrator lets nothing start."""

    name: NodeName
    cordoned: bool
    drained: bool


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a group, or a part of it, is left waiting. Groups that wait alike share one."""

    why: Why
    waiting: int
    """Pods that wait."""
    running: int
    """Pods that hold or get a place; above 0 for an elastic group that waits to grow."""
    at: Instant
    """When this was so."""
    closed: tuple[ClosedNode, ...] = ()
    """Nodes that an administrator took out of service: back in service, they would let it start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to do, and why the rest waits. The same snapshot gives the same plan, to the byte."""

    evictions: tuple[Evict, ...] = ()
    binds: tuple[Bind, ...] = ()
    promises: tuple[Promise, ...] = ()
    withdrawals: tuple[Withdraw, ...] = ()
    started: tuple[GroupId, ...] = ()
    """Groups that get their first pods bound: their minimum runtime begins now."""
    stale: tuple[GroupId, ...] = ()
    """Groups with fewer pods than they need; the ledger records since when."""
    verdicts: Mapping[GroupId, Verdict] = field(default_factory=dict)
    queues: tuple[QueueFigures, ...] = ()
    problems: tuple[Problem, ...] = ()
    """What was wrong with the snapshot and had to be planned around."""
    quiet_until: Instant | None = None
    """Until then time alone changes nothing; None: for ever."""
    is_final: bool = field(default=False, compare=False)
    """It is known that, once this is carried out, planning again would change nothing. What is decided does not depend
    on how much is known, so plans are compared without it."""

    @property
    def is_empty(self) -> bool:
        """Nothing to do."""
        return not (self.evictions or self.binds or self.promises or self.withdrawals)

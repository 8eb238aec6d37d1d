"""Departments and projects, their quotas as queues of the scheduler, and all else that is declared for a cluster."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fairpool.model.ids import Instant, NodeName, PoolName, QueueId
from fairpool.model.node import DEFAULT_POOL, Node, NodePool, Taint, Topology
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, gpus_text

DEFAULT_QUEUE_PRIORITY = 100


class OverQuotaChoice(StrEnum):
    """Priority for idle GPUs beyond the quota."""

    OFF = "off"
    LOWEST = "lowest"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


@dataclass(frozen=True, slots=True)
class Entitlement:
    """What a queue has of one resource: owed, at most, and its weight when the rest is lent."""

    quota: int = UNLIMITED
    limit: int = UNLIMITED
    weight: float = 1.0
    usage: float = 0.0
    """Part of the capacity it held over the accounting window, 0 when time-based sharing is off."""


DEPARTMENT_PREFIX = "department/"


def department_queue(name: str) -> QueueId:
    """The queue of a department: a slash is in no project's name, so the two never meet."""
    return QueueId(f"{DEPARTMENT_PREFIX}{name}")


def name_of_queue(queue: QueueId) -> str:
    """The name of the project or department."""
    return queue.removeprefix(DEPARTMENT_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """An owner of quota, as the scheduler sees it. Only queues without children hold pod groups."""

    id: QueueId
    parent: QueueId | None = None
    priority: int = DEFAULT_QUEUE_PRIORITY
    created_at: Instant = Instant(0)
    gpu: Entitlement = Entitlement(quota=0)
    """In thousandths of a GPU."""
    cpu: Entitlement = Entitlement()
    """In thousandths of a core."""
    memory: Entitlement = Entitlement()
    """In bytes."""
    preempt_min_runtime_s: int | None = None
    reclaim_min_runtime_s: int | None = None
    over_quota: OverQuotaChoice | None = None
    """The setting behind the weight and limit of `gpu`, for when the quota changes. The scheduler reads only `gpu`."""
    gpu_limit_milli: int = UNLIMITED
    """The limit behind that of `gpu`, which is lower while over-quota is off."""


OVER_QUOTA_WEIGHT = {
    OverQuotaChoice.LOWEST: 0.0,
    OverQuotaChoice.LOW: 1.0,
    OverQuotaChoice.MEDIUM: 2.0,
    OverQuotaChoice.HIGH: 3.0,
}


def gpu_entitlement(
    quota_milli: int, over_quota: OverQuotaChoice | None = None, *, limit_milli: int = UNLIMITED, usage: float = 0.0
) -> Entitlement:
    """The GPU entitlement that follows from an administrator's settings.

    Without a setting the weight is the quota itself, so that 3 : 1 shares idle GPUs 75 : 25; a project without quota
    then has weight 1.
    """
    if over_quota is OverQuotaChoice.OFF:
        bounds = [bound for bound in (quota_milli, limit_milli) if bound != UNLIMITED]
        return Entitlement(quota_milli, min(bounds, default=UNLIMITED), 0.0, usage)
    if over_quota is not None:
        return Entitlement(quota_milli, limit_milli, OVER_QUOTA_WEIGHT[over_quota], usage)
    weight = quota_milli / WHOLE_GPU_MILLI if quota_milli > 0 else 1.0
    return Entitlement(quota_milli, limit_milli, weight, usage)


def with_quota(queue: Queue, quota_milli: int) -> Queue:
    """The queue with another GPU quota, and the weight and limit that follow from its settings now.

    Without a setting, a weight other than the one that follows from the quota was chosen, and stays.
    """
    before = queue.gpu
    limit = queue.gpu_limit_milli if queue.over_quota is OverQuotaChoice.OFF else before.limit
    after = gpu_entitlement(quota_milli, queue.over_quota, limit_milli=limit, usage=before.usage)
    if queue.over_quota is None and before.weight != gpu_entitlement(before.quota).weight:
        after = replace(after, weight=before.weight)
    return replace(queue, gpu=after)


def total_quota(owed: Iterable[Entitlement]) -> int:
    """The quotas of several together; unlimited if one of them is."""
    quotas = [each.quota for each in owed]
    return UNLIMITED if UNLIMITED in quotas else sum(quotas)


def with_derived_quotas(queues: Iterable[Queue], followers: Collection[QueueId]) -> tuple[Queue, ...]:
    """The queues, some of them (`followers`) with the sum of the quotas below them as GPU quota."""
    rows = tuple(queues)
    return tuple(
        with_quota(queue, total_quota(each.gpu for each in rows if each.parent == queue.id))
        if queue.id in followers
        else queue
        for queue in rows
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectRules:
    """Time and idle limits of a project."""

    interactive_limit_s: int | None = None
    """How long a build may run; None: no limit."""
    training_limit_s: int | None = None
    """The same for a training, from its first start."""
    interactive_idle_s: int | None = None
    """How long a build may leave its GPUs idle; None: no limit."""
    interactive_preemptible_idle_s: int | None = None
    """The same for one that is preemptible."""
    training_idle_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GraceRules:
    """How long pods may take to stop, at most. An administrator may choose otherwise."""

    most_s: int = 3600
    """Whatever a workload asked for."""
    eviction_s: int = 60
    """Of a pod that is stopped for others: its GPUs are owed to another workload, or it may not stay where it is."""


DEFAULT_GRACES = GraceRules()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeOverrides:
    """What an administrator set for one node, on top of what the engine reports."""

    cordoned: bool = False
    taints: tuple[Taint, ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def applied_to(self, node: Node) -> Node:
        """The node with these overrides."""
        return replace(
            node,
            cordoned=node.cordoned or self.cordoned,
            taints=(*node.taints, *(taint for taint in self.taints if taint not in node.taints)),
            labels={**node.labels, **dict(self.labels)},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Organization:
    """Everything that is declared for a cluster except its workloads."""

    queues: Mapping[PoolName, tuple[Queue, ...]] = field(default_factory=dict)
    """Departments and projects, with what they are owed in each pool."""
    rules: Mapping[QueueId, ProjectRules] = field(default_factory=dict)
    pools: tuple[NodePool, ...] = (NodePool(),)
    topologies: tuple[Topology, ...] = ()
    node_overrides: Mapping[NodeName, NodeOverrides] = field(default_factory=dict)
    graces: GraceRules = DEFAULT_GRACES

    def queues_of(self, pool: PoolName) -> tuple[Queue, ...]:
        """The queues in one pool; in a pool without settings no queue has a quota."""
        if pool in self.queues:
            return self.queues[pool]
        known = self.queues.get(DEFAULT_POOL, ())
        return tuple(replace(queue, gpu=replace(queue.gpu, quota=0)) for queue in known)


def children_over_quota(queues: Iterable[Queue]) -> list[tuple[Queue, int]]:
    """Parents whose children are together owed more GPUs than they are owed themselves, and how much that is."""
    rows = sorted(queues, key=lambda each: each.id)
    owed: dict[QueueId, int] = {}
    for queue in rows:
        if queue.parent is not None and queue.gpu.quota != UNLIMITED:
            owed[queue.parent] = owed.get(queue.parent, 0) + queue.gpu.quota
    return [
        (queue, owed[queue.id]) for queue in rows if UNLIMITED != queue.gpu.quota < owed.get(queue.id, queue.gpu.quota)
    ]


def oversubscribed_parents(queues: tuple[Queue, ...]) -> list[Problem]:
    """Parents whose children are together owed more GPUs than they are owed themselves. A warning, not an error."""
    return [
        Problem(
            "queue.children_over_quota",
            f"the project quotas in {queue.id} add up to {gpus_text(children)} GPUs, "
            f"but its own quota is {gpus_text(queue.gpu.quota)}",
            "raise its quota or lower theirs; until then the excess counts as over quota",
        )
        for queue, children in children_over_quota(queues)
    ]

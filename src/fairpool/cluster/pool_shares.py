"""What every queue of a pool is owed, holds and asks for, from a snapshot and its plan. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairpool.api import shares as wire
from fairpool.model.ids import QueueId
from fairpool.model.lending import Lending, QueueHolding, lending
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.organization import DEPARTMENT_PREFIX, Queue
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.replay.carried_out import decided
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.snapshot import Snapshot


@dataclass(slots=True)
class _Use:
    """Of each queue, in thousandths of a GPU."""

    held: Counter[QueueId] = field(default_factory=Counter)
    leaving: Counter[QueueId] = field(default_factory=Counter)
    promised: Counter[QueueId] = field(default_factory=Counter)
    waiting: Counter[QueueId] = field(default_factory=Counter)


def pool_shares(snapshot: Snapshot, plan: Plan) -> wire.PoolShares:
    """Everything about one pool, as the plan leaves it."""
    use = _use(decided(snapshot, plan))
    capacity = WHOLE_GPU_MILLI * sum(node.gpus - len(node.gpus_withheld) for node in snapshot.nodes)
    parents = {queue.parent for queue in snapshot.queues} - {None}
    departments = [queue for queue in snapshot.queues if queue.id in parents or queue.id.startswith(DEPARTMENT_PREFIX)]
    above = {queue.id for queue in departments}
    projects = [queue for queue in snapshot.queues if queue.id not in above]
    known = {queue.id for queue in projects}
    fair = {each.queue: each.fair_share_milli for each in plan.queues}
    sums = _with_parents(use, projects)
    return wire.PoolShares(
        node_pool=snapshot.pool.name,
        capacity_milli=capacity,
        withheld_milli=WHOLE_GPU_MILLI * sum(len(node.gpus_withheld) for node in snapshot.nodes),
        out_of_service_milli=WHOLE_GPU_MILLI
        * sum(node.gpus - len(node.gpus_withheld) for node in snapshot.nodes if not node.ready or node.cordoned),
        allocated_milli=sum(use.held.values()),
        unowned_milli=sum(amount for queue, amount in use.held.items() if queue not in known),
        projects=_level(projects, sums, fair, capacity),
        departments=_level(departments, sums, fair, capacity),
    )


def _use(snapshot: Snapshot) -> _Use:
    queue_of = {group.id: group.queue for group in snapshot.groups}
    memory = {node.name: node.gpu_memory_mib for node in snapshot.nodes}
    use = _Use()
    for pod in snapshot.pods:
        queue = queue_of.get(pod.group, QueueId(""))
        gpus = gpus_charged_milli(pod.shape.gpu, memory.get(pod.node, 0) if pod.node is not None else 0)
        if pod.phase in HOLDS_DEVICES:
            use.held[queue] += gpus
            if pod.phase is PodPhase.RELEASING:
                use.leaving[queue] += gpus
        elif pod.phase is PodPhase.PROMISED:
            use.promised[queue] += gpus
        elif pod.phase is PodPhase.WAITING and not pod.gated:
            use.waiting[queue] += gpus
    return use


def _with_parents(use: _Use, projects: list[Queue]) -> _Use:
    """Also of departments: what their projects hold and ask for together."""
    counters = (use.held, use.leaving, use.promised, use.waiting)
    summed = _Use(*(Counter(each) for each in counters))
    for before, after in zip(counters, (summed.held, summed.leaving, summed.promised, summed.waiting), strict=True):
        for project in projects:
            if project.parent is not None and before[project.id]:
                after[project.parent] += before[project.id]
    return summed


def _level(queues: list[Queue], use: _Use, fair: Mapping[QueueId, int], capacity: int) -> list[wire.QueueShares]:
    """Queues that share the capacity among them: all projects, or all departments."""
    holdings = {queue.id: QueueHolding(queue.gpu.quota, use.held[queue.id]) for queue in queues}
    loans = lending(capacity, holdings)
    return [
        _row(queue, use, fair.get(queue.id, 0), holdings[queue.id], loans)
        for queue in sorted(queues, key=lambda each: each.id)
    ]


def _row(queue: Queue, use: _Use, fair_milli: int, holding: QueueHolding, loans: Lending) -> wire.QueueShares:
    name = queue.id
    return wire.QueueShares(
        queue=name,
        parent=queue.parent,
        quota_milli=queue.gpu.quota,
        limit_milli=queue.gpu.limit,
        weight=queue.gpu.weight,
        fair_share_milli=fair_milli,
        allocated_milli=holding.held_milli,
        in_quota_milli=holding.in_quota_milli,
        over_quota_milli=holding.over_milli,
        leaving_milli=use.leaving[name],
        promised_milli=use.promised[name],
        waiting_milli=use.waiting[name],
        lent_to=loans.lent_to(name),
        borrowed_from=loans.borrowed_from(name),
        from_unassigned_milli=loans.unassigned.get(name, 0),
    )

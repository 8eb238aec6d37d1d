"""What would let a waiting group start, each change tried with the real planner; also those that gain nothing. Pure.

A change is tried alone, on the latest snapshot. Nothing is carried out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from itertools import takewhile
from typing import Final

from fairpool.model.ids import GroupId, PoolName, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.organization import Queue, total_quota, with_quota
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, GpuRequest, PodGroup, SubGroup, gpu_portion, whole_gpus
from fairpool.scheduler.decision import (
    NoQueue,
    NotItsTurn,
    NotReady,
    OverLimit,
    OverQuota,
    Plan,
    Resource,
    Verdict,
    WaitsForVictims,
)
from fairpool.scheduler.plan import plan
from fairpool.scheduler.shortage import in_service
from fairpool.scheduler.snapshot import Snapshot

EACH_MAX: Final = 3
"""Changes of one kind that are tried."""
NOTHING_TO_CHANGE: Final = (NoQueue, NotReady, WaitsForVictims)


class RemedyKind(StrEnum):
    """A kind of change."""

    STOP_OWN = "stop-own"
    """Stop another workload of the same project."""
    FEWER_GPUS = "fewer-gpus"
    FEWER_PODS = "fewer-pods"
    PREEMPTIBLE = "preemptible"
    """Submit it as preemptible."""
    OTHER_POOL = "other-pool"
    RAISE_QUOTA = "raise-quota"
    RAISE_LIMIT = "raise-limit"
    RETURN_NODES = "return-nodes"
    """Put drained and cordoned nodes back into service."""


FOR_ADMINISTRATORS: Final = frozenset({RemedyKind.RAISE_QUOTA, RemedyKind.RAISE_LIMIT, RemedyKind.RETURN_NODES})


class Effect(StrEnum):
    """What a change gains, the best first."""

    STARTS = "starts"
    AFTER_PREEMPTION = "starts-after-preemption"
    NONE = "no-gain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change and what it gains."""

    kind: RemedyKind
    subject: str = ""
    """What is changed: a group, a queue, a pool or a node, by its id."""
    before_milli: int | None = None
    after_milli: int | None = None
    """Thousandths of a GPU, of a core or bytes; for pods their number."""
    effect: Effect = Effect.NONE
    victims: int = 0
    """Pods of other groups that would be stopped or moved."""

    @property
    def by_administrator(self) -> bool:
        return self.kind in FOR_ADMINISTRATORS


@dataclass(frozen=True, slots=True)
class _Change:
    remedy: Remedy
    changed: Callable[[], Snapshot]


def remedies(
    pool: PoolName,
    snapshots: Mapping[PoolName, Snapshot],
    group: GroupId,
    verdict: Verdict,
    has_time: Callable[[], bool] = lambda: True,
) -> list[Remedy]:
    """What would change the wait of a group of this pool, as far as there is time to try; the best first, and what its
    users can do before the rest."""
    snapshot = snapshots[pool]
    row = next((each for each in snapshot.groups if each.id == group), None)
    if row is None or isinstance(verdict.why, NOTHING_TO_CHANGE):
        return []
    changes = [
        *_own(snapshot, row),
        *_smaller(snapshot, row),
        *_preemptible(snapshot, row, verdict),
        *_elsewhere(pool, snapshots, row),
        *_raised(snapshot, row, verdict),
        *_returned(snapshot, verdict),
    ]
    found = [_tried(change, group) for change in takewhile(lambda _: has_time(), _one_of_each_first(changes))]
    return sorted(found, key=lambda each: (list(Effect).index(each.effect), each.by_administrator))


def _one_of_each_first(changes: Sequence[_Change]) -> list[_Change]:
    """One of each kind, then the others: time may not suffice for all."""
    first = list({change.remedy.kind: change for change in reversed(changes)}.values())[::-1]
    return [*first, *(change for change in changes if change not in first)]


def _tried(change: _Change, group: GroupId) -> Remedy:
    planned = plan(change.changed())
    return replace(change.remedy, effect=_effect(planned, group), victims=_victims(planned, group))


def _effect(planned: Plan, group: GroupId) -> Effect:
    if any(each.group == group for each in planned.promises):
        return Effect.AFTER_PREEMPTION
    return Effect.STARTS if any(each.group == group for each in planned.binds) else Effect.NONE


def _victims(planned: Plan, group: GroupId) -> int:
    return sum(each.reason.winner == group for each in planned.evictions)


# --- changes of the users of the project ---------------------------------------------------------------------------


def _own(snapshot: Snapshot, row: PodGroup) -> Iterator[_Change]:
    """Other work of the project, the smallest that holds as much as is asked for before the rest."""
    queue_of = {each.id: each.queue for each in snapshot.groups}
    memory = {each.name: each.gpu_memory_mib for each in snapshot.nodes}
    held: Counter[GroupId] = Counter()
    asked = 0
    for pod in snapshot.pods:
        if pod.group == row.id and pod.phase is PodPhase.WAITING:
            asked += gpus_charged_milli(pod.shape.gpu)
        elif queue_of.get(pod.group) == row.queue and pod.phase in HOLDS_DEVICES and pod.node is not None:
            held[pod.group] += gpus_charged_milli(pod.shape.gpu, memory.get(pod.node, 0))
    order = sorted((each for each in held if held[each]), key=lambda each: (held[each] < asked, held[each], each))
    for other in order[:EACH_MAX]:
        remedy = Remedy(kind=RemedyKind.STOP_OWN, subject=other, before_milli=held[other], after_milli=0)
        yield _Change(remedy, partial(_without, snapshot, {other}))


def _smaller(snapshot: Snapshot, row: PodGroup) -> Iterator[_Change]:
    waiting = [pod for pod in snapshot.pods if pod.group == row.id and pod.phase is PodPhase.WAITING]
    if not waiting:
        return
    gpu = waiting[0].shape.gpu
    if all(pod.shape.gpu == gpu for pod in waiting):
        for less in _less(gpu):
            remedy = Remedy(
                kind=RemedyKind.FEWER_GPUS,
                subject=row.id,
                before_milli=gpus_charged_milli(gpu),
                after_milli=gpus_charged_milli(less),
            )
            yield _Change(remedy, partial(_with_gpu, snapshot, row.id, less))
    sets = row.tree.pod_sets
    half = len(waiting) // 2
    is_one_gang = len(sets) == 1 and not row.tree.groups and sets[0].minimum == len(waiting)
    if is_one_gang and half:
        remedy = Remedy(kind=RemedyKind.FEWER_PODS, subject=row.id, before_milli=len(waiting), after_milli=half)
        yield _Change(remedy, partial(_with_pods, snapshot, row, half))


def _less(gpu: GpuRequest) -> list[GpuRequest]:
    """Smaller requests that users ask for: half as many, one, half of one."""
    if gpu.kind is GpuKind.WHOLE:
        halves = [whole_gpus(gpu.devices // 2), whole_gpus(1), gpu_portion(WHOLE_GPU_MILLI // 2)]
        smaller = [each for each in halves if 0 < gpus_charged_milli(each) < gpus_charged_milli(gpu)]
        return list(dict.fromkeys(smaller))[: EACH_MAX - 1]
    if gpu.kind is GpuKind.PORTION and gpu.portion_milli >= 2:
        return [replace(gpu, portion_milli=gpu.portion_milli // 2)]
    return []


def _preemptible(snapshot: Snapshot, row: PodGroup, verdict: Verdict) -> Iterator[_Change]:
    if isinstance(verdict.why, OverQuota):
        changed = replace(row, preemptible=True)
        yield _Change(Remedy(kind=RemedyKind.PREEMPTIBLE, subject=row.id), partial(_with_group, snapshot, changed))


def _elsewhere(pool: PoolName, snapshots: Mapping[PoolName, Snapshot], row: PodGroup) -> Iterator[_Change]:
    here = snapshots[pool]
    if any(pod.group == row.id and pod.phase is not PodPhase.WAITING for pod in here.pods):
        return
    for other in sorted(snapshots.keys() - {pool})[:EACH_MAX]:
        there = snapshots[other]
        remedy = Remedy(kind=RemedyKind.OTHER_POOL, subject=other)
        yield _Change(remedy, partial(_moved, here, there, row.id))


# --- changes of administrators -------------------------------------------------------------------------------------


def _raised(snapshot: Snapshot, row: PodGroup, verdict: Verdict) -> Iterator[_Change]:
    why = verdict.why
    if isinstance(why, OverLimit):
        yield from _raised_limit(snapshot, why)
    elif isinstance(why, OverQuota) and why.resource is Resource.GPU:
        yield from _raised_quota(snapshot, why.queue, why.held + why.asked)
    elif isinstance(why, NotItsTurn):
        if why.obstacle is not None and why.obstacle.mine and why.obstacle.resource is Resource.GPU:
            yield from _raised_quota(snapshot, why.obstacle.queue, why.obstacle.held + why.obstacle.asked)
        yield from _raised_quota(snapshot, row.queue, why.figures.held_milli + why.asked_milli)


def _raised_quota(snapshot: Snapshot, queue: QueueId, quota_milli: int) -> Iterator[_Change]:
    row = _queue(snapshot, queue)
    if row is None or row.gpu.quota == UNLIMITED or row.gpu.quota >= quota_milli:
        return
    remedy = Remedy(kind=RemedyKind.RAISE_QUOTA, subject=queue, before_milli=row.gpu.quota, after_milli=quota_milli)
    yield _Change(remedy, partial(_with_quota, snapshot, row, quota_milli))


def _raised_limit(snapshot: Snapshot, why: OverLimit) -> Iterator[_Change]:
    row = _queue(snapshot, why.queue)
    if row is None:
        return
    name = why.resource.value
    limit = why.held + why.asked
    remedy = Remedy(kind=RemedyKind.RAISE_LIMIT, subject=why.queue, before_milli=why.limit, after_milli=limit)
    raised = replace(row, **{name: replace(getattr(row, name), limit=limit)})
    yield _Change(remedy, partial(_with_queue, snapshot, raised))


def _returned(snapshot: Snapshot, verdict: Verdict) -> Iterator[_Change]:
    names = {each.name for each in verdict.closed}
    if names:
        nodes = tuple(in_service(node) if node.name in names else node for node in snapshot.nodes)
        remedy = Remedy(kind=RemedyKind.RETURN_NODES, subject=min(names), before_milli=len(names))
        yield _Change(remedy, partial(replace, snapshot, nodes=nodes))


# --- changed snapshots ---------------------------------------------------------------------------------------------


def _without(snapshot: Snapshot, groups: set[GroupId]) -> Snapshot:
    return replace(
        snapshot,
        groups=tuple(each for each in snapshot.groups if each.id not in groups),
        pods=tuple(each for each in snapshot.pods if each.group not in groups),
    )


def _moved(here: Snapshot, there: Snapshot, group: GroupId) -> Snapshot:
    """One pool with a group of another."""
    topologies = {each.name: each for each in (*here.topologies, *there.topologies)}
    return replace(
        there,
        groups=(*there.groups, *(each for each in here.groups if each.id == group)),
        pods=(*there.pods, *(each for each in here.pods if each.group == group)),
        topologies=tuple(topologies.values()),
    )


def _with_gpu(snapshot: Snapshot, group: GroupId, gpu: GpuRequest) -> Snapshot:
    pods = (
        replace(pod, shape=replace(pod.shape, gpu=gpu)) if pod.group == group and pod.phase is PodPhase.WAITING else pod
        for pod in snapshot.pods
    )
    return replace(snapshot, pods=tuple(pods))


def _with_pods(snapshot: Snapshot, row: PodGroup, pods: int) -> Snapshot:
    """Only the first pods of a gang."""
    mine = [pod.id for pod in snapshot.pods if pod.group == row.id]
    dropped = set(mine[pods:])
    tree = SubGroup(
        name=row.tree.name,
        constraint=row.tree.constraint,
        pod_sets=(replace(row.tree.pod_sets[0], minimum=pods),),
    )
    smaller = _with_group(snapshot, replace(row, tree=tree))
    return replace(smaller, pods=tuple(pod for pod in smaller.pods if pod.id not in dropped))


def _with_group(snapshot: Snapshot, row: PodGroup) -> Snapshot:
    return replace(snapshot, groups=tuple(row if each.id == row.id else each for each in snapshot.groups))


def _with_quota(snapshot: Snapshot, row: Queue, quota_milli: int) -> Snapshot:
    """A department that is owed what its projects are owed together, as one without a quota of its own, follows."""
    raised = _with_queue(snapshot, with_quota(row, quota_milli))
    above = _queue(snapshot, row.parent) if row.parent is not None else None
    below = [each.gpu for each in snapshot.queues if each.parent == row.parent]
    if above is None or above.gpu.quota == UNLIMITED or above.gpu.quota != total_quota(below):
        return raised
    return _with_queue(raised, with_quota(above, above.gpu.quota + quota_milli - row.gpu.quota))


def _with_queue(snapshot: Snapshot, row: Queue) -> Snapshot:
    return replace(snapshot, queues=tuple(row if each.id == row.id else each for each in snapshot.queues))


def _queue(snapshot: Snapshot, name: QueueId) -> Queue | None:
    return next((each for each in snapshot.queues if each.id == name), None)

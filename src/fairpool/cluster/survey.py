"""What the scheduler is told: a snapshot for each node pool, from declarations, lives and nodes.

The rows of a workload are made anew only when something about it changed; a snapshot strings the rows of all together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from fairpool.cluster.expand import LONGEST_BACK_OFF_S, wanted_slots
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, QueueId, is_ahead
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, Node, nodes_by_pool
from fairpool.model.observation import ObservedNode
from fairpool.model.organization import Organization
from fairpool.model.pod_record import Outcome, PodRecord
from fairpool.model.spec import Arrangement, WorkloadSpec
from fairpool.model.workload import Pod, PodGroup, PodSet, SubGroup, WorkloadKind
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

NOBODY = QueueId("")
"""The queue of pods that nobody declares: they hold their devices until they have left, at nobody's expense."""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a workload is to the scheduler."""

    groups: tuple[PodGroup, ...] = ()
    pods: tuple[Pod, ...] = ()
    pool: PoolName = DEFAULT_POOL
    """Where those of its pods belong that have no node yet."""


@dataclass(frozen=True, slots=True)
class Ground:
    """The nodes, with what administrators said about them, and the pool of each."""

    nodes: Mapping[PoolName, tuple[Node, ...]]
    pool_of: Mapping[NodeName, PoolName]


def ground(observed_pods: Mapping[NodeName, ObservedNode], organization: Organization) -> Ground:
    """All nodes by pool. A node that is silent takes nobody new; one that is gone is not there."""
    nodes = [_marked(observed, organization) for observed in observed_pods.values() if not observed.gone]
    by_pool = nodes_by_pool(nodes, organization.pools)
    return Ground(by_pool, {node.name: pool for pool, members in by_pool.items() for node in members})


def _marked(observed: ObservedNode, organization: Organization) -> Node:
    node = observed.node
    marks = organization.marks.get(node.name)
    if marks is not None:
        node = marks.applied_to(node)
    return replace(node, ready=False) if observed.silent_since is not None and node.ready else node


def pool_of(spec: WorkloadSpec, standing: WorkloadState, pools: Collection[PoolName]) -> PoolName:
    """The pool where a workload tries to run now: of those it names, one that exists, if one does."""
    named = spec.pools or (DEFAULT_POOL,)
    current = standing.pool or named[0]
    return current if current in pools else next((pool for pool in named if pool in pools), named[0])


def rows_of(
    spec: WorkloadSpec | None,
    standing: WorkloadState,
    lives: Sequence[PodRecord],
    now: Instant,
    *,
    pools: Collection[PoolName] = (DEFAULT_POOL,),
) -> Rows:
    """The pod groups and pods of one workload that the scheduler has to know of."""
    alive = [life for life in lives if not life.is_over]
    if not alive:
        return Rows()
    if spec is None:
        pods = tuple(_pod(None, life, life.pod_set, now) for life in alive)
        return Rows(tuple(_unwanted(group, alive) for group in _groups_in(alive)), pods)
    in_sets = _workers_needed(spec, lives) > 0
    pods = tuple(_pod(spec, life, life.pod_set if in_sets else "default", now) for life in alive)
    pool = pool_of(spec, standing, pools)
    groups = tuple(_group(spec, standing, group, lives, now) for group in _groups_in(alive))
    return Rows(groups, pods, pool)


def _groups_in(lives: Iterable[PodRecord]) -> list[GroupId]:
    return list(dict.fromkeys(life.group for life in lives))


def _workers_needed(spec: WorkloadSpec, lives: Sequence[PodRecord]) -> int:
    """Beside the leader, where there is one. With none needed, all its pods count together: the scheduler takes every
    set to need somebody."""
    if spec.leader is None or spec.arrangement is not Arrangement.TOGETHER:
        return 0
    done = sum(life.outcome is Outcome.OK and life.index > 0 for life in wanted_slots(spec, lives).values())
    return spec.needed - 1 - done


def _pod(spec: WorkloadSpec | None, life: PodRecord, pod_set: str, now: Instant) -> Pod:
    return Pod(
        id=life.id,
        group=life.group,
        shape=life.shape,
        pod_set=pod_set,
        # Both hold their place: one word for them spares a plan each time that a pod starts.
        phase=PodPhase.RUNNING if life.phase is PodPhase.BOUND else life.phase,
        node=life.node,
        devices=life.devices,
        leader=spec is not None and spec.leader is not None and life.index == 0,
        order=-life.index,
        created_at=life.born_at,
        gated=is_ahead(life.not_before, now, LONGEST_BACK_OFF_S),
        nominated=life.nominated,
        promised_at=life.promised_at,
    )


def _unwanted(group: GroupId, lives: Sequence[PodRecord]) -> PodGroup:
    born_at = min(life.born_at for life in lives if life.group == group)
    return PodGroup(id=group, queue=NOBODY, created_at=born_at, movable=False)


def _group(
    spec: WorkloadSpec, standing: WorkloadState, group: GroupId, lives: Sequence[PodRecord], now: Instant
) -> PodGroup:
    dates = standing.dates(group)
    members = [life for life in wanted_slots(spec, lives).values() if life.group == group]
    done = [life for life in members if life.outcome is Outcome.OK]
    return PodGroup(
        id=group,
        queue=spec.project,
        created_at=spec.created_at,
        kind=spec.kind,
        priority=spec.priority,
        preemptible=spec.preemptible,
        tree=_tree(spec, done, _workers_needed(spec, lives)),
        started_at=dates.started_at,
        stale_since=dates.stale_since,
        succeeded=bool(done),
        movable=spec.kind is WorkloadKind.TRAIN,
        avoid=tuple(each.node for each in standing.avoided if each.until > now),
    )


def _tree(spec: WorkloadSpec, done: Sequence[PodRecord], workers_needed: int) -> SubGroup:
    """How many must run together; those that have ended well are not missed."""
    if workers_needed > 0:
        sets: tuple[PodSet, ...] = (PodSet(name="leader"), PodSet(name="worker", minimum=workers_needed))
    elif spec.arrangement is Arrangement.TOGETHER and spec.leader is None:
        sets = (PodSet(minimum=max(spec.needed - len(done), 1)),)
    else:
        sets = (PodSet(minimum=1),)
    return SubGroup(constraint=spec.constraint, pod_sets=sets)


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything at one moment; `snapshot` cuts out one pool."""

    now: Instant
    ground: Ground
    organization: Organization
    rows: Iterable[Rows]
    policy: Policy

    def snapshots(self) -> dict[PoolName, Snapshot]:
        """One snapshot for each pool that has nodes or work."""
        divided = self._divided()
        pools = {pool.name: pool for pool in self.organization.pools}
        return {
            name: Snapshot(
                now=self.now,
                nodes=self.ground.nodes.get(name, ()),
                queues=self.organization.queues_of(name),
                groups=groups,
                pods=pods,
                topologies=self.organization.topologies,
                pool=pools[name],
                policy=self.policy,
            )
            for name, (groups, pods) in divided.items()
            if name in pools
        }

    def _divided(self) -> dict[PoolName, tuple[tuple[PodGroup, ...], tuple[Pod, ...]]]:
        names = [pool.name for pool in self.organization.pools]
        rows = list(self.rows)
        if len(names) == 1 and all(each.pool == names[0] for each in rows):
            groups = tuple(chain.from_iterable(each.groups for each in rows))
            return {names[0]: (groups, tuple(chain.from_iterable(each.pods for each in rows)))}
        pods: dict[PoolName, list[Pod]] = {name: [] for name in names}
        groups_in: dict[PoolName, list[PodGroup]] = {name: [] for name in names}
        for each in rows:
            self._divide(each, pods, groups_in)
        return {name: (tuple(groups_in[name]), tuple(pods[name])) for name in names}

    def _divide(self, rows: Rows, pods: dict[PoolName, list[Pod]], groups: dict[PoolName, list[PodGroup]]) -> None:
        """A pod with a node is where its node is, the others where their workload tries."""
        groups_met: dict[PoolName, set[GroupId]] = {}
        for pod in rows.pods:
            pool = self.ground.pool_of.get(pod.node, rows.pool) if pod.node is not None else rows.pool
            if pool in pods:
                pods[pool].append(pod)
                groups_met.setdefault(pool, set()).add(pod.group)
        for group in rows.groups:
            in_pools = [pool for pool, met in groups_met.items() if group.id in met]
            # Cut in two by a node that changed its pool, each part alone would look like a gang that lost the rest.
            part = group if len(in_pools) == 1 else replace(group, succeeded=True)
            for pool in in_pools:
                groups[pool].append(part)

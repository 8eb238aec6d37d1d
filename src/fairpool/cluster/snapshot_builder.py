"""Builds the scheduler's snapshots, one per node pool, from declarations, pods and nodes.

The part of a workload is built again only when the workload changed; a snapshot concatenates the parts of all.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from fairpool.cluster.failures import avoided_nodes
from fairpool.cluster.gates import is_backing_off
from fairpool.cluster.pod_slots import counted_pods
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import GroupId, Instant, NodeName, PoolName, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL, Node, Topology, nodes_by_pool
from fairpool.model.node_role import ROLE_LABELS, NodeRole, are_roles_used, role_of
from fairpool.model.observation import ObservedNode
from fairpool.model.organization import NodeOverrides, Organization
from fairpool.model.pod_record import Outcome, PodRecord
from fairpool.model.spec import Arrangement, WorkloadSpec
from fairpool.model.workload import Pod, PodGroup, PodSet, SubGroup, WorkloadKind
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

NO_QUEUE = QueueId("")
"""The queue of pods without a declaration: they hold their devices until they have exited, charged to no project."""


@dataclass(frozen=True, slots=True)
class SnapshotPart:
    """The pod groups and pods of one workload."""

    groups: tuple[PodGroup, ...] = ()
    pods: tuple[Pod, ...] = ()
    pool: PoolName = DEFAULT_POOL
    """The pool of its pods that have no node yet."""
    topology: Topology | None = None
    """Of the labels that its constraint names, where no declared topology is meant."""


@dataclass(frozen=True, slots=True)
class PooledNodes:
    """Nodes by pool, with node overrides applied."""

    nodes: Mapping[PoolName, tuple[Node, ...]]
    pool_of: Mapping[NodeName, PoolName]
    made_of: Mapping[NodeName, tuple[ObservedNode, NodeOverrides | None, Node]] = field(default_factory=dict)
    """What each node was made of: one that did not change stays the same object."""


def pooled_nodes(
    observed_nodes: Mapping[NodeName, ObservedNode], organization: Organization, before: PooledNodes | None = None
) -> PooledNodes:
    """All nodes by pool. A silent node is not ready; a node that is gone is left out."""
    known = before.made_of if before is not None else {}
    made_of = {
        name: _made_of(observed, organization.node_overrides.get(name), known.get(name))
        for name, observed in observed_nodes.items()
        if not observed.gone
    }
    _set_roles(made_of)
    by_pool = nodes_by_pool([node for _, _, node in made_of.values()], organization.pools)
    pool_of = {node.name: pool for pool, members in by_pool.items() for node in members}
    return PooledNodes(by_pool, pool_of, made_of)


def _made_of(
    observed: ObservedNode,
    overrides: NodeOverrides | None,
    before: tuple[ObservedNode, NodeOverrides | None, Node] | None,
) -> tuple[ObservedNode, NodeOverrides | None, Node]:
    if before is not None and before[0] is observed and before[1] == overrides:
        return before
    node = observed.node if overrides is None else overrides.applied_to(observed.node)
    if observed.silent_since is not None and node.ready:
        node = replace(node, ready=False)
    return observed, overrides, node


def _set_roles(made_of: dict[NodeName, tuple[ObservedNode, NodeOverrides | None, Node]]) -> None:
    """Whether roles count depends on all nodes of the cluster, so they are set when all are known."""
    labelled = [node.labels for _, _, node in made_of.values() if not ROLE_LABELS.isdisjoint(node.labels)]
    are_used = are_roles_used(labelled)
    for name, (observed, overrides, node) in made_of.items():
        if not labelled and node.role is NodeRole.ANY:
            continue
        role = role_of(node.labels, are_used=are_used)
        if node.role is not role:
            made_of[name] = observed, overrides, replace(node, role=role)


def current_pool(spec: WorkloadSpec, state: WorkloadState, pools: Collection[PoolName]) -> PoolName:
    """The pool in which a workload waits now: of those it lists, one that exists, if any does."""
    named = spec.pools or (DEFAULT_POOL,)
    current = state.pool or named[0]
    return current if current in pools else next((pool for pool in named if pool in pools), named[0])


def snapshot_part(
    spec: WorkloadSpec | None,
    state: WorkloadState,
    pods: Sequence[PodRecord],
    now: Instant,
    *,
    pools: Collection[PoolName] = (DEFAULT_POOL,),
) -> SnapshotPart:
    """The pod groups and pods of one workload that have not ended."""
    alive = [pod for pod in pods if not pod.is_over]
    if not alive:
        return SnapshotPart()
    if spec is None:
        scheduled = tuple(_pod(None, pod, pod.pod_set, now) for pod in alive)
        return SnapshotPart(tuple(_unwanted(group, alive) for group in _groups_in(alive)), scheduled)
    in_sets = _workers_needed(spec, pods) > 0
    scheduled = tuple(_pod(spec, pod, pod.pod_set if in_sets else "default", now) for pod in alive)
    pool = current_pool(spec, state, pools)
    groups = tuple(_group(spec, state, group, pods, now) for group in _groups_in(alive))
    return SnapshotPart(groups, scheduled, pool, _label_topology(spec))


def _label_topology(spec: WorkloadSpec) -> Topology | None:
    is_own = spec.constraint is not None and not spec.constraint.topology
    return spec.constraint.label_topology if is_own and spec.constraint is not None else None


def _groups_in(pods: Iterable[PodRecord]) -> list[GroupId]:
    return list(dict.fromkeys(pod.group for pod in pods))


def _workers_needed(spec: WorkloadSpec, pods: Sequence[PodRecord]) -> int:
    """Required workers beside a leader. If none is required, leader and workers are one pod set: the scheduler requires
    at least one pod of each set."""
    if spec.leader is None or spec.arrangement is not Arrangement.TOGETHER:
        return 0
    done = sum(pod.outcome is Outcome.OK and pod.index > 0 for pod in counted_pods(spec, pods).values())
    return spec.needed - 1 - done


def _pod(spec: WorkloadSpec | None, pod: PodRecord, pod_set: str, now: Instant) -> Pod:
    return Pod(
        id=pod.id,
        group=pod.group,
        shape=pod.shape,
        pod_set=pod_set,
        # Both hold their place: one phase for both saves planning again each time that a pod starts.
        phase=PodPhase.RUNNING if pod.phase is PodPhase.BOUND else pod.phase,
        node=pod.node,
        devices=pod.devices,
        leader=spec is not None and spec.leader is not None and pod.index == 0,
        order=-pod.index,
        created_at=pod.created_at,
        gated=is_backing_off(pod, now),
        nominated=pod.nominated,
        promised_at=pod.promised_at,
    )


def _unwanted(group: GroupId, pods: Sequence[PodRecord]) -> PodGroup:
    created_at = min(pod.created_at for pod in pods if pod.group == group)
    return PodGroup(id=group, queue=NO_QUEUE, created_at=created_at, movable=False)


def _group(
    spec: WorkloadSpec, state: WorkloadState, group: GroupId, pods: Sequence[PodRecord], now: Instant
) -> PodGroup:
    dates = state.dates(group)
    members = [pod for pod in counted_pods(spec, pods).values() if pod.group == group]
    done = [pod for pod in members if pod.outcome is Outcome.OK]
    return PodGroup(
        id=group,
        queue=spec.project,
        created_at=spec.created_at,
        kind=spec.kind,
        priority=spec.priority,
        preemptible=spec.preemptible,
        tree=_tree(spec, done, _workers_needed(spec, pods)),
        started_at=dates.started_at,
        stale_since=dates.stale_since,
        succeeded=bool(done) or state.halt is not None,  # what is kept of it has lost no peers
        movable=spec.kind is WorkloadKind.TRAIN,
        avoid=tuple(each.node for each in avoided_nodes(state, now)),
    )


def _tree(spec: WorkloadSpec, done: Sequence[PodRecord], workers_needed: int) -> SubGroup:
    """How many pods must run together; pods that have succeeded are not missing."""
    if workers_needed > 0:
        sets: tuple[PodSet, ...] = (PodSet(name="leader"), PodSet(name="worker", minimum=workers_needed))
    elif spec.arrangement is Arrangement.TOGETHER and spec.leader is None:
        sets = (PodSet(minimum=max(spec.needed - len(done), 1)),)
    else:
        sets = (PodSet(minimum=1),)
    own = _label_topology(spec)
    constraint = spec.constraint
    if own is not None and constraint is not None:
        constraint = replace(constraint, topology=own.name)
    return SubGroup(constraint=constraint, pod_sets=sets)


def with_topologies(known: tuple[Topology, ...], parts: Iterable[SnapshotPart]) -> tuple[Topology, ...]:
    """These topologies, and those of labels that workloads name."""
    own = {part.topology.name: part.topology for part in parts if part.topology is not None}
    return (*known, *(own[name] for name in sorted(own.keys() - {each.name for each in known}))) if own else known


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotBuilder:
    """All input of the scheduler at one moment."""

    now: Instant
    pooled_nodes: PooledNodes
    organization: Organization
    parts: Iterable[SnapshotPart]
    policy: Policy

    def snapshots(self) -> dict[PoolName, Snapshot]:
        """One snapshot for each pool that has nodes or work."""
        parts = list(self.parts)
        divided = self._divided(parts)
        topologies = with_topologies(self.organization.topologies, parts)
        pools = {pool.name: pool for pool in self.organization.pools}
        return {
            name: Snapshot(
                now=self.now,
                nodes=self.pooled_nodes.nodes.get(name, ()),
                queues=self.organization.queues_of(name),
                groups=groups,
                pods=pods,
                topologies=topologies,
                pool=pools[name],
                policy=self.policy,
            )
            for name, (groups, pods) in divided.items()
            if name in pools
        }

    def _divided(self, parts: Sequence[SnapshotPart]) -> dict[PoolName, tuple[tuple[PodGroup, ...], tuple[Pod, ...]]]:
        names = [pool.name for pool in self.organization.pools]
        if len(names) == 1 and {each.pool for each in parts} <= {names[0]}:
            groups = tuple(chain.from_iterable(map(attrgetter("groups"), parts)))
            return {names[0]: (groups, tuple(chain.from_iterable(map(attrgetter("pods"), parts))))}
        pods: dict[PoolName, list[Pod]] = {name: [] for name in names}
        groups_in: dict[PoolName, list[PodGroup]] = {name: [] for name in names}
        for each in parts:
            self._divide(each, pods, groups_in)
        return {name: (tuple(groups_in[name]), tuple(pods[name])) for name in names}

    def _divide(
        self, part: SnapshotPart, pods: dict[PoolName, list[Pod]], groups: dict[PoolName, list[PodGroup]]
    ) -> None:
        """A pod with a node is in the pool of its node, the others in the pool where their workload waits."""
        groups_seen: dict[PoolName, set[GroupId]] = {}
        for pod in part.pods:
            pool = self.pooled_nodes.pool_of.get(pod.node, part.pool) if pod.node is not None else part.pool
            if pool in pods:
                pods[pool].append(pod)
                groups_seen.setdefault(pool, set()).add(pod.group)
        for group in part.groups:
            in_pools = [pool for pool, seen in groups_seen.items() if group.id in seen]
            # If a node changed its pool, each half of a gang would look like one that lost the rest.
            piece = group if len(in_pools) == 1 else replace(group, succeeded=True)
            for pool in in_pools:
                groups[pool].append(piece)

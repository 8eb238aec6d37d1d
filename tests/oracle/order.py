"""Whose turn it is: order of pods, groups and queues, chunks, and the gate (specification, sections 3 and 4.0)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from fairpool.model.ids import GroupId, PodId, QueueId
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, Amounts
from tests.oracle.shares import FairShares
from tests.oracle.world import (
    ALLOCATED,
    GPU,
    NOTHING,
    RESOURCES,
    GroupState,
    PodState,
    Resource,
    Status,
    World,
    part,
    total,
)

# Pods and pod sets of a group


def pod_order(world: World, pods: Iterable[PodState]) -> list[PodState]:
    """Leaders first, then numbered pods, the larger number first, then the older."""

    def key(pod: PodState) -> tuple[bool, bool, int, int, PodId]:
        row = pod.row
        if not world.policy.pod_order:
            return False, False, 0, row.created_at, row.id
        return not row.leader, row.order is None, -(row.order or 0), row.created_at, row.id

    return sorted(pods, key=key)


def set_order(group: GroupState, without: Iterable[PodId] = ()) -> list[str]:
    """Pod sets below their minimum first, then the one with the smallest part of its minimum running."""

    def key(name: str) -> tuple[bool, Fraction, str]:
        running, least = len(group.in_set(name, ALLOCATED, without)), group.minimum[name]
        return running >= least, Fraction(running, least) if running >= least else Fraction(0), name

    return sorted(group.minimum, key=key)


def chunk(world: World, group: GroupState, *, with_evicted: bool = False) -> list[PodState]:
    """The pods that are tried together next: all that the group lacks, or one more if it lacks nothing."""
    lacking = sum(1 for name, least in group.minimum.items() if len(group.in_set(name, ALLOCATED)) < least)
    chosen: list[PodState] = []
    visited = 0
    for name in set_order(group):
        candidates = group.in_set(name, {Status.WAITING})
        if with_evicted:
            candidates += [pod for pod in group.in_set(name, {Status.LEAVING}) if pod.is_evicted]
        if not candidates:
            continue
        if visited == max(lacking, 1):
            break
        visited += 1
        missing = group.minimum[name] - len(group.in_set(name, ALLOCATED))
        chosen += pod_order(world, candidates)[: missing if missing > 0 else 1]
    return chosen


def unit(world: World, group: GroupState, taken: Collection[PodId]) -> list[PodState]:
    """What a victim loses at a time: one surplus pod, the last in order, or else everything."""
    for name in reversed(set_order(group, taken)):
        running = group.in_set(name, ALLOCATED, taken)
        if len(running) > group.minimum[name]:
            return [pod_order(world, running)[-1]]
    return [pod for name in group.minimum for pod in group.in_set(name, ALLOCATED, taken)]


# Groups of a queue


def elasticity(group: GroupState, without: Iterable[PodId] = ()) -> int:
    """0 below, 1 at, 2 above its minimum."""
    counts = [(len(group.in_set(name, ALLOCATED, without)), least) for name, least in group.minimum.items()]
    if any(running < least for running, least in counts):
        return 0
    return 1 if all(running == least for running, least in counts) else 2


def group_key(world: World, group: GroupState, without: Iterable[PodId] = ()) -> tuple[int, int, int, GroupId]:
    """The smallest is served first, and gives victims last."""
    return (
        -group.priority if world.policy.priority_order else 0,
        elasticity(group, without) if world.policy.elastic_order else 0,
        group.row.created_at,
        group.id,
    )


# Queues


@dataclass(frozen=True)
class Asking:
    """What a queue is compared with: the chunk it would get next, or the victims it would have given."""

    adds: Amounts = NOTHING
    loses: Amounts = NOTHING


def comes_first(shares: FairShares, left: tuple[QueueId, Asking], right: tuple[QueueId, Asking]) -> bool:
    """Whether the left of two siblings is served before the right one (3.2)."""
    world = shares.world
    queues = left[0], right[0]
    if world.policy.fair_order:
        criteria: tuple[Callable[[QueueId, Asking], object], ...] = (
            lambda queue, asking: _is_over_share(shares, queue, asking),
            lambda queue, asking: not _is_within_quota(world, queue, asking.adds),
            lambda queue, asking: -world.queues[queue].priority,
            lambda queue, asking: _uses_zero_share(shares, queue, asking.adds),
            lambda queue, asking: dominant_share(shares, queue, world.held(queue) + asking.adds - asking.loses),
            lambda queue, asking: dominant_share(shares, queue, world.held(queue)),
        )
        for criterion in criteria:
            mine, theirs = criterion(*left), criterion(*right)
            if mine != theirs:
                return bool(mine < theirs)  # type: ignore[operator]
        smaller = _has_smaller_share(shares, *queues)
        if smaller != _has_smaller_share(shares, *reversed(queues)):
            return smaller
    ages = [(world.queues[queue].created_at, queue) for queue in queues]
    return ages[0] < ages[1]


def _is_over_share(shares: FairShares, queue: QueueId, asking: Asking) -> bool:
    held, fair = shares.world.held(queue), shares.fair[queue]
    over = {resource for resource in RESOURCES if part(held, resource) > part(fair, resource)}
    if shares.world.policy.over_share_by_requested:
        return any(part(asking.adds + asking.loses, resource) > 0 for resource in over)
    return over == set(RESOURCES)


def _is_within_quota(world: World, queue: QueueId, adds: Amounts) -> bool:
    return is_within(world.held(queue) + adds, lambda resource: world.entitlement(queue, resource).quota)


def is_within(amounts: Amounts, bound: Callable[[Resource], int]) -> bool:
    """At most the bound in every resource."""
    return all(bound(resource) == UNLIMITED or part(amounts, resource) <= bound(resource) for resource in RESOURCES)


def _uses_zero_share(shares: FairShares, queue: QueueId, adds: Amounts) -> bool:
    uses = shares.world.held(queue) + adds
    return any(shares.allocatable(queue, each) == 0 and part(uses, each) > 0 for each in RESOURCES)


def dominant_share(shares: FairShares, queue: QueueId, held: Amounts) -> Fraction:
    """The largest part that a queue holds of what it may have of a resource."""
    largest = Fraction(0)
    for resource in RESOURCES:
        most = shares.allocatable(queue, resource)
        if most == UNLIMITED:
            most = part(shares.cluster, resource)
        uses = Fraction(part(held, resource))
        if most:
            largest = max(largest, uses / most)
        else:  # as if a thousandth of a GPU, core or byte were its share
            largest = max(largest, uses if resource == GPU else uses * WHOLE_GPU_MILLI)
    return largest


def _has_smaller_share(shares: FairShares, queue: QueueId, other: QueueId) -> bool:
    pairs = [(shares.allocatable(queue, each), shares.allocatable(other, each)) for each in RESOURCES]
    return all(theirs == UNLIMITED or (mine != UNLIMITED and mine <= theirs) for mine, theirs in pairs) and any(
        mine != theirs for mine, theirs in pairs
    )


# Walking the hierarchy


def next_group(shares: FairShares, pool: Collection[GroupId]) -> GroupState | None:
    """The group that is served next among those of a pool."""
    world = shares.world

    def best(queue: QueueId | None) -> GroupState | None:
        children = world.children(queue)
        if queue is not None and not children:
            here = [world.groups[name] for name in pool if world.groups[name].queue == queue]
            return min(here, key=lambda group: group_key(world, group), default=None)
        leader: tuple[QueueId, Asking] | None = None
        found: GroupState | None = None
        # The comparison is not transitive, so the order of this scan is part of the rule.
        for child in children:
            group = best(child)
            if group is None:
                continue
            asking = Asking(adds=world.chunk_charge(chunk(world, group, with_evicted=True)))
            if leader is None or comes_first(shares, (child, asking), leader):
                leader, found = (child, asking), group
        return found

    return best(None)


@dataclass
class VictimWalk:
    """Groups that may lose pods, the one that deserves its pods least first (3.4)."""

    shares: FairShares
    pool: set[GroupId]
    most_groups: int | None = None
    taken: dict[GroupId, set[PodId]] = field(default_factory=dict)
    _lost: dict[QueueId, Amounts] = field(default_factory=dict)

    def next(self) -> tuple[GroupState, list[PodState]] | None:
        """The next victim and what it would lose; it stays until `take` is called."""
        world = self.shares.world
        if self.most_groups is not None and len(self.taken) >= self.most_groups:
            self.pool &= self.taken.keys()
        self.pool = {name for name in self.pool if self._rest(world.groups[name])}
        group = self._best(None)
        return None if group is None else (group, unit(world, group, self.taken.get(group.id, set())))

    def take(self, group: GroupState, pods: Iterable[PodState]) -> None:
        """Count pods as gone."""
        pods = list(pods)
        assert group.queue is not None
        self.taken.setdefault(group.id, set()).update(pod.id for pod in pods)
        lost = total(self.shares.world.charge_here(pod) for pod in pods)
        self._lost[group.queue] = self._lost.get(group.queue, NOTHING) + lost

    def _rest(self, group: GroupState) -> list[PodState]:
        gone = self.taken.get(group.id, set())
        return [pod for pod in group.pods if pod.status in ALLOCATED and pod.id not in gone]

    def _best(self, queue: QueueId | None) -> GroupState | None:
        world = self.shares.world
        children = world.children(queue)
        if queue is not None and not children:
            here = [world.groups[name] for name in self.pool if world.groups[name].queue == queue]
            return max(here, key=lambda each: group_key(world, each, self.taken.get(each.id, ())), default=None)
        last: tuple[QueueId, Asking] | None = None
        found: GroupState | None = None
        for child in children:
            group = self._best(child)
            if group is None or group.queue is None:
                continue
            loses = self._lost.get(group.queue, NOTHING) + total(map(world.charge_here, self._rest(group)))
            asking = Asking(loses=loses)
            if last is None or comes_first(self.shares, last, (child, asking)):
                last, found = (child, asking), group
        return found


# The gate


def passes_gate(world: World, group: GroupState, pods: Iterable[PodState]) -> bool:
    """Whether limits, and for work that may not be preempted quotas, leave room for a chunk (4.0.2)."""
    asked = NOTHING
    for pod in pods:
        charge = world.charge(pod)
        if pod.row.shape.gpu.memory_mib and not world.policy.charge_memory_at_gate:
            charge = Amounts(0, charge.cpu_milli, charge.memory_bytes)
        asked = asked + charge
    return is_allowed(world, group, asked)


def is_allowed(world: World, group: GroupState, asked: Amounts) -> bool:
    """The gate for an amount."""
    if not world.policy.fair_order:
        return True
    return is_within_limits(world, group, asked) and is_within_firm_quota(world, group, asked)


def is_within_limits(world: World, group: GroupState, asked: Amounts) -> bool:
    assert group.queue is not None
    return all(
        _adds_within(world.held(queue), asked, {each: world.entitlement(queue, each).limit for each in RESOURCES})
        for queue in world.path(group.queue)
    )


def is_within_firm_quota(world: World, group: GroupState, asked: Amounts) -> bool:
    """Work that may not be preempted must stay within the quota of every queue above it."""
    assert group.queue is not None
    return group.preemptible or all(
        _adds_within(
            world.held(queue, firm_only=True),
            asked,
            {each: world.entitlement(queue, each).quota for each in RESOURCES},
        )
        for queue in world.path(group.queue)
    )


def _adds_within(held: Amounts, asked: Amounts, bounds: Mapping[Resource, int]) -> bool:
    return all(
        part(asked, resource) <= 0 or bound == UNLIMITED or part(held, resource) + part(asked, resource) <= bound
        for resource, bound in bounds.items()
    )

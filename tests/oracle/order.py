"""Order of pods, groups and queues, and the limits of queues (specification, sections 3 and 4.0)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction

from fairpool.model.ids import GroupId, PodId, QueueId
from tests.oracle.world import (
    GPU,
    NOTHING,
    PLACED,
    RESOURCES,
    WHOLE_GPU,
    PodState,
    Status,
    Vector,
    World,
    minus,
    total,
    within,
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


def set_order(world: World, group: GroupId, without: Iterable[PodId] = ()) -> list[str]:
    """Pod sets below their minimum first, by name; then the one with the smallest multiple of its minimum."""

    def key(name: str) -> tuple[Fraction, str]:
        placed, minimum = len(world.pods_of(group, PLACED, name, without)), sets[name]
        return (Fraction(placed, minimum) if placed >= minimum else Fraction(0)), name

    sets = world.groups[group].minimum
    return sorted(sets, key=key)


def chunk(world: World, group: GroupId, *, with_evicted: bool = False) -> list[PodState]:
    """The pods that are tried together next: all that the group lacks, or one more if it lacks none (4.0.1)."""
    lacking = {
        name: minimum - len(world.pods_of(group, PLACED, name)) for name, minimum in world.groups[group].minimum.items()
    }
    sets_to_visit = max(1, sum(1 for count in lacking.values() if count > 0))
    chosen: list[PodState] = []
    for name in set_order(world, group):
        candidates = world.pods_of(group, {Status.WAITING}, name)
        if with_evicted:
            candidates += [pod for pod in world.pods_of(group, {Status.LEAVING}, name) if pod.is_evicted]
        if candidates and sets_to_visit:
            sets_to_visit -= 1
            chosen += pod_order(world, candidates)[: max(1, lacking[name])]
    return chosen


def unit(world: World, group: GroupId, taken: Collection[PodId]) -> list[PodState]:
    """What a victim loses at a time: one pod beyond a minimum, the last in order, or else everything (4.8)."""
    sets = world.groups[group].minimum
    for name in reversed(set_order(world, group, taken)):
        placed = world.pods_of(group, PLACED, name, taken)
        if len(placed) > sets[name]:
            return pod_order(world, placed)[-1:]
    return [pod for name in sets for pod in world.pods_of(group, PLACED, name, taken)]


# Groups of a queue


def group_key(world: World, group: GroupId, without: Iterable[PodId] = ()) -> tuple[int, int, int, GroupId]:
    """The smallest key is served first and loses pods last: priority, then fewer pods, then age (3.1)."""
    each, policy = world.groups[group], world.policy
    counts = [(len(world.pods_of(group, PLACED, name, without)), least) for name, least in each.minimum.items()]
    if any(placed < least for placed, least in counts):
        elasticity = 0  # below its minimum
    else:
        elasticity = 1 if all(placed == least for placed, least in counts) else 2  # at it, above it
    return (
        -each.priority if policy.priority_order else 0,
        elasticity if policy.elastic_order else 0,
        each.row.created_at,
        group,
    )


# Queues


def allocatable(world: World, queue: QueueId) -> Vector:
    """How much a queue may hold before others may take from it: quota or fair share, within its limit (2.4)."""
    columns = zip(world.quota(queue), world.fair[queue], world.limit(queue), strict=True)
    return tuple(most if owed == math.inf else min(max(owed, fair), most) for owed, fair, most in columns)


def dominant_share(world: World, queue: QueueId, amounts: Vector) -> Fraction:
    """The largest part, over resources, that some amounts are of what a queue may hold (2.4)."""
    parts = []
    columns = zip(RESOURCES, amounts, allocatable(world, queue), world.cluster(), strict=True)
    for resource, amount, may_hold, everything in columns:
        whole = everything if may_hold == math.inf else may_hold
        if whole:
            parts.append(Fraction(amount) / Fraction(whole))
        else:  # as if it may hold a thousandth of a GPU, of a millicore or of a byte
            parts.append(Fraction(amount if resource == GPU else amount * WHOLE_GPU))
    return max(Fraction(0), *parts)


def comes_first(
    world: World, left: QueueId, right: QueueId, adds: Mapping[QueueId, Vector], loses: Mapping[QueueId, Vector]
) -> bool:
    """Whether the left of two siblings is served before the right one (3.2).

    `adds` is what the next group of each asks for, `loses` what the next victim of each would give back.
    """
    if world.policy.fair_order:
        mine, theirs = (_queue_key(world, queue, adds[queue], loses[queue]) for queue in (left, right))
        if mine != theirs:
            return mine < theirs
        sizes = allocatable(world, left), allocatable(world, right)
        if sizes[0] != sizes[1] and (within(sizes[0], sizes[1]) or within(sizes[1], sizes[0])):
            return within(sizes[0], sizes[1])
    return (world.queues[left].created_at, left) < (world.queues[right].created_at, right)


def _queue_key(
    world: World, queue: QueueId, adds: Vector, loses: Vector
) -> tuple[bool, bool, int, bool, Fraction, Fraction]:
    """The first six criteria: over its share, outside its quota, priority, uses what it has no share of, shares."""
    has = world.held(queue)
    then = total((has, adds))
    over = [amount > fair for amount, fair in zip(has, world.fair[queue], strict=True)]
    if world.policy.over_share_by_requested:  # B4
        over_share = any(over[each] and (adds[each] > 0 or loses[each] > 0) for each in RESOURCES)
    else:
        over_share = all(over)
    may_hold = allocatable(world, queue)
    return (
        over_share,
        not within(then, world.quota(queue)),
        -world.queues[queue].priority,
        any(may_hold[each] == 0 and then[each] > 0 for each in RESOURCES),
        dominant_share(world, queue, minus(then, loses)),
        dominant_share(world, queue, has),
    )


# Walking down the queues


def next_group(world: World, groups: Collection[GroupId], parent: QueueId | None = None) -> GroupId | None:
    """The group that is served next among some, in all queues or in those below a parent (3.3)."""
    found: dict[QueueId, GroupId] = {}
    adds: dict[QueueId, Vector] = {}
    best: QueueId | None = None
    # The comparison of queues is not transitive, so the order of this scan is part of the rule.
    for queue in world.children(parent):
        here = [group for group in groups if world.groups[group].queue == queue]
        group = min(here, key=lambda each: group_key(world, each)) if here else next_group(world, groups, queue)
        if group is None:
            continue
        found[queue] = group
        adds[queue] = total(world.charge(pod) for pod in chunk(world, group, with_evicted=True))
        if best is None or comes_first(world, queue, best, adds, dict.fromkeys(found, NOTHING)):
            best = queue
    return None if best is None else found[best]


def next_victim(
    world: World, groups: Collection[GroupId], taken: Collection[PodId], parent: QueueId | None = None
) -> GroupId | None:
    """The group that loses pods next: the last one of the queue that would be served last (3.4).

    Pods already taken count as gone from their groups, and their queues as without them in the dominant share.
    """
    found: dict[QueueId, GroupId] = {}
    loses: dict[QueueId, Vector] = {}
    last: QueueId | None = None
    for queue in world.children(parent):
        here = [
            group
            for group in groups
            if world.groups[group].queue == queue and world.pods_of(group, PLACED, without=taken)
        ]
        if here:
            victim: GroupId | None = max(here, key=lambda each: group_key(world, each, taken))
        else:
            victim = next_victim(world, groups, taken, queue)
        if victim is None:
            continue
        leaf = world.groups[victim].queue
        lost = [pod for pod in world.pods.values() if pod.row.id in taken and world.groups[pod.row.group].queue == leaf]
        found[queue] = victim
        loses[queue] = total(world.charge_here(pod) for pod in lost + world.pods_of(victim, PLACED, without=taken))
        if last is None or comes_first(world, last, queue, dict.fromkeys(found, NOTHING), loses):
            last = queue
    return None if last is None else found[last]


# Limits and quotas


def passes_gate(world: World, group: GroupId, pods: Iterable[PodState]) -> bool:
    """Whether limits, and quotas for what may not be preempted, leave room for a chunk (4.0.2)."""
    charges = []
    for pod in pods:
        asked = world.charge(pod)
        if pod.row.shape.gpu.memory_mib and not world.policy.charge_memory_at_gate:  # B6
            asked = (0, *asked[1:])
        charges.append(asked)
    return is_allowed(world, group, total(charges))


def is_allowed(world: World, group: GroupId, asked: Vector) -> bool:
    if not world.policy.fair_order:
        return True
    return is_within_limits(world, group, asked) and is_within_quotas(world, group, asked)


def is_within_limits(world: World, group: GroupId, asked: Vector) -> bool:
    """The limit of the group's queue and of every queue above it, for each resource that is asked for."""
    path = world.path(world.groups[group].queue)
    return all(_leaves_room(world.held(queue), asked, world.limit(queue)) for queue in path)


def is_within_quotas(world: World, group: GroupId, asked: Vector) -> bool:
    """Groups that may not be preempted, together, stay within the quota of every queue above them."""
    path = world.path(world.groups[group].queue)
    return world.groups[group].preemptible or all(
        _leaves_room(world.held_non_preemptible(queue), asked, world.quota(queue)) for queue in path
    )


def _leaves_room(has: Vector, asked: Vector, bounds: Vector) -> bool:
    return all(more <= 0 or now + more <= bound for now, more, bound in zip(has, asked, bounds, strict=True))

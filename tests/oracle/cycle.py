"""The cycle: allocate, consolidate, reclaim, preempt, stale gangs (specification, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from fairpool.model.ids import SECOND_MS, GroupId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Placement
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.order import chunk, group_key, is_within_quotas, next_group, passes_gate
from tests.oracle.place import find_place, is_free_now, place_chunk
from tests.oracle.read import read
from tests.oracle.shares import with_fair_shares
from tests.oracle.take import (
    Solution,
    find_victims,
    is_fair,
    is_protected,
    keeps_runtimes,
    may_reclaim,
)
from tests.oracle.world import (
    CLAIM_DEVICES,
    GPU,
    GPUS,
    NO_QUEUE,
    NOW,
    PLACED,
    SOON,
    WHOLE_GPU,
    Group,
    PodState,
    Status,
    Vector,
    World,
    total,
)

IN_PLACE = frozenset({Status.RUNNING, Status.BOUND})


def run_cycle(snapshot: Snapshot) -> World:
    """The world as one cycle leaves it."""
    world = with_fair_shares(read(snapshot))
    steps = {
        Pass.ALLOCATE: allocate,
        Pass.CONSOLIDATE: consolidate,
        Pass.RECLAIM: reclaim,
        Pass.PREEMPT: preempt,
        Pass.STALE: evict_stale,
    }
    for each in world.policy.passes:
        world = steps[each](world)
    return start_what_can(world) if world.policy.place_before_taking else world


def waiting_groups(world: World, by: Pass) -> list[GroupId]:
    """Groups that take part in a pass: ready, with waiting pods; of each queue the first few if that is bounded."""
    most = world.policy.groups_per_queue.get(by, len(world.groups))
    found: list[GroupId] = []
    for name in sorted(world.groups, key=lambda each: group_key(world, each)):
        queue = world.groups[name].queue
        earlier = [other for other in found if world.groups[other].queue == queue]
        waits = world.is_ready(name) and world.pods_of(name, {Status.WAITING})
        if waits and len(earlier) < most:
            found.append(name)
    return found


# Allocate: specification, 4.1


def allocate(world: World) -> World:
    """Place waiting groups, in order, where places are free or become free; none has to go for them."""
    if world.policy.durable_promises:
        for name in promised_groups(world):
            world = honour(world, name)
    groups = set(waiting_groups(world, Pass.ALLOCATE))
    while (group := next_group(world, groups)) is not None:
        groups.discard(group)
        if world.policy.recheck_readiness and not world.is_ready(group):
            continue
        after = place(world, group, chunk(world, group))
        if after is not None:
            world = after
            if world.pods_of(group, {Status.WAITING}):
                groups.add(group)
    return world


def place(world: World, group: GroupId, pods: list[PodState]) -> World | None:
    """Place a chunk if limits allow it: bound where there is room now, unless that would start a part of a gang."""
    if not pods or not passes_gate(world, group, pods):
        return None
    after = place_chunk(world, group, pods, world.nodes, may_bind=True)
    if after is None:
        return None
    after = keep_together(after, group, pods)
    is_promised = any(after.pods[pod.row.id].status is Status.PROMISED for pod in pods)
    return None if is_promised and group in world.expired else after


def keep_together(world: World, group: GroupId, pods: Iterable[PodState]) -> World:
    """If some pod set must wait for places to reach its minimum, nothing of this chunk starts yet."""
    for name, minimum in world.groups[group].minimum.items():
        is_short = len(world.pods_of(group, IN_PLACE, name)) < minimum
        if is_short and world.pods_of(group, {Status.PROMISED}, name):
            return world.with_pods(*(replace(world.pods[pod.row.id], status=Status.PROMISED) for pod in pods))
    return world


def promised_groups(world: World) -> list[GroupId]:
    """Groups with promises of earlier cycles, the oldest promise first."""
    since: dict[GroupId, int] = {}
    for pod in world.pods.values():
        if pod.row.phase is PodPhase.PROMISED and world.groups[pod.row.group].queue != NO_QUEUE:
            promised_at = pod.row.promised_at or 0
            since[pod.row.group] = min(promised_at, since.get(pod.row.group, promised_at))
    return sorted(since, key=lambda name: (since[name], name))


def honour(world: World, group: GroupId) -> World:
    """Place the promised pods of a group on the nodes that they were promised, and what else it lacks anywhere.

    All of them or none; none if the promise is too old.
    """
    pods = [pod for pod in world.pods_of(group, {Status.WAITING}) if pod.row.phase is PodPhase.PROMISED]
    if not pods or not world.is_ready(group):
        return world
    after = world
    for pod in pods:
        if pod.row.node is None or pod.row.node not in world.nodes:
            return world
        found = find_place(after, pod, pod.row.node, pod.row.devices)
        if found is None:
            return world
        after = after.give(pod.row.id, found[0], now=found[1])
    rest = chunk(after, group) if after.lacks_pods(group, PLACED) else []
    placed = place_chunk(after, group, rest, world.nodes, may_bind=True) if passes_gate(after, group, rest) else None
    if placed is None:
        return world
    oldest = min(pod.row.promised_at or 0 for pod in pods)
    if world.snapshot.now - oldest >= world.policy.promise_lifetime_s * SECOND_MS:
        return replace(world, expired=world.expired | {group})
    return replace(keep_together(placed, group, [*pods, *rest]), winners=world.winners | {group})


# Taking from others


def help_waiting(
    world: World,
    by: Pass,
    takes_part: Callable[[Group], bool],
    solve: Callable[[World, GroupId, Vector], Solution | None],
) -> World:
    """Look for victims for every group that still waits, in order; each is helped at most once."""
    groups = {name for name in waiting_groups(world, by) if takes_part(world.groups[name])}
    while (group := next_group(world, groups)) is not None:
        groups.discard(group)
        if world.policy.recheck_readiness and not world.is_ready(group):
            continue
        pods = chunk(world, group)
        after = place(world, group, pods) if world.policy.place_before_taking else None
        if after is not None:
            world = after
            continue
        asked = total(world.charge(pod) for pod in pods)
        solution = solve(world, group, asked) if pods and group not in world.expired else None
        if solution is not None:
            world = restart_broken_gangs(solution) if world.policy.whole_gang_restarts else solution.after
            if world.policy.winners_keep:
                world = replace(world, winners=world.winners | {group})
    return world


def restart_broken_gangs(solution: Solution) -> World:
    """A gang that lost or moved pods and no longer has its minimum in place restarts as a whole."""
    world = solution.after
    for group in {world.group_of(pod) for pod in solution.victims if not solution.is_back(pod)}:
        if not world.lacks_pods(group, IN_PLACE):
            continue
        for pod in world.pods_of(group, {Status.BOUND}):
            world = world.with_pods(replace(pod, status=Status.PROMISED))
        for pod in world.pods_of(group, {Status.RUNNING}):
            assert pod.place is not None
            world = world.with_pods(replace(pod, status=Status.PROMISED, vacates=(pod.place,), before=pod))
    return world


def possible_victims(world: World, allows: Callable[[Group], bool]) -> list[GroupId]:
    """Groups that may be preempted and have something to lose, except those that others had to go for."""
    return [
        name
        for name, group in world.groups.items()
        if group.preemptible and world.pods_of(name, PLACED) and name not in world.winners and allows(group)
    ]


def is_moved(world: World, group: Group) -> bool:
    """Whether this cycle moved a pod of a group; reclaim and preempt take no more from it then."""
    return any(pod.is_moved for pod in world.pods_of(group.row.id, PLACED))


# Consolidate: specification, 4.3


def consolidate(world: World) -> World:
    """Make room for groups by moving others; no pod may be left without a place."""
    most = world.policy.max_moved_groups
    spreads = world.snapshot.pool.gpu_placement is Placement.SPREAD
    if most == 0 or (spreads and world.policy.consolidate_only_packed):
        return world

    def solve(world: World, group: GroupId, asked: Vector) -> Solution | None:
        if asked[GPU] > free_gpus_milli(world):
            return None
        victims = possible_victims(world, lambda other: other.row.id != group and other.row.movable)
        return find_victims(world, group, victims, loses_no_pod, most)

    return help_waiting(world, Pass.CONSOLIDATE, lambda group: group.preemptible, solve)


def loses_no_pod(solution: Solution) -> bool:
    return not any(solution.is_lost(pod) for pod in solution.victims)


def free_gpus_milli(world: World) -> int:
    """GPUs that are idle or being released, in whole and in part, on all nodes."""
    milli = 0
    for name, node in world.nodes.items():
        soon = world.free(name, SOON)
        milli += WHOLE_GPU * (soon.amounts[GPUS] + soon.amounts[CLAIM_DEVICES]) + world.partly_free(name, soon)
        milli += world.mig_milli({profile: soon.amounts[profile] for profile in node.mig_instances})
        if world.policy.promised_portions_twice:
            for pod, devices, status in world.pods_on(name):
                if status is Status.PROMISED and devices:
                    portion = WHOLE_GPU * world.memory_on_device(pod, name) // world.device_memory(name)
                    milli -= portion * len(devices)
    return milli


# Reclaim and preempt: specification, 4.4 and 4.5


def reclaim(world: World) -> World:
    """Move resources between queues, towards fair shares."""

    def solve(world: World, group: GroupId, asked: Vector) -> Solution | None:
        if not may_reclaim(world, group, asked):
            return None
        victims = possible_victims(
            world,
            lambda other: (
                other.queue != world.groups[group].queue
                and not is_moved(world, other)
                and not is_protected(world, Pass.RECLAIM, group, other.row.id)
            ),
        )
        return find_victims(world, group, victims, lambda each: keeps_runtimes(each, Pass.RECLAIM) and is_fair(each))

    return help_waiting(world, Pass.RECLAIM, lambda _: True, solve)


def preempt(world: World) -> World:
    """Within a queue, take from groups of lower priority."""

    def solve(world: World, group: GroupId, asked: Vector) -> Solution | None:
        if not is_within_quotas(world, group, asked):
            return None
        victims = possible_victims(
            world,
            lambda other: (
                other.queue == world.groups[group].queue
                and other.priority < world.groups[group].priority
                and not is_moved(world, other)
                and not is_protected(world, Pass.PREEMPT, group, other.row.id)
            ),
        )
        return find_victims(world, group, victims, lambda each: keeps_runtimes(each, Pass.PREEMPT))

    return help_waiting(world, Pass.PREEMPT, lambda _: True, solve)


# Stale gangs: 4.6


def evict_stale(world: World) -> World:
    """Evict groups that have run for too long with fewer pods than they need."""
    grace_s, now = world.policy.stale_grace_s, world.snapshot.now
    active = PLACED | NOW
    for name, group in world.groups.items():
        since = now if group.row.stale_since is None else group.row.stale_since
        is_overdue = grace_s >= 0 and now - since >= grace_s * SECOND_MS
        is_stale = not group.row.succeeded and world.pods_of(name, active) and world.lacks_pods(name, active)
        for pod in world.pods_of(name, PLACED) if is_stale and is_overdue else ():
            world = world.evict(pod.row.id)
    return world


# What is free after all


def start_what_can(world: World) -> World:
    """Bind groups all of whose promised places are free now, because what was to leave them never started."""
    for name in world.groups:
        after = world
        for pod in world.pods_of(name, {Status.PROMISED}):
            if pod.before is not None or not is_free_now(after, pod):
                break
            after = after.with_pods(replace(pod, status=Status.BOUND))
        else:
            world = after
    return world

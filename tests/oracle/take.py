"""Taking from others: the search for victims, what reclaim and minimum runtimes allow (specification, 4.2 to 4.8)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction

from fairpool.model.ids import SECOND_MS, GroupId, NodeName, PodId, QueueId
from fairpool.scheduler.policy import Pass, RuntimeScope
from tests.oracle.order import allocatable, chunk, next_group, next_victim, passes_gate, unit
from tests.oracle.place import place_chunk
from tests.oracle.world import (
    CLAIM_DEVICES,
    GPUS,
    NOTHING,
    NOW,
    PLACED,
    RESOURCES,
    SOON,
    PodState,
    Status,
    Vector,
    World,
    minus,
    total,
    within,
)


@dataclass(frozen=True)
class Solution:
    """A try in which a group got its places."""

    before: World
    after: World
    group: GroupId
    placed: list[PodId]
    victims: list[PodId]
    """Pods that were evicted, though some may have got a place again."""
    considered: list[PodId]
    """Pods that were to be victims by then, evicted in this try or not."""

    def is_lost(self, victim: PodId) -> bool:
        return self.after.pods[victim].status not in PLACED

    def is_back(self, victim: PodId) -> bool:
        """Has its own place again, not just the promise of one, as if nothing had happened."""
        pod = self.after.pods[victim]
        return pod == self.before.pods[victim] and pod.status is not Status.PROMISED


Validator = Callable[[Solution], bool]


def find_victims(
    world: World, group: GroupId, may_lose: Collection[GroupId], is_valid: Validator, most_groups: int | None = None
) -> Solution | None:
    """Solve for the first pod of the group's chunk, then for the first two and so on, keeping the victims so far."""
    pods = [pod.row.id for pod in chunk(world, group)]
    recorded: list[PodId] = []
    solution: Solution | None = None
    for count in range(1, len(pods) + 1):
        solution = _solve_for(world, group, pods[:count], recorded, may_lose, is_valid, most_groups)
        if solution is None:
            return None
        touched = {world.group_of(pod) for pod in solution.victims if not solution.is_back(pod)}
        recorded = [pod for pod in solution.victims if world.group_of(pod) in touched]
    return solution


def _solve_for(
    world: World,
    group: GroupId,
    pods: list[PodId],
    recorded: list[PodId],
    may_lose: Collection[GroupId],
    is_valid: Validator,
    most_groups: int | None,
) -> Solution | None:
    """Add victims, one unit at a time, until a try succeeds."""
    feasible = _feasible_nodes(world, group) | _nodes(world, recorded)
    potential: list[PodId] = []
    taken: set[PodId] = set()
    if recorded:
        solution = _try(world, group, pods, recorded, feasible, potential)
        if solution is not None and is_valid(solution):
            return solution
    while (victim := next_victim(world, may_lose, taken)) is not None:
        added = [pod.row.id for pod in unit(world, victim, taken)]
        if set(added) & set(recorded):
            taken |= {pod for pod in recorded if world.group_of(pod) == victim}
        else:
            taken |= set(added)
            potential += added
            for node in sorted(_nodes(world, added)):
                there = {world.group_of(pod) for pod in potential if _nodes(world, [pod]) == {node}}
                evicted = recorded + [pod for pod in potential if world.group_of(pod) in there]
                solution = _try(world, group, pods, evicted, feasible | _nodes(world, evicted), potential)
                if solution is not None and is_valid(solution):
                    return solution
        losers = {world.group_of(pod) for pod in taken}
        if most_groups is not None and len(losers) >= most_groups:
            may_lose = losers
    return None


def _nodes(world: World, pods: Iterable[PodId]) -> set[NodeName]:
    places = (world.pods[pod].place for pod in pods)
    return {place.node for place in places if place is not None}


def _feasible_nodes(world: World, group: GroupId) -> set[NodeName]:
    """For pods that all request GPUs, nodes with any part of a GPU idle or being released; otherwise all nodes."""
    if not all(world.wants_gpu(pod) for pod in world.pods.values() if pod.row.group == group):
        return set(world.nodes)
    return {name for name in world.nodes if _has_free_gpus(world, name)}


def _has_free_gpus(world: World, name: NodeName) -> bool:
    now, soon = world.free(name, NOW), world.free(name, SOON)
    for resource in (GPUS, CLAIM_DEVICES, *world.nodes[name].mig_instances):
        if now.amounts[resource] > 0 or soon.amounts[resource] > now.amounts[resource]:
            return True
    return any(soon.used.get(device, 0) < world.device_memory(name) for device in {**now.used, **soon.used})


def _try(
    world: World, group: GroupId, pods: list[PodId], evicted: list[PodId], nodes: set[NodeName], considered: list[PodId]
) -> Solution | None:
    """Evict, then offer places, in the usual order, to the group and to the victims. None: the group finds none.

    Meanwhile the group consists of the pods that are solved for: all of them must run, and its others are gated.
    """
    losers = {world.group_of(pod) for pod in evicted}
    trial = world
    for pod in evicted:
        trial = trial.evict(pod)
    others = [pod for pod in trial.pods_of(group, {Status.WAITING}) if pod.row.id not in pods]
    trial = trial.with_pods(*(replace(pod, status=Status.GATED) for pod in others))
    counts = {name: sum(world.pods[pod].row.pod_set == name for pod in pods) for name in world.groups[group].minimum}
    minimum = {name: counts[name] or least for name, least in world.groups[group].minimum.items()}
    trial = replace(trial, groups={**world.groups, group: replace(world.groups[group], minimum=minimum)})

    waiting = {pod.row.group for pod in trial.pods.values() if pod.status is Status.WAITING}
    turns = waiting | losers | {group}
    while (turn := next_group(trial, turns)) is not None:
        turns.discard(turn)
        if turn == group:
            after = offer(trial, group, [trial.pods[pod] for pod in pods], nodes)
            if after is None:
                return None
            trial = after
        elif turn in losers:
            together = chunk(trial, turn, with_evicted=True)
            back = [pod for pod in together if pod.row.id in evicted]
            # A part of a gang is useless without the rest, which is not to be started here.
            if back and (len(back) == len(together) or not world.policy.whole_gang_restarts):
                trial = offer(trial, turn, back, nodes) or trial

    after = replace(trial.with_pods(*others), groups=world.groups)
    return Solution(world, after, group, pods, evicted, considered)


def offer(world: World, group: GroupId, pods: list[PodState], nodes: Iterable[NodeName]) -> World | None:
    """Promise places to a chunk."""
    return place_chunk(world, group, pods, nodes, may_bind=False) if passes_gate(world, group, pods) else None


# What reclaim allows: specification, 4.4


def may_reclaim(world: World, group: GroupId, asked: Vector) -> bool:
    """With its chunk the leaf queue stays within its fair share and, if the group may not be preempted, its quota."""
    queue = world.groups[group].queue
    if not within(total((world.held(queue), asked)), world.fair[queue]):
        return False
    non_preemptible = total((world.held_non_preemptible(queue), asked))
    return world.groups[group].preemptible or within(non_preemptible, world.quota(queue))


def is_fair(solution: Solution) -> bool:
    """The validator of reclaim."""
    before, after = solution.before, solution.after
    asked = total(after.charge_here(after.pods[pod]) for pod in solution.placed)
    losses = [
        (leaf, total(before.charge_here(before.pods[pod]) for pod in pods)) for leaf, pods in lost_units(solution)
    ]
    return is_fair_reclaim(before, solution.group, asked, losses)


def lost_units(solution: Solution) -> list[tuple[QueueId, list[PodId]]]:
    """What is lost for good, with its queue: first pods beyond a minimum one by one, then the rest of each group.

    What this cycle gave and takes back comes before all that, if taking it back is no eviction: with it gone, the rest
    must be justified by what its queue held without it.
    """
    world, moves_are_free = solution.before, solution.before.policy.moves_in_reclaim_are_free
    lost = [pod for pod in solution.victims if solution.is_lost(pod) or not (moves_are_free or solution.is_back(pod))]
    given = [pod for pod in lost if world.policy.withdraw_unstarted and _is_given(world.pods[pod])]
    return _units(world, given) + _units(world, [pod for pod in lost if pod not in given])


def _is_given(pod: PodState) -> bool:
    """Whether a pod that waited has got its place in this cycle."""
    return pod.status in (Status.BOUND, Status.PROMISED) and pod.before is None


def _units(world: World, lost: list[PodId]) -> list[tuple[QueueId, list[PodId]]]:
    single: list[tuple[QueueId, list[PodId]]] = []
    cores: list[tuple[QueueId, list[PodId]]] = []
    for group in dict.fromkeys(world.group_of(pod) for pod in lost):
        queue, core = world.groups[group].queue, []
        for name, minimum in world.groups[group].minimum.items():
            rows = ((pod, world.pods[pod].row) for pod in lost)
            mine = [pod for pod, row in rows if row.group == group and row.pod_set == name]
            core += mine[:minimum]
            single += [(queue, [pod]) for pod in mine[minimum:]]
        cores.append((queue, core))
    return single + cores


def is_fair_reclaim(
    world: World,
    group: GroupId,
    asked: Vector,
    losses: list[tuple[QueueId, Vector]],
) -> bool:
    """Every unit is justified when it is taken, and the group's side stays less saturated than those that lose."""
    mine = world.path(world.groups[group].queue)
    before = {queue: world.held(queue) for queue in world.queues}
    rest = dict(before)
    lost: dict[QueueId, Vector] = {}
    for leaf, amount in losses:
        theirs = world.path(leaf)
        gaining, losing = next(pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1])
        has_too_much = not within(rest[losing], allocatable(world, losing))
        restores_quota = within(total((before[gaining], asked)), world.quota(gaining)) and not within(
            rest[losing], world.quota(losing)
        )
        if not has_too_much and not restores_quota:
            return False
        for each in theirs:
            rest[each] = minus(rest[each], amount)
            lost[each] = total((lost.get(each, NOTHING), amount))
    for each in mine:
        for sibling in world.children(world.queues[each].parent):
            if sibling in lost and sibling != each:
                gains, keeps = total((rest[each], asked)), rest[sibling]
                if _is_more_saturated(world, each, gains, sibling, keeps, total((asked, lost[sibling]))):
                    return False
        non_preemptible = total((world.held_non_preemptible(each), asked))
        if not world.groups[group].preemptible and not within(non_preemptible, world.quota(each)):
            return False
    return True


def _is_more_saturated(
    world: World, queue: QueueId, gains: Vector, sibling: QueueId, keeps: Vector, involved: Vector
) -> bool:
    """Whether a queue ends up above its fair share, and no less so than a sibling that it took from."""
    multiplier = Fraction(str(max(1.0, world.policy.saturation_multiplier)))
    for resource in RESOURCES:
        mine, theirs = world.fair[queue][resource], world.fair[sibling][resource]
        if involved[resource] <= 0 or gains[resource] <= mine or theirs == 0:
            continue
        # gains / mine * multiplier >= keeps / theirs, without dividing by a fair share of 0
        if multiplier * Fraction(gains[resource]) * Fraction(theirs) >= Fraction(keeps[resource]) * Fraction(mine):
            return True
    return False


# Minimum runtimes: specification, 4.7


def min_runtime_s(world: World, by: Pass, taker: QueueId, victim: QueueId) -> int:
    """How long groups of the victim's queue are protected: the value nearest to it, going up.

    For reclaim one starts, by default, where the paths of the two queues part.
    """
    queues = world.path(victim)
    if by is Pass.RECLAIM and world.policy.reclaim_runtime_scope is RuntimeScope.COMMON_ANCESTOR:
        common = [one for one, other in zip(queues, world.path(taker), strict=False) if one == other]
        queues = queues[: len(common) + 1]
    rows = [world.queues[queue] for queue in reversed(queues)]
    if by is Pass.RECLAIM:
        values, default = [row.reclaim_min_runtime_s for row in rows], world.policy.default_reclaim_min_runtime_s
    else:
        values, default = [row.preempt_min_runtime_s for row in rows], world.policy.default_preempt_min_runtime_s
    return next((value for value in values if value is not None), default)


def is_young(world: World, by: Pass, taker: GroupId, victim: GroupId) -> bool:
    """Whether a group is still within its minimum runtime."""
    started_at = world.groups[victim].row.started_at
    runtime_s = min_runtime_s(world, by, world.groups[taker].queue, world.groups[victim].queue)
    return started_at is not None and world.snapshot.now < started_at + runtime_s * SECOND_MS


def is_protected(world: World, by: Pass, taker: GroupId, victim: GroupId) -> bool:
    """Young; but an elastic group may give what it has beyond its minimum, which `keeps_runtimes` looks at."""
    rows = [pod.row for pod in world.pods.values() if pod.row.group == victim]
    sets = world.groups[victim].minimum.items()
    is_elastic = any(sum(row.pod_set == name for row in rows) > minimum for name, minimum in sets)
    return is_young(world, by, taker, victim) and not is_elastic


def keeps_runtimes(solution: Solution, by: Pass) -> bool:
    """Whether young groups keep their minimum in every pod set that they lose pods from."""
    world = solution.after
    if world.policy.count_only_evicted:
        gone, staying = [pod for pod in solution.victims if solution.is_lost(pod)], PLACED
    else:  # B8: also pods that this try did not evict, and pods that leave still count as there
        gone, staying = [*solution.considered, *solution.victims], PLACED | {Status.LEAVING}
    for group, name in {(world.group_of(pod), world.pods[pod].row.pod_set) for pod in gone}:
        rest = world.pods_of(group, staying, name, without=gone)
        if is_young(world, by, solution.group, group) and len(rest) < world.groups[group].minimum[name]:
            return False
    return True

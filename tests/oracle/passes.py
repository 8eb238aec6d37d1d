"""The passes of a cycle: allocate, consolidate, reclaim, preempt, stale gangs (specification, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction

from fairpool.model.ids import SECOND_MS, GroupId, NodeName, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Placement
from fairpool.model.quantity import WHOLE_GPU_MILLI, Amounts
from fairpool.scheduler.policy import Pass, RuntimeScope
from tests.oracle.order import chunk, group_key, is_within, is_within_firm_quota, next_group, passes_gate
from tests.oracle.place import free_parts, place_chunk
from tests.oracle.shares import FairShares
from tests.oracle.solve import Search, Solution
from tests.oracle.world import (
    ACTIVE,
    ALLOCATED,
    CLAIM_DEVICES,
    GPUS,
    NOTHING,
    RESOURCES,
    GroupState,
    PodState,
    Stand,
    Status,
    World,
    part,
    total,
)


class Cycle:
    """One cycle: the passes of the policy, in their order, on one world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.policy = world.policy
        self.shares = FairShares(world)
        self.winners: set[GroupId] = set()
        """Groups for which others went; what they got is not taken from them in the same cycle."""

        self.expired: set[GroupId] = set()
        """Groups whose promise is too old: they may start now, but are promised nothing in this cycle."""

    def run(self) -> None:
        steps: dict[Pass, Callable[[], None]] = {
            Pass.ALLOCATE: self._allocate,
            Pass.CONSOLIDATE: self._consolidate,
            Pass.RECLAIM: self._reclaim,
            Pass.PREEMPT: self._preempt,
            Pass.STALE: self._evict_stale,
        }
        for each in self.policy.passes:
            steps[each]()

    # allocate

    def _allocate(self) -> None:
        if self.policy.durable_promises:
            for each in promised_groups(self.world):
                self._honour(each)
        pool = self._waiting_groups(Pass.ALLOCATE)
        while (group := next_group(self.shares, pool)) is not None:
            pool.discard(group.id)
            if self.policy.recheck_readiness and not group.is_ready:
                continue
            pods = chunk(self.world, group)
            if self._place(group, pods, self.world.nodes) and group.has(Status.WAITING):
                pool.add(group.id)

    def _place(self, group: GroupState, pods: list[PodState], nodes: Iterable[NodeName]) -> bool:
        """Place a chunk, bound where there is room now, unless that would start a part of a gang."""
        mark = self.world.mark()
        if not passes_gate(self.world, group, pods):
            return False
        if not place_chunk(self.world, group, pods, nodes, may_bind=True):
            return False
        self._promise_split_gang(group, pods)
        if group.id in self.expired and any(pod.status is Status.PROMISED for pod in pods):
            self.world.undo(mark)
            return False
        return True

    def _promise_split_gang(self, group: GroupState, pods: list[PodState]) -> None:
        """If some set must wait for a place to reach its minimum, nothing of this chunk starts yet."""
        is_split = any(
            group.in_set(name, {Status.PROMISED}) and len(group.in_set(name, {Status.RUNNING, Status.BOUND})) < least
            for name, least in group.minimum.items()
        )
        for pod in pods if is_split else ():
            self.world.set(pod, replace(pod.stand, status=Status.PROMISED))

    def _honour(self, group: GroupState) -> None:
        """Place the promised pods of a group on the nodes that they were promised, all of them or none."""
        world = self.world
        pods = [pod for pod in group.pods if pod.row.phase is PodPhase.PROMISED and pod.status is Status.WAITING]
        if not group.is_ready or any(not self._has_its_node(pod) for pod in pods):
            return
        mark = world.mark()
        for pod in pods:
            assert pod.row.node is not None
            if not place_chunk(world, group, [pod], [pod.row.node], may_bind=True):
                world.undo(mark)
                return
        rest = chunk(world, group) if group.is_below_minimum else []
        if rest and not (
            passes_gate(world, group, rest) and place_chunk(world, group, rest, world.nodes, may_bind=True)
        ):
            world.undo(mark)
            return
        if any(self._is_old(pod) for pod in pods):
            world.undo(mark)
            self.expired.add(group.id)
            return
        self._promise_split_gang(group, [*pods, *rest])
        self.winners.add(group.id)

    def _has_its_node(self, pod: PodState) -> bool:
        node = None if pod.row.node is None else self.world.nodes.get(pod.row.node)
        return node is not None and node.is_healthy

    def _is_old(self, pod: PodState) -> bool:
        since = 0 if pod.row.promised_at is None else pod.row.promised_at
        return self.world.now - since >= self.policy.promise_lifetime_s * SECOND_MS

    def _waiting_groups(self, by: Pass) -> set[GroupId]:
        """Groups that take part in a pass: ready, with waiting pods; of each queue only the first few if so bounded."""
        groups = [
            group
            for group in self.world.groups.values()
            if group.queue is not None and group.is_ready and group.has(Status.WAITING)
        ]
        most = self.policy.groups_per_queue.get(by)
        if most is not None:
            ranked = sorted(groups, key=lambda group: group_key(self.world, group))
            groups = [
                group
                for place, group in enumerate(ranked)
                if sum(1 for other in ranked[:place] if other.queue == group.queue) < most
            ]
        return {group.id for group in groups}

    # Taking from others

    def _help(
        self,
        by: Pass,
        is_eligible: Callable[[GroupState], bool],
        search: Callable[[GroupState], Search],
        *,
        preemptible_only: bool = False,
    ) -> None:
        """Look for victims for every group that allocate left waiting; each is helped at most once."""
        pool = {
            name for name in self._waiting_groups(by) if self.world.groups[name].preemptible or not preemptible_only
        }
        while (group := next_group(self.shares, pool)) is not None:
            pool.discard(group.id)
            if self.policy.recheck_readiness and not group.is_ready:
                continue
            pods = chunk(self.world, group)
            if self.policy.place_before_taking and self._place(group, pods, self.world.nodes):
                continue
            may_try = bool(pods) and group.id not in self.expired and is_eligible(group)
            solution = search(group).run() if may_try else None
            if solution is None:
                continue
            if self.policy.whole_gang_restarts:
                self._restart_gangs(solution)
            if self.policy.winners_keep:
                self.winners.add(group.id)

    def _restart_gangs(self, solution: Solution) -> None:
        """A gang that lost or moved pods and no longer has its minimum in place restarts as a whole."""
        for group in {victim.pod.group.id: victim.pod.group for victim in solution.victims}.values():
            moved = [victim.pod for victim in solution.victims if victim.pod.group is group and not victim.is_back]
            in_place = {Status.RUNNING, Status.BOUND}
            is_broken = any(len(group.in_set(name, in_place)) < least for name, least in group.minimum.items())
            if not moved or not is_broken:
                continue
            for pod in group.pods:
                if pod.status in in_place:
                    self._restart(pod)

    def _restart(self, pod: PodState) -> None:
        place = pod.stand.place
        assert place is not None
        if pod.status is Status.BOUND:
            self.world.set(pod, Stand(Status.PROMISED, place))
        else:
            self.world.set(pod, Stand(Status.PROMISED, place, (place,), pod.stand))

    def _victims(self, allows: Callable[[GroupState], bool]) -> list[GroupId]:
        """Groups with something to lose."""
        return [
            group.id
            for group in self.world.groups.values()
            if group.queue is not None
            and group.preemptible
            and group.has(*ALLOCATED)
            and group.id not in self.winners
            and allows(group)
        ]

    # consolidate

    def _consolidate(self) -> None:
        most = self.policy.max_moved_groups
        is_packed = self.world.snapshot.pool.gpu_placement is Placement.BINPACK
        if most == 0 or (self.policy.consolidate_only_packed and not is_packed):
            return

        def is_eligible(group: GroupState) -> bool:
            asked = self.world.chunk_charge(chunk(self.world, group)).gpu_milli
            return asked <= self._free_gpus_milli()

        def search(group: GroupState) -> Search:
            victims = self._victims(lambda other: other is not group and other.row.movable)
            return Search(self.shares, group, victims, nobody_loses, most)

        self._help(Pass.CONSOLIDATE, is_eligible, search, preemptible_only=True)

    def _free_gpus_milli(self) -> int:
        """GPUs of the cluster that are idle or being released, in whole and in part."""
        free = 0
        for name, node in self.world.nodes.items():
            room = self.world.room(name)
            free += WHOLE_GPU_MILLI * (room.soon(GPUS) + room.soon(CLAIM_DEVICES))
            free += sum(self.world.mig_milli(profile, room.soon(profile)) for profile in node.mig_instances)
            free += sum(free_parts(self.world, name, room))
            if self.policy.promised_portions_twice:
                # The reference subtracts a promised portion twice: as used, and again from what is released.
                memory = self.world.device_memory(node)
                free -= sum(WHOLE_GPU_MILLI * each.promised // memory for each in room.devices.values())
        return free

    # reclaim

    def _reclaim(self) -> None:
        def is_eligible(group: GroupState) -> bool:
            return may_reclaim(self.shares, group, self.world.chunk_charge(chunk(self.world, group)))

        def search(group: GroupState) -> Search:
            before = {queue: self.world.held(queue) for queue in self.world.queues}
            firm = {queue: self.world.held(queue, firm_only=True) for queue in self.world.queues}

            def is_valid(solution: Solution) -> bool:
                runtime = self._runtime_is_kept(solution, lambda victim: self._reclaim_runtime_s(group, victim))
                return runtime and self._is_fair(group, solution, before, firm)

            victims = self._victims(
                lambda other: (
                    other.queue != group.queue
                    and not is_moved(other)
                    and not self._is_protected(other, self._reclaim_runtime_s(group, other))
                )
            )
            return Search(self.shares, group, victims, is_valid)

        self._help(Pass.RECLAIM, is_eligible, search)

    def _is_fair(
        self,
        group: GroupState,
        solution: Solution,
        before: dict[QueueId, Amounts],
        firm: dict[QueueId, Amounts],
    ) -> bool:
        assert group.queue is not None
        asked = total(self.world.charge_here(pod) for pod in solution.placed)
        losses = []
        for loser, pods in lost_units(solution, moves_are_free=self.policy.moves_in_reclaim_are_free):
            stood = {victim.pod.id: victim.stood for victim in solution.victims}
            places = [stood[pod.id].place for pod in pods]
            amount = total(
                self.world.charge(pod, place.node if place else None) for pod, place in zip(pods, places, strict=True)
            )
            assert loser.queue is not None
            losses.append((loser.queue, amount))
        return is_fair_reclaim(self.shares, group, asked, losses, before, firm)

    def _reclaim_runtime_s(self, group: GroupState, victim: GroupState) -> int:
        assert group.queue is not None
        assert victim.queue is not None
        return reclaim_min_runtime_s(self.world, group.queue, victim.queue)

    # preempt

    def _preempt(self) -> None:
        def is_eligible(group: GroupState) -> bool:
            return is_within_firm_quota(self.world, group, self.world.chunk_charge(chunk(self.world, group)))

        def search(group: GroupState) -> Search:
            victims = self._victims(
                lambda other: (
                    other is not group
                    and other.queue == group.queue
                    and other.priority < group.priority
                    and not is_moved(other)
                    and not self._is_protected(other, self._preempt_runtime_s(other))
                )
            )
            return Search(
                self.shares,
                group,
                victims,
                lambda solution: self._runtime_is_kept(solution, self._preempt_runtime_s),
            )

        self._help(Pass.PREEMPT, is_eligible, search)

    def _preempt_runtime_s(self, victim: GroupState) -> int:
        assert victim.queue is not None
        return preempt_min_runtime_s(self.world, victim.queue)

    # Minimum runtime

    def _is_protected(self, victim: GroupState, runtime_s: int) -> bool:
        """Within its minimum runtime; of an elastic group that is asked later, for its surplus may go."""
        return self._is_young(victim, runtime_s) and not is_elastic(victim)

    def _is_young(self, group: GroupState, runtime_s: int) -> bool:
        started = group.row.started_at
        return started is not None and self.world.now < started + runtime_s * SECOND_MS

    def _runtime_is_kept(self, solution: Solution, runtime_s: Callable[[GroupState], int]) -> bool:
        """A young elastic group keeps its minimum in every pod set that it loses pods from."""
        if self.policy.count_only_evicted:
            gone = [victim.pod for victim in solution.victims if victim.is_lost]
            staying = ALLOCATED
        else:  # oddity B8: also those that this try did not evict, and those that leave still count as there
            staying = ACTIVE
            gone = list({pod.id: pod for pod in (*solution.considered, *(v.pod for v in solution.victims))}.values())
        for group in {pod.group.id: pod.group for pod in gone}.values():
            if not self._is_young(group, runtime_s(group)):
                continue
            for name in sorted({pod.row.pod_set for pod in gone if pod.group is group}):
                lost = {pod.id for pod in gone if pod.group is group and pod.row.pod_set == name}
                rest = [pod for pod in group.in_set(name, staying) if pod.id not in lost]
                if len(rest) < group.minimum[name]:
                    return False
        return True

    # Stale gangs

    def _evict_stale(self) -> None:
        grace_s = self.policy.stale_grace_s
        for group in self.world.groups.values():
            since = self.world.now if group.row.stale_since is None else group.row.stale_since
            is_overdue = self.world.now - since >= grace_s * SECOND_MS
            if grace_s >= 0 and is_overdue and is_stale(group):
                for pod in group.pods:
                    if pod.status in ALLOCATED:
                        self.world.evict(pod)


def promised_groups(world: World) -> list[GroupState]:
    """Groups with promises from earlier cycles, the oldest promise first."""
    since = {
        group.id: min(
            (world.now if pod.row.promised_at is None else pod.row.promised_at)
            for pod in group.pods
            if pod.row.phase is PodPhase.PROMISED
        )
        for group in world.groups.values()
        if group.queue is not None and any(pod.row.phase is PodPhase.PROMISED for pod in group.pods)
    }
    return [world.groups[name] for name in sorted(since, key=lambda name: (since[name], name))]


def is_stale(group: GroupState) -> bool:
    """A gang that runs with fewer pods than it needs, though nothing of it has ended well."""
    return (
        not group.row.succeeded
        and group.has(*ACTIVE)
        and any(len(group.in_set(name, ACTIVE)) < least for name, least in group.minimum.items())
    )


def is_moved(group: GroupState) -> bool:
    """Whether this cycle has moved a pod of a group; reclaim and preempt take nothing more from it then."""
    return any(pod.is_moved for pod in group.pods)


def is_elastic(group: GroupState) -> bool:
    return any(
        len([pod for pod in group.pods if pod.row.pod_set == name]) > least for name, least in group.minimum.items()
    )


def nobody_loses(solution: Solution) -> bool:
    """The validator of consolidate."""
    return not any(victim.is_lost for victim in solution.victims)


# Rules of reclaim


def may_reclaim(shares: FairShares, group: GroupState, asked: Amounts) -> bool:
    """With its chunk the queue stays within its fair share, and firm work within quota (leaf only)."""
    world, queue = shares.world, group.queue
    assert queue is not None
    if not is_within(world.held(queue) + asked, lambda each: part(shares.fair[queue], each)):
        return False
    firm = world.held(queue, firm_only=True) + asked
    return group.preemptible or is_within(firm, lambda each: world.entitlement(queue, each).quota)


def lost_units(solution: Solution, *, moves_are_free: bool) -> list[tuple[GroupState, list[PodState]]]:
    """What is taken for good, in units: first surplus pods one by one, then what each group must have."""
    lost = [victim.pod for victim in solution.victims if victim.is_lost or not (moves_are_free or victim.is_back)]
    single: list[tuple[GroupState, list[PodState]]] = []
    core: list[tuple[GroupState, list[PodState]]] = []
    for group in {pod.group.id: pod.group for pod in lost}.values():
        together: list[PodState] = []
        for name, least in group.minimum.items():
            mine = [pod for pod in lost if pod.group is group and pod.row.pod_set == name]
            together += mine[:least]
            single += [(group, [pod]) for pod in mine[least:]]
        core.append((group, together))
    return single + core


def is_fair_reclaim(
    shares: FairShares,
    group: GroupState,
    asked: Amounts,
    losses: list[tuple[QueueId, Amounts]],
    before: dict[QueueId, Amounts],
    firm: dict[QueueId, Amounts],
) -> bool:
    """Every unit was justified before it was taken, and nobody ends up more saturated than those it took from."""
    world = shares.world
    assert group.queue is not None
    mine = world.path(group.queue)
    rest = dict(before)
    lost: dict[QueueId, Amounts] = {}
    for queue, amount in losses:
        theirs = world.path(queue)
        gaining, losing = next(pair for pair in zip(mine, theirs, strict=False) if pair[0] != pair[1])
        is_above_share = not is_within(rest[losing], lambda each, q=losing: shares.allocatable(q, each))  # type: ignore[misc]
        if not is_above_share and not _restores_quota(world, before[gaining] + asked, gaining, rest[losing], losing):
            return False
        for each in theirs:
            rest[each] = rest[each] - amount
            lost[each] = lost.get(each, NOTHING) + amount
    for queue in mine:
        siblings = [each for each in world.children(world.queues[queue].parent) if each != queue and each in lost]
        for sibling in siblings:
            after = rest[queue] + asked, rest[sibling]
            if _is_more_saturated(shares, queue, sibling, after, involved=asked + lost[sibling]):
                return False
        if not group.preemptible and not is_within(
            firm[queue] + asked,
            lambda each, q=queue: world.entitlement(q, each).quota,  # type: ignore[misc]
        ):
            return False
    return True


def _restores_quota(world: World, with_chunk: Amounts, gaining: QueueId, rest: Amounts, losing: QueueId) -> bool:
    """The winner's side stays within its quota, and the loser's side is beyond its own."""
    return is_within(with_chunk, lambda each: world.entitlement(gaining, each).quota) and not is_within(
        rest, lambda each: world.entitlement(losing, each).quota
    )


def _is_more_saturated(
    shares: FairShares, queue: QueueId, sibling: QueueId, after: tuple[Amounts, Amounts], involved: Amounts
) -> bool:
    multiplier = Fraction(str(max(1.0, shares.world.policy.saturation_multiplier)))
    for resource in RESOURCES:
        if part(involved, resource) <= 0:
            continue
        gains, keeps = part(after[0], resource), part(after[1], resource)
        mine, theirs = part(shares.fair[queue], resource), part(shares.fair[sibling], resource)
        if gains <= mine or theirs == 0:
            continue
        # gains / mine * multiplier >= keeps / theirs, with a fair share of nothing as infinitely exceeded
        if multiplier * gains * theirs >= keeps * mine:
            return True
    return False


# Minimum runtimes


def preempt_min_runtime_s(world: World, victim: QueueId) -> int:
    values = [world.queues[queue].preempt_min_runtime_s for queue in reversed(world.path(victim))]
    return next((value for value in values if value is not None), world.policy.default_preempt_min_runtime_s)


def reclaim_min_runtime_s(world: World, reclaimer: QueueId, victim: QueueId) -> int:
    """The value nearest to where the two queues part, or to the victim itself, going up."""
    path = world.path(victim)
    if world.policy.reclaim_runtime_scope is RuntimeScope.COMMON_ANCESTOR:
        common = sum(1 for one, other in zip(path, world.path(reclaimer), strict=False) if one == other)
        path = path[: common + 1]
    values = [world.queues[queue].reclaim_min_runtime_s for queue in reversed(path)]
    return next((value for value in values if value is not None), world.policy.default_reclaim_min_runtime_s)

"""The search for victims, shared by consolidate, reclaim and preempt.

Victims are added one unit at a time, in the order of `victims.py`, until a simulation shows that the waiting group gets
its places. In the simulation victims are offered their places back in fair order, so a victim that comes before the
waiting group keeps its place, and what still fits somewhere stays or is moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fairpool.scheduler import equivalence, gate
from fairpool.scheduler.chunk import next_chunk
from fairpool.scheduler.columns import COMING, LEAVING, REAL, STAYING
from fairpool.scheduler.gang_proposal import Proposal, comes_first, propose
from fairpool.scheduler.group_index import GroupIndex
from fairpool.scheduler.node_index import CandidateNodes
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.room_count import RoomCount
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.victims import ABSENT, Candidates, VictimUnits, VictimWalk, possible_victims
from fairpool.scheduler.walk import SimulatedWalk, waiting_index


@dataclass(slots=True)
class Solution:
    """Victims that would be evicted so that a group gets its places."""

    group: int
    chunk: Sequence[int]
    need: Vector
    victims: list[int]
    """Pods, in the order in which they became victims."""
    lost_from: dict[int, int] = field(default_factory=dict)
    """Node on which each victim was when it was evicted."""
    considered: Collection[int] = ()
    """All pods that were looked at as victims, evicted in this solution or not."""
    held_before: Sequence[Vector] = ()
    """For reclaim, what queues held before anything was taken."""


Validator = Callable[[Solution], bool]


class Solver:
    """Searches on one placer's trial; leaves the moves of an accepted solution in place."""

    def __init__(self, placer: Placer) -> None:
        self.placer = placer
        self.trial = placer.trial
        self.columns = placer.columns
        self.needs: dict[int, Vector] = {}
        """What waiting groups ask for."""
        self.has_searched = False
        """Whether victims were searched for some group."""
        self._failed: dict[Hashable, int] = {}
        self._common: VictimWalk | None = None
        self._read = len(self.trial.touched)

    @cached_property
    def possible_victims(self) -> GroupIndex:
        """Groups that may be victims, sorted at first use and kept for all passes."""
        return possible_victims(self.trial)

    @cached_property
    def waiting(self) -> GroupIndex:
        """Groups that wait, likewise."""
        return waiting_index(self.trial)

    def begin(self) -> None:
        """Get ready for a pass: what failed by the rules of another may succeed by those of this one."""
        self._failed.clear()
        self._common = None

    def solve(self, group: int, candidates: Candidates, accepts: Validator) -> Solution | None:
        """Find victims so that the next chunk of a group is placed."""
        chunk = next_chunk(self.trial, group)
        if not chunk:
            return None
        self.has_searched = True
        kind = equivalence.equivalence_class(self.placer, group, chunk)
        if kind is not None and self._failed.get(kind) == self.trial.mark():
            return None
        self._refresh()
        start = self.trial.mark()
        found = self._find(group, chunk, candidates, accepts)
        if found is None:
            self.trial.undo(start)
            if kind is not None:
                self._failed[kind] = start
            return None
        if self.columns.policy.whole_gang_restarts:
            self._restart_broken(found)
        if self.columns.policy.winners_keep:
            self.placer.winners.add(group)
        return found

    def may_be_taken(self, group: int) -> bool:
        """Whether nothing was taken for this group in the same plan, nor is about to be."""
        return group not in self.placer.winners

    def victim_walk(self, candidates: Candidates) -> VictimWalk:
        """The walk of one search over those who may give."""
        if self._common is None and candidates.are_common:
            everywhere = replace(candidates, not_leaf=ABSENT)
            self._common = VictimWalk(self.trial, self.possible_victims, everywhere)
        common = self._common if candidates.are_common else None
        return VictimWalk(self.trial, self.possible_victims, candidates, common)

    def _refresh(self) -> None:
        moved = dict.fromkeys(self.trial.touched[self._read :])
        for group in moved:
            self.needs.pop(group, None)
        self._read = len(self.trial.touched)
        for name in ("possible_victims", "waiting"):
            if name in self.__dict__:  # made at first use
                getattr(self, name).refresh()
        if self._common is not None:
            self._common.follow(moved)

    def _find(self, group: int, chunk: Sequence[int], candidates: Candidates, accepts: Validator) -> Solution | None:
        """First propose victims by counting; if that is no solution, search step by step."""
        shape = equivalence.countable_shape(self.placer, group, chunk)
        has_none = not any(self.columns.sets.active[number] for number in self.columns.sets_of[group])
        if candidates.are_lost and len(chunk) > 1 and shape is not None and has_none:
            proposal = propose(self.placer, shape, len(chunk), self.victim_walk(candidates))
            if proposal is not None:
                search = Search(self, group, chunk, [], candidates, accepts)
                found = search.attempt_proposal(proposal) if proposal.steps else None
                if found is not None or not proposal.steps:
                    return found
        return self._step_by_step(group, chunk, candidates, accepts)

    def _step_by_step(
        self, group: int, chunk: Sequence[int], candidates: Candidates, accepts: Validator
    ) -> Solution | None:
        """Solve for the first pod of the chunk, then for the first two, keeping the victims found so far."""
        start = self.trial.mark()
        found: Solution | None = None
        before: Search | None = None
        for size in range(1, len(chunk) + 1):
            recorded = self._not_restored(found) if found else []
            self.trial.undo(start)
            search = Search(self, group, chunk[:size], recorded, candidates, accepts)
            if before is not None:
                search.go_on_from(before)
            found = search.run()
            if found is None:
                return None
            search.victims = list(found.victims)
            before = search
        return found

    def _not_restored(self, solution: Solution) -> list[int]:
        """Victims to start from when one more pod is solved for: those of groups that did not simply stay."""
        columns = self.columns
        gone = {columns.group_of[pod] for pod in solution.victims if columns.hold[pod] != REAL}
        return [pod for pod in solution.victims if columns.group_of[pod] in gone]

    def _restart_broken(self, solution: Solution) -> None:
        """Where the pods of a group that stay put no longer make it up, they restart too, on their own places."""
        columns, trial, sets = self.columns, self.trial, self.columns.sets
        for group in sorted({columns.group_of[pod] for pod in solution.victims}):
            staying = {
                number: [pod for pod in sets.pods[number] if columns.hold[pod] == REAL]
                for number in columns.sets_of[group]
            }
            if all(len(pods) >= sets.minimum[number] for number, pods in staying.items()):
                continue
            for pod in (pod for pods in staying.values() for pod in pods if trial.started_as[pod][0] == REAL):
                node, devices = trial.place(pod)
                trial.evict(pod)
                trial.promise(pod, node, devices)
                solution.victims.append(pod)


class Search:
    """The search for the first pods of a chunk, given the victims found for fewer of them."""

    def __init__(
        self,
        solver: Solver,
        group: int,
        chunk: Sequence[int],
        recorded: list[int],
        candidates: Candidates,
        accepts: Validator,
    ) -> None:
        self.solver = solver
        self.placer = solver.placer
        self.trial = solver.trial
        self.columns = solver.columns
        self.group = group
        self.chunk = chunk
        self.recorded = recorded
        self.accepts = accepts
        self.could_do = candidates.could_do
        self.line = VictimUnits(solver.victim_walk(candidates))
        self.at = 0
        """Place in the line."""
        self.count: RoomCount | None = None
        self.victims: list[int] = []
        """Of the solution that was found."""
        self.refused = False
        """Some solution had room but was refused by a rule."""
        self.potential: list[int] = []
        self.potential_on: dict[int, list[int]] = {}
        self.potential_of: dict[int, list[int]] = {}
        self.tried: set[tuple[frozenset[int], int]] = set()
        """Victims that did not do: the same ones will not do from another of their nodes either."""
        self.start = self.trial.mark()
        self._feasible: set[int] | None = None

    def go_on_from(self, before: Search) -> None:
        """Take over the line of victims from the search for one pod less, which began in the same state.

        It is the same line if what groups have lost they lost in one unit. And for equal pods, victims that made no
        place then make none now, so it need not be gone through again from the beginning; unless there was room before
        any victim, a solution was refused by a rule, or victims gave in part or from several nodes or stayed: then
        things may look different.
        """
        columns, count, recorded = self.columns, before.count, set(self.recorded)
        if not before.line.is_as_walked or any(map(self._gives_in_parts, {columns.group_of[pod] for pod in recorded})):
            return
        self.line = before.line
        are_equal = equivalence.countable_shape(self.placer, self.group, self.chunk) is not None
        if count is None or count.began_with or count.scattered or before.refused or not are_equal:
            return
        if recorded != set(before.victims):
            return
        earlier = set(before.recorded)
        self.at, self.count = before.at, count
        count.take([pod for pod in self.recorded if pod not in earlier])
        self.potential = [pod for pod in before.potential if pod not in recorded]
        for pod in self.potential:
            self.potential_on.setdefault(self.trial.place(pod)[0], []).append(pod)
            self.potential_of.setdefault(columns.group_of[pod], []).append(pod)

    def _gives_in_parts(self, group: int) -> bool:
        sets = self.columns.sets
        return any(sets.active[number] > sets.minimum[number] for number in self.columns.sets_of[group])

    def run(self) -> Solution | None:
        """Add victims one unit at a time until a solution works."""
        if self.recorded:
            found = self.attempt(self.recorded, ())
            if found:
                return found
            if self.count is not None and self.count.places >= len(self.chunk):
                self._begin_again()
        recorded = set(self.recorded)
        shape = equivalence.countable_shape(self.placer, self.group, self.chunk) if self.count is None else None
        if shape is not None:
            self.count = RoomCount(self.placer, shape, self.recorded)
        while (given := self.line.unit(self.at)) is not None:
            self.at += 1
            group, unit = given
            if recorded.intersection(unit):
                self.line.taken_before(group, [pod for pod in self.recorded if self.columns.group_of[pod] == group])
                continue
            self.potential += unit
            found = self._attempt_near(group, unit, self.count)
            if found:
                return found
        return None

    def _begin_again(self) -> None:
        """There was room and a rule refused: with other victims beside them it may not."""
        self.at, self.count, self.refused = 0, None, True
        self.potential, self.potential_on, self.potential_of = [], {}, {}

    def _attempt_near(self, group: int, unit: Sequence[int], count: RoomCount | None) -> Solution | None:
        """Try each node where the last victims are: evict the potential victims of every group that has one there."""
        nodes = sorted({self.trial.place(pod)[0] for pod in unit})
        self.potential_of.setdefault(group, []).extend(unit)
        for pod in unit:
            self.potential_on.setdefault(self.trial.place(pod)[0], []).append(pod)
        if count is not None:
            count.offer(group, unit)
        for node in nodes:
            groups = frozenset(self.columns.group_of[pod] for pod in self.potential_on[node])
            size = sum(len(self.potential_of[each]) for each in groups)
            if (groups, size) in self.tried:
                continue
            self.tried.add((groups, size))
            if count is not None and count.places + count.gain(node) < len(self.chunk):
                continue
            taken = [pod for pod in self.potential if self.columns.group_of[pod] in groups]
            found = self.attempt([*self.recorded, *taken], self.potential)
            if found:
                return found
            self.refused = True
        return None

    def attempt_proposal(self, proposal: Proposal) -> Solution | None:
        """Try all victims of a gang at once, if pod by pod the same would be found."""
        if not self._limits_allow(proposal):
            return None
        return self.attempt(proposal.victims, proposal.passed_over, is_proposal=True)

    def _limits_allow(self, proposal: Proposal) -> bool:
        """Whether limits allow any number of pods, with the victims that make room for so many."""
        columns, trial = self.columns, self.trial
        queues, queue = columns.queues, columns.queue_of[self.group]
        if not columns.policy.fair_order or not queues.limited[queue]:
            return True
        need = columns.waiting_need(self.chunk[0])
        allowed = True
        for pods, places in proposal.steps:
            for pod in pods:
                trial.evict(pod)
            count = min(places, len(self.chunk))
            allowed = allowed and not gate.is_over_limit(queues, queue, [count * amount for amount in need])
        trial.undo(self.start)
        return allowed

    def attempt(self, victims: list[int], others: Sequence[int], *, is_proposal: bool = False) -> Solution | None:
        """Evict the victims, offer all of them and the group places in fair order, and check the rules.

        `others` are pods that were looked at as victims, too, by then.
        """
        if not self.could_do(self.chunk, victims):
            return None
        lost_from = {pod: self.trial.place(pod)[0] for pod in victims}
        nodes = self._nodes(victims, lost_from)
        for pod in victims:
            self.trial.evict(pod)
        if self._place_in_order(victims, nodes, must_be_first=is_proposal):
            considered = {*victims, *others}
            solution = Solution(self.group, self.chunk, self._need(), victims, lost_from, considered)
            if self.accepts(solution):
                return solution
        self.trial.undo(self.start)
        return None

    def _need(self) -> Vector:
        """What the chunk is charged where it was placed."""
        need = NONE
        for pod in self.chunk:
            need = plus(need, self.columns.placed_need(pod, self.trial.place(pod)[0]))
        return need

    def _place_in_order(self, victims: Sequence[int], nodes: CandidateNodes, *, must_be_first: bool) -> bool:
        """Walk all groups in fair order, acting on victims and on the waiting group only.

        A victim group gets one try for one chunk and may fail; if the waiting group fails, so does the solution.
        """
        columns = self.columns
        groups = {columns.group_of[pod] for pod in victims}
        evicted = set(victims)
        hopeless: set[tuple[int, ...]] = set()
        with _Restricted(self):
            walk = SimulatedWalk(self.trial, self.solver.waiting, (*sorted(groups), self.group), self.solver.needs)
            while (group := walk.pop()) is not None:
                if group == self.group:
                    if must_be_first and not comes_first(columns, group, self.chunk, victims, walk.passed):
                        return False
                    if not self._place(group, self.chunk, nodes):
                        return False
                    must_be_first = False
                    if self._is_full_for(victims):
                        break
                    continue
                if must_be_first:
                    return False
                chunk = next_chunk(self.trial, group, evicted_too=True)
                mine = [pod for pod in chunk if pod in evicted]
                # A part of a gang is no use without the rest, and the rest is not to be started here.
                if len(mine) == len(chunk) or not self.columns.policy.whole_gang_restarts:
                    self._offer(group, mine, nodes, hopeless)
        return True

    def _is_full_for(self, victims: Iterable[int]) -> bool:
        """Whether no victim can come back anywhere, so that the rest of the walk changes nothing."""
        columns = self.columns
        kinds = {(columns.shape_of[pod], columns.is_plain[columns.group_of[pod]]) for pod in victims}
        if not all(plain for _, plain in kinds):
            return False
        return all(self.placer.index(shape).best() is None for shape, _ in kinds)

    def _offer(self, group: int, chunk: Sequence[int], nodes: CandidateNodes, hopeless: set[tuple[int, ...]]) -> None:
        """Give victims a place again if there is one. What found none for its like is not tried again: room only
        becomes less in a simulation.
        """
        if not chunk:
            return
        shapes = tuple(self.columns.shape_of[pod] for pod in chunk)
        if shapes in hopeless:
            return
        if not gate.chunk_passes(self.columns, group, chunk):
            return
        mark = self.trial.mark()
        if self.placer.place(group, chunk, nodes, now=False):
            return
        self.trial.undo(mark)
        if self.columns.policy.charge_all_devices_per_node and equivalence.is_simple(self.placer, group, chunk):
            hopeless.add(shapes)

    def _place(self, group: int, chunk: Sequence[int], nodes: CandidateNodes) -> bool:
        mark = self.trial.mark()
        if gate.chunk_passes(self.columns, group, chunk) and self.placer.place(group, chunk, nodes, now=False):
            return True
        self.trial.undo(mark)
        return False

    def _nodes(self, victims: Iterable[int], lost_from: dict[int, int]) -> CandidateNodes:
        """Nodes worth trying: those with some GPU idle or being released before, and those of the victims.

        Pods that need a GPU find none elsewhere anyway, so this only matters to others, and to topologies.
        """
        columns = self.columns
        pods = (*self.chunk, *victims)
        if all(
            columns.is_plain[columns.group_of[pod]] and columns.facts[columns.shape_of[pod]].on_gpus for pod in pods
        ):
            return self.placer.everywhere
        if self._feasible is None:
            recorded = {self.trial.place(pod)[0] for pod in self.recorded}
            self._feasible = feasible_nodes(self.trial, self.group) | recorded
        return CandidateNodes(sorted(self._feasible.union(lost_from.values())), is_limited=True)


def feasible_nodes(trial: Trial, group: int) -> set[int]:
    """Any node, or for pods that all need a GPU those with some GPU idle or being released."""
    columns = trial.columns
    pods = (pod for number in columns.sets_of[group] for pod in columns.sets.pods[number])
    everywhere = set(range(len(columns.nodes.rows)))
    if any(not columns.facts[columns.shape_of[pod]].on_gpus and not columns.claimed_gpus[pod] for pod in pods):
        return everywhere
    return {node for node in everywhere if _has_free_gpu(trial, node)}


def _has_free_gpu(trial: Trial, node: int) -> bool:
    nodes, claims = trial.columns.nodes, trial.claims
    if nodes.gpus_idle[node] > 0 or nodes.gpus_releasing[node] > 0:
        return True
    if nodes.rows[node].claim_devices and (claims.free(node) or claims.soon(node)):
        return True
    mib = nodes.device_mib[node]
    if any(device[LEAVING] or mib > device[STAYING] + device[COMING] for device in nodes.shared[node].values()):
        return True
    profiles = nodes.rows[node].mig_instances
    return any(nodes.other_idle[name][node] + nodes.other_releasing[name][node] > 0 for name in profiles)


class _Restricted:
    """For the time of a simulation the waiting group consists of the pods that are being solved for.

    Its minimum is their number in each pod set, and its other waiting pods do not exist.
    """

    def __init__(self, search: Search) -> None:
        self.columns = search.columns
        self.search = search
        self.minimum: dict[int, int] = {}
        self.pods: dict[int, Sequence[int]] = {}

    def __enter__(self) -> None:
        sets, search = self.columns.sets, self.search
        chunk = set(search.chunk)
        for number in self.columns.sets_of[search.group]:
            count = sum(self.columns.set_of[pod] == number for pod in search.chunk)
            self.minimum[number] = sets.minimum[number]
            self.pods[number] = sets.pods[number]
            if count:
                sets.minimum[number] = count
            sets.pods[number] = [pod for pod in sets.pods[number] if pod in chunk or not search.trial.is_waiting(pod)]

    def __exit__(self, *_: object) -> None:
        for number, minimum in self.minimum.items():
            self.columns.sets.minimum[number] = minimum
            self.columns.sets.pods[number] = self.pods[number]

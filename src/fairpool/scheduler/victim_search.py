"""Victim search: units of the victim line are added until a simulation shows that a waiting group gets its places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fairpool.scheduler import equivalence, gate
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.eviction_simulation import EvictionSimulation
from fairpool.scheduler.gang_proposal import Proposal
from fairpool.scheduler.losses import Losses
from fairpool.scheduler.queues import NONE, Holdings, Vector, plus
from fairpool.scheduler.room_count import RoomCount
from fairpool.scheduler.victim_line import Unit, VictimLines


@dataclass(slots=True)
class Solution:
    """Victims that would be evicted so that a group gets its places."""

    group: int
    chunk: Sequence[int]
    need: Vector
    victims: list[int]
    """Pods, in the order in which they became victims."""
    lost_from: dict[int, int]
    """Node on which each victim was when it was evicted."""
    considered: Iterable[int]
    """All pods that were looked at as victims, evicted in this solution or not."""
    before: Holdings
    """What the queues concerned held before anything was taken."""


Validator = Callable[[Solution], bool]


class PotentialVictims:
    """Units of the line that a search has come by, by group and node."""

    def __init__(self) -> None:
        self.groups_on: dict[int, set[int]] = {}
        """By node, groups that would lose something there."""
        self._units_of: dict[int, list[tuple[int, list[int]]]] = {}
        """By group, places in the line and the pods of each."""
        self._aside: dict[int, list[tuple[int, Unit]]] = {}
        """By node, whole groups there that need no look as long as nothing else there would be lost."""

    def add(self, place: int, group: int, pods: list[int], nodes: Iterable[int]) -> None:
        self._units_of.setdefault(group, []).append((place, pods))
        for node in nodes:
            self.groups_on.setdefault(node, set()).add(group)

    def set_aside(self, place: int, unit: Unit) -> bool:
        """Leave a unit of one node for later, if there is nothing but the like on it."""
        if unit.node in self.groups_on:
            return False
        self._aside.setdefault(unit.node, []).append((place, unit))
        return True

    def left_aside(self, node: int) -> list[tuple[int, Unit]]:
        """What was set aside on a node, to be looked at now."""
        return self._aside.pop(node, [])

    def size(self, groups: Iterable[int]) -> int:
        """How many pods some groups would lose."""
        return sum(len(pods) for group in groups for _, pods in self._units_of[group])

    def pods(self, groups: Iterable[int]) -> list[int]:
        """What some groups would lose, in the order of the line."""
        units = sorted(unit for group in groups for unit in self._units_of[group])
        return [pod for _, pods in units for pod in pods]

    def all_pods(self) -> list[int]:
        return [pod for units in self._units_of.values() for _, pods in units for pod in pods]

    def remove(self, group: int, nodes: Iterable[int]) -> None:
        """Forget a group with all it would lose, on these nodes."""
        self._units_of.pop(group, None)
        for node in nodes:
            groups = self.groups_on.get(node, set())
            groups.discard(group)
            if not groups:
                self.groups_on.pop(node, None)


class VictimSearch:
    """The search for the first pods of a chunk, given the victims found for fewer of them."""

    def __init__(
        self,
        simulation: EvictionSimulation,
        line: VictimLines,
        recorded: list[int],
        accepts: Validator,
        losses: Losses | None,
        *,
        is_for_all: bool,
    ) -> None:
        self.simulation = simulation
        self.placer = simulation.placer
        self.trial = simulation.trial
        self.columns = simulation.columns
        self.group = simulation.group
        self.chunk = simulation.chunk
        self.recorded = recorded
        self.accepts = accepts
        self.losses = losses
        self.line = line
        self.is_as_made = True
        """What was taken before has not changed the line."""
        self.at = 0
        """Place in the line."""
        self.count: RoomCount | None = None
        self.victims: list[int] = []
        """Of the solution that was found."""
        self.refused = False
        """Some solution had room but was refused by a rule."""
        self.potential = PotentialVictims()
        self.tried: set[tuple[frozenset[int], int]] = set()
        """Victims that did not do: the same ones will not do from another of their nodes either."""
        self.start = self.trial.mark()
        self.is_shielded = self._shield() if is_for_all and not recorded else None
        """Tells of leaf queues whether groups like those of `Unit.node` may not be lost."""

    def _shield(self) -> Callable[[int], bool] | None:
        # Where all that were considered count as lost, each must be looked at.
        if self.losses is None or not self.columns.policy.count_only_evicted:
            return None
        return self.losses.shield(self.chunk)

    def go_on_from(self, before: VictimSearch) -> None:
        """Take over the line of victims from the search for one pod less, which began in the same state.

        It is the same line if what groups have lost they lost in one unit. And for equal pods, victims that made no
        place then make none now, so it need not be gone through again from the beginning; unless there was room before
        any victim, a solution was refused by a rule, or victims gave in part or from several nodes or stayed: then
        things may look different.
        """
        columns, count, recorded = self.columns, before.count, set(self.recorded)
        if not before.is_as_made or any(map(self._gives_in_parts, {columns.group_of[pod] for pod in recorded})):
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
        self.potential = before.potential
        for pod in self.recorded:
            self.potential.remove(columns.group_of[pod], (self._node_of(pod),))

    def _gives_in_parts(self, group: int) -> bool:
        sets = self.columns.sets
        return any(sets.active[number] > sets.minimum[number] for number in self.columns.sets_of[group])

    def _node_of(self, pod: int) -> int:
        return self.trial.place(pod)[0]

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
        while (unit := self.line.unit(self.at)) is not None:
            place = self.at
            self.at += 1
            if recorded and recorded.intersection(unit.pods):
                mine = [pod for pod in self.recorded if self.columns.group_of[pod] == unit.group]
                self.is_as_made = not self.line.take_too(place, unit.group, mine) and self.is_as_made
                continue
            if self._stands_aside(place, unit):
                continue
            found = self._attempt_near(place, unit)
            if found:
                return found
        return None

    def _stands_aside(self, place: int, unit: Unit) -> bool:
        """Whether a unit may not be lost, and nothing else on its node has come up that may."""
        if self.is_shielded is None or unit.node == NOWHERE:
            return False
        return self.is_shielded(self.columns.queue_of[unit.group]) and self.potential.set_aside(place, unit)

    def _begin_again(self) -> None:
        """There was room and a rule refused: with other victims beside them it may not."""
        self.at, self.count, self.refused = 0, None, True
        self.potential = PotentialVictims()

    def _attempt_near(self, place: int, unit: Unit) -> Solution | None:
        """Try each node where the last victims are: evict the potential victims of every group that has one there."""
        nodes = (
            sorted({self._node_of(pod) for pod in unit.pods}) if len(unit.pods) > 1 else [self._node_of(unit.pods[0])]
        )
        for node in nodes:
            for earlier, other in self.potential.left_aside(node):
                self._note(earlier, other, (node,))
        self._note(place, unit, nodes)
        for node in nodes:
            groups = frozenset(self.potential.groups_on[node])
            size = self.potential.size(groups)
            if (groups, size) in self.tried:
                continue
            if self.count is not None and self.count.places + self.count.gain(node) < len(self.chunk):
                continue
            self.tried.add((groups, size))
            found = self.attempt([*self.recorded, *self.potential.pods(groups)], self._considered())
            if found:
                return found
            self.refused = True
        return None

    def _note(self, place: int, unit: Unit, nodes: Iterable[int]) -> None:
        self.potential.add(place, unit.group, unit.pods, nodes)
        if self.count is not None:
            self.count.offer(unit.group, unit.pods)

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

    def _considered(self) -> Iterable[int]:
        """Pods that were looked at as victims; none where only what is evicted counts."""
        return () if self.columns.policy.count_only_evicted else self.potential.all_pods()

    def attempt(self, victims: list[int], others: Iterable[int], *, is_proposal: bool = False) -> Solution | None:
        """Simulate the eviction of victims, and check the rules. `others` were looked at as victims, too, by then."""
        if self.losses is not None and not self.losses.could_do(self.chunk, victims):
            return None
        queue_of, group_of = self.columns.queue_of, self.columns.group_of
        lost_from = {pod: self._node_of(pod) for pod in victims}
        leaves = {queue_of[self.group], *(queue_of[group_of[pod]] for pod in victims)}
        before = Holdings.above(self.columns.queues, leaves)
        if self.simulation.succeeds(victims, self.recorded, must_be_first=is_proposal):
            considered = {*victims, *others}
            solution = Solution(self.group, self.chunk, self._need(), victims, lost_from, considered, before)
            if self.accepts(solution):
                return solution
        self.trial.undo(self.start)
        return None

    def _need(self) -> Vector:
        """What the chunk is charged where it was placed."""
        need = NONE
        for pod in self.chunk:
            need = plus(need, self.columns.placed_need(pod, self._node_of(pod)))
        return need

"""Victim line: the units that would be lost, in order, kept from search to search.

Every queue has a line of its own: that of a leaf queue is its groups in victim order, that of another the lines of the
queues below it, merged. A line depends on nothing outside its queue, so after a move only the lines above it are made
again; and a line is only made as far as it is asked for.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from fairpool.scheduler.chunk import evictable_unit
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.group_index import Cursor, GroupIndex
from fairpool.scheduler.losses import is_whole
from fairpool.scheduler.order import GroupKey, Precedence, compare_precedence, queue_precedence, ranks_of_equals
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.victims import ABSENT, Candidates, victim_key

VictimRank = tuple[Precedence | None, int]
"""Precedence and rank of a queue with what it would lose next: the largest among siblings is served last, and loses
first."""


class Unit(NamedTuple):
    """Pods of a group that are lost together."""

    group: int
    pods: list[int]
    given: Vector
    """What their leaf queue has given once the rest of the group is gone too."""
    node: int
    """Where the whole group is, if it is lost at once, from one node and with whole devices; NOWHERE: it is not so."""


class VictimLines:
    """The lines of all queues. Those of a search share what is not above its own leaf queue with `common`."""

    def __init__(
        self, trial: Trial, groups: GroupIndex, candidates: Candidates, common: VictimLines | None = None
    ) -> None:
        self.trial = trial
        self.columns = trial.columns
        self.groups = groups
        self.candidates = candidates
        self._common = common
        self._lines: dict[int, Line] = {}
        self._apart: set[int] = {ABSENT}
        """Queues whose lines are not the common ones."""
        if candidates.not_leaf != ABSENT:
            self._apart.update(trial.columns.queues.path[candidates.not_leaf])
        self._ties: dict[int, dict[int, int] | None] = {}
        self._answers: dict[int, bool] = {}
        self._branches: set[int] | None = None

    def for_search(self, candidates: Candidates) -> VictimLines:
        """The lines of one search, in which these are common."""
        return VictimLines(self.trial, self.groups, candidates, self)

    @classmethod
    def for_pass(cls, trial: Trial, groups: GroupIndex, candidates: Candidates) -> VictimLines:
        """Lines for all searches of a pass, in which candidates differ by nothing but the taker's own queue."""
        return cls(trial, groups, replace(candidates, not_leaf=ABSENT))

    def unit(self, place: int) -> Unit | None:
        """The unit at a place of the whole line; None after the last."""
        return self.line(ABSENT).unit(place)

    def take_too(self, place: int, group: int, pods: Sequence[int]) -> bool:
        """Count pods of a group as lost with its unit at a place; returns whether that makes it another line."""
        whole, leaf = self.line(ABSENT).units[: place + 1], self.columns.queue_of[group]
        if sum(len(unit.pods) for unit in whole if unit.group == group) >= len(pods):
            return False
        of_leaf = sum(self.columns.queue_of[unit.group] == leaf for unit in whole)
        line = self.line(leaf)
        assert isinstance(line, LeafLine)
        path = self.columns.queues.path[leaf]
        self._apart.update(path)
        for level in (ABSENT, *path):
            self._lines.pop(level, None)
        self._lines[leaf] = LeafLine(self, leaf, {**line.lost_too, of_leaf: (group, pods)})
        return True

    def follow(self, groups: Iterable[int]) -> None:
        """Groups have moved: their queues, and those above them, get new lines."""
        queue_of, path = self.columns.queue_of, self.columns.queues.path
        for group in groups:
            self._answers.pop(group, None)
        for leaf in {queue_of[group] for group in groups} - {NOWHERE}:
            if self._branches is not None:
                self._branches.update(path[leaf])
            for level in (ABSENT, *path[leaf]):
                self._lines.pop(level, None)

    def line(self, queue: int) -> Line:
        """The line of a queue, or the whole one (ABSENT)."""
        if self._common is not None and queue not in self._apart:
            return self._common.line(queue)
        line = self._lines.get(queue)
        if line is None:
            is_leaf = queue != ABSENT and not self.columns.queues.children[queue]
            line = self._lines[queue] = LeafLine(self, queue) if is_leaf else MergedLine(self, queue)
        return line

    def below(self, queue: int) -> list[int]:
        """The queues below another, or at the top (ABSENT), that may have something to give."""
        siblings = self.columns.queues.roots if queue == ABSENT else self.columns.queues.children[queue]
        branches, excluded = self._with_victims(), self.candidates.not_leaf
        return [each for each in siblings if each in branches and each != excluded]

    def _with_victims(self) -> set[int]:
        if self._common is not None:
            return self._common._with_victims()
        if self._branches is None:
            leaves = self.groups.leaves() if self.candidates.leaves is None else self.candidates.leaves
            self._branches = {level for leaf in leaves for level in self.columns.queues.path[leaf]}
        return self._branches

    def ties(self, parent: int) -> dict[int, int] | None:
        """How siblings stand to each other where their precedence is equal; None: that is no order."""
        if self._common is not None:
            return self._common.ties(parent)
        if parent not in self._ties:
            queues = self.columns.queues
            siblings = queues.roots if parent == ABSENT else queues.children[parent]
            self._ties[parent] = ranks_of_equals(queues, self.columns.policy, siblings)
        return self._ties[parent]

    def may_give(self, group: int) -> bool:
        answer = self._answers.get(group)
        if answer is None:
            answer = self._answers[group] = self.candidates.may_give(group)
        return answer


class Line:
    """The units of one queue in order, made as far as they are asked for."""

    def __init__(self, lines: VictimLines, queue: int) -> None:
        self.lines = lines
        self.queue = queue
        self.units: list[Unit] = []
        self._ranked: list[VictimRank] = []

    def unit(self, place: int) -> Unit | None:
        """The unit at a place; None after the last."""
        units = self.units
        while len(units) <= place:
            if not self._extend():
                return None
        return units[place]

    def rank(self, place: int, tie: int) -> VictimRank:
        """Of this queue when it would lose the unit at a place, which there is."""
        ranked = self._ranked
        while len(ranked) <= place:
            ranked.append(self._rank_with(self.units[len(ranked)], tie))
        return ranked[place]

    def _rank_with(self, unit: Unit, tie: int) -> VictimRank:
        columns = self.lines.columns
        if not columns.policy.fair_order:
            return None, tie
        return queue_precedence(columns.queues, columns.policy, self.queue, NONE, unit.given), tie

    def _extend(self) -> bool:
        """Add one more unit, if there is one."""
        raise NotImplementedError


class MergedLine(Line):
    """The line of a queue with others below it: again and again the next unit of the one that would be served last."""

    def __init__(self, lines: VictimLines, queue: int) -> None:
        super().__init__(lines, queue)
        self._ties = lines.ties(queue)
        self._lines: dict[int, Line] = {}
        self._below: list[tuple[VictimRank, int]] | None = None
        """Queues that have something to give, in order, the first to lose last."""
        self._places: dict[int, int] = {}
        """Of each queue below, how many of its units are in this line."""
        self._taken_at: tuple[int, int, int] | None = None
        """Place in `_below`, tie and number of the queue that gave the last unit, which is not back there yet."""

    def _extend(self) -> bool:
        below = self._below
        if below is None:
            below = self._below = self._begin()
        elif self._taken_at is not None:
            self._put_back(below, *self._taken_at)
        if not below:
            return False
        at = len(below) - 1 if self._ties is not None else self._last_compared(below)
        (_, tie), queue = below.pop(at)
        self.units.append(self._lines[queue].units[self._places[queue]])
        self._places[queue] += 1
        self._taken_at = (at, tie, queue)
        return True

    def _begin(self) -> list[tuple[VictimRank, int]]:
        ties = self._ties
        for queue in self.lines.below(self.queue):
            line = self.lines.line(queue)
            if line.unit(0) is not None:
                self._lines[queue] = line
                self._places[queue] = 0
        is_alone = len(self._lines) == 1
        below = [
            ((None, tie) if is_alone else line.rank(0, tie), queue)
            for queue, line in self._lines.items()
            for tie in (ABSENT if ties is None else ties[queue],)
        ]
        return below if ties is None else sorted(below)

    def _put_back(self, below: list[tuple[VictimRank, int]], at: int, tie: int, queue: int) -> None:
        """The queue that gave the last unit takes part again, with its next one."""
        line, place = self._lines[queue], self._places[queue]
        self._taken_at = None
        if line.unit(place) is None:
            return
        if not below:  # and none to compare it with
            below.append(((None, tie), queue))
        elif self._ties is None:
            below.insert(at, (line.rank(place, tie), queue))
        else:
            insort(below, (line.rank(place, tie), queue))

    def _last_compared(self, below: Sequence[tuple[VictimRank, int]]) -> int:
        """Where the order of queues is not a total one, they are compared one after the other."""
        columns = self.lines.columns
        last = 0
        for at in range(1, len(below)):
            (one, _), queue = below[last]
            (two, _), other = below[at]
            assert one is not None
            assert two is not None
            if compare_precedence(columns.queues, columns.policy, queue, one, other, two) < 0:
                last = at
        return last


class LeafLine(Line):
    """The line of a leaf queue: its groups in victim order. A group that has lost a unit and has more comes again."""

    def __init__(
        self, lines: VictimLines, leaf: int, lost_too: dict[int, tuple[int, Sequence[int]]] | None = None
    ) -> None:
        super().__init__(lines, leaf)
        self.trial = lines.trial
        self.columns = lines.columns
        self.lost_too = lost_too or {}
        """By number of units: the group that has lost more pods by then, and these."""
        self._cursor: Cursor = lines.groups.cursor(leaf)
        self._gone: dict[int, set[int]] = {}
        """Pods of each group that are lost in this line."""
        self._again: list[GroupKey] = []
        self._taken: Vector = NONE

    def _extend(self) -> bool:
        fresh = self._fresh()
        if self._again and (fresh is None or self._again[0] < fresh):
            group = -heappop(self._again)[-1]
        elif fresh is not None:
            group = -fresh[-1]
            self._cursor.advance()
        else:
            return False
        gone = self._gone.get(group)
        pods = evictable_unit(self.trial, group, gone or ())
        is_all = gone is None and self._is_all(group, pods)
        self.units.append(self._unit(group, pods, is_all))
        if not is_all:
            self._lose(group, pods)
        if len(self.units) in self.lost_too:
            self._lose_too(*self.lost_too[len(self.units)])
        return True

    def _is_all(self, group: int, pods: Sequence[int]) -> bool:
        """Whether a group has no other pods that it could lose."""
        active, numbers = self.columns.sets.active, self.columns.sets_of[group]
        if len(numbers) == 1:
            return len(pods) == active[numbers[0]]
        return len(pods) == sum(active[number] for number in numbers)

    def _unit(self, group: int, pods: list[int], is_all: bool) -> Unit:
        candidates = self.lines.candidates
        if candidates.leaves is not None and len(candidates.leaves) == 1:  # there is no other queue to compare with
            return Unit(group, pods, NONE, NOWHERE)
        held = self._held(pods)
        given = plus(self._taken, held if is_all else self._held(self._rest(group)))
        self._taken = plus(self._taken, held)
        return Unit(group, pods, given, self._only_node(pods) if is_all and candidates.losses else NOWHERE)

    def _lose(self, group: int, pods: Iterable[int]) -> None:
        gone = self._gone.setdefault(group, set())
        gone.update(pods)
        if evictable_unit(self.trial, group, gone):
            heappush(self._again, victim_key(self.trial, group, gone))

    def _lose_too(self, group: int, pods: Sequence[int]) -> None:
        self._again = [key for key in self._again if key[-1] != -group]
        heapify(self._again)
        gone = self._gone.get(group, set())
        self._taken = plus(self._taken, self._held(pod for pod in pods if pod not in gone))
        self._lose(group, pods)

    def _rest(self, group: int) -> Iterable[int]:
        gone = self._gone.get(group, ())
        columns = self.columns
        return (pod for number in columns.sets_of[group] for pod in columns.sets.pods[number] if pod not in gone)

    def _held(self, pods: Iterable[int]) -> Vector:
        held = NONE
        for pod in pods:
            if self.trial.is_active(pod):
                held = plus(held, self.columns.placed_need(pod, self.trial.place(pod)[0]))
        return held

    def _only_node(self, pods: Sequence[int]) -> int:
        columns, trial = self.columns, self.trial
        node = trial.place(pods[0])[0]
        if all(trial.place(pod)[0] == node and is_whole(columns, pod) for pod in pods):
            return node
        return NOWHERE

    def _fresh(self) -> GroupKey | None:
        """The next group that may give and has not given yet."""
        bound, cursor = self.lines.candidates.priority_below, self._cursor
        while (key := cursor.peek()) is not None:
            if bound is not None and key[0] >= bound:
                return None
            if self.lines.may_give(-key[-1]):
                return key
            cursor.advance()
        return None

"""Victim order: the reverse of serving order.

A group loses one unit at a time and then takes part with what it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from fairpool.scheduler.chunk import evictable_unit
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.group_index import Cursor, GroupIndex
from fairpool.scheduler.order import (
    GroupKey,
    Precedence,
    compare_precedence,
    group_key,
    queue_precedence,
    ranks_of_equals,
)
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.trial import Trial

ABSENT = -1

VictimPlace = tuple[tuple[float, ...], int]
"""Precedence and rank of a queue: the largest among siblings is served last, and loses first."""
NO_PLACE: VictimPlace = ((), ABSENT)
"""Of a queue that has nothing to give."""


def possible_victims(trial: Trial) -> GroupIndex:
    """All groups that may be preempted and hold something, last in their queue first."""
    columns = trial.columns
    sets = columns.sets

    def belongs(group: int) -> bool:
        return (
            columns.queue_of[group] != NOWHERE
            and not columns.is_non_preemptible(group)
            and any(sets.active[number] for number in columns.sets_of[group])
        )

    active = {group for group, pods in zip(sets.group, sets.active, strict=True) if pods}
    return GroupIndex(
        trial, (group for group in active if belongs(group)), belongs, lambda group: victim_key(trial, group)
    )


def victim_key(trial: Trial, group: int, gone: Iterable[int] = ()) -> GroupKey:
    """Lowest priority first, then groups above their minimum, then the newest: the reverse of being served."""
    priority, surplus, created_at, number = group_key(trial.columns, group, tuple(gone))
    return (-priority, -surplus, -created_at, -number)


def _always(_chunk: Sequence[int], _victims: Sequence[int]) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Candidates:
    """Which groups may be taken from."""

    may_give: Callable[[int], bool]
    leaves: tuple[int, ...] | None = None
    """Only groups of these leaf queues; None: all."""
    not_leaf: int = ABSENT
    priority_below: int | None = None
    """Only groups of lower priority."""
    are_lost: bool = True
    """They need not find another place."""
    are_common: bool = False
    """In this pass they are the same for every taker, its own queue aside."""
    could_do: Callable[[Sequence[int], Sequence[int]], bool] = _always
    """Whether a chunk could get its places by taking these pods, as far as counting shows."""


class VictimWalk:
    """Possible victims, popped in the order in which they lose, for one search.

    Where many queues may give, most of them are as they were in the search before: `common` knows them, and a walk only
    works out what is above its own leaf queue and above those that it has taken from.
    """

    def __init__(
        self, trial: Trial, groups: GroupIndex, candidates: Candidates, common: VictimWalk | None = None
    ) -> None:
        self.trial = trial
        self.columns = trial.columns
        self.groups = groups
        self.may_give = candidates.may_give
        self.priority_below = candidates.priority_below
        self.gone: dict[int, set[int]] = {}
        """Pods of each group that count as taken."""
        self.taken: dict[int, Vector] = {}
        """By queue, what the pods taken from it hold."""
        self._cursors: dict[int, Cursor] = {}
        self._again: dict[int, list[GroupKey]] = {}
        """Groups that have given something and have more."""
        self._common = common
        self._are_common = candidates.are_common
        self._not_leaf = candidates.not_leaf
        self._apart: set[int] = set()
        """Queues that are not as `common` knows them."""
        if candidates.not_leaf != ABSENT:
            self._apart.update(trial.columns.queues.path[candidates.not_leaf])
        self._leaves: set[int] = (
            set(groups.leaves() if candidates.leaves is None else candidates.leaves)
            if common is None
            else common._leaves
        )
        self._answers: dict[int, bool] = {}
        self._heads: dict[int, int] = {}
        self._precedences: dict[int, Precedence] = {}
        self._ranks: dict[int, dict[int, int] | None] = {}
        self._places: dict[int, VictimPlace] = {}

    def pop(self) -> tuple[int, list[int]] | None:
        """The group that loses next and the pods it loses. They count as taken after `take`."""
        last = self._last(ABSENT)
        if last == ABSENT:
            return None
        group = self._head(last)
        return group, evictable_unit(self.trial, group, self.gone.get(group, ()))

    def take(self, group: int, pods: Iterable[int]) -> None:
        """Count pods as taken, and put the group back if it has more."""
        queue = self.columns.queue_of[group]
        if group in self.gone:
            self._take_off(queue, group)
        else:
            self._fresh(queue)  # which may be known from the common walk only
            self._cursors[queue].advance()
        gone = self.gone.setdefault(group, set())
        fresh = [pod for pod in pods if pod not in gone]
        self.taken[queue] = plus(self.taken.get(queue, NONE), self._held(fresh))
        gone.update(fresh)
        if evictable_unit(self.trial, group, gone):
            heappush(self._again.setdefault(queue, []), victim_key(self.trial, group, gone))
        self._apart.update(self.columns.queues.path[queue])
        self._forget(queue)

    def follow(self, groups: Iterable[int]) -> None:
        """Look again at groups that have moved since, and at their queues."""
        queue_of = self.columns.queue_of
        for group in groups:
            self._answers.pop(group, None)
        for queue in {queue_of[group] for group in groups} - {NOWHERE}:
            self._leaves.add(queue)
            self._cursors.pop(queue, None)
            self._forget(queue)

    def _forget(self, queue: int) -> None:
        for level in self.columns.queues.path[queue]:
            self._heads.pop(level, None)
            self._precedences.pop(level, None)
            self._places.pop(level, None)

    def _take_off(self, queue: int, group: int) -> None:
        """A group that has given before: mostly the one whose turn it is."""
        again = self._again[queue]
        if again[0][-1] != -group:
            again[:] = [key for key in again if key[-1] != -group]
            heapify(again)
        else:
            heappop(again)

    def _held(self, pods: Iterable[int]) -> Vector:
        held = NONE
        for pod in pods:
            if self.trial.is_active(pod):
                held = plus(held, self.columns.placed_need(pod, self.trial.place(pod)[0]))
        return held

    def _last(self, parent: int) -> int:
        """The queue below a parent, or at the top (ABSENT), that would be served last; ABSENT if none has a group."""
        siblings = self.columns.queues.roots if parent == ABSENT else self.columns.queues.children[parent]
        ranks = (self._common or self).ranks(parent, siblings) if self._are_common else None
        if ranks is not None:
            return self._last_ranked(siblings, ranks)
        last = ABSENT
        for queue in siblings:
            if self._head(queue) == ABSENT:
                continue
            if last == ABSENT or self._is_before(last, queue):
                last = queue
        return last

    def _last_ranked(self, siblings: list[int], ranks: dict[int, int]) -> int:
        """The same where the order of siblings is a total one."""
        last, latest, mine, apart = ABSENT, NO_PLACE, self._places, self._apart
        common = self if self._common is None else self._common
        for queue in siblings:
            walk = self if queue in apart else common
            place = (mine if walk is self else common._places).get(queue)
            if place is None:
                place = walk._find_place(queue, ranks[queue])
            if place > latest:
                last, latest = queue, place
        return last

    def _find_place(self, queue: int, rank: int) -> VictimPlace:
        has_none = self._head(queue) == ABSENT
        by_share = self.columns.policy.fair_order
        place = NO_PLACE if has_none else ((self._precedence(queue) if by_share else ()), rank)
        self._places[queue] = place
        return place

    def ranks(self, parent: int, siblings: list[int]) -> dict[int, int] | None:
        """How those below a parent stand to each other where their precedence is equal."""
        if parent not in self._ranks:
            self._ranks[parent] = ranks_of_equals(self.columns.queues, self.columns.policy, siblings)
        return self._ranks[parent]

    def _head(self, queue: int) -> int:
        head = self._heads.get(queue)
        if head is None:
            if self._common is not None and queue not in self._apart:
                return self._common._head(queue)
            head = self._heads[queue] = self._find_head(queue)
        return head

    def _find_head(self, queue: int) -> int:
        if self.columns.queues.children[queue]:
            below = self._last(queue)
            return ABSENT if below == ABSENT else self._head(below)
        if queue not in self._leaves or queue == self._not_leaf:
            return ABSENT
        again = self._again.get(queue)
        fresh = self._fresh(queue)
        if again and (fresh is None or again[0] < fresh):
            return -again[0][-1]
        return ABSENT if fresh is None else -fresh[-1]

    def _fresh(self, leaf: int) -> GroupKey | None:
        """The next group of a leaf queue that may give and has not given yet."""
        cursor = self._cursors.get(leaf)
        if cursor is None:
            cursor = self._cursors[leaf] = self.groups.cursor(leaf)
        while (key := cursor.peek()) is not None:
            if self.priority_below is not None and key[0] >= self.priority_below:
                return None
            if self._may_give(-key[-1]):
                return key
            cursor.advance()
        return None

    def _may_give(self, group: int) -> bool:
        answer = self._answers.get(group)
        if answer is None:
            answer = self._answers[group] = self.may_give(group)
        return answer

    def _is_before(self, queue: int, other: int) -> bool:
        one, two = self._precedence(queue), self._precedence(other)
        return compare_precedence(self.columns.queues, self.columns.policy, queue, one, other, two) < 0

    def _precedence(self, queue: int) -> Precedence:
        precedence = self._precedences.get(queue)
        if precedence is None:
            if self._common is not None and queue not in self._apart:
                return self._common._precedence(queue)
            given = self._given(self._head(queue))
            precedence = queue_precedence(self.columns.queues, self.columns.policy, queue, NONE, given)
            self._precedences[queue] = precedence
        return precedence

    def _given(self, group: int) -> Vector:
        """What the queue of a group gives if this group is taken too."""
        gone = self.gone.get(group, ())
        pods = (pod for number in self.columns.sets_of[group] for pod in self.columns.sets.pods[number])
        mine = self._held(pod for pod in pods if pod not in gone)
        return plus(self.taken.get(self.columns.queue_of[group], NONE), mine)


class VictimUnits:
    """The units of a victim walk in order, remembered so that they can be gone through again."""

    def __init__(self, walk: VictimWalk) -> None:
        self.walk = walk
        self.is_as_walked = True
        """What was taken before has not changed the order."""
        self._units: list[tuple[int, list[int]]] = []

    def unit(self, place: int) -> tuple[int, list[int]] | None:
        """The unit at a place, and the group that gives it; None after the last."""
        while len(self._units) <= place:
            given = self.walk.pop()
            if given is None:
                return None
            self.walk.take(*given)
            self._units.append(given)
        return self._units[place]

    def taken_before(self, group: int, pods: list[int]) -> None:
        """The rest of what a group has already lost is not offered again."""
        if len(self.walk.gone[group]) < len(pods):
            self.is_as_walked = False
            self.walk.take(group, pods)

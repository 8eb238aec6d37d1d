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
from fairpool.scheduler.order import GroupKey, Precedence, compare_precedence, group_key, queue_precedence
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.trial import Trial

ABSENT = -1


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
    could_do: Callable[[Sequence[int], Sequence[int]], bool] = _always
    """Whether a chunk could get its places by taking these pods, as far as counting shows."""


class VictimWalk:
    """Possible victims, popped in the order in which they lose, for one search."""

    def __init__(self, trial: Trial, groups: GroupIndex, candidates: Candidates) -> None:
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
        self._leaves = set(groups.leaves() if candidates.leaves is None else candidates.leaves)
        self._leaves -= {candidates.not_leaf}
        self._answers: dict[int, bool] = {}
        self._heads: dict[int, int] = {}
        self._precedences: dict[int, Precedence] = {}

    def pop(self) -> tuple[int, list[int]] | None:
        """The group that loses next and the pods it loses. They count as taken after `take`."""
        last = self._last(self.columns.queues.roots)
        if last == ABSENT:
            return None
        group = self._heads[last]
        return group, evictable_unit(self.trial, group, self.gone.get(group, ()))

    def take(self, group: int, pods: Iterable[int]) -> None:
        """Count pods as taken, and put the group back if it has more."""
        queue = self.columns.queue_of[group]
        if group in self.gone:
            self._take_off(queue, group)
        else:
            self._cursors[queue].advance()
        gone = self.gone.setdefault(group, set())
        fresh = [pod for pod in pods if pod not in gone]
        self.taken[queue] = plus(self.taken.get(queue, NONE), self._held(fresh))
        gone.update(fresh)
        if evictable_unit(self.trial, group, gone):
            heappush(self._again.setdefault(queue, []), victim_key(self.trial, group, gone))
        for level in self.columns.queues.path[queue]:
            self._heads.pop(level, None)
            self._precedences.pop(level, None)

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

    def _last(self, siblings: list[int]) -> int:
        """The queue among siblings that would be served last; ABSENT if none has a group."""
        last = ABSENT
        for queue in siblings:
            if self._head(queue) == ABSENT:
                continue
            if last == ABSENT or self._is_before(last, queue):
                last = queue
        return last

    def _head(self, queue: int) -> int:
        head = self._heads.get(queue)
        if head is None:
            head = self._heads[queue] = self._find_head(queue)
        return head

    def _find_head(self, queue: int) -> int:
        children = self.columns.queues.children[queue]
        if children:
            below = self._last(children)
            return ABSENT if below == ABSENT else self._heads[below]
        if queue not in self._leaves:
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
            given = self._given(self._heads[queue])
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

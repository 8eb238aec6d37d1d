"""Groups in the order in which they give: the queue served last gives first, and in it the last group.

A group gives one unit at a time and then takes part with what it has left.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from fairpool.scheduler.chunk import evictable_unit
from fairpool.scheduler.order import GroupKey, compare_queues, group_key
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.trial import Trial


class VictimWalk:
    """A list of groups to take from."""

    def __init__(self, trial: Trial, groups: Iterable[int]) -> None:
        self.trial = trial
        self.board = trial.board
        self.gone: dict[int, set[int]] = {}
        """Pods of each group that count as taken."""
        self.taken: dict[int, Vector] = {}
        """By queue, what the pods taken from it hold."""
        self.keys: dict[int, GroupKey] = {}
        self.heaps: dict[int, list[GroupKey]] = {}
        for group in groups:
            self.heaps.setdefault(self.board.queue_of[group], []).append(self._key(group))
        for heap in self.heaps.values():
            heapify(heap)

    def _key(self, group: int) -> GroupKey:
        priority, surplus, created_at, number = group_key(self.board, group, self.gone.get(group, ()))
        key = self.keys[group] = (-priority, -surplus, -created_at, -number)
        return key

    def pop(self) -> tuple[int, list[int]] | None:
        """The group that gives next and the pods it gives. They count as taken once `take` says so."""
        found = self._last(self.board.queues.roots)
        if found is None:
            return None
        group = found[1]
        return group, evictable_unit(self.trial, group, self.gone.get(group, ()))

    def take(self, group: int, pods: Iterable[int]) -> None:
        """Count pods as taken, and put the group back if it has more."""
        gone = self.gone.setdefault(group, set())
        queue = self.board.queue_of[group]
        fresh = [pod for pod in pods if pod not in gone]
        self.taken[queue] = plus(self.taken.get(queue, NONE), self._held(fresh))
        gone.update(fresh)
        del self.keys[group]
        if evictable_unit(self.trial, group, gone):
            heappush(self.heaps[queue], self._key(group))

    def _held(self, pods: Iterable[int]) -> Vector:
        held = NONE
        for pod in pods:
            if self.trial.is_active(pod):
                held = plus(held, self.board.placed_need(pod, self.trial.place(pod)[0]))
        return held

    def _last(self, siblings: list[int]) -> tuple[int, int] | None:
        last: tuple[int, int] | None = None
        for queue in siblings:
            group = self._head(queue)
            if group is None:
                continue
            if last is None or self._is_before(*last, queue, group):
                last = (queue, group)
        return last

    def _head(self, queue: int) -> int | None:
        children = self.board.queues.children[queue]
        if children:
            below = self._last(children)
            return below and below[1]
        heap = self.heaps.get(queue)
        while heap:
            group = -heap[0][-1]
            if self.keys.get(group) == heap[0]:
                return group
            heappop(heap)
        return None

    def _is_before(self, queue: int, group: int, other: int, other_group: int) -> bool:
        given = (self._given(group), self._given(other_group))
        return compare_queues(self.board.queues, self.board.policy, queue, other, (NONE, NONE), given) < 0

    def _given(self, group: int) -> Vector:
        """What the queue of a group gives if this group is taken too."""
        gone = self.gone.get(group, ())
        pods = (pod for number in self.board.sets_of[group] for pod in self.board.sets.pods[number])
        mine = self._held(pod for pod in pods if pod not in gone)
        return plus(self.taken.get(self.board.queue_of[group], NONE), mine)

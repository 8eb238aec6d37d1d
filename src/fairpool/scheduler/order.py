"""Whose turn it is: queues by need, pod groups within a queue; and, the other way round, who gives first.

The comparison of queues is not transitive, so siblings are always scanned in id order and the better one kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from fairpool.scheduler.board import NOWHERE, Board
from fairpool.scheduler.chunk import chunk_need, evictable_unit, next_chunk, standing
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import NONE, QueueTable, Vector, plus, within
from fairpool.scheduler.trial import Trial

GroupKey = tuple[int, int, int, int]


def compare_queues(
    queues: QueueTable,
    policy: Policy,
    left: int,
    right: int,
    asked: tuple[Vector, Vector],
    given: tuple[Vector, Vector],
) -> int:
    """Negative if the left sibling is served first. `asked` is what the next group of each asks for, `given` what the
    groups that would be taken from each hold.
    """
    if not policy.fair_order:
        return _by_age(queues, left, right)
    one, other = (
        _standing(queues, policy, queue, asks, gives)
        for queue, asks, gives in zip((left, right), asked, given, strict=True)
    )
    if one != other:
        return -1 if one < other else 1
    return _by_allocatable(queues, left, right) or _by_age(queues, left, right)


Standing = tuple[bool, bool, int, bool, float, float]


def _standing(queues: QueueTable, policy: Policy, queue: int, asked: Vector, given: Vector) -> Standing:
    """The first six criteria, smaller first: over its share, outside its quota, priority, dominant shares."""
    gpu, cpu, memory = queues.held[queue]
    fair, quota, allocatable = queues.fair[queue], queues.quota[queue], queues.allocatable(queue)
    if policy.over_share_by_requested:
        is_over = (
            (gpu > fair[0] and (asked[0] > 0 or given[0] > 0))
            or (cpu > fair[1] and (asked[1] > 0 or given[1] > 0))
            or (memory > fair[2] and (asked[2] > 0 or given[2] > 0))
        )
    else:
        is_over = gpu > fair[0] and cpu > fair[1] and memory > fair[2]
    gpu_then, cpu_then, memory_then = gpu + asked[0], cpu + asked[1], memory + asked[2]
    return (
        is_over,
        gpu_then > quota[0] or cpu_then > quota[1] or memory_then > quota[2],
        -queues.priority[queue],
        (gpu_then > 0 and not allocatable[0])
        or (cpu_then > 0 and not allocatable[1])
        or (memory_then > 0 and not allocatable[2]),
        queues.dominant_share(queue, gpu_then - given[0], cpu_then - given[1], memory_then - given[2]),
        queues.dominant_share(queue, gpu, cpu, memory),
    )


def _by_allocatable(queues: QueueTable, left: int, right: int) -> int:
    mine, theirs = queues.allocatable(left), queues.allocatable(right)
    if mine == theirs:
        return 0
    if within(mine, theirs):
        return -1
    return 1 if within(theirs, mine) else 0


def _by_age(queues: QueueTable, left: int, right: int) -> int:
    one, other = (queues.created_at[left], left), (queues.created_at[right], right)
    return -1 if one < other else 1


def group_key(board: Board, group: int, gone: Iterable[int] = ()) -> GroupKey:
    """Order inside a queue: priority, below its minimum before at it before above it, age, id."""
    policy = board.policy
    return (
        -board.rules[group].priority if policy.priority_order else 0,
        standing(board, group, tuple(gone)) if policy.elastic_order else 0,
        board.groups[group].created_at,
        group,
    )


class Walk:
    """Groups in the order in which they are served, looked at anew after each."""

    def __init__(self, trial: Trial, groups: Iterable[int], asked: Callable[[int], Vector] | None = None) -> None:
        self.trial = trial
        self.board = trial.board
        self.asked_of = asked or self._asked
        self.keys: dict[int, GroupKey] = {}
        self.heaps: dict[int, list[GroupKey]] = {}
        self._known_need: dict[int, Vector] = {}
        self._read = len(trial.touched)
        for group in groups:
            self.push(group)

    def push(self, group: int) -> None:
        """Put a group (back) on the list."""
        queue = self.board.queue_of[group]
        if queue == NOWHERE:
            return
        key = group_key(self.board, group)
        self.keys[group] = key
        self._known_need.pop(group, None)
        heappush(self.heaps.setdefault(queue, []), key)

    def pop(self) -> int | None:
        """Take the group whose turn it is off the list."""
        self._follow_moves()
        found = self._best(self.board.queues.roots)
        if found is None:
            return None
        group = found[1]
        del self.keys[group]
        return group

    def __contains__(self, group: int) -> bool:
        return group in self.keys

    def _follow_moves(self) -> None:
        touched = self.trial.touched
        for group in touched[self._read :]:
            if group in self.keys:
                self.push(group)
        self._read = len(touched)

    def _best(self, siblings: list[int]) -> tuple[int, int] | None:
        """The best queue among siblings and the group at its head."""
        best: tuple[int, int] | None = None
        for queue in siblings:
            group = self._head(queue)
            if group is None:
                continue
            if best is None or self._is_before(queue, group, *best):
                best = (queue, group)
        return best

    def _head(self, queue: int) -> int | None:
        children = self.board.queues.children[queue]
        if children:
            below = self._best(children)
            return below and below[1]
        heap = self.heaps.get(queue)
        while heap:
            group = heap[0][-1]
            if self.keys.get(group) == heap[0]:
                return group
            heappop(heap)
        return None

    def _is_before(self, queue: int, group: int, best_queue: int, best_group: int) -> bool:
        asked = (self._need(group), self._need(best_group))
        given = (NONE, NONE)
        return compare_queues(self.board.queues, self.board.policy, queue, best_queue, asked, given) < 0

    def _need(self, group: int) -> Vector:
        need = self._known_need.get(group)
        if need is None:
            need = self._known_need[group] = self.asked_of(group)
        return need

    def _asked(self, group: int) -> Vector:
        return chunk_need(self.board, next_chunk(self.trial, group, evicted_too=True))


class VictimWalk:
    """Groups in the order in which they give: the queue served last gives first, and in it the last group.

    A group gives one unit at a time and then takes part with what it has left.
    """

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
            self._push(group)

    def _push(self, group: int) -> None:
        priority, surplus, created_at, number = group_key(self.board, group, self.gone.get(group, ()))
        key = (-priority, -surplus, -created_at, -number)
        self.keys[group] = key
        heappush(self.heaps.setdefault(self.board.queue_of[group], []), key)

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
            self._push(group)

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
        asked = (NONE, NONE)
        return compare_queues(self.board.queues, self.board.policy, queue, other, asked, given) < 0

    def _given(self, group: int) -> Vector:
        """What the queue of a group gives if this group is taken too."""
        gone = self.gone.get(group, ())
        pods = (pod for number in self.board.sets_of[group] for pod in self.board.sets.pods[number])
        mine = self._held(pod for pod in pods if pod not in gone)
        return plus(self.taken.get(self.board.queue_of[group], NONE), mine)

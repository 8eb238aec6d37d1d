"""Whose turn it is: queues by need, pod groups within a queue; and, the other way round, who gives first.

The comparison of queues is not transitive, so siblings are always scanned in id order and the better one kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

from fairpool.scheduler.board import NOWHERE, Board
from fairpool.scheduler.chunk import chunk_need, evictable_unit, next_chunk, standing
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import RESOURCES, QueueTable, Vector, plus, within
from fairpool.scheduler.trial import Trial

NOTHING_ASKED: Vector = [0, 0, 0]

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


def _standing(
    queues: QueueTable, policy: Policy, queue: int, asked: Vector, given: Vector
) -> tuple[bool, bool, int, bool, float, float]:
    """The first six criteria, smaller first: over its share, outside its quota, priority, dominant shares."""
    held = queues.held[queue]
    with_asked = plus(held, asked)
    after = [with_asked[0] - given[0], with_asked[1] - given[1], with_asked[2] - given[2]]
    return (
        _is_over_share(queues, policy, queue, asked, given),
        not within(with_asked, queues.quota[queue]),
        -queues.priority[queue],
        any(with_asked[each] > 0 and queues.allocatable(queue, each) == 0 for each in RESOURCES),
        queues.dominant_share(queue, after),
        queues.dominant_share(queue, held),
    )


def _is_over_share(queues: QueueTable, policy: Policy, queue: int, asked: Vector, given: Vector) -> bool:
    """Over its fair share: in something that matters to the group at hand, or (parity) in everything."""
    held, fair = queues.held[queue], queues.fair[queue]
    if policy.over_share_by_requested:
        return any((asked[each] > 0 or given[each] > 0) and held[each] > fair[each] for each in RESOURCES)
    return all(held[each] > fair[each] for each in RESOURCES)


def _by_allocatable(queues: QueueTable, left: int, right: int) -> int:
    mine = [queues.allocatable(left, each) for each in RESOURCES]
    theirs = [queues.allocatable(right, each) for each in RESOURCES]
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
        given = (NOTHING_ASKED, NOTHING_ASKED)
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
        self.taken[queue] = plus(self.taken.get(queue, NOTHING_ASKED), self._held(fresh))
        gone.update(fresh)
        del self.keys[group]
        if evictable_unit(self.trial, group, gone):
            self._push(group)

    def _held(self, pods: Iterable[int]) -> Vector:
        held: Vector = [0, 0, 0]
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
        asked = (NOTHING_ASKED, NOTHING_ASKED)
        return compare_queues(self.board.queues, self.board.policy, queue, other, asked, given) < 0

    def _given(self, group: int) -> Vector:
        """What the queue of a group gives if this group is taken too."""
        gone = self.gone.get(group, ())
        pods = (pod for number in self.board.sets_of[group] for pod in self.board.sets.pods[number])
        mine = self._held(pod for pod in pods if pod not in gone)
        return plus(self.taken.get(self.board.queue_of[group], NOTHING_ASKED), mine)

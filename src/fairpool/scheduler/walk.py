"""Iterates over waiting groups in serving order, recomputed after each.

Going down the queue tree, at each level the best queue is taken, with the group at its head in mind; in a leaf, the
best group. Heads and precedences are kept until something they were computed from changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from fairpool.scheduler.chunk import chunk_need, next_chunk
from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.group_index import Cursor, GroupIndex
from fairpool.scheduler.order import GroupKey, Precedence, compare_precedence, group_key, group_keys, queue_precedence
from fairpool.scheduler.queues import NONE, QueueTable, Vector
from fairpool.scheduler.sibling_ranking import ABSENT, SIBLINGS_MIN, SiblingRanking, ties
from fairpool.scheduler.trial import Trial


class Walk:
    """Waiting groups by leaf queue, popped in the order in which they are served."""

    def __init__(self, trial: Trial, groups: Iterable[int], classes: Mapping[int, Hashable] | None = None) -> None:
        self.trial = trial
        self.classes = classes
        """Groups of one class ask for the same; None: that is not known."""
        self.columns = trial.columns
        self.queues = trial.columns.queues
        self.keys: dict[int, GroupKey] = {}
        self.heaps: dict[int, list[GroupKey]] = {}
        count = len(self.queues.ids)
        self._head_of: list[int] = [ABSENT] * count
        self._head_version: list[int] = [ABSENT] * count
        """Version of the queue for which its head was found; ABSENT: look again."""
        self._precedence_of: list[tuple[int, dict[Vector, Precedence]]] = [(ABSENT, {})] * count
        """Version of a queue, and its precedence by what its head asks for."""
        self._needs: dict[Hashable, Vector] = {}
        self._rankings: dict[int, SiblingRanking | None] = {}
        """By parent, where there are many siblings; None: they cannot be ranked."""
        self._read = len(trial.touched)
        self._fill(groups)

    def _fill(self, groups: Iterable[int]) -> None:
        queue_of, keys, heaps = self.columns.queue_of, self.keys, self.heaps
        waiting = [group for group in groups if queue_of[group] != NOWHERE]
        for group, key in zip(waiting, group_keys(self.columns, waiting), strict=True):
            keys[group] = key
            queue = queue_of[group]
            if queue in heaps:
                heaps[queue].append(key)
            else:
                heaps[queue] = [key]
        for heap in heaps.values():
            heapify(heap)

    def push(self, group: int) -> None:
        """Put a group (back) on the list."""
        queue = self.columns.queue_of[group]
        if queue == NOWHERE:
            return
        key = group_key(self.columns, group)
        self.keys[group] = key
        self._needs.pop(group if self.classes is None else self.classes[group], None)
        heappush(self.heaps.setdefault(queue, []), key)
        self._forget_heads(queue)

    def pop(self) -> int | None:
        """Take the group whose turn it is off the list."""
        self._follow_moves()
        queue = self._best(ABSENT)
        if queue == ABSENT:
            return None
        group = self._head_of[queue]
        del self.keys[group]
        self._forget_heads(self.columns.queue_of[group])
        return group

    def pass_over(self, group: int, classes: Mapping[int, Hashable]) -> None:
        """Take those off the list that come right after a group in its queue and are of its class.

        If its turn changed nothing, they would have the very next turns, and change nothing either.
        """
        leaf, kind = self.columns.queue_of[group], classes[group]
        while (other := self.first(leaf)) != ABSENT and classes[other] == kind:
            del self.keys[other]
        self._forget_heads(leaf)

    def leaves(self) -> list[int]:
        """Leaf queues that have a group on the list, in id order."""
        self._follow_moves()
        return [leaf for leaf in sorted(self.heaps) if self.first(leaf) != ABSENT]

    def in_order(self, leaf: int) -> Iterator[int]:
        """The groups of one leaf queue, as they would come if nothing changed."""
        for key in sorted(self.heaps[leaf]):
            if self.keys.get(key[-1]) == key:
                yield key[-1]

    def served(self, groups: Iterable[int]) -> None:
        """Take groups off the list that were served together."""
        for group in groups:
            del self.keys[group]
        self._follow_moves()
        for leaf, heap in self.heaps.items():
            heap[:] = [key for key in heap if self.keys.get(key[-1]) == key]
            heapify(heap)
            self._forget_heads(leaf)

    def _forget_heads(self, queue: int) -> None:
        for level in self.queues.path[queue]:
            self._head_version[level] = ABSENT
        if self._rankings:
            self._note_change(queue)

    def _note_change(self, queue: int) -> None:
        """The siblings on the path of a leaf queue are ranked again when they are next compared."""
        for level in self.queues.path[queue]:
            ranking = self._rankings.get(self.queues.parent[level])
            if ranking is not None:
                ranking.changed.add(level)

    def _follow_moves(self) -> None:
        touched = self.trial.touched
        if len(touched) == self._read:
            return
        for group in dict.fromkeys(touched[self._read :]):
            if group in self.keys:
                self.push(group)
            elif self._rankings and self.columns.queue_of[group] != NOWHERE:
                self._note_change(self.columns.queue_of[group])
        self._read = len(touched)

    def below(self, queue: int) -> list[int]:
        """The queues that take turns below a queue, or at the top (ABSENT)."""
        return self.queues.roots if queue == ABSENT else self.queues.children[queue]

    def _best(self, parent: int) -> int:
        """The best queue below another that has a group; ABSENT if none has."""
        siblings = self.below(parent)
        if len(siblings) >= SIBLINGS_MIN:
            if parent not in self._rankings:
                self._rankings[parent] = self._ranking(siblings)
            ranking = self._rankings[parent]
            if ranking is not None:
                return ranking.best(lambda queue: self._head(queue) != ABSENT)
        best = ABSENT
        for queue in siblings:
            if self._head(queue) == ABSENT:
                continue
            if best == ABSENT or self._is_before(queue, best):
                best = queue
        return best

    def _ranking(self, siblings: Sequence[int]) -> SiblingRanking | None:
        place = ties(self.queues, self.columns.policy, siblings)
        if place is None:
            return None
        return SiblingRanking(siblings, place, self._precedence if self.columns.policy.fair_order else lambda _: None)

    def _head(self, queue: int) -> int:
        """The group at the head of a queue."""
        if self._head_version[queue] == self.queues.version[queue]:
            return self._head_of[queue]
        if self.queues.children[queue]:
            best = self._best(queue)
            head = ABSENT if best == ABSENT else self._head_of[best]
        else:
            head = self.first(queue)
        self._head_of[queue] = head
        self._head_version[queue] = self.queues.version[queue]
        return head

    def first(self, leaf: int) -> int:
        """The group at the head of a leaf queue; ABSENT if it is empty."""
        heap = self.heaps.get(leaf)
        while heap:
            group = heap[0][-1]
            if self.keys.get(group) == heap[0]:
                return group
            heappop(heap)
        return ABSENT

    def _is_before(self, queue: int, other: int) -> bool:
        one, two = self._precedence(queue), self._precedence(other)
        return compare_precedence(self.queues, self.columns.policy, queue, one, other, two) < 0

    def _precedence(self, queue: int) -> Precedence:
        need = self.need(self._head_of[queue])
        version, known = self._precedence_of[queue]
        if version != self.queues.version[queue]:
            known = {}
            self._precedence_of[queue] = (self.queues.version[queue], known)
        precedence = known.get(need)
        if precedence is None:
            precedence = known[need] = queue_precedence(self.queues, self.columns.policy, queue, need, NONE)
        return precedence

    def need(self, group: int) -> Vector:
        """What the next chunk of a group asks for."""
        kind = group if self.classes is None else self.classes[group]
        need = self._needs.get(kind)
        if need is None:
            need = self._needs[kind] = chunk_need(self.columns, next_chunk(self.trial, group, evicted_too=True))
        return need


class SimulatedWalk(Walk):
    """The walk of a simulation: a few groups act, all others that wait only take their turns.

    Turns of the others change nothing, but they come before those of the actors and decide which queue is looked at
    with what in mind.
    """

    def __init__(self, trial: Trial, waiting: GroupIndex, actors: Iterable[int], asked: dict[int, Vector]) -> None:
        self._waiting = waiting
        self._cursors: dict[int, Cursor] = {}
        self._asked = asked
        super().__init__(trial, actors)
        self._actors = set(self.keys)
        self.passed: set[int] = set()
        """Leaf queues in which others have had turns."""
        self._below = turns_that_matter(self.queues, {trial.columns.queue_of[actor] for actor in self._actors})

    def below(self, queue: int) -> list[int]:
        return self._below.get(queue, []) if self._below is not None else super().below(queue)

    def pop(self) -> int | None:
        """The next actor."""
        while self.keys:
            self._follow_moves()
            group = self._head_of[self._best(ABSENT)]
            leaf = self.columns.queue_of[group]
            if group in self.keys:
                del self.keys[group]
                self._forget_heads(leaf)
                return group
            self._pass_over(leaf)
        return None

    def _pass_over(self, leaf: int) -> None:
        """The turns of all that ask for the same as the one at the head: nothing changes in between."""
        ends = self._waiting.run_ends(leaf, self.need)
        self._cursors[leaf].skip_run(ends, self._first_actor(leaf))
        self.passed.add(leaf)
        self._forget_heads(leaf)

    def first(self, leaf: int) -> int:
        key, actor = self._waiting_key(leaf), self._first_actor(leaf)
        if key is None:
            return ABSENT if actor is None else actor[-1]
        return key[-1] if actor is None or key < actor else actor[-1]

    def _first_actor(self, leaf: int) -> GroupKey | None:
        heap = self.heaps.get(leaf)
        while heap:
            if self.keys.get(heap[0][-1]) == heap[0]:
                return heap[0]
            heappop(heap)
        return None

    def _waiting_key(self, leaf: int) -> GroupKey | None:
        cursor = self._cursors.get(leaf)
        if cursor is None:
            cursor = self._cursors[leaf] = self._waiting.cursor(leaf)
        key = cursor.peek()
        while key is not None and key[-1] in self._actors:
            cursor.advance()
            key = cursor.peek()
        return key

    def need(self, group: int) -> Vector:
        """What the next chunk of a group asks for; of those that do not act it is known already."""
        if group in self._actors:
            return super().need(group)
        need = self._asked.get(group)
        if need is None:
            need = self._asked[group] = super().need(group)
        return need


def turns_that_matter(queues: QueueTable, leaves: set[int]) -> dict[int, list[int]] | None:
    """By queue, those below it whose turns can change the order of what acts in some leaves.

    Where the paths of those leaves part, only the branches that hold one of them compare; the turns of the others pass
    without effect. Inside such a branch every group counts, because its head represents it.
    """
    paths = [queues.path[leaf] for leaf in sorted(leaves)]
    common = 0
    while all(len(path) > common + 1 and path[common] == paths[0][common] for path in paths):
        common += 1
    below: dict[int, list[int]] = {}
    for depth in range(common):
        below[paths[0][depth - 1] if depth else ABSENT] = [paths[0][depth]]
    branches = sorted({path[common] for path in paths})
    below[paths[0][common - 1] if common else ABSENT] = branches
    inside = list(branches)
    while inside:
        queue = inside.pop()
        below[queue] = queues.children[queue]
        inside += queues.children[queue]
    return below


def waiting_index(trial: Trial) -> GroupIndex:
    """All groups with waiting pods, ready or not, in the order in which they are served."""
    columns = trial.columns
    sets = columns.sets

    def belongs(group: int) -> bool:
        return columns.queue_of[group] != NOWHERE and any(sets.waiting[number] for number in columns.sets_of[group])

    return GroupIndex(trial, filter(belongs, trial.unplaced_groups()), belongs, lambda group: group_key(columns, group))

"""Batches of equal groups, placed together.

A full queue often holds thousands of groups that ask for the same. The order in which queues are served follows from
figures that grow step by step, and places from counts of free devices; both are computed for the whole batch at once.
The result is that of serving the groups one after the other; what this module cannot foresee is left to that.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heapreplace
from itertools import pairwise, repeat

import numpy as np
import numpy.typing as npt

from fairpool.model.node import Placement
from fairpool.scheduler import equivalence
from fairpool.scheduler.columns import REAL, WAITS, Columns
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import CPU, GPU, MEMORY, RESOURCES, UNIT, QueueTable, Vector, within
from fairpool.scheduler.score import free_gpus_milli
from fairpool.scheduler.walk import Walk

GROUPS_MIN = 16
"""Fewer groups than this are served one by one."""


@dataclass(slots=True)
class Batch:
    """Groups at the head of one leaf queue that ask for the same."""

    leaf: int
    groups: list[int]
    is_all: bool
    """Nothing else waits in this queue."""


def serve_batches(placer: Placer, walk: Walk, classes: Mapping[int, Hashable]) -> bool:
    """Serve what is at the heads of all queues, as long as it asks for the same everywhere. False: nothing was."""
    if placer.columns.gpu_placement is Placement.FRAGMENTATION:  # what a place costs changes with every pod
        return False
    is_served = False
    while True:
        batches = _equal_heads(placer, walk, classes)
        if batches is None or not _serve(placer, walk, batches):
            return is_served
        is_served = True


def _equal_heads(placer: Placer, walk: Walk, classes: Mapping[int, Hashable]) -> list[Batch] | None:
    """The batches at the heads of all queues, if all are of one kind."""
    columns = placer.columns
    if len(walk.keys) < GROUPS_MIN:
        return None
    batches: list[Batch] = []
    kind: tuple[int, int] | None = None
    for leaf in walk.leaves():
        head = _kind(placer, walk.first(leaf))
        kind = kind or head
        if kind is None or head != kind or columns.queues.limited[leaf]:
            return None
        batches.append(Batch(leaf, [], is_all=True))
    if kind is None or placer.index(kind[0]).best() is None:
        return None
    shape, size = kind
    room = sum(max(0, _copies(columns, shape, node)) for *_, node in placer.index(shape).entries()) // size
    if not room:
        return None
    for batch in batches:
        alike: set[Hashable] = set()
        for group in walk.in_order(batch.leaf):
            if len(batch.groups) > room:  # more turns than that are not taken
                batch.is_all = False
                break
            if classes[group] not in alike:
                if _kind(placer, group) != kind:
                    batch.is_all = False
                    break
                alike.add(classes[group])
            batch.groups.append(group)
    return batches if sum(len(batch.groups) for batch in batches) >= min(GROUPS_MIN, room) else None


def _kind(placer: Placer, group: int) -> tuple[int, int] | None:
    """Shape and number of the pods that a group starts with; None if it is not a simple one."""
    columns = placer.columns
    number = columns.sets_of[group][0]
    pods = columns.sets.pods[number]
    size = len(pods)
    if (
        columns.sets.minimum[number] != size
        or columns.sets.waiting[number] != size
        or columns.is_non_preemptible(group)
    ):
        return None
    if any(columns.pods[pod].nominated is not None for pod in pods):
        return None
    shape = equivalence.countable_shape(placer, group, pods)
    return None if shape is None else (shape, size)


def _serve(placer: Placer, walk: Walk, batches: Sequence[Batch]) -> bool:
    """Place the batches until one ends that other groups follow, or the room does. False if nothing was placed."""
    columns = placer.columns
    shape, size = _kind(placer, batches[0].groups[0]) or (0, 0)
    need = walk.need(batches[0].groups[0])
    turns = _Turns(columns.queues, columns.policy, batches, need)
    if not turns.are_comparable():
        return False
    order = turns.order()
    places = _places(placer, shape, len(order) * size)
    order = order[: len(places) // size]
    if not order:
        return False
    _bind(placer, walk, batches, order, places, shape, size)
    return True


class _Turns:
    """The order of turns among queues that all ask for the same again and again."""

    def __init__(self, queues: QueueTable, policy: Policy, batches: Sequence[Batch], need: Vector) -> None:
        self.queues = queues
        self.policy = policy
        self.need = need
        self.batch_of = {batch.leaf: batch for batch in batches}
        self.length: dict[int, int] = {}
        for batch in batches:
            for level in queues.path[batch.leaf]:
                self.length[level] = self.length.get(level, 0) + len(batch.groups)

    def are_comparable(self) -> bool:
        """Whether ties between siblings always fall the same way, so that sorting finds what scanning would."""
        parents = {self.queues.parent[queue] for queue in self.length}
        for parent in parents:
            siblings = self._siblings(self.queues.roots if parent < 0 else self.queues.children[parent])
            sizes = [self.queues.allocatable(queue) for queue in siblings]
            sizes.sort(key=lambda size: tuple(size))
            if not all(within(one, other) for one, other in pairwise(sizes)):
                return False
        return self.policy.fair_order

    def order(self) -> list[int]:
        """Leaf queues in the order of their turns, up to the end of the first batch that other groups follow."""
        turns = self._below(self.queues.roots)
        counts = dict.fromkeys(self.batch_of, 0)
        for step, leaf in enumerate(turns):
            counts[leaf] += 1
            batch = self.batch_of[leaf]
            if counts[leaf] == len(batch.groups) and not batch.is_all:
                return turns[: step + 1]
        return turns

    def _siblings(self, queues: Sequence[int]) -> list[int]:
        return [queue for queue in queues if queue in self.length]

    def _below(self, queues: Sequence[int]) -> list[int]:
        """Turns of the leaves below some siblings: siblings take turns by precedence, each passes its turns on."""
        siblings = self._siblings(queues)
        turns_of = {
            queue: iter(self._below(self.queues.children[queue]))
            if self.queues.children[queue]
            else repeat(queue, self.length[queue])
            for queue in siblings
        }
        if len(siblings) == 1:
            return list(turns_of[siblings[0]])
        ranked = sorted(
            siblings, key=lambda each: (tuple(self.queues.allocatable(each)), self.queues.created_at[each], each)
        )
        criteria = [self._criteria(queue, rank) for rank, queue in enumerate(ranked)]
        stacked = [np.concatenate(column) for column in zip(*criteria, strict=True)]
        owner = np.concatenate([np.full(self.length[queue], queue) for queue in ranked])
        order = owner[np.lexsort(stacked[::-1])].tolist()
        return [next(turns_of[queue]) for queue in order]

    def _criteria(self, queue: int, rank: int) -> list[npt.NDArray[np.float64]]:
        """The criteria of `order.queue_precedence`, for the first turn of a queue, the second, and so on."""
        queues, count = self.queues, self.length[queue]
        steps = np.arange(count, dtype=np.float64)
        held = [queues.held[queue][each] + steps * self.need[each] for each in RESOURCES]
        then = [held[each] + self.need[each] for each in RESOURCES]
        fair, quota, allocatable = queues.fair[queue], queues.quota[queue], queues.allocatable(queue)
        over = [held[each] > fair[each] for each in RESOURCES]
        if self.policy.over_share_by_requested:
            matters = [over[each] for each in RESOURCES if self.need[each] > 0]
            is_over = np.logical_or.reduce(matters) if matters else np.zeros(count, dtype=bool)
        else:
            is_over = np.logical_and.reduce(over)
        outside = np.logical_or.reduce([then[each] > quota[each] for each in RESOURCES])
        zero = np.logical_or.reduce([(then[each] > 0) & (not allocatable[each]) for each in RESOURCES])
        constant = np.full(count, -queues.priority[queue], dtype=np.float64)
        criteria = [is_over, outside, constant, zero, self._dominant(queue, then), self._dominant(queue, held)]
        return [*(column.astype(np.float64) for column in criteria), np.full(count, rank, dtype=np.float64)]

    def _dominant(self, queue: int, amounts: Sequence[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
        parts = []
        for resource in (GPU, CPU, MEMORY):
            allocatable = self.queues.allocatable(queue)[resource]
            if allocatable == float("inf"):
                allocatable = self.queues.total[resource]
            parts.append(amounts[resource] / allocatable if allocatable else amounts[resource] * 1000 / UNIT[resource])
        dominant: npt.NDArray[np.float64] = np.maximum(0.0, np.maximum.reduce(parts))
        return dominant


def _places(placer: Placer, shape: int, count: int) -> list[int]:
    """Nodes for so many pods of a shape, one after the other, as long as they fit what is idle."""
    columns = placer.columns
    index = placer.index(shape)
    whole = columns.facts[shape].whole
    entries = [(points, placement, node, _copies(columns, shape, node)) for points, placement, node in index.entries()]
    entries = [entry for entry in entries if entry[3] > 0]
    entries.sort()
    if columns.gpu_placement is Placement.BINPACK:
        places: list[int] = []
        for _, _, node, copies in entries:
            places += [node] * min(copies, count - len(places))
            if len(places) == count:
                break
        return places
    return _spread(columns, entries, whole, count)


def _spread(columns: Columns, entries: list[tuple[float, float, int, int]], whole: int, count: int) -> list[int]:
    """The emptiest node each time."""
    places: list[int] = []
    heap = [
        (points, placement, node, copies, free_gpus_milli(columns, node)) for points, placement, node, copies in entries
    ]
    while heap and len(places) < count:
        points, _, node, copies, free = heap[0]
        places.append(node)
        if copies == 1:
            heappop(heap)
        else:
            left = free - 1000 * whole
            heapreplace(heap, (points, -left / (1000 * columns.nodes.gpus[node]), node, copies - 1, left))
    return places


def _copies(columns: Columns, shape: int, node: int) -> int:
    """How many pods of a shape fit what is idle on a node, and stay within what is there in the end."""
    nodes, facts = columns.nodes, columns.facts[shape]
    copies = min(nodes.gpus_idle[node], nodes.gpus_idle[node] + nodes.gpus_releasing[node]) // facts.whole
    for idle, releasing, amount in (
        (nodes.cpu_idle[node], nodes.cpu_releasing[node], facts.cpu_milli),
        (nodes.memory_idle[node], nodes.memory_releasing[node], facts.memory_bytes),
        (nodes.slots_idle[node], nodes.slots_releasing[node], int(columns.policy.predicates)),
    ):
        if amount:
            copies = min(copies, min(idle, idle + releasing) // amount)
    return copies


def _bind(
    placer: Placer,
    walk: Walk,
    batches: Sequence[Batch],
    order: Sequence[int],
    places: Sequence[int],
    shape: int,
    size: int,
) -> None:
    """Carry out what was decided, counting once for each node and each queue."""
    columns, trial = placer.columns, placer.trial
    next_group = {batch.leaf: iter(batch.groups) for batch in batches}
    groups = [next(next_group[leaf]) for leaf in order]
    pods = [pod for group in groups for pod in columns.sets.pods[columns.sets_of[group][0]]]
    hold, hold_node, sets = columns.hold, columns.hold_node, columns.sets
    for pod, node in zip(pods, places, strict=False):
        hold[pod] = REAL
        hold_node[pod] = node
    for group in groups:
        number = columns.sets_of[group][0]
        sets.waiting[number] -= size
        sets.active[number] += size
    trial.journal.extend(zip(pods, repeat(WAITS)))
    trial.touched.extend(groups)
    trial.count_many(shape, places[: len(pods)], order, size)
    walk.served(groups)

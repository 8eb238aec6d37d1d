"""Queues as columns: quota, limit, fair share and use of GPU, CPU and memory.

Queues are numbered in id order, so that "ties go by id" is "ties go by number". Unlimited is `math.inf` here.
Amounts of one queue are a list of three: GPU thousandths, CPU thousandths, bytes of memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field

from fairpool.model.ids import QueueId
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI

GPU, CPU, MEMORY = 0, 1, 2
RESOURCES = (GPU, CPU, MEMORY)
UNIT = (WHOLE_GPU_MILLI, 1, 1)
"""What is handed out at a time when shares are rounded: one GPU, one thousandth of a core, one byte."""

Vector = Sequence[float]
"""Amounts of the three resources."""

NONE: Vector = (0, 0, 0)


def _bound(amount: int) -> float:
    return math.inf if amount == UNLIMITED else amount


@dataclass(slots=True)
class LeafAmounts:
    """Amounts by leaf queue, as they are when a plan begins."""

    held: dict[int, Vector] = field(default_factory=dict)
    held_non_preemptible: dict[int, Vector] = field(default_factory=dict)
    """The part of `held` that may not be preempted."""
    waiting: dict[int, Vector] = field(default_factory=dict)
    """What pods ask for that hold nothing and may start."""

    @staticmethod
    def add(column: dict[int, Vector], leaf: int, amounts: Vector, times: int = 1) -> None:
        gpu, cpu, memory = column.get(leaf, NONE)
        total = (gpu + times * amounts[0], cpu + times * amounts[1], memory + times * amounts[2])
        if any(total):
            column[leaf] = total
        else:
            column.pop(leaf, None)

    def plus(self, other: LeafAmounts, sign: int) -> LeafAmounts:
        """The sum, or with -1 the difference."""
        sums = LeafAmounts(dict(self.held), dict(self.held_non_preemptible), dict(self.waiting))
        for mine, theirs in (
            (sums.held, other.held),
            (sums.held_non_preemptible, other.held_non_preemptible),
            (sums.waiting, other.waiting),
        ):
            for leaf, amounts in theirs.items():
                self.add(mine, leaf, amounts, sign)
        return sums


class QueueTable:
    """The queue tree. `held` and `held_non_preemptible` follow a trial as it goes; everything else stays."""

    def __init__(self, rows: Iterable[Queue]) -> None:
        self.rows: list[Queue] = sorted(rows, key=lambda row: row.id)
        self.ids: list[QueueId] = [row.id for row in self.rows]
        self.index: dict[QueueId, int] = {queue: number for number, queue in enumerate(self.ids)}
        count = len(self.rows)
        self.parent: list[int] = [-1 if row.parent is None else self.index[row.parent] for row in self.rows]
        self.children: list[list[int]] = [[] for _ in self.rows]
        self.roots: list[int] = []
        for number, parent in enumerate(self.parent):
            (self.roots if parent < 0 else self.children[parent]).append(number)
        self.path: list[tuple[int, ...]] = [self._path(number) for number in range(count)]
        self.priority: list[int] = [row.priority for row in self.rows]
        self.created_at: list[int] = [row.created_at for row in self.rows]
        entitlements: list[tuple[Entitlement, Entitlement, Entitlement]] = [
            (row.gpu, row.cpu, row.memory) for row in self.rows
        ]
        self.quota: list[Vector] = [[_bound(each.quota) for each in three] for three in entitlements]
        self.limit: list[Vector] = [[_bound(each.limit) for each in three] for three in entitlements]
        self.weight: list[Vector] = [[each.weight for each in three] for three in entitlements]
        self.usage: list[Vector] = [[each.usage for each in three] for three in entitlements]
        self.fair: list[list[float]] = [[0, 0, 0] for _ in self.rows]
        self.request: list[list[float]] = [[0, 0, 0] for _ in self.rows]
        self.held: list[list[float]] = [[0, 0, 0] for _ in self.rows]
        self.held_non_preemptible: list[list[float]] = [[0, 0, 0] for _ in self.rows]
        """The part of `held` that may not be preempted."""
        self.limited: list[tuple[int, ...]] = [
            tuple(level for level in path if min(self.limit[level]) < math.inf) for path in self.path
        ]
        """Queues on the path of each that have a limit."""
        self.have_reclaim_runtimes = any(row.reclaim_min_runtime_s is not None for row in self.rows)
        """Whether who is protected can depend on who takes."""
        self.version: list[int] = [0] * count
        """Counts the changes of `held`, so that what was worked out from it can be kept."""
        self.amounts = LeafAmounts()
        self.total: Vector = NONE
        self._allocatable: list[Vector] | None = None

    def begin_with(self, amounts: LeafAmounts, total: Vector) -> None:
        """Count what leaf queues hold and ask for, all the way up, of what there is in total."""
        self.amounts = amounts
        self.total = total
        for column, given in (
            (self.held, amounts.held),
            (self.held_non_preemptible, amounts.held_non_preemptible),
            (self.request, amounts.held),
            (self.request, amounts.waiting),
        ):
            for leaf, each in given.items():
                for level in self.path[leaf]:
                    column[level] = [one + other for one, other in zip(column[level], each, strict=True)]

    def copy(self) -> QueueTable:
        mine = copy(self)
        mine.fair, mine.request, mine.held, mine.held_non_preemptible = (
            [amounts[:] for amounts in column]
            for column in (self.fair, self.request, self.held, self.held_non_preemptible)
        )
        mine.version = self.version.copy()
        return mine

    def _path(self, number: int) -> tuple[int, ...]:
        path = [number]
        while self.parent[path[-1]] >= 0:
            path.append(self.parent[path[-1]])
        return tuple(reversed(path))

    def siblings(self, queue: int) -> list[int]:
        """The queues beside one, itself included."""
        return self.roots if self.parent[queue] < 0 else self.children[self.parent[queue]]

    def allocatable(self, queue: int) -> Vector:
        """What a queue may hold without being called over its share: the larger of quota and fair share, capped."""
        if self._allocatable is None:
            self._allocatable = [
                tuple(self._allocatable_of(queue, resource) for resource in RESOURCES) for queue in range(len(self.ids))
            ]
        return self._allocatable[queue]

    def _allocatable_of(self, queue: int, resource: int) -> float:
        if self.quota[queue][resource] == math.inf:
            return self.limit[queue][resource]
        return min(max(self.quota[queue][resource], self.fair[queue][resource]), self.limit[queue][resource])

    def set_fair(self, queue: int, resource: int, amount: float) -> None:
        """Fair shares are worked out once; what follows from them is then kept."""
        self.fair[queue][resource] = amount
        self._allocatable = None

    def dominant_share(self, queue: int, gpu: float, cpu: float, memory: float) -> float:
        """The largest part, over resources, that these amounts are of what the queue may hold."""
        allocatable, total = self.allocatable(queue), self.total
        return max(
            0.0,
            _part(gpu, allocatable[GPU], total[GPU], WHOLE_GPU_MILLI),
            _part(cpu, allocatable[CPU], total[CPU], 1),
            _part(memory, allocatable[MEMORY], total[MEMORY], 1),
        )


@dataclass(frozen=True, slots=True)
class Holdings:
    """What some queues hold at one moment, before it changes."""

    held: dict[int, Vector]
    held_non_preemptible: dict[int, Vector]

    @classmethod
    def above(cls, queues: QueueTable, leaves: Iterable[int]) -> Holdings:
        """Of leaf queues and of all queues above them."""
        levels = {level for leaf in leaves for level in queues.path[leaf]}
        return cls(
            {level: tuple(queues.held[level]) for level in levels},
            {level: tuple(queues.held_non_preemptible[level]) for level in levels},
        )


def diverging_ancestors(queues: QueueTable, one: int, other: int) -> tuple[int, int]:
    """The first pair of ancestors, from the root, that differ."""
    for mine, theirs in zip(queues.path[one], queues.path[other], strict=False):
        if mine != theirs:
            return mine, theirs
    raise AssertionError("a queue and itself have the same path")


def _part(amount: float, allocatable: float, total: float, unit: int) -> float:
    if allocatable == math.inf:
        allocatable = total
    return amount / allocatable if allocatable else amount * 1000 / unit


def within(amounts: Vector, bounds: Vector) -> bool:
    """Whether amounts are within bounds for all three resources."""
    return amounts[0] <= bounds[0] and amounts[1] <= bounds[1] and amounts[2] <= bounds[2]


def plus(one: Vector, other: Vector) -> Vector:
    return (one[0] + other[0], one[1] + other[1], one[2] + other[2])


def minus(one: Vector, other: Vector) -> Vector:
    return (one[0] - other[0], one[1] - other[1], one[2] - other[2])

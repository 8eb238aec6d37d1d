"""The order of queues and of pod groups. `walk.py` and `victim_line.py` go through them in this order.

The comparison of queues is not transitive, so siblings are always scanned in id order and the better one kept.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from fairpool.scheduler.chunk import BELOW, versus_minimum
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import QueueTable, Vector, within

GroupKey = tuple[int, int, int, int]

Precedence = tuple[bool, bool, int, bool, float, float]
"""What decides between sibling queues in almost all cases; smaller is served first."""


def compare_precedence(
    queues: QueueTable, policy: Policy, left: int, one: Precedence, right: int, other: Precedence
) -> int:
    """Negative if the left sibling is served first, given the precedence of both."""
    if policy.fair_order:
        if one != other:
            return -1 if one < other else 1
        by_size = _by_allocatable(queues, left, right)
        if by_size:
            return by_size
    return -1 if _age(queues, left) < _age(queues, right) else 1


def queue_precedence(queues: QueueTable, policy: Policy, queue: int, asked: Vector, given: Vector) -> Precedence:
    """The first six criteria: over its share, outside its quota, priority, uses what it has no share of, shares."""
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


def ranks_of_equals(queues: QueueTable, policy: Policy, siblings: Sequence[int]) -> dict[int, int] | None:
    """The order of siblings of equal precedence, as numbers; None if what they may hold cannot be put in order."""
    if not policy.fair_order:
        return {queue: rank for rank, queue in enumerate(sorted(siblings, key=lambda each: _age(queues, each)))}
    ranked = sorted(siblings, key=lambda each: (*queues.allocatable(each), *_age(queues, each)))
    if not all(within(queues.allocatable(one), queues.allocatable(other)) for one, other in pairwise(ranked)):
        return None
    return {queue: rank for rank, queue in enumerate(ranked)}


def _age(queues: QueueTable, queue: int) -> tuple[int, int]:
    return queues.created_at[queue], queue


def group_key(columns: Columns, group: int, gone: Collection[int] = ()) -> GroupKey:
    """Order inside a queue: priority, below its minimum before at it before above it, age, id."""
    priority = -columns.rules[group].priority if columns.policy.priority_order else 0
    against_minimum = versus_minimum(columns, group, gone) if columns.policy.elastic_order else 0
    return (priority, against_minimum, columns.groups[group].created_at, group)


def group_keys(columns: Columns, groups: Iterable[int]) -> list[GroupKey]:
    """The same for many groups: most of them have one pod set and wait as a whole."""
    policy, rules, rows, first_set, active = (
        columns.policy,
        columns.rules,
        columns.groups,
        columns.first_set,
        columns.sets.active,
    )
    if not policy.priority_order or not policy.elastic_order:
        return [group_key(columns, group) for group in groups]
    return [
        (-rules[group].priority, BELOW, rows[group].created_at, group)
        if columns.is_plain[group] and not active[first_set[group]]
        else group_key(columns, group)
        for group in groups
    ]

"""Minimum runtimes: how long a group is protected from eviction after it started."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.policy import Pass, Policy, RuntimeScope
from fairpool.scheduler.queues import QueueTable


def has_minimum_runtimes(queues: QueueTable, policy: Policy) -> bool:
    """Whether any group is protected after it started."""
    return bool(
        policy.default_preempt_min_runtime_s
        or policy.default_reclaim_min_runtime_s
        or any(row.preempt_min_runtime_s or row.reclaim_min_runtime_s for row in queues.rows)
    )


def min_runtime_s(queues: QueueTable, policy: Policy, by: Pass, taker: int, victim: int) -> int:
    """The minimum runtime that protects groups of the victim's queue from the taker's."""
    path = queues.path[victim]
    if by is Pass.PREEMPT:
        values = [queues.rows[queue].preempt_min_runtime_s for queue in path]
        return _nearest(values, policy.default_preempt_min_runtime_s)
    values = [queues.rows[queue].reclaim_min_runtime_s for queue in path]
    if policy.reclaim_runtime_scope is RuntimeScope.COMMON_ANCESTOR:
        common = sum(one == other for one, other in zip(path, queues.path[taker], strict=False))
        values = values[: common + 1]
    return _nearest(values, policy.default_reclaim_min_runtime_s)


def _nearest(values: list[int | None], default: int) -> int:
    """The first value set, from the end of the path up."""
    return next((value for value in reversed(values) if value is not None), default)


def protected_until(columns: Columns, by: Pass, taker: int, victim: int) -> Instant | None:
    """Until when a group is protected from a taker; None if it is not."""
    started_at = columns.groups[victim].started_at
    if started_at is None:
        return None
    seconds = min_runtime_s(columns.queues, columns.policy, by, columns.queue_of[taker], columns.queue_of[victim])
    until = Instant(started_at + seconds * SECOND_MS)
    return until if columns.now < until else None


def may_be_victim(columns: Columns, by: Pass, taker: int, victim: int) -> bool:
    """Protected groups are no victims, except that elastic ones may give their surplus."""
    return protected_until(columns, by, taker, victim) is None or is_elastic(columns, victim)


def is_elastic(columns: Columns, group: int) -> bool:
    """Whether some pod set has more pods than it needs."""
    sets = columns.sets
    return any(len(sets.pods[each]) > sets.minimum[each] for each in columns.sets_of[group])


def keeps_minimum(columns: Columns, evicted: Iterable[int]) -> bool:
    """Whether a group keeps its minimum in every pod set that loses pods, asked once they are evicted.

    In parity (B8) pods that leave count as there, and every pod that was considered counts as evicted.
    """
    sets = columns.sets
    if columns.policy.count_only_evicted:
        return all(sets.active[each] >= sets.minimum[each] for each in {columns.set_of[pod] for pod in evicted})
    losses = Counter(columns.set_of[pod] for pod in evicted)
    return all(sets.active[each] + sets.leaving[each] - loss >= sets.minimum[each] for each, loss in losses.items())

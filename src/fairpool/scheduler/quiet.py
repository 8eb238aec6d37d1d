"""`quiet_until`: when time alone can next change the plan."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.stale_gangs import grace_ends_at, stale_groups


def quiet_until(placer: Placer) -> Instant | None:
    """Until when the passing of time alone cannot change the plan; None: for ever."""
    columns = placer.columns
    moments = [*_grace_ends(placer), *_promise_ends(placer)]
    if any(columns.sets.waiting) or placer.trial.touched:  # something waits, or did before this plan
        moments += _protection_ends(columns)
    return min((moment for moment in moments if moment > columns.now), default=None)


def _grace_ends(placer: Placer) -> Iterator[Instant]:
    for group in stale_groups(placer.trial):
        ends = grace_ends_at(placer.columns, group)
        if ends is not None:
            yield ends


def _promise_ends(placer: Placer) -> Iterator[Instant]:
    """When promises, those that are kept and those that are not, would have been given up for their age."""
    columns = placer.columns
    if columns.policy.durable_promises:
        for pod in columns.promised_pods:
            yield Instant((columns.pods[pod].promised_at or 0) + columns.policy.promise_lifetime_s * SECOND_MS)


def _protection_ends(columns: Columns) -> Iterator[Instant]:
    """The next moments at which a minimum runtime of some group that could be a victim ends, in each queue."""
    policy = columns.policy
    for queue, started in columns.started.items():
        seconds = {policy.default_preempt_min_runtime_s, policy.default_reclaim_min_runtime_s}
        for level in columns.queues.path[queue]:
            owner = columns.queues.rows[level]
            seconds |= {owner.preempt_min_runtime_s or 0, owner.reclaim_min_runtime_s or 0}
        for each in seconds:
            place = bisect_right(started, columns.now - each * SECOND_MS)
            if place < len(started):
                yield Instant(started[place] + each * SECOND_MS)

"""Stale gangs: groups that lost pods they need and hold resources without running."""

from __future__ import annotations

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.trial import Trial


def stale_groups(trial: Trial) -> list[int]:
    """Groups that have active pods, but in some pod set fewer than they need, and none that already ended well."""
    return [group for group in trial.broken_groups() if not trial.columns.groups[group].succeeded]


def grace_ends_at(columns: Columns, group: int) -> Instant | None:
    """When a stale group is ended; None: never."""
    if columns.policy.stale_grace_s < 0:
        return None
    since = columns.groups[group].stale_since
    return Instant((columns.now if since is None else since) + columns.policy.stale_grace_s * SECOND_MS)


def end_stale(trial: Trial) -> list[int]:
    """Evict the pods of groups that have been stale for too long; returns the groups."""
    columns = trial.columns
    ended = []
    for group in stale_groups(trial):
        ends_at = grace_ends_at(columns, group)
        if ends_at is None or ends_at > columns.now:
            continue
        ended.append(group)
        for number in columns.sets_of[group]:
            for pod in columns.sets.pods[number]:
                if trial.is_active(pod):
                    trial.evict(pod)
    return ended

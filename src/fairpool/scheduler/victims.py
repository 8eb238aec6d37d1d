"""Victim order: the reverse of serving order.

A group loses one unit at a time and then takes part with what it has left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from fairpool.scheduler.columns import NOWHERE
from fairpool.scheduler.group_index import GroupIndex
from fairpool.scheduler.losses import Losses
from fairpool.scheduler.order import GroupKey, group_key
from fairpool.scheduler.trial import Trial

ABSENT = -1


def possible_victims(trial: Trial, winners: Collection[int]) -> GroupIndex:
    """All groups that may be preempted and hold something, last in their queue first; but no winners of this plan."""
    columns = trial.columns
    sets = columns.sets

    def belongs(group: int) -> bool:
        return (
            columns.queue_of[group] != NOWHERE
            and group not in winners
            and not columns.is_non_preemptible(group)
            and any(sets.active[number] for number in columns.sets_of[group])
        )

    active = {group for group, pods in zip(sets.group, sets.active, strict=True) if pods}
    return GroupIndex(
        trial, (group for group in active if belongs(group)), belongs, lambda group: victim_key(trial, group)
    )


def victim_key(trial: Trial, group: int, gone: Iterable[int] = ()) -> GroupKey:
    """Lowest priority first, then groups above their minimum, then the newest: the reverse of being served."""
    priority, surplus, created_at, number = group_key(trial.columns, group, tuple(gone))
    return (-priority, -surplus, -created_at, -number)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Which groups may be taken from."""

    may_give: Callable[[int], bool]
    among: frozenset[int] | None = None
    """Only these groups; None: all."""
    leaves: tuple[int, ...] | None = None
    """Only groups of these leaf queues; None: all."""
    not_leaf: int = ABSENT
    priority_below: int | None = None
    """Only groups of lower priority."""
    are_lost: bool = True
    """They need not find another place."""
    are_common: bool = False
    """In this pass they are the same for every taker, its own queue aside."""
    losses: Losses | None = None
    """What may be lost at most, as far as counting shows; None: anything."""

"""Chunks: pods of a group that are placed together, and pods that are evicted together.

First the whole missing part of the gang, over all pod sets; then, for elastic groups, one pod at a time. Eviction goes
the other way round: surplus pods one by one, the minimum as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from fairpool.scheduler.columns import NOTHING, NOWHERE, Columns
from fairpool.scheduler.queues import NONE, Vector, plus
from fairpool.scheduler.trial import Trial

BELOW, AT, ABOVE = 0, 1, 2
"""The pods of a group against its minimum."""


def is_ready(columns: Columns, group: int) -> bool:
    """Whether enough pods exist, in every pod set, for the group to run."""
    sets = columns.sets
    return all(sets.active[each] + sets.waiting[each] >= sets.minimum[each] for each in columns.sets_of[group])


def has_waiting(columns: Columns, group: int) -> bool:
    return any(columns.sets.waiting[each] for each in columns.sets_of[group])


def versus_minimum(columns: Columns, group: int, gone: Collection[int] = ()) -> int:
    """Below, at or above the minimum; `gone` are pods that count as already taken."""
    sets = columns.sets
    if len(columns.sets_of[group]) == 1:
        number = columns.sets_of[group][0]
        alone = sets.active[number] - sets.minimum[number] - len(gone)
        return BELOW if alone < 0 else ABOVE if alone else AT
    surplus = [sets.active[each] - sets.minimum[each] for each in columns.sets_of[group]]
    if gone:
        numbers = columns.sets_of[group]
        for pod in gone:
            surplus[numbers.index(columns.set_of[pod])] -= 1
    if min(surplus) < 0:
        return BELOW
    return ABOVE if any(surplus) else AT


def set_order(columns: Columns, group: int, active: Callable[[int], int] | None = None) -> list[int]:
    """Pod sets below their minimum first, by name; then those least above it."""
    sets = columns.sets
    count = active or sets.active.__getitem__

    def key(number: int) -> tuple[bool, float, str]:
        pods, minimum = count(number), sets.minimum[number]
        return (pods >= minimum, pods / minimum if pods >= minimum else 0.0, sets.name[number])

    return sorted(columns.sets_of[group], key=key)


def next_chunk(trial: Trial, group: int, *, evicted_too: bool = False) -> list[int]:
    """The pods of a group to try next. In simulations pods that were evicted may come back."""
    columns, sets = trial.columns, trial.columns.sets
    if len(columns.sets_of[group]) == 1:
        number = columns.sets_of[group][0]
        return _candidates(trial, number, max(sets.minimum[number] - sets.active[number], 1), evicted_too)
    below = sum(sets.active[each] < sets.minimum[each] for each in columns.sets_of[group])
    visits = max(below, 1)
    chunk: list[int] = []
    for number in set_order(columns, group):
        missing = max(sets.minimum[number] - sets.active[number], 1)
        pods = _candidates(trial, number, missing, evicted_too)
        if not pods:
            continue
        if not visits:
            break
        visits -= 1
        chunk += pods
    return chunk


def _candidates(trial: Trial, number: int, count: int, evicted_too: bool) -> list[int]:
    found: list[int] = []
    columns = trial.columns
    for pod in columns.sets.pods[number]:
        if columns.hold[pod] == NOTHING:
            fits = columns.promise_node[pod] == NOWHERE and not columns.pods[pod].gated
        else:
            fits = evicted_too and trial.is_evicted(pod)
        if fits:
            found.append(pod)
            if len(found) == count:
                break
    return found


def chunk_need(columns: Columns, chunk: Collection[int]) -> Vector:
    """What the pods of a chunk are charged together before their nodes are known."""
    if len(chunk) == 1:
        return columns.waiting_need(next(iter(chunk)))
    need = NONE
    for pod in chunk:
        need = plus(need, columns.waiting_need(pod))
    return need


def evictable_unit(trial: Trial, group: int, gone: Collection[int] = ()) -> list[int]:
    """The pods that are evicted next if this group is a victim: one surplus pod if there is one, else all."""
    columns, sets = trial.columns, trial.columns.sets
    if len(columns.sets_of[group]) == 1:
        number = columns.sets_of[group][0]
        alive = [pod for pod in sets.pods[number] if trial.is_active(pod) and pod not in gone]
        return alive[-1:] if len(alive) > sets.minimum[number] else alive
    live = {
        number: [pod for pod in sets.pods[number] if trial.is_active(pod) and pod not in gone]
        for number in columns.sets_of[group]
    }
    for number in reversed(set_order(columns, group, lambda each: len(live[each]))):
        if len(live[number]) > sets.minimum[number]:
            return [live[number][-1]]
    return [pod for number in columns.sets_of[group] for pod in live[number]]

"""Equivalence classes of groups, so that one decision holds for all of a class.

A group is simple if nothing but the shapes of its pods decides where they fit. Batches of equal groups, victims by
counting and failed searches are about simple groups. Which of all waiting groups are alike: `waiting_groups.py`.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fairpool.scheduler.placement import Placer


def is_simple(placer: Placer, group: int, pods: Sequence[int]) -> bool:
    """Whether only shapes decide where these pods of a group fit: no topology, affinity, claim or node to avoid."""
    return placer.columns.is_plain[group] and not any(placer.fit.is_particular(pod) for pod in pods)


def equivalence_class(placer: Placer, group: int, pods: Sequence[int]) -> Hashable | None:
    """Groups of one class fare alike with these pods as long as nothing changes; None: a group like no other."""
    if not is_simple(placer, group, pods):
        return None
    columns = placer.columns
    shapes = tuple(columns.shape_of[pod] for pod in pods)
    has_pods = columns.sets.active[columns.sets_of[group][0]] > 0
    return (columns.queue_of[group], shapes, columns.rules[group], has_pods)


def countable_shape(placer: Placer, group: int, pods: Sequence[int]) -> int | None:
    """The shape of simple, equal pods that take whole devices: counting tells how many fit. None: it does not."""
    columns = placer.columns
    shape = columns.shape_of[pods[0]]
    facts = columns.facts[shape]
    if not facts.whole or facts.others or any(columns.shape_of[pod] != shape for pod in pods):
        return None
    return shape if is_simple(placer, group, pods) else None


def has_equal_pods(placer: Placer, group: int) -> bool:
    """Whether a group is simple and its pods are of one shape: then less room never helps it."""
    columns = placer.columns
    pods = columns.sets.pods[columns.first_set[group]]
    return len({columns.shape_of[pod] for pod in pods}) == 1 and is_simple(placer, group, pods)

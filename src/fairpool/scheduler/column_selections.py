"""Selections of pods and groups that matter for something that most do not matter for.

They are columns like the others: what did not change since the previous snapshot is taken over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from fairpool.model.ids import Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.columns import NOWHERE, Columns
from fairpool.scheduler.numbering import Numbering


def select_pods(columns: Columns, before: Columns, pods: Numbering) -> None:
    """Pods that are promised a place, nominated, claim devices or mind their neighbours."""
    shapes = (facts.shape for facts in columns.facts)
    labelled_shapes = {number for number, shape in enumerate(shapes) if shape.labels or shape.near or shape.apart}
    promised, nominated, claiming, labelled = list[int](), list[int](), list[int](), list[int]()
    for pod in pods.fresh:
        row = columns.pods[pod]
        if row.phase is PodPhase.PROMISED:
            promised.append(pod)
        if row.nominated is not None:
            nominated.append(pod)
        if row.claims:
            claiming.append(pod)
        if columns.shape_of[pod] in labelled_shapes:
            labelled.append(pod)
    fresh = set(pods.fresh)
    columns.promised_pods = pods.part(before.promised_pods, fresh, promised)
    columns.nominated_pods = pods.part(before.nominated_pods, fresh, nominated)
    columns.claiming_pods = pods.part(before.claiming_pods, fresh, claiming)
    columns.labelled_pods = pods.part(before.labelled_pods, fresh, labelled)


def select_groups(columns: Columns, before: Columns, groups: Numbering, changed: Collection[int]) -> None:
    """Groups that have a pod without a place, and groups that have fewer than they need."""
    unplaced, broken = filter(columns.is_unplaced, changed), filter(columns.is_broken, changed)
    columns.unplaced_groups = groups.part(before.unplaced_groups, changed, unplaced)
    columns.broken_groups = groups.part(before.broken_groups, changed, broken)


def follow_running_groups(
    columns: Columns, before: Columns, groups: Numbering | None, changed: Collection[int]
) -> None:
    """Priorities and starts of the groups that may be preempted, by leaf queue. No numbering: all of them anew."""
    if groups is None:
        gone: Iterable[int] = ()
        fresh: Iterable[int] = range(len(columns.groups))
        priorities: dict[int, dict[int, int]] = {}
        starts: dict[int, list[Instant]] = {}
    else:
        ids = (columns.group_ids[group] for group in changed)
        gone = {*groups.gone, *(number for each in ids if (number := before.group_number(each)) is not None)}
        fresh = changed
        priorities, starts = dict(before.running_priorities), dict(before.started)
    for sign, of, counted in ((-1, before, gone), (+1, columns, fresh)):
        for (leaf, priority), count in Counter(_running(of, counted)).items():
            here = priorities[leaf] = dict(priorities.get(leaf, {}))
            here[priority] = here.get(priority, 0) + sign * count
    columns.running_priorities = {
        leaf: kept for leaf, counts in priorities.items() if (kept := {p: n for p, n in counts.items() if n})
    }
    for leaf, leaving in _started(before, gone).items():
        starts[leaf] = _without(starts[leaf], leaving)
    for leaf, coming in _started(columns, fresh).items():
        starts[leaf] = sorted([*starts.get(leaf, ()), *coming])
    columns.started = {leaf: moments for leaf, moments in starts.items() if moments}


def _running(columns: Columns, groups: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Leaf queue and priority of groups that hold something and may be preempted."""
    queue_of, rules, active = columns.queue_of, columns.rules, columns.sets.active
    for group in groups:
        numbers = columns.sets_of[group]
        if not (active[numbers[0]] if len(numbers) == 1 else any(active[each] for each in numbers)):
            continue
        rule, leaf = rules[group], queue_of[group]
        if rule.preemptible and leaf != NOWHERE:
            yield leaf, rule.priority


def _started(columns: Columns, groups: Iterable[int]) -> dict[int, list[Instant]]:
    """By leaf queue, when groups that may be preempted started."""
    starts: dict[int, list[Instant]] = {}
    for group in groups:
        moment, leaf = columns.groups[group].started_at, columns.queue_of[group]
        if moment is not None and leaf != NOWHERE and columns.rules[group].preemptible:
            starts.setdefault(leaf, []).append(moment)
    return starts


def _without(line: list[Instant], leaving: Iterable[Instant]) -> list[Instant]:
    """A sorted list without some of its members."""
    left = list(line)
    for each in leaving:
        del left[bisect_left(left, each)]
    return left

"""The allocate pass: waiting groups get free places, neediest queue first. What does not fit blocks nothing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

from fairpool.model.ids import SECOND_MS
from fairpool.scheduler import gate
from fairpool.scheduler.batch import serve_batches
from fairpool.scheduler.chunk import has_waiting, is_ready, next_chunk
from fairpool.scheduler.columns import NOWHERE, REAL, RELEASING, Columns
from fairpool.scheduler.decision import WithdrawReason
from fairpool.scheduler.equivalence import has_equal_pods
from fairpool.scheduler.order import group_key
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.walk import Walk

CLASS_SIZE_MIN = 4
"""With fewer groups to a class than this, each has its turn."""


def allocate(placer: Placer) -> None:
    """Give places to waiting groups, promises of earlier cycles first."""
    columns, trial = placer.columns, placer.trial
    if columns.policy.durable_promises:
        _honour_promises(placer)
    turn = partial(place_next, placer)
    if none_gains(placer, turn):
        return
    classes = dict(placer.waiting.class_of())
    walk = Walk(trial, waiting_groups(placer, Pass.ALLOCATE), classes)
    if serve_batches(placer, walk, classes) and none_gains(placer, turn):
        return
    hopeless: set[Hashable] = set()
    while (group := walk.pop()) is not None:
        if classes[group] in hopeless or (columns.policy.recheck_readiness and not is_ready(columns, group)):
            continue
        if not place_next(placer, group):
            if has_equal_pods(placer, group):
                hopeless.add(classes[group])
            walk.pass_over(group, classes)
        elif has_waiting(columns, group):
            classes[group] = group
            walk.push(group)


def none_gains(placer: Placer, turn: Callable[[int], object], takes_part: Callable[[int], bool] | None = None) -> bool:
    """Whether the turns of all groups change nothing, as those of one group of each class show.

    A turn that changes nothing changes nothing for the others, so it does not matter in which order they come. Where
    there are few groups of a class, this is not tried.
    """
    one_of_each = placer.waiting.one_of_each()
    if CLASS_SIZE_MIN * len(one_of_each) > len(placer.waiting.startable()):
        return False
    mark = placer.trial.mark()
    for group in list(one_of_each):
        if (takes_part is None or takes_part(group)) and turn(group):
            placer.trial.undo(mark)
            return False
    return True


def place_next(placer: Placer, group: int) -> bool:
    """Give places to the next chunk of a group, if limits allow and there is room, without evicting anything."""
    chunk = next_chunk(placer.trial, group)
    if not chunk or placer.has_no_room(chunk[0]):
        return False
    mark = placer.trial.mark()
    if gate.chunk_passes(placer.columns, group, chunk) and placer.place(group, chunk, now=True):
        keep_together(placer, group, chunk)
        if group not in placer.expired or all(placer.columns.promise_node[pod] == NOWHERE for pod in chunk):
            return True
    placer.trial.undo(mark)
    return False


def waiting_groups(placer: Placer, by: Pass) -> Sequence[int]:
    """Groups that have waiting pods and enough pods to start: all, or the first of each queue if a pass is bounded."""
    columns = placer.columns
    groups = placer.waiting.startable()
    bound = columns.policy.groups_per_queue.get(by)
    if bound is None:
        return groups
    by_queue: dict[int, list[int]] = {}
    for group in sorted(groups, key=lambda each: group_key(columns, each)):
        by_queue.setdefault(columns.queue_of[group], []).append(group)
    return sorted(group for line in by_queue.values() for group in line[:bound])


def keep_together(placer: Placer, group: int, chunk: Sequence[int]) -> None:
    """A gang that would start in part starts later as a whole: its binds become promises."""
    columns = placer.columns
    for number in columns.sets_of[group]:
        pods = columns.sets.pods[number]
        bound = sum(columns.hold[pod] == REAL for pod in pods)
        if bound < columns.sets.minimum[number] and any(columns.promise_node[pod] != NOWHERE for pod in pods):
            break
    else:
        return
    for pod in chunk:
        if columns.hold[pod] == REAL and placer.trial.started_as[pod][0] != REAL:
            placer.trial.defer(pod)


def _honour_promises(placer: Placer) -> None:
    """Pods that were promised a place get it, or keep the promise, or lose it, before any other group is served."""
    columns = placer.columns
    promised: dict[int, list[int]] = {}
    for pod in columns.promised_pods:
        if placer.trial.is_waiting(pod) and not columns.pods[pod].gated:
            promised.setdefault(columns.group_of[pod], []).append(pod)
    for group in sorted(promised, key=lambda each: (promised_at(columns, promised[each]), each)):
        pods = promised[group]
        mark = placer.trial.mark()
        reason = _keep_promises(placer, group, pods)
        if reason is None:
            placer.winners.add(group)  # pods were evicted for it in an earlier cycle
        else:
            placer.trial.undo(mark)
            placer.withdrawn.update(dict.fromkeys(pods, reason))


def promised_at(columns: Columns, pods: Sequence[int]) -> int:
    """When the first of some promised pods was promised its place."""
    return min(columns.pods[pod].promised_at or 0 for pod in pods)


def _keep_promises(placer: Placer, group: int, pods: Sequence[int]) -> WithdrawReason | None:
    """Place promised pods where they were promised to be; why not, if not."""
    columns = placer.columns
    if columns.queue_of[group] == NOWHERE or not is_ready(columns, group):
        return WithdrawReason.NO_LONGER_FITS
    for pod in pods:
        name = columns.pods[pod].node
        node = columns.nodes.index.get(name) if name is not None else None
        if node is None or not columns.nodes.healthy[node]:
            return WithdrawReason.NODE_GONE
        if not placer.place_on(pod, node, columns.pods[pod].devices):
            return WithdrawReason.NO_LONGER_FITS
    rest: list[int] = []
    if any(columns.sets.active[each] < columns.sets.minimum[each] for each in columns.sets_of[group]):
        rest = next_chunk(placer.trial, group)
        if not gate.chunk_passes(columns, group, rest) or not placer.place(group, rest, now=True):
            return WithdrawReason.NO_LONGER_FITS
    if columns.now - promised_at(columns, pods) >= columns.policy.promise_lifetime_s * SECOND_MS:
        placer.expired.add(group)
        return WithdrawReason.EXPIRED
    keep_together(placer, group, [*pods, *rest])
    return None


def start_what_can(placer: Placer) -> None:
    """Bind promised groups whose places turn out to be idle, because what was to leave them was never started."""
    columns, trial = placer.columns, placer.trial
    promised: dict[int, list[int]] = {}
    for pod in trial.promised():
        promised.setdefault(columns.group_of[pod], []).append(pod)
    for _, pods in sorted(promised.items()):
        if any(columns.hold[pod] == RELEASING for pod in pods):
            continue
        mark = trial.mark()
        for pod in pods:
            if not placer.has_idle_place(pod):
                trial.undo(mark)
                break
            trial.start(pod)

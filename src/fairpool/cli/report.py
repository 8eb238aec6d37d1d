"""`fairpool plan`: one plan as tables: what starts where, what is evicted or waits and why, and what queues hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from fairpool.cli.screen import Screen
from fairpool.model.ids import GroupId, Instant, NodeName, QueueId
from fairpool.model.quantity import gpus_text
from fairpool.replay.planned import Replay, counted, counts, listed, ranges
from fairpool.scheduler.decision import Bind, Plan, Promise, WaitsForVictims
from fairpool.scheduler.explain import explain, explain_eviction
from fairpool.scheduler.snapshot import Snapshot


def draw(screen: Screen, replayed: Replay, title: str) -> None:
    """The whole report."""
    plan = replayed.plan
    head(screen, replayed.snapshot, title)
    screen.text(summary(plan))
    if plan.binds:
        screen.title("Starts now")
        screen.table(("GROUP", "PODS", "NODE", "DEVICES"), place_rows(plan.binds))
    if plan.promises:
        screen.title("Starts when preempted pods have stopped")
        screen.table(("GROUP", "PODS", "NODE", "DEVICES"), place_rows(plan.promises))
    if plan.evictions:
        screen.title("Taken")
        screen.table(("GROUP", "PODS", "NODE", "WHY"), eviction_rows(plan))
    if plan.withdrawals:
        screen.title("Promises given up")
        screen.table(("GROUP", "POD", "NODE", "WHY"), [(w.group, w.pod, w.node, w.why.value) for w in plan.withdrawals])
    if waits := wait_rows(replayed):
        screen.title("Waits")
        screen.table(("GROUP", "PROJECT", "WHY"), waits)
    if plan.queues:
        screen.title("Queues (GPUs)")
        screen.table(("QUEUE", "QUOTA", "FAIR SHARE", "HELD NOW", "HELD AFTER"), queue_rows(replayed))
    if plan.problems:
        screen.title("Problems in the snapshot (planned around)")
        screen.table(("WHAT", "FIX"), [(problem.what, problem.fix) for problem in plan.problems])


def head(screen: Screen, snapshot: Snapshot, title: str) -> None:
    """What was planned."""
    screen.title(f"{title}, {moment_text(snapshot.now)}")
    gpus = sum(node.gpus for node in snapshot.nodes)
    screen.text(
        f"{counted(len(snapshot.nodes), 'node')} with {counted(gpus, 'GPU')}, "
        f"{counted(len(snapshot.queues), 'queue')}, "
        f"{counted(len(snapshot.groups), 'group')} of {counted(len(snapshot.pods), 'pod')}, pool {snapshot.pool.name}"
    )


def summary(plan: Plan) -> str:
    """The plan in one sentence, or why there is nothing to do."""
    number = counts(plan)
    if plan.is_empty:
        if number.waiting:
            return f"Nothing to do: no pods start or stop, {_groups(number.waiting, 'wait')} for the reasons below."
        return "Nothing to do: everything is running and no group is waiting."
    parts = [
        _groups(number.starting, "start") if number.starting else "",
        _groups(number.promised, "start", "when preempted pods have stopped") if number.promised else "",
        f"{counted(number.taken, 'pod')} {'is' if number.taken == 1 else 'are'} preempted" if number.taken else "",
        f"{counted(len(plan.withdrawals), 'promise')} given up" if plan.withdrawals else "",
        _groups(number.waiting, "wait") if number.waiting else "no other group waits",
    ]
    sentence = listed([part for part in parts if part])
    return sentence[0].upper() + sentence[1:] + "."


def _groups(number: int, verb: str, rest: str = "") -> str:
    return f"{counted(number, 'group')} {verb}{'s' if number == 1 else ''}{' ' + rest if rest else ''}"


def moment_text(moment: Instant) -> str:
    """A time in the user's time zone."""
    try:
        at = datetime.fromtimestamp(moment / 1000, UTC).astimezone()
    except (OverflowError, ValueError, OSError):
        return f"moment {moment}"
    return at.strftime("%Y-%m-%d %H:%M:%S %Z")


# ---- rows


def place_rows(placed: Sequence[Bind] | Sequence[Promise]) -> list[tuple[str, ...]]:
    """Pods of a group on one node in one row."""
    together: dict[tuple[GroupId, NodeName], list[Bind | Promise]] = {}
    for each in placed:
        together.setdefault((each.group, each.node), []).append(each)
    return [(group, str(len(pods)), node, _devices(pods)) for (group, node), pods in sorted(together.items())]


def _devices(pods: Iterable[Bind | Promise]) -> str:
    pods = list(pods)
    devices = ranges({device for pod in pods for device in pod.devices})
    claims = [name for pod in pods if isinstance(pod, Bind) for _, given in pod.claims for name in given]
    return ",".join(filter(None, [devices, *claims]))


def eviction_rows(plan: Plan) -> list[tuple[str, ...]]:
    """Pods of a group that leave a node for the same reason in one row."""
    together: dict[tuple[str, str, str], int] = {}
    for evict in plan.evictions:
        key = (evict.group, evict.node, explain_eviction(evict))
        together[key] = together.get(key, 0) + 1
    return [(group, str(pods), node, why) for (group, node, why), pods in sorted(together.items())]


def wait_rows(replayed: Replay) -> list[tuple[str, ...]]:
    return [
        (group, replayed.queue_of(group), explain(verdict))
        for group, verdict in sorted(replayed.plan.verdicts.items())
        if not isinstance(verdict.why, WaitsForVictims)
    ]


def queue_rows(replayed: Replay, only: Iterable[QueueId] | None = None) -> list[tuple[str, ...]]:
    """A row a queue, in the order of the tree, projects indented below their department."""
    figures = replayed.figures()
    wanted = None if only is None else set(only)
    return [
        (
            "  " * depth + queue,
            gpus_text(figures[queue].quota_milli),
            gpus_text(figures[queue].fair_share_milli),
            gpus_text(replayed.held_before_milli.get(queue, 0)),
            gpus_text(figures[queue].held_milli),
        )
        for queue, depth in tree(replayed.snapshot)
        if queue in figures and (wanted is None or queue in wanted)
    ]


def tree(snapshot: Snapshot) -> list[tuple[QueueId, int]]:
    """Queues with their depth, each below its parent; those without a way to a root are left out."""
    children: dict[QueueId | None, list[QueueId]] = {}
    for name, parent in sorted({queue.id: queue.parent for queue in snapshot.queues}.items()):
        children.setdefault(parent, []).append(name)
    rows: list[tuple[QueueId, int]] = []
    stack = [(queue, 0) for queue in reversed(children.get(None, []))]
    while stack:
        queue, depth = stack.pop()
        rows.append((queue, depth))
        stack += [(child, depth + 1) for child in reversed(children.get(queue, []))]
    return rows

"""A snapshot with its plan: what becomes of each group, and what queues hold, for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from fairpool.model.ids import GroupId, NodeName, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.problem import Problem
from fairpool.model.workload import PodGroup
from fairpool.scheduler.decision import Plan, QueueFigures, Verdict, WaitsForVictims
from fairpool.scheduler.explain import explain
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot


@dataclass(frozen=True)
class Replay:
    """What was seen, what is decided, and what queues held before."""

    snapshot: Snapshot
    plan: Plan
    held_before_milli: dict[QueueId, int]
    groups: dict[GroupId, PodGroup] = field(default_factory=dict)

    def queue_of(self, group: GroupId) -> QueueId:
        row = self.groups.get(group)
        return row.queue if row is not None else QueueId("")

    def figures(self) -> dict[QueueId, QueueFigures]:
        return {each.queue: each for each in self.plan.queues}


def replay(snapshot: Snapshot) -> Replay | Problem:
    """Plan a snapshot. A scheduler that fails on one has a bug, to be reported with the file."""
    groups = {group.id: group for group in reversed(snapshot.groups)}
    try:
        return Replay(snapshot, plan(snapshot), _held_milli(snapshot), groups)
    except Exception as error:
        what = f"the scheduler crashed on this snapshot: {type(error).__name__}: {error}"
        fix = "run --check to find problems in it, and check the values given to --set; "
        return Problem("plan.failed", what, fix + "if the file is valid this is a bug: please report it with the file")


def _held_milli(snapshot: Snapshot) -> dict[QueueId, int]:
    """What queues hold before anything is decided: the figures of a plan that has no passes and nothing pending."""
    holding = tuple(pod for pod in snapshot.pods if pod.phase in HOLDS_DEVICES)
    policy = replace(snapshot.policy, passes=())
    return {each.queue: each.held_milli for each in plan(replace(snapshot, pods=holding, policy=policy)).queues}


@dataclass
class GroupOutcome:
    """What becomes of one group."""

    starts: Counter[NodeName] = field(default_factory=Counter)
    """Pods by node."""
    promised: Counter[NodeName] = field(default_factory=Counter)
    taken: Counter[NodeName] = field(default_factory=Counter)
    stays: Counter[NodeName] = field(default_factory=Counter)
    verdict: Verdict | None = None

    def key(self) -> object:
        """Equal for two outcomes that differ in figures only."""
        return (self.starts, self.promised, self.taken, self.stays, type(self.verdict and self.verdict.why))

    def __str__(self) -> str:
        parts = [
            f"{verb} {places(nodes)}"
            for verb, nodes in (("starts on", self.starts), ("will start on", self.promised))
            if nodes
        ]
        if self.taken:
            parts.append(f"is preempted on {places(self.taken)}")
        if self.stays:
            parts.append(f"stays on {places(self.stays)}")
        if self.verdict is not None and not self.promised:
            sentence = explain(self.verdict)
            says_so = self.verdict.running or sentence.startswith("waits ")
            parts.append(sentence if says_so else f"waits: {sentence}")
        return "; ".join(parts) or "has nothing to run"


def group_outcomes(replayed: Replay) -> dict[GroupId, GroupOutcome]:
    """What becomes of every group of a snapshot."""
    decided = replayed.plan
    outcomes = {group.id: GroupOutcome() for group in replayed.snapshot.groups}
    taken = {each.pod for each in decided.evictions}
    for bind in decided.binds:
        outcomes.setdefault(bind.group, GroupOutcome()).starts[bind.node] += 1
    for promise in decided.promises:
        outcomes.setdefault(promise.group, GroupOutcome()).promised[promise.node] += 1
    for pod in replayed.snapshot.pods:
        if pod.phase in HOLDS_DEVICES and pod.group in outcomes and pod.node is not None:
            if pod.id in taken:
                outcomes[pod.group].taken[pod.node] += 1
            elif pod.phase is not PodPhase.RELEASING:
                outcomes[pod.group].stays[pod.node] += 1
    for group, verdict in decided.verdicts.items():
        outcomes.setdefault(group, GroupOutcome()).verdict = verdict
    return outcomes


@dataclass(frozen=True)
class Counts:
    """A plan in a few numbers."""

    starting: int
    """Groups that get at least one pod started."""
    promised: int
    """Groups that get a place as soon as others have left it, and nothing before."""
    taken: int
    """Pods."""
    waiting: int
    """Groups that get nothing, or not all that they ask for."""


def counts(plan: Plan) -> Counts:
    starting = {bind.group for bind in plan.binds}
    waits = [each for each in plan.verdicts.values() if not isinstance(each.why, WaitsForVictims)]
    promised = {promise.group for promise in plan.promises} - starting
    return Counts(len(starting), len(promised), len(plan.evictions), len(waits))


def differing_outcomes(before: Replay, after: Replay) -> list[tuple[GroupId, GroupOutcome | None, GroupOutcome | None]]:
    """Groups with another outcome; None for a group that is not in a plan."""
    old, new = group_outcomes(before), group_outcomes(after)
    return [
        (group, old.get(group), new.get(group))
        for group in sorted({**old, **new})
        if (group in old) != (group in new) or old[group].key() != new[group].key()
    ]


# ---- text


def places(nodes: Counter[NodeName]) -> str:
    """`n1`, `n1 (2 pods) and n2`, `n1, n2 and 7 more nodes`."""
    names = [name if count == 1 else f"{name} ({count} pods)" for name, count in sorted(nodes.items())]
    if len(names) > 4:
        names = [*names[:3], f"{len(names) - 3} more nodes"]
    return listed(names)


def listed(names: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else ""


def counted(number: int, noun: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def ranges(numbers: Iterable[int]) -> str:
    """`0-3,6` for devices 0, 1, 2, 3 and 6."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)

"""What-if changes to a snapshot: nodes and jobs removed or added, values set, time passed.

A removed node is gone at once and for good. What ran there is not lost: its pods wait again, notebooks too, so that the
plan shows which of them would find a place. Pods that were being stopped there have ended. A removed job has never
existed: what it held is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.problem import Problem
from fairpool.model.spelling import unknown_name
from fairpool.model.typed_text import duration_s
from fairpool.model.workload import Claim, Pod, PodGroup
from fairpool.replay.added_job import add_job
from fairpool.replay.added_node import add_node
from fairpool.replay.planned import counted
from fairpool.replay.setting import Edit, set_value
from fairpool.scheduler.snapshot import Snapshot

Verb = Callable[[Snapshot, str], Edit | Problem | list[Problem]]


@dataclass(frozen=True)
class Changes:
    """What to change, as it was typed."""

    settings: tuple[str, ...] = ()
    added_jobs: tuple[str, ...] = ()
    added_nodes: tuple[str, ...] = ()
    without_nodes: tuple[str, ...] = ()
    without_jobs: tuple[str, ...] = ()
    later: str | None = None

    def __bool__(self) -> bool:
        flags = (self.settings, self.added_jobs, self.added_nodes, self.without_nodes, self.without_jobs)
        return any(flags) or self.later is not None


def apply_changes(snapshot: Snapshot, changes: Changes) -> tuple[Snapshot, list[str], list[Problem]]:
    """The changed snapshot, what was changed, and all that could not be.

    In an order in which a later change can refer to an earlier one: remove, add, set, and let time pass.
    """
    verbs: tuple[tuple[Verb, tuple[str, ...]], ...] = (
        (without_job, changes.without_jobs),
        (without_node, changes.without_nodes),
        (add_node, changes.added_nodes),
        (add_job, changes.added_jobs),
        (set_value, changes.settings),
        (let_pass, () if changes.later is None else (changes.later,)),
    )
    done: list[str] = []
    problems: list[Problem] = []
    for verb, text in ((verb, text) for verb, texts in verbs for text in texts):
        made = verb(snapshot, text)
        if isinstance(made, Edit):
            snapshot = made.snapshot
            done.append(made.what)
        else:
            problems += [made] if isinstance(made, Problem) else made
    return snapshot, done, problems


def without_job(snapshot: Snapshot, name: str) -> Edit | Problem:
    """The snapshot as if this group had never been."""
    if not any(group.id == name for group in snapshot.groups):
        return unknown_name("group", name, (group.id for group in snapshot.groups))
    pods = tuple(pod for pod in snapshot.pods if pod.group != name)
    gone = len(snapshot.pods) - len(pods)
    left = replace(
        snapshot,
        groups=tuple(group for group in snapshot.groups if group.id != name),
        pods=pods,
        claims=_still_claimed(snapshot.claims, pods),
    )
    return Edit(left, f"job {name} removed with its {counted(gone, 'pod')}")


def without_node(snapshot: Snapshot, name: str) -> Edit | Problem:
    """The snapshot as if this node had gone and its pods had come back to wait."""
    if not any(node.name == name for node in snapshot.nodes):
        return unknown_name("node", name, (node.name for node in snapshot.nodes))
    there = [pod for pod in snapshot.pods if pod.node == name and pod.phase is not PodPhase.ENDED]
    pods = tuple(back for pod in snapshot.pods if (back := _after_losing(pod, name)) is not None)
    left = replace(
        snapshot,
        nodes=tuple(node for node in snapshot.nodes if node.name != name),
        pods=pods,
        groups=_still_started(snapshot.groups, pods),
        claims=_still_claimed(snapshot.claims, pods),
    )
    waiting = [pod for pod in there if pod.phase is not PodPhase.RELEASING]
    groups = counted(len({pod.group for pod in waiting}), "group")
    again = f"{counted(len(waiting), 'pod')} of {groups} {'waits' if len(waiting) == 1 else 'wait'} again"
    return Edit(left, f"node {name} removed: {again if waiting else 'nothing ran there'}")


def let_pass(snapshot: Snapshot, text: str) -> Edit | Problem:
    """The snapshot with nothing changed but the time."""
    seconds = duration_s(text)
    if isinstance(seconds, Problem):
        return Problem(seconds.code, f"--later: {seconds.what}", seconds.fix)
    return Edit(replace(snapshot, now=Instant(snapshot.now + seconds * SECOND_MS)), f"time: {text.lstrip('+')} later")


def _after_losing(pod: Pod, node: str) -> Pod | None:
    if pod.node != node:
        return replace(pod, nominated=None) if pod.nominated == node else pod
    if pod.phase in (PodPhase.RELEASING, PodPhase.ENDED):
        return None
    return replace(pod, phase=PodPhase.WAITING, node=None, devices=(), nominated=None, promised_at=None)


def _still_started(groups: tuple[PodGroup, ...], pods: Iterable[Pod]) -> tuple[PodGroup, ...]:
    """A group of which nothing runs any more has not started."""
    holding = {pod.group for pod in pods if pod.phase in HOLDS_DEVICES}
    return tuple(
        group if group.id in holding or group.started_at is None else replace(group, started_at=None)
        for group in groups
    )


def _still_claimed(claims: tuple[Claim, ...], pods: Iterable[Pod]) -> tuple[Claim, ...]:
    """A claim stays allocated as long as some pod uses it."""
    used = {claim for pod in pods if pod.phase in HOLDS_DEVICES for claim in pod.claims}
    return tuple(
        claim
        if claim.node is None or claim.id in used or claim.consumers_elsewhere
        else replace(claim, node=None, allocated=())
        for claim in claims
    )

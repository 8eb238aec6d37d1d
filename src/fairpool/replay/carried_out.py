"""A snapshot as a plan leaves it once everything in it is carried out, for looking further ahead.

Time stands still: what is evicted has stopped at once, and waits again as it would after its replacement was created.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from fairpool.model.ids import GroupId, Instant
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.workload import Pod
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.snapshot import Snapshot


def decided(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot with what the plan decides: binds hold their place, evicted pods are stopping, promises are kept."""
    binds = {each.pod: each for each in plan.binds}
    promises = {each.pod: each for each in plan.promises}
    evicted = {each.pod for each in plan.evictions}
    withdrawn = {each.pod for each in plan.withdrawals}

    def after(pod: Pod) -> Pod:
        bind, promise = binds.get(pod.id), promises.get(pod.id)
        if pod.id in evicted:
            return replace(pod, phase=PodPhase.RELEASING)
        if bind is not None:
            return replace(pod, phase=PodPhase.RUNNING, node=bind.node, devices=bind.devices, promised_at=None)
        if promise is not None:
            return replace(
                pod,
                phase=PodPhase.PROMISED,
                node=promise.node,
                devices=promise.devices,
                promised_at=promise.since,
            )
        return _unplaced(pod) if pod.id in withdrawn else pod

    started = set(plan.started)
    return replace(
        snapshot,
        pods=tuple(map(after, snapshot.pods)),
        groups=tuple(
            replace(group, started_at=snapshot.now) if group.id in started else group for group in snapshot.groups
        ),
    )


def carried_out(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The same when nothing is stopping any more. What was evicted waits again; what stopped before is gone."""
    stopping = {pod.id for pod in snapshot.pods if pod.phase is PodPhase.RELEASING}
    after = decided(snapshot, plan)
    return replace(
        after,
        pods=tuple(
            _unplaced(pod) if pod.phase is PodPhase.RELEASING else pod for pod in after.pods if pod.id not in stopping
        ),
    )


def without_groups(snapshot: Snapshot, ended: Collection[GroupId], now: Instant) -> Snapshot:
    """The snapshot at a later moment, when these groups have ended."""
    return replace(
        snapshot,
        now=now,
        groups=tuple(group for group in snapshot.groups if group.id not in ended),
        pods=tuple(pod for pod in snapshot.pods if pod.group not in ended),
    )


def holding_groups(snapshot: Snapshot) -> set[GroupId]:
    """Groups of which a pod has a place."""
    return {pod.group for pod in snapshot.pods if pod.phase in HOLDS_DEVICES}


def _unplaced(pod: Pod) -> Pod:
    return replace(pod, phase=PodPhase.WAITING, node=None, devices=(), promised_at=None)

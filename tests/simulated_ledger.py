"""The snapshot after a plan: ledger and engine in one function, with machines that never fail.

Scenarios and properties go from cycle to cycle with it. A pod that is evicted needs one cycle to stop, a pod that is
bound runs at once, and a pod that was evicted comes back as its replacement: after it has left, or, if it has
the promise of another place, at once and with that promise, so that the place is kept for it. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fairpool.model.ids import SECOND_MS, ClaimId, GroupId, Instant, PodId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase, may_become
from fairpool.model.workload import Claim, Pod, PodGroup
from fairpool.scheduler.decision import Bind, Plan, Promise
from fairpool.scheduler.snapshot import Snapshot

NO_GROUPS: frozenset[GroupId] = frozenset()


def apply(
    snapshot: Snapshot,
    plan: Plan,
    *,
    seconds: int = 1,
    deleted: Set[GroupId] = NO_GROUPS,
    slow: Set[PodId] = frozenset(),
) -> Snapshot:
    """The snapshot that the next cycle would see.

    Pods of `deleted` groups leave for good. `slow` pods take their time: they are still releasing next time.
    """
    now = Instant(snapshot.now + seconds * SECOND_MS)
    context = _Context(snapshot, deleted, slow)
    pods = [after for pod in snapshot.pods for after in _next_phase(pod, plan, context)]
    inhabited = {pod.group for pod in pods}
    return replace(
        snapshot,
        now=now,
        pods=tuple(pods),
        groups=tuple(_remembered(group, plan, snapshot.now) for group in snapshot.groups if group.id in inhabited),
        claims=tuple(_claimed(claim, plan.binds, pods) for claim in snapshot.claims),
    )


def delete(snapshot: Snapshot, group: GroupId) -> Snapshot:
    """A user deletes a workload: what holds something starts to leave, the rest is gone."""
    pods = tuple(
        _move(pod, PodPhase.RELEASING) if pod.group == group and pod.phase is not PodPhase.RELEASING else pod
        for pod in snapshot.pods
        if pod.group != group or pod.phase in HOLDS_DEVICES
    )
    inhabited = {pod.group for pod in pods}
    return replace(
        snapshot, pods=pods, groups=tuple(each for each in snapshot.groups if each.id != group or group in inhabited)
    )


def replacement(pod: Pod) -> Pod:
    """The pod as it comes back: `a-0` returns as `a-0.1`, which returns as `a-0.2`."""
    name, _, number = pod.id.partition(".")
    return replace(
        pod,
        id=PodId(f"{name}.{int(number or 0) + 1}"),
        phase=PodPhase.WAITING,
        node=None,
        devices=(),
        promised_at=None,
        nominated=None,
    )


def _next_phase(pod: Pod, plan: Plan, context: _Context) -> list[Pod]:
    """What becomes of one pod: itself in another phase, its replacement, both, or nothing."""
    if pod.phase is PodPhase.RELEASING:
        if pod.id in context.slow:
            return [pod]
        return [] if pod.group in context.deleted or context.has_next(pod) else [replacement(pod)]
    promise = next((each for each in plan.promises if each.pod == pod.id), None)
    if any(eviction.pod == pod.id for eviction in plan.evictions):
        leaving = _move(pod, PodPhase.RELEASING)
        return [leaving, _promised(replacement(pod), promise)] if promise else [leaving]
    bind = next((each for each in plan.binds if each.pod == pod.id), None)
    if bind is not None:
        bound = replace(_move(pod, PodPhase.BOUND), node=bind.node, devices=bind.devices, promised_at=None)
        # The engine of this world is never late, but no pod runs twice at a time.
        return [bound if context.has_last(pod) else _move(bound, PodPhase.RUNNING)]
    if any(withdrawal.pod == pod.id for withdrawal in plan.withdrawals):
        pod = replace(_move(pod, PodPhase.WAITING), node=None, devices=(), promised_at=None)
    if promise is not None:
        return [_promised(pod, promise)]
    if pod.phase is PodPhase.BOUND and not context.has_last(pod):
        return [_move(pod, PodPhase.RUNNING)]
    return [pod]


class _Context:
    """Which pods have more than one life in a snapshot, and how those that leave do so."""

    def __init__(self, snapshot: Snapshot, deleted: Set[GroupId], slow: Set[PodId]) -> None:
        self.deleted = deleted
        self.slow = slow
        self.leaving = {_name(pod) for pod in snapshot.pods if pod.phase is PodPhase.RELEASING}
        self.staying = {_name(pod) for pod in snapshot.pods if pod.phase is not PodPhase.RELEASING}

    def has_next(self, pod: Pod) -> bool:
        return _name(pod) in self.staying

    def has_last(self, pod: Pod) -> bool:
        return _name(pod) in self.leaving


def _name(pod: Pod) -> str:
    return pod.id.partition(".")[0]


def _promised(pod: Pod, promise: Promise) -> Pod:
    promised = pod if pod.phase is PodPhase.PROMISED else _move(pod, PodPhase.PROMISED)
    return replace(promised, node=promise.node, devices=promise.devices, promised_at=promise.since)


def _move(pod: Pod, phase: PodPhase) -> Pod:
    assert may_become(pod.phase, phase), f"{pod.id} cannot go from {pod.phase} to {phase}"
    return replace(pod, phase=phase)


def _remembered(group: PodGroup, plan: Plan, now: Instant) -> PodGroup:
    """The two dates of a group that outlive a cycle: when it started, and since when it is broken."""
    stale_since = (group.stale_since or now) if group.id in plan.stale else None
    started_at = now if group.id in plan.started else group.started_at
    if (started_at, stale_since) == (group.started_at, group.stale_since):
        return group
    return replace(group, started_at=started_at, stale_since=stale_since)


def _claimed(claim: Claim, binds: tuple[Bind, ...], pods: list[Pod]) -> Claim:
    """A claim is allocated by the bind that needs it, and free again when its last consumer has left."""
    for bind in binds:
        given: dict[ClaimId, tuple[str, ...]] = dict(bind.claims)
        if claim.id in given:
            return replace(claim, node=bind.node, allocated=given[claim.id])
    in_use = any(claim.id in pod.claims and pod.phase in HOLDS_DEVICES for pod in pods)
    if claim.node is not None and not in_use and not claim.consumers_elsewhere:
        return replace(claim, node=None, allocated=())
    return claim

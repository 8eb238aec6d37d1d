"""What the world looks like after a plan: a ledger and an engine in one function, with perfect machines.

Scenarios and properties go from cycle to cycle with it. Whoever is told to stop needs one cycle to leave, whoever is
told to start runs at once, and a pod that was evicted comes back as its next life. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from fairpool.model.ids import SECOND_MS, ClaimId, GroupId, Instant, NodeName, PodId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase, may_become
from fairpool.model.workload import Claim, Pod, PodGroup
from fairpool.scheduler.decision import Bind, Plan
from fairpool.scheduler.snapshot import Snapshot

NOBODY: frozenset[GroupId] = frozenset()


def apply(
    snapshot: Snapshot, plan: Plan, *, seconds: int = 1, deleted: Set[GroupId] = NOBODY, slow: Set[PodId] = frozenset()
) -> Snapshot:
    """The snapshot that the next cycle would see.

    Pods of `deleted` groups leave for good. `slow` pods take their time: they are still releasing next time.
    """
    now = Instant(snapshot.now + seconds * SECOND_MS)
    pods = [
        after
        for pod in snapshot.pods
        for after in _next_phase(pod, plan, returns=pod.group not in deleted, leaves=pod.id not in slow)
    ]
    inhabited = {pod.group for pod in pods}
    return replace(
        snapshot,
        now=now,
        pods=tuple(pods),
        groups=tuple(_remembered(group, plan, snapshot.now) for group in snapshot.groups if group.id in inhabited),
        claims=tuple(_claimed(claim, plan.binds, pods) for claim in snapshot.claims),
    )


def delete(snapshot: Snapshot, group: GroupId) -> Snapshot:
    """A person deletes a workload: what holds something starts to leave, the rest is gone."""
    pods = tuple(
        _move(pod, PodPhase.RELEASING) if pod.group == group and pod.phase is not PodPhase.RELEASING else pod
        for pod in snapshot.pods
        if pod.group != group or pod.phase in HOLDS_DEVICES
    )
    inhabited = {pod.group for pod in pods}
    return replace(
        snapshot, pods=pods, groups=tuple(each for each in snapshot.groups if each.id != group or group in inhabited)
    )


def next_life(pod: Pod, nominated: NodeName | None = None) -> Pod:
    """The pod as it comes back: `a-0` returns as `a-0.1`, which returns as `a-0.2`."""
    name, _, life = pod.id.partition(".")
    return replace(
        pod,
        id=PodId(f"{name}.{int(life or 0) + 1}"),
        phase=PodPhase.WAITING,
        node=None,
        devices=(),
        promised_at=None,
        nominated=nominated,
    )


def _next_phase(pod: Pod, plan: Plan, *, returns: bool, leaves: bool) -> list[Pod]:
    """What becomes of one pod: itself in another phase, its next life, or nothing."""
    if pod.phase is PodPhase.RELEASING:
        if not leaves:
            return [pod]
        return [next_life(pod, pod.nominated)] if returns else []
    for eviction in plan.evictions:
        if eviction.pod == pod.id:
            # A pod that moves remembers where to; until it has left, the note does no harm.
            return [replace(_move(pod, PodPhase.RELEASING), nominated=eviction.reason.moved_to)]
    for bind in plan.binds:
        if bind.pod == pod.id:
            # Bound, then running: the engine of this world is never late.
            bound = replace(
                _move(pod, PodPhase.BOUND), node=bind.node, devices=bind.devices, promised_at=None, nominated=None
            )
            return [_move(bound, PodPhase.RUNNING)]
    for withdrawal in plan.withdrawals:
        if withdrawal.pod == pod.id:
            pod = replace(_move(pod, PodPhase.WAITING), node=None, devices=(), promised_at=None)
    for promise in plan.promises:
        if promise.pod == pod.id:
            promised = pod if pod.phase is PodPhase.PROMISED else _move(pod, PodPhase.PROMISED)
            return [replace(promised, node=promise.node, devices=promise.devices, promised_at=promise.since)]
    if pod.phase is PodPhase.BOUND:
        return [_move(pod, PodPhase.RUNNING)]
    return [pod]


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

"""Outcomes: what a cycle does to every pod, in a form in which two schedulers can be compared, and as a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from fairpool.model.ids import GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Bind, Evict, EvictionReason, Plan, Promise, Withdraw, WithdrawReason
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.cycle import run_cycle
from tests.oracle.read import read
from tests.oracle.world import GPU, NO_QUEUE, PLACED, Place, PodState, Status, World


class PodChange(StrEnum):
    """What a cycle does to a pod."""

    WAITING = "waiting"
    BOUND = "bound"
    PROMISED = "promised"
    EVICTED = "evicted"
    MOVED = "moved"
    """Evicted, and promised another place (or its own again, when its gang restarts)."""
    HELD = "held"
    """Keeps what it has, be it running or already leaving."""


@dataclass(frozen=True, slots=True)
class PodResult:
    """What became of a pod."""

    change: PodChange
    node: NodeName | None = None

    def __str__(self) -> str:
        return f"{self.change} {self.node}" if self.node else f"{self.change}"


@dataclass(frozen=True)
class Outcome:
    """What a cycle decides, by pod and in figures."""

    pods: Mapping[PodId, PodResult]
    held_milli: Mapping[QueueId, int]
    """GPUs per leaf queue after the cycle: held, bound or promised."""
    evictions: Mapping[QueueId, int]
    whole: frozenset[GroupId]
    """Groups that have their minimum in every pod set, in place or promised."""
    absent: frozenset[GroupId]
    """Groups that have nothing."""


def decide(snapshot: Snapshot) -> Outcome:
    """What the oracle would do."""
    return outcome_of(run_cycle(snapshot))


def outcome_of(world: World) -> Outcome:
    groups = [name for name, group in world.groups.items() if group.queue != NO_QUEUE]
    leaves = [queue for queue in world.queues if not world.children(queue)]
    results = {name: PodResult(change(pod), pod.place.node if pod.place else None) for name, pod in world.pods.items()}
    evicted = [
        world.groups[world.group_of(name)].row.queue
        for name, result in results.items()
        if result.change in (PodChange.EVICTED, PodChange.MOVED)
    ]
    return Outcome(
        pods=results,
        held_milli={queue: int(world.held(queue)[GPU]) for queue in leaves},
        evictions={queue: evicted.count(queue) for queue in leaves},
        whole=frozenset(name for name in groups if not world.lacks_pods(name, PLACED)),
        absent=frozenset(name for name in groups if not world.pods_of(name, PLACED)),
    )


def change(pod: PodState) -> PodChange:
    match pod.status:
        case Status.WAITING | Status.GATED:
            return PodChange.WAITING
        case Status.RUNNING:
            return PodChange.HELD
        case Status.BOUND:
            return PodChange.BOUND
        case Status.PROMISED:
            return PodChange.PROMISED if pod.before is None else PodChange.MOVED
        case Status.LEAVING:
            return PodChange.HELD if pod.before is None else PodChange.EVICTED


# Plans


def plan(snapshot: Snapshot) -> Plan:
    """The oracle's decisions as a plan, to be judged like the real one.

    Verdicts and reasons are left out, and so are the numbers of whole devices and of claimed ones: the oracle counts
    them.
    """
    world = run_cycle(snapshot)
    binds, evictions, promises, withdrawals = [], [], [], []
    for name, pod in world.pods.items():
        row, became, first = pod.row, change(pod), pod
        while first.before is not None:
            first = first.before
        if first.status is Status.BOUND and first.place is not None:
            # The reference can bind a pod and evict it again in the same cycle.
            claims = tuple((claim, ()) for claim in row.claims if world.claims[claim].node is None)
            binds.append(Bind(name, row.group, first.place.node, first.place.devices, claims))
        if became in (PodChange.EVICTED, PodChange.MOVED) and first.place is not None:
            evictions.append(Evict(name, row.group, first.place.node, EvictionReason(Pass.RECLAIM)))
        if became in (PodChange.PROMISED, PodChange.MOVED) and pod.place is not None:
            promises.append(Promise(name, row.group, pod.place.node, pod.place.devices, snapshot.now))
        if became is PodChange.WAITING and row.phase is PodPhase.PROMISED and row.node is not None:
            withdrawals.append(Withdraw(name, row.group, row.node, WithdrawReason.NO_LONGER_FITS))
    started = {bind.group for bind in binds} - {
        pod.row.group for pod in world.pods.values() if pod.row.phase in (PodPhase.BOUND, PodPhase.RUNNING)
    }
    return Plan(
        binds=tuple(binds),
        evictions=tuple(evictions),
        promises=tuple(promises),
        withdrawals=tuple(withdrawals),
        started=tuple(sorted(started)),
    )


def applied(snapshot: Snapshot, decided: Plan) -> World:
    """The world as a plan leaves it."""
    after = read(snapshot)
    for bind in decided.binds:
        pod = after.pods[bind.pod]
        after = after.with_pods(PodState(pod.row, Status.BOUND, _place(pod, bind)))
    for eviction in decided.evictions:
        pod = after.pods[eviction.pod]
        if pod.place is None:  # the reference can evict what it has only promised
            after = after.with_pods(PodState(pod.row, Status.PROMISED, Place(eviction.node)))
        after = after.evict(eviction.pod)
    for promise in decided.promises:
        pod = after.pods[promise.pod]
        vacates = () if pod.place is None or pod.before is None else (pod.place,)
        promised = replace(pod, status=Status.PROMISED, place=_place(pod, promise), vacates=vacates)
        after = after.with_pods(promised)
    return after


def _place(pod: PodState, decision: Bind | Promise) -> Place:
    return Place(decision.node, decision.devices if pod.shares_devices else ())

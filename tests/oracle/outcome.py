"""What came of a cycle: the final state of every pod, totals, and the same as a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.ids import ClaimId, GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Bind, Evict, EvictionReason, Plan, Promise, Withdraw
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.passes import Cycle
from tests.oracle.world import ALLOCATED, GroupState, PodState, Status, World


class Fate(StrEnum):
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
class End:
    """How a pod stands in the end."""

    fate: Fate
    node: NodeName | None = None

    def __str__(self) -> str:
        return f"{self.fate} {self.node}" if self.node else f"{self.fate}"


@dataclass(frozen=True)
class Outcome:
    """What a cycle decides, in figures that two schedulers should agree on."""

    pods: Mapping[PodId, End]
    held_milli: Mapping[QueueId, int]
    """GPUs per leaf queue after the cycle: held, bound or promised."""
    evictions: Mapping[QueueId, int]
    whole: frozenset[GroupId]
    """Groups that have their minimum in every pod set, in place or promised."""
    absent: frozenset[GroupId]
    """Groups that have nothing."""


def decide(snapshot: Snapshot) -> Outcome:
    """What the oracle would do."""
    world = after_cycle(snapshot)
    return outcome_of(world)


def after_cycle(snapshot: Snapshot) -> World:
    world = World(snapshot)
    Cycle(world).run()
    return world


def outcome_of(world: World) -> Outcome:
    groups = [group for group in world.groups.values() if group.queue is not None]
    leaves = [queue for queue in world.queues if not world.children(queue)]
    evicted = [pod for pod in world.pods.values() if _fate(pod) in (Fate.EVICTED, Fate.MOVED)]
    count = Counter(pod.group.row.queue for pod in evicted)
    return Outcome(
        pods={name: _end(pod) for name, pod in world.pods.items()},
        held_milli={queue: world.held(queue).gpu_milli for queue in leaves},
        evictions={queue: count[queue] for queue in leaves},
        whole=frozenset(group.id for group in groups if _is_whole(group)),
        absent=frozenset(group.id for group in groups if not group.has(*ALLOCATED)),
    )


def _is_whole(group: GroupState) -> bool:
    return all(len(group.in_set(name, ALLOCATED)) >= least for name, least in group.minimum.items())


def _fate(pod: PodState) -> Fate:
    stand = pod.stand
    match stand.status:
        case Status.WAITING | Status.GATED:
            return Fate.WAITING
        case Status.RUNNING:
            return Fate.HELD
        case Status.BOUND:
            return Fate.BOUND
        case Status.PROMISED:
            return Fate.MOVED if stand.before is not None else Fate.PROMISED
        case Status.LEAVING:
            return Fate.EVICTED if stand.before is not None else Fate.HELD


def _end(pod: PodState) -> End:
    place = pod.stand.place
    return End(_fate(pod), None if place is None else place.node)


# As a plan


def plan(snapshot: Snapshot) -> Plan:
    """The oracle's decisions in the shape of a plan, so that whatever judges plans can judge it.

    Verdicts and reasons are left out: the oracle says what should happen, not why.
    """
    world = after_cycle(snapshot)
    seats = _Seats(world)
    binds, promises, evictions, withdrawals = [], [], [], []
    for pod in world.pods.values():
        row, fate, place = pod.row, _fate(pod), pod.stand.place
        was_bound = fate is Fate.EVICTED and _was_bound_first(pod)
        if fate is Fate.BOUND or was_bound:
            assert place is not None
            bound = Bind(row.id, row.group, place.node, seats.of(pod), tuple(seats.claims_of(pod)))
            binds.append(bound)
        if fate in (Fate.PROMISED, Fate.MOVED):
            assert place is not None
            kept = row.phase is PodPhase.PROMISED and row.node == place.node and row.promised_at is not None
            since = row.promised_at if kept and row.promised_at is not None else world.now
            promises.append(Promise(row.id, row.group, place.node, seats.of(pod), since))
        if fate in (Fate.EVICTED, Fate.MOVED):
            node = (pod.stand.left[0] if pod.stand.left else place or seats.nowhere).node
            evictions.append(Evict(row.id, row.group, node, EvictionReason(Pass.RECLAIM)))
        if fate is Fate.WAITING and row.phase is PodPhase.PROMISED and row.node is not None:
            withdrawals.append(Withdraw(row.id, row.group, row.node, "no longer fits"))
    started = {bind.group for bind in binds if not _had_places(world.groups[bind.group])}
    return Plan(
        binds=tuple(binds),
        promises=tuple(promises),
        evictions=tuple(evictions),
        withdrawals=tuple(withdrawals),
        started=tuple(sorted(started)),
    )

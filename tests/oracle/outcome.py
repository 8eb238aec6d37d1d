"""What came of a cycle: the final state of every pod, totals, and the same as a plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fairpool.model.ids import ClaimId, GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Bind, Evict, EvictionReason, Plan, Promise, Withdraw, WithdrawReason
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.passes import Cycle
from tests.oracle.world import ALLOCATED, GroupState, PodState, Stand, Status, World


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
    result: dict[str, list[Bind | Promise | Evict | Withdraw]] = {}
    for pod in world.pods.values():
        for kind, decision in _decisions(world, seats, pod):
            result.setdefault(kind, []).append(decision)
    started = {bind.group for bind in result.get("binds", ()) if not _ran_before(world.groups[bind.group])}
    columns = {kind: tuple(decisions) for kind, decisions in result.items()}
    return Plan(started=tuple(sorted(started)), **columns)  # type: ignore[arg-type]


def _decisions(world: World, seats: _Seats, pod: PodState) -> Iterator[tuple[str, Bind | Promise | Evict | Withdraw]]:
    row, fate, first = pod.row, _fate(pod), _first_stand(pod)
    if fate in (Fate.BOUND, Fate.EVICTED, Fate.MOVED) and first.status is Status.BOUND and first.place is not None:
        # The reference can bind a pod and evict it again in the same cycle.
        devices, claims = seats.devices(pod, first.place.devices), tuple(seats.claims(pod))
        yield "binds", Bind(row.id, row.group, first.place.node, devices, claims)
    if fate in (Fate.EVICTED, Fate.MOVED) and first.place is not None:
        yield "evictions", Evict(row.id, row.group, first.place.node, EvictionReason(Pass.RECLAIM))
    if fate in (Fate.PROMISED, Fate.MOVED) and pod.stand.place is not None:
        place = pod.stand.place
        is_kept = row.phase is PodPhase.PROMISED and row.node == place.node
        since = row.promised_at if is_kept and row.promised_at is not None else world.now
        yield "promises", Promise(row.id, row.group, place.node, seats.devices(pod, place.devices), since)
    if fate is Fate.WAITING and row.phase is PodPhase.PROMISED and row.node is not None:
        yield "withdrawals", Withdraw(row.id, row.group, row.node, WithdrawReason.NO_LONGER_FITS)


def _first_stand(pod: PodState) -> Stand:
    """How a pod stood before this cycle first evicted it."""
    stand = pod.stand
    while stand.before is not None:
        stand = stand.before
    return stand


def _ran_before(group: GroupState) -> bool:
    return any(pod.row.phase in (PodPhase.BOUND, PodPhase.RUNNING) for pod in group.pods)


class _Seats:
    """Numbers for the devices that pods get: idle ones for those bound, leaving ones too for those promised."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._opened: dict[str, int] = {}
        self._whole: dict[PodId, tuple[int, ...]] = {}
        self._claims: dict[ClaimId, tuple[str, ...]] = {}
        self._given: dict[NodeName, set[int]] = {}
        for status in (Status.BOUND, Status.LEAVING, Status.PROMISED):
            for pod in world.pods.values():
                if pod.status is status and _fate(pod) is not Fate.HELD:
                    self._take(pod)

    def devices(self, pod: PodState, labels: tuple[str, ...]) -> tuple[int, ...]:
        if not pod.shares_devices:
            return self._whole.get(pod.id, ())
        return tuple(self._opened[label] if label.startswith("+") else int(label) for label in labels)

    def claims(self, pod: PodState) -> Iterator[tuple[ClaimId, tuple[str, ...]]]:
        """Devices for the claims that this pod is the first to use."""
        place = pod.stand.place
        for name in pod.row.claims:
            claim = self._world.claims[name]
            if claim.node is not None or name in self._claims or place is None:
                continue
            rows = (row.allocated for row in self._world.claims.values() if row.node == place.node)
            taken = {device for devices in (*rows, *self._claims.values()) for device in devices}
            free = [device for device in self._world.nodes[place.node].claim_devices if device not in taken]
            self._claims[name] = tuple(free[: claim.devices])
            yield name, self._claims[name]

    def _take(self, pod: PodState) -> None:
        stand = pod.stand
        for place in (*((stand.before.place,) if stand.before else ()), stand.place):
            if place is None:
                continue
            if not pod.shares_devices:
                count = pod.row.shape.gpu.devices
                self._whole[pod.id] = self._free(place.node, count, pod.status is Status.PROMISED)
            for label in place.devices:
                if label.startswith("+") and label not in self._opened:
                    (self._opened[label],) = self._free(place.node, 1, pod.status is Status.PROMISED)

    def _free(self, name: NodeName, count: int, may_be_leaving: bool) -> tuple[int, ...]:
        node = self._world.nodes[name]
        given = self._given.setdefault(name, set())
        here = [(pod, status) for pod, _, status in self._world.at(name) if pod.row.node == name]
        staying = {device for pod, status in here if status is Status.RUNNING for device in pod.row.devices}
        leaving = {device for pod, status in here if status is Status.LEAVING for device in pod.row.devices}
        usable = [index for index in range(node.gpus) if index not in {*node.gpus_withheld, *given, *staying}]
        idle = [index for index in usable if index not in leaving]
        order = idle + [index for index in usable if index in leaving] if may_be_leaving else idle
        spare = [node.gpus + extra for extra in range(count)]  # only if a row claims devices that do not exist
        chosen = tuple((order + spare)[:count])
        given.update(chosen)
        return chosen

"""Which GPU pods with a part of one get, and how long it stays reserved for them: decisions about one node. Pure.

The device plugin of a node gives out whole GPUs and chooses them itself; what the scheduler names are seats. For each
seat that pods share there is one reservation pod, which asks the device plugin for a GPU, learns which one it is, and
keeps it from everything else. Pods of that seat are given that GPU by its UUID, past the device plugin.

- A pod starts on a seat only after the reservation has reported its GPU, and a reservation ends only after the last
  pod on its seat has ended, or was given up before it was created.
- Whole GPUs of a seat are not started before its reservation is gone: the device plugin would refuse them.
- A reservation that ended although pods still use its GPU (it was deleted by force, or evicted by its node) leaves the
  GPU free in the eyes of the device plugin. No device plugin can be asked for a particular GPU. So nothing that would
  be given a GPU is started on that node, and GPUs are reserved for the seat one after another until the lost one is
  among them; then the others are released. If another pod was faster, the node takes no pods with GPUs until the pods
  without a reservation have ended.
- A GPU that is reported by two reservations, as device plugins do that offer each GPU several times (time-slicing), is
  used for one of them only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.model.ids import NodeName, PodId
from fairpool.model.node import SIMULATED_LABEL, Node
from fairpool.model.observation import ObservedNode, StartOrder
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind, GpuRequest

PARTS = (GpuKind.PORTION, GpuKind.MEMORY)
REMOVAL_GRACE_S = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """A reservation pod."""

    node: NodeName
    seat: int
    attempt: int = 0
    """Above 0: one of several that look for a lost GPU."""
    name: str
    uid: str
    version: str = ""
    boot_id: str = ""
    """The boot of the node for which it was created."""
    gpu: str = ""
    """The UUID that it reported; empty: not yet."""
    marks: tuple[tuple[str, PodId], ...] = ()
    """Pods that were given its GPU lately, each with a key of its own."""
    has_ended: bool = False
    grace_s: int | None = None
    """None: it is not being deleted."""
    has_finalizer: bool = True
    message: str = ""
    """Why it does not run."""

    @property
    def is_leaving(self) -> bool:
        return self.grace_s is not None

    @property
    def is_removed(self) -> bool:
        """Whether it was deleted with a short grace period, by us."""
        return self.grace_s is not None and self.grace_s <= REMOVAL_GRACE_S


@dataclass(frozen=True, slots=True, kw_only=True)
class SharePod:
    """A pod with parts of GPUs that exists."""

    pod: PodId
    uid: str
    node: NodeName
    boot_id: str
    seats: tuple[int, ...]
    gpus: tuple[str, ...]
    """The UUIDs, in the order of the seats; empty: not known, because the pod was edited."""
    request: GpuRequest
    has_ended: bool = False

    def gpu_at(self, seat: int) -> str:
        return dict(zip(self.seats, self.gpus, strict=False)).get(seat, "")


@dataclass(frozen=True, slots=True)
class PendingShare:
    """A start order for a pod with parts of GPUs that does not exist yet, as far as is known."""

    order: StartOrder
    at_s: float
    is_granted: bool = False
    """It was given its GPUs, and is being created."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeShares:
    """Everything about shared GPUs of one node."""

    observed: ObservedNode | None
    """None: there is no such node."""
    reservations: tuple[Reservation, ...] = ()
    pods: tuple[SharePod, ...] = ()
    asks: tuple[PendingShare, ...] = ()
    awaited: frozenset[str] = frozenset()
    """Uids of reservations of which a pod may yet be created, by this loop or another one."""
    slow: frozenset[str] = frozenset()
    """Uids of reservations that have not reported a GPU for too long."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """Seats whose reservation has failed lately, and why."""

    @property
    def node(self) -> Node | None:
        return self.observed.node if self.observed is not None and not self.observed.gone else None

    @property
    def boot_id(self) -> str:
        return self.observed.boot_id if self.observed is not None else ""

    @property
    def living(self) -> tuple[SharePod, ...]:
        """Pods that may still use their GPUs."""
        if self.node is None:
            return ()
        return tuple(pod for pod in self.pods if not pod.has_ended and pod.boot_id == self.boot_id)

    def at(self, seat: int) -> tuple[Reservation, ...]:
        return tuple(each for each in self.reservations if each.seat == seat)

    def living_at(self, seat: int) -> tuple[SharePod, ...]:
        return tuple(pod for pod in self.living if seat in pod.seats)

    def gpus_in_use(self, seat: int) -> frozenset[str]:
        """The GPUs of the pods on a seat: one, unless something has gone wrong."""
        return frozenset(gpu for pod in self.living_at(seat) if (gpu := pod.gpu_at(seat)))

    def lost(self) -> dict[int, frozenset[str]]:
        """GPUs in use that no reservation holds any more, by seat."""
        held = {each.gpu for each in self.reservations if not each.has_ended}
        seats = sorted({seat for pod in self.living for seat in pod.seats})
        found = {seat: self.gpus_in_use(seat) - held for seat in seats}
        return {seat: gpus for seat, gpus in found.items() if gpus}

    def asked(self) -> list[int]:
        """Seats that pods wait for."""
        return sorted({seat for ask in self.asks for seat in ask.order.devices})

    def is_taken(self, reservation: Reservation) -> bool:
        """Whether a pod has its GPU, or is being created with it."""
        seat = reservation.seat
        is_granted = any(each.is_granted and seat in each.order.devices for each in self.asks)
        return is_granted or reservation.uid in self.awaited or reservation.gpu in self.gpus_in_use(seat)

    def is_double(self, reservation: Reservation) -> bool:
        """Whether its GPU is that of another seat: the one that is in use, otherwise the first."""
        gpu, rank = reservation.gpu, (reservation.seat, reservation.attempt)
        if not gpu or self.is_taken(reservation):
            return False
        if any(gpu == pod.gpu_at(seat) for pod in self.living for seat in pod.seats):
            return True
        others = [each for each in self.reservations if each.gpu == gpu and not each.has_ended]
        return any(self.is_taken(each) or (each.seat, each.attempt) < rank for each in others)


# --- orders


@dataclass(frozen=True, slots=True)
class Ready:
    """The pod can be created, with these GPUs."""

    gpus: tuple[str, ...] = ()
    reservations: tuple[Reservation, ...] = ()
    """Those that hold them."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """What is being waited for."""

    message: str


Answer = Ready | NotYet | Problem


def answer_to(order: StartOrder, node: NodeShares, settings: PodSettings) -> Answer:
    """Whether the pod of an order can be created now, as far as shared GPUs are concerned."""
    if order.shape.gpu.kind is GpuKind.WHOLE:
        return _whole(order, node)
    if order.shape.gpu.kind not in PARTS:
        return Ready()
    if node.node is None:
        return NotYet(f"there is no node {order.node}")
    if problem := share_objection(node.node, settings):
        return problem
    found = [_seat(order, seat, node) for seat in order.devices]
    for each in found:
        if isinstance(each, Problem):
            return each
    for each in found:
        if isinstance(each, NotYet):
            return each
    reservations = tuple(each for each in found if isinstance(each, Reservation))
    if (full := next((seat for seat in order.devices if not _has_room(order, seat, node)), None)) is not None:
        return NotYet(f"GPU {full} of {order.node} is still in use by other pods")
    return Ready(tuple(each.gpu for each in reservations), reservations)


def share_objection(node: Node, settings: PodSettings) -> Problem | None:
    """Why no pod can have a part of a GPU there."""
    if not settings.reservation_image:
        what = "parts of GPUs are not available: no image for reservation pods is configured"
        return Problem("gpu.no_reservations", what, "request whole GPUs, or ask an administrator to configure one")
    is_simulated = node.labels.get(SIMULATED_LABEL) == "true"
    if settings.share_library or settings.unenforced_shares or is_simulated:
        return None
    what = f"nothing on {node.name} would keep a pod within its part of a GPU: the enforcement library is not installed"
    fix = "request whole GPUs, or ask an administrator to install the library or to allow parts of GPUs without it"
    return Problem("gpu.unenforced", what, fix)


def _whole(order: StartOrder, node: NodeShares) -> Answer:
    if lost := node.lost():
        return _frozen(order, lost, node)
    if seats := [seat for seat in order.devices if node.at(seat)]:
        return NotYet(f"GPU {seats[0]} of {order.node} is still reserved for pods that shared it")
    return Ready()


def _frozen(order: StartOrder, lost: Iterable[int], node: NodeShares) -> NotYet | Problem:
    """Nothing may be given a GPU: it could be one that is in use."""
    seats = ", ".join(map(str, lost))
    what = f"the reservation of GPU {seats} of {order.node} was deleted while pods use it"
    if all(seat in node.failed for seat in lost):
        return Problem("gpu.unreserved", what, "wait until these pods have ended, or stop them")
    return NotYet(f"{what}; it is being reserved again")


def _seat(order: StartOrder, seat: int, node: NodeShares) -> Reservation | NotYet | Problem:
    """The reservation that holds a GPU for this order."""
    name, used = f"GPU {seat} of {order.node}", node.gpus_in_use(seat)
    if seat in node.failed:
        return Problem("gpu.reservation", f"{name} could not be reserved: {node.failed[seat]}", "try another node")
    usable = [each for each in node.at(seat) if not each.has_ended and each.boot_id == order.boot_id]
    if used:
        holder = next((each for each in usable if used == {each.gpu}), None)
        if holder is None:
            return _frozen(order, [seat], node)
        if holder.is_leaving:
            what = f"the reservation of {name} is being deleted"
            return Problem("gpu.unreserved", what, "wait until the pods that share it have ended, or use another node")
        return holder
    if lost := node.lost():
        return _frozen(order, lost, node)
    holder = next((each for each in usable if not each.is_leaving), None)
    if holder is None:
        return NotYet(f"waiting for {name} to be reserved")
    if not holder.gpu or node.is_double(holder):
        return NotYet(f"waiting for {name} to be reserved{f': {holder.message}' if holder.message else ''}")
    return holder


def _has_room(order: StartOrder, seat: int, node: NodeShares) -> bool:
    """Whether the pods of a seat, those that are being created, and this one do not have more than there is. The
    scheduler has seen to it; this catches two loops that decide at the same time."""
    memory_mib = node.node.gpu_memory_mib if node.node is not None else 0
    living = [pod.request for pod in node.living_at(seat) if pod.pod != order.pod]
    created = [
        ask.order.shape.gpu
        for ask in node.asks
        if ask.is_granted and ask.order.pod != order.pod and seat in ask.order.devices
    ]
    return sum(_part(each, memory_mib) for each in (*living, *created, order.shape.gpu)) <= 1


def _part(request: GpuRequest, memory_mib: int) -> Fraction:
    if request.memory_mib:
        return Fraction(min(request.memory_mib, memory_mib), memory_mib) if memory_mib else Fraction(1)
    return Fraction(request.portion_milli, WHOLE_GPU_MILLI)


# --- reservations


@dataclass(frozen=True, slots=True)
class Create:
    """Create a reservation pod."""

    node: NodeName
    seat: int
    attempt: int
    boot_id: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Delete a reservation pod, with a short grace period."""

    reservation: Reservation
    failure: str = ""
    """Why the seat cannot be reserved for now; empty: it is not needed any more."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Delete the object of a reservation pod that holds nothing any more."""

    reservation: Reservation
    failure: str = ""


Step = Create | Remove | Drop


def steps_for(node: NodeShares) -> list[Step]:
    """What is to be done about the reservations of a node. Deciding twice gives the same steps."""
    lost = node.lost()
    found: list[Step] = []
    for each in node.reservations:
        step = _end_of(each, node, lost)
        if step is not None:
            found.append(step)
    return [*found, *_wanted(node, lost), *_searched(node, lost)]


def _end_of(each: Reservation, node: NodeShares, lost: Mapping[int, frozenset[str]]) -> Step | None:
    if node.node is None:
        return Drop(each)
    if each.has_ended:
        return Drop(each, "" if each.gpu or each.is_leaving else each.message or "it ended at once")
    used = node.gpus_in_use(each.seat)
    is_slow = not each.gpu and each.uid in node.slow
    if used:
        is_needed = each.gpu in used or (each.seat in lost and each.seat not in node.failed and not is_slow)
        return None if is_needed else _removal(each, "it does not start" if is_slow else "")
    if node.living_at(each.seat) or each.uid in node.awaited:
        return None
    if each.seat not in node.asked() or each.boot_id != node.boot_id or each.is_leaving:
        return _removal(each)
    if is_slow:
        return _removal(each, each.message or "it does not start")
    if node.is_double(each):
        return _removal(each, f"the device plugin gave {each.gpu} to two pods; time-slicing must be off")
    return None


def _removal(each: Reservation, failure: str = "") -> Remove | None:
    return None if each.is_removed else Remove(each, failure)


def _wanted(node: NodeShares, lost: Mapping[int, frozenset[str]]) -> list[Step]:
    """Reservations for pods that wait. A name is free again when its last owner is gone."""
    if node.node is None or lost:
        return []
    seats = [seat for seat in node.asked() if not node.at(seat) and seat not in node.failed]
    return [Create(node.node.name, seat, 0, node.boot_id) for seat in seats if not node.gpus_in_use(seat)]


def _searched(node: NodeShares, lost: Mapping[int, frozenset[str]]) -> list[Step]:
    """One more reservation for each seat whose GPU was lost, once all before it have reported another GPU."""
    found: list[Step] = []
    for seat in lost:
        tried = node.at(seat)
        is_due = all(each.gpu and not each.has_ended for each in tried)
        if node.node is None or seat in node.failed or not is_due or len(tried) >= node.node.gpus:
            continue
        free = min(set(range(len(tried) + 1)) - {each.attempt for each in tried})
        found.append(Create(node.node.name, seat, free, node.boot_id))
    return found

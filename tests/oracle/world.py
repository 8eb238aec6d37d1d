"""The world as the oracle sees it: pods that stand somewhere, groups, queues, nodes.

Nothing is counted in advance. What a node has left or a queue holds is summed up over all pods whenever somebody asks,
so the only thing that ever changes is how a pod stands, and undoing means to put stands back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum

from fairpool.model.ids import ClaimId, GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import MigStrategy, Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import WHOLE_GPU_MILLI, Amounts, memory_portion_milli, portion_memory_mib
from fairpool.model.workload import Claim, GpuKind, GpuRequest, Pod, PodGroup, PodSet
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

Resource = str
GPU, CPU, MEMORY = "gpu_milli", "cpu_milli", "memory_bytes"
RESOURCES: tuple[Resource, ...] = (GPU, CPU, MEMORY)
NOTHING = Amounts()

CLAIM_CONSUMERS_MAX = 256
BEST_EFFORT_CPU_MILLI = 10
BEST_EFFORT_MEMORY_BYTES = 10 * 2**20
BEST_EFFORT_GPU_MILLI = 10


def part(amounts: Amounts, resource: Resource) -> int:
    """One of the three numbers of an amount."""
    value: int = getattr(amounts, resource)
    return value


def total(parts: Iterable[Amounts]) -> Amounts:
    result = NOTHING
    for each in parts:
        result = result + each
    return result


class Status(StrEnum):
    """How a pod stands at some moment of the cycle."""

    WAITING = "waiting"
    GATED = "gated"
    RUNNING = "running"
    """Holds its place since before this cycle."""
    BOUND = "bound"
    """Was given a free place in this cycle."""
    PROMISED = "promised"
    """Was given, in this cycle, a place that others must leave first."""
    LEAVING = "leaving"


ALLOCATED = frozenset({Status.RUNNING, Status.BOUND, Status.PROMISED})
"""Counts towards the minimum of its pod set and is charged to its queue."""
ACTIVE = ALLOCATED | {Status.LEAVING}


@dataclass(frozen=True, slots=True)
class Place:
    """A node and, for a pod that shares devices, which of them. `+1` and so on are devices opened in this cycle."""

    node: NodeName
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Stand:
    """Everything that can change about a pod."""

    status: Status
    place: Place | None = None
    left: tuple[Place, ...] = ()
    """Places that it was told to leave and still holds, when it has been given another one."""
    before: Stand | None = None
    """How it stood when this cycle evicted it; None if it was not."""


@dataclass(eq=False)
class PodState:
    """A pod and how it stands."""

    row: Pod
    group: GroupState
    stand: Stand

    @property
    def id(self) -> PodId:
        return self.row.id

    @property
    def status(self) -> Status:
        return self.stand.status

    @property
    def is_evicted(self) -> bool:
        """By this cycle, and without another place so far."""
        return self.stand.status is Status.LEAVING and self.stand.before is not None

    @property
    def is_moved(self) -> bool:
        """By this cycle: told to leave its place, and promised another."""
        return self.stand.status is Status.PROMISED and self.stand.before is not None

    @property
    def shares_devices(self) -> bool:
        return self.row.shape.gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY)


@dataclass(eq=False)
class GroupState:
    """A pod group with its effective rules."""

    row: PodGroup
    priority: int
    preemptible: bool
    queue: QueueId | None
    """None: its queue cannot hold pods, so it takes no part."""
    pod_sets: dict[str, PodSet]
    minimum: dict[str, int]
    pods: list[PodState] = field(default_factory=list)
    hidden: frozenset[PodId] = frozenset()
    """Pods left out of consideration while only a part of the group is being solved for."""

    @property
    def id(self) -> GroupId:
        return self.row.id

    def in_set(self, pod_set: str, statuses: Iterable[Status], without: Iterable[PodId] = ()) -> list[PodState]:
        left_out = {*without, *self.hidden}
        wanted = frozenset(statuses)
        return [
            pod for pod in self.pods if pod.row.pod_set == pod_set and pod.status in wanted and pod.id not in left_out
        ]

    def has(self, *statuses: Status) -> bool:
        return any(pod.status in statuses and pod.id not in self.hidden for pod in self.pods)

    @property
    def is_ready(self) -> bool:
        """In every pod set as many pods exist as must run."""
        return all(
            len(self.in_set(name, ALLOCATED | {Status.WAITING})) >= least for name, least in self.minimum.items()
        )

    @property
    def is_below_minimum(self) -> bool:
        """In some pod set fewer pods have a place than must run."""
        return any(len(self.in_set(name, ALLOCATED)) < least for name, least in self.minimum.items())

    @contextmanager
    def restricted_to(self, pods: Sequence[PodState]) -> Iterator[None]:
        """Pretend that of the waiting pods only these exist, and that all of them must run."""
        minimum = dict(self.minimum)
        chosen = {pod.id for pod in pods}
        self.hidden = frozenset(pod.id for pod in self.pods if pod.status is Status.WAITING and pod.id not in chosen)
        for name in self.minimum:
            self.minimum[name] = sum(1 for pod in pods if pod.row.pod_set == name) or minimum[name]
        try:
            yield
        finally:
            self.minimum = minimum
            self.hidden = frozenset()


@dataclass
class Shared:
    """GPU memory in use on one shared device."""

    real: int = 0
    leaving: int = 0
    promised: int = 0

    @property
    def is_all_leaving(self) -> bool:
        return bool(self.leaving) and not self.real and not self.promised

    @property
    def is_only_promised(self) -> bool:
        return bool(self.promised) and not self.real and not self.leaving


@dataclass
class Room:
    """What is free on a node, by resource name: now, and in addition once those that leave have left.

    `leaving` is less what has been promised, so it can be negative: then idle things have been promised.
    """

    idle: dict[str, int]
    leaving: dict[str, int]
    devices: dict[str, Shared]

    def now(self, name: str) -> int:
        return self.idle.get(name, 0)

    def soon(self, name: str) -> int:
        return self.idle.get(name, 0) + self.leaving.get(name, 0)


GPUS, PODS, CLAIM_DEVICES = "gpus", "pods", "claim devices"


class World:
    """All of it, with undo."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy: Policy = snapshot.policy
        self.now = snapshot.now
        self.nodes: dict[NodeName, Node] = {
            node.name: node for node in sorted(snapshot.nodes, key=lambda each: each.name)
        }
        self.queues = _sound_queues(snapshot.queues)
        self.claims: dict[ClaimId, Claim] = {claim.id: claim for claim in snapshot.claims}
        self.topologies = {topology.name: topology for topology in snapshot.topologies}
        self.groups: dict[GroupId, GroupState] = {}
        for group in sorted(snapshot.groups, key=lambda each: each.id):
            self.groups[group.id] = self._group(group)
        self.pods: dict[PodId, PodState] = {}
        for pod in sorted(snapshot.pods, key=lambda each: each.id):
            self._add(pod)
        self._fixed_claims = self._claims_without_pods()
        self._journal: list[tuple[PodState, Stand]] = []
        self._opened = 0

    # Undo

    def set(self, pod: PodState, stand: Stand) -> None:
        self._journal.append((pod, pod.stand))
        pod.stand = stand

    def mark(self) -> int:
        """A moment to come back to."""
        return len(self._journal)

    def undo(self, mark: int) -> None:
        while len(self._journal) > mark:
            pod, stand = self._journal.pop()
            pod.stand = stand

    # What happens to pods

    def evict(self, pod: PodState) -> None:
        """Tell a pod to leave; what this cycle gave can, by policy, be taken back as if it had never been given."""
        stand = pod.stand
        if self.policy.withdraw_unstarted and stand.status in (Status.BOUND, Status.PROMISED):
            if stand.before is None:
                self.set(pod, Stand(Status.WAITING))
            else:
                self.set(pod, Stand(Status.LEAVING, stand.before.place, (), stand.before))
        else:
            self.set(pod, replace(stand, status=Status.LEAVING, before=stand))

    def give(self, pod: PodState, place: Place, *, now: bool) -> None:
        """Give a pod a place. An evicted pod that gets its own place back has not been evicted at all."""
        stand = pod.stand
        if stand.before is not None and place == stand.before.place:
            self.set(pod, stand.before)
        elif pod.is_evicted and stand.place is not None:
            self.set(pod, Stand(Status.PROMISED, place, (*stand.left, stand.place), stand.before))
        else:
            self.set(pod, Stand(Status.BOUND if now else Status.PROMISED, place))

    def open_device(self) -> str:
        """A name for a device that gets its first sharer."""
        self._opened += 1
        return f"+{self._opened}"

    # Amounts

    def device_memory(self, node: Node) -> int:
        """Memory of a device in the unit that portions are cut from; any unit will do where it is not known."""
        step = self.policy.device_memory_step_mib
        if not node.gpu_memory_mib:
            return self.policy.smallest_device_mib or WHOLE_GPU_MILLI
        return node.gpu_memory_mib // step * step

    def device_need(self, pod: PodState, node: Node) -> int:
        """GPU memory that a sharer takes of each of its devices."""
        gpu = pod.row.shape.gpu
        if gpu.kind is GpuKind.MEMORY:
            return gpu.memory_mib
        return portion_memory_mib(gpu.portion_milli, self.device_memory(node))

    def charge(self, pod: PodState, node: NodeName | None = None) -> Amounts:
        """What a pod counts for on a node or, before it has one, on the smallest device there is."""
        shape = pod.row.shape
        gpu = self._gpu_milli(shape.gpu, None if node is None else self.nodes[node])
        claims = (self.claims.get(name) for name in pod.row.claims)
        gpu += sum(claim.devices * WHOLE_GPU_MILLI for claim in claims if claim is not None and claim.counts_as_gpu)
        return Amounts(gpu, shape.cpu_milli, shape.memory_bytes)

    def charge_here(self, pod: PodState) -> Amounts:
        """What a pod counts for where it stands."""
        place = pod.stand.place
        return self.charge(pod, place.node if place is not None and pod.status in ACTIVE else None)

    def chunk_charge(self, pods: Iterable[PodState]) -> Amounts:
        return total(self.charge(pod) for pod in pods)

    def _gpu_milli(self, gpu: GpuRequest, node: Node | None) -> int:
        step = self.policy.portion_step_milli
        match gpu.kind:
            case GpuKind.NONE:
                return 0
            case GpuKind.MIG:
                return sum(self.mig_milli(profile, count) for profile, count in gpu.mig)
            case GpuKind.MEMORY:
                memory = self.smallest_device() if node is None else self.device_memory(node)
                return gpu.devices * memory_portion_milli(gpu.memory_mib, memory, step)
            case GpuKind.WHOLE | GpuKind.PORTION:
                return gpu.devices * ((gpu.portion_milli + step // 2) // step * step)

    def mig_milli(self, profile: str, count: int) -> int:
        """`nvidia.com/mig-3g.20gb` counts three slices."""
        slices = int(profile.rpartition("mig-")[2].partition("g.")[0])
        return WHOLE_GPU_MILLI * slices * count // self.policy.mig_slices_per_gpu

    def smallest_device(self) -> int:
        if self.policy.smallest_device_mib is not None:
            return self.policy.smallest_device_mib
        known = [node for node in self.nodes.values() if node.gpus and node.gpu_memory_mib]
        working = [node for node in known if node.is_healthy] or known
        return min((self.device_memory(node) for node in working), default=WHOLE_GPU_MILLI)

    def capacity(self, node: Node) -> Amounts:
        gpu = WHOLE_GPU_MILLI * (node.gpus - len(node.gpus_withheld) + len(node.claim_devices))
        gpu += sum(self.mig_milli(profile, count) for profile, count in node.mig_instances.items())
        return Amounts(gpu, node.cpu_milli, node.memory_bytes)

    def cluster(self) -> Amounts:
        return total(self.capacity(node) for node in self.nodes.values() if node.is_healthy)

    # Queues

    def path(self, queue: QueueId) -> list[QueueId]:
        """From the root down to the queue."""
        path = [queue]
        while (parent := self.queues[path[0]].parent) is not None:
            path.insert(0, parent)
        return path

    def children(self, queue: QueueId | None) -> list[QueueId]:
        return [each.id for each in self.queues.values() if each.parent == queue]

    def entitlement(self, queue: QueueId, resource: Resource) -> Entitlement:
        row = self.queues[queue]
        return {GPU: row.gpu, CPU: row.cpu, MEMORY: row.memory}[resource]

    def pods_below(self, queue: QueueId) -> list[PodState]:
        groups = (group for group in self.groups.values() if group.queue is not None)
        return [pod for group in groups if queue in self.path(group.queue or queue) for pod in group.pods]

    def held(self, queue: QueueId, *, firm_only: bool = False) -> Amounts:
        """What a queue and all below it hold; with `firm_only`, the part that may not be preempted."""
        return total(
            self.charge_here(pod)
            for pod in self.pods_below(queue)
            if pod.status in ALLOCATED and not (firm_only and pod.group.preemptible)
        )

    # Nodes

    def room(self, name: NodeName) -> Room:
        """What is free on a node."""
        node = self.nodes[name]
        idle = {
            CPU: node.cpu_milli,
            MEMORY: node.memory_bytes,
            PODS: node.pods_max,
            GPUS: node.gpus - len(node.gpus_withheld),
            CLAIM_DEVICES: len(node.claim_devices),
            **node.mig_instances,
            **node.extended,
        }
        room = Room(idle, {}, {})
        for pod, place, status in self.at(name):
            for resource, amount in self._counted(pod, node).items():
                if status is not Status.PROMISED:
                    room.idle[resource] = room.idle.get(resource, 0) - amount
                if status in (Status.LEAVING, Status.PROMISED):
                    sign = 1 if status is Status.LEAVING else -1
                    room.leaving[resource] = room.leaving.get(resource, 0) + sign * amount
            for device in place.devices if pod.shares_devices else ():
                _seat(room.devices.setdefault(device, Shared()), status, self.device_need(pod, node))
        withheld = {str(index) for index in node.gpus_withheld}
        for device in withheld & room.devices.keys():
            del room.devices[device]
        for shared in room.devices.values():
            _take_unit(room, GPUS, 1, shared)
        for claim, shared in self._claims_at(name).items():
            _take_unit(room, CLAIM_DEVICES, self.claims[claim].devices, shared)
        return room

    def at(self, node: NodeName) -> Iterator[tuple[PodState, Place, Status]]:
        """Everything that is on a node, is leaving it or has been promised it."""
        for pod in self.pods.values():
            stand = pod.stand
            if stand.place is not None and stand.place.node == node and stand.status in ACTIVE:
                yield pod, stand.place, stand.status
            for place in stand.left:
                if place.node == node:
                    yield pod, place, Status.LEAVING

    def _counted(self, pod: PodState, node: Node) -> dict[str, int]:
        shape = pod.row.shape
        counted = {CPU: shape.cpu_milli, MEMORY: shape.memory_bytes, PODS: 1, **dict(shape.extended)}
        counted.update(shape.gpu.mig)
        if shape.gpu.kind is GpuKind.WHOLE:
            counted[GPUS] = shape.gpu.devices - len(_devices_held(pod, node).intersection(node.gpus_withheld))
        return counted

    def has_room_for_gpus(self, name: NodeName) -> bool:
        """Whether any GPU of the node is idle or being released, in whole or in part."""
        node, room = self.nodes[name], self.room(name)
        units = (GPUS, CLAIM_DEVICES, *node.mig_instances)
        if any(room.now(unit) > 0 or room.leaving.get(unit, 0) > 0 for unit in units):
            return True
        memory = self.device_memory(node)
        return any(memory > shared.real + shared.leaving or shared.leaving > 0 for shared in room.devices.values())

    # Device claims

    def claim_node(self, claim: ClaimId) -> NodeName | None:
        """The node that consumers of an allocated claim must go to."""
        if claim in self._fixed_claims:
            return self.claims[claim].node
        for pod in self.pods.values():
            if claim in pod.row.claims and pod.status in ALLOCATED and pod.stand.place is not None:
                return pod.stand.place.node
        return None

    def claim_consumers(self, claim: ClaimId) -> int:
        ours = sum(1 for pod in self.pods.values() if claim in pod.row.claims and pod.status in ALLOCATED)
        return self.claims[claim].consumers_elsewhere + ours

    def _claims_at(self, name: NodeName) -> dict[ClaimId, Shared]:
        """Allocated claims on a node; a claim is in use as a device is, whoever its consumers are."""
        found: dict[ClaimId, Shared] = {}
        for pod, _, status in self.at(name):
            for claim in pod.row.claims:
                if claim in self.claims:
                    _seat(found.setdefault(claim, Shared()), status, 1)
        for claim in self._fixed_claims:
            if self.claims[claim].node == name:
                found.setdefault(claim, Shared()).real += 1
        return found

    def _claims_without_pods(self) -> list[ClaimId]:
        """Claims that are allocated and stay so, because no pod of ours can give them back."""
        used = {claim for pod in self.pods.values() if pod.status in ACTIVE for claim in pod.row.claims}
        return [
            claim.id
            for claim in self.claims.values()
            if claim.node is not None and (claim.consumers_elsewhere > 0 or claim.id not in used)
        ]

    # Reading rows

    def _group(self, row: PodGroup) -> GroupState:
        rule = self.policy.rule_for(row.kind, row.priority, row.preemptible)
        is_leaf = row.queue in self.queues and not self.children(row.queue)
        sets = {pod_set.name: pod_set for pod_set in row.tree.all_pod_sets()}
        minimum = {name: max(pod_set.minimum, 1) for name, pod_set in sets.items()}
        queue = row.queue if is_leaf else None
        return GroupState(row, rule.priority, rule.preemptible and is_leaf, queue, sets, minimum)

    def _add(self, row: Pod) -> None:
        group = self.groups.get(row.group)
        if group is None or row.pod_set not in group.pod_sets or row.phase is PodPhase.ENDED:
            return
        pod = PodState(row, group, Stand(Status.GATED if row.gated else Status.WAITING))
        if row.phase in HOLDS_DEVICES:
            if row.node not in self.nodes:
                return
            status = Status.LEAVING if row.phase is PodPhase.RELEASING else Status.RUNNING
            pod.stand = Stand(status, Place(row.node, _labels(row, pod)))
        elif row.phase is PodPhase.PROMISED and not self.policy.durable_promises and row.node in self.nodes:
            pod.stand = Stand(Status.PROMISED, Place(row.node, _labels(row, pod)))
        group.pods.append(pod)
        self.pods[row.id] = pod


def _sound_queues(rows: Iterable[Queue]) -> dict[QueueId, Queue]:
    """Queues whose ancestors all exist, by id."""
    known = {row.id: row for row in rows}

    def is_sound(queue: QueueId) -> bool:
        seen = {queue}
        parent = known[queue].parent
        while parent is not None:
            if parent not in known or parent in seen:
                return False
            seen.add(parent)
            parent = known[parent].parent
        return True

    return {queue: known[queue] for queue in sorted(known) if is_sound(queue)}


def _devices_held(pod: PodState, node: Node) -> set[int]:
    """Devices of a node that a pod has held since before this cycle."""
    holds = pod.row.phase in HOLDS_DEVICES and pod.row.node == node.name
    return set(pod.row.devices) if holds else set()


def _labels(row: Pod, pod: PodState) -> tuple[str, ...]:
    return tuple(str(device) for device in row.devices) if pod.shares_devices else ()


def _seat(shared: Shared, status: Status, amount: int) -> None:
    if status is Status.PROMISED:
        shared.promised += amount
    elif status is Status.LEAVING:
        shared.leaving += amount
    else:
        shared.real += amount


def _take_unit(room: Room, unit: str, count: int, shared: Shared) -> None:
    """A shared thing takes whole units from those that are idle, and gives them back when its last user leaves."""
    if not shared.is_only_promised:
        room.idle[unit] -= count
    if shared.is_all_leaving:
        room.leaving[unit] = room.leaving.get(unit, 0) + count
    if shared.is_only_promised:
        room.leaving[unit] = room.leaving.get(unit, 0) - count


def is_best_effort(world: World, pod: PodState) -> bool:
    """So small that it is not asked whether it fits what is idle now."""
    charge = world.charge(pod)
    return (
        world.policy.best_effort_need_not_wait
        and charge.cpu_milli < BEST_EFFORT_CPU_MILLI
        and charge.memory_bytes < BEST_EFFORT_MEMORY_BYTES
        and charge.gpu_milli < BEST_EFFORT_GPU_MILLI
    )


def wants_gpu(world: World, pod: PodState) -> bool:
    """Whether a pod asks for GPUs in any way."""
    claims = (world.claims.get(name) for name in pod.row.claims)
    return pod.row.shape.gpu.kind is not GpuKind.NONE or any(claim and claim.counts_as_gpu for claim in claims)


def suits_mig(node: Node, kind: GpuKind) -> bool:
    """MIG requests go to nodes that offer profiles, others to nodes that offer whole devices."""
    if kind is GpuKind.NONE:
        return True
    if kind is GpuKind.MIG:
        return node.mig_strategy is MigStrategy.MIXED
    if node.mig_strategy is MigStrategy.SINGLE:
        return kind is GpuKind.WHOLE
    return node.mig_strategy is not MigStrategy.MIXED

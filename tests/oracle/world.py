"""The world of the oracle: pods and their places, and what nodes and queues have left because of them.

Nothing is counted in advance: what a node has free or a queue holds is summed up over all pods each time. A world is
never changed: each step returns another world, and a step that fails is undone by going on with the one before it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from fairpool.model.ids import ClaimId, GroupId, NodeName, PodId, QueueId
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import Claim, GpuKind, Pod, PodGroup, WorkloadKind
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot

# Amounts

Vector = tuple[float, ...]
"""GPU (thousandths), CPU (thousandths of a core), memory (bytes): the resources that quotas are about."""
RESOURCES = GPU, CPU, MEMORY = range(3)
NOTHING: Vector = (0, 0, 0)
WHOLE_GPU = 1000


def total(vectors: Iterable[Vector]) -> Vector:
    return tuple(sum(column) for column in zip(NOTHING, *vectors, strict=True))


def minus(amounts: Vector, others: Vector) -> Vector:
    return tuple(mine - theirs for mine, theirs in zip(amounts, others, strict=True))


def within(amounts: Vector, bounds: Vector) -> bool:
    """At most the bound, in every resource."""
    return all(amount <= bound for amount, bound in zip(amounts, bounds, strict=True))


# Pods and groups


class Status(StrEnum):
    """What is known of a pod at some moment of the cycle."""

    WAITING = "waiting"
    GATED = "gated"
    RUNNING = "running"
    """Has had its place since before this cycle."""
    BOUND = "bound"
    """Was given, in this cycle, a place that is free now."""
    PROMISED = "promised"
    """Was given, in this cycle, a place that other pods must leave first."""
    LEAVING = "leaving"


PLACED = frozenset({Status.RUNNING, Status.BOUND, Status.PROMISED})
"""Counts towards the minimum of its pod set and is charged to its queue."""

NOW = frozenset({Status.RUNNING, Status.BOUND, Status.LEAVING})
"""Pods that use a node now: what they leave of it is idle."""
SOON = PLACED
"""Pods that will use a node once those that leave have left."""


class Place(NamedTuple):
    """A node and, for a pod that shares devices, which of them. Devices first shared in this cycle get new numbers."""

    node: NodeName
    devices: tuple[int, ...] = ()


NEW_DEVICE = 1_000_000
"""Devices that are opened for sharing are numbered from here on; which device that is makes no difference."""


@dataclass(frozen=True)
class PodState:
    """A pod at one moment."""

    row: Pod
    status: Status
    place: Place | None = None
    """None for pods that wait."""
    vacates: tuple[Place, ...] = ()
    """Other places that it holds until it has left them, because this cycle moves it."""
    before: PodState | None = None
    """The pod when this cycle evicted it; None if it did not."""

    @property
    def is_evicted(self) -> bool:
        """By this cycle, and without another place so far."""
        return self.status is Status.LEAVING and self.before is not None

    @property
    def is_moved(self) -> bool:
        """Evicted by this cycle and promised another place."""
        return self.status is Status.PROMISED and self.before is not None

    @property
    def shares_devices(self) -> bool:
        return self.row.shape.gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY)


@dataclass(frozen=True)
class Group:
    """A pod group with its effective settings."""

    row: PodGroup
    queue: QueueId | None
    """None: its queue does not exist or is not a leaf, so the group takes no part."""
    priority: int
    preemptible: bool
    minimum: Mapping[str, int]
    """By pod set, how many pods must run for the group to run."""


@dataclass(frozen=True)
class World:
    """Everything, at one moment of a cycle."""

    snapshot: Snapshot
    policy: Policy
    nodes: Mapping[NodeName, Node]
    queues: Mapping[QueueId, Queue]
    claims: Mapping[ClaimId, Claim]
    groups: Mapping[GroupId, Group]
    pods: Mapping[PodId, PodState]
    fixed_claims: frozenset[ClaimId] = frozenset()
    """Claims that stay allocated whatever the pods of this snapshot do."""
    fair: Mapping[QueueId, Vector] = field(default_factory=dict)
    """Fair shares, computed once at the beginning of a cycle."""
    winners: frozenset[GroupId] = frozenset()
    """Groups that pods were evicted for, in this cycle or (promises) in an earlier one."""
    expired: frozenset[GroupId] = frozenset()
    """Groups whose promise is too old: they may start now, but are promised nothing in this cycle."""


def read(snapshot: Snapshot) -> World:
    """The world at the beginning of a cycle."""
    nodes = {node.name: node for node in sorted(snapshot.nodes, key=lambda each: each.name)}
    queues = {queue.id: queue for queue in sorted(snapshot.queues, key=lambda each: each.id)}
    queues = {name: queue for name, queue in queues.items() if _leads_to_a_root(queues, queue)}
    parents = {queue.parent for queue in queues.values()}
    leaves = {name for name in queues if name not in parents}
    groups = {
        row.id: _read_group(row, snapshot.policy, row.queue in leaves)
        for row in sorted(snapshot.groups, key=lambda each: each.id)
    }
    pods: dict[PodId, PodState] = {}
    for row in sorted(snapshot.pods, key=lambda each: each.id):
        is_known = row.group in groups and row.pod_set in groups[row.group].minimum
        is_lost = row.phase in HOLDS_DEVICES and row.node not in nodes
        if is_known and not is_lost and row.phase is not PodPhase.ENDED:
            pods[row.id] = _read_pod(row, snapshot.policy, row.node in nodes)
    claims = {claim.id: claim for claim in snapshot.claims}
    used = {claim for pod in pods.values() if pod.place is not None for claim in pod.row.claims}
    fixed = {
        claim.id
        for claim in snapshot.claims
        if claim.node is not None and (claim.consumers_elsewhere > 0 or claim.id not in used)
    }
    return World(snapshot, snapshot.policy, nodes, queues, claims, groups, pods, frozenset(fixed))


def _leads_to_a_root(queues: Mapping[QueueId, Queue], queue: Queue) -> bool:
    seen = {queue.id}
    while queue.parent is not None:
        if queue.parent not in queues or queue.parent in seen:
            return False
        seen.add(queue.parent)
        queue = queues[queue.parent]
    return True


def _read_group(row: PodGroup, policy: Policy, is_in_leaf: bool) -> Group:
    priority, preemptible = priority_and_preemptibility(row, policy)
    minimum = {pod_set.name: max(pod_set.minimum, 1) for pod_set in row.tree.all_pod_sets()}
    return Group(row, row.queue if is_in_leaf else None, priority, preemptible and is_in_leaf, minimum)


def priority_and_preemptibility(row: PodGroup, policy: Policy) -> tuple[int, bool]:
    """What the group states; otherwise its priority decides preemptibility, and its kind whatever is left open."""
    implied = policy.kinds[row.kind]
    if row.preemptible is not None:
        preemptible = row.preemptible
    elif row.priority is not None:
        preemptible = row.priority < 100
    else:
        preemptible = implied.preemptible
    if row.priority is not None:
        return row.priority, preemptible
    if row.kind is WorkloadKind.BUILD and preemptible:
        return 75, True
    return implied.priority, preemptible


def _read_pod(row: Pod, policy: Policy, is_node_known: bool) -> PodState:
    pod = PodState(row, Status.GATED if row.gated else Status.WAITING)
    if row.node is None:
        return pod
    place = Place(row.node, row.devices if pod.shares_devices else ())
    if row.phase in HOLDS_DEVICES:
        return PodState(row, Status.LEAVING if row.phase is PodPhase.RELEASING else Status.RUNNING, place)
    if row.phase is PodPhase.PROMISED and is_node_known and not policy.durable_promises:
        return PodState(row, Status.PROMISED, place)
    return pod  # a durable promise is honoured, or not, by allocate


def pods_of(
    world: World, group: GroupId, statuses: Iterable[Status], pod_set: str | None = None, without: Iterable[PodId] = ()
) -> list[PodState]:
    """The pods of a group, or of one of its pod sets, that have one of these statuses."""
    return [
        pod
        for name, pod in world.pods.items()
        if pod.row.group == group
        and pod.status in statuses
        and pod_set in (None, pod.row.pod_set)
        and name not in without
    ]


def lacks_pods(world: World, group: GroupId, statuses: Iterable[Status]) -> bool:
    """Whether in some pod set fewer pods have one of these statuses than must run."""
    sets = world.groups[group].minimum.items()
    return any(len(pods_of(world, group, statuses, name)) < minimum for name, minimum in sets)


def is_ready(world: World, group: GroupId) -> bool:
    """In every pod set there are as many pods as must run."""
    return not lacks_pods(world, group, PLACED | {Status.WAITING})


# What happens to pods


def with_pods(world: World, *pods: PodState) -> World:
    return replace(world, pods={**world.pods, **{pod.row.id: pod for pod in pods}})


def evict(world: World, name: PodId) -> World:
    """Ask a pod to leave. In the product, what this cycle gave is taken back as if it had never been given."""
    pod = world.pods[name]
    if world.policy.withdraw_unstarted and pod.status in (Status.BOUND, Status.PROMISED):
        if pod.before is None:
            return with_pods(world, PodState(pod.row, Status.WAITING))
        return with_pods(world, PodState(pod.row, Status.LEAVING, pod.before.place, before=pod.before))
    return with_pods(world, replace(pod, status=Status.LEAVING, before=pod))


def give(world: World, name: PodId, place: Place, *, now: bool) -> World:
    """Give a pod a place. An evicted pod that gets its own place back has not been evicted at all."""
    pod = world.pods[name]
    if pod.before is not None and place == pod.before.place:
        return with_pods(world, pod.before)
    if pod.is_evicted and pod.place is not None:
        return with_pods(world, replace(pod, status=Status.PROMISED, place=place, vacates=(*pod.vacates, pod.place)))
    return with_pods(world, PodState(pod.row, Status.BOUND if now else Status.PROMISED, place))


# Charges: what pods count for


def charge(world: World, pod: PodState, node: NodeName | None = None) -> Vector:
    """What a pod counts for in quotas, limits and shares: on a node or, while none is known, on the smallest device."""
    shape, gpu, step = pod.row.shape, pod.row.shape.gpu, world.policy.portion_step_milli
    milli = 0
    if gpu.kind in (GpuKind.WHOLE, GpuKind.PORTION):
        milli = gpu.devices * ((gpu.portion_milli + step // 2) // step * step)
    elif gpu.kind is GpuKind.MIG:
        milli = mig_milli(world, dict(gpu.mig))
    elif gpu.kind is GpuKind.MEMORY and node is not None:
        steps = math.ceil(gpu.memory_mib * WHOLE_GPU / (device_memory(world, node) * step))
        milli = gpu.devices * steps * step
    elif gpu.kind is GpuKind.MEMORY:
        smallest = smallest_device(world)
        milli = gpu.devices * (math.ceil(gpu.memory_mib * WHOLE_GPU / smallest) if smallest else WHOLE_GPU)
    claims = (world.claims[name] for name in pod.row.claims if name in world.claims)
    milli += WHOLE_GPU * sum(claim.devices for claim in claims if claim.counts_as_gpu)
    return milli, shape.cpu_milli, shape.memory_bytes


def charge_here(world: World, pod: PodState) -> Vector:
    """What a pod counts for where it is."""
    return charge(world, pod, None if pod.place is None else pod.place.node)


def mig_milli(world: World, instances: Mapping[str, int]) -> int:
    """MIG instances as parts of a GPU: `nvidia.com/mig-3g.20gb` is three slices."""
    slices = sum(int(profile.rpartition("mig-")[2].partition("g.")[0]) * count for profile, count in instances.items())
    return WHOLE_GPU * slices // world.policy.mig_slices_per_gpu


def device_memory(world: World, node: NodeName) -> int:
    """Memory of each device of a node, in MiB; where it is not known, in thousandths of the device."""
    step = world.policy.device_memory_step_mib
    return world.nodes[node].gpu_memory_mib // step * step or WHOLE_GPU


def smallest_device(world: World) -> int | None:
    """Memory of the smallest device that pods could go to; None: not known."""
    if world.policy.smallest_device_mib is not None:
        return world.policy.smallest_device_mib
    known = [node for node in world.nodes.values() if node.gpus and node.gpu_memory_mib]
    healthy = [node for node in known if node.is_healthy] or known
    return min((device_memory(world, node.name) for node in healthy), default=None)


def memory_on_device(world: World, pod: PodState, node: NodeName) -> int:
    """Memory that a pod takes of each device it shares."""
    gpu, step = pod.row.shape.gpu, world.policy.portion_step_milli
    portion = (gpu.portion_milli + step // 2) // step * step
    return gpu.memory_mib or max(1, portion * device_memory(world, node) // WHOLE_GPU)


def wants_gpu(world: World, pod: PodState) -> bool:
    """Whether a pod requests GPUs in any way."""
    claims = (world.claims[name] for name in pod.row.claims if name in world.claims)
    return pod.row.shape.gpu.kind is not GpuKind.NONE or any(claim.counts_as_gpu for claim in claims)


# Queues


def path(world: World, queue: QueueId) -> list[QueueId]:
    """From the root down to the queue."""
    parent = world.queues[queue].parent
    return [queue] if parent is None else [*path(world, parent), queue]


def children(world: World, queue: QueueId | None) -> list[QueueId]:
    return [name for name, row in world.queues.items() if row.parent == queue]


def entitlements(world: World, queue: QueueId) -> tuple[Entitlement, Entitlement, Entitlement]:
    row = world.queues[queue]
    return row.gpu, row.cpu, row.memory


def quota(world: World, queue: QueueId) -> Vector:
    return tuple(math.inf if each.quota == UNLIMITED else each.quota for each in entitlements(world, queue))


def limit(world: World, queue: QueueId) -> Vector:
    return tuple(math.inf if each.limit == UNLIMITED else each.limit for each in entitlements(world, queue))


def pods_below(world: World, queue: QueueId, statuses: Iterable[Status]) -> Iterator[PodState]:
    """The pods of a queue and of all queues below it that have one of these statuses."""
    below = {name for name in world.queues if queue in path(world, name)}
    for pod in world.pods.values():
        if pod.status in statuses and world.groups[pod.row.group].queue in below:
            yield pod


def held(world: World, queue: QueueId) -> Vector:
    """What a queue and all queues below it hold."""
    return total(charge_here(world, pod) for pod in pods_below(world, queue, PLACED))


def held_non_preemptible(world: World, queue: QueueId) -> Vector:
    pods = pods_below(world, queue, PLACED)
    return total(charge_here(world, pod) for pod in pods if not world.groups[pod.row.group].preemptible)


def cluster(world: World) -> Vector:
    """What all healthy nodes have together."""
    return total(
        (gpus_of(node) * WHOLE_GPU + mig_milli(world, node.mig_instances), node.cpu_milli, node.memory_bytes)
        for node in world.nodes.values()
        if node.is_healthy
    )


# Nodes

GPUS, PODS, CLAIM_DEVICES = "gpus", "pods", "claim devices"
CPU_MILLI, MEMORY_BYTES = "cpu", "memory"


@dataclass(frozen=True)
class Free:
    """What is free on a node, now or soon."""

    amounts: dict[str, int]
    used: dict[int, int]
    """By shared device, the memory in use on it. A device that no pod shares any more is not listed: it is whole."""


def free(world: World, name: NodeName, when: Iterable[Status]) -> Free:
    """What is free on a node NOW, or SOON."""
    node = world.nodes[name]
    amounts = {
        CPU_MILLI: node.cpu_milli,
        MEMORY_BYTES: node.memory_bytes,
        PODS: node.pods_max,
        GPUS: node.gpus - len(node.gpus_withheld),
        CLAIM_DEVICES: len(node.claim_devices),
        **node.mig_instances,
        **node.extended,
    }
    used: dict[int, int] = {}
    claims = {claim for claim in world.fixed_claims if world.claims[claim].node == name}
    for pod, devices, status in pods_on(world, name):
        if status not in when:
            continue
        for resource, amount in _takes(pod, node).items():
            amounts[resource] = amounts.get(resource, 0) - amount
        for device in devices:
            if device not in node.gpus_withheld:
                used[device] = used.get(device, 0) + memory_on_device(world, pod, name)
        claims |= {claim for claim in pod.row.claims if claim in world.claims}
    amounts[GPUS] -= len(used)
    amounts[CLAIM_DEVICES] -= sum(world.claims[claim].devices for claim in claims)
    return Free(amounts, used)


def pods_on(world: World, node: NodeName) -> Iterator[tuple[PodState, tuple[int, ...], Status]]:
    """Every pod that is on a node, is leaving it or has been promised it, with the devices that it shares there."""
    for pod in world.pods.values():
        if pod.place is not None and pod.place.node == node:
            yield pod, pod.place.devices, pod.status
        for place in pod.vacates:
            if place.node == node:
                yield pod, place.devices, Status.LEAVING


def _takes(pod: PodState, node: Node) -> dict[str, int]:
    """What a pod takes of a node, shared devices and claims aside."""
    shape = pod.row.shape
    takes = {CPU_MILLI: shape.cpu_milli, MEMORY_BYTES: shape.memory_bytes, PODS: 1}
    takes |= {**dict(shape.extended), **dict(shape.gpu.mig)}
    if shape.gpu.kind is GpuKind.WHOLE:
        # A withheld device is not among those that are given out, so a pod that holds one takes less of them.
        is_here = pod.row.phase in HOLDS_DEVICES and pod.row.node == node.name
        withheld = set(pod.row.devices) & set(node.gpus_withheld) if is_here else ()
        takes[GPUS] = shape.gpu.devices - len(withheld)
    return takes


def gpus_of(node: Node) -> int:
    """Devices of a node that are given out, as such or through claims."""
    return node.gpus - len(node.gpus_withheld) + len(node.claim_devices)


def partly_free(world: World, node: NodeName, there: Free) -> int:
    """What the shared devices of a node have left, in thousandths of a GPU."""
    memory = device_memory(world, node)
    return sum(WHOLE_GPU * (memory - used) // memory for used in there.used.values())

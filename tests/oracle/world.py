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
from fairpool.model.lifecycle import HOLDS_DEVICES
from fairpool.model.node import Node
from fairpool.model.node_role import NodeRole
from fairpool.model.organization import Entitlement, Queue
from fairpool.model.quantity import UNLIMITED
from fairpool.model.workload import Claim, GpuKind, Pod, PodGroup
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


GPUS, PODS, CLAIM_DEVICES = "gpus", "pods", "claim devices"
CPU_MILLI, MEMORY_BYTES = "cpu", "memory"
"""What a node has, besides MIG profiles and extended resources, which go by their names."""

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

    def is_same(self, other: Place) -> bool:
        return self.node == other.node and set(self.devices) == set(other.devices)


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


NO_QUEUE = QueueId("")


@dataclass(frozen=True)
class Group:
    """A pod group with its effective settings."""

    row: PodGroup
    queue: QueueId
    """NO_QUEUE: its queue does not exist or is not a leaf, so the group takes no part."""
    priority: int
    preemptible: bool
    minimum: Mapping[str, int]
    """By pod set, how many pods must run for the group to run."""


@dataclass(frozen=True)
class Free:
    """What is free on a node, now or soon."""

    amounts: dict[str, int]
    used: dict[int, int]
    """By shared device, the memory in use on it. A device that no pod shares any more is not listed: it is whole."""


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

    # Pods of groups

    def group_of(self, pod: PodId) -> GroupId:
        return self.pods[pod].row.group

    def pods_of(
        self, group: GroupId, statuses: Iterable[Status], pod_set: str | None = None, without: Iterable[PodId] = ()
    ) -> list[PodState]:
        """The pods of a group, or of one of its pod sets, that have one of these statuses."""
        return [
            pod
            for name, pod in self.pods.items()
            if pod.row.group == group
            and pod.status in statuses
            and pod_set in (None, pod.row.pod_set)
            and name not in without
        ]

    def lacks_pods(self, group: GroupId, statuses: Iterable[Status]) -> bool:
        """Whether in some pod set fewer pods have one of these statuses than must run."""
        sets = self.groups[group].minimum.items()
        return any(len(self.pods_of(group, statuses, name)) < minimum for name, minimum in sets)

    def is_ready(self, group: GroupId) -> bool:
        """In every pod set there are as many pods as must run."""
        return not self.lacks_pods(group, PLACED | {Status.WAITING})

    # What happens to pods

    def with_pods(self, *pods: PodState) -> World:
        return replace(self, pods={**self.pods, **{pod.row.id: pod for pod in pods}})

    def evict(self, name: PodId) -> World:
        """Ask a pod to leave. In the product, what this cycle gave is taken back as if it had never been given."""
        pod = self.pods[name]
        if self.policy.withdraw_unstarted and pod.status in (Status.BOUND, Status.PROMISED):
            if pod.before is None:
                return self.with_pods(PodState(pod.row, Status.WAITING))
            return self.with_pods(PodState(pod.row, Status.LEAVING, pod.before.place, before=pod.before))
        return self.with_pods(replace(pod, status=Status.LEAVING, before=pod))

    def give(self, name: PodId, place: Place, *, now: bool) -> World:
        """Give a pod a place. An evicted pod that gets its own place back has not been evicted at all."""
        pod = self.pods[name]
        if pod.before is not None and pod.before.place is not None and place.is_same(pod.before.place):
            return self.with_pods(pod.before)
        if pod.is_evicted and pod.place is not None:
            return self.with_pods(replace(pod, status=Status.PROMISED, place=place, vacates=(*pod.vacates, pod.place)))
        return self.with_pods(PodState(pod.row, Status.BOUND if now else Status.PROMISED, place))

    # Charges: what pods count for

    def charge(self, pod: PodState, node: NodeName | None = None) -> Vector:
        """What a pod counts for in quotas, limits and shares: on a node or, without one, on the smallest device."""
        shape, gpu, step = pod.row.shape, pod.row.shape.gpu, self.policy.portion_step_milli
        milli = 0
        if gpu.kind in (GpuKind.WHOLE, GpuKind.PORTION):
            milli = gpu.devices * ((gpu.portion_milli + step // 2) // step * step)
        elif gpu.kind is GpuKind.MIG:
            milli = self.mig_milli(dict(gpu.mig))
        elif gpu.kind is GpuKind.MEMORY and node is not None:
            steps = math.ceil(gpu.memory_mib * WHOLE_GPU / (self.device_memory(node) * step))
            milli = gpu.devices * steps * step
        elif gpu.kind is GpuKind.MEMORY:
            smallest = self.smallest_device()
            milli = gpu.devices * (math.ceil(gpu.memory_mib * WHOLE_GPU / smallest) if smallest else WHOLE_GPU)
        claims = (self.claims[name] for name in pod.row.claims if name in self.claims)
        milli += WHOLE_GPU * sum(claim.devices for claim in claims if claim.counts_as_gpu)
        return milli, shape.cpu_milli, shape.memory_bytes

    def charge_here(self, pod: PodState) -> Vector:
        """What a pod counts for where it is."""
        return self.charge(pod, None if pod.place is None else pod.place.node)

    def mig_milli(self, instances: Mapping[str, int]) -> int:
        """MIG instances as parts of a GPU: `nvidia.com/mig-3g.20gb` is three slices."""
        slices = sum(
            int(profile.rpartition("mig-")[2].partition("g.")[0]) * count for profile, count in instances.items()
        )
        return WHOLE_GPU * slices // self.policy.mig_slices_per_gpu

    def device_memory(self, node: NodeName) -> int:
        """Memory of each device of a node, in MiB; where it is not known, in thousandths of the device."""
        step = self.policy.device_memory_step_mib
        return self.nodes[node].gpu_memory_mib // step * step or WHOLE_GPU

    def smallest_device(self) -> int | None:
        """Memory of the smallest device that pods could go to; None: not known."""
        if self.policy.smallest_device_mib is not None:
            return self.policy.smallest_device_mib
        known = [node for node in self.nodes.values() if node.gpus and node.gpu_memory_mib]
        healthy = [node for node in known if node.is_healthy] or known
        return min((self.device_memory(node.name) for node in healthy), default=None)

    def memory_on_device(self, pod: PodState, node: NodeName) -> int:
        """Memory that a pod takes of each device it shares."""
        gpu, step = pod.row.shape.gpu, self.policy.portion_step_milli
        portion = (gpu.portion_milli + step // 2) // step * step
        return gpu.memory_mib or max(1, portion * self.device_memory(node) // WHOLE_GPU)

    def wants_gpu(self, pod: PodState) -> bool:
        """Whether a pod requests GPUs in any way."""
        claims = (self.claims[name] for name in pod.row.claims if name in self.claims)
        return pod.row.shape.gpu.kind is not GpuKind.NONE or any(claim.counts_as_gpu for claim in claims)

    # Claims

    def claim_node(self, name: ClaimId) -> NodeName | None:
        """The node of an allocated claim, where all its users must go; None: it is not allocated."""
        if name in self.fixed_claims:
            return self.claims[name].node
        users = (pod for pod in self.pods.values() if name in pod.row.claims and pod.status in PLACED)
        return next((pod.place.node for pod in users if pod.place is not None), None)

    def devices_to_claim(self, names: Iterable[ClaimId]) -> int:
        """How many devices must be found for those of some claims that have none."""
        known = (name for name in set(names) if name in self.claims)
        return sum(self.claims[name].devices for name in known if self.claim_node(name) is None)

    # Queues

    def path(self, queue: QueueId) -> list[QueueId]:
        """From the root down to the queue."""
        parent = self.queues[queue].parent
        return [queue] if parent is None else [*self.path(parent), queue]

    def children(self, queue: QueueId | None) -> list[QueueId]:
        return [name for name, row in self.queues.items() if row.parent == queue]

    def entitlements(self, queue: QueueId) -> tuple[Entitlement, Entitlement, Entitlement]:
        row = self.queues[queue]
        return row.gpu, row.cpu, row.memory

    def quota(self, queue: QueueId) -> Vector:
        return tuple(math.inf if each.quota == UNLIMITED else each.quota for each in self.entitlements(queue))

    def limit(self, queue: QueueId) -> Vector:
        return tuple(math.inf if each.limit == UNLIMITED else each.limit for each in self.entitlements(queue))

    def pods_below(self, queue: QueueId, statuses: Iterable[Status]) -> Iterator[PodState]:
        """The pods of a queue and of all queues below it that have one of these statuses."""
        below = {name for name in self.queues if queue in self.path(name)}
        for pod in self.pods.values():
            if pod.status in statuses and self.groups[pod.row.group].queue in below:
                yield pod

    def held(self, queue: QueueId) -> Vector:
        """What a queue and all queues below it hold."""
        return total(self.charge_here(pod) for pod in self.pods_below(queue, PLACED))

    def held_non_preemptible(self, queue: QueueId) -> Vector:
        pods = self.pods_below(queue, PLACED)
        return total(self.charge_here(pod) for pod in pods if not self.groups[pod.row.group].preemptible)

    def cluster(self) -> Vector:
        """What all healthy nodes have together."""
        return total(
            (
                (gpus_of(node) * WHOLE_GPU + self.mig_milli(node.mig_instances))
                * (node.role in (NodeRole.ANY, NodeRole.GPU_WORKER)),
                node.cpu_milli,
                node.memory_bytes,
            )
            for node in self.nodes.values()
            if node.is_healthy
        )

    # Nodes

    def free(self, name: NodeName, when: Iterable[Status]) -> Free:
        """What is free on a node NOW, or SOON."""
        node = self.nodes[name]
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
        claims = {claim for claim in self.fixed_claims if self.claims[claim].node == name}
        for pod, devices, status in self.pods_on(name):
            if status not in when:
                continue
            for resource, amount in _takes(pod, node).items():
                amounts[resource] = amounts.get(resource, 0) - amount
            for device in devices:
                if device not in node.gpus_withheld:
                    used[device] = used.get(device, 0) + self.memory_on_device(pod, name)
            claims |= {claim for claim in pod.row.claims if claim in self.claims}
        amounts[GPUS] -= len(used)
        amounts[CLAIM_DEVICES] -= sum(self.claims[claim].devices for claim in claims)
        return Free(amounts, used)

    def pods_on(self, node: NodeName) -> Iterator[tuple[PodState, tuple[int, ...], Status]]:
        """Every pod that is on a node, is leaving it or has been promised it, with the devices that it shares there."""
        for pod in self.pods.values():
            if pod.place is not None and pod.place.node == node:
                yield pod, pod.place.devices, pod.status
            for place in pod.vacates:
                if place.node == node:
                    yield pod, place.devices, Status.LEAVING

    def held_whole(self, node: NodeName, when: Iterable[Status]) -> set[int]:
        """Devices of a node that pods had whole before this cycle and have NOW, or SOON."""
        there = (pod.row for pod, _, status in self.pods_on(node) if status in when and not pod.shares_devices)
        return {device for row in there if row.phase in HOLDS_DEVICES and row.node == node for device in row.devices}

    def partly_free(self, node: NodeName, there: Free) -> int:
        """What the shared devices of a node have left, in thousandths of a GPU."""
        memory = self.device_memory(node)
        return sum(WHOLE_GPU * (memory - used) // memory for used in there.used.values())


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

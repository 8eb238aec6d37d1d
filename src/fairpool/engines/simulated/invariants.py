"""Invariants of a simulation: no pod starts twice, no two pods of one index run at once, nothing is over-committed.

Checked on what was really started and ended, with accounting that shares nothing with the ledger or the scheduler.
The engine itself refuses no order for lack of devices, so that a mistake of the cluster shows here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairpool.model.ids import NodeName, PodId, Token, WorkloadId
from fairpool.model.node import Node
from fairpool.model.observation import StartOrder
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind

Resource = tuple[NodeName, str]
"""A resource of a node: a device, its CPU, its memory."""


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What a pod uses of one resource, and the capacity when it started."""

    resource: Resource
    amount: int
    capacity: int


class InvariantChecker:
    """Tracks which pod holds what, and collects violations."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._started: set[PodId] = set()
        self._holds: dict[PodId, tuple[StartOrder, tuple[ResourceUse, ...]]] = {}
        self._used: dict[Resource, dict[PodId, int]] = {}
        self._alive: dict[tuple[WorkloadId, int], list[PodId]] = {}
        self._token = Token(0)

    def restore(self, started: Iterable[PodId], token: Token) -> None:
        """Pods that were started, and the highest token, before a restart."""
        self._started.update(started)
        self._token = max(self._token, token)

    def acted(self, token: Token) -> None:
        """An order with this token was carried out."""
        if token < self._token:
            self.violations.append(f"an order with token {token} was obeyed after token {self._token} had been shown")
        self._token = max(self._token, token)

    def started(self, order: StartOrder, node: Node) -> None:
        """A pod was started."""
        if order.pod in self._started:
            self.violations.append(f"{order.pod} was started twice")
        self._started.add(order.pod)
        self.holds(order, node)

    def holds(self, order: StartOrder, node: Node) -> None:
        """A pod holds the resources of its order, since now or before."""
        others = self._alive.setdefault((order.workload, order.index), [])
        if others:
            self.violations.append(f"{order.pod} runs at the same time as {', '.join(others)}")
        others.append(order.pod)
        self._check_devices(order, node)
        uses = tuple(uses_of(order, node))
        self._holds[order.pod] = (order, uses)
        for use in uses:
            self._use(order.pod, use)

    def ordered_elsewhere(self, first: StartOrder, then: StartOrder) -> None:
        """A pod that is on one node was ordered to another."""
        self.violations.append(f"{first.pod} was ordered to {first.node}, and then to {then.node}")

    def ended(self, pod: PodId) -> None:
        """A pod holds nothing any more."""
        order, uses = self._holds.pop(pod)
        self._alive[order.workload, order.index].remove(pod)
        if not self._alive[order.workload, order.index]:
            del self._alive[order.workload, order.index]
        for use in uses:
            users = self._used[use.resource]
            users.pop(pod, None)
            if not users:
                del self._used[use.resource]

    def _check_devices(self, order: StartOrder, node: Node) -> None:
        asked = order.shape.gpu.devices
        if len(set(order.devices)) != asked:
            self.violations.append(f"{order.pod} asks for {asked} devices and was given {list(order.devices)}")
        for device in order.devices:
            if not 0 <= device < node.gpus or device in node.gpus_withheld:
                self.violations.append(f"{order.pod} was given device {device} of {node.name}, which it does not offer")

    def _use(self, pod: PodId, use: ResourceUse) -> None:
        users = self._used.setdefault(use.resource, {})
        users[pod] = users.get(pod, 0) + use.amount
        if sum(users.values()) > use.capacity:
            node, what = use.resource
            self.violations.append(f"{what} of {node} is over-committed: {', '.join(users)} together")


def uses_of(order: StartOrder, node: Node) -> Iterable[ResourceUse]:
    """All that a pod uses of its node."""
    shape = order.shape
    name = order.node
    portion, whole = _part_of_device(order, node)
    yield from (ResourceUse((name, f"device {device}"), portion, whole) for device in order.devices)
    yield from _counted(name, shape.gpu.mig, node.mig_instances)
    yield from _counted(name, shape.extended, node.extended)
    if shape.cpu_milli:
        yield ResourceUse((name, "CPU"), shape.cpu_milli, node.cpu_milli)
    if shape.memory_bytes:
        yield ResourceUse((name, "memory"), shape.memory_bytes, node.memory_bytes)
    yield ResourceUse((name, "room for pods"), 1, node.pods_max)


def _part_of_device(order: StartOrder, node: Node) -> tuple[int, int]:
    """Use and capacity of each device, in thousandths of a MiB, so that nothing is rounded."""
    gpu = order.shape.gpu
    device_mib = node.gpu_memory_mib or 1
    amount = gpu.memory_mib * WHOLE_GPU_MILLI if gpu.kind is GpuKind.MEMORY else gpu.portion_milli * device_mib
    return amount, WHOLE_GPU_MILLI * device_mib


def _counted(node: NodeName, asked: Iterable[tuple[str, int]], offered: Mapping[str, int]) -> Iterable[ResourceUse]:
    return (ResourceUse((node, resource), amount, offered.get(resource, 0)) for resource, amount in asked)

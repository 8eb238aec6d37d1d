"""What must never happen on the nodes, watched by somebody who knows nothing but what was really started and ended.

The engine refuses no order for being too much: whether the cluster counts well is the cluster's business, and it is
shown here when it does not. The books below share nothing with the ledger's, nor with the scheduler's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fairpool.model.ids import NodeName, PodId, Token, WorkloadId
from fairpool.model.node import Node
from fairpool.model.observation import StartOrder
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind

Thing = tuple[NodeName, str]
"""Something of a node that can be used up: a device, its cores, its memory."""


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """What a life uses of one thing, and how much there was of it when it started."""

    thing: Thing
    amount: int
    there_is: int


class InvariantChecker:
    """Remembers who holds what, and writes down what should not have been."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self._started: set[PodId] = set()
        self._holds: dict[PodId, tuple[StartOrder, tuple[ResourceUse, ...]]] = {}
        self._used: dict[Thing, dict[PodId, int]] = {}
        self._alive: dict[tuple[WorkloadId, int], list[PodId]] = {}
        self._token = Token(0)

    def remember(self, started: Iterable[PodId], token: Token) -> None:
        """What was so before this witness came."""
        self._started.update(started)
        self._token = max(self._token, token)

    def acted(self, token: Token) -> None:
        """An order with this token was obeyed."""
        if token < self._token:
            self.violations.append(f"an order with token {token} was obeyed after token {self._token} had been shown")
        self._token = max(self._token, token)

    def started(self, order: StartOrder, node: Node) -> None:
        """This life begins to hold what its order says."""
        if order.pod in self._started:
            self.violations.append(f"{order.pod} was started twice")
        self._started.add(order.pod)
        self.holds(order, node)

    def holds(self, order: StartOrder, node: Node) -> None:
        """This life holds what its order says, since now or before."""
        others = self._alive.setdefault((order.workload, order.index), [])
        if others:
            self.violations.append(f"{order.pod} runs at the same time as {', '.join(others)}")
        others.append(order.pod)
        self._complain_about_devices(order, node)
        uses = tuple(uses_of(order, node))
        self._holds[order.pod] = (order, uses)
        for use in uses:
            self._use(order.pod, use)

    def ordered_elsewhere(self, first: StartOrder, then: StartOrder) -> None:
        """A life that is on one node was ordered to another."""
        self.violations.append(f"{first.pod} was ordered to {first.node}, and then to {then.node}")

    def ended(self, pod: PodId) -> None:
        """This life holds nothing any more."""
        order, uses = self._holds.pop(pod)
        self._alive[order.workload, order.index].remove(pod)
        if not self._alive[order.workload, order.index]:
            del self._alive[order.workload, order.index]
        for use in uses:
            users = self._used[use.thing]
            users.pop(pod, None)
            if not users:
                del self._used[use.thing]

    def _complain_about_devices(self, order: StartOrder, node: Node) -> None:
        asked = order.shape.gpu.devices
        if len(set(order.devices)) != asked:
            self.violations.append(f"{order.pod} asks for {asked} devices and was given {list(order.devices)}")
        for device in order.devices:
            if not 0 <= device < node.gpus or device in node.gpus_withheld:
                self.violations.append(f"{order.pod} was given device {device} of {node.name}, which it does not offer")

    def _use(self, pod: PodId, use: ResourceUse) -> None:
        users = self._used.setdefault(use.thing, {})
        users[pod] = users.get(pod, 0) + use.amount
        if sum(users.values()) > use.there_is:
            node, what = use.thing
            self.violations.append(f"{what} of {node} is over-committed: {', '.join(users)} together")


def uses_of(order: StartOrder, node: Node) -> Iterable[ResourceUse]:
    """All that a life uses of its node."""
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
    """How much of each device, and how much is in one: in thousandths of a MiB, so that nothing is rounded."""
    gpu = order.shape.gpu
    device_mib = node.gpu_memory_mib or 1
    amount = gpu.memory_mib * WHOLE_GPU_MILLI if gpu.kind is GpuKind.MEMORY else gpu.portion_milli * device_mib
    return amount, WHOLE_GPU_MILLI * device_mib


def _counted(node: NodeName, asked: Iterable[tuple[str, int]], offered: Mapping[str, int]) -> Iterable[ResourceUse]:
    return (ResourceUse((node, resource), amount, offered.get(resource, 0)) for resource, amount in asked)

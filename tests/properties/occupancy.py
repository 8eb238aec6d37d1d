"""What is on which node and device: amounts, places, and whether one more pod would fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.node import MigStrategy, Node, TaintEffect
from fairpool.model.node_role import role_objection
from fairpool.model.quantity import WHOLE_GPU_MILLI, portion_memory_mib
from fairpool.model.workload import GpuKind, NodeSelectorOperator, NodeSelectorRequirement, Pod, PodGroup

AWAY = frozenset({TaintEffect.NO_SCHEDULE, TaintEffect.NO_EXECUTE})


class Occupancy:
    """The pods of one node."""

    def __init__(self, node: Node, pods: Iterable[Pod] = ()) -> None:
        self.node = node
        self.cpu_milli = self.memory_bytes = self.pods = 0
        self.device: Counter[int] = Counter()
        """Of each device: MiB in use, or thousandths where its memory is not known."""
        self.counted: Counter[str] = Counter()
        """MIG instances and extended resources."""
        for pod in pods:
            self.add(pod)

    @property
    def countable(self) -> dict[str, int]:
        return {**self.node.mig_instances, **self.node.extended}

    @property
    def device_size(self) -> int:
        return self.node.gpu_memory_mib or WHOLE_GPU_MILLI

    def part(self, pod: Pod) -> int:
        """What a pod uses of each of its devices."""
        gpu = pod.shape.gpu
        if gpu.kind is GpuKind.MEMORY:
            return gpu.memory_mib if self.node.gpu_memory_mib else WHOLE_GPU_MILLI
        return max(1, portion_memory_mib(gpu.portion_milli, self.device_size))

    def add(self, pod: Pod) -> None:
        self.cpu_milli += pod.shape.cpu_milli
        self.memory_bytes += pod.shape.memory_bytes
        self.pods += 1
        self.counted.update(_counted(pod))
        for device in pod.devices:
            self.device[device] += self.part(pod)

    def excess(self) -> list[str]:
        """Everything there is more of than the node has."""
        node = self.node
        found = [
            f"{used} of {size} {what} of {node.name}"
            for what, used, size in (
                ("CPU milli", self.cpu_milli, node.cpu_milli),
                ("bytes", self.memory_bytes, node.memory_bytes),
                ("pods", self.pods, node.pods_max),
                *((name, used, self.countable.get(name, 0)) for name, used in self.counted.items()),
            )
            if used > size
        ]
        for device, used in sorted(self.device.items()):
            if not 0 <= device < node.gpus or device in node.gpus_withheld:
                found.append(f"device {device} of {node.name} is not given out")
            elif used > self.device_size:
                found.append(f"{used} of {self.device_size} on device {device} of {node.name}")
        return found

    def devices_for(self, pod: Pod) -> tuple[int, ...] | None:
        """Devices with room for a pod, lowest first; None if there are too few."""
        gpu = pod.shape.gpu
        if gpu.kind is GpuKind.MEMORY and not self.node.gpu_memory_mib:
            return None
        room = [
            device
            for device in range(self.node.gpus)
            if device not in self.node.gpus_withheld and self.device[device] + self.part(pod) <= self.device_size
        ]
        return tuple(room[: gpu.devices]) if len(room) >= gpu.devices else None

    def has_room(self, pod: Pod) -> bool:
        """Room for amounts and devices; nothing about labels and taints."""
        return (
            self.cpu_milli + pod.shape.cpu_milli <= self.node.cpu_milli
            and self.memory_bytes + pod.shape.memory_bytes <= self.node.memory_bytes
            and self.pods + 1 <= self.node.pods_max
            and all(self.counted[name] + count <= self.countable.get(name, 0) for name, count in _counted(pod).items())
            and self.devices_for(pod) is not None
        )


def _counted(pod: Pod) -> dict[str, int]:
    return {**dict(pod.shape.gpu.mig), **dict(pod.shape.extended)}


def admits(node: Node, pod: Pod, group: PodGroup) -> bool:
    """Whether a pod may go to a node at all: health, kind of GPUs, labels, taints, nodes that refused it."""
    return (
        node.is_healthy
        and role_objection(node.role, on_gpus=pod.shape.gpu.kind is not GpuKind.NONE) is None
        and _offers(node, pod.shape.gpu.kind)
        and node.name not in group.avoid
        and (
            not pod.shape.node_rules or any(all(_holds(rule, node) for rule in rules) for rules in pod.shape.node_rules)
        )
        and all(
            any(toleration.covers(taint) for toleration in pod.shape.tolerations)
            for taint in node.taints
            if taint.effect in AWAY
        )
    )


def _offers(node: Node, kind: GpuKind) -> bool:
    """MIG instances, devices that are cut into none, or nothing but claims of devices."""
    if kind is GpuKind.NONE:
        return True
    if kind is GpuKind.MIG or node.mig_strategy is MigStrategy.MIXED:
        return kind is GpuKind.MIG and node.mig_strategy is MigStrategy.MIXED
    return not node.claim_devices and (kind is GpuKind.WHOLE or node.mig_strategy is None)


def _holds(rule: NodeSelectorRequirement, node: Node) -> bool:
    value = node.labels.get(rule.key)
    match rule.operator:
        case NodeSelectorOperator.IN:
            return value in rule.values
        case NodeSelectorOperator.NOT_IN:
            return value not in rule.values
        case NodeSelectorOperator.EXISTS:
            return value is not None
        case NodeSelectorOperator.DOES_NOT_EXIST:
            return value is None
    if value is None or not value.isdecimal():
        return False
    return (
        int(value) > int(rule.values[0])
        if rule.operator is NodeSelectorOperator.GT
        else int(value) < int(rule.values[0])
    )


def holds_now(pod: Pod) -> bool:
    return pod.phase in HOLDS_DEVICES


def holds_soon(pod: Pod) -> bool:
    """Will hold its place when the pods that leave have left."""
    return pod.phase in HOLDS_DEVICES | {PodPhase.PROMISED} and pod.phase is not PodPhase.RELEASING

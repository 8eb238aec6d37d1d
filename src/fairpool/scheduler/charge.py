"""What a pod is charged and what it occupies, by shape and node.

Charged: thousandths of a GPU, against quotas and limits, by the rule in `model/precedence.py`. Occupied: MiB of
particular devices on a node.
"""

from __future__ import annotations

from collections.abc import Iterable

from fairpool.model.node import Node
from fairpool.model.precedence import gpus_charged_milli, rounded_portion_milli
from fairpool.model.quantity import WHOLE_GPU_MILLI, portion_memory_mib
from fairpool.model.workload import GpuKind, PodShape
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.queues import Vector

BEST_EFFORT_CPU_MILLI = 10
BEST_EFFORT_MEMORY_BYTES = 10 * 2**20


class Charges:
    """Conversions for one snapshot: they depend on the policy and on the devices there are."""

    def __init__(self, nodes: Iterable[Node], policy: Policy) -> None:
        self.policy = policy
        known = [(not node.is_healthy, self.device_mib(node)) for node in nodes if node.gpus and node.gpu_memory_mib]
        # Of the nodes that work; of the others only if none does.
        self.smallest_device_mib = policy.smallest_device_mib or min(known, default=(True, 0))[1]

    def device_mib(self, node: Node) -> int:
        """Memory of each device of a node; where it is not known, a thousandth of the device counts as a MiB."""
        step = self.policy.device_memory_step_mib
        return node.gpu_memory_mib // step * step or WHOLE_GPU_MILLI

    def waiting_milli(self, shape: PodShape) -> int:
        """GPUs a pod is charged before its node is known: memory as on the smallest device, and not rounded."""
        step = 1 if shape.gpu.kind is GpuKind.MEMORY else self.policy.portion_step_milli
        return self._charged_milli(shape, self.smallest_device_mib, step)

    def placed_milli(self, shape: PodShape, device_mib: int) -> int:
        """GPUs a pod is charged on a node with devices of this size."""
        return self._charged_milli(shape, device_mib, self.policy.portion_step_milli)

    def _charged_milli(self, shape: PodShape, device_mib: int, step_milli: int) -> int:
        slices = self.policy.mig_slices_per_gpu
        return gpus_charged_milli(shape.gpu, device_mib, portion_step_milli=step_milli, mig_slices_per_gpu=slices)

    def occupied_mib(self, shape: PodShape, device_mib: int) -> int:
        """Memory that a pod takes of each shared device it is on."""
        gpu = shape.gpu
        if gpu.kind is GpuKind.MEMORY:
            return gpu.memory_mib
        return max(1, portion_memory_mib(rounded_portion_milli(gpu, self.policy.portion_step_milli), device_mib))


def _sums(amounts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = {}
    for name, amount in amounts:
        if amount:
            sums[name] = sums.get(name, 0) + amount
    return sums


class ShapeFacts:
    """What a shape is charged and occupies, computed once."""

    def __init__(self, shape: PodShape, charges: Charges) -> None:
        gpu = shape.gpu
        self.shape = shape
        self.charges = charges
        self.cpu_milli = shape.cpu_milli
        self.memory_bytes = shape.memory_bytes
        self.on_gpus = gpu.kind is not GpuKind.NONE
        self.whole = gpu.devices if gpu.kind is GpuKind.WHOLE else 0
        """Whole devices it takes."""
        self.shared = gpu.devices if gpu.kind in (GpuKind.PORTION, GpuKind.MEMORY) else 0
        """Devices it shares."""
        self.others = tuple(sorted(_sums((*shape.extended, *gpu.mig)).items()))
        """Other resources and how much of each."""
        self.is_best_effort = (
            charges.policy.best_effort_need_not_wait
            and shape.cpu_milli < BEST_EFFORT_CPU_MILLI
            and shape.memory_bytes < BEST_EFFORT_MEMORY_BYTES
            and gpu.kind is GpuKind.NONE
        )
        """Requests next to nothing, so that it need not wait for idle resources."""
        self.waiting: Vector = (charges.waiting_milli(shape), shape.cpu_milli, shape.memory_bytes)
        """What it is charged before its node is known."""
        self._placed: dict[int, Vector] = {}
        self._occupied_mib: dict[int, int] = {}

    def placed(self, device_mib: int) -> Vector:
        """What it is charged on a node with devices of this size."""
        known = self._placed.get(device_mib)
        if known is None:
            milli = self.charges.placed_milli(self.shape, device_mib)
            known = self._placed[device_mib] = (milli, self.cpu_milli, self.memory_bytes)
        return known

    def occupied_mib(self, device_mib: int) -> int:
        """Memory it takes of each shared device of this size."""
        known = self._occupied_mib.get(device_mib)
        if known is None:
            known = self._occupied_mib[device_mib] = self.charges.occupied_mib(self.shape, device_mib)
        return known

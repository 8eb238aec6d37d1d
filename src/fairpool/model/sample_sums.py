"""Samples of nodes as sums over their pods, and of devices that do not exist.

A value that is not known of some pods, because they have just started, is the sum over the others; if it is known of no
pod there, it is not known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fairpool.model.ids import NodeName
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample
from fairpool.model.workload import GpuRequest

MIB = 1 << 20
FULL = 100.0


def simulated_use(
    devices: Sequence[int], gpu: GpuRequest, memory_mib: int, busy: float | None, memory_bytes: int | None
) -> tuple[DeviceUse, ...]:
    """What a pod has of devices that do not exist, each with so much memory.

    `busy`: how many devices it keeps busy, which is shared among its own; one that has a portion is busy for that part
    of the time at most. Its memory is shared among them in the same way.
    """
    if not devices:
        return ()
    own_mib = gpu.own_memory_mib(memory_mib)
    part = own_mib / memory_mib if gpu.memory_mib and memory_mib else min(gpu.portion_milli / WHOLE_GPU_MILLI, 1.0)
    utilization = None if busy is None else min(busy / len(devices), 1.0) * part * FULL
    memory = None if memory_bytes is None else min(memory_bytes // len(devices), own_mib * MIB)
    return tuple(DeviceUse(index=index, utilization=utilization, memory_bytes=memory) for index in devices)


def simulated_devices(indexes: Iterable[int], pods: Sequence[PodSample]) -> tuple[DeviceSample, ...]:
    """Devices that do not exist, with what their pods have of them."""
    by_index: dict[int, list[DeviceUse]] = {}
    for pod in pods:
        for use in pod.devices:
            by_index.setdefault(use.index, []).append(use)
    return tuple(_simulated_device(index, by_index.get(index, ())) for index in indexes)


def summed_node(
    node: NodeName, pods: Sequence[PodSample], devices: tuple[DeviceSample, ...], *, is_simulated: bool
) -> NodeSample:
    """A node that has what its pods use."""
    memory = total([pod.memory_bytes for pod in pods])
    return NodeSample(
        node=node,
        cpu_cores=total([pod.cpu_cores for pod in pods]),
        memory_bytes=None if memory is None else int(memory),
        received_bytes_s=total([pod.received_bytes_s for pod in pods]),
        sent_bytes_s=total([pod.sent_bytes_s for pod in pods]),
        read_bytes_s=total([pod.read_bytes_s for pod in pods]),
        written_bytes_s=total([pod.written_bytes_s for pod in pods]),
        is_simulated=is_simulated,
        devices=devices,
        pods=tuple(pods),
    )


def total(values: Sequence[float | None]) -> float | None:
    """The sum of those that are known; None if there are some and none is known."""
    known = [value for value in values if value is not None]
    return None if values and not known else float(sum(known))


def _simulated_device(index: int, uses: Sequence[DeviceUse]) -> DeviceSample:
    utilization, memory = total([use.utilization for use in uses]), total([use.memory_bytes for use in uses])
    return DeviceSample(
        index=index,
        utilization=None if utilization is None else min(utilization, FULL),
        memory_bytes=None if memory is None else int(memory),
    )

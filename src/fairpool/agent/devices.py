"""The nodes of this machine with their GPUs: real ones through NVML, else a simulated pair.

Several logical nodes may share the machine and so its boot: the simulated pair does, and so do groups of unlike GPUs,
because a node's devices are alike to the scheduler. Which of them are withheld is decided in `device_health.py`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from fairpool.agent.nvml import Gpu, Gpus
from fairpool.model.ids import NodeName
from fairpool.model.node import PRODUCT_LABEL, RUNTIME_LABEL, SIMULATED_LABEL, Node

PROCESS = "process"
"""The runtime without containers."""
V100_NAME = "Tesla V100-SXM2-32GB"
V100_MEMORY_MIB = 32_510
DGX1_GPUS = 8
DGX1_CPUS = 80
DGX1_MEMORY_BYTES = 512 * 10**9
PODS_MAX = 4096
"""Processes need no IP addresses of their own, so the customary 110 would be a limit for no reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogicalNode:
    """A node of this machine, and its devices by index."""

    node: Node
    gpus: tuple[Gpu, ...] = ()
    runtime: str = PROCESS
    """How its pods run: as processes of the machine, or in containers of podman or docker."""

    @property
    def is_simulated(self) -> bool:
        return any(gpu.is_simulated for gpu in self.gpus)


def with_runtime(node: LogicalNode, runtime: str) -> LogicalNode:
    """The same node with this runtime; its label shows where pods run in containers."""
    if runtime == PROCESS:
        return node
    return replace(node, runtime=runtime, node=replace(node.node, labels={**node.node.labels, RUNTIME_LABEL: runtime}))


def machine_nodes(gpus: Gpus) -> tuple[LogicalNode, ...]:
    """This machine's nodes: one for each kind of GPU it has, or the simulated pair if it has none."""
    found = gpus.devices()
    models = sorted({(gpu.name, gpu.memory_mib) for gpu in found if gpu.memory_mib})
    if not models:
        return simulated_pair()
    return tuple(_node_of_model(model, found, is_only=len(models) == 1) for model in models)


def simulated_pair() -> tuple[LogicalNode, ...]:
    """Two machines of the documented example, declared and not enforced: nothing here has 512 GB."""
    return (simulated_node("dgx1-1"), simulated_node("dgx1-2"))


def simulated_node(
    name: str,
    gpus: int = DGX1_GPUS,
    *,
    memory_mib: int = V100_MEMORY_MIB,
    product: str = V100_NAME,
    cpus: int = DGX1_CPUS,
    memory_bytes: int = DGX1_MEMORY_BYTES,
    labels: Mapping[str, str] = MappingProxyType({}),
) -> LogicalNode:
    """A node whose devices do not exist; its label, and `nvidia-smi` in its pods, show that."""
    devices = tuple(
        Gpu(index=index, uuid=f"SIM-{name}-{index}", name=product, memory_mib=memory_mib, is_simulated=True)
        for index in range(gpus)
    )
    own = {SIMULATED_LABEL: "true", PRODUCT_LABEL: product} if gpus else {SIMULATED_LABEL: "true"}
    node = Node(
        name=NodeName(name),
        cpu_milli=cpus * 1000,
        memory_bytes=memory_bytes,
        pods_max=PODS_MAX,
        gpus=gpus,
        gpu_memory_mib=memory_mib if gpus else 0,
        labels={**labels, **own},
    )
    return LogicalNode(node=node, gpus=devices)


def _node_of_model(model: tuple[str, int], found: Sequence[Gpu], *, is_only: bool) -> LogicalNode:
    name, memory_mib = model
    mine = [gpu for gpu in found if (gpu.name, gpu.memory_mib) == model or (is_only and not gpu.memory_mib)]
    devices = tuple(replace(gpu, index=index) for index, gpu in enumerate(mine))
    host = socket.gethostname()
    label = name.removeprefix("NVIDIA ").replace(" ", "-")
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    node = Node(
        name=NodeName(host if is_only else f"{host}-{label.lower()}"),
        # Where nodes share the machine, each gets of its cores and memory what its GPUs are of all GPUs.
        cpu_milli=(os.cpu_count() or 1) * 1000 * len(mine) // len(found),
        memory_bytes=memory_bytes * len(mine) // len(found),
        pods_max=PODS_MAX,
        gpus=len(devices),
        gpu_memory_mib=memory_mib,
        gpus_withheld=tuple(gpu.index for gpu in devices if gpu.error),
        labels={PRODUCT_LABEL: label},
    )
    return LogicalNode(node=node, gpus=devices)

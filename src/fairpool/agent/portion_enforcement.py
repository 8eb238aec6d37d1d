"""Enforcement of a pod's portion of a GPU, and a warning where it is not enforced.

TODO: the library that makes a real GPU's memory look like the portion; worth doing as soon as `native/` exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fairpool.agent.nvml import Gpu
from fairpool.model.workload import GpuRequest


@dataclass(frozen=True, slots=True)
class GpuPortion:
    """What limits a pod to its portion."""

    memory_mib: tuple[int, ...] = ()
    """Its share of the memory of each device it holds."""
    environment: tuple[tuple[str, str], ...] = ()
    """Variables that its processes need."""
    words: str = ""
    """A warning for the user."""


def enforce_portion(request: GpuRequest, gpus: Sequence[Gpu]) -> GpuPortion:
    """What a pod needs so that it sees and uses its portion of these devices and no more."""
    memory = tuple(request.own_memory_mib(gpu.memory_mib) for gpu in gpus)
    is_part = any(own < gpu.memory_mib for own, gpu in zip(memory, gpus, strict=True))
    is_real = any(not gpu.is_simulated for gpu in gpus)
    words = "the limit on its share of GPU memory is not enforced" if is_part and is_real else ""
    return GpuPortion(memory_mib=memory, words=words)

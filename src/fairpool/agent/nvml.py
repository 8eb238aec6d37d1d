"""The only module that knows NVML: which GPUs a machine has, and which processes compute on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device of this machine, real or simulated."""

    index: int
    """Among the devices of its node."""
    uuid: str
    name: str
    memory_mib: int
    is_simulated: bool = False
    is_broken: bool = False


class Gpus(Protocol):
    """What is asked of a machine's GPUs; NVML answers, or a fake with the same face."""

    def devices(self) -> Sequence[Gpu]:
        """Those there are; none where there is no driver."""

    def processes(self, uuid: str) -> Sequence[int]:
        """Who computes on a device now."""


class NoGpus:
    """A machine without GPUs or without a driver."""

    def devices(self) -> Sequence[Gpu]:
        return ()

    def processes(self, uuid: str) -> Sequence[int]:
        return ()


class NvmlGpus:
    """The machine's GPUs as the driver sees them."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def devices(self) -> Sequence[Gpu]:
        return tuple(self._device(index) for index in range(self._nvml.nvmlDeviceGetCount()))

    def processes(self, uuid: str) -> Sequence[int]:
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(uuid)
            return tuple(process.pid for process in self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        except self._nvml.NVMLError:
            return ()

    def _device(self, index: int) -> Gpu:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return Gpu(
                index=index,
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                name=_text(nvml.nvmlDeviceGetName(handle)),
                memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
            )
        except nvml.NVMLError as error:
            # It keeps its place, or every device after it would change its number.
            return Gpu(index=index, uuid=f"broken-{index}", name=str(error), memory_mib=0, is_broken=True)


def find_gpus() -> Gpus:
    """NVML where its library and a driver are installed, else nothing."""
    try:
        import pynvml
    except ImportError:
        return NoGpus()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return NoGpus()
    return NvmlGpus(pynvml)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""NVML: which GPUs a machine has, which processes use them, and how much of their memory is in use.

The only module that imports it. What the driver reports on a real machine is in `docs/reference/real-gpus.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

MIB = 1 << 20
MIG_MODE = "it is in MIG mode, which is not supported yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One device of this machine, real or simulated."""

    index: int
    """Among the devices of its node."""
    uuid: str
    name: str
    memory_mib: int
    """0: it is broken and does not report it."""
    is_simulated: bool = False
    error: str = ""
    """Why it is never scheduled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUse:
    """How a device is used now, as far as is visible from here."""

    computing: Sequence[int] = ()
    """Processes that compute. Those of other containers are not among them, although their memory is in use."""
    memory_bytes: int | None = None
    """Memory in use, beyond what the driver keeps for itself; None: it is not reported."""
    by_process: tuple[tuple[int, int], ...] = ()
    """Processes, also those that only render graphics, and how much of that memory each of them has."""


class Gpus(Protocol):
    """Queries of a machine's GPUs; implemented by NVML, or a fake."""

    @property
    def error(self) -> str:
        """Why the driver cannot be queried although it is installed."""

    def devices(self) -> Sequence[Gpu]:
        """Those there are; none where there is no driver."""

    def use(self, uuid: str) -> GpuUse | None:
        """How a device is used now; None: it does not respond."""


@dataclass(frozen=True, slots=True)
class NoGpus:
    """A machine without GPUs or without a driver that responds."""

    error: str = ""

    def devices(self) -> Sequence[Gpu]:
        return ()

    def use(self, uuid: str) -> GpuUse | None:
        return None


class NvmlGpus:
    """The machine's GPUs as the driver sees them."""

    error = ""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml

    def devices(self) -> Sequence[Gpu]:
        return tuple(self._device(index) for index in range(self._nvml.nvmlDeviceGetCount()))

    def use(self, uuid: str) -> GpuUse | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            before = self._memory_bytes(handle)
            computing = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLError:
            return None
        listed = [*computing, *self._drawing(handle)]
        after = self._memory_bytes(handle)
        is_known = before is not None and after is not None and all(each.usedGpuMemory is not None for each in listed)
        return GpuUse(
            computing=tuple(each.pid for each in computing),
            # Read before and after: a process that came or left in between is in the larger of the two values.
            memory_bytes=min(before, after) if is_known else None,
            by_process=tuple((each.pid, each.usedGpuMemory) for each in listed) if is_known else (),
        )

    def _drawing(self, handle: Any) -> Sequence[Any]:
        try:
            drawing: Sequence[Any] = self._nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
            return drawing
        except self._nvml.NVMLError:
            return ()

    def _memory_bytes(self, handle: Any) -> Any:
        """Only version 2 of the structure leaves out what the driver keeps: 615 MiB of an idle H200."""
        try:
            return self._nvml.nvmlDeviceGetMemoryInfo(handle, self._nvml.nvmlMemory_v2).used
        except self._nvml.NVMLError:
            return None

    def _device(self, index: int) -> Gpu:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            return Gpu(
                index=index,
                uuid=_text(nvml.nvmlDeviceGetUUID(handle)),
                name=_text(nvml.nvmlDeviceGetName(handle)),
                memory_mib=nvml.nvmlDeviceGetMemoryInfo(handle).total // MIB,
                error=MIG_MODE if self._is_partitioned(handle) else "",
            )
        except nvml.NVMLError as error:
            # It keeps its index, or all devices after it would change theirs.
            return Gpu(index=index, uuid=f"broken-{index}", name="", memory_mib=0, error=f"the driver reports {error}")

    def _is_partitioned(self, handle: Any) -> bool:
        try:
            current, _ = self._nvml.nvmlDeviceGetMigMode(handle)
        except self._nvml.NVMLError:  # most models have no partitions
            return False
        return bool(current)


def find_gpus() -> Gpus:
    """NVML where its library and a driver are installed, else nothing."""
    try:
        import pynvml
    except ImportError:
        return NoGpus()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        is_installed = not isinstance(error, pynvml.NVMLError_LibraryNotFound)
        return NoGpus(f"the NVIDIA driver is installed but does not respond ({error})" if is_installed else "")
    return NvmlGpus(pynvml)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

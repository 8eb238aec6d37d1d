"""NVML: which GPUs a machine has, which processes use them, and how much of each is in use.

The only module that imports it. What the driver reports on a real machine is in `docs/reference/real-gpus.md`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessUse:
    """What one process had of a device."""

    utilization: float | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMeasure:
    """What a device did in a span of time. None: the device does not report it."""

    until: int = 0
    """The end of that span by the driver's clock: where the next one begins."""
    utilization: float | None = None
    """Percent of the time in which it computed."""
    memory_bytes: int | None = None
    power_watts: float | None = None
    temperature_celsius: float | None = None
    clock_mhz: float | None = None
    """Of its multiprocessors."""
    errors: int | None = None
    """Uncorrected memory errors since the driver was loaded."""
    processes: Mapping[int, ProcessUse] = field(default_factory=dict)
    """Those listed now, and those that ended in that span and computed."""
    computing: frozenset[int] = frozenset()
    """Those listed as computing."""


class Gpus(Protocol):
    """Queries of a machine's GPUs; implemented by NVML, or a fake."""

    @property
    def error(self) -> str:
        """Why the driver cannot be queried although it is installed."""

    def devices(self) -> Sequence[Gpu]:
        """Those there are; none where there is no driver."""

    def use(self, uuid: str) -> GpuUse | None:
        """How a device is used now; None: it does not respond."""

    def measure(self, uuid: str, since: int = 0) -> GpuMeasure | None:
        """What a device did since then, by the driver's clock; None: it does not respond.

        `since` is the end of the last measure. 0: since when is not known, a few seconds.
        """


@dataclass(frozen=True, slots=True)
class NoGpus:
    """A machine without GPUs or without a driver that responds."""

    error: str = ""

    def devices(self) -> Sequence[Gpu]:
        return ()

    def use(self, uuid: str) -> GpuUse | None:
        return None

    def measure(self, uuid: str, since: int = 0) -> GpuMeasure | None:
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

    def measure(self, uuid: str, since: int = 0) -> GpuMeasure | None:
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            computing = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
        except nvml.NVMLError:
            return None
        utilization, until, since = self._utilization(handle, since)
        by_process, last = self._process_utilization(handle, since)
        memory = {each.pid: each.usedGpuMemory for each in (*computing, *self._drawing(handle))}
        idle = None if by_process is None else 0.0
        return GpuMeasure(
            until=until or last or since,
            utilization=utilization,
            memory_bytes=self._memory_bytes(handle),
            power_watts=_scaled(self._asked("nvmlDeviceGetPowerUsage", handle), 1 / 1000),
            temperature_celsius=_scaled(self._asked("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)),
            clock_mhz=_scaled(self._asked("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)),
            errors=self._asked(
                "nvmlDeviceGetTotalEccErrors",
                handle,
                nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                nvml.NVML_VOLATILE_ECC,
            ),
            processes={
                pid: ProcessUse(
                    utilization=(by_process or {}).get(pid, idle),
                    memory_bytes=memory.get(pid, 0),
                )
                for pid in {*memory, *(by_process or ())}
            },
            computing=frozenset(each.pid for each in computing),
        )

    def _utilization(self, handle: Any, since: int) -> tuple[float | None, int, int]:
        """The mean of the driver's samples after `since`, when the last of them was taken, and since when it is: 0 if
        the clock was set back meanwhile, because the driver dates its samples by the time of day."""
        kind = self._nvml.NVML_GPU_UTILIZATION_SAMPLES
        samples = self._samples("nvmlDeviceGetSamples", handle, kind, since)
        if not samples and since:
            earlier = self._samples("nvmlDeviceGetSamples", handle, kind, 0)
            if earlier and max(each.timeStamp for each in earlier) < since:
                samples, since = earlier, 0
        if not samples:
            # Of the last second at most; this is what devices without a buffer of samples report.
            rates = self._asked("nvmlDeviceGetUtilizationRates", handle) if samples is None else None
            return (float(rates.gpu) if rates is not None else None), 0, since
        mean = sum(each.sampleValue.uiVal for each in samples) / len(samples)
        return mean, max(each.timeStamp for each in samples), since

    def _process_utilization(self, handle: Any, since: int) -> tuple[dict[int, float] | None, int]:
        """Percent of the time since then in which each process computed, and when the last of them did. None: the
        device does not report it by process. A process that is not in it did not compute."""
        rows = self._samples("nvmlDeviceGetProcessUtilization", handle, since)
        if rows is None:
            return None, 0
        values: dict[int, list[int]] = {}
        for each in rows:
            values.setdefault(each.pid, []).append(each.smUtil)
        found = {pid: sum(own) / len(own) for pid, own in values.items()}
        return found, max((each.timeStamp for each in rows), default=0)

    def _samples(self, function: str, *arguments: Any) -> Sequence[Any] | None:
        """Rows of the driver's buffers; None: the device has no such buffer."""
        try:
            found = getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError as error:
            # Nothing is newer. The binding raises also where the driver succeeds with no rows.
            is_empty = getattr(error, "value", None) in (self._nvml.NVML_SUCCESS, self._nvml.NVML_ERROR_NOT_FOUND)
            return () if is_empty else None
        # With the type of the values, where they can have several.
        rows: Sequence[Any] = found[1] if isinstance(found, tuple) else found
        return rows

    def _asked(self, function: str, *arguments: Any) -> Any:
        """None: this device does not report it."""
        try:
            return getattr(self._nvml, function)(*arguments)
        except self._nvml.NVMLError:
            return None

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


def _scaled(value: int | None, factor: float = 1.0) -> float | None:
    return None if value is None else value * factor


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value

"""NVML as it answered on a machine with one NVIDIA H200 (driver 580.159.04), with processes that a test invents.

Figures and shapes are those of a transcript: total memory, what the driver keeps of it, what a process with one CUDA
context has beside its own allocations, by how much the sum of all processes falls short of what is in use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

MIB = 1 << 20
H200 = "NVIDIA H200"
H200_TOTAL = 150_754_820_096
H200_MIB = 143_771
RESERVED = 644_939_776
CONTEXT = 543_162_368
"""What a process has beside the memory it asked for."""
UNLISTED = 9_240_576
"""In use for each process, and listed for none."""
MEMORY_V2 = 33_554_472
SAMPLE_US = 200_000
"""Between two samples of its utilization; about 70 are kept."""


@dataclass
class Device:
    """One GPU, and what happens on it."""

    name: str = H200
    total: int = H200_TOTAL
    processes: dict[int, int] = field(default_factory=dict)
    """Who computes, and how much memory each has asked for, in MiB."""
    hidden: dict[int, int] = field(default_factory=dict)
    """The same, of processes in another container: the driver does not list them."""
    drawing: dict[int, int] = field(default_factory=dict)
    """Processes that draw, and their memory in MiB."""
    is_lost: bool = False
    is_partitioned: bool = False
    tells_memory: bool = True
    utilization: list[int] = field(default_factory=list)
    """The driver's samples, the last one taken at `now`; none: the device does not keep any."""
    now: int = 1_794_935_241_655_476
    """By the driver's clock, in microseconds."""
    computed: dict[int, int] = field(default_factory=dict)
    """Percent of the time in which each process computed."""
    tells_processes: bool = True
    """Whether it reports utilization by process."""
    tells_health: bool = True
    """Whether it reports power, temperature, clock and errors."""
    errors: int = 0


class FakeNvml:
    """As much of NVML's face as we use."""

    nvmlMemory_v2 = MEMORY_V2
    NVML_SUCCESS, NVML_ERROR_NOT_SUPPORTED, NVML_ERROR_NOT_FOUND = 0, 3, 6
    NVML_TEMPERATURE_GPU, NVML_CLOCK_SM, NVML_GPU_UTILIZATION_SAMPLES = 0, 1, 1
    NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC = 1, 0

    class NVMLError(Exception):
        """What NVML raises."""

        value = 3

    def __init__(self, *devices: Device) -> None:
        self.devices = devices

    def nvmlDeviceGetCount(self) -> int:
        return len(self.devices)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Device:
        return self._answering(self.devices[index])

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Device:
        return self._answering(self.devices[int(uuid.removeprefix("GPU-"))])

    def nvmlDeviceGetUUID(self, device: Device) -> str:
        return f"GPU-{next(index for index, each in enumerate(self.devices) if each is device)}"

    def nvmlDeviceGetName(self, device: Device) -> str:
        return device.name

    def nvmlDeviceGetMigMode(self, device: Device) -> list[int]:
        return [int(device.is_partitioned), int(device.is_partitioned)]

    def nvmlDeviceGetMemoryInfo(self, device: Device, version: int = 1) -> SimpleNamespace:
        if version == MEMORY_V2 and not device.tells_memory:
            raise self.NVMLError("Argument Version Mismatch")
        all_processes = [*device.processes.values(), *device.hidden.values()]
        used = sum(CONTEXT + mib * MIB + UNLISTED for mib in all_processes) + sum(device.drawing.values()) * MIB
        kept = 0 if version == MEMORY_V2 else RESERVED
        return SimpleNamespace(total=device.total, free=device.total - RESERVED - used, used=used + kept)

    def nvmlDeviceGetComputeRunningProcesses(self, device: Device) -> Sequence[SimpleNamespace]:
        return [_row(pid, CONTEXT + mib * MIB) for pid, mib in self._answering(device).processes.items()]

    def nvmlDeviceGetGraphicsRunningProcesses(self, device: Device) -> Sequence[SimpleNamespace]:
        return [_row(pid, mib * MIB) for pid, mib in device.drawing.items()]

    def nvmlDeviceGetSamples(self, device: Device, kind: int, since: int) -> tuple[int, Sequence[SimpleNamespace]]:
        if not device.utilization:
            raise self._error(self.NVML_ERROR_NOT_SUPPORTED, "Not Supported")
        first = device.now - SAMPLE_US * (len(device.utilization) - 1)
        dated = [(first + SAMPLE_US * place, percent) for place, percent in enumerate(device.utilization)]
        rows = [
            SimpleNamespace(timeStamp=at, sampleValue=SimpleNamespace(uiVal=percent))
            for at, percent in dated
            if at > since
        ]
        if not rows:
            raise self._error(self.NVML_ERROR_NOT_FOUND, "Not Found")
        return kind, rows

    def nvmlDeviceGetUtilizationRates(self, device: Device) -> SimpleNamespace:
        return SimpleNamespace(gpu=sum(device.computed.values()), memory=0)

    def nvmlDeviceGetProcessUtilization(self, device: Device, since: int) -> Sequence[SimpleNamespace]:
        if not device.tells_processes:
            raise self._error(self.NVML_ERROR_NOT_SUPPORTED, "Not Supported")
        if not device.computed or device.now <= since:
            raise self._error(self.NVML_ERROR_NOT_FOUND, "Not Found")
        return [SimpleNamespace(pid=pid, timeStamp=device.now, smUtil=own) for pid, own in device.computed.items()]

    def nvmlDeviceGetPowerUsage(self, device: Device) -> int:
        return self._health(device, 77_173)

    def nvmlDeviceGetTemperature(self, device: Device, _sensor: int) -> int:
        return self._health(device, 36)

    def nvmlDeviceGetClockInfo(self, device: Device, _clock: int) -> int:
        return self._health(device, 345)

    def nvmlDeviceGetTotalEccErrors(self, device: Device, _kind: int, _counter: int) -> int:
        return self._health(device, device.errors)

    def _health(self, device: Device, value: int) -> int:
        if not device.tells_health:
            raise self._error(self.NVML_ERROR_NOT_SUPPORTED, "Not Supported")
        return value

    def _error(self, value: int, words: str) -> NVMLError:
        error = self.NVMLError(words)
        error.value = value
        return error

    def _answering(self, device: Device) -> Device:
        if device.is_lost:
            raise self.NVMLError("GPU is lost")
        return device


def _row(pid: int, used: int) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, usedGpuMemory=used, gpuInstanceId=0xFFFFFFFF, computeInstanceId=0xFFFFFFFF)

"""GPUs of a machine as `nvidia-smi` reports them, and what follows for the machine and for all of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

FIELDS = ("index", "uuid", "driver_version", "utilization.gpu", "memory.used", "memory.total", "name")
QUERY = f"nvidia-smi --query-gpu={','.join(FIELDS)} --format=csv,noheader,nounits"
GPUS_MAX = 256
"""Of one machine. What a machine sends beyond that is not kept."""
TEXT_MAX = 80


@dataclass(frozen=True, slots=True)
class GpuSample:
    """One GPU at one moment; None: the driver does not say."""

    index: int
    uuid: str
    name: str
    driver: str
    utilization: float | None
    used_mib: float | None
    total_mib: float | None


@dataclass(frozen=True, slots=True)
class HostSample:
    """The GPUs of one machine, or why there are none."""

    host: str
    gpus: tuple[GpuSample, ...] = ()
    problem: str = ""

    @property
    def driver(self) -> str:
        return self.gpus[0].driver if self.gpus else ""

    @property
    def usage(self) -> Usage:
        return Usage(
            _mean([each.utilization for each in self.gpus]),
            _sum([each.used_mib for each in self.gpus]),
            _sum([each.total_mib for each in self.gpus]),
        )


@dataclass(frozen=True, slots=True)
class Usage:
    """Utilization in percent and memory in MiB, of a GPU, a machine or all machines."""

    utilization: float | None
    used_mib: float | None
    total_mib: float | None

    @property
    def memory_percent(self) -> float | None:
        if self.used_mib is None or not self.total_mib:
            return None
        return 100 * self.used_mib / self.total_mib


def usage_of_gpu(gpu: GpuSample) -> Usage:
    return Usage(gpu.utilization, gpu.used_mib, gpu.total_mib)


def usage_of_all(hosts: Sequence[HostSample]) -> Usage:
    """Utilization is the mean of the machines, memory the sum; machines that cannot be asked do not count."""
    known = [each.usage for each in hosts if each.gpus]
    return Usage(
        _mean([each.utilization for each in known]),
        _sum([each.used_mib for each in known]),
        _sum([each.total_mib for each in known]),
    )


def parsed(lines: Sequence[str]) -> tuple[GpuSample, ...] | None:
    """The answer to `QUERY`; None if it is none."""
    found = [_gpu(line) for line in lines[:GPUS_MAX]]
    known = [each for each in found if each is not None]
    return tuple(known) if len(known) == len(found) else None


def _gpu(line: str) -> GpuSample | None:
    parts = [part.strip() for part in line.split(",", len(FIELDS) - 1)]
    if len(parts) != len(FIELDS) or not (parts[0].isascii() and parts[0].isdecimal() and len(parts[0]) < 6):
        return None
    index, uuid, driver, utilization, used, total, name = parts
    texts = (uuid[:TEXT_MAX], name[:TEXT_MAX], driver[:TEXT_MAX])
    return GpuSample(int(index), *texts, _number(utilization), _number(used), _number(total))


def _number(text: str) -> float | None:
    """A number that a GPU can have; `[N/A]` and nonsense are none."""
    is_plain = text.isascii() and text.replace(".", "", 1).isdecimal() and len(text) < 12
    return float(text) if is_plain else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None


def _sum(values: Sequence[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return sum(known) if known else None

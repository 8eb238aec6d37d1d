"""The names of metrics, as programs ask for them, and what each of them is made of. Pure.

A name that the original has and that is not measured here is refused by name: no value is invented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from fairpool.metrics.catalogue import DeviceColumn, NodeColumn, PlaceColumn, PodDeviceColumn, QueueColumn, WorkColumn
from fairpool.model.problem import Problem

MB: Final = 1000**2


class Factor(StrEnum):
    """What a factor is taken from that belongs to the subject, not to the metric."""

    ONE = "one"
    CPU_PERCENT = "cpu percent"
    """Cores as a percentage of those of the node."""
    MEMORY_PERCENT = "memory percent"
    GPU_MEMORY = "gpu memory"
    """Whole GPUs as bytes of their memory."""
    GPU_MEMORY_PERCENT = "gpu memory percent"
    CPU_LIMIT = "cpu limit"
    """Pods as the limits that their workload gives each of them."""
    MEMORY_LIMIT = "memory limit"


@dataclass(frozen=True, slots=True)
class Part:
    """One series of a metric: columns with their factors, added up."""

    terms: Mapping[int, float]
    labels: Mapping[str, str] = field(default_factory=dict)
    unit: Factor = Factor.ONE


@dataclass(frozen=True, slots=True)
class Metric:
    """A name, and the series that it stands for."""

    parts: Sequence[Part]
    per_gpu: bool = False
    is_idle_time: bool = False
    """Computed from the utilization of a device."""


def _column(column: int, factor: float = 1.0, unit: Factor = Factor.ONE) -> Metric:
    return Metric((Part({column: factor}, unit=unit),))


def _per_gpu(column: int, unit: Factor = Factor.ONE) -> Metric:
    return Metric((Part({column: 1.0}, unit=unit),), per_gpu=True)


BANDS = {
    "0-25": PlaceColumn.BAND_0_25,
    "25-50": PlaceColumn.BAND_25_50,
    "50-75": PlaceColumn.BAND_50_75,
    "75-100": PlaceColumn.BAND_75_100,
}

PLACE: Final[Mapping[str, Metric]] = {
    "TOTAL_GPU_NODES": _column(PlaceColumn.GPU_NODES),
    "TOTAL_GPU": _column(PlaceColumn.GPUS),
    "ALLOCATED_GPU": _column(PlaceColumn.GPUS_ALLOCATED),
    "UNALLOCATED_GPU": Metric((Part({PlaceColumn.GPUS: 1.0, PlaceColumn.GPUS_ALLOCATED: -1.0}),)),
    "GPU_QUOTA": _column(PlaceColumn.GPU_QUOTA),
    "GPU_UTILIZATION": _column(PlaceColumn.GPU_UTILIZATION),
    "GPU_UTILIZATION_DISTRIBUTION": Metric(
        tuple(Part({column: 1.0}, {"utilization": band}) for band, column in BANDS.items())
    ),
    "GPU_MEMORY_UTILIZATION": _column(PlaceColumn.GPU_MEMORY_UTILIZATION),
    "CPU_UTILIZATION": _column(PlaceColumn.CPU_UTILIZATION),
    "CPU_MEMORY_UTILIZATION": _column(PlaceColumn.MEMORY_UTILIZATION),
    "AVG_WORKLOAD_WAIT_TIME": _column(PlaceColumn.WAIT_S),
    "WORKLOADS_COUNT": Metric((Part({PlaceColumn.RUNNING: 1.0, PlaceColumn.PENDING: 1.0}),)),
    "RUNNING_WORKLOADS_COUNT": _column(PlaceColumn.RUNNING),
    "PENDING_WORKLOADS_COUNT": _column(PlaceColumn.PENDING),
    "PENDING_GPU": _column(PlaceColumn.PENDING_GPUS),
    "READY_GPU_NODES": _column(PlaceColumn.READY_GPU_NODES),
    "READY_GPU": _column(PlaceColumn.READY_GPUS),
    "FREE_GPU": _column(PlaceColumn.FREE_GPUS),
    "LARGEST_FREE_GPU_BLOCK": _column(PlaceColumn.LARGEST_FREE_GPUS),
    "ALLOCATED_GPU_OVER_QUOTA": _column(PlaceColumn.GPUS_OVER_QUOTA),
}
"""Of a cluster or node pool. The last eight are names of our own."""
BY_CATEGORY: Final[Mapping[str, Mapping[str, Metric]]] = {
    "GPU_UTILIZATION": {
        "Build": _column(PlaceColumn.GPU_UTILIZATION_BUILD),
        "Train": _column(PlaceColumn.GPU_UTILIZATION_TRAIN),
    }
}
_SHARES: Final[Mapping[str, Metric]] = {
    "GPU_FAIR_SHARE": _column(QueueColumn.GPU_FAIR_SHARE),
    "GPU_LIMIT": _column(QueueColumn.GPU_LIMIT),
    "GPU_ALLOCATION_IN_QUOTA": Metric((Part({QueueColumn.GPUS_ALLOCATED: 1.0, QueueColumn.GPUS_OVER_QUOTA: -1.0}),)),
    "GPU_ALLOCATION_OVER_QUOTA": _column(QueueColumn.GPUS_OVER_QUOTA),
    "GPU_LENT": _column(QueueColumn.GPUS_LENT),
    "GPU_BORROWED": Metric((Part({QueueColumn.GPUS_OVER_QUOTA: 1.0, QueueColumn.GPUS_FROM_UNASSIGNED: -1.0}),)),
    "GPU_FROM_UNASSIGNED": _column(QueueColumn.GPUS_FROM_UNASSIGNED),
    "GPU_PENDING": _column(QueueColumn.PENDING_GPUS),
    "RUNNING_WORKLOADS_COUNT": _column(QueueColumn.RUNNING),
    "PENDING_WORKLOADS_COUNT": _column(QueueColumn.PENDING),
}
"""Names of our own."""
BY_OWNER: Final[Mapping[str, Metric]] = {
    "ALLOCATED_GPU": _column(QueueColumn.GPUS_ALLOCATED),
    "GPU_QUOTA": _column(QueueColumn.GPU_QUOTA),
    "GPU_UTILIZATION": _column(QueueColumn.GPU_UTILIZATION),
    "GPU_MEMORY_UTILIZATION": _column(QueueColumn.GPU_MEMORY_UTILIZATION),
    "WORKLOADS_COUNT": Metric((Part({QueueColumn.RUNNING: 1.0, QueueColumn.PENDING: 1.0}),)),
    **_SHARES,
}
"""Of the projects or departments of a cluster."""

NODE: Final[Mapping[str, Metric]] = {
    "GPU_UTILIZATION_PER_GPU": _per_gpu(DeviceColumn.UTILIZATION),
    "GPU_UTILIZATION": _column(NodeColumn.GPU_UTILIZATION),
    "GPU_MEMORY_UTILIZATION_PER_GPU": _per_gpu(DeviceColumn.MEMORY_BYTES, Factor.GPU_MEMORY_PERCENT),
    "GPU_MEMORY_UTILIZATION": _column(NodeColumn.GPU_MEMORY_UTILIZATION),
    "GPU_MEMORY_USAGE_BYTES_PER_GPU": _per_gpu(DeviceColumn.MEMORY_BYTES),
    "GPU_MEMORY_USAGE_BYTES": _column(NodeColumn.GPU_MEMORY_BYTES),
    "GPU_ALLOCATION_PER_GPU": _per_gpu(DeviceColumn.ALLOCATED),
    "GPU_MEMORY_ALLOCATION_BYTES_PER_GPU": _per_gpu(DeviceColumn.ALLOCATED, Factor.GPU_MEMORY),
    "GPU_IDLE_TIME_SECONDS_PER_GPU": Metric((), per_gpu=True, is_idle_time=True),
    "CPU_USAGE_CORES": _column(NodeColumn.CPU_CORES),
    "CPU_UTILIZATION": _column(NodeColumn.CPU_CORES, unit=Factor.CPU_PERCENT),
    "CPU_MEMORY_USAGE_BYTES": _column(NodeColumn.MEMORY_BYTES),
    "CPU_MEMORY_UTILIZATION": _column(NodeColumn.MEMORY_BYTES, unit=Factor.MEMORY_PERCENT),
}

POD: Final[Mapping[str, Metric]] = {
    "GPU_UTILIZATION_PER_GPU": _per_gpu(PodDeviceColumn.UTILIZATION),
    "GPU_UTILIZATION": _column(WorkColumn.GPU_UTILIZATION),
    "GPU_MEMORY_USAGE_BYTES_PER_GPU": _per_gpu(PodDeviceColumn.MEMORY_BYTES),
    "GPU_MEMORY_USAGE_BYTES": _column(WorkColumn.GPU_MEMORY_BYTES),
    "CPU_USAGE_CORES": _column(WorkColumn.CPU_CORES),
    "CPU_MEMORY_USAGE_BYTES": _column(WorkColumn.MEMORY_BYTES),
}

WORKLOAD: Final[Mapping[str, Metric]] = {
    "GPU_UTILIZATION": _column(WorkColumn.GPU_UTILIZATION),
    "GPU_MEMORY_USAGE_BYTES": _column(WorkColumn.GPU_MEMORY_BYTES),
    "GPU_MEMORY_REQUEST_BYTES": _column(WorkColumn.GPU_MEMORY_BYTES_ALLOCATED),
    "GPU_ALLOCATION": _column(WorkColumn.GPUS_ALLOCATED),
    "CPU_USAGE_CORES": _column(WorkColumn.CPU_CORES),
    "CPU_REQUEST_CORES": _column(WorkColumn.CPU_CORES_ALLOCATED),
    "CPU_LIMIT_CORES": _column(WorkColumn.PODS, unit=Factor.CPU_LIMIT),
    "CPU_MEMORY_USAGE_BYTES": _column(WorkColumn.MEMORY_BYTES),
    "CPU_MEMORY_REQUEST_BYTES": _column(WorkColumn.MEMORY_BYTES_ALLOCATED),
    "CPU_MEMORY_LIMIT_BYTES": _column(WorkColumn.PODS, unit=Factor.MEMORY_LIMIT),
    "POD_COUNT": _column(WorkColumn.PODS),
    "RUNNING_POD_COUNT": _column(WorkColumn.RUNNING_PODS),
    "PROGRESS_PERCENT": _column(WorkColumn.PROGRESS_PERCENT),
}

OWNER: Final[Mapping[str, Metric]] = {
    "GPU_QUOTA": _column(QueueColumn.GPU_QUOTA),
    "CPU_QUOTA_MILLICORES": _column(QueueColumn.CPU_CORES_QUOTA, 1000.0),
    "CPU_MEMORY_QUOTA_MB": _column(QueueColumn.MEMORY_BYTES_QUOTA, 1 / MB),
    "GPU_ALLOCATION": _column(QueueColumn.GPUS_ALLOCATED),
    "CPU_ALLOCATION_MILLICORES": _column(QueueColumn.CPU_CORES_ALLOCATED, 1000.0),
    "CPU_MEMORY_ALLOCATION_MB": _column(QueueColumn.MEMORY_BYTES_ALLOCATED, 1 / MB),
    "GPU_UTILIZATION": _column(QueueColumn.GPU_UTILIZATION),
    "GPU_MEMORY_UTILIZATION": _column(QueueColumn.GPU_MEMORY_UTILIZATION),
    **_SHARES,
}
"""Of a project or department."""

_ENGINES = ("GRAPHICS_ENGINE", "SM", "TENSOR", "FP64_ENGINE", "FP32_ENGINE", "FP16_ENGINE")
_LINKS = ("NVLINK_TRANSMITTED", "NVLINK_RECEIVED", "PCIE_TRANSMITTED", "PCIE_RECEIVED")
_REQUESTS = ("TIME_TO_FIRST_TOKEN_SECONDS", "E2E_REQUEST_LATENCY_SECONDS")
NOT_MEASURED: Final = frozenset(
    {
        *(f"GPU_{each}_ACTIVITY_PER_GPU" for each in _ENGINES),
        *(f"GPU_{each}_BANDWIDTH_PER_GPU" for each in _LINKS),
        *(f"GPU_OOMKILL_{each}_COUNT_PER_GPU" for each in ("BURST", "IDLE", "SWAP_OUT_OF_RAM")),
        *(f"NIM_{each}{suffix}" for each in _REQUESTS for suffix in ("", "_PERCENTILES")),
        *(f"NIM_NUM_REQUEST{each}" for each in ("S_RUNNING", "S_WAITING", "_MAX")),
        *(f"NIM_REQUEST_{each}_TOTAL" for each in ("SUCCESS", "FAILURE")),
        *("NIM_GPU_CACHE_USAGE_PERC", "NVLINK_BANDWIDTH_TOTAL", "NVLINK_BANDWIDTH_TOTAL_PER_GPU"),
        *("GPU_SM_OCCUPANCY_PER_GPU", "GPU_MEMORY_BANDWIDTH_UTILIZATION_PER_GPU", "GPU_SWAP_MEMORY_BYTES_PER_GPU"),
    }
)
"""Names of the original for what no sampler here measures."""


def problem_with(name: str, there: Mapping[str, object], of: str) -> Problem | None:
    """Why there is no metric of this name."""
    if name in there:
        return None
    names = f"metrics of {of} are {', '.join(sorted(there))}"
    if name in NOT_MEASURED:
        return Problem("metric.not_measured", f"{name} is not measured here", names)
    return Problem("metric.unknown", f"there is no metric {name[:64]!r} of {of}", names)

"""What is kept of each kind of subject: the columns of its samples, and where a subject's samples are.

Columns are only ever added at the end of a kind: blocks on the disk have those of their time.
"""

from __future__ import annotations

from enum import IntEnum, auto
from zlib import crc32

BUCKETS = 64
"""Workloads of a cluster are kept in so many groups: one row each for 10 s, however many workloads there are."""
OWNER_BUCKETS = 16
"""The same of projects and departments."""


class SampleColumn(IntEnum):
    """The first column of a sample is its coverage."""

    @staticmethod
    def _generate_next_value_(_: str, start: int, count: int, last_values: list[int]) -> int:
        return count + 1


class DeviceColumn(SampleColumn):
    """One GPU."""

    UTILIZATION = auto()
    MEMORY_BYTES = auto()
    POWER_WATTS = auto()
    TEMPERATURE_CELSIUS = auto()
    CLOCK_MHZ = auto()
    ERRORS = auto()
    ALLOCATED = auto()
    IDLE_S = auto()
    """For how long it has done nothing; added when the sample is kept, because it depends on those before."""


class NodeColumn(SampleColumn):
    """One node."""

    GPU_UTILIZATION = auto()
    GPU_MEMORY_BYTES = auto()
    GPUS = auto()
    GPUS_ALLOCATED = auto()
    CPU_CORES = auto()
    CPU_CORES_ALLOCATED = auto()
    MEMORY_BYTES = auto()
    MEMORY_BYTES_ALLOCATED = auto()
    RECEIVED_BYTES_S = auto()
    SENT_BYTES_S = auto()
    READ_BYTES_S = auto()
    WRITTEN_BYTES_S = auto()
    PODS = auto()
    IS_READY = auto()
    GPU_MEMORY_UTILIZATION = auto()


class WorkColumn(SampleColumn):
    """A workload or one of its pods."""

    GPU_UTILIZATION = auto()
    GPU_MEMORY_BYTES = auto()
    CPU_CORES = auto()
    MEMORY_BYTES = auto()
    RECEIVED_BYTES_S = auto()
    SENT_BYTES_S = auto()
    READ_BYTES_S = auto()
    WRITTEN_BYTES_S = auto()
    GPUS_ALLOCATED = auto()
    CPU_CORES_ALLOCATED = auto()
    MEMORY_BYTES_ALLOCATED = auto()
    PODS = auto()
    """That hold something."""
    RUNNING_PODS = auto()
    GPU_MEMORY_BYTES_ALLOCATED = auto()
    GPUS_MEASURED = auto()
    """Of a workload: GPUs that its pods hold and whose utilization is known, from which accounting has GPU hours."""
    GPUS_USED = auto()
    """As much of them as was computing: of a part of a GPU, all of it if it computed for that part of the time."""
    PROGRESS_PERCENT = auto()
    """Average of the pods whose jobs report it."""
    IS_SIMULATED = auto()
    """1, where the devices do not exist."""


class PodDeviceColumn(SampleColumn):
    """What a pod has of one GPU."""

    UTILIZATION = auto()
    MEMORY_BYTES = auto()


class QueueColumn(SampleColumn):
    """A project or department, in all node pools or in one."""

    GPU_QUOTA = auto()
    GPU_FAIR_SHARE = auto()
    GPUS_ALLOCATED = auto()
    CPU_CORES_QUOTA = auto()
    CPU_CORES_ALLOCATED = auto()
    MEMORY_BYTES_QUOTA = auto()
    MEMORY_BYTES_ALLOCATED = auto()
    GPU_UTILIZATION = auto()
    RUNNING = auto()
    PENDING = auto()
    PENDING_GPUS = auto()
    GPU_UTILIZATION_BUILD = auto()
    GPU_UTILIZATION_TRAIN = auto()
    GPU_MEMORY_UTILIZATION = auto()
    """Of the memory of the GPUs that are held."""
    GPU_LIMIT = auto()
    GPUS_OVER_QUOTA = auto()
    """Of those allocated, as the next two are by the rule of `model/lending.py`."""
    GPUS_LENT = auto()
    GPUS_FROM_UNASSIGNED = auto()
    """Over quota, and lent by no one: GPUs in no quota."""


class PlaceColumn(SampleColumn):
    """A cluster or node pool."""

    GPU_NODES = auto()
    GPUS = auto()
    GPUS_ALLOCATED = auto()
    GPU_QUOTA = auto()
    GPU_UTILIZATION = auto()
    GPU_MEMORY_UTILIZATION = auto()
    CPU_UTILIZATION = auto()
    MEMORY_UTILIZATION = auto()
    BAND_0_25 = auto()
    """GPUs whose utilization is in this band, as the next three."""
    BAND_25_50 = auto()
    BAND_50_75 = auto()
    BAND_75_100 = auto()
    RUNNING = auto()
    PENDING = auto()
    PENDING_GPUS = auto()
    WAIT_S = auto()
    """Average of those that wait."""
    GPU_UTILIZATION_BUILD = auto()
    GPU_UTILIZATION_TRAIN = auto()
    CPU_CORES_QUOTA = auto()
    CPU_CORES_ALLOCATED = auto()
    MEMORY_BYTES_QUOTA = auto()
    MEMORY_BYTES_ALLOCATED = auto()
    READY_GPU_NODES = auto()
    READY_GPUS = auto()
    FREE_GPUS = auto()
    """Of ready nodes: GPUs of which nothing is held."""
    LARGEST_FREE_GPUS = auto()
    """The most of them on one node."""
    GPUS_OVER_QUOTA = auto()


ORGANIZATION, NODES, NODE_ITSELF, CLUSTER_ITSELF = "organization", "node", "node", "cluster"
DEVICES = "gpu/"


def node_group(cluster: str, node: str) -> str:
    """Where samples of a node and its devices are."""
    return f"{nodes_prefix(cluster)}{node}"


def nodes_prefix(cluster: str) -> str:
    """How the groups of all nodes of a cluster begin."""
    return f"{cluster}/{NODES}/"


def workload_group(cluster: str, workload: str) -> str:
    """Where samples of a workload and its pods are."""
    return f"{workloads_prefix(cluster)}{_bucket(workload, BUCKETS)}"


def workloads_prefix(cluster: str) -> str:
    """How the groups of all workloads of a cluster begin."""
    return f"{cluster}/workload/"


def organization_group(cluster: str) -> str:
    """Where samples of the cluster and its node pools are; also how the groups of projects and departments begin."""
    return f"{cluster}/{ORGANIZATION}"


def owner_group(cluster: str, name: str) -> str:
    """Where samples of a project or department are."""
    return f"{organization_group(cluster)}/{_bucket(name, OWNER_BUCKETS)}"


def _bucket(name: str, buckets: int) -> int:
    return crc32(name.encode()) % buckets


def device(index: int) -> str:
    return f"{DEVICES}{index}"


def is_device(subject: str) -> bool:
    """Whether it is a GPU of a node."""
    return subject.startswith(DEVICES)


def pod(workload: str, pod_id: str) -> str:
    return f"{workload}/{pod_id}"


def pod_device(workload: str, pod_id: str, index: int) -> str:
    return f"{workload}/{pod_id}/{index}"


def project(name: str, pool: str = "") -> str:
    """In all node pools, or in one."""
    return f"project/{name}/{pool}" if pool else f"project/{name}"


def department(name: str, pool: str = "") -> str:
    return f"department/{name}/{pool}" if pool else f"department/{name}"


def pool(name: str) -> str:
    return f"pool/{name}"

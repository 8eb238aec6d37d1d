"""What a pod asks for while it waits, and what it is given when it is bound: recorded with its events, for accounting.

A pod is charged from the cycle that binds it until the one that records its end. The amounts are those of its binding:
a GPU that its node loses meanwhile is charged until the pod has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fairpool.model.ids import Instant, PoolName, QueueId
from fairpool.model.node import PRODUCT_LABEL, Node
from fairpool.model.pod_record import PodRecord
from fairpool.model.pod_usage import PodUsage
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.workload import GpuKind


def usage_asked(pod: PodRecord, project: QueueId, pool: PoolName, nodes: Iterable[Node]) -> PodUsage:
    """Of a pod that waits in this pool. An amount of GPU memory counts as on the smallest GPU there."""
    smallest = 0
    if pod.shape.gpu.kind is GpuKind.MEMORY:
        smallest = min((node.gpu_memory_mib for node in nodes if node.gpus and node.gpu_memory_mib), default=0)
    return _usage(pod, project, pool, smallest)


def usage_given(pod: PodRecord, project: QueueId, pool: PoolName, node: Node) -> PodUsage:
    """Of a pod that was bound to this node when its phase began."""
    held = _usage(pod, project, pool, node.gpu_memory_mib)
    gpu_type = node.labels.get(PRODUCT_LABEL, "") if held.gpus_milli else ""
    return replace(held, gpu_type=gpu_type, bound_at=pod.since)


def with_later_usage(pod: PodRecord, by_ms: int) -> PodRecord:
    """A pod that holds something since so much later, as the clock was set forward; below 0: back."""
    usage = pod.usage
    if usage is None or usage.bound_at is None or pod.is_over:
        return pod
    later = replace(usage, created_at=Instant(usage.created_at + by_ms), bound_at=Instant(usage.bound_at + by_ms))
    return replace(pod, usage=later)


def _usage(pod: PodRecord, project: QueueId, pool: PoolName, device_memory_mib: int) -> PodUsage:
    return PodUsage(
        project=project,
        pool=pool,
        gpus_milli=gpus_charged_milli(pod.shape.gpu, device_memory_mib),
        cpu_milli=pod.shape.cpu_milli,
        memory_bytes=pod.shape.memory_bytes,
        created_at=pod.created_at,
    )

"""An example snapshot that shows every kind of decision."""

from __future__ import annotations

from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.organization import Queue, gpu_entitlement
from fairpool.model.quantity import GIB, WHOLE_GPU_MILLI
from fairpool.model.workload import (
    GpuRequest,
    Pod,
    PodGroup,
    PodSet,
    PodShape,
    SubGroup,
    WorkloadKind,
    gpu_portion,
    whole_gpus,
)
from fairpool.scheduler.snapshot import Snapshot

NOW = Instant(1_788_250_200_000)
MINUTE_MS = 60_000


def example_snapshot() -> Snapshot:
    """Four nodes with four GPUs each; vision has borrowed what language now wants back."""
    nodes = (_node("gpu-1"), _node("gpu-2"), _node("gpu-3"), _node("gpu-4", cordoned=True))
    queues = (
        _queue("research", 8, None),
        _queue("vision", 4, "research"),
        _queue("speech", 4, "research"),
        _queue("product", 4, None),
        _queue("language", 4, "product"),
    )
    rows = [
        _job("detector", "vision", whole_gpus(2), 300, on=("gpu-1", (0, 1))),
        _job("tracker", "vision", whole_gpus(2), 240, on=("gpu-1", (2, 3))),
        _job("sweep-1", "vision", whole_gpus(2), 90, on=("gpu-2", (0, 1))),
        _job("sweep-2", "vision", whole_gpus(2), 60, on=("gpu-3", (2, 3))),
        _job("notebook", "speech", gpu_portion(500), 200, WorkloadKind.BUILD, on=("gpu-3", (0,))),
        _job("tuning", "language", whole_gpus(4), 5),
        _job("recognizer", "speech", whole_gpus(1), 10, pods=2),
        _job("annotate", "speech", gpu_portion(250), 8, WorkloadKind.BUILD),
        _job("huge", "speech", whole_gpus(8), 20),
        _job("demo", "vision", whole_gpus(2), 15, WorkloadKind.BUILD, pods=3),
    ]
    return Snapshot(
        now=NOW,
        nodes=nodes,
        queues=queues,
        groups=tuple(group for group, _ in rows),
        pods=tuple(pod for _, pods in rows for pod in pods),
    )


def _node(name: str, cordoned: bool = False) -> Node:
    return Node(
        name=NodeName(name), cpu_milli=64_000, memory_bytes=512 * GIB, gpus=4, gpu_memory_mib=40_960, cordoned=cordoned
    )


def _queue(name: str, quota: int, parent: str | None) -> Queue:
    above = None if parent is None else QueueId(parent)
    return Queue(id=QueueId(name), parent=above, gpu=gpu_entitlement(quota * WHOLE_GPU_MILLI))


def _job(
    name: str,
    project: str,
    gpu: GpuRequest,
    minutes_ago: int,
    kind: WorkloadKind = WorkloadKind.TRAIN,
    *,
    pods: int = 1,
    on: tuple[str, tuple[int, ...]] | None = None,
) -> tuple[PodGroup, list[Pod]]:
    created = Instant(NOW - minutes_ago * MINUTE_MS)
    group = PodGroup(
        id=GroupId(name),
        queue=QueueId(project),
        created_at=created,
        kind=kind,
        tree=SubGroup(pod_sets=(PodSet(minimum=pods),)),
        started_at=created if on is not None else None,
    )
    shape = PodShape(gpu=gpu, cpu_milli=gpu.devices * 4_000, memory_bytes=gpu.devices * 16 * GIB)
    return group, [
        Pod(
            id=PodId(f"{name}-{number}"),
            group=group.id,
            shape=shape,
            phase=PodPhase.WAITING if on is None else PodPhase.RUNNING,
            node=None if on is None else NodeName(on[0]),
            devices=() if on is None else on[1],
            created_at=created,
        )
        for number in range(pods)
    ]

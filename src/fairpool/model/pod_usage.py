"""What a pod asks for or holds, and since when: the basis of accounting."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import Instant, PoolName, QueueId


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUsage:
    """Amounts of one pod. Those of a pod that is bound do not change until it has ended."""

    project: QueueId
    pool: PoolName
    gpus_milli: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpu_type: str = ""
    """The model of the GPUs of its node; empty: it has no node yet, or no GPU."""
    created_at: Instant
    bound_at: Instant | None = None
    """Since when it holds them; None: it waits."""

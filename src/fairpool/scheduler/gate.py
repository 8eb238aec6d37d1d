"""The capacity gate: limits for all groups, quotas for non-preemptible ones, at every level of the queue tree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.workload import GpuKind
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.decision import OverLimit, OverQuota, Resource
from fairpool.scheduler.queues import CPU, GPU, MEMORY, NONE, RESOURCES, QueueTable, Vector, plus, within

NAMES = (Resource.GPU, Resource.CPU, Resource.MEMORY)


def chunk_passes(columns: Columns, group: int, chunk: Iterable[int]) -> bool:
    """Whether a chunk of a group may start, before any node is looked at."""
    if not columns.policy.fair_order:
        return True
    need = NONE
    for pod in chunk:
        amounts = columns.waiting_need(pod)
        if not columns.policy.charge_memory_at_gate and columns.shape(pod).gpu.kind is GpuKind.MEMORY:
            amounts = (0, amounts[CPU], amounts[MEMORY])
        need = plus(need, amounts)
    return passes(columns.queues, columns.queue_of[group], need, non_preemptible=columns.is_non_preemptible(group))


def pod_passes(columns: Columns, pod: int, node: int) -> bool:
    """Whether a pod may start, as it is charged on this node."""
    if not columns.policy.fair_order:
        return True
    group = columns.group_of[pod]
    need = columns.placed_need(pod, node)
    if not columns.policy.charge_all_devices_per_node and columns.shape(pod).gpu.kind is GpuKind.WHOLE:
        need = (min(need[GPU], WHOLE_GPU_MILLI), need[CPU], need[MEMORY])
    return passes(columns.queues, columns.queue_of[group], need, non_preemptible=columns.is_non_preemptible(group))


def is_over_limit(queues: QueueTable, queue: int, need: Vector) -> bool:
    """Whether `need` more would take a queue on the path beyond its limit."""
    return _is_beyond(queues.limited[queue], queues.held, queues.limit, need)


def is_over_quota(queues: QueueTable, queue: int, need: Vector) -> bool:
    """Whether `need` more that may not be preempted would be beyond the quota of a queue on the path."""
    return _is_beyond(queues.path[queue], queues.held_non_preemptible, queues.quota, need)


def _is_beyond(levels: Sequence[int], held: Sequence[Vector], bounds: Sequence[Vector], need: Vector) -> bool:
    """Whether `need` more is beyond a bound at some level, in a resource that is asked for."""
    for level in levels:
        here, bound = held[level], bounds[level]
        for resource in RESOURCES:
            if need[resource] > 0 and here[resource] + need[resource] > bound[resource]:
                return True
    return False


def passes(queues: QueueTable, queue: int, need: Vector, *, non_preemptible: bool) -> bool:
    """Whether limits and, for what may not be preempted (`non_preemptible`), quotas allow `need` more."""
    return not is_over_limit(queues, queue, need) and not (non_preemptible and is_over_quota(queues, queue, need))


def is_within_quota(held_non_preemptible: Vector, need: Vector, quota: Vector) -> bool:
    """Reclaim's test at one level: stricter than the gate's, since resources that are not asked for count too."""
    return within(plus(held_non_preemptible, need), quota)


def refusal(queues: QueueTable, queue: int, need: Vector, *, non_preemptible: bool) -> OverLimit | OverQuota | None:
    """Why the gate refuses, nearest queue first, with the figures."""
    for above, level in enumerate(reversed(queues.path[queue])):
        name = queues.ids[level]
        for resource in RESOURCES:
            asked = need[resource]
            limit, quota = queues.limit[level][resource], queues.quota[level][resource]
            held, held_non_preemptible = queues.held[level][resource], queues.held_non_preemptible[level][resource]
            if asked <= 0:
                continue
            if limit < math.inf and held + asked > limit:
                return OverLimit(name, above, NAMES[resource], int(limit), int(held), int(asked))
            if non_preemptible and quota < math.inf and held_non_preemptible + asked > quota:
                return OverQuota(name, above, NAMES[resource], int(quota), int(held_non_preemptible), int(asked))
    return None

"""API requests that create node pools, departments and projects."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from fairpool.api import nodes as nodes_wire
from fairpool.api import organization as wire
from fairpool.model.ids import PoolName, QueueId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import (
    DEPARTMENT_PREFIX,
    Entitlement,
    NodeOverrides,
    Organization,
    ProjectRules,
    Queue,
    gpu_entitlement,
    name_of_queue,
)
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI

Followers = Collection[tuple[PoolName, QueueId]]
"""Departments without a quota of their own in a pool: it is the sum of their projects' quotas there."""
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Requests:
    """In the order in which they can be carried out."""

    pools: tuple[nodes_wire.NodePoolRequest, ...]
    departments: tuple[wire.DepartmentRequest, ...]
    projects: tuple[wire.ProjectRequest, ...]


def requests_of(organization: Organization, followers: Followers = ()) -> Requests:
    """What to ask a control plane for, so that it declares this organization to its cluster."""
    assert not organization.topologies, "scenarios declare no topologies"
    rows: dict[QueueId, list[tuple[PoolName, Queue]]] = {}
    for pool, queues in organization.queues.items():
        for queue in queues:
            rows.setdefault(queue.id, []).append((pool, queue))
    return Requests(
        pools=tuple(
            nodes_wire.NodePoolRequest(
                name=pool.name,
                label_key=pool.label_key,
                label_value=pool.label_value,
                placement_strategy=nodes_wire.PlacementStrategy(
                    gpu=pool.gpu_placement.value, cpu=pool.cpu_placement.value
                ),
            )
            for pool in organization.pools
            if pool.name != DEFAULT_POOL
        ),
        departments=tuple(_department(name, each, followers) for name, each in rows.items() if is_department(name)),
        projects=tuple(
            _project(name, each, organization.rules.get(name, ProjectRules()))
            for name, each in rows.items()
            if not is_department(name)
        ),
    )


def is_department(queue: QueueId) -> bool:
    return queue.startswith(DEPARTMENT_PREFIX)


def rules_request(rules: ProjectRules) -> wire.SchedulingRules:
    return wire.SchedulingRules(
        interactive_job_time_limit_seconds=rules.interactive_limit_s,
        training_job_time_limit_seconds=rules.training_limit_s,
    )


def overrides_request(overrides: NodeOverrides) -> nodes_wire.NodeOverridesRequest:
    return nodes_wire.NodeOverridesRequest(
        cordoned=overrides.cordoned,
        taints=[nodes_wire.NodeTaint(key=each.key, value=each.value, effect=each.effect) for each in overrides.taints],
        labels=dict(overrides.labels),
    )


def gpus_of(milli: int) -> int | float:
    """Thousandths of a GPU as the API has them."""
    if milli == UNLIMITED:
        return UNLIMITED
    return milli // WHOLE_GPU_MILLI if milli % WHOLE_GPU_MILLI == 0 else milli / WHOLE_GPU_MILLI


def _department(name: QueueId, rows: list[tuple[PoolName, Queue]], followers: Followers) -> wire.DepartmentRequest:
    resources = [
        wire.DepartmentResources(
            **_terms(pool, queue),
            gpu=wire.DepartmentGpu(
                deserved=None if (pool, name) in followers else gpus_of(queue.gpu.quota), **_gpu_terms(queue)
            ),
            cpu=wire.DepartmentCpu(deserved=queue.cpu.quota, **_plain_terms(queue.cpu, 1)),
            memory=wire.DepartmentMemory(deserved=_in(queue.memory.quota, MIB), **_plain_terms(queue.memory, MIB)),
        )
        for pool, queue in rows
    ]
    return wire.DepartmentRequest(name=name_of_queue(name), resources=resources)


def _project(name: QueueId, rows: list[tuple[PoolName, Queue]], rules: ProjectRules) -> wire.ProjectRequest:
    resources = [
        wire.PoolResources(
            **_terms(pool, queue),
            gpu=wire.GpuResource(deserved=gpus_of(queue.gpu.quota), **_gpu_terms(queue)),
            cpu=wire.CpuResource(deserved=queue.cpu.quota, **_plain_terms(queue.cpu, 1)),
            memory=wire.MemoryResource(deserved=_in(queue.memory.quota, MIB), **_plain_terms(queue.memory, MIB)),
        )
        for pool, queue in rows
    ]
    above = next(_parents(rows), None)
    request = wire.ProjectRequest(name=name, resources=resources, scheduling_rules=rules_request(rules))
    return request if above is None else request.model_copy(update={"parent_id": above})


def _parents(rows: list[tuple[PoolName, Queue]]) -> Iterator[str]:
    return (name_of_queue(queue.parent) for _, queue in rows if queue.parent is not None)


def _terms(pool: PoolName, queue: Queue) -> dict[str, Any]:
    return {
        "node_pool": wire.PoolReference(id=pool),
        "priority": queue.priority,
        "preempt_min_runtime_seconds": queue.preempt_min_runtime_s,
        "reclaim_min_runtime_seconds": queue.reclaim_min_runtime_s,
    }


def _gpu_terms(queue: Queue) -> dict[str, Any]:
    if queue.over_quota is not None:
        limit = None if queue.gpu_limit_milli == UNLIMITED else gpus_of(queue.gpu_limit_milli)
        return {"over_quota": queue.over_quota, "limit": limit}
    limit = None if queue.gpu.limit == UNLIMITED else gpus_of(queue.gpu.limit)
    chosen = queue.gpu.weight != gpu_entitlement(queue.gpu.quota).weight
    return {"over_quota_weight": queue.gpu.weight if chosen else None, "limit": limit}


def _plain_terms(entitlement: Entitlement, unit: int) -> dict[str, Any]:
    return {
        "limit": None if entitlement.limit == UNLIMITED else _in(entitlement.limit, unit),
        "over_quota_weight": None if entitlement.weight == 1.0 else entitlement.weight,
    }


def _in(amount: int, unit: int) -> int:
    assert amount == UNLIMITED or amount % unit == 0, "a quota of memory is declared in MiB"
    return UNLIMITED if amount == UNLIMITED else amount // unit

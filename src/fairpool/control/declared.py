"""From what was declared of departments, projects and pools to what clusters and their schedulers work with. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairpool.api import organization as wire
from fairpool.api.problems import ProblemItem, item
from fairpool.control.admission import quota_milli
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId
from fairpool.model.node import DEFAULT_POOL, NodePool, Placement, Taint, TaintEffect
from fairpool.model.organization import (
    DEFAULT_GRACES,
    DEFAULT_QUEUE_PRIORITY,
    Entitlement,
    GraceRules,
    NodeMarks,
    Organization,
    OverQuota,
    ProjectRules,
    Queue,
    department_queue,
    gpu_entitlement,
)
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED

WEIGHT_NAMES = {0: OverQuota.LOWEST, 1: OverQuota.LOW, 2: OverQuota.MEDIUM, 3: OverQuota.HIGH}
MEMORY_UNITS = {wire.MemoryUnits.MIB: 1024 * 1024, wire.MemoryUnits.MB: 1000**2, wire.MemoryUnits.GB: 1000**3}


@dataclass(frozen=True, slots=True)
class Unit:
    """A project or department with the moment it was made."""

    name: str
    resources: tuple[wire.PoolResources, ...]
    created_at: Instant
    parent: str | None = None
    rules: wire.SchedulingRules = wire.SchedulingRules()


def organization(
    projects: Iterable[Unit],
    departments: Iterable[Unit],
    pools: Iterable[wire.NodePoolRequest],
    marks: Mapping[str, wire.NodeMarksRequest],
    *,
    use_departments: bool = True,
    graces: GraceRules = DEFAULT_GRACES,
) -> Organization:
    """Everything but the workloads. Departments, where they are used, are queues as soon as one of them says something:
    another than the default one exists, or the default one has a quota."""
    units = list(projects)
    above = list(departments)
    with_departments = use_departments and (len(above) > 1 or any(_says_something(each) for each in above))
    model_pools = tuple(node_pool(each) for each in pools)
    names = sorted({DEFAULT_POOL, *(pool.name for pool in model_pools)})
    queues = {
        name: (
            *(_queue(each, name, department_queue(each.name), None) for each in above if with_departments),
            *(_queue(each, name, QueueId(each.name), _parent(each, with_departments)) for each in units),
        )
        for name in names
    }
    return Organization(
        queues=queues,
        rules={QueueId(each.name): rules for each in units if (rules := project_rules(each.rules)) != ProjectRules()},
        pools=model_pools if any(pool.name == DEFAULT_POOL for pool in model_pools) else (NodePool(), *model_pools),
        marks={NodeName(name): node_marks(each) for name, each in marks.items()},
        graces=graces,
    )


def project_rules(said: wire.SchedulingRules) -> ProjectRules:
    """Those that are kept to; how busy devices are is measured by nobody yet, so idle time is not among them."""
    return ProjectRules(
        interactive_limit_s=said.interactive_job_time_limit_seconds,
        training_limit_s=said.training_job_time_limit_seconds,
    )


def node_pool(each: wire.NodePoolRequest) -> NodePool:
    is_default = each.name == DEFAULT_POOL
    return NodePool(
        name=PoolName(each.name),
        label_key="" if is_default else each.label_key,
        label_value="" if is_default else each.label_value,
        gpu_placement=Placement(each.placement_strategy.gpu),
        cpu_placement=Placement(each.placement_strategy.cpu),
    )


def node_marks(each: wire.NodeMarksRequest) -> NodeMarks:
    taints = tuple(Taint(taint.key, taint.value, TaintEffect(taint.effect)) for taint in each.taints)
    return NodeMarks(cordoned=each.cordoned, taints=taints, labels=tuple(sorted(each.labels.items())))


def resource_problems(resources: Iterable[wire.PoolResources], pools: frozenset[str]) -> list[ProblemItem]:
    """What is wrong with what somebody is to be owed."""
    problems = []
    for number, each in enumerate(resources):
        place = f"resources.{number}"
        pool = each.node_pool.name or each.node_pool.id
        if pool not in pools:
            unknown = Problem("pool.unknown", f"there is no node pool {pool}", f"use one of {', '.join(sorted(pools))}")
            problems.append(item(unknown, f"{place}.nodePool"))
        for name, amount in (("deserved", each.gpu.deserved), ("limit", each.gpu.limit)):
            milli = quota_milli(amount) if amount is not None else 0
            if isinstance(milli, Problem):
                problems.append(item(milli, f"{place}.gpu.{name}"))
        if each.gpu.limit not in (None, UNLIMITED) and each.gpu.deserved > each.gpu.limit:
            what = f"a limit of {each.gpu.limit} GPUs is below the quota of {each.gpu.deserved}"
            problems.append(item(Problem("gpu.limit_below_quota", what, "raise the limit"), f"{place}.gpu.limit"))
    return problems


def totals(resources: Iterable[wire.PoolResources]) -> wire.TotalResources:
    """What is owed over all pools; without bound in one is without bound."""
    listed = list(resources)
    return wire.TotalResources(
        gpu_quota=_sum([each.gpu.deserved for each in listed]),
        cpu_quota=_sum([each.cpu.deserved for each in listed]),
        memory_quota=_sum([each.memory.deserved for each in listed]),
    )


def _sum(amounts: list[int | float]) -> float:
    return float(UNLIMITED) if UNLIMITED in amounts else float(sum(amounts))


def _says_something(department: Unit) -> bool:
    return any(
        each.gpu.deserved != UNLIMITED or each.gpu.limit is not None or each.gpu.over_quota is not None
        for each in department.resources
    )


def _parent(project: Unit, with_departments: bool) -> QueueId | None:
    return department_queue(project.parent) if with_departments and project.parent is not None else None


def _queue(unit: Unit, pool: str, queue: QueueId, parent: QueueId | None) -> Queue:
    owed = next((each for each in unit.resources if (each.node_pool.name or each.node_pool.id) == pool), None)
    if owed is None:
        return Queue(id=queue, parent=parent, created_at=unit.created_at)
    off = owed.gpu.over_quota is wire.OverQuotaChoice.OFF
    return Queue(
        id=queue,
        parent=parent,
        priority=DEFAULT_QUEUE_PRIORITY if owed.priority is None else owed.priority,
        created_at=unit.created_at,
        gpu=_gpu(owed.gpu),
        cpu=_plain(owed.cpu.deserved, owed.cpu.limit, owed.cpu.over_quota_weight, 1, off),
        memory=_plain(
            owed.memory.deserved,
            owed.memory.limit,
            owed.memory.over_quota_weight,
            MEMORY_UNITS[owed.memory.units],
            off,
        ),
    )


def _gpu(owed: wire.GpuResource) -> Entitlement:
    quota = quota_milli(owed.deserved)
    limit = UNLIMITED if owed.limit is None else quota_milli(owed.limit)
    assert isinstance(quota, int), "checked when it was declared"
    assert isinstance(limit, int), "checked when it was declared"
    if owed.over_quota is not None:
        return gpu_entitlement(quota, OverQuota(owed.over_quota.value), limit_milli=limit)
    if owed.over_quota_weight is None:
        return gpu_entitlement(quota, limit_milli=limit)
    named = WEIGHT_NAMES.get(int(owed.over_quota_weight)) if owed.over_quota_weight in WEIGHT_NAMES else None
    if named is not None:
        return gpu_entitlement(quota, named, limit_milli=limit)
    return replace(gpu_entitlement(quota, limit_milli=limit), weight=float(owed.over_quota_weight))


def _plain(quota: float, limit: float | None, weight: float | None, unit: int, off: bool) -> Entitlement:
    owed = UNLIMITED if quota == UNLIMITED else int(quota * unit)
    most = UNLIMITED if limit is None or limit == UNLIMITED else int(limit * unit)
    if off and owed != UNLIMITED:
        most = owed if most == UNLIMITED else min(owed, most)
    return Entitlement(owed, most, 1.0 if weight is None else float(weight))

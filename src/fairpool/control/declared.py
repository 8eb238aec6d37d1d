"""What a cluster pulls (queues, rules, overrides), from stored declarations. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fairpool.api import nodes
from fairpool.api import organization as wire
from fairpool.api.problems import ProblemItem, problem_item
from fairpool.control.resource_request import quota_milli
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId
from fairpool.model.node import DEFAULT_POOL, NodePool, Placement, Taint, TaintEffect, Topology
from fairpool.model.organization import (
    DEFAULT_GRACES,
    DEFAULT_QUEUE_PRIORITY,
    DEPARTMENT_PREFIX,
    Entitlement,
    GraceRules,
    NodeOverrides,
    Organization,
    OverQuotaChoice,
    ProjectRules,
    Queue,
    children_over_quota,
    department_queue,
    gpu_entitlement,
    name_of_queue,
    total_quota,
)
from fairpool.model.problem import Problem
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, gpus_text

WEIGHT_NAMES = {0: OverQuotaChoice.LOWEST, 1: OverQuotaChoice.LOW, 2: OverQuotaChoice.MEDIUM, 3: OverQuotaChoice.HIGH}
MEMORY_UNITS = {wire.MemoryUnits.MIB: 1024 * 1024, wire.MemoryUnits.MB: 1000**2, wire.MemoryUnits.GB: 1000**3}


@dataclass(frozen=True, slots=True)
class DeclaredProject:
    """A project with the moment it was made."""

    name: str
    resources: tuple[wire.PoolResources, ...]
    created_at: Instant
    parent: str | None = None
    rules: wire.SchedulingRules = wire.SchedulingRules()


@dataclass(frozen=True, slots=True)
class DeclaredDepartment:
    """A department with the moment it was made; what it does not say follows its projects."""

    name: str
    resources: tuple[wire.DepartmentResources, ...]
    created_at: Instant


def organization(
    projects: Iterable[DeclaredProject],
    departments: Iterable[DeclaredDepartment],
    pools: Iterable[nodes.NodePoolRequest],
    overrides: Mapping[str, nodes.NodeOverridesRequest],
    *,
    topologies: tuple[Topology, ...] = (),
    use_departments: bool = True,
    graces: GraceRules = DEFAULT_GRACES,
) -> Organization:
    """Everything but the workloads."""
    units = list(projects)
    above = list(departments)
    with_departments = use_departments and are_queues(above)
    model_pools = tuple(node_pool(each) for each in pools)
    names = sorted({DEFAULT_POOL, *(pool.name for pool in model_pools)})
    queues = {name: queues_in(name, units, above if with_departments else ()) for name in names}
    return Organization(
        queues=queues,
        rules={QueueId(each.name): rules for each in units if (rules := project_rules(each.rules)) != ProjectRules()},
        pools=model_pools if any(pool.name == DEFAULT_POOL for pool in model_pools) else (NodePool(), *model_pools),
        topologies=topologies,
        node_overrides={NodeName(name): node_overrides(each) for name, each in overrides.items()},
        graces=graces,
    )


def effective(project: wire.ProjectRequest, department: wire.DepartmentRequest) -> wire.ProjectRequest:
    """A project with its department's values where it has none of its own."""
    rules = {name: value for name, value in department.scheduling_rules if value is not None}
    rules |= {name: value for name, value in project.scheduling_rules if value is not None}
    mine, above = project.node_types, department.node_types
    types = wire.NodeTypes(training=mine.training or above.training, workspace=mine.workspace or above.workspace)
    update = {
        "default_node_pools": project.default_node_pools or department.default_node_pools,
        "node_types": types,
        "scheduling_rules": wire.SchedulingRules(**rules),
    }
    return project.model_copy(update=update)


def queues_in(
    pool: str, projects: Iterable[DeclaredProject], departments: Iterable[DeclaredDepartment]
) -> tuple[Queue, ...]:
    """The queues of one pool, departments first; without departments the projects have no parents."""
    above = list(departments)
    below = [_queue(each, pool, _parent(each, bool(above))) for each in projects]
    owners = [
        department_as_queue(each, pool, [queue for queue in below if queue.parent == department_queue(each.name)])
        for each in above
    ]
    return (*owners, *below)


def department_as_queue(department: DeclaredDepartment, pool: str, projects: Iterable[Queue]) -> Queue:
    """A department in one pool. A quota that was never set is what its projects are owed together."""
    children = list(projects)
    said = next((each for each in department.resources if each.pool == pool), wire.DepartmentResources())
    off = said.gpu.over_quota is OverQuotaChoice.OFF
    gpu = total_quota([each.gpu for each in children]) if said.gpu.deserved is None else _gpu_quota(said.gpu.deserved)
    unit = MEMORY_UNITS[said.memory.units]
    cpu = _plain(said.cpu, said.cpu.deserved, 1, off, total_quota([each.cpu for each in children]))
    memory = _plain(said.memory, said.memory.deserved, unit, off, total_quota([each.memory for each in children]))
    return Queue(
        id=department_queue(department.name),
        priority=DEFAULT_QUEUE_PRIORITY if said.priority is None else said.priority,
        preempt_min_runtime_s=said.preempt_min_runtime_seconds,
        reclaim_min_runtime_s=said.reclaim_min_runtime_seconds,
        created_at=department.created_at,
        gpu=_gpu(said.gpu, gpu),
        cpu=cpu,
        memory=memory,
    )


def owners(
    project: DeclaredProject, pool: str, department: DeclaredDepartment | None, siblings: Iterable[DeclaredProject]
) -> tuple[Queue, ...]:
    """A project in one pool and, where it is a queue, the department above: the settings behind their limits too."""
    own = _queue(project, pool, None if department is None else department_queue(department.name))
    own = replace(own, over_quota=_setting(project.resources, pool))
    if department is None:
        return (own,)
    below = [_queue(each, pool, own.parent) for each in siblings]
    above = department_as_queue(department, pool, below)
    return own, replace(above, over_quota=_setting(department.resources, pool))


def _setting(resources: Iterable[wire.PoolResources | wire.DepartmentResources], pool: str) -> OverQuotaChoice | None:
    return next((each.gpu.over_quota for each in resources if each.pool == pool), None)


def are_queues(departments: Iterable[DeclaredDepartment]) -> bool:
    """Whether departments are queues: as soon as one of them says something. Another than the default one exists, or
    something was set for the default one."""
    above = list(departments)
    return len(above) > 1 or any(_says_something(each) for each in above)


def project_rules(said: wire.SchedulingRules) -> ProjectRules:
    """What the cluster enforces."""
    return ProjectRules(
        interactive_limit_s=said.interactive_job_time_limit_seconds,
        training_limit_s=said.training_job_time_limit_seconds,
        interactive_idle_s=said.interactive_job_max_idle_duration_seconds,
        interactive_preemptible_idle_s=said.interactive_job_preempt_idle_duration_seconds,
        training_idle_s=said.training_job_max_idle_duration_seconds,
    )


def node_pool(each: nodes.NodePoolRequest) -> NodePool:
    is_default = each.name == DEFAULT_POOL
    return NodePool(
        name=PoolName(each.name),
        label_key="" if is_default else each.label_key,
        label_value="" if is_default else each.label_value,
        gpu_placement=Placement(each.placement_strategy.gpu),
        cpu_placement=Placement(each.placement_strategy.cpu),
    )


def node_overrides(each: nodes.NodeOverridesRequest) -> NodeOverrides:
    taints = tuple(Taint(taint.key, taint.value, TaintEffect(taint.effect)) for taint in each.taints)
    return NodeOverrides(cordoned=each.cordoned, taints=taints, labels=tuple(sorted(each.labels.items())))


def resource_problems(
    resources: Iterable[wire.PoolResources | wire.DepartmentResources], pools: frozenset[str]
) -> list[ProblemItem]:
    """What is wrong with what a project or department is to be owed."""
    problems = []
    for number, each in enumerate(resources):
        place = f"resources.{number}"
        if each.pool not in pools:
            fix = f"use one of {', '.join(sorted(pools))}"
            unknown = Problem("pool.unknown", f"there is no node pool {each.pool}", fix)
            problems.append(problem_item(unknown, f"{place}.nodePool"))
        for name, amount in (("deserved", each.gpu.deserved), ("limit", each.gpu.limit)):
            milli = quota_milli(amount) if amount is not None else 0
            if isinstance(milli, Problem):
                problems.append(problem_item(milli, f"{place}.gpu.{name}"))
        if each.gpu.limit is not None and each.gpu.limit != UNLIMITED and (each.gpu.deserved or 0) > each.gpu.limit:
            what = f"a limit of {each.gpu.limit} GPUs is below the quota of {each.gpu.deserved}"
            problems.append(
                problem_item(Problem("gpu.limit_below_quota", what, "raise the limit"), f"{place}.gpu.limit")
            )
    return problems


def totals(resources: Iterable[wire.PoolResources]) -> wire.TotalResources:
    """What is owed over all pools; without bound in one is without bound."""
    listed = list(resources)
    return wire.TotalResources(
        gpu_quota=_sum([each.gpu.deserved for each in listed]),
        cpu_quota=_sum([each.cpu.deserved for each in listed]),
        memory_quota=_sum([each.memory.deserved for each in listed]),
    )


def department_totals(
    resources: Iterable[wire.DepartmentResources], projects: Iterable[Iterable[wire.PoolResources]]
) -> wire.TotalResources:
    """What a department is owed over all pools, where what is not set follows its projects."""
    said = {each.pool: each for each in resources}
    below = [each for project in projects for each in project]
    gpu: list[int | float] = []
    cpu, memory = gpu.copy(), gpu.copy()
    for pool in sorted(said.keys() | {each.pool for each in below}):
        own = said.get(pool, wire.DepartmentResources())
        owed = [each for each in below if each.pool == pool]
        gpu.append(_or(own.gpu.deserved, [each.gpu.deserved for each in owed]))
        cpu.append(_or(own.cpu.deserved, [each.cpu.deserved for each in owed]))
        memory.append(_or(own.memory.deserved, [each.memory.deserved for each in owed]))
    return wire.TotalResources(gpu_quota=_sum(gpu), cpu_quota=_sum(cpu), memory_quota=_sum(memory))


def _or(said: int | float | None, followed: list[int | float]) -> int | float:
    return _sum(followed) if said is None else said


def _sum(amounts: list[int | float]) -> float:
    return float(UNLIMITED) if UNLIMITED in amounts else float(sum(amounts))


def warnings_below(queues_by_pool: Mapping[str, Iterable[Queue]]) -> dict[str, list[str]]:
    """By department: pools in which its projects are together owed more GPUs than it is."""
    warnings: dict[str, list[str]] = {}
    for pool, queues in sorted(queues_by_pool.items()):
        for queue, children in children_over_quota(queues):
            name = name_of_queue(queue.id)
            warnings.setdefault(name, []).append(
                f"the quotas of the projects in department {name} add up to {gpus_text(children)} GPUs in node pool "
                f"{pool}, more than its quota of {gpus_text(queue.gpu.quota)}"
            )
    return warnings


def warnings_of_pools(queues_by_pool: Mapping[str, Iterable[Queue]], gpus: Mapping[str, int]) -> list[str]:
    """Pools in which all projects are together owed more GPUs than the pool has; a pool that is not in `gpus` was
    never reported."""
    warnings = []
    for pool, queues in sorted(queues_by_pool.items()):
        quotas = [each.gpu.quota for each in queues if not each.id.startswith(DEPARTMENT_PREFIX)]
        owed = sum(quota for quota in quotas if quota != UNLIMITED)
        if pool in gpus and owed > gpus[pool] * WHOLE_GPU_MILLI:
            text = f"the quotas of all projects add up to {gpus_text(owed)} GPUs in node pool {pool}"
            warnings.append(f"{text}, which has {gpus[pool]}")
    return warnings


def _says_something(department: DeclaredDepartment) -> bool:
    return any(each != wire.DepartmentResources(node_pool=each.node_pool) for each in department.resources)


def _parent(project: DeclaredProject, with_departments: bool) -> QueueId | None:
    return department_queue(project.parent) if with_departments and project.parent is not None else None


def _queue(unit: DeclaredProject, pool: str, parent: QueueId | None) -> Queue:
    owed = next((each for each in unit.resources if each.pool == pool), None)
    if owed is None:
        return Queue(id=QueueId(unit.name), parent=parent, created_at=unit.created_at)
    off = owed.gpu.over_quota is OverQuotaChoice.OFF
    return Queue(
        id=QueueId(unit.name),
        parent=parent,
        priority=DEFAULT_QUEUE_PRIORITY if owed.priority is None else owed.priority,
        preempt_min_runtime_s=owed.preempt_min_runtime_seconds,
        reclaim_min_runtime_s=owed.reclaim_min_runtime_seconds,
        created_at=unit.created_at,
        gpu=_gpu(owed.gpu, _gpu_quota(owed.gpu.deserved)),
        cpu=_plain(owed.cpu, owed.cpu.deserved, 1, off),
        memory=_plain(owed.memory, owed.memory.deserved, MEMORY_UNITS[owed.memory.units], off),
    )


def _gpu_quota(deserved: int | float) -> int:
    quota = quota_milli(deserved)
    assert isinstance(quota, int), "checked when it was declared"
    return quota


def _gpu(said: wire.GpuTerms, quota: int) -> Entitlement:
    limit = UNLIMITED if said.limit is None else _gpu_quota(said.limit)
    if said.over_quota is not None:
        return gpu_entitlement(quota, said.over_quota, limit_milli=limit)
    if said.over_quota_weight is None:
        return gpu_entitlement(quota, limit_milli=limit)
    named = WEIGHT_NAMES.get(int(said.over_quota_weight)) if said.over_quota_weight in WEIGHT_NAMES else None
    if named is not None:
        return gpu_entitlement(quota, named, limit_milli=limit)
    return replace(gpu_entitlement(quota, limit_milli=limit), weight=float(said.over_quota_weight))


def _plain(
    said: wire.CpuTerms | wire.MemoryTerms,
    deserved: int | float | None,
    unit: int,
    off: bool,
    followed: int = UNLIMITED,
) -> Entitlement:
    owed = followed if deserved is None else UNLIMITED if deserved == UNLIMITED else int(deserved * unit)
    most = UNLIMITED if said.limit is None or said.limit == UNLIMITED else int(said.limit * unit)
    if off and owed != UNLIMITED:
        most = owed if most == UNLIMITED else min(owed, most)
    weight = said.over_quota_weight
    return Entitlement(owed, most, 1.0 if weight is None else float(weight))

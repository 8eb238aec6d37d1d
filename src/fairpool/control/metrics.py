"""HTTP routes for metrics: what clusters, node pools, nodes, projects, departments, workloads and pods did over a time.

What a caller may see of them follows the rules of the subject itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import metrics as wire
from fairpool.api.clusters import PodReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.limits import PROJECTS
from fairpool.api.nodes import NodeAnswer
from fairpool.api.pod_choice import pod_called, pods_there
from fairpool.control import metric_types as types
from fairpool.control.clusters import known_cluster
from fairpool.control.departments import known_department, visible_departments
from fairpool.control.metric_query import (
    PARTLY,
    Measured,
    MetricQuery,
    PoolName,
    Series,
    measured,
    metrics_answer,
    refuse_unknown,
    series_of,
)
from fairpool.control.metric_types import Factor
from fairpool.control.nodes import ClusterId, known_node, known_pool
from fairpool.control.plane import Caller, Plane
from fairpool.control.pods import pod_items_of
from fairpool.control.projects import known_project
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of
from fairpool.control.workloads import readable
from fairpool.metrics import catalogue
from fairpool.model.node import DEFAULT_POOL

routes = Routes("metrics")

DEPARTMENTS = "/api/v1/org-unit/departments"
CATEGORY, NODEPOOL, PROJECT, DEPARTMENT = "Category", "Nodepool", "Project", "Department"
GROUPS = (CATEGORY, NODEPOOL, PROJECT, DEPARTMENT)
OWNERS = (PROJECT, DEPARTMENT)

GroupBy = Annotated[
    str,
    Parameter(
        alias="groupBy", max_length=64, description=f"A series for each of these: {', '.join(GROUPS)}", examples=[""]
    ),
]


async def _answer(
    plane: Plane, request: Request, query: MetricQuery, unit: Callable[[Connection], list[Series]]
) -> Response:
    return await metrics_answer(plane, request, query, await plane.read_apart(unit))


# --- clusters and node pools -------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/clusters/{cluster_id}/metrics",
    action=Action.NODE_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a cluster",
)
async def cluster_metrics(
    cluster_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    query: MetricQuery,
    pool: PoolName = "",
    group_by: GroupBy = "",
) -> Response:
    grouping = grouping_of(group_by, GROUPS) if group_by else ""
    there = {**types.PLACE, **types.BY_OWNER} if grouping in OWNERS else types.PLACE
    refuse_unknown(query.types, there, "a cluster")

    def unit(connection: Connection) -> list[Series]:
        cluster = str(known_cluster(connection, cluster_id).id)
        within = str(known_pool(connection, pool).name) if pool else ""
        if not grouping:
            return series_of(query.types, types.PLACE, _place(cluster, within))
        if grouping == CATEGORY:
            return _by_category(query.types, cluster, within)
        if grouping == NODEPOOL:
            names = [within] if within else _pools(connection)
            places = [_place(cluster, name, [(NODEPOOL, name)]) for name in names]
            return [series for each in places for series in series_of(query.types, types.PLACE, each)]
        _check_grouped(query.types, types.BY_OWNER, grouping)
        owners = _owners(connection, caller, cluster, within, grouping)
        return [series for each in owners for series in series_of(query.types, types.BY_OWNER, each)]

    return await _answer(plane, request, query, unit)


@routes.get(
    "/api/v1/clusters/{cluster_id}/nodepools/{pool_id}/metrics",
    action=Action.NODE_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a node pool",
)
async def pool_metrics(
    cluster_id: str, pool_id: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery
) -> Response:
    refuse_unknown(query.types, types.PLACE, "a node pool")

    def unit(connection: Connection) -> list[Series]:
        cluster = str(known_cluster(connection, cluster_id).id)
        return series_of(query.types, types.PLACE, _place(cluster, str(known_pool(connection, pool_id).name)))

    return await _answer(plane, request, query, unit)


def grouping_of(said: str, there: Sequence[str], field: str = "groupBy") -> str:
    """One of these names, however it is written: `node pool` is Nodepool."""
    written = said.replace(" ", "").lower()
    found = next((each for each in there if each.lower() == written), None)
    if found is None:
        what = f"{said[:64]!r} is nothing to group by"
        raise refused(422, "metric.unknown_group", what, f"use one of {', '.join(there)}", field)
    return found


def _place(cluster: str, pool: str, groups: Iterable[tuple[str, str]] = ()) -> Measured:
    """A cluster, or one of its node pools."""
    name = catalogue.pool(pool) if pool else catalogue.CLUSTER_ITSELF
    return measured(catalogue.organization_group(cluster), name, groups=groups)


def _by_category(asked: Sequence[str], cluster: str, pool: str) -> list[Series]:
    _check_grouped(asked, types.BY_CATEGORY, CATEGORY)
    place = catalogue.pool(pool) if pool else catalogue.CLUSTER_ITSELF
    return [
        series
        for name in asked
        for category, metric in types.BY_CATEGORY[name].items()
        for series in series_of(
            [name],
            {name: metric},
            measured(catalogue.organization_group(cluster), place, groups=[(CATEGORY, category)]),
        )
    ]


def _check_grouped(asked: Sequence[str], there: Mapping[str, object], grouping: str) -> None:
    missing = [each for each in asked if each not in there]
    if missing:
        what = f"{', '.join(missing)} cannot be grouped by {grouping}"
        fix = f"what can is {', '.join(sorted(there))}"
        raise refused(422, "metric.not_grouped", what, fix, "groupBy")


def _pools(connection: Connection) -> list[str]:
    return sorted({DEFAULT_POOL, *(row.name for row in organization_store.all_node_pools(connection))})


def _owners(connection: Connection, caller: Caller, cluster: str, pool: str, grouping: str) -> list[Measured]:
    """The projects or departments of a cluster that the caller may see."""
    if grouping == PROJECT:
        places = caller.places(Action.PROJECT_READ)
        rows = organization_store.all_projects(connection, **({} if places is None else places.of_projects))
        names = [row.name for row in rows if row.cluster == cluster]
        return [_project(cluster, name, pool, [(PROJECT, name)]) for name in names]
    seen = visible_departments(connection, caller)
    names = [row.name for row in organization_store.all_departments(connection) if seen is None or row.name in seen]
    return [_department(cluster, name, pool, groups=[(DEPARTMENT, name)]) for name in names]


def _project(cluster: str, name: str, pool: str, groups: Iterable[tuple[str, str]] = ()) -> Measured:
    return measured(catalogue.owner_group(cluster, name), catalogue.project(name, pool), groups=groups)


def _department(cluster: str, name: str, pool: str, **more: Any) -> Measured:
    return measured(catalogue.owner_group(cluster, name), catalogue.department(name, pool), **more)


# --- nodes -------------------------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/nodes/{node}/metrics",
    action=Action.NODE_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a node and its GPUs",
)
async def node_metrics(
    node: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery, cluster: ClusterId = ""
) -> Response:
    refuse_unknown(query.types, types.NODE, "a node")

    def unit(connection: Connection) -> list[Series]:
        return series_of(query.types, types.NODE, _node(known_node(connection, node, cluster)))

    return await _answer(plane, request, query, unit)


def _node(node: NodeAnswer) -> Measured:
    gpu_bytes = node.gpu_info.gpu_memory_mib << 20
    return measured(
        catalogue.node_group(node.cluster_uuid, node.name),
        catalogue.NODE_ITSELF,
        devices={str(index): catalogue.device(index) for index in range(node.gpu_info.gpu_count)},
        factors={
            Factor.CPU_PERCENT: 100_000 / node.cpu_milli if node.cpu_milli else None,
            Factor.MEMORY_PERCENT: 100 / node.memory_bytes if node.memory_bytes else None,
            Factor.GPU_MEMORY: float(gpu_bytes) if gpu_bytes else None,
            Factor.GPU_MEMORY_PERCENT: 100 / gpu_bytes if gpu_bytes else None,
        },
        labels={"simulated": "true"} if node.gpu_info.simulated else {},
    )


# --- projects and departments --------------------------------------------------------------------------------------


@routes.get(
    PROJECTS + "/{project_id}/metrics",
    action=Action.PROJECT_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a project",
)
async def project_metrics(
    project_id: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery, pool: PoolName = ""
) -> Response:
    refuse_unknown(query.types, types.OWNER, "a project")

    def unit(connection: Connection) -> list[Series]:
        row = known_project(connection, caller, project_id, Action.PROJECT_READ)
        within = str(known_pool(connection, pool).name) if pool else ""
        return series_of(query.types, types.OWNER, _project(row.cluster, row.name, within))

    return await _answer(plane, request, query, unit)


@routes.get(
    DEPARTMENTS + "/{department_id}/metrics",
    action=Action.DEPARTMENT_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a department: a series for each cluster, if there are several",
)
async def department_metrics(
    department_id: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery, pool: PoolName = ""
) -> Response:
    refuse_unknown(query.types, types.OWNER, "a department")

    def unit(connection: Connection) -> list[Series]:
        row = known_department(connection, caller, department_id)
        within = str(known_pool(connection, pool).name) if pool else ""
        clusters = [str(each.id) for each in cluster_store.all_clusters(connection)]
        found = [
            _department(cluster, row.name, within, labels={"clusterId": cluster} if len(clusters) > 1 else {})
            for cluster in clusters
        ]
        return [series for each in found for series in series_of(query.types, types.OWNER, each)]

    return await _answer(plane, request, query, unit)


# --- workloads and pods ------------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/workloads/{workload_id}/metrics",
    action=Action.WORKLOAD_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a workload",
)
async def workload_metrics(
    workload_id: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery
) -> Response:
    refuse_unknown(query.types, types.WORKLOAD, "a workload")

    def unit(connection: Connection) -> list[Series]:
        return series_of(query.types, types.WORKLOAD, _workload(readable(connection, caller, workload_id)))

    return await _answer(plane, request, query, unit)


def _workload(row: Any) -> Measured:
    cpu, cpu_more = _limits(declaration_of(row).workload, "cpu_limit_milli", 1000)
    memory, memory_more = _limits(declaration_of(row).workload, "memory_limit_bytes", 1)
    return measured(
        catalogue.workload_group(row.cluster, row.id),
        row.id,
        factors={Factor.CPU_LIMIT: cpu, Factor.MEMORY_LIMIT: memory},
        constants={Factor.CPU_LIMIT: cpu_more, Factor.MEMORY_LIMIT: memory_more},
    )


def _limits(declared: WorkloadWire, field: str, unit: int) -> tuple[float | None, float]:
    """The limit of each pod, None: there is none; and how much more one of them has, which leads the others."""
    each = getattr(declared.template.program, field) / unit
    leads = each if declared.leader is None else getattr(declared.leader.program, field) / unit
    return (each, leads - each) if each and leads else (None, 0.0)


@routes.get(
    "/api/v1/workloads/{workload_id}/pods/{pod_id}/metrics",
    action=Action.WORKLOAD_READ,
    answer=wire.Metrics,
    responses=PARTLY,
    summary="Get metrics of a pod, and of each of its GPUs",
)
async def pod_metrics(
    workload_id: str, pod_id: str, request: Request, plane: Plane, caller: Caller, query: MetricQuery
) -> Response:
    refuse_unknown(query.types, types.POD, "a pod")

    def unit(connection: Connection) -> list[Series]:
        return series_of(query.types, types.POD, _pod(connection, caller, workload_id, pod_id))

    return await _answer(plane, request, query, unit)


def _pod(connection: Connection, caller: Caller, workload_id: str, called: str) -> Measured:
    """A pod, by id or name."""
    there = pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ)
    item = pod_called(there, called)
    if item is None:
        raise refused(404, "pod.unknown", f"there is no pod {called[:128]!r}", pods_there(there), "pod")
    workload, row = readable(connection, caller, workload_id), workload_store.pod(connection, item.id)
    devices = PodReport.from_json(row.document).devices
    return measured(
        catalogue.workload_group(workload.cluster, workload.id),
        catalogue.pod(workload.id, item.id),
        devices={str(each): catalogue.pod_device(workload.id, item.id, each) for each in devices},
    )

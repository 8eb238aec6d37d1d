"""HTTP routes for projects, departments and node pools of one cluster, in older words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import nodes as nodes_wire
from fairpool.api import older_organization as older
from fairpool.api import organization as wire
from fairpool.api.problems import ProblemItem
from fairpool.control import clusters, declared, departments, nodes, projects
from fairpool.control.numbers import department_name, pool_name
from fairpool.control.plane import Caller, Plane, plane_of
from fairpool.control.projects import known_project
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Routes
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.model.quantity import UNLIMITED

routes = Routes("administrator (legacy)")

K8S = "/v1/k8s"
CLUSTER = f"{K8S}/clusters/{{cluster_id}}"
MIB = 1 << 20
OLDER_GPU = ("deserved_gpus", "max_allowed_gpus", "gpu_over_quota_weight")
WEIGHTS = {choice: weight for weight, choice in declared.WEIGHT_NAMES.items()}


async def check_cluster(request: Request) -> None:
    """Refuse a cluster that does not exist, whatever is asked about it; keep its id."""
    name = request.path_params["cluster_id"]
    row = await plane_of(request).read(lambda connection: clusters.known_cluster(connection, name))
    request.state.cluster = str(row.id)


# --- projects --------------------------------------------------------------------------------------------------


@routes.get(
    f"{CLUSTER}/projects",
    action=Action.PROJECT_READ,
    before=check_cluster,
    answer=list[older.OlderProject],
    summary="List the projects of a cluster",
)
async def cluster_projects(request: Request, plane: Plane, caller: Caller) -> list[older.OlderProject]:
    cluster: str = request.state.cluster

    def unit(connection: Connection) -> list[older.OlderProject]:
        seen = projects.visible_projects(plane, connection, caller)
        return _older_projects(connection, [each for each in seen if each.cluster_id == cluster])

    return await plane.read_apart(unit)


@routes.get(
    f"{CLUSTER}/projects/{{project_id}}",
    action=Action.PROJECT_READ,
    before=check_cluster,
    answer=older.OlderProject,
    summary="Get a project",
)
async def cluster_project(project_id: str, plane: Plane, caller: Caller) -> Response:
    return await _in_older_words(plane, await projects.project(project_id, plane, caller))


@routes.post(
    f"{CLUSTER}/projects",
    action=Action.PROJECT_CREATE,
    before=check_cluster,
    answer=older.OlderProject,
    status=201,
    summary="Create a project in a cluster",
)
async def create_cluster_project(
    request: Request, plane: Plane, caller: Caller, body: older.OlderProjectRequest
) -> Response:
    body = body.model_copy(update={"cluster_id": request.state.cluster})
    newer = await plane.read(lambda connection: _newer(connection, body, None))
    return await _in_older_words(plane, await projects.create_project(request, plane, caller, newer))


@routes.put(
    f"{CLUSTER}/projects/{{project_id}}",
    action=Action.PROJECT_UPDATE,
    before=check_cluster,
    answer=older.OlderProject,
    summary="Replace a project",
)
async def replace_cluster_project(
    project_id: str, request: Request, plane: Plane, caller: Caller, body: older.OlderProjectRequest
) -> Response:
    def unit(connection: Connection) -> wire.ProjectRequest:
        row = known_project(connection, caller, project_id, Action.PROJECT_UPDATE)
        return _newer(connection, body, wire.ProjectRequest.model_validate_json(row.document))

    newer = wire.ProjectReplacement.model_validate(dict(await plane.read(unit)))
    return await _in_older_words(plane, await projects.replace_project(project_id, request, plane, caller, newer))


@routes.delete(
    f"{CLUSTER}/projects/{{project_id}}",
    action=Action.PROJECT_DELETE,
    before=check_cluster,
    answer=older.OlderProject,
    status=202,
    summary="Delete a project that has no workloads; answers what it was",
)
async def delete_cluster_project(project_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    was = await _in_older_words(plane, await projects.project(project_id, plane, caller))
    deleted = await projects.delete_project(project_id, request, plane, caller)
    return Response(was.body, deleted.status_code, media_type="application/json")


async def _in_older_words(plane: Plane, answer: Response) -> Response:
    """An answer about a project with the older fields, and with the headers it had."""
    found = wire.Project.model_validate_json(bytes(answer.body))
    (shown,) = await plane.read(lambda connection: _older_projects(connection, [found]))
    text = shown.model_dump_json(by_alias=True, exclude_none=True)
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return Response(text, answer.status_code, headers)


def _newer(
    connection: Connection, body: older.OlderProjectRequest, before: wire.ProjectRequest | None
) -> wire.ProjectRequest:
    """The project that is meant. Where `before` is given, what is not said of name, department and quotas stays."""
    if body.permissions is not None and any(dict(body.permissions).values()):
        what = "permissions of a project are not set with it"
        fix = "leave them out, and add access rules: POST /api/v1/authorization/access-rules"
        raise Refused(422, [ProblemItem(code="project.permissions", what=what, fix=fix, field="permissions")])
    said: dict[str, Any] = {"enforce_runai_scheduler": body.enforce_runai_scheduler, "cluster_id": body.cluster_id}
    said |= {name: getattr(body, name) for name in ("description", "default_node_pools")}
    said["requested_namespace"] = body.requested_namespace or body.namespace
    said["name"] = body.name or (before.name if before is not None else None)
    parent = body.parent_id or body.department_id or (before.parent_id if before is not None else "default")
    said["parent_id"] = department_name(connection, parent)
    rules = {newer: value for name, newer in older.RULES.items() if (value := getattr(body, name)) is not None}
    said["scheduling_rules"] = wire.SchedulingRules(**(dict(body.scheduling_rules) | rules))
    said["node_types"] = _node_types(body)
    said["resources"] = _resources(connection, body, before)
    if said["name"] is None:
        missing = ProblemItem(code="request.missing", what="name is missing", fix="add it", field="name")
        raise Refused(422, [missing])
    return wire.ProjectRequest.model_validate(said)


def _node_types(body: older.OlderProjectRequest) -> wire.NodeTypes:
    if body.node_affinity is None:
        return body.node_types
    train, interactive = body.node_affinity.train, body.node_affinity.interactive
    return wire.NodeTypes(training=_selected(train), workspace=_selected(interactive))


def _selected(said: older.OlderAffinity) -> list[str]:
    return [each.name for each in said.selected_types if each.name] if said.affinity_type == "only_selected" else []


def _resources(
    connection: Connection, body: older.OlderProjectRequest, before: wire.ProjectRequest | None
) -> list[wire.PoolResources]:
    if isinstance(body.resources, list):
        return body.resources
    if body.node_pools_resources is not None:
        return [_pool_resources(connection, each) for each in body.node_pools_resources]
    if body.resources is None and all(getattr(body, name) is None for name in OLDER_GPU):
        return before.resources if before is not None else [wire.PoolResources()]
    said = body.resources or older.OlderResources()
    gpu = said.gpu.model_copy(
        update={
            name: value
            for name, value in (
                ("deserved", body.deserved_gpus),
                ("max_allowed", body.max_allowed_gpus),
                ("over_quota_weight", body.gpu_over_quota_weight),
            )
            if value is not None
        }
    )
    return [_of_amounts("default", said.model_copy(update={"gpu": gpu}))]


def _pool_resources(connection: Connection, said: older.OlderPoolResources) -> wire.PoolResources:
    reference = said.node_pool
    known = pool_name(connection, reference.id) if reference.id is not None else "default"
    return _of_amounts(reference.name or known, said)


def _of_amounts(pool: str, said: older.OlderResources) -> wire.PoolResources:
    amounts = {name: _amount(getattr(said, name)) for name in ("gpu", "cpu", "memory")}
    return wire.PoolResources.model_validate({"nodePool": {"id": pool}, **amounts})


def _amount(said: older.OlderGpu | older.OlderCpu | older.OlderMemory) -> dict[str, Any]:
    named = {"deserved": said.deserved, "limit": said.max_allowed, "overQuotaWeight": said.over_quota_weight}
    return {name: value for name, value in named.items() if value is not None}


# --- what is answered ------------------------------------------------------------------------------------------


def _older_projects(connection: Connection, found: Iterable[wire.Project]) -> list[older.OlderProject]:
    pools = {row.name: int(row.number) for row in store.all_node_pools(connection)}
    parents = {row.name: int(row.number) for row in store.all_departments(connection)}
    return [_older_project(each, parents[each.parent_id], pools) for each in found]


def _older_project(project: wire.Project, department: int, pools: Mapping[str, int]) -> older.OlderProject:
    amounts = [_pool_amounts(each, pools) for each in project.resources]
    weights = {each.gpu.over_quota_weight for each in amounts} - {None}
    return older.OlderProject(
        id=project.number,
        name=project.name,
        cluster_uuid=project.cluster_id,
        cluster_id=project.cluster_id,
        department_id=department,
        department_name=project.parent.name,
        namespace=project.status.namespace,
        deserved_gpus=_sum(each.gpu.deserved for each in amounts),
        max_allowed_gpus=_sum(each.gpu.max_allowed for each in amounts),
        gpu_over_quota_weight=max((each for each in weights if each is not None), default=1.0),
        default_node_pools=project.default_node_pools,
        **older.older_rules(project.scheduling_rules),
        interactive_node_affinity=";".join(project.node_types.workspace),
        train_node_affinity=";".join(project.node_types.training),
        resources=older.OlderAmounts(
            gpu=_total([each.gpu for each in amounts]),
            cpu=_total([each.cpu for each in amounts]),
            memory=_total([each.memory for each in amounts]),
        ),
        node_pools_resources=amounts,
        status=older.OlderProjectStatus(
            namespace=project.status.namespace,
            phase=project.status.phase,
            quota_statuses=[older.OlderQuotaStatus(node_pool_name=each.node_pool.name) for each in amounts],
        ),
        phase=project.status.phase,
        created_at=project.created_at,
        revision=project.revision,
    )


def _pool_amounts(said: wire.PoolResources, pools: Mapping[str, int]) -> older.OlderPoolAmounts:
    number = pools.get(said.pool, 0)
    unit = declared.MEMORY_UNITS[said.memory.units] / MIB
    gpu = said.gpu
    weight = gpu.over_quota_weight if gpu.over_quota is None else WEIGHTS.get(gpu.over_quota)
    return older.OlderPoolAmounts(
        id=number,
        node_pool=older.OlderPoolId(id=number, name=said.pool),
        gpu=_shown(gpu.deserved, gpu.limit, weight),
        cpu=_shown(said.cpu.deserved, said.cpu.limit, said.cpu.over_quota_weight),
        memory=_shown(said.memory.deserved, said.memory.limit, said.memory.over_quota_weight, unit),
    )


def _shown(deserved: float, limit: float | None, weight: float | None, unit: float = 1.0) -> older.OlderAmount:
    return older.OlderAmount(
        deserved=_in(unit, deserved),
        max_allowed=UNLIMITED if limit is None else _in(unit, limit),
        over_quota_weight=weight,
    )


def _limit(said: float | None) -> float:
    return UNLIMITED if said is None else said


def _in(unit: float, amount: float) -> float:
    return amount if amount == UNLIMITED else amount * unit


def _sum(amounts: Iterable[float | None]) -> float:
    """-1 if one of them is unlimited."""
    known = [each for each in amounts if each is not None]
    return UNLIMITED if UNLIMITED in known else sum(known)


def _total(amounts: list[older.OlderAmount]) -> older.OlderAmount:
    weights = {each.over_quota_weight for each in amounts}
    return older.OlderAmount(
        deserved=_sum(each.deserved for each in amounts),
        max_allowed=_sum(each.max_allowed for each in amounts),
        over_quota_weight=weights.pop() if len(weights) == 1 else None,
    )


# --- departments and node pools --------------------------------------------------------------------------------


@routes.get(
    f"{CLUSTER}/departments",
    action=Action.DEPARTMENT_READ,
    before=check_cluster,
    answer=list[older.OlderDepartment],
    summary="List the departments of a cluster with their projects",
)
async def cluster_departments(request: Request, plane: Plane, caller: Caller) -> list[older.OlderDepartment]:
    cluster: str = request.state.cluster

    def unit(connection: Connection) -> list[older.OlderDepartment]:
        seen = [each for each in projects.visible_projects(plane, connection, caller) if each.cluster_id == cluster]
        below = _older_projects(connection, seen)
        return [
            older.OlderDepartment(
                id=each.number,
                name=each.name,
                cluster_uuid=cluster,
                deserved_gpus=each.total_resources.gpu_quota,
                max_allowed_gpus=_sum(
                    UNLIMITED if pool.gpu.limit is None else pool.gpu.limit for pool in each.resources
                ),
                projects=[project for project in below if project.department_name == each.name],
                created_at=each.created_at,
            )
            for each in departments.listed_departments(plane, connection, caller)
            if each.cluster_id in ("", cluster)
        ]

    return await plane.read_apart(unit)


@routes.get(
    f"{CLUSTER}/node-pools",
    action=Action.NODE_READ,
    before=check_cluster,
    answer=list[older.OlderNodePool],
    summary="List the node pools of a cluster",
)
async def cluster_pools(request: Request, plane: Plane, caller: Caller) -> list[older.OlderNodePool]:
    cluster: str = request.state.cluster
    found = await plane.read_apart(nodes.all_pools)
    return [_older_pool(each, cluster) for each in found if each.cluster_id in ("", cluster)]


@routes.post(
    f"{CLUSTER}/node-pools",
    action=Action.POOL_CREATE,
    before=check_cluster,
    answer=older.OlderNodePool,
    status=201,
    summary="Create a node pool in a cluster",
)
async def create_cluster_pool(
    request: Request, plane: Plane, caller: Caller, body: nodes_wire.NodePoolRequest
) -> Response:
    body = body.model_copy(update={"cluster_id": request.state.cluster})
    return _pool_in_older_words(request, await nodes.create_pool(request, plane, caller, body))


@routes.put(
    f"{CLUSTER}/node-pools/{{pool_id}}",
    action=Action.POOL_UPDATE,
    before=check_cluster,
    answer=older.OlderNodePool,
    summary="Replace a node pool",
)
async def replace_cluster_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: nodes_wire.NodePoolReplacement
) -> Response:
    return _pool_in_older_words(request, await nodes.replace_pool(pool_id, request, plane, caller, body))


@routes.put(
    f"{CLUSTER}/node-pools/{{pool_id}}/labels",
    action=Action.POOL_UPDATE,
    before=check_cluster,
    answer=older.OlderNodePool,
    summary="Change the label of a node pool's nodes",
)
async def label_cluster_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: older.OlderPoolLabels
) -> Response:
    said = body.model_dump(exclude_none=True)
    return _pool_in_older_words(request, await nodes.change_pool(request, plane, caller, pool_id, said))


def _pool_in_older_words(request: Request, answer: Response) -> Response:
    found = nodes_wire.NodePoolAnswer.model_validate(json.loads(bytes(answer.body)))
    text = _older_pool(found, request.state.cluster).model_dump_json(by_alias=True, exclude_none=True)
    headers = {name: value for name, value in answer.headers.items() if name != "content-length"}
    return Response(text, answer.status_code, headers)


def _older_pool(pool: nodes_wire.NodePoolAnswer, cluster: str) -> older.OlderNodePool:
    return older.OlderNodePool(
        id=pool.number,
        name=pool.name,
        cluster_id=cluster,
        label_key=pool.label_key,
        label_value=pool.label_value,
        placement_strategy=pool.placement_strategy,
        status=pool.phase,
        nodes=",".join(pool.nodes),
        is_default=pool.is_default,
        created_by=pool.created_by,
        updated_by=pool.updated_by,
        created_at=pool.created_at,
        updated_at=pool.updated_at,
    )

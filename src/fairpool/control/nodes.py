"""HTTP routes for nodes, node overrides and node pools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import nodes as wire
from fairpool.api import organization as organization_wire
from fairpool.api.clusters import NodeReport
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Count
from fairpool.control.clusters import known_cluster
from fairpool.control.items import pod_name
from fairpool.control.latest_figures import missing_samples, with_measured
from fairpool.control.metric_query import PARTLY
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.numbers import pool_name
from fairpool.control.organization import add_pool, changed_pool, declare_overrides
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    gpus_field,
    number_field,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import changes, holdings
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import node_pools
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import PodId, WorkloadId, place_of
from fairpool.model.node import DEFAULT_POOL, PRODUCT_LABEL, SIMULATED_LABEL

routes = Routes("nodes")

ClusterId = Annotated[
    str,
    Parameter(
        alias="clusterId",
        max_length=256,
        description="Id or name of the node's cluster; needed if several clusters have a node of this name",
    ),
]

Measured = Annotated[
    str,
    Parameter(
        pattern="^(true|devices|)$", description="`true`: with what was last measured of each; `devices`: also of GPUs"
    ),
]

NODE_FIELDS: Mapping[str, Field[wire.NodeAnswer]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "status": text_field(lambda each: each.status),
    "nodePool": text_field(lambda each: each.node_pool),
    "clusterUuid": text_field(lambda each: each.cluster_uuid),
    "clusterId": text_field(lambda each: each.cluster_uuid),
    "gpuType": text_field(lambda each: each.gpu_info.gpu_type),
    "gpuCount": number_field(lambda each: each.gpu_info.gpu_count),
    "allocatedGPU": gpus_field(lambda each: each.gpu_info.allocated),
    "pods": number_field(lambda each: each.pods),
    "createdAt": time_field(lambda each: each.created_at),
    "updatedAt": time_field(lambda each: each.updated_at),
}
POOL_FIELDS: Mapping[str, Field[wire.NodePoolAnswer]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "phase": text_field(lambda each: each.phase),
    "labelKey": text_field(lambda each: each.label_key),
    "labelValue": text_field(lambda each: each.label_value),
    "clusterId": text_field(lambda each: each.cluster_id),
    "createdAt": time_field(lambda each: each.created_at),
    "updatedAt": time_field(lambda each: each.updated_at),
}


@routes.get(
    "/api/v1/nodes",
    action=Action.NODE_READ,
    answer=wire.NodePage,
    responses=PARTLY,
    summary="List nodes, as last reported by their clusters",
)
async def nodes(plane: Plane, caller: Caller, query: ListQuery, measured: Measured = "") -> Response:
    def unit(connection: Connection) -> wire.NodePage:
        listed, following = page(filtered(all_nodes(connection), NODE_FIELDS, query), query)
        return wire.NodePage(nodes=listed, next=following)

    if not measured:
        return await plane.answer_apart(unit)
    found = await plane.read_apart(unit)
    try:
        there = await with_measured(plane, found.nodes, devices=measured == "devices")
    except Unavailable as error:
        partly = found.model_copy(update={"problems": missing_samples(error)})
        return answered(ActionResult(body=partly, status=207))
    return answered(ActionResult(body=found.model_copy(update={"nodes": there})))


@routes.get("/api/v1/nodes/count", action=Action.NODE_READ, answer=Count, summary="Count nodes")
async def node_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(all_nodes(connection), NODE_FIELDS, query)))
    )


@routes.get(
    "/api/v1/clusters/{cluster_id}/nodes",
    action=Action.NODE_READ,
    answer=wire.NodePage,
    summary="List the nodes of a cluster",
)
async def cluster_nodes(
    cluster_id: str,
    plane: Plane,
    caller: Caller,
    query: ListQuery,
    name: Annotated[str, Parameter(alias="nodeName", max_length=256, description="Only the node of this name")] = "",
) -> Response:
    def unit(connection: Connection) -> wire.NodePage:
        listed, following = page(_nodes_of(connection, cluster_id, query, name), query)
        return wire.NodePage(nodes=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get(
    "/api/v1/clusters/{cluster_id}/nodes/count",
    action=Action.NODE_READ,
    answer=Count,
    summary="Count the nodes of a cluster",
)
async def cluster_node_count(
    cluster_id: str, plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = ""
) -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(lambda connection: Count(count=len(_nodes_of(connection, cluster_id, query))))


def _nodes_of(connection: Connection, cluster_id: str, query: ListQuery, name: str = "") -> list[wire.NodeAnswer]:
    wanted = known_cluster(connection, cluster_id).id
    mine = [each for each in all_nodes(connection, name or None) if each.cluster_uuid == wanted]
    return filtered(mine, NODE_FIELDS, query)


@routes.get(
    "/api/v1/nodes/{node}", action=Action.NODE_READ, answer=wire.NodeDetail, summary="Get a node and the pods on it"
)
async def node(node: str, plane: Plane, caller: Caller, cluster: ClusterId = "") -> Response:
    """The ETag covers only the cordon, taints and labels, not the state that the cluster reports."""

    def unit(connection: Connection) -> wire.NodeDetail:
        known = known_node(connection, node, cluster)
        there = _pods_there(connection, caller, known)
        return wire.NodeDetail(**{name: getattr(known, name) for name in type(known).model_fields}, pods_there=there)

    found = await plane.read(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.put(
    "/api/v1/nodes/{node}/overrides",
    action=Action.NODE_OVERRIDE,
    answer=wire.NodeAnswer,
    summary="Set the cordon, taints and labels of a node; replaces all of them",
)
async def override_node(
    node: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    body: wire.NodeOverridesRequest,
    cluster: ClusterId = "",
) -> Response:
    caller.require(Action.NODE_OVERRIDE)

    def unit(connection: Connection) -> ActionResult:
        before = known_node(connection, node, cluster)
        check_match(request, before.revision)
        revision = declare_overrides(plane, connection, before.cluster_uuid, node, body)
        made = known_node(connection, node, before.cluster_uuid)
        return ActionResult(body=made, action="update", entity_type="node", entity_id=node, revision=revision)

    return await plane.perform(request, caller, unit)


# --- pools ---------------------------------------------------------------------------------------------------


@routes.get("/api/v1/node-pools", action=Action.NODE_READ, answer=wire.NodePoolPage, summary="List node pools")
async def pools(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    def unit(connection: Connection) -> wire.NodePoolPage:
        listed, following = page(filtered(all_pools(connection), POOL_FIELDS, query), query)
        return wire.NodePoolPage(nodepools=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get("/api/v1/node-pools/count", action=Action.NODE_READ, answer=Count, summary="Count node pools")
async def pool_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(all_pools(connection), POOL_FIELDS, query)))
    )


@routes.get(
    "/api/v1/node-pools/{pool_id}", action=Action.NODE_READ, answer=wire.NodePoolAnswer, summary="Get a node pool"
)
async def pool(pool_id: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read_apart(lambda connection: _pool(connection, known_pool(connection, pool_id)))
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    "/api/v1/node-pools",
    action=Action.POOL_CREATE,
    answer=wire.NodePoolAnswer,
    status=201,
    summary="Create a node pool",
)
async def create_pool(request: Request, plane: Plane, caller: Caller, body: wire.NodePoolRequest) -> Response:
    caller.require(Action.POOL_CREATE)

    check_extras(body)

    def unit(connection: Connection) -> ActionResult:
        revision = add_pool(plane, connection, placed(body), caller.name)
        made = _pool(connection, store.node_pool(connection, body.name))
        return ActionResult(
            body=made, status=201, action="create", entity_type="node-pool", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


@routes.put(
    "/api/v1/node-pools/{pool_id}", action=Action.POOL_UPDATE, answer=wire.NodePoolAnswer, summary="Replace a node pool"
)
async def replace_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: wire.NodePoolReplacement
) -> Response:
    check_extras(body)
    said = placed(body).model_dump(exclude_none=True)
    if body.placement_strategy is None:
        said["placement_strategy"] = wire.PlacementStrategy().model_dump()
    return await change_pool(request, plane, caller, pool_id, said)


@routes.patch(
    "/api/v1/node-pools/{pool_id}", action=Action.POOL_UPDATE, answer=wire.NodePoolAnswer, summary="Update a node pool"
)
async def update_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: wire.NodePoolUpdate
) -> Response:
    check_extras(body)
    return await change_pool(request, plane, caller, pool_id, placed(body).model_dump(exclude_none=True))


async def change_pool(request: Request, plane: Plane, caller: Caller, pool_id: str, said: dict[str, Any]) -> Response:
    """Give a node pool other values; those that are not said stay."""
    caller.require(Action.POOL_UPDATE)

    def unit(connection: Connection) -> ActionResult:
        row = known_pool(connection, pool_id)
        name = str(row.name)
        check_match(request, row.revision)
        if said.get("name") not in (None, name):
            raise refused(422, "pool.renamed", "a node pool cannot be renamed", "create another node pool", "name")
        before = wire.NodePoolRequest.model_validate_json(row.document)
        after = changed_pool(connection, before, wire.NodePoolRequest.model_validate(before.model_dump() | said))
        labels = (after.label_key, after.label_value)
        if name == DEFAULT_POOL and labels != (before.label_key, before.label_value):
            what = "the default node pool has no label: it holds the nodes that are in no other pool"
            raise refused(409, "pool.default", what, "create another node pool for these nodes", "labelKey")
        revision = _changed(plane, connection, name, "updated")
        document = after.model_dump_json(by_alias=True)
        values = {"document": document, "revision": revision, "updated_by": caller.name}
        store.change(connection, node_pools, name, plane.now(), **values)
        made = _pool(connection, known_pool(connection, name))
        return ActionResult(body=made, action="update", entity_type="node-pool", entity_id=name, revision=revision)

    return await plane.perform(request, caller, unit)


@routes.delete(
    "/api/v1/node-pools/{pool_id}",
    action=Action.POOL_DELETE,
    status=204,
    summary="Delete a node pool that no project or department uses",
)
async def delete_pool(pool_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.POOL_DELETE)

    def unit(connection: Connection) -> ActionResult:
        row = known_pool(connection, pool_id)
        name = str(row.name)
        check_match(request, row.revision)
        if name == DEFAULT_POOL:
            raise refused(
                409,
                "pool.default",
                "the default node pool cannot be deleted",
                "to empty it, create other node pools for its nodes",
            )
        users = _users_of_pool(connection, name)
        if users:
            what = f"node pool {name} is used by {', '.join(users[:5])}"
            raise refused(412, "pool.in_use", what, "remove it from their quotas and default node pools first")
        store.remove(connection, node_pools, name)
        _changed(plane, connection, name, "deleted")
        return ActionResult(action="delete", entity_type="node-pool", entity_id=name)

    return await plane.perform(request, caller, unit)


def _users_of_pool(connection: Connection, pool_id: str) -> list[str]:
    users = []
    for row in store.all_projects(connection):
        body = organization_wire.ProjectRequest.model_validate_json(row.document)
        named = {each.node_pool.name or each.node_pool.id for each in body.resources}
        if pool_id in named or pool_id in body.default_node_pools:
            users.append(f"project {row.name}")
    for row in store.all_departments(connection):
        above = organization_wire.DepartmentRequest.model_validate_json(row.document)
        named = {each.node_pool.name or each.node_pool.id for each in above.resources}
        if pool_id in named or pool_id in above.default_node_pools:
            users.append(f"department {row.name}")
    return users


def _changed(plane: Plane, connection: Connection, name: str, verb: str) -> int:
    kept = plane.settings.changes_kept
    return changes.record(connection, "node-pool", name, verb, plane.now(), kept=kept)


def check_extras(body: wire.NodePoolExtras) -> None:
    """Refuse what the original can be told of a pool and what is not done here, all of it at once."""
    optimization, scheduling = body.gpu_resource_optimization, body.scheduling_configuration
    objections = {
        "overProvisioningRatio": body.over_provisioning_ratio != 1 and "a GPU is never given out more than once",
        "gpuNetworkAccelerationDetection": body.gpu_network_acceleration_detection is wire.AccelerationDetection.USE
        and "network domains of GPUs are not detected",
        "gpuNetworkAccelerationLabelKey": body.gpu_network_acceleration_label_key is not None
        and "network domains of GPUs are not detected",
        "gpuResourceOptimization.swapEnabled": optimization is not None
        and optimization.swap_enabled
        and "GPU memory is not swapped",
        "gpuResourceOptimization.nodeLevelSchedulerEnabled": optimization is not None
        and optimization.node_level_scheduler_enabled
        and "there is one scheduler for all nodes",
        "schedulingConfiguration.minGuaranteedRuntime": scheduling is not None
        and scheduling.min_guaranteed_runtime is not None
        and "the least runtime is set for each project: reclaimMinRuntimeSeconds in its resources",
        "networkTopologyId": body.network_topology_id is not None
        and "a topology belongs to no pool: workloads name it",
    }
    problems = [
        ProblemItem(code="pool.unsupported", what=why, fix="leave it out", field=field)
        for field, why in objections.items()
        if why
    ]
    if problems:
        raise Refused(422, problems)


ExtrasT = TypeVar("ExtrasT", wire.NodePoolRequest, wire.NodePoolUpdate)


def placed(body: ExtrasT) -> ExtrasT:
    """The same with the placement strategy in its one place, and without what is not stored."""
    scheduling = body.scheduling_configuration
    update: dict[str, Any] = {"scheduling_configuration": None, "gpu_resource_optimization": None}
    if scheduling is not None and scheduling.placement_strategy is not None:
        update["placement_strategy"] = scheduling.placement_strategy
    return body.model_copy(update=update)


def known_pool(connection: Connection, name: str) -> Any:
    """The node pool's row, by name or number."""
    row = store.node_pool(connection, pool_name(connection, name))
    if row is None:
        raise unknown("node pool", name)
    return row


def all_pools(connection: Connection) -> list[wire.NodePoolAnswer]:
    """Every node pool, by name."""
    members, clusters = all_nodes(connection), _cluster_names(connection)
    return [_pool_of(row, members, clusters) for row in store.all_node_pools(connection)]


def _cluster_names(connection: Connection) -> dict[str, str]:
    return {row.id: row.name for row in cluster_store.all_clusters(connection)}


def _pool(connection: Connection, row: Any) -> wire.NodePoolAnswer:
    return _pool_of(row, all_nodes(connection), _cluster_names(connection))


def _pool_of(row: Any, there: list[wire.NodeAnswer], clusters: Mapping[str, str]) -> wire.NodePoolAnswer:
    body = wire.NodePoolRequest.model_validate_json(row.document)
    mine = [each for each in there if body.cluster_id in (None, each.cluster_uuid)]
    members = [each.name for each in mine if each.node_pool == row.name]
    only = list(clusters.values())
    return wire.NodePoolAnswer(
        id=row.name,
        number=row.number,
        name=row.name,
        cluster_id=body.cluster_id or "",
        cluster_name=clusters.get(body.cluster_id or "", "") or (only[0] if len(only) == 1 else ""),
        is_default=row.name == DEFAULT_POOL,
        label_key=body.label_key,
        label_value=body.label_value,
        placement_strategy=body.placement_strategy,
        created_by=row.created_by,
        updated_by=row.updated_by or row.created_by,
        phase="Ready" if members else "Empty",
        nodes=members,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )


def all_nodes(connection: Connection, name: str | None = None) -> list[wire.NodeAnswer]:
    """Every node, or every node of this name, with what the pods on it hold."""
    overrides = {(row.cluster, row.node): row for row in store.node_overrides(connection)}
    in_use = holdings.by_node(connection, name)
    return [
        _node(row, overrides.get((row.cluster, row.name)), in_use.get((row.cluster, row.name), holdings.Use()))
        for row in cluster_store.all_nodes(connection, name)
    ]


def known_node(connection: Connection, name: str, cluster: str) -> wire.NodeAnswer:
    """The node of this name, in the cluster of this id or name if one is given."""
    wanted = known_cluster(connection, cluster).id if cluster else None
    found = [each for each in all_nodes(connection, name) if wanted in (None, each.cluster_uuid)]
    if not found:
        raise unknown("node", name)
    if len(found) > 1:
        names = {row.id: row.name for row in cluster_store.all_clusters(connection)}
        places = ", ".join(sorted(names.get(each.cluster_uuid, "?") for each in found))
        what = f"there is a node {name} in several clusters: {places}"
        raise refused(409, "node.ambiguous", what, "name one with --cluster NAME (API: clusterId)", "clusterId")
    return found[0]


def _pods_there(connection: Connection, caller: Caller, node: wire.NodeAnswer) -> list[wire.NodePod]:
    """Pods on a node. Workloads that the caller may not see are counted, not named."""
    rows = holdings.on_node(connection, node.cluster_uuid, node.name)
    return [_node_pod(row, caller.may(Action.WORKLOAD_READ, row.project, row.department, row.cluster)) for row in rows]


def _node_pod(row: Any, is_visible: bool) -> wire.NodePod:
    held = {"devices": json.loads(row.devices), "gpu": row.gpus_milli / 1000, "cpu_milli": row.cpu_milli}
    if not is_visible:
        return wire.NodePod(name="(another project)", **held, memory_bytes=row.memory_bytes)
    place = place_of(WorkloadId(row.workload), PodId(row.pod))
    return wire.NodePod(
        id=row.pod,
        name=pod_name(row.name, *place) if place is not None else row.pod,
        workload_id=row.workload,
        workload_name=row.name,
        project_name=row.project,
        submitted_by=row.submitted_by,
        memory_bytes=row.memory_bytes,
        **held,
    )


def status_of(report: NodeReport) -> str:
    """Whether a node is ready, in the words of the API."""
    if report.silent_since is not None:
        return "Unknown"
    return "Ready" if report.ready else "NotReady"


def _node(row: Any, overrides_row: Any, use: holdings.Use) -> wire.NodeAnswer:
    report = NodeReport.from_json(row.document)
    overrides = (
        wire.NodeOverridesRequest.model_validate_json(overrides_row.document)
        if overrides_row is not None
        else wire.NodeOverridesRequest()
    )
    return wire.NodeAnswer(
        id=report.name,
        name=report.name,
        cluster_uuid=row.cluster,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        status=status_of(report),
        silent_since=iso_or_none(report.silent_since),
        node_pool=report.pool or DEFAULT_POOL,
        gpu_info=wire.GpuInfo(
            gpu_type=report.labels.get(PRODUCT_LABEL, ""),
            gpu_count=report.gpus,
            gpu_memory_mib=report.gpu_memory_mib,
            withheld=list(report.gpus_withheld),
            withheld_because=report.message,
            allocated=use.gpus_milli / 1000,
            allocated_by_device=[use.devices_milli.get(device, 0) / 1000 for device in range(report.gpus)],
            simulated=report.labels.get(SIMULATED_LABEL) == "true",
        ),
        pods=use.pods,
        cpu_milli=report.cpu_milli or None,
        memory_bytes=report.memory_bytes or None,
        cpu_allocated_milli=use.cpu_milli,
        memory_allocated_bytes=use.memory_bytes,
        labels={**report.labels, **overrides.labels},
        taints=overrides.taints,
        cordoned=report.cordoned or overrides.cordoned,
        overrides=overrides,
        revision=overrides_row.revision if overrides_row is not None else 0,
    )

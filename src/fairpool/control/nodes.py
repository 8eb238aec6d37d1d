"""HTTP routes for nodes, node overrides and node pools."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import nodes as wire
from fairpool.api import organization as organization_wire
from fairpool.api.clusters import NodeReport
from fairpool.api.wire import Count
from fairpool.control.clusters import known_cluster
from fairpool.control.items import pod_name
from fairpool.control.moments import iso, iso_or_none
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
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import changes, holdings
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import node_pools
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
    summary="List nodes, as last reported by their clusters",
)
async def nodes(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    def unit(connection: Connection) -> wire.NodePage:
        listed, following = page(filtered(all_nodes(connection), NODE_FIELDS, query), query)
        return wire.NodePage(nodes=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get("/api/v1/nodes/count", action=Action.NODE_READ, answer=Count, summary="Count nodes")
async def node_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(all_nodes(connection), NODE_FIELDS, query)))
    )


@routes.get(
    "/api/v1/nodes/{node}", action=Action.NODE_READ, answer=wire.NodeDetail, summary="Get a node and the pods on it"
)
async def node(node: str, plane: Plane, caller: Caller, cluster: ClusterId = "") -> Response:
    """The ETag covers only the cordon, taints and labels, not the state that the cluster reports."""

    def unit(connection: Connection) -> wire.NodeDetail:
        known = _known_node(connection, node, cluster)
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
        before = _known_node(connection, node, cluster)
        check_match(request, before.revision)
        revision = declare_overrides(plane, connection, before.cluster_uuid, node, body)
        made = _known_node(connection, node, before.cluster_uuid)
        return ActionResult(body=made, action="update", entity_type="node", entity_id=node, revision=revision)

    return await plane.perform(request, caller, unit)


# --- pools ---------------------------------------------------------------------------------------------------


@routes.get("/api/v1/node-pools", action=Action.NODE_READ, answer=wire.NodePoolPage, summary="List node pools")
async def pools(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    def unit(connection: Connection) -> wire.NodePoolPage:
        listed, following = page(filtered(_pools(connection), POOL_FIELDS, query), query)
        return wire.NodePoolPage(nodepools=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get("/api/v1/node-pools/count", action=Action.NODE_READ, answer=Count, summary="Count node pools")
async def pool_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(_pools(connection), POOL_FIELDS, query)))
    )


@routes.get(
    "/api/v1/node-pools/{pool_id}", action=Action.NODE_READ, answer=wire.NodePoolAnswer, summary="Get a node pool"
)
async def pool(pool_id: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read_apart(lambda connection: _pool(connection, _known_pool(connection, pool_id)))
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

    def unit(connection: Connection) -> ActionResult:
        revision = add_pool(plane, connection, body)
        made = _pool(connection, store.node_pool(connection, body.name))
        return ActionResult(
            body=made, status=201, action="create", entity_type="node-pool", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


@routes.put(
    "/api/v1/node-pools/{pool_id}", action=Action.POOL_UPDATE, answer=wire.NodePoolAnswer, summary="Replace a node pool"
)
async def replace_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: wire.NodePoolRequest
) -> Response:
    if body.name != pool_id:
        raise refused(422, "pool.renamed", "a node pool cannot be renamed", "create another node pool", "name")
    return await _change_pool(request, plane, caller, pool_id, body.model_dump())


@routes.patch(
    "/api/v1/node-pools/{pool_id}", action=Action.POOL_UPDATE, answer=wire.NodePoolAnswer, summary="Update a node pool"
)
async def update_pool(
    pool_id: str, request: Request, plane: Plane, caller: Caller, body: wire.NodePoolUpdate
) -> Response:
    return await _change_pool(request, plane, caller, pool_id, body.model_dump(exclude_none=True))


async def _change_pool(request: Request, plane: Plane, caller: Caller, pool_id: str, said: dict[str, Any]) -> Response:
    caller.require(Action.POOL_UPDATE)

    def unit(connection: Connection) -> ActionResult:
        row = _known_pool(connection, pool_id)
        check_match(request, row.revision)
        before = wire.NodePoolRequest.model_validate_json(row.document)
        after = changed_pool(connection, before, wire.NodePoolRequest.model_validate(before.model_dump() | said))
        labels = (after.label_key, after.label_value)
        if pool_id == DEFAULT_POOL and labels != (before.label_key, before.label_value):
            what = "the default node pool has no label: it holds the nodes that are in no other pool"
            raise refused(409, "pool.default", what, "create another node pool for these nodes", "labelKey")
        revision = _changed(plane, connection, pool_id, "updated")
        document = after.model_dump_json(by_alias=True)
        store.change(connection, node_pools, pool_id, plane.now(), document=document, revision=revision)
        made = _pool(connection, _known_pool(connection, pool_id))
        return ActionResult(body=made, action="update", entity_type="node-pool", entity_id=pool_id, revision=revision)

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
        row = _known_pool(connection, pool_id)
        check_match(request, row.revision)
        if pool_id == DEFAULT_POOL:
            raise refused(
                409,
                "pool.default",
                "the default node pool cannot be deleted",
                "to empty it, create other node pools for its nodes",
            )
        users = _users_of_pool(connection, pool_id)
        if users:
            what = f"node pool {pool_id} is used by {', '.join(users[:5])}"
            raise refused(412, "pool.in_use", what, "remove it from their quotas and default node pools first")
        store.remove(connection, node_pools, pool_id)
        _changed(plane, connection, pool_id, "deleted")
        return ActionResult(action="delete", entity_type="node-pool", entity_id=pool_id)

    return await plane.perform(request, caller, unit)


def _users_of_pool(connection: Connection, pool_id: str) -> list[str]:
    users = []
    for row in store.all_projects(connection):
        body = organization_wire.ProjectRequest.model_validate_json(row.document)
        named = {each.node_pool.name or each.node_pool.id for each in body.resources}
        if pool_id in named or pool_id in body.default_node_pools:
            users.append(f"project {row.name}")
    for row in store.all_departments(connection):
        owed = organization_wire.DepartmentRequest.model_validate_json(row.document).resources
        if pool_id in {each.node_pool.name or each.node_pool.id for each in owed}:
            users.append(f"department {row.name}")
    return users


def _changed(plane: Plane, connection: Connection, name: str, verb: str) -> int:
    kept = plane.settings.changes_kept
    return changes.record(connection, "node-pool", name, verb, plane.now(), kept=kept)


def _known_pool(connection: Connection, name: str) -> Any:
    row = store.node_pool(connection, name)
    if row is None:
        raise unknown("node pool", name)
    return row


def _pools(connection: Connection) -> list[wire.NodePoolAnswer]:
    members = all_nodes(connection)
    return [_pool_of(row, members) for row in store.all_node_pools(connection)]


def _pool(connection: Connection, row: Any) -> wire.NodePoolAnswer:
    return _pool_of(row, all_nodes(connection))


def _pool_of(row: Any, there: list[wire.NodeAnswer]) -> wire.NodePoolAnswer:
    body = wire.NodePoolRequest.model_validate_json(row.document)
    mine = [each for each in there if body.cluster_id in (None, each.cluster_uuid)]
    members = [each.name for each in mine if each.node_pool == row.name]
    is_default = row.name == DEFAULT_POOL
    return wire.NodePoolAnswer(
        id=row.name,
        name=row.name,
        cluster_id=body.cluster_id or "",
        label_key="" if is_default else body.label_key,
        label_value="" if is_default else body.label_value,
        placement_strategy=body.placement_strategy,
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


def _known_node(connection: Connection, name: str, cluster: str) -> wire.NodeAnswer:
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


def _node(row: Any, overrides_row: Any, use: holdings.Use) -> wire.NodeAnswer:
    report = NodeReport.from_json(row.document)
    overrides = (
        wire.NodeOverridesRequest.model_validate_json(overrides_row.document)
        if overrides_row is not None
        else wire.NodeOverridesRequest()
    )
    status = "Unknown" if report.silent_since is not None else "Ready" if report.ready else "NotReady"
    return wire.NodeAnswer(
        id=report.name,
        name=report.name,
        cluster_uuid=row.cluster,
        status=status,
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

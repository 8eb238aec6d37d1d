"""HTTP routes for network topologies: node labels from the widest level to the narrowest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import nodes as wire
from fairpool.api.wire import Count
from fairpool.control.moments import iso
from fairpool.control.nodes import all_nodes
from fairpool.control.organization import cluster_of, record_change
from fairpool.control.paging import Field, FilterBy, ListQuery, Search, counting, filtered, page, text_field, time_field
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import topologies as table
from fairpool.control.workload_documents import declaration_of
from fairpool.model.ids import NodeName
from fairpool.model.node import HOSTNAME_LABEL, Node, Topology

routes = Routes("topologies")

FIELDS: Mapping[str, Field[wire.NetworkTopology]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "createdAt": time_field(lambda each: each.created_at),
}


@routes.get(
    "/api/v1/network-topologies",
    action=Action.NODE_READ,
    answer=wire.NetworkTopologyPage,
    summary="List network topologies",
)
async def topologies(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    def unit(connection: Connection) -> wire.NetworkTopologyPage:
        listed, following = page(filtered(_all(connection), FIELDS, query), query)
        return wire.NetworkTopologyPage(topologies=listed, network_topologies=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get(
    "/api/v1/network-topologies/count", action=Action.NODE_READ, answer=Count, summary="Count network topologies"
)
async def topology_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(lambda connection: Count(count=len(filtered(_all(connection), FIELDS, query))))


@routes.get(
    "/api/v1/network-topologies/{topology}",
    action=Action.NODE_READ,
    answer=wire.NetworkTopology,
    summary="Get a network topology",
)
async def topology(topology: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read_apart(lambda connection: _known(connection, topology))
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    "/api/v1/network-topologies",
    action=Action.POOL_CREATE,
    answer=wire.NetworkTopology,
    status=201,
    summary="Create a network topology",
)
async def create_topology(
    request: Request, plane: Plane, caller: Caller, body: wire.NetworkTopologyRequest
) -> Response:
    caller.require(Action.POOL_CREATE)
    _check_levels(body.levels)

    def unit(connection: Connection) -> ActionResult:
        if body.cluster_id:
            cluster_of(connection, body.cluster_id)
        if any(row.name == body.name for row in store.all_topologies(connection)):
            what = f"network topology {body.name} already exists"
            raise refused(409, "topology.exists", what, "choose another name, or delete it first", "name")
        now = plane.now()
        revision = record_change(plane, connection, "topology", body.name, "created", now)
        document = body.model_dump_json(by_alias=True)
        values = {"document": document, "created_at": now, "updated_at": now, "revision": revision}
        store.add(connection, table, name=body.name, **values)
        return ActionResult(
            body=_known(connection, body.name),
            status=201,
            action="create",
            entity_type="network-topology",
            entity_id=body.name,
            revision=revision,
        )

    return await plane.perform(request, caller, unit)


@routes.delete(
    "/api/v1/network-topologies/{topology}",
    action=Action.POOL_DELETE,
    status=204,
    summary="Delete a network topology that no workload names",
)
async def delete_topology(topology: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.POOL_DELETE)

    def unit(connection: Connection) -> ActionResult:
        check_match(request, _known(connection, topology).revision)
        users = _users(connection, topology)
        if users:
            what = f"network topology {topology} is used by {', '.join(users[:5])}"
            raise refused(412, "topology.in_use", what, "delete these workloads first")
        store.remove(connection, table, topology)
        record_change(plane, connection, "topology", topology, "deleted", plane.now())
        return ActionResult(action="delete", entity_type="network-topology", entity_id=topology)

    return await plane.perform(request, caller, unit)


def _check_levels(levels: list[str]) -> None:
    if len(set(levels)) < len(levels):
        raise refused(422, "topology.levels", "a level is listed twice", "list each label once", "levels")
    if HOSTNAME_LABEL in levels[:-1]:
        what = f"{HOSTNAME_LABEL} is not the last level, but nothing is narrower than a node"
        raise refused(422, "topology.levels", what, "put it last", "levels")


def _all(connection: Connection) -> list[wire.NetworkTopology]:
    nodes = [
        Node(name=NodeName(each.name), cpu_milli=0, memory_bytes=0, labels=each.labels)
        for each in all_nodes(connection)
    ]
    clusters = [row.id for row in cluster_store.all_clusters(connection)]
    only = clusters[0] if len(clusters) == 1 else ""
    return [_answer(row, nodes, only) for row in store.all_topologies(connection)]


def _known(connection: Connection, name: str) -> wire.NetworkTopology:
    found = next((each for each in _all(connection) if each.name == name), None)
    if found is None:
        raise unknown("network topology", name)
    return found


def _answer(row: Any, nodes: list[Node], cluster: str) -> wire.NetworkTopology:
    body = wire.NetworkTopologyRequest.model_validate_json(row.document)
    tree = Topology(name=body.name, levels=tuple(body.levels))
    return wire.NetworkTopology(
        id=row.name,
        name=row.name,
        cluster_id=cluster,
        levels=body.levels,
        nodes=sorted(node.name for node in nodes if tree.domain_of(node) is not None),
        created_at=iso(row.created_at),
        revision=row.revision,
    )


def _users(connection: Connection, name: str) -> list[str]:
    """Workloads whose pods must or should be together in it."""
    constraints = (
        (row.name, declaration_of(row).workload.constraint) for row in workload_store.distributed(connection)
    )
    return [workload for workload, constraint in constraints if constraint and constraint.topology == name]

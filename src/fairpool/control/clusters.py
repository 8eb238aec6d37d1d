"""HTTP routes for clusters and their tokens."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import nodes as wire
from fairpool.api.limits import PAGE_MAX
from fairpool.control.guard import digest_of
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.operator_manifest import OperatorValues, operator_file, operator_file_name
from fairpool.control.organization import declared_only_for
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import assets as asset_store
from fairpool.control.store import changes, usage
from fairpool.control.store import clusters as store
from fairpool.control.store import credentials as credential_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import policies as policy_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS

routes = Routes("clusters")

CONNECTED = "Connected"


@routes.get("/api/v1/clusters", action=Action.CLUSTER_READ, answer=list[wire.ClusterAnswer], summary="List clusters")
async def clusters(
    plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_MAX
) -> list[wire.ClusterAnswer]:
    rows = await plane.read(lambda connection: store.all_clusters(connection, offset, limit))
    return [_cluster(plane, row) for row in rows]


@routes.post(
    "/api/v1/cluster/join",
    action=Action.LINK,
    answer=wire.ClusterAnswer,
    summary="Join as the cluster that the token belongs to (called by clusters)",
)
async def join(plane: Plane, caller: Caller, body: wire.JoinRequest) -> wire.ClusterAnswer:
    """May be repeated. A second installation with the same token is refused: it would start every workload again."""

    def unit(connection: Connection) -> Any:
        row = known_cluster(connection, caller.id)
        if row.installation is None:
            store.change_cluster(connection, row.id, installation=body.installation)
        elif row.installation != body.installation:
            what = f"cluster {row.name} has already joined from another data directory"
            fix = f"if that one is lost, make a new token: runai-adm cluster token {row.name}"
            raise refused(409, "cluster.joined", what, fix, "installation")
        return row

    return _cluster(plane, await plane.write(unit))


@routes.get(
    "/api/v1/clusters/{cluster_id}", action=Action.CLUSTER_READ, answer=wire.ClusterAnswer, summary="Get a cluster"
)
async def cluster(cluster_id: str, plane: Plane, caller: Caller) -> Response:
    found = _cluster(plane, await plane.read(lambda connection: known_cluster(connection, cluster_id)))
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    "/api/v1/clusters",
    action=Action.CLUSTER_CREATE,
    answer=wire.NewCluster,
    status=201,
    summary="Add a cluster; returns its token",
)
async def create_cluster(request: Request, plane: Plane, caller: Caller, body: wire.ClusterRequest) -> Response:
    caller.require(Action.CLUSTER_CREATE)

    def unit(connection: Connection) -> ActionResult:
        if store.cluster_by_name(connection, body.name) is not None:
            what = f"cluster {body.name} already exists"
            raise refused(409, "cluster.exists", what, "choose another name", "name")
        cluster_id, token = add_cluster(plane, connection, body)
        made = _cluster(plane, store.cluster(connection, cluster_id))
        return ActionResult(
            body=wire.NewCluster(**made.model_dump(), token=token),
            kept=wire.NewCluster(**made.model_dump(), token=""),
            status=201,
            action="create",
            entity_type="cluster",
            entity_id=cluster_id,
            entity_name=body.name,
        )

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/clusters/{cluster_id}/token",
    action=Action.CLUSTER_UPDATE,
    answer=wire.NewCluster,
    status=201,
    summary="Make a new token for a cluster; its earlier tokens are revoked",
)
async def renew_token(cluster_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.CLUSTER_UPDATE)

    def unit(connection: Connection) -> ActionResult:
        row = known_cluster(connection, cluster_id)
        if row.id == plane.cluster_beside:
            what = f"cluster {row.name} runs in the process of its control plane and needs no token"
            raise refused(412, "cluster.is_here", what, "add another cluster with `runai-adm cluster create NAME`")
        made = _cluster(plane, row)
        token = new_cluster_token(plane, connection, row.id)
        return ActionResult(
            body=wire.NewCluster(**made.model_dump(), token=token),
            kept=wire.NewCluster(**made.model_dump(), token=""),
            status=201,
            action="update",
            entity_type="cluster",
            entity_id=row.id,
            entity_name=row.name,
        )

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/clusters/{cluster_id}/operator-file",
    action=Action.CLUSTER_UPDATE,
    answer=wire.OperatorFile,
    summary="Get the file that connects a Kubernetes cluster with kubectl apply",
)
async def operator(cluster_id: str, plane: Plane, caller: Caller, body: wire.OperatorRequest) -> wire.OperatorFile:
    """Changes nothing. The token is that which was shown when the cluster was added, or a new one."""
    caller.require(Action.CLUSTER_UPDATE)
    if body.ca_certificate and "-----BEGIN CERTIFICATE-----" not in body.ca_certificate:
        what = "caCertificate is not a certificate in PEM"
        raise refused(422, "operator.certificate", what, "pass the text that begins with -----BEGIN CERTIFICATE-----")

    def unit(connection: Connection) -> Any:
        row = known_cluster(connection, cluster_id)
        token = access_store.token(connection, digest_of(body.token))
        if token is None or token.subject_id != row.id:
            what = f"this is not the token of cluster {row.name}"
            raise refused(422, "operator.token", what, f"make a new one: runai-adm cluster token {row.name}", "token")
        return row

    row = await plane.read(unit)
    values = OperatorValues(
        url=body.control_url or plane.settings.issuer,
        token=body.token,
        ca_certificate=body.ca_certificate,
        image_registry=body.image_registry,
        image_pull_secret=body.image_pull_secret,
    )
    return wire.OperatorFile(name=operator_file_name(row.name), content=operator_file(row.name, values))


@routes.put(
    "/api/v1/clusters/{cluster_id}",
    action=Action.CLUSTER_UPDATE,
    answer=wire.ClusterAnswer,
    summary="Replace a cluster",
)
async def replace_cluster(
    cluster_id: str, request: Request, plane: Plane, caller: Caller, body: wire.ClusterRequest
) -> Response:
    """Domain and version stay as they are if they are left out."""
    caller.require(Action.CLUSTER_UPDATE)

    def unit(connection: Connection) -> ActionResult:
        row = known_cluster(connection, cluster_id)
        check_match(request, row.revision)
        other = store.cluster_by_name(connection, body.name)
        if other is not None and other.id != row.id:
            what = f"cluster {body.name} already exists"
            raise refused(409, "cluster.exists", what, "choose another name", "name")
        revision = _cluster_changed(plane, connection, row.id, "updated")
        said = {name: getattr(body, name) for name in body.model_fields_set}
        store.change_cluster(connection, row.id, **said, revision=revision)
        made = _cluster(plane, store.cluster(connection, row.id))
        return ActionResult(body=made, action="update", entity_type="cluster", entity_id=row.id, revision=revision)

    return await plane.perform(request, caller, unit)


@routes.delete(
    "/api/v1/clusters/{cluster_id}",
    action=Action.CLUSTER_DELETE,
    status=204,
    summary="Remove a cluster that has no projects",
)
async def delete_cluster(cluster_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.CLUSTER_DELETE)

    def unit(connection: Connection) -> ActionResult:
        row = known_cluster(connection, cluster_id)
        check_match(request, row.revision)
        if row.id == plane.cluster_beside:
            what = f"cluster {row.name} is the machine that Fairpool runs on and cannot be removed"
            raise refused(412, "cluster.is_here", what, "to stop running workloads on it, drain its nodes")
        inside = [each.name for each in organization_store.all_projects(connection) if each.cluster == row.id]
        if inside:
            what = f"cluster {row.name} still has projects: {', '.join(inside[:5])}"
            raise refused(412, "cluster.has_projects", what, "delete them first")
        if alone := declared_only_for(connection, row.id):
            what = f"cluster {row.name} still has {', '.join(alone[:5])}"
            raise refused(412, "cluster.has_pools", what, "delete them first")
        left = workload_store.count_in_cluster(connection, row.id)
        if left:
            what = f"cluster {row.name} still has {left} workloads"
            raise refused(412, "cluster.has_work", what, "delete them and wait until they are gone")
        usage.close_cluster(connection, row.id, plane.now())
        store.delete_cluster(connection, row.id)
        asset_store.remove_scope(connection, "cluster", row.id)
        credential_store.remove_scope(connection, "cluster", row.id)
        policy_store.remove_scope(connection, "cluster", row.id)
        access_store.revoke_subject(connection, row.id)
        _cluster_changed(plane, connection, row.id, "deleted")
        return ActionResult(action="delete", entity_type="cluster", entity_id=row.id, entity_name=row.name)

    return await plane.perform(request, caller, unit)


async def cluster_states(plane: Plane) -> list[wire.ClusterAnswer]:
    """All clusters, the oldest first."""
    return [_cluster(plane, row) for row in await plane.read(store.all_clusters)]


async def cluster_beside(plane: Plane) -> wire.ClusterAnswer:
    """The cluster whose loop runs in this process: the oldest one, whatever its name."""
    own = _cluster(plane, (await plane.read(lambda connection: store.all_clusters(connection, 0, 1)))[0])
    plane.cluster_beside = plane.pod_access.local_cluster = own.uuid
    return own


def add_cluster(plane: Plane, connection: Connection, body: wire.ClusterRequest) -> tuple[str, str]:
    """A new cluster: its id and its token, of which only a hash is stored."""
    cluster_id = str(uuid.uuid4())
    revision = _cluster_changed(plane, connection, cluster_id, "created")
    store.add_cluster(
        connection,
        id=cluster_id,
        name=body.name,
        domain=body.domain,
        version=body.version,
        created_at=plane.now(),
        revision=revision,
    )
    return cluster_id, new_cluster_token(plane, connection, cluster_id)


def new_cluster_token(plane: Plane, connection: Connection, cluster_id: str) -> str:
    """A new token for a cluster; earlier ones are revoked, and another installation may join with it."""
    store.change_cluster(connection, cluster_id, installation=None)
    access_store.revoke_subject(connection, cluster_id)
    token = "fpc_" + secrets.token_urlsafe(32)
    access_store.add_token(
        connection,
        digest_of(token),
        family=cluster_id,
        kind="cluster",
        subject_id=cluster_id,
        subject_type="cluster",
        now=plane.now(),
        expires_at=None,
    )
    return token


def _cluster_changed(plane: Plane, connection: Connection, cluster_id: str, verb: str) -> int:
    kept = plane.settings.changes_kept
    return changes.record(connection, "cluster", cluster_id, verb, plane.now(), declared=False, kept=kept)


def note_contact(plane: Plane, connection: Connection, row: Any) -> None:
    """To call with the cluster as it was known, when it is heard of: announces one that joins or comes back. That one
    is lost is noticed by `lost_clusters.py`."""
    if _state(plane, row) != CONNECTED:
        _cluster_changed(plane, connection, row.id, "connected")


def known_cluster(connection: Connection, cluster_id: str) -> Any:
    """The cluster, by id or name."""
    row = store.cluster(connection, cluster_id) or store.cluster_by_name(connection, cluster_id)
    if row is None:
        raise unknown("cluster", cluster_id)
    return row


def _cluster(plane: Plane, row: Any) -> wire.ClusterAnswer:
    return wire.ClusterAnswer(
        uuid=row.id,
        name=row.name,
        domain=row.domain,
        version=row.version,
        status=wire.ClusterState(state=_state(plane, row)),
        last_liveness=iso_or_none(row.last_seen_at),
        created_at=iso(row.created_at),
        in_control_plane=row.id == plane.cluster_beside,
        revision=row.revision,
    )


def _state(plane: Plane, row: Any) -> str:
    if row.last_seen_at is None:
        return "WaitingToConnect"
    is_away = plane.now() - row.last_seen_at > plane.settings.cluster_away_s * SECOND_MS
    return "Disconnected" if is_away else CONNECTED

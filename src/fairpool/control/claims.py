"""Volume claims of projects: listed, created by the submit that asks for a new one, deleted with their data.

A claim is deleted in two steps: a request marks it, then its data is removed in its cluster and its row after that. A
server that is killed in between, or a cluster that is away, leaves it marked, and the next round goes on. Claims that
are deleted with their workload are marked when the cluster has reported that the workload is gone.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import count
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import pod_spec, workload_spec
from fairpool.api import workloads as wire
from fairpool.control.exclusive import alone
from fairpool.control.moments import iso
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.pod_access import PodAccessError
from fairpool.control.rbac import Action
from fairpool.control.refusal import denied, refused, unknown
from fairpool.control.resource_request import bytes_of
from fairpool.control.routes import Parameter, Routes
from fairpool.control.storage_request import KnownClaim
from fairpool.control.store import claims as store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of
from fairpool.model.spec import AccessMode
from fairpool.model.status import WorkloadPhase

routes = Routes("workloads")
log = logging.getLogger("fairpool.control")

CLAIMS = "/api/v1/claims"
FINISHED = (WorkloadPhase.COMPLETED.value,)
"""Workloads in these phases mount nothing any more. Failed ones do when they are resumed."""
SWEEP_EVERY_S = 5.0
NAMED = 5
ProjectQuery = Annotated[str, Parameter(alias="projectId", max_length=64)]


@routes.get(CLAIMS, action=Action.WORKLOAD_READ, answer=wire.ClaimPage, summary="List the volume claims of a project")
async def list_claims(plane: Plane, caller: Caller, project: ProjectQuery = "") -> wire.ClaimPage:
    """Without a project: of all projects; for administrators with those of deleted projects."""

    def unit(connection: Connection) -> wire.ClaimPage:
        if not project:
            return wire.ClaimPage(claims=_visible(connection, caller))
        row = organization_store.project(connection, project)
        if row is None or not caller.may(Action.WORKLOAD_READ, row.name, row.department, row.cluster):
            raise unknown("project", project, is_hidden=row is not None)
        return wire.ClaimPage(claims=[_claim(connection, each) for each in store.all_of(connection, project)])

    return await plane.read(unit)


@routes.delete(
    CLAIMS + "/{name}",
    action=Action.WORKLOAD_DELETE,
    answer=wire.ClaimItem,
    status=202,
    summary="Delete a volume claim with its data",
)
async def delete_claim(name: str, request: Request, plane: Plane, caller: Caller, project: ProjectQuery) -> Response:
    """Refused while a workload mounts it and has not completed. Administrators can delete those of deleted projects."""

    def unit(connection: Connection) -> ActionResult:
        row = _deletable(connection, caller, project, name)
        store.mark(connection, project, name)
        made = _claim(connection, row).model_copy(update={"phase": store.DELETING})
        return ActionResult(
            body=made,
            status=202,
            action="delete",
            entity_type="claim",
            entity_id=name,
            entity_name=f"{project}/{name}",
        )

    answer = await plane.perform(request, caller, unit)
    await sweep(plane)
    return answer


def _visible(connection: Connection, caller: Caller) -> list[wire.ClaimItem]:
    places = caller.places(Action.WORKLOAD_READ)
    rows = store.everything(connection)
    if places is not None:
        mine = organization_store.all_projects(connection, **places.of_projects)
        names = {each.name for each in mine}
        rows = [row for row in rows if row.project in names]
    return [_claim(connection, row) for row in rows]


def _deletable(connection: Connection, caller: Caller, project: str, name: str) -> Any:
    owner = organization_store.project(connection, project)
    if owner is None:
        may_act = caller.may(Action.PROJECT_DELETE)  # of a deleted project
    else:
        may_act = caller.may(Action.WORKLOAD_READ, owner.name, owner.department, owner.cluster)
    row = store.one(connection, project, name) if may_act else None
    if row is None:
        raise unknown("claim", name, is_hidden=not may_act)
    if owner is not None and not caller.may_in_part(
        Action.WORKLOAD_DELETE, owner.name, owner.department, owner.cluster
    ):
        raise denied()
    if users := users_of(connection, project, name):
        shown = ", ".join(users[:NAMED]) + (f" and {len(users) - NAMED} more" if len(users) > NAMED else "")
        what = f"claim {name} is used by {shown}"
        raise refused(409, "claim.in_use", what, "delete those jobs first", "name")
    return row


def users_of(connection: Connection, project: str, name: str) -> list[str]:
    """Names of the workloads that mount a claim and have not completed."""
    found = []
    for row in store.mounting(connection, project, name, FINISHED):
        spec = declaration_of(row).workload
        templates = [each for each in (spec.template, spec.leader) if each is not None]
        if any(volume.claim == name for each in templates for volume in each.program.volumes):
            found.append(row.name)
    return found


def _claim(connection: Connection, row: Any) -> wire.ClaimItem:
    owner = workload_store.one(connection, row.workload) if row.workload and row.ephemeral else None
    project, is_set_aside, _ = row.project.partition(".")
    return wire.ClaimItem(
        name=row.name,
        project_id=row.project,
        project_deleted=bool(is_set_aside) or organization_store.project(connection, project) is None,
        size=row.size or None,
        access_mode=AccessMode(row.access_mode).value,
        ephemeral=row.ephemeral,
        workload=owner.name if owner is not None else None,
        phase=row.phase,
        used_by=users_of(connection, row.project, row.name),
        created_at=iso(row.created_at),
        created_by=row.created_by,
    )


# --- submits -----------------------------------------------------------------------------------------------------


def known_claims(connection: Connection, project: str, others: Iterable[str] = ()) -> dict[str, KnownClaim]:
    """The claims of a project, as a submit is checked against them; `others`: those that its cluster has besides."""
    own = {row.name: _known(connection, row) for row in store.all_of(connection, project)}
    return {**dict.fromkeys(others, KnownClaim()), **own}


def _known(connection: Connection, row: Any) -> KnownClaim:
    owner = workload_store.one(connection, row.workload) if row.ephemeral else None
    return KnownClaim(
        access=AccessMode(row.access_mode),
        workload=row.workload,
        deleted_with=(owner.name if owner is not None else row.workload) if row.ephemeral else "",
        is_deleting=row.phase == store.DELETING,
        size_bytes=bytes_of(row.size) or 0,
        storage_class=row.storage_class,
    )


def with_claim_names(
    connection: Connection, body: workload_spec.SubmitAny, workload: str, project: str
) -> workload_spec.SubmitAny:
    """The same request with a free name for every new claim that has none."""
    wanted = body.spec.storage.pvc
    if all(each.claim_name or each.existing_pvc for each in wanted):
        return body
    taken = store.names(connection, project) | {each.claim_name for each in wanted}
    free = (name for number in count() if (name := f"pvc-{workload}-{number}") not in taken)
    pvc = [each if each.claim_name or each.existing_pvc else _named(each, next(free)) for each in wanted]
    storage = body.spec.storage.model_copy(update={"pvc": pvc})
    return body.model_copy(update={"spec": body.spec.model_copy(update={"storage": storage})})


def _named(claim: pod_spec.Pvc, name: str) -> pod_spec.Pvc:
    return claim.model_copy(update={"claim_name": name})


def as_existing(spec: dict[str, Any]) -> dict[str, Any]:
    """An admitted specification, to be submitted again: its new claims exist by now."""
    storage = spec.get("storage") or {}
    made = [
        {key: value for key, value in each.items() if key not in ("claimInfo", "ephemeral")} | {"existingPvc": True}
        for each in storage.get("pvc") or []
    ]
    return {**spec, "storage": {**storage, "pvc": made}} if made else spec


def make(
    connection: Connection,
    body: workload_spec.SubmitAny,
    project: str,
    *,
    workload: str,
    cluster: str,
    by: str,
    now: int,
) -> None:
    """Store the new claims of an admitted request."""
    made: Mapping[str, store.NewClaim] = {
        each.claim_name: store.NewClaim(
            name=each.claim_name,
            size=each.claim_info.size,
            access_mode=each.claim_info.access_mode,
            ephemeral=each.ephemeral,
            storage_class=each.claim_info.storage_class or "",
        )
        for each in body.spec.storage.pvc
        if not each.existing_pvc and each.claim_name and each.claim_info is not None
    }
    if made:
        store.note(connection, project, made.values(), workload=workload, cluster=cluster, by=by, now=now)


# --- what is deleted ---------------------------------------------------------------------------------------------


async def delete_marked_claims(plane: Plane) -> None:
    """Delete claims that are marked or whose workload is gone, until cancelled."""
    while True:
        await asyncio.sleep(SWEEP_EVERY_S)
        try:
            await sweep(plane)
        except Exception:  # nothing is lost, the next round tries again
            log.exception("could not delete volume claims; retrying in %g s", SWEEP_EVERY_S)


async def sweep(plane: Plane) -> None:
    """Remove the data of claims that are being deleted, then their rows."""
    # One at a time: a second sweep would go on to remove the data of a claim that was created again meanwhile.
    async with alone(plane, "claims"):
        if not await plane.read(store.has_abandoned):
            return
        await plane.write(store.mark_abandoned)
        for each in await plane.read(store.marked):
            await _remove_marked(plane, each.project, each.name)


async def _remove_marked(plane: Plane, project: str, name: str) -> None:
    # Read again: the claims before it took their time, in which its project may have been replaced.
    row = await plane.read(partial(store.one, project=project, name=name))
    if row is None or row.phase != store.DELETING:
        return
    cluster = row.cluster or await plane.read(partial(_cluster_of, row=row))
    if not cluster:
        return
    try:
        await plane.pod_access.of(cluster).remove_claim(project, name)
    except PodAccessError as error:  # its cluster is away; the next round tries again
        log.info("the data of claim %s/%s is not removed yet: %s", project, name, error)
        return
    await plane.write(partial(store.remove_marked, project=project, name=name))


def _cluster_of(connection: Connection, row: Any) -> str:
    """Of a claim from before its cluster was stored: its project's, or the only one there is."""
    project = organization_store.project(connection, row.project)
    if project is not None:
        return str(project.cluster)
    clusters = cluster_store.all_clusters(connection)
    return str(clusters[0].id) if len(clusters) == 1 else ""

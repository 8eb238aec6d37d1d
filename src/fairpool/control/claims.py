"""Volume claims of projects: listed, and created by the submit that asks for a new one."""

from __future__ import annotations

from itertools import count
from typing import Annotated, Any

from fairpool.api import pod_spec, workload_spec
from fairpool.api import workloads as wire
from fairpool.control.moments import iso
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import claims as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("workloads")


@routes.get(
    "/api/v1/claims", action=Action.WORKLOAD_READ, answer=wire.ClaimPage, summary="List the volume claims of a project"
)
async def list_claims(
    plane: Plane,
    caller: Caller,
    project: Annotated[str, Parameter(alias="projectId", min_length=1, max_length=64)],
) -> wire.ClaimPage:
    def unit(connection: Connection) -> wire.ClaimPage:
        row = organization_store.project(connection, project)
        if row is None or not caller.may(Action.WORKLOAD_READ, row.name, row.department):
            raise unknown("project", project, is_hidden=row is not None)
        return wire.ClaimPage(claims=[_claim(each) for each in store.all_of(connection, project)])

    return await plane.read(unit)


def _claim(row: Any) -> wire.ClaimItem:
    return wire.ClaimItem(
        name=row.name,
        project_id=row.project,
        size=row.size or None,
        created_at=iso(row.created_at),
        created_by=row.created_by,
    )


def with_claim_names(
    connection: Connection, body: workload_spec.SubmitAny, workload: str, project: str
) -> workload_spec.SubmitAny:
    """The same request with a free name for every new claim that has none. Claims outlive their workload."""
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
        {key: value for key, value in each.items() if key != "claimInfo"} | {"existingPvc": True}
        for each in storage.get("pvc") or []
    ]
    return {**spec, "storage": {**storage, "pvc": made}} if made else spec


def make(connection: Connection, body: workload_spec.SubmitAny, project: str, by: str, now: int) -> None:
    """Store the new claims of an admitted request."""
    new = [each for each in body.spec.storage.pvc if not each.existing_pvc]
    if not new:
        return
    made = [(each.claim_name or "", each.claim_info.size if each.claim_info else "") for each in new]
    store.note(connection, project, made, by, now)

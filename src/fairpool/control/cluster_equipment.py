"""What clusters with objects of their own report about them, and who may do what in their projects.

The addresses of workloads, and what is wrong with their objects, are written into their rows; claims and storage
classes are what submits are checked against.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import cluster_equipment as link
from fairpool.api.access import ScopeType, SubjectType
from fairpool.api.message import read_message
from fairpool.api.problems import problem_item
from fairpool.control import declarations
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action, Grant, permits
from fairpool.control.refusal import Refused
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import equipment as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId, WorkloadId

routes = Routes("clusters")

ROWS = 200
"""Workloads whose addresses are written in one transaction."""


@routes.post(
    link.CLUSTER_EQUIPMENT,
    action=Action.LINK,
    summary="Report addresses, claims and storage classes of a cluster (called by clusters)",
    request_body=link.EquipmentReport,
    answer=link.EquipmentAnswer,
    body_max_bytes=32 * 1024 * 1024,
)
async def exchange(request: Request, plane: Plane, caller: Caller) -> Response:
    """Answers who may do what in the cluster's projects."""
    report = read_message(link.EquipmentReport, await request.body())
    if isinstance(report, list):
        raise Refused(422, [problem_item(each) for each in report])
    answer = await exchanged(plane, caller.id, report)
    return Response(answer.to_json(report.version), media_type="application/json")


async def exchanged(plane: Plane, cluster: str, report: link.EquipmentReport) -> link.EquipmentAnswer:
    """Take in what a cluster has, and answer who may do what there."""
    before = await plane.read(partial(equipment_of, cluster=cluster))
    if before != report:
        changed = _changed(before or link.EquipmentReport(), report)
        for first in range(0, len(changed), ROWS):
            part = changed[first : first + ROWS]
            await plane.write(partial(_note_equipment, plane, cluster=cluster, changed=part))
        document = report.to_json()
        await plane.write(lambda connection: store.store(connection, cluster, document, plane.now()))
    grants = await plane.read(partial(grants_in, cluster=cluster))
    return link.EquipmentAnswer(grants=tuple(link.AccessGrantWire.of(each) for each in grants))


def equipment_of(connection: Connection, cluster: str) -> link.EquipmentReport | None:
    """What a cluster reported last; None: it has no objects of its own."""
    document = store.reported(connection, cluster)
    return None if document is None else _read(document)


@lru_cache(maxsize=64)
def _read(document: str) -> link.EquipmentReport:
    return link.EquipmentReport.from_json(document)


Reached = tuple[WorkloadId, tuple[str, ...], str]
"""A workload, its addresses, and what is wrong with its objects."""


def _changed(before: link.EquipmentReport, now: link.EquipmentReport) -> list[Reached]:
    def reached(report: link.EquipmentReport, each: WorkloadId) -> Reached:
        return each, report.addresses.get(each, ()), report.problems.get(each, "")

    named = {each for report in (before, now) for each in (*report.addresses, *report.problems)}
    return [reached(now, each) for each in sorted(named) if reached(before, each) != reached(now, each)]


def _note_equipment(plane: Plane, connection: Connection, cluster: str, changed: Sequence[Reached]) -> None:
    rows = workload_store.some(connection, [workload for workload, _, _ in changed])
    for workload, addresses, problem in changed:
        row: Any = rows.get(workload)
        # A cluster says something about its own workloads only.
        if row is None or row.cluster != cluster or row.deleted_at is not None:
            continue
        known = declaration_of(row)
        if (known.reported_addresses, known.reported_problem) != (addresses, problem):
            declarations.set_reported_equipment(plane, connection, row, addresses, problem)


# --- who may do what ---------------------------------------------------------------------------------------------


def grants_in(connection: Connection, cluster: str) -> list[AccessGrant]:
    """The roles in the projects of a cluster that its API server can enforce, each once.

    It knows no kinds of workloads: a user who may not operate all of them may only look. Programs do not sign in there.
    """
    given = [
        (kind, subject, grant)
        for kind, subject, grant in access_store.grants_of_all(connection)
        if kind in (SubjectType.USER, SubjectType.GROUP) and permits(grant, Action.WORKLOAD_READ)
    ]
    names = _names(connection, [subject for kind, subject, _ in given if kind is SubjectType.USER])
    projects = [row for row in organization_store.all_projects(connection) if row.cluster == cluster]
    found = {
        AccessGrant(
            subject=subject if kind is SubjectType.GROUP else names[subject],
            is_group=kind is SubjectType.GROUP,
            may_operate=permits(grant, Action.WORKLOAD_OPERATE),
            queue=queue,
        )
        for kind, subject, grant in given
        if kind is SubjectType.GROUP or subject in names
        for queue in _queues(grant, cluster, projects)
    }
    return sorted(found, key=lambda each: (each.queue or "", each.is_group, each.subject, each.may_operate))


def _names(connection: Connection, users: Sequence[str]) -> dict[str, str]:
    """Email addresses by id, of users who may sign in."""
    wanted = frozenset(users)
    return {
        each.id: each.email for each in access_store.all_users(connection) if each.id in wanted and not each.disabled
    }


def _queues(grant: Grant, cluster: str, projects: Sequence[Any]) -> list[QueueId | None]:
    match grant.scope_type:
        case ScopeType.TENANT:
            return [None]
        case ScopeType.CLUSTER:
            return [None] if grant.scope_id == cluster else []
        case ScopeType.DEPARTMENT:
            return [QueueId(row.name) for row in projects if row.department == grant.scope_id]
    return [QueueId(row.name) for row in projects if row.name == grant.scope_id]

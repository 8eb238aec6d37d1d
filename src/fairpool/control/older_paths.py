"""Legacy administrator API: older paths of the same routes, and three routes with older fields.

Left out are the installation files of clusters.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access, classic
from fairpool.api.problems import ProblemItem
from fairpool.control import applications, clusters, departments, nodes, projects, roles, users
from fairpool.control.audit import choice
from fairpool.control.classic import classic_job
from fairpool.control.filters import Filter, Operator
from fairpool.control.moments import iso
from fairpool.control.older_organization import CLUSTER, K8S, check_cluster
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Parameter, Route, Routes
from fairpool.control.store import audit as audit_store
from fairpool.control.store import workload_lists
from fairpool.control.store.database import Connection
from fairpool.control.workloads import rendered_items

routes = Routes("administrator (legacy)")

AUDIT_LIMIT = 40
JOBS_MAX = 1_000_000
ACTIONS = {"create": "Create", "update": "Update", "delete": "Delete", "sign-in": "Login", "sign-out": "Logout"}


@routes.get(
    f"{CLUSTER}/jobs",
    action=Action.WORKLOAD_READ,
    before=check_cluster,
    answer=list[classic.ClassicJob],
    summary="List the jobs of a cluster that you can see",
)
async def cluster_jobs(request: Request, plane: Plane, caller: Caller) -> list[classic.ClassicJob]:
    places = caller.places(Action.WORKLOAD_READ)
    listing = workload_lists.Listing(
        filters=(Filter("clusterId", Operator.EQUALS, request.state.cluster),),
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        limit=JOBS_MAX,
    )
    keys = await plane.read(lambda connection: workload_lists.page(connection, listing))
    found = await rendered_items(plane, keys)
    return [classic_job(json.loads(each)) for each in found]


# --- users and the audit log, in older words -----------------------------------------------------------------


@routes.post(f"{K8S}/users", action=Action.USER_CREATE, answer=access.NewUser, status=201, summary="Create a user")
async def create_user(request: Request, plane: Plane, caller: Caller, body: classic.ClassicUser) -> Response:
    problems = []
    if not body.permit_all_clusters or body.permitted_clusters:
        what = "users cannot be restricted to certain clusters"
        fix = "remove it, and assign roles in projects instead"
        problems.append(ProblemItem(code="user.clusters", what=what, fix=fix, field="permittedClusters"))
    if problems:
        raise Refused(422, problems)
    asked = access.UserRequest(
        email=body.email,
        password=body.password,
        need_to_change_password=body.need_to_change_password,
        roles=sorted(set(body.roles)),
    )
    return await users.create_user(request, plane, caller, asked)


@routes.get(
    f"{K8S}/audit",
    action=Action.AUDIT_READ,
    answer=list[classic.ClassicAuditEntry],
    summary="List the audit log, newest first",
)
async def audit(
    plane: Plane,
    caller: Caller,
    start: Annotated[str | None, Parameter(max_length=64)] = None,
    end: Annotated[str | None, Parameter(max_length=64)] = None,
    action: Annotated[str | None, Parameter(max_length=64, examples=["Login"])] = None,
    source_type: Annotated[str | None, Parameter(max_length=64, examples=["User"])] = None,
    entity_type: Annotated[str | None, Parameter(max_length=64)] = None,
    offset: Offset = 0,
    limit: Limit = AUDIT_LIMIT,
) -> list[classic.ClassicAuditEntry]:
    caller.require(Action.AUDIT_READ)
    newer = {older: name for name, older in ACTIONS.items()}
    said = {
        "action": newer.get(action, action) if action is not None else None,
        "subject_type": source_type,
        "entity_type": entity_type,
    }
    wanted = choice({name: value for name, value in said.items() if value is not None}, start, end)

    def unit(connection: Connection) -> list[Any]:
        return audit_store.entries(connection, wanted, offset, limit)

    return [_entry(row) for row in await plane.read(unit)]


def _entry(row: Any) -> classic.ClassicAuditEntry:
    return classic.ClassicAuditEntry(
        happened_at=iso(row.at),
        action=ACTIONS.get(row.action, row.action),
        entity_type=row.entity_type,
        entity_name=row.entity_name,
        source_type=row.subject_type,
        source_name=row.subject,
        context={"url": row.url, "result": row.result, "sourceIp": row.source_ip},
    )


# --- the rest: the same under an older path ------------------------------------------------------------------

SAME = (
    (f"{K8S}/clusters", "GET POST", "/api/v1/clusters"),
    (CLUSTER, "GET PUT DELETE", "/api/v1/clusters/{cluster_id}"),
    (f"{CLUSTER}/departments", "POST", "/api/v1/org-unit/departments"),
    (f"{CLUSTER}/departments/{{department_id}}", "GET PUT DELETE", "/api/v1/org-unit/departments/{department_id}"),
    (f"{CLUSTER}/node-pools/{{pool_id}}", "GET DELETE", "/api/v1/node-pools/{pool_id}"),
    (f"{K8S}/users", "GET", "/api/v1/users"),
    (f"{K8S}/users/roles", "GET", "/api/v1/authorization/roles"),
    (f"{K8S}/users/{{user_id}}", "GET DELETE", "/api/v1/users/{user_id}"),
    (f"{K8S}/apps", "GET POST", "/api/v1/apps"),
    (f"{K8S}/apps/{{app_id}}", "GET DELETE", "/api/v1/apps/{app_id}"),
)
"""Older path, its methods, and the path whose routes it repeats."""


def _repeated() -> Iterator[Route]:
    """Under a cluster's path the cluster must exist."""
    modules = (clusters, projects, departments, nodes, users, roles, applications)
    newer = {(route.method, route.path): route for module in modules for route in module.routes}
    for path, methods, same in SAME:
        before = check_cluster if path.startswith(f"{CLUSTER}/") else None
        for method in methods.split():
            yield replace(newer[(method, same)], path=path, tag=routes.tag, before=before)


routes.extend(_repeated())

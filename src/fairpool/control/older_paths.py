"""Paths of the older administrator API. Most lead to the newer handler and give its answer; three have older words.

Left out is what one machine cannot answer: installation files of clusters, groups.
"""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from fairpool.api import access, classic
from fairpool.api import nodes as nodes_wire
from fairpool.api import organization as wire
from fairpool.api.problems import ProblemItem
from fairpool.control import applications, clusters, departments, nodes, projects, users
from fairpool.control.access_rules import roles
from fairpool.control.audit import choice
from fairpool.control.classic import job
from fairpool.control.filters import Filter, Operator
from fairpool.control.lean_route import LeanRoute
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset, WishDep, chosen, page
from fairpool.control.plane import CallerDep, PlaneDep
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.store import audit as audit_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection

router = APIRouter(tags=["administrator (legacy)"], route_class=LeanRoute)

K8S = "/v1/k8s"
CLUSTER = f"{K8S}/clusters/{{cluster_id}}"
AUDIT_LIMIT = 40
JOBS_MAX = 1_000_000
ACTIONS = {"create": "Create", "update": "Update", "delete": "Delete", "sign-in": "Login", "sign-out": "Logout"}
ROLES = {"admin": access.RoleName.ADMINISTRATOR, "administrator": access.RoleName.ADMINISTRATOR} | {
    "researcher": access.RoleName.RESEARCHER
}


async def the_cluster(cluster_id: str, plane: PlaneDep, caller: CallerDep) -> str:
    """The id of the cluster in the path, which is there."""
    return str((await plane.read(lambda connection: clusters.known_cluster(connection, cluster_id))).id)


ClusterDep = Annotated[str, Depends(the_cluster)]


# --- projects and jobs of one cluster ------------------------------------------------------------------------


@router.get(f"{CLUSTER}/projects", response_model=wire.ProjectPage, summary="List the projects of a cluster")
async def cluster_projects(plane: PlaneDep, caller: CallerDep, cluster: ClusterDep, wish: WishDep) -> wire.ProjectPage:
    everything = await plane.read(lambda connection: projects.visible_projects(connection, caller))
    mine = [each for each in everything if each.cluster_id == cluster]
    listed, following = page(chosen(mine, projects.FIELDS, wish), wish)
    return wire.ProjectPage(projects=listed, next=following)


@router.post(
    f"{CLUSTER}/projects", response_model=wire.Project, status_code=201, summary="Create a project in a cluster"
)
async def create_cluster_project(
    request: Request, plane: PlaneDep, caller: CallerDep, cluster: ClusterDep, body: wire.ProjectRequest
) -> Response:
    body = body.model_copy(update={"cluster_id": cluster})
    return await projects.create_project(request, plane, caller, body)


@router.get(
    f"{CLUSTER}/jobs", response_model=list[classic.ClassicJob], summary="List the jobs of a cluster that you can see"
)
async def cluster_jobs(plane: PlaneDep, caller: CallerDep, cluster: ClusterDep) -> list[classic.ClassicJob]:
    places = caller.places(Action.WORKLOAD_READ)
    listing = workload_store.Listing(
        filters=(Filter("clusterId", Operator.EQUALS, cluster),),
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        limit=JOBS_MAX,
    )
    found = await plane.read(lambda connection: workload_store.page(connection, listing))
    return [job(json.loads(each)) for each in found]


# --- users and the audit log, in older words -----------------------------------------------------------------


@router.post(f"{K8S}/users", response_model=access.NewUser, status_code=201, summary="Create a user")
async def create_user(request: Request, plane: PlaneDep, caller: CallerDep, body: classic.ClassicUser) -> Response:
    problems = [
        ProblemItem(
            code="role.unknown",
            what=f"there is no role {name!r}",
            fix=f"use one of {', '.join(sorted(ROLES))}",
            field=f"roles.{at}",
        )
        for at, name in enumerate(body.roles)
        if name not in ROLES
    ]
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
        roles=sorted({ROLES[name] for name in body.roles}),
    )
    return await users.create_user(request, plane, caller, asked)


@router.get(f"{K8S}/audit", response_model=list[classic.ClassicAuditEntry], summary="List the audit log, newest first")
async def audit(
    plane: PlaneDep,
    caller: CallerDep,
    start: Annotated[str | None, Query(max_length=64)] = None,
    end: Annotated[str | None, Query(max_length=64)] = None,
    action: Annotated[str | None, Query(max_length=64, examples=["Login"])] = None,
    source_type: Annotated[str | None, Query(max_length=64, examples=["User"])] = None,
    entity_type: Annotated[str | None, Query(max_length=64)] = None,
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


def _same(method: str, path: str, handler: Any, summary: str, answer: Any = None, status: int = 200) -> None:
    """Another path for a handler; under a cluster's path the cluster must be there."""
    of_cluster = path.startswith(f"{CLUSTER}/")
    router.add_api_route(
        path,
        handler,
        methods=[method],
        response_model=answer,
        status_code=status,
        summary=summary,
        dependencies=[Depends(the_cluster)] if of_cluster else [],
    )


_same("GET", f"{K8S}/clusters", clusters.clusters, "List clusters", nodes_wire.ClusterPage)
_same("POST", f"{K8S}/clusters", clusters.create_cluster, "Add a cluster", nodes_wire.NewCluster, 201)
_same("GET", CLUSTER, clusters.cluster, "Get a cluster", nodes_wire.ClusterAnswer)
_same("PUT", CLUSTER, clusters.replace_cluster, "Replace a cluster", nodes_wire.ClusterAnswer)
_same("DELETE", CLUSTER, clusters.delete_cluster, "Remove a cluster that has no projects", None, 204)

_PROJECT, _DEPARTMENT = f"{CLUSTER}/projects/{{project_id}}", f"{CLUSTER}/departments/{{department_id}}"
_same("GET", _PROJECT, projects.project, "Get a project", wire.Project)
_same("PUT", _PROJECT, projects.replace_project, "Replace a project", wire.Project)
_same(
    "DELETE", _PROJECT, projects.delete_project, "Delete a project; if it has workloads, delete or move them", None, 202
)

_DEPARTMENTS = f"{CLUSTER}/departments"
_same("GET", _DEPARTMENTS, departments.departments, "List departments", wire.DepartmentPage)
_same("POST", _DEPARTMENTS, departments.create_department, "Create a department", wire.Department, 201)
_same("GET", _DEPARTMENT, departments.department, "Get a department", wire.Department)
_same("PUT", _DEPARTMENT, departments.replace_department, "Replace a department", wire.Department)
_same("DELETE", _DEPARTMENT, departments.delete_department, "Delete a department that has no projects", None, 204)

_POOLS, _POOL = f"{CLUSTER}/node-pools", f"{CLUSTER}/node-pools/{{pool_id}}"
_same("GET", _POOLS, nodes.pools, "List node pools", nodes_wire.NodePoolPage)
_same("POST", _POOLS, nodes.create_pool, "Create a node pool", nodes_wire.NodePoolAnswer, 201)
_same("GET", _POOL, nodes.pool, "Get a node pool", nodes_wire.NodePoolAnswer)
_same("PUT", _POOL, nodes.replace_pool, "Replace a node pool", nodes_wire.NodePoolAnswer)
_same("DELETE", _POOL, nodes.delete_pool, "Delete a node pool that is not in use", None, 204)

_same("GET", f"{K8S}/users", users.users, "List users", access.UserPage)
_same("GET", f"{K8S}/users/roles", roles, "List roles and their permissions", access.RolePage)
_same("GET", f"{K8S}/users/{{user_id}}", users.user, "Get a user", access.User)
_same("DELETE", f"{K8S}/users/{{user_id}}", users.delete_user, "Delete a user and end their sessions", None, 204)

_same("GET", f"{K8S}/apps", applications.applications, "List applications", access.ApplicationPage)
_same("POST", f"{K8S}/apps", applications.create_application, "Create an application", access.NewApplication, 201)
_same("GET", f"{K8S}/apps/{{app_id}}", applications.application, "Get an application", access.Application)
_same("DELETE", f"{K8S}/apps/{{app_id}}", applications.delete_application, "Delete an application", None, 204)

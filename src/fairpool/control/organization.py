"""Projects and departments: handler and transaction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from fairpool.api import organization as wire
from fairpool.api.access import ScopeType
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import PAGE_DEFAULT, Count
from fairpool.control import declared
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import Caller, CallerDep, Done, Plane, PlaneDep, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.removal import Fate, delete_project_with_work
from fairpool.control.store import access as access_store
from fairpool.control.store import changes
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import departments as departments_table
from fairpool.control.store.tables import node_pools
from fairpool.control.store.tables import projects as projects_table
from fairpool.model.ids import Instant
from fairpool.model.organization import Organization

router = APIRouter(tags=["organization"])

PROJECTS = "/api/v1/org-unit/projects"
DEPARTMENTS = "/api/v1/org-unit/departments"
DEFAULT_DEPARTMENT = "default"

Search = Annotated[str, Query(max_length=256)]


# --- projects ------------------------------------------------------------------------------------------------


@router.get(PROJECTS, response_model=wire.ProjectPage, summary="Projects that I may see")
async def projects(
    plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT, search: Search = ""
) -> wire.ProjectPage:
    def unit(connection: Connection) -> wire.ProjectPage:
        rows = _visible(connection, caller, search, offset, limit + 1)
        use = store.use_by_project(connection)
        following = offset + limit if len(rows) > limit else None
        return wire.ProjectPage(projects=[_project(row, use) for row in rows[:limit]], next=following)

    return await plane.read(unit)


@router.get(f"{PROJECTS}/count", response_model=Count, summary="How many there are that I may see")
async def project_count(plane: PlaneDep, caller: CallerDep, search: Search = "") -> Count:
    rows = await plane.read(lambda connection: _visible(connection, caller, search, 0, 1_000_000))
    return Count(count=len(rows))


@router.get(PROJECTS + "/{project_id}", response_model=wire.Project, summary="One project")
async def project(project_id: str, plane: PlaneDep, caller: CallerDep, response: Response) -> wire.Project:
    def unit(connection: Connection) -> wire.Project:
        row = known_project(connection, caller, project_id, Action.PROJECT_READ)
        return _project(row, store.use_by_project(connection))

    found = await plane.read(unit)
    response.headers["ETag"] = f'"{found.revision}"'
    return found


@router.post(PROJECTS, response_model=wire.Project, status_code=201, summary="Make a project")
async def create_project(request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ProjectRequest) -> Response:
    caller.require(Action.PROJECT_WRITE, department=body.parent_id)

    def unit(connection: Connection) -> Done:
        now = plane.now()
        before = store.project(connection, body.name)
        if before is not None:
            what = f"there is a project {body.name} already"
            if before.phase == "Deleting":
                what = f"project {body.name} is still being deleted"
            raise refused(409, "project.exists", what, "choose another name, or wait until it is gone", "name")
        _check(connection, body)
        cluster = cluster_of(connection, body.cluster_id)
        revision = _changed(plane, connection, "project", body.name, "created", now)
        store.add(
            connection,
            projects_table,
            name=body.name,
            department=body.parent_id,
            cluster=cluster,
            phase="Ready",
            document=body.model_dump_json(by_alias=True),
            created_at=now,
            created_by=caller.name,
            updated_at=now,
            revision=revision,
        )
        made = _project(store.project(connection, body.name), {})
        return Done(
            body=made, status=201, action="create", entity_type="project", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


@router.put(PROJECTS + "/{project_id}", response_model=wire.Project, summary="A project as it should be")
async def replace_project(
    project_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ProjectRequest
) -> Response:
    if body.name != project_id:
        what = "a project keeps its name: work, logs and namespaces are called after it"
        raise refused(422, "project.renamed", what, f"leave it {project_id[:64]!r}, or make another project", "name")
    return await _change_project(request, plane, caller, project_id, lambda _: body)


@router.patch(PROJECTS + "/{project_id}", response_model=wire.Project, summary="Change what is said of a project")
async def update_project(
    project_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ProjectUpdate
) -> Response:
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    return await _change_project(request, plane, caller, project_id, lambda before: before.model_copy(update=said))


@router.put(PROJECTS + "/{project_id}/resources", response_model=wire.Project, summary="What a project is owed")
@router.patch(PROJECTS + "/{project_id}/resources", response_model=wire.Project, summary="The same")
async def set_project_resources(
    project_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ResourcesUpdate
) -> Response:
    """`PATCH` changes the pools that are named, `PUT` all."""

    def change(before: wire.ProjectRequest) -> wire.ProjectRequest:
        resources = body.resources
        if request.method == "PATCH":
            named = {each.node_pool.name or each.node_pool.id for each in resources}
            rest = [each for each in before.resources if (each.node_pool.name or each.node_pool.id) not in named]
            resources = [*rest, *resources]
        return before.model_copy(update={"resources": resources})

    return await _change_project(request, plane, caller, project_id, change)


@router.delete(
    PROJECTS + "/{project_id}",
    status_code=202,
    summary="Delete a project; with work in it, say what becomes of the work",
)
async def delete_project(
    project_id: str,
    request: Request,
    plane: PlaneDep,
    caller: CallerDep,
    workloads: Annotated[Fate | None, Query(description="What becomes of work that is still in it")] = None,
    to: Annotated[str | None, Query(description="With `move`: to which project", max_length=64)] = None,
) -> Response:
    """Answers 409 with the choices while work is in it and nothing was said about that."""

    def unit(connection: Connection) -> Done:
        row = known_project(connection, caller, project_id, Action.PROJECT_WRITE)
        check_match(request, row.revision)
        if to is not None:
            caller.require(Action.PROJECT_WRITE, project=to, department=_department_of(connection, to))
        return delete_project_with_work(plane, connection, row, workloads, to)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


async def _change_project(
    request: Request,
    plane: Plane,
    caller: Caller,
    project_id: str,
    change: Callable[[wire.ProjectRequest], wire.ProjectRequest],
) -> Response:
    def unit(connection: Connection) -> Done:
        now = plane.now()
        row = known_project(connection, caller, project_id, Action.PROJECT_WRITE)
        check_match(request, row.revision)
        body = change(wire.ProjectRequest.model_validate_json(row.document))
        caller.require(Action.PROJECT_WRITE, project=project_id, department=body.parent_id)
        _check(connection, body)
        revision = _changed(plane, connection, "project", project_id, "updated", now)
        document = body.model_dump_json(by_alias=True)
        store.change(
            connection, projects_table, project_id, now, document=document, department=body.parent_id, revision=revision
        )
        made = _project(store.project(connection, project_id), store.use_by_project(connection))
        return Done(body=made, action="update", entity_type="project", entity_id=project_id, revision=revision)

    return await plane.perform(request, caller, unit)


# --- departments ---------------------------------------------------------------------------------------------


@router.get(DEPARTMENTS, response_model=wire.DepartmentPage, summary="Departments")
async def departments(
    plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.DepartmentPage:
    def unit(connection: Connection) -> wire.DepartmentPage:
        rows = store.all_departments(connection, offset, limit + 1)
        following = offset + limit if len(rows) > limit else None
        listed = [_department(connection, row, caller) for row in rows[:limit]]
        return wire.DepartmentPage(departments=listed, next=following)

    return await plane.read(unit)


@router.get(f"{DEPARTMENTS}/count", response_model=Count, summary="How many departments there are")
async def department_count(plane: PlaneDep, caller: CallerDep) -> Count:
    return Count(count=await plane.read(lambda connection: store.count(connection, departments_table)))


@router.get(DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="One department")
async def department(department_id: str, plane: PlaneDep, caller: CallerDep, response: Response) -> wire.Department:
    def unit(connection: Connection) -> wire.Department:
        return _department(connection, _known_department(connection, department_id), caller)

    found = await plane.read(unit)
    response.headers["ETag"] = f'"{found.revision}"'
    return found


@router.post(DEPARTMENTS, response_model=wire.Department, status_code=201, summary="Make a department")
async def create_department(
    request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentRequest
) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)

    def unit(connection: Connection) -> Done:
        now = plane.now()
        if store.department(connection, body.name) is not None:
            what = f"there is a department {body.name} already"
            raise refused(409, "department.exists", what, "choose another name", "name")
        _check_resources(connection, body.resources)
        revision = _changed(plane, connection, "department", body.name, "created", now)
        document = body.model_dump_json(by_alias=True)
        store.add(
            connection,
            departments_table,
            name=body.name,
            document=document,
            created_at=now,
            updated_at=now,
            revision=revision,
        )
        made = _department(connection, store.department(connection, body.name), caller)
        return Done(
            body=made, status=201, action="create", entity_type="department", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


@router.put(DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="A department as it should be")
async def replace_department(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentRequest
) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)
    if body.name != department_id:
        raise refused(422, "department.renamed", "a department keeps its name", "make another one", "name")

    def unit(connection: Connection) -> Done:
        now = plane.now()
        row = _known_department(connection, department_id)
        check_match(request, row.revision)
        _check_resources(connection, body.resources)
        revision = _changed(plane, connection, "department", department_id, "updated", now)
        document = body.model_dump_json(by_alias=True)
        store.change(connection, departments_table, department_id, now, document=document, revision=revision)
        made = _department(connection, store.department(connection, department_id), caller)
        return Done(body=made, action="update", entity_type="department", entity_id=department_id, revision=revision)

    return await plane.perform(request, caller, unit)


@router.delete(DEPARTMENTS + "/{department_id}", status_code=204, summary="Delete a department without projects")
async def delete_department(department_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)

    def unit(connection: Connection) -> Done:
        row = _known_department(connection, department_id)
        check_match(request, row.revision)
        if department_id == DEFAULT_DEPARTMENT:
            what = "the default department is always there"
            raise refused(409, "department.default", what, "leave it")
        inside = store.projects_of(connection, department_id)
        if inside:
            what = f"department {department_id} still has projects: {', '.join(inside[:5])}"
            raise refused(412, "department.has_projects", what, "move or delete them first")
        store.remove(connection, departments_table, department_id)
        access_store.delete_rules_of_scope(connection, ScopeType.DEPARTMENT, department_id)
        _changed(plane, connection, "department", department_id, "deleted", plane.now())
        return Done(action="delete", entity_type="department", entity_id=department_id)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


# --- what both need ------------------------------------------------------------------------------------------


def known_project(connection: Connection, caller: Caller, name: str, action: Action) -> Any:
    """The project, unless the caller may not know of it, or may not do this in it."""
    row = store.project(connection, name)
    if row is None or not caller.may(Action.PROJECT_READ, row.name, row.department):
        raise unknown("project", name)
    caller.require(action, row.name, row.department)
    return row


def cluster_of(connection: Connection, asked: str | None) -> str:
    """The cluster that was named, by id or name; without a name, the only one there is."""
    if asked:
        row = cluster_store.cluster(connection, asked) or cluster_store.cluster_by_name(connection, asked)
        if row is None:
            raise refused(422, "cluster.unknown", f"there is no cluster {asked!r}", "name one of the list", "clusterId")
        return str(row.id)
    rows = cluster_store.all_clusters(connection)
    if len(rows) != 1:
        what = f"there are {len(rows)} clusters, and none was named"
        raise refused(422, "cluster.not_named", what, "give clusterId", "clusterId")
    return str(rows[0].id)


def pool_names(connection: Connection) -> frozenset[str]:
    return frozenset(store.pool_names(connection))


def organization_of(connection: Connection, cluster: str) -> Organization:
    """Everything that is declared for a cluster except its workloads."""
    marks = {row.node: row.document for row in store.marks(connection) if row.cluster == cluster}
    return declared.organization(
        [_project_unit(row) for row in store.project_page(connection, names=None) if row.cluster == cluster],
        [_department_unit(row) for row in store.all_departments(connection)],
        [wire.NodePoolRequest.model_validate_json(row.document) for row in store.all_node_pools(connection)],
        {node: wire.NodeMarksRequest.model_validate_json(document) for node, document in marks.items()},
    )


def make_first_organization(plane: Plane, connection: Connection) -> None:
    """On a fresh database: the default department and the default pool."""
    now = plane.now()
    if store.department(connection, DEFAULT_DEPARTMENT) is None:
        body = wire.DepartmentRequest(name=DEFAULT_DEPARTMENT)
        store.add(
            connection,
            departments_table,
            name=body.name,
            document=body.model_dump_json(by_alias=True),
            created_at=now,
            updated_at=now,
            revision=_changed(plane, connection, "department", body.name, "created", now),
        )
    if store.node_pool(connection, "default") is None:
        pool = wire.NodePoolRequest(name="default", label_key="-", label_value="-")
        store.add(
            connection,
            node_pools,
            name=pool.name,
            document=pool.model_dump_json(by_alias=True),
            created_at=now,
            updated_at=now,
            revision=_changed(plane, connection, "node-pool", pool.name, "created", now),
        )


def _visible(connection: Connection, caller: Caller, search: str, offset: int, limit: int) -> list[Any]:
    places = caller.places(Action.PROJECT_READ)
    return store.project_page(
        connection,
        names=None if places is None else places.projects,
        parents=() if places is None else places.departments,
        search=search,
        offset=offset,
        limit=limit,
    )


def _check(connection: Connection, body: wire.ProjectRequest) -> None:
    """Everything that is wrong with a project, at once."""
    pools = pool_names(connection)
    problems = declared.resource_problems(body.resources, pools)
    if store.department(connection, body.parent_id) is None:
        what, fix = f"there is no department {body.parent_id}", "make it first, or use default"
        problems.append(ProblemItem(code="department.unknown", what=what, fix=fix, field="parentId"))
    for name in body.default_node_pools:
        if name not in pools:
            fix = f"use one of {', '.join(sorted(pools))}"
            what = f"there is no node pool {name}"
            problems.append(ProblemItem(code="pool.unknown", what=what, fix=fix, field="defaultNodePools"))
    if body.requested_namespace not in (None, f"runai-{body.name}"):
        fix = f"leave it out, or ask for runai-{body.name}"
        what = "a project's namespace follows from its name"
        problems.append(ProblemItem(code="project.namespace", what=what, fix=fix, field="requestedNamespace"))
    if problems:
        raise Refused(422, problems)


def _check_resources(connection: Connection, resources: list[wire.PoolResources]) -> None:
    problems = declared.resource_problems(resources, pool_names(connection))
    if problems:
        raise Refused(422, problems)


def _changed(plane: Plane, connection: Connection, noun: str, name: str, verb: str, now: Instant) -> int:
    project = name if noun == "project" else None
    return changes.record(connection, noun, name, verb, now, project=project, kept=plane.settings.changes_kept)


def _known_department(connection: Connection, name: str) -> Any:
    row = store.department(connection, name)
    if row is None:
        raise unknown("department", name)
    return row


def _department_of(connection: Connection, project: str) -> str:
    row = store.project(connection, project)
    return str(row.department) if row is not None else ""


def _project_unit(row: Any) -> declared.Unit:
    body = wire.ProjectRequest.model_validate_json(row.document)
    return declared.Unit(row.name, tuple(body.resources), row.created_at, row.department, body.scheduling_rules)


def _department_unit(row: Any) -> declared.Unit:
    body = wire.DepartmentRequest.model_validate_json(row.document)
    return declared.Unit(row.name, tuple(body.resources), row.created_at)


def _project(row: Any, use: dict[str, tuple[int, int]]) -> wire.Project:
    body = wire.ProjectRequest.model_validate_json(row.document)
    number, held = use.get(row.name, (0, 0))
    return wire.Project(
        id=row.name,
        name=row.name,
        cluster_id=row.cluster,
        parent_id=row.department,
        parent=wire.Parent(id=row.department, name=row.department),
        description=body.description,
        default_node_pools=body.default_node_pools,
        node_types=body.node_types,
        scheduling_rules=body.scheduling_rules,
        resources=body.resources,
        total_resources=declared.totals(body.resources),
        status=wire.ProjectStatus(
            namespace=f"runai-{row.name}", phase=row.phase, quota_status={"allocatedGpus": held / 1000}
        ),
        allocated_gpus=held / 1000,
        workloads=number,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        created_by=row.created_by,
        revision=row.revision,
    )


def _department(connection: Connection, row: Any, caller: Caller) -> wire.Department:
    body = wire.DepartmentRequest.model_validate_json(row.document)
    names = store.projects_of(connection, row.name)
    places = caller.places(Action.PROJECT_READ)
    owed = [
        declared.totals(wire.ProjectRequest.model_validate_json(each.document).resources).gpu_quota
        for name in names
        if (each := store.project(connection, name)) is not None
    ]
    total = declared.totals(body.resources)
    warnings = []
    if places is None and total.gpu_quota >= 0 and sum(max(each, 0) for each in owed) > total.gpu_quota:
        below = sum(max(each, 0) for each in owed)
        warnings.append(f"the quotas below {row.name} add up to {below:g} GPUs, its own is {total.gpu_quota:g}")
    return wire.Department(
        id=row.name,
        name=row.name,
        cluster_id=body.cluster_id or "",
        description=body.description,
        resources=body.resources,
        total_resources=total,
        projects=[name for name in names if places is None or places.covers(name, row.name)],
        warnings=warnings,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )

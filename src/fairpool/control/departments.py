"""Departments: handler and transaction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter, Request, Response

from fairpool.api import organization as wire
from fairpool.api.access import ScopeType
from fairpool.api.wire import Count
from fairpool.control import declared
from fairpool.control.lean_route import LeanRoute
from fairpool.control.moments import iso
from fairpool.control.organization import DEFAULT_DEPARTMENT, changed, check_resources
from fairpool.control.paging import Field, FilterBy, Search, WishDep, chosen, counting, gpus, moment, page, text
from fairpool.control.plane import Caller, CallerDep, Done, Plane, PlaneDep, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.store import access as access_store
from fairpool.control.store import organization as store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import departments as departments_table
from fairpool.control.store.tables import workloads as workloads_table

router = APIRouter(tags=["departments"], route_class=LeanRoute)

DEPARTMENTS = "/api/v1/org-unit/departments"


FIELDS: Mapping[str, Field[wire.Department]] = {
    "name": text(lambda each: each.name),
    "id": text(lambda each: each.id),
    "clusterId": text(lambda each: each.cluster_id),
    "createdAt": moment(lambda each: each.created_at),
    "updatedAt": moment(lambda each: each.updated_at),
    "gpuQuota": gpus(lambda each: each.total_resources.gpu_quota),
}


@router.get(DEPARTMENTS, response_model=wire.DepartmentPage, summary="Departments")
async def departments(plane: PlaneDep, caller: CallerDep, wish: WishDep) -> wire.DepartmentPage:
    found = chosen(await plane.read(lambda connection: _departments(connection, caller)), FIELDS, wish)
    listed, following = page(found, wish)
    return wire.DepartmentPage(departments=listed, next=following)


@router.get(f"{DEPARTMENTS}/count", response_model=Count, summary="How many departments there are")
async def department_count(plane: PlaneDep, caller: CallerDep, filter_by: FilterBy = "", search: Search = "") -> Count:
    everything = await plane.read(lambda connection: _departments(connection, caller))
    return Count(count=len(chosen(everything, FIELDS, counting(filter_by, search))))


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
        check_resources(connection, body.resources)
        revision = changed(plane, connection, "department", body.name, "created", now)
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
    if body.name != department_id:
        raise refused(422, "department.renamed", "a department keeps its name", "make another one", "name")
    return await _change_department(request, plane, caller, department_id, lambda _: body)


@router.patch(
    DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="Change what is said of a department"
)
async def update_department(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentUpdate
) -> Response:
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    return await _change_department(
        request, plane, caller, department_id, lambda before: before.model_copy(update=said)
    )


@router.put(
    DEPARTMENTS + "/{department_id}/resources", response_model=wire.Department, summary="What a department is owed"
)
@router.patch(
    DEPARTMENTS + "/{department_id}/resources",
    response_model=wire.Department,
    summary="What a department is owed in some pools",
)
async def set_department_resources(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ResourcesUpdate
) -> Response:
    """`PATCH` changes the pools that are named, `PUT` all."""

    def change(before: wire.DepartmentRequest) -> wire.DepartmentRequest:
        resources = body.resources if request.method == "PUT" else body.merged_into(before.resources)
        return before.model_copy(update={"resources": resources})

    return await _change_department(request, plane, caller, department_id, change)


async def _change_department(
    request: Request,
    plane: Plane,
    caller: Caller,
    department_id: str,
    change: Callable[[wire.DepartmentRequest], wire.DepartmentRequest],
) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)

    def unit(connection: Connection) -> Done:
        now = plane.now()
        row = _known_department(connection, department_id)
        check_match(request, row.revision)
        body = change(wire.DepartmentRequest.model_validate_json(row.document))
        check_resources(connection, body.resources)
        revision = changed(plane, connection, "department", department_id, "updated", now)
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
        revision = changed(plane, connection, "department", department_id, "deleted", plane.now())
        plane.database.when_committed(plane.tail.forget)
        workload_store.bury(connection, workloads_table.c.department, department_id, revision)
        return Done(action="delete", entity_type="department", entity_id=department_id)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


def _departments(connection: Connection, caller: Caller) -> list[wire.Department]:
    return [_department(connection, row, caller) for row in store.all_departments(connection)]


def _known_department(connection: Connection, name: str) -> Any:
    row = store.department(connection, name)
    if row is None:
        raise unknown("department", name)
    return row


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
    use = store.use_by_project(connection)
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
        allocated_gpus=sum(use[name][1] for name in names if name in use) / 1000,
        warnings=warnings,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )

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
from fairpool.control.organization import (
    DEFAULT_DEPARTMENT,
    OrganizationTree,
    changed,
    check_resources,
    organization_tree,
)
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
from fairpool.model.quantity import WHOLE_GPU_MILLI

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


@router.get(DEPARTMENTS, response_model=wire.DepartmentPage, summary="List departments")
async def departments(plane: PlaneDep, caller: CallerDep, wish: WishDep) -> wire.DepartmentPage:
    found = chosen(await plane.read(lambda connection: _departments(connection, caller)), FIELDS, wish)
    listed, following = page(found, wish)
    return wire.DepartmentPage(departments=listed, next=following)


@router.get(f"{DEPARTMENTS}/count", response_model=Count, summary="Count departments")
async def department_count(plane: PlaneDep, caller: CallerDep, filter_by: FilterBy = "", search: Search = "") -> Count:
    everything = await plane.read(lambda connection: _departments(connection, caller))
    return Count(count=len(chosen(everything, FIELDS, counting(filter_by, search))))


@router.get(DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="Get a department")
async def department(department_id: str, plane: PlaneDep, caller: CallerDep, response: Response) -> wire.Department:
    def unit(connection: Connection) -> wire.Department:
        return _department(connection, _known_department(connection, department_id), caller)

    found = await plane.read(unit)
    response.headers["ETag"] = f'"{found.revision}"'
    return found


@router.post(DEPARTMENTS, response_model=wire.Department, status_code=201, summary="Create a department")
async def create_department(
    request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentRequest
) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)

    def unit(connection: Connection) -> Done:
        now = plane.now()
        if store.department(connection, body.name) is not None:
            what = f"department {body.name} already exists"
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


@router.put(DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="Replace a department")
async def replace_department(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentRequest
) -> Response:
    if body.name != department_id:
        raise refused(422, "department.renamed", "a department cannot be renamed", "create another department", "name")
    return await _change_department(request, plane, caller, department_id, lambda _: body)


@router.patch(DEPARTMENTS + "/{department_id}", response_model=wire.Department, summary="Update a department")
async def update_department(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentUpdate
) -> Response:
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    return await _change_department(
        request, plane, caller, department_id, lambda before: before.model_copy(update=said)
    )


@router.put(
    DEPARTMENTS + "/{department_id}/resources", response_model=wire.Department, summary="Replace a department's quotas"
)
@router.patch(
    DEPARTMENTS + "/{department_id}/resources",
    response_model=wire.Department,
    summary="Update a department's quotas in some node pools",
)
async def set_department_resources(
    department_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: wire.DepartmentResourcesUpdate
) -> Response:
    """`PATCH` changes only the node pools in the request; `PUT` replaces all of them."""

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


@router.delete(DEPARTMENTS + "/{department_id}", status_code=204, summary="Delete a department that has no projects")
async def delete_department(department_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    caller.require(Action.DEPARTMENT_WRITE)

    def unit(connection: Connection) -> Done:
        row = _known_department(connection, department_id)
        check_match(request, row.revision)
        if department_id == DEFAULT_DEPARTMENT:
            what = "the default department cannot be deleted"
            raise refused(
                409, "department.default", what, "to ignore department quotas, turn off the setting department.use"
            )
        inside = store.projects_of(connection, department_id)
        if inside:
            what = f"department {department_id} still has projects: {', '.join(inside[:5])}"
            raise refused(412, "department.has_projects", what, "move or delete them first")
        store.remove(connection, departments_table, department_id)
        access_store.delete_rules_of_scope(connection, ScopeType.DEPARTMENT, department_id)
        revision = changed(plane, connection, "department", department_id, "deleted", plane.now())
        plane.database.when_committed(plane.change_feed.forget)
        workload_store.bury(connection, workloads_table.c.department, department_id, revision)
        return Done(action="delete", entity_type="department", entity_id=department_id)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


def _departments(connection: Connection, caller: Caller) -> list[wire.Department]:
    known = organization_tree(connection)
    warnings = known.warnings()
    return [_shown(row, known, warnings, caller) for row in store.all_departments(connection)]


def _known_department(connection: Connection, name: str) -> Any:
    row = store.department(connection, name)
    if row is None:
        raise unknown("department", name)
    return row


def _department(connection: Connection, row: Any, caller: Caller) -> wire.Department:
    known = organization_tree(connection)
    return _shown(row, known, known.warnings(), caller)


def _shown(row: Any, known: OrganizationTree, warnings: Mapping[str, list[str]], caller: Caller) -> wire.Department:
    body = wire.DepartmentRequest.model_validate_json(row.document)
    places = caller.places(Action.PROJECT_READ)
    below = [each for each in known.projects if each.parent == row.name]
    return wire.Department(
        id=row.name,
        name=row.name,
        cluster_id=body.cluster_id or "",
        description=body.description,
        resources=body.resources,
        total_resources=declared.department_totals(body.resources, [each.resources for each in below]),
        quota_is_set=any(each.gpu.deserved is not None for each in body.resources),
        allocated_gpus=sum(known.held_milli.get(each.name, 0) for each in below) / WHOLE_GPU_MILLI,
        projects=[each.name for each in below if places is None or places.covers(each.name, row.name)],
        warnings=warnings[row.name] if places is None else [],
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )

"""HTTP routes for departments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import organization as wire
from fairpool.api.access import ScopeType
from fairpool.api.wire import Count
from fairpool.control import declared
from fairpool.control.moments import iso
from fairpool.control.numbers import department_name
from fairpool.control.organization import (
    DEFAULT_DEPARTMENT,
    OrganizationTree,
    add_department,
    change_department,
    organization_tree,
    record_change,
)
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    gpus_field,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.projects import quota_status
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import assets as asset_store
from fairpool.control.store import credentials as credential_store
from fairpool.control.store import organization as store
from fairpool.control.store import policies as policy_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import departments as departments_table
from fairpool.control.store.tables import workloads as workloads_table
from fairpool.model.quantity import WHOLE_GPU_MILLI

routes = Routes("departments")

DEPARTMENTS = "/api/v1/org-unit/departments"


FIELDS: Mapping[str, Field[wire.Department]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "clusterId": text_field(lambda each: each.cluster_id),
    "createdAt": time_field(lambda each: each.created_at),
    "updatedAt": time_field(lambda each: each.updated_at),
    "gpuQuota": gpus_field(lambda each: each.total_resources.gpu_quota),
}


@routes.get(DEPARTMENTS, action=Action.DEPARTMENT_READ, answer=wire.DepartmentPage, summary="List departments")
async def departments(plane: Plane, caller: Caller, query: ListQuery) -> Response:
    def unit(connection: Connection) -> wire.DepartmentPage:
        listed, following = page(filtered(listed_departments(plane, connection, caller), FIELDS, query), query)
        return wire.DepartmentPage(departments=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get(f"{DEPARTMENTS}/count", action=Action.DEPARTMENT_READ, answer=Count, summary="Count departments")
async def department_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(listed_departments(plane, connection, caller), FIELDS, query)))
    )


@routes.get(
    DEPARTMENTS + "/{department_id}", action=Action.DEPARTMENT_READ, answer=wire.Department, summary="Get a department"
)
async def department(department_id: str, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> wire.Department:
        return _department(plane, connection, _known_department(connection, caller, department_id), caller)

    found = await plane.read_apart(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    DEPARTMENTS, action=Action.DEPARTMENT_CREATE, answer=wire.Department, status=201, summary="Create a department"
)
async def create_department(request: Request, plane: Plane, caller: Caller, body: wire.DepartmentRequest) -> Response:
    caller.require(Action.DEPARTMENT_CREATE)

    def unit(connection: Connection) -> ActionResult:
        revision = add_department(plane, connection, body)
        made = _department(plane, connection, store.department(connection, body.name), caller)
        return ActionResult(
            body=made, status=201, action="create", entity_type="department", entity_id=body.name, revision=revision
        )

    return await plane.perform(request, caller, unit)


@routes.put(
    DEPARTMENTS + "/{department_id}",
    action=Action.DEPARTMENT_UPDATE,
    answer=wire.Department,
    summary="Replace a department",
)
async def replace_department(
    department_id: str, request: Request, plane: Plane, caller: Caller, body: wire.DepartmentReplacement
) -> Response:
    def change(before: wire.DepartmentRequest) -> wire.DepartmentRequest:
        if body.name not in (None, before.name):
            what = "a department cannot be renamed"
            raise refused(422, "department.renamed", what, "create another department", "name")
        return wire.DepartmentRequest.model_validate(dict(body) | {"name": before.name})

    return await _change_department(request, plane, caller, department_id, change)


@routes.patch(
    DEPARTMENTS + "/{department_id}",
    action=Action.DEPARTMENT_UPDATE,
    answer=wire.Department,
    summary="Update a department",
)
async def update_department(
    department_id: str, request: Request, plane: Plane, caller: Caller, body: wire.DepartmentUpdate
) -> Response:
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    return await _change_department(
        request, plane, caller, department_id, lambda before: before.model_copy(update=said)
    )


@routes.put(
    DEPARTMENTS + "/{department_id}/resources",
    action=Action.DEPARTMENT_UPDATE,
    answer=wire.Department,
    summary="Replace a department's quotas",
)
@routes.patch(
    DEPARTMENTS + "/{department_id}/resources",
    action=Action.DEPARTMENT_UPDATE,
    answer=wire.Department,
    summary="Update a department's quotas in some node pools",
)
async def set_department_resources(
    department_id: str, request: Request, plane: Plane, caller: Caller, body: wire.DepartmentResourcesUpdate
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
    caller.require(Action.DEPARTMENT_UPDATE)

    def unit(connection: Connection) -> ActionResult:
        row = _known_department(connection, caller, department_id)
        check_match(request, row.revision)
        body = change(wire.DepartmentRequest.model_validate_json(row.document))
        revision = change_department(plane, connection, body)
        made = _department(plane, connection, store.department(connection, row.name), caller)
        return ActionResult(body=made, action="update", entity_type="department", entity_id=row.name, revision=revision)

    return await plane.perform(request, caller, unit)


@routes.delete(
    DEPARTMENTS + "/{department_id}",
    action=Action.DEPARTMENT_DELETE,
    status=204,
    summary="Delete a department that has no projects",
)
async def delete_department(department_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.DEPARTMENT_DELETE)

    def unit(connection: Connection) -> ActionResult:
        row = _known_department(connection, caller, department_id)
        name = str(row.name)
        check_match(request, row.revision)
        if name == DEFAULT_DEPARTMENT:
            what = "the default department cannot be deleted"
            raise refused(
                409, "department.default", what, "to ignore department quotas, turn off the setting department.use"
            )
        inside = store.projects_of(connection, name)
        if inside:
            what = f"department {name} still has projects: {', '.join(inside[:5])}"
            raise refused(412, "department.has_projects", what, "move or delete them first")
        store.remove(connection, departments_table, name)
        access_store.delete_rules_of_scope(connection, ScopeType.DEPARTMENT, name)
        asset_store.remove_scope(connection, ScopeType.DEPARTMENT.value, name)
        credential_store.remove_scope(connection, ScopeType.DEPARTMENT.value, name)
        policy_store.remove_scope(connection, ScopeType.DEPARTMENT.value, name)
        revision = record_change(plane, connection, "department", name, "deleted", plane.now())
        plane.forget_feed_when_committed()
        workload_store.release_name(connection, workloads_table.c.department, name, revision)
        return ActionResult(action="delete", entity_type="department", entity_id=name)

    return await plane.perform(request, caller, unit)


def listed_departments(plane: Plane, connection: Connection, caller: Caller) -> list[wire.Department]:
    """Departments that the caller may see, by name."""
    known = organization_tree(plane, connection)
    warnings = known.warnings()
    seen = visible_departments(connection, caller)
    rows = [row for row in store.all_departments(connection) if seen is None or row.name in seen]
    return [_shown(row, known, warnings, caller) for row in rows]


def visible_departments(connection: Connection, caller: Caller) -> frozenset[str] | None:
    """Departments that a caller may see: those of their roles, and those of projects that they may see; None: all."""
    places = caller.places(Action.DEPARTMENT_READ)
    if places is None:
        return None
    inside = store.all_projects(connection, **places.of_projects)
    return frozenset({*places.departments, *(row.department for row in inside)})


def _known_department(connection: Connection, caller: Caller, name: str) -> Any:
    row = store.department(connection, department_name(connection, name))
    seen = visible_departments(connection, caller)
    if row is None or (seen is not None and row.name not in seen):
        raise unknown("department", name, is_hidden=row is not None)
    return row


def _department(plane: Plane, connection: Connection, row: Any, caller: Caller) -> wire.Department:
    known = organization_tree(plane, connection)
    return _shown(row, known, known.warnings(), caller)


def _shown(row: Any, known: OrganizationTree, warnings: Mapping[str, list[str]], caller: Caller) -> wire.Department:
    body = wire.DepartmentRequest.model_validate_json(row.document)
    places = caller.places(Action.PROJECT_READ)
    below = [each for each in known.projects if each.parent == row.name]
    visible = [
        each.name
        for each in below
        if places is None or places.covers(each.name, row.name, known.clusters.get(each.name, ""))
    ]
    held = sum(known.held_milli.get(each.name, 0) for each in below)
    return wire.Department(
        id=row.name,
        number=row.number,
        name=row.name,
        default_node_pools=body.default_node_pools,
        node_types=body.node_types,
        scheduling_rules=body.scheduling_rules,
        status=wire.DepartmentStatus(quota_status=quota_status(held)),
        children=[wire.Child(id=each, name=each) for each in visible],
        cluster_id=body.cluster_id or "",
        description=body.description,
        resources=body.resources,
        total_resources=declared.department_totals(body.resources, [each.resources for each in below]),
        quota_is_set=any(each.gpu.deserved is not None for each in body.resources),
        allocated_gpus=held / WHOLE_GPU_MILLI,
        projects=visible,
        warnings=warnings[row.name] if places is None else [],
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )

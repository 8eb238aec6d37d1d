"""HTTP routes for roles, the caller's permissions, and the scopes where they hold."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import authorization as wire
from fairpool.api.access import TENANT_ID, ScopeType
from fairpool.api.problems import ProblemItem
from fairpool.api.roles import RESOURCES, ResourceType, Verb, role_key
from fairpool.control import rbac
from fairpool.control.builtin_roles import FIRST_CUSTOM_ID, built_in
from fairpool.control.moments import iso
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action, Cell
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.role_lookup import KnownRole, all_roles, found_role
from fairpool.control.routes import Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import counters
from fairpool.control.store import roles as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant

routes = Routes("access")

ROLES = "/api/v1/authorization/roles"
CUSTOM_MAX = 1000


@routes.get(ROLES, action=Action.SELF, answer=list[wire.Role], summary="List roles and their permissions")
async def roles(plane: Plane, caller: Caller) -> list[wire.Role]:
    def unit(connection: Connection) -> list[wire.Role]:
        since = access_store.installed_at(connection)
        return [_role(each, since) for each in all_roles(connection)]

    return await plane.read(unit)


@routes.get(ROLES + "/{role_id}", action=Action.SELF, answer=wire.Role, summary="Get a role, by id or name")
async def role(role_id: str, plane: Plane, caller: Caller) -> wire.Role:
    def unit(connection: Connection) -> wire.Role:
        return _role(_known(connection, role_id), access_store.installed_at(connection))

    return await plane.read(unit)


@routes.post(ROLES, action=Action.ROLE_CREATE, answer=wire.Role, status=201, summary="Create a custom role")
async def create_role(request: Request, plane: Plane, caller: Caller, body: wire.RoleRequest) -> Response:
    cells = _cells(body.permissions)

    def unit(connection: Connection) -> ActionResult:
        _check_cells(caller, cells)
        _check_name(connection, body.name)
        if len(store.all_roles(connection)) >= CUSTOM_MAX:
            raise refused(409, "role.too_many", f"there are {CUSTOM_MAX} custom roles already", "delete some of them")
        now = plane.now()
        number = counters.next_number(connection, counters.ROLES, FIRST_CUSTOM_ID)
        store.add_role(
            connection,
            id=number,
            key=str(number),
            name=body.name,
            name_key=role_key(body.name),
            description=body.description,
            enabled=body.enabled,
            permissions=store.text_of(cells),
            created_at=now,
            created_by=caller.name,
            updated_at=now,
        )
        return _result(connection, number, "create", status=201)

    return await plane.perform(request, caller, unit)


@routes.put(ROLES + "/{role_id}", action=Action.ROLE_UPDATE, answer=wire.Role, summary="Replace a custom role")
async def replace_role(
    role_id: str, request: Request, plane: Plane, caller: Caller, body: wire.RoleRequest
) -> Response:
    said = wire.RoleUpdate(
        name=body.name, description=body.description, enabled=body.enabled, permissions=body.permissions
    )
    return await update_role(role_id, request, plane, caller, said)


@routes.patch(ROLES + "/{role_id}", action=Action.ROLE_UPDATE, answer=wire.Role, summary="Update a custom role")
async def update_role(role_id: str, request: Request, plane: Plane, caller: Caller, body: wire.RoleUpdate) -> Response:
    """It holds at once for those who have the role."""
    said = {name: getattr(body, name) for name in body.model_fields_set if getattr(body, name) is not None}
    cells = _cells(said.pop("permissions", ()))

    def unit(connection: Connection) -> ActionResult:
        before = _custom(connection, role_id)
        _check_cells(caller, before.cells | cells)
        if "name" in said and role_key(said["name"]) != role_key(before.name):
            _check_name(connection, said["name"])
        named = {"name_key": role_key(said["name"])} if "name" in said else {}
        permitted = {"permissions": store.text_of(cells)} if cells else {}
        store.change_role(connection, before.key, updated_at=plane.now(), **said, **named, **permitted)
        return _result(connection, before.id, "update")

    return await plane.perform(request, caller, unit)


@routes.delete(
    ROLES + "/{role_id}", action=Action.ROLE_DELETE, status=204, summary="Delete a custom role that no rule assigns"
)
async def delete_role(role_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _custom(connection, role_id)
        number = store.use_count(connection, row.key)
        if number:
            what = f"role {row.name} is assigned by {number} access rule{'s' if number > 1 else ''}"
            raise refused(409, "role.in_use", what, "delete them first: runai-adm access-rule list")
        store.delete_role(connection, row.key)
        return ActionResult(action="delete", entity_type="role", entity_id=str(row.id), entity_name=row.name)

    return await plane.perform(request, caller, unit)


# --- the caller's own permissions ----------------------------------------------------------------------------------


@routes.get(
    "/api/v1/authorization/permissions",
    action=Action.SELF,
    answer=list[wire.GridRow],
    summary="List what you may do in some scope",
)
async def permissions(caller: Caller) -> list[wire.GridRow]:
    held = {each for each in rbac.GRID if rbac.allowed_somewhere(caller.grants, each)}
    return _rows(cell for action in held for cell in rbac.GRID[action])


@routes.post(
    "/api/v1/authorization/permitted-scopes",
    action=Action.SELF,
    answer=wire.PermittedActions,
    summary="List the scopes where you have a permission",
)
async def permitted_scopes(caller: Caller, body: wire.ScopesRequest) -> Response:
    """For a type of resource, the scopes of every action; for the name of a permission (`workload.submit`), its own."""
    answer: wire.PermittedActions | wire.Scopes
    if body.resource_type is not None and body.permission is None:
        places = {verb.value: _places(caller, body.resource_type, verb) for verb in Verb}
        answer = wire.PermittedActions(**places)
    elif body.permission is not None and body.resource_type is None and body.action is None:
        answer = _scopes(caller, body.permission)
    else:
        what = "the permission is not named, or twice"
        fix = "set resourceType (such as project), or permission (such as workload.submit)"
        raise refused(422, "access.which_permission", what, fix, "resourceType")
    return Response(answer.model_dump_json(by_alias=True), media_type="application/json")


def _scopes(caller: Caller, permission: str) -> wire.Scopes:
    if permission not in rbac.EVERYTHING:
        known = ", ".join(sorted(rbac.EVERYTHING))
        what = f"there is no permission {permission!r}"
        raise refused(422, "access.no_such_permission", what, f"use one of {known}", "permission")
    places = caller.places(Action(permission))
    return wire.Scopes(
        permission=permission,
        tenant=places is None,
        clusters=[] if places is None else list(places.clusters),
        departments=[] if places is None else list(places.departments),
        projects=[] if places is None else list(places.projects),
    )


def _places(caller: Caller, resource: ResourceType, verb: Verb) -> wire.PermittedScopes:
    cell = Cell(resource, verb)
    everywhere, clusters, departments, projects = False, set[str](), set[str](), set[str]()
    for action in (each for each, cells in rbac.GRID.items() if cell in cells):
        places = caller.places(action)
        if places is None:
            everywhere = True
        else:
            clusters.update(places.clusters)
            departments.update(places.departments)
            projects.update(places.projects)
    return wire.PermittedScopes(
        tenants=[str(TENANT_ID)] if everywhere else [],
        clusters=sorted(clusters),
        departments=sorted(departments),
        projects=sorted(projects),
    )


# --- checks and answers --------------------------------------------------------------------------------------------


def _known(connection: Connection, role_id: str) -> KnownRole:
    found = found_role(connection, role_id)
    if found is None:
        raise unknown("role", role_id)
    return found


def _custom(connection: Connection, role_id: str) -> KnownRole:
    found = _known(connection, role_id)
    if not found.is_custom:
        what = f"{found.name} is a built-in role, which cannot be changed or deleted"
        raise refused(409, "role.built_in", what, "create a role of your own: runai-adm role create NAME --copy ROLE")
    return found


def _cells(permissions: Iterable[wire.RolePermission]) -> frozenset[Cell]:
    """The cells of a request; refuses those without a meaning, or without effect."""
    given = frozenset(Cell(each.resource_type, verb) for each in permissions for verb in each.actions)
    problems = [
        ProblemItem(
            code="role.no_such_permission",
            what=f"there is no permission to {cell.verb} {cell.resource}",
            fix="look at the grid: runai-adm role get administrator",
            field="permissions",
        )
        for cell in sorted(given - rbac.CELLS)
    ]
    problems += [
        ProblemItem(
            code="role.without_effect",
            what=f"{cell.resource} {cell.verb} has no effect alone",
            fix=f"add {', '.join(map(str, sorted(lacking)))}, or remove it",
            field="permissions",
        )
        for cell, lacking in rbac.unused_cells(given).items()
    ]
    if problems:
        raise Refused(422, problems)
    return given


def _check_cells(caller: Caller, cells: frozenset[Cell]) -> None:
    """A role is used in any scope, so that its creator must have its permissions in all of them."""
    lacking = rbac.lacking(caller.grants, rbac.actions_of(cells), ScopeType.TENANT)
    if lacking:
        named = sorted(cell for action in lacking for cell in rbac.GRID[action] & cells)
        what = f"you cannot give permissions that you do not have: {', '.join(map(str, named[:5]))}"
        raise denied(what, "leave them out, or ask a system administrator")


def _check_name(connection: Connection, name: str) -> None:
    if built_in(name) is not None or store.role_by_name(connection, role_key(name)) is not None:
        raise refused(409, "role.exists", f"there is a role {name!r} already", "choose another name", "name")


def _result(connection: Connection, number: int, action: str, status: int = 200) -> ActionResult:
    made = _role(_known(connection, str(number)), 0)
    return ActionResult(
        body=made, status=status, action=action, entity_type="role", entity_id=str(number), entity_name=made.name
    )


def _role(role: KnownRole, since: int) -> wire.Role:
    """`since`: of the built-in ones."""
    made_at = since if role.created_at is None else role.created_at
    return wire.Role(
        id=role.id,
        key=role.label,
        name=role.name,
        description=role.description,
        enabled=role.is_enabled,
        effective_enabled=role.is_enabled,
        custom=role.is_custom,
        permissions=_rows(role.cells),
        created_at=iso(Instant(made_at)),
        created_by=role.created_by,
        updated_at=iso(Instant(made_at if role.updated_at is None else role.updated_at)),
    )


def _rows(cells: Iterable[Cell]) -> list[wire.GridRow]:
    """Cells as rows of the grid, in its order."""
    held = frozenset(cells)
    rows = []
    for resource, (group, name) in RESOURCES.items():
        verbs = [verb for verb in Verb if Cell(resource, verb) in held]
        if verbs:
            rows.append(wire.GridRow(resource_type=resource, display_name=name, group_id=group, actions=verbs))
    return rows

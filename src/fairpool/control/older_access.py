"""HTTP routes of older clients for the administrators of a department, the roles of a user, and groups.

Each is a view of access rules: a group is listed as long as a rule names it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access, classic
from fairpool.api.access import ScopeType, SubjectType
from fairpool.control import access_rules, users
from fairpool.control.numbers import department_name
from fairpool.control.older_organization import CLUSTER, K8S, check_cluster
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.role_lookup import roles_by_key
from fairpool.control.routes import Routes
from fairpool.control.store import access as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("administrator (legacy)")

DEPARTMENT_ADMINISTRATOR = "department-administrator"


@routes.put(
    f"{CLUSTER}/departments/{{department_id}}/access-control",
    action=Action.RULE_CREATE,
    before=check_cluster,
    answer=classic.DepartmentAdmins,
    summary="Say who administers a department",
)
async def set_department_admins(
    department_id: str, request: Request, plane: Plane, caller: Caller, body: classic.DepartmentAdminsRequest
) -> Response:
    """Those named get the role of a department administrator there, and other users lose it. Groups and programs keep
    theirs."""

    def unit(connection: Connection) -> ActionResult:
        name = department_name(connection, department_id)
        row = organization_store.department(connection, name)
        if row is None:
            raise unknown("department", department_id)
        if body.department_id is not None and department_name(connection, body.department_id) != name:
            what = f"the path names department {name}, and the body another one"
            raise refused(422, "department.unfit", what, "name the same one in both", "departmentId")
        done = _as_wanted(plane, connection, caller, name, body.department_admins)
        answer = classic.DepartmentAdmins(department_id=int(row.number), department_admins=_admins(connection, name))
        return ActionResult(body=answer, also=tuple(done))

    return await plane.perform(request, caller, unit)


def _as_wanted(
    plane: Plane, connection: Connection, caller: Caller, department: str, wanted: Iterable[str]
) -> list[ActionResult]:
    """Rules given and taken away, so that these users are the administrators of the department."""
    there = {row.subject_id: row for row in _rules(connection, department)}
    ids = {_known_user(connection, each): each for each in wanted}
    done = [
        access_rules.given(
            plane,
            connection,
            caller,
            access.AccessRuleRequest(
                subject_id=user,
                subject_type=SubjectType.USER,
                role_id=DEPARTMENT_ADMINISTRATOR,
                scope_id=department,
                scope_type=ScopeType.DEPARTMENT,
            ),
        )
        for user in ids
        if user not in there
    ]
    return done + [
        access_rules.taken_away(connection, caller, row.id) for user, row in there.items() if user not in ids
    ]


def _known_user(connection: Connection, name: str) -> str:
    row = store.user(connection, name) or store.user_by_email(connection, name)
    if row is None:
        what, fix = f"there is no user {name!r}", "check the spelling, or create it first"
        raise refused(422, "user.unknown", what, fix, "departmentAdmins")
    return row.id


def _rules(connection: Connection, department: str) -> list[Any]:
    return [
        row
        for row in store.all_rules(connection)
        if (row.role, row.scope_type, row.scope_id, row.subject_type)
        == (DEPARTMENT_ADMINISTRATOR, ScopeType.DEPARTMENT.value, department, SubjectType.USER.value)
    ]


def _admins(connection: Connection, department: str) -> list[str]:
    ids = [row.subject_id for row in _rules(connection, department)]
    return sorted(store.subject_names(connection, ids).values())


@routes.get(
    f"{K8S}/users/{{user_id}}/roles",
    action=Action.USER_READ,
    summary="List the roles that a user has over everything, as a bare list of names",
)
async def user_roles(user_id: str, plane: Plane, caller: Caller) -> Response:
    found = await users.user(user_id, plane, caller)
    return Response(json.dumps(found.roles), media_type="application/json")


@routes.get(f"{K8S}/groups", action=Action.RULE_READ, answer=list[classic.ClassicGroup], summary="List groups")
async def groups(plane: Plane, caller: Caller) -> list[classic.ClassicGroup]:
    """Groups of identity providers that access rules name."""
    return await plane.read(lambda connection: _groups(connection, caller))


@routes.get(f"{K8S}/groups/{{name}}", action=Action.RULE_READ, answer=classic.ClassicGroup, summary="Get a group")
async def group(name: str, plane: Plane, caller: Caller) -> classic.ClassicGroup:
    for each in await plane.read(lambda connection: _groups(connection, caller)):
        if each.user_id == name:
            return each
    raise unknown("group", name)


def _groups(connection: Connection, caller: Caller) -> list[classic.ClassicGroup]:
    labels = {key: role.label for key, role in roles_by_key(connection).items()}
    sees = access_rules.rule_sight(connection, caller)
    found: dict[str, set[str]] = {}
    for row in store.all_rules(connection):
        if row.subject_type == SubjectType.GROUP.value and sees(row):
            roles = found.setdefault(row.subject_id, set())
            roles |= {labels[row.role]} if row.role in labels and row.scope_type == ScopeType.TENANT.value else set()
    return [classic.ClassicGroup(user_id=name, roles=sorted(roles)) for name, roles in sorted(found.items())]

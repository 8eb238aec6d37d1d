"""HTTP routes for roles and access rules."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Count
from fairpool.control import rbac
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.role_lookup import KnownRole, all_roles, found_role, known_role, roles_by_key
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import access as store
from fairpool.control.store import clusters as clusters_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("access")


@routes.get(
    "/api/v1/authorization/roles", action=Action.SELF, answer=wire.RolePage, summary="List roles and their permissions"
)
async def roles(plane: Plane, caller: Caller) -> wire.RolePage:
    return wire.RolePage(roles=[_role(each) for each in await plane.read(all_roles)])


@routes.get("/api/v1/authorization/roles/{role_id}", action=Action.SELF, answer=wire.Role, summary="Get a role")
async def role(role_id: str, plane: Plane, caller: Caller) -> wire.Role:
    found = await plane.read(lambda connection: found_role(connection, role_id))
    if found is None:
        raise unknown("role", role_id)
    return _role(found)


@routes.get(
    "/api/v1/authorization/permissions", action=Action.SELF, answer=wire.Permissions, summary="List your permissions"
)
async def permissions(caller: Caller) -> wire.Permissions:
    return wire.Permissions(permissions=rbac.permissions(caller.grants))


@routes.post(
    "/api/v1/authorization/permitted-scopes",
    action=Action.SELF,
    answer=wire.Scopes,
    summary="List the scopes where you have a permission",
)
async def permitted_scopes(caller: Caller, body: wire.ScopesRequest) -> wire.Scopes:
    if body.permission not in rbac.EVERYTHING:
        known = ", ".join(sorted(rbac.EVERYTHING))
        what = f"there is no permission {body.permission!r}"
        raise refused(422, "access.no_such_permission", what, f"use one of {known}", "permission")
    places = caller.places(rbac.Action(body.permission))
    return wire.Scopes(
        permission=body.permission,
        tenant=places is None,
        departments=[] if places is None else list(places.departments),
        projects=[] if places is None else list(places.projects),
    )


@routes.get(
    "/api/v1/authorization/me/access-rules",
    action=Action.SELF,
    answer=wire.AccessRulePage,
    summary="List your own access rules",
)
async def my_access_rules(
    plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.AccessRulePage:
    return await plane.read(lambda connection: _page(connection, offset, limit, caller.id))


@routes.get(
    "/api/v1/authorization/access-rules",
    action=Action.ACCESS_READ,
    answer=wire.AccessRulePage,
    summary="List access rules",
)
async def access_rules(
    plane: Plane,
    caller: Caller,
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
    subject_id: Annotated[str | None, Parameter(alias="subjectId", max_length=256)] = None,
) -> wire.AccessRulePage:
    return await plane.read(lambda connection: _page(connection, offset, limit, subject_id))


def _page(connection: Connection, offset: int, limit: int, subject_id: str | None) -> wire.AccessRulePage:
    rows = store.rules(connection, offset, limit + 1, subject_id)
    following = offset + limit if len(rows) > limit else None
    return wire.AccessRulePage(access_rules=rule_answers(connection, rows[:limit]), next=following)


@routes.get(
    "/api/v1/authorization/access-rules/count", action=Action.ACCESS_READ, answer=Count, summary="Count access rules"
)
async def access_rule_count(plane: Plane, caller: Caller) -> Count:
    return Count(count=await plane.read(store.rule_count))


@routes.get(
    "/api/v1/authorization/access-rules/{rule_id}",
    action=Action.ACCESS_READ,
    answer=wire.AccessRule,
    summary="Get an access rule",
)
async def access_rule(rule_id: str, plane: Plane, caller: Caller) -> wire.AccessRule:
    def unit(connection: Connection) -> wire.AccessRule:
        row = store.rule(connection, rule_id)
        if row is None:
            raise unknown("access rule", rule_id)
        return rule_answers(connection, [row])[0]

    return await plane.read(unit)


@routes.post(
    "/api/v1/authorization/access-rules",
    action=Action.ACCESS_WRITE,
    answer=wire.AccessRule,
    status=201,
    summary="Create an access rule: assign a role in a scope",
)
async def create_access_rule(request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleRequest) -> Response:
    answer = await plane.perform(request, caller, lambda connection: _given(plane, connection, caller, body))
    plane.forget_callers()
    return answer


@routes.post(
    "/api/v1/authorization/access-rules/batch-create",
    action=Action.ACCESS_WRITE,
    answer=wire.AccessRuleBatchAnswer,
    summary="Create several access rules; each succeeds or fails on its own",
)
async def create_access_rules(
    request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleBatchCreate
) -> Response:
    def unit(connection: Connection) -> ActionResult:
        return _each((str(at), partial(_given, plane, connection, caller, one)) for at, one in enumerate(body.payload))

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@routes.post(
    "/api/v1/authorization/access-rules/batch",
    action=Action.ACCESS_WRITE,
    answer=wire.AccessRuleBatchAnswer,
    summary="Delete several access rules; each succeeds or fails on its own",
)
async def delete_access_rules(request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleBatch) -> Response:
    def unit(connection: Connection) -> ActionResult:
        ids = dict.fromkeys(map(str, body.ids))
        return _each((rule_id, partial(_taken_away, connection, rule_id)) for rule_id in ids)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@routes.delete(
    "/api/v1/authorization/access-rules/{rule_id}",
    action=Action.ACCESS_WRITE,
    status=204,
    summary="Delete an access rule",
)
async def delete_access_rule(rule_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    answer = await plane.perform(request, caller, lambda connection: _taken_away(connection, rule_id))
    plane.forget_callers()
    return answer


def _each(actions: Iterable[tuple[str, Callable[[], ActionResult]]]) -> ActionResult:
    """Run each action; one that is refused changes nothing and does not stop the others."""
    done: list[ActionResult] = []
    failed = []
    for name, action in actions:
        try:
            done.append(action())
        except Refused as refusal:
            failed.append(wire.AccessRuleBatchFailure(id=name, code=refusal.status, message=refusal.message))
    answer = wire.AccessRuleBatchAnswer(succeeded=[each.entity_id for each in done], failed=failed)
    return ActionResult(body=answer, also=tuple(done))


def _given(plane: Plane, connection: Connection, caller: Caller, body: wire.AccessRuleRequest) -> ActionResult:
    role = known_role(connection, body.role_id)
    subject_id = _subject(connection, body)
    scope_id, problems = _scope(connection, body)
    if subject_id is None:
        what = f"there is no {body.subject_type} {body.subject_id!r}"
        problems.insert(0, _problem("access.no_such_subject", what, "subjectId"))
    if problems or subject_id is None:
        raise Refused(422, problems)
    grant = role.grant(body.scope_type, scope_id)
    name = f"{body.subject_id} has the role {role.label} in {scope_id or 'all projects'}"
    if grant in store.own_grants(connection, subject_id, body.subject_type):
        # A duplicate would keep the permission when the other rule is deleted.
        raise refused(409, "access.rule_exists", f"{name} already", "nothing to do")
    rule_id = str(uuid.uuid4())
    store.add_rule(connection, rule_id, subject_id, body.subject_type, grant, plane.now(), caller.name)
    made = rule_answers(connection, [store.rule(connection, rule_id)])[0]
    return ActionResult(
        body=made,
        status=201,
        action="create",
        entity_type="access-rule",
        entity_id=str(made.id),
        entity_name=name,
    )


def _subject(connection: Connection, body: wire.AccessRuleRequest) -> str | None:
    """The subject of a rule: a user by id or email address, an application by id or name, a group by name."""
    match body.subject_type:
        case wire.SubjectType.USER:
            user = store.user(connection, body.subject_id) or store.user_by_email(connection, body.subject_id)
            return user.id if user is not None else None
        case wire.SubjectType.APP:
            app = store.application(connection, body.subject_id)
            app = app or store.application_by_name(connection, body.subject_id)
            return app.id if app is not None else None
        case wire.SubjectType.GROUP | wire.SubjectType.SERVICE_ACCOUNT:
            return body.subject_id or None


def _scope(connection: Connection, body: wire.AccessRuleRequest) -> tuple[str, list[ProblemItem]]:
    """The id of the scope, and what is wrong with it."""
    if body.scope_type is wire.ScopeType.TENANT:
        return "", []
    found = _scope_id(connection, body.scope_type, body.scope_id)
    if found is None:
        noun = body.scope_type.value
        return "", [_problem(f"{noun}.unknown", f"there is no {noun} {body.scope_id!r}", "scopeId")]
    if body.cluster_id and not _is_in_cluster(connection, body.scope_type, found, body.cluster_id):
        what = f"{body.scope_type} {body.scope_id!r} is not in a cluster {body.cluster_id!r}"
        return "", [_problem("cluster.unfit", what, "clusterId")]
    return found, []


def _is_in_cluster(connection: Connection, scope_type: wire.ScopeType, scope_id: str, name: str) -> bool:
    cluster = _scope_id(connection, wire.ScopeType.CLUSTER, name)
    if scope_type is wire.ScopeType.PROJECT:
        return bool(cluster == organization_store.project(connection, scope_id).cluster)
    return cluster is not None and scope_id == (cluster if scope_type is wire.ScopeType.CLUSTER else scope_id)


def _scope_id(connection: Connection, scope_type: wire.ScopeType, name: str) -> str | None:
    if scope_type is wire.ScopeType.CLUSTER:
        row = clusters_store.cluster(connection, name) or clusters_store.cluster_by_name(connection, name)
        return row.id if row is not None else None
    is_project = scope_type is wire.ScopeType.PROJECT
    row = (organization_store.project if is_project else organization_store.department)(connection, name)
    return row.name if row is not None else None


def _taken_away(connection: Connection, rule_id: str) -> ActionResult:
    row = store.rule(connection, rule_id)
    if row is None:
        raise unknown("access rule", rule_id)
    if not store.has_other_administrator(connection, rule_id=row.id):
        raise last_administrator()
    store.delete_rule(connection, row.id)
    return ActionResult(action="delete", entity_type="access-rule", entity_id=str(row.number))


def rule_answers(connection: Connection, rows: Iterable[Any]) -> list[wire.AccessRule]:
    """Rules as the API shows them."""
    roles = roles_by_key(connection)
    names = {row.id: row.name for row in clusters_store.all_clusters(connection)}
    return [_rule_answer(row, roles[row.role], names) for row in rows]


def _rule_answer(row: Any, role: KnownRole, cluster_names: Mapping[str, str]) -> wire.AccessRule:
    is_tenant = row.scope_type == wire.ScopeType.TENANT.value
    return wire.AccessRule(
        id=row.number,
        uuid=row.id,
        subject_id=row.subject_id,
        subject_type=row.subject_type,
        role_id=role.id,
        role=role.label,
        role_name=role.name,
        scope_id=row.scope_id,
        scope_name="tenant" if is_tenant else cluster_names.get(row.scope_id, row.scope_id),
        scope_type=row.scope_type,
        created_at=iso(row.created_at),
        updated_at=iso(row.created_at),
        created_by=row.created_by,
    )


def _role(role: KnownRole) -> wire.Role:
    return wire.Role(
        id=role.id,
        key=role.label,
        name=role.name,
        description=role.description,
        permissions=sorted(action.value for action in role.actions),
    )


def last_administrator() -> Refused:
    """At least one administrator must remain."""
    what = "this would remove the last administrator"
    return refused(409, "access.last_administrator", what, "make another user an administrator first")


def _problem(code: str, what: str, field: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix="check the spelling, or create it first", field=field)

"""HTTP routes for access rules: who has which role where.

A caller assigns and takes away roles only where they may manage access rules, and only roles that permit no more than
the caller may do there.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import product
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.access import ScopeType, SubjectType
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import Count
from fairpool.control import filters, rbac
from fairpool.control.moments import instant, iso
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    number_field,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action, actions_of
from fairpool.control.refusal import Refused, denied, not_a_date, refused, unknown
from fairpool.control.role_lookup import KnownRole, known_role, roles_by_key
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import access as store
from fairpool.control.store import clusters as clusters_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import programs
from fairpool.control.store.database import Connection

routes = Routes("access")

RULES = "/api/v1/authorization/access-rules"
MINE = "/api/v1/authorization/me/access-rules"

FIELDS: Mapping[str, Field[wire.AccessRule]] = {
    "name": text_field(lambda each: f"{each.subject_name} {each.role_name} {each.scope_name}"),
    "id": number_field(lambda each: each.id),
    "subjectId": text_field(lambda each: each.subject_id),
    "subjectType": text_field(lambda each: each.subject_type),
    "roleId": number_field(lambda each: each.role_id),
    "roleName": text_field(lambda each: each.role_name),
    "scopeId": text_field(lambda each: each.scope_id),
    "scopeType": text_field(lambda each: each.scope_type),
    "scopeName": text_field(lambda each: each.scope_name),
    "createdAt": time_field(lambda each: each.created_at),
    "createdBy": text_field(lambda each: each.created_by),
}


class RuleQuery(ListQuery):
    """Which rules, in which order, and how many."""

    sort_by: Annotated[str, Parameter(alias="sortBy", max_length=64)] = "createdAt"
    subject_id: Annotated[str, Parameter(alias="subjectId", max_length=256)] = ""
    subject_id_filter: Annotated[
        str, Parameter(alias="subjectIdFilter", max_length=256, description="Part of a subject's id or name")
    ] = ""
    subject_ids: Annotated[
        str, Parameter(alias="subjectIds", max_length=filters.TEXT_MAX, description="Ids or names, comma-separated")
    ] = ""
    subject_type: Annotated[SubjectType | None, Parameter(alias="subjectType")] = None
    scope_type: Annotated[ScopeType | None, Parameter(alias="scopeType")] = None
    scope_id: Annotated[str, Parameter(alias="scopeId", max_length=256)] = ""
    cluster_id: Annotated[
        str, Parameter(alias="clusterId", max_length=256, description="Rules of a cluster, or of projects in it")
    ] = ""
    role_id: Annotated[int | None, Parameter(alias="roleId", ge=1, le=2**31 - 1)] = None
    last_updated: Annotated[
        str, Parameter(alias="lastUpdated", max_length=64, description="Those changed since this moment")
    ] = ""
    include_deleted: Annotated[
        bool, Parameter(alias="includeDeleted", description="No deleted rules are kept: there are none to include")
    ] = False

    def since(self) -> int:
        """The moment of `lastUpdated`; refuses what is none."""
        moment = instant(self.last_updated) if self.last_updated else 0
        if moment is None:
            raise Refused(400, [not_a_date(self.last_updated, "lastUpdated")])
        return moment

    def accepts(self, rule: wire.AccessRule, homes: Mapping[str, tuple[str, str]], since: int) -> bool:
        """Whether a rule is among those asked for; `homes` are the department and the cluster of each project."""
        names = (rule.subject_id, rule.subject_name)
        scope = _in_homes(rule.scope_type, rule.scope_id, homes)
        return (
            self.subject_id in ("", *names)
            and any(self.subject_id_filter in name for name in names)
            and (not self.subject_ids or bool(set(names) & set(self.subject_ids.split(","))))
            and self.subject_type in (None, rule.subject_type)
            and self.scope_type in (None, rule.scope_type)
            and self.scope_id in ("", rule.scope_id)
            and self.role_id in (None, rule.role_id)
            and self.cluster_id in ("", scope.cluster)
            and (instant(rule.updated_at) or 0) >= since
        )


# --- reading -------------------------------------------------------------------------------------------------------


@routes.get(MINE, action=Action.SELF, answer=wire.MyAccessRules, summary="List your own access rules")
async def my_access_rules(plane: Plane, caller: Caller, query: RuleQuery) -> wire.MyAccessRules:
    """With those of your groups."""

    def unit(connection: Connection) -> wire.MyAccessRules:
        return wire.MyAccessRules(access_rules=_page(connection, _mine(connection, caller), query))

    return await plane.read(unit)


@routes.get(f"{MINE}/count", action=Action.SELF, answer=Count, summary="Count your own access rules")
async def my_access_rule_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    rules = await plane.read(lambda connection: _mine(connection, caller))
    return Count(count=len(filtered(rules, FIELDS, counting(filter_by, search))))


def _mine(connection: Connection, caller: Caller) -> list[wire.AccessRule]:
    return rule_answers(connection, store.rules_of(connection, caller.id, caller.kind))


@routes.get(RULES, action=Action.RULE_READ, answer=wire.AccessRulePage, summary="List the access rules you can see")
async def access_rules(plane: Plane, caller: Caller, query: RuleQuery) -> wire.AccessRulePage:
    return await plane.read(lambda connection: _page(connection, _visible(connection, caller), query))


@routes.get(f"{RULES}/count", action=Action.RULE_READ, answer=Count, summary="Count the access rules you can see")
async def access_rule_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    rules = await plane.read(lambda connection: _visible(connection, caller))
    return Count(count=len(filtered(rules, FIELDS, counting(filter_by, search))))


@routes.get(RULES + "/{rule_id}", action=Action.RULE_READ, answer=wire.AccessRule, summary="Get an access rule")
async def access_rule(rule_id: str, plane: Plane, caller: Caller) -> wire.AccessRule:
    def unit(connection: Connection) -> wire.AccessRule:
        return rule_answers(connection, [_known(connection, caller, rule_id)])[0]

    return await plane.read(unit)


def _page(connection: Connection, rules: list[wire.AccessRule], query: RuleQuery) -> wire.AccessRulePage:
    homes, since = organization_store.homes(connection), query.since()
    found = filtered([each for each in rules if query.accepts(each, homes, since)], FIELDS, query)
    listed, following = page(found, query)
    return wire.AccessRulePage(
        total_records=len(found), display_records=len(listed), access_rules=listed, next=following
    )


def _visible(connection: Connection, caller: Caller) -> list[wire.AccessRule]:
    sees = rule_sight(connection, caller)
    return rule_answers(connection, [row for row in store.all_rules(connection) if sees(row)])


def _known(connection: Connection, caller: Caller, rule_id: str) -> Any:
    row = store.rule(connection, rule_id)
    if row is None or not rule_sight(connection, caller)(row):
        raise unknown("access rule", rule_id, is_hidden=row is not None)
    return row


def rule_sight(connection: Connection, caller: Caller, action: Action = Action.RULE_READ) -> Callable[[Any], bool]:
    """Which rules a caller may see: those of scopes in which the caller may do this."""
    if caller.places(action) is None:
        return lambda row: True
    homes = organization_store.homes(connection)
    return lambda row: rbac.allowed(caller.grants, action, _in_homes(ScopeType(row.scope_type), row.scope_id, homes))


def scope_of(connection: Connection, scope_type: ScopeType, scope_id: str) -> rbac.Scope:
    """The scope of a rule, as permissions are asked for."""
    homes = organization_store.homes(connection) if scope_type is ScopeType.PROJECT else {}
    return _in_homes(scope_type, scope_id, homes)


def _in_homes(scope_type: ScopeType, scope_id: str, homes: Mapping[str, tuple[str, str]]) -> rbac.Scope:
    match scope_type:
        case ScopeType.TENANT:
            return rbac.NOWHERE
        case ScopeType.CLUSTER:
            return rbac.Scope(cluster=scope_id)
        case ScopeType.DEPARTMENT:
            return rbac.Scope(department=scope_id)
        case ScopeType.PROJECT:
            return rbac.Scope(scope_id, *homes.get(scope_id, ("", "")))


# --- writing -------------------------------------------------------------------------------------------------------


@routes.post(
    RULES,
    action=Action.RULE_CREATE,
    answer=wire.AccessRule,
    status=201,
    summary="Create an access rule: assign a role in a scope",
)
async def create_access_rule(request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleRequest) -> Response:
    return await plane.perform(request, caller, lambda connection: given(plane, connection, caller, body))


@routes.post(
    f"{RULES}/batch-create",
    action=Action.RULE_CREATE,
    answer=wire.AccessRuleBatchAnswer,
    summary="Create several access rules; each succeeds or fails on its own",
)
async def create_access_rules(
    request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleBatchCreate
) -> Response:
    payload = body.payload
    rules = payload if isinstance(payload, list) else _multiplied(payload)

    def unit(connection: Connection) -> ActionResult:
        done, failed = _each((str(at), partial(given, plane, connection, caller, one)) for at, one in enumerate(rules))
        if isinstance(payload, list):
            return _batch([each.entity_id for each in done], failed, done)
        named = [each.model_copy(update={"payload": rules[int(each.id)].wire()}) for each in failed]
        return _batch([each.body for each in done], named, done)

    return await plane.perform(request, caller, unit)


def _multiplied(given: wire.AccessRuleProduct) -> list[wire.AccessRuleRequest]:
    return [
        wire.AccessRuleRequest(
            subject_id=subject.subject_id,
            subject_type=subject.subject_type,
            role_id=given.role_id,
            scope_id=scope.scope_id,
            scope_type=scope.scope_type,
            cluster_id=given.cluster_id,
        )
        for subject, scope in product(given.subjects, given.scopes)
    ]


@routes.post(
    f"{RULES}/batch",
    action=Action.RULE_DELETE,
    answer=wire.AccessRuleBatchAnswer,
    summary="Delete several access rules; each succeeds or fails on its own",
)
async def delete_access_rules(request: Request, plane: Plane, caller: Caller, body: wire.AccessRuleBatch) -> Response:
    """With `validate_delete`, it is only said which of them could be."""
    is_trial = body.action is wire.AccessRuleBatchAction.VALIDATE_DELETE
    try_one = _removable if is_trial else taken_away

    def unit(connection: Connection) -> ActionResult:
        ids = dict.fromkeys(map(str, body.ids))
        done, failed = _each((each, partial(try_one, connection, caller, each)) for each in ids)
        return _batch([each.entity_id for each in done], failed, () if is_trial else done)

    return await plane.perform(request, caller, unit)


@routes.delete(RULES + "/{rule_id}", action=Action.RULE_DELETE, status=204, summary="Delete an access rule")
async def delete_access_rule(rule_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    return await plane.perform(request, caller, lambda connection: taken_away(connection, caller, rule_id))


def _each(
    actions: Iterable[tuple[str, Callable[[], ActionResult]]],
) -> tuple[list[ActionResult], list[wire.AccessRuleBatchFailure]]:
    """Run each action; one that is refused changes nothing and does not stop the others."""
    done: list[ActionResult] = []
    failed = []
    for name, action in actions:
        try:
            done.append(action())
        except Refused as refusal:
            failed.append(wire.AccessRuleBatchFailure(id=name, code=refusal.status, message=refusal.message))
    return done, failed


def _batch(
    succeeded: list[Any], failed: list[wire.AccessRuleBatchFailure], done: Iterable[ActionResult]
) -> ActionResult:
    answer = wire.AccessRuleBatchAnswer(id=str(uuid.uuid4()), succeeded=succeeded, failed=failed)
    return ActionResult(body=answer, also=tuple(done))


def given(plane: Plane, connection: Connection, caller: Caller, body: wire.AccessRuleRequest) -> ActionResult:
    """Assign a role, as far as the caller may."""
    scope_id, problems = _scope(connection, caller, body)
    role = known_role(connection, body.role_id)
    scope = scope_of(connection, body.scope_type, scope_id)
    if not problems:
        check_may_give(caller, role, body.scope_type, scope)
    subject_id = _subject(connection, body)
    if subject_id is None:
        what = f"there is no {body.subject_type} {body.subject_id!r}"
        problems.insert(0, _problem("access.no_such_subject", what, "subjectId"))
    if not rbac.has_effect(actions_of(role.cells), body.scope_type):
        what, fix = f"the role {role.label} permits nothing in a {body.scope_type}", "assign it in a wider scope"
        problems.append(ProblemItem(code="access.role_without_effect", what=what, fix=fix, field="roleId"))
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


def check_may_give(caller: Caller, role: KnownRole, scope_type: ScopeType, scope: rbac.Scope) -> None:
    """Refuse a caller who may not assign this role there: they need the right to, and everything that it permits."""
    if not rbac.allowed(caller.grants, Action.RULE_CREATE, scope):
        raise denied()
    _check_covers(caller, actions_of(role.cells), scope_type, scope, f"the role {role.label}")


def check_not_above(connection: Connection, caller: Caller, subject: str, kind: SubjectType) -> None:
    """Refuse to change a user or program that may do more than the caller: with a new password or secret, the caller
    could act as them. A role that is switched off counts as well, since it may be switched on."""
    roles = roles_by_key(connection)
    for grant in store.grants(connection, subject, kind):
        role = roles.get(grant.role)
        if role is not None:
            scope = scope_of(connection, grant.scope_type, grant.scope_id)
            noun = "this application" if kind is SubjectType.APP else f"this {kind.value.replace('-', ' ')}"
            _check_covers(caller, actions_of(role.cells), grant.scope_type, scope, noun)


def _check_covers(
    caller: Caller, actions: Iterable[Action], scope_type: ScopeType, scope: rbac.Scope, noun: str
) -> None:
    lacking = rbac.lacking(caller.grants, actions, scope_type, scope)
    if lacking:
        what = f"{noun} may do more than you: {', '.join(sorted(lacking)[:5])}"
        raise denied(what, "ask a system administrator")


def _subject(connection: Connection, body: wire.AccessRuleRequest) -> str | None:
    """The subject of a rule: a user by id or email address, a program by id or name, a group by name."""
    match body.subject_type:
        case SubjectType.USER:
            user = store.user(connection, body.subject_id) or store.user_by_email(connection, body.subject_id)
            return user.id if user is not None else None
        case SubjectType.APP:
            app = store.application(connection, body.subject_id)
            app = app or store.application_by_name(connection, body.subject_id)
            return app.id if app is not None else None
        case SubjectType.SERVICE_ACCOUNT:
            account = programs.one(connection, body.subject_id, "service-account")
            return account.id if account is not None else None
        case SubjectType.GROUP:
            return body.subject_id or None


def _scope(connection: Connection, caller: Caller, body: wire.AccessRuleRequest) -> tuple[str, list[ProblemItem]]:
    """The id of the scope, and what is wrong with it; one that the caller may not see is as unknown as none."""
    if body.scope_type is ScopeType.TENANT:
        return "", []
    found = _scope_id(connection, body.scope_type, body.scope_id)
    if caller.places(Action.RULE_CREATE) is not None and (
        found is None
        or not rbac.allowed(caller.grants, Action.RULE_CREATE, scope_of(connection, body.scope_type, found))
    ):
        raise denied()
    if found is None:
        noun = body.scope_type.value
        return "", [_problem(f"{noun}.unknown", f"there is no {noun} {body.scope_id!r}", "scopeId")]
    if body.cluster_id and not _is_in_cluster(connection, body.scope_type, found, body.cluster_id):
        what = f"{body.scope_type} {body.scope_id!r} is not in a cluster {body.cluster_id!r}"
        return "", [_problem("cluster.unfit", what, "clusterId")]
    return found, []


def _is_in_cluster(connection: Connection, scope_type: ScopeType, scope_id: str, name: str) -> bool:
    cluster = _scope_id(connection, ScopeType.CLUSTER, name)
    if scope_type is ScopeType.PROJECT:
        return bool(cluster == organization_store.project(connection, scope_id).cluster)
    return cluster is not None and scope_id == (cluster if scope_type is ScopeType.CLUSTER else scope_id)


def _scope_id(connection: Connection, scope_type: ScopeType, name: str) -> str | None:
    if scope_type is ScopeType.CLUSTER:
        row = clusters_store.cluster(connection, name) or clusters_store.cluster_by_name(connection, name)
        return row.id if row is not None else None
    is_project = scope_type is ScopeType.PROJECT
    row = (organization_store.project if is_project else organization_store.department)(connection, name)
    return row.name if row is not None else None


def taken_away(connection: Connection, caller: Caller, rule_id: str) -> ActionResult:
    """Delete a rule, as far as the caller may."""
    done = _removable(connection, caller, rule_id)
    store.delete_rule(connection, _known(connection, caller, rule_id).id)
    return done


def _removable(connection: Connection, caller: Caller, rule_id: str) -> ActionResult:
    """Only what the caller could give: a rule may not be taken from those above."""
    row = _known(connection, caller, rule_id)
    scope_type = ScopeType(row.scope_type)
    scope = scope_of(connection, scope_type, row.scope_id)
    if not rbac.allowed(caller.grants, Action.RULE_DELETE, scope):
        raise denied()
    role = roles_by_key(connection).get(row.role)
    if role is not None:
        _check_covers(caller, actions_of(role.cells), scope_type, scope, f"the role {role.label}")
    if not store.has_other_administrator(connection, rule_id=row.id):
        raise last_administrator()
    return ActionResult(action="delete", entity_type="access-rule", entity_id=str(row.number))


# --- answers -------------------------------------------------------------------------------------------------------


def rule_answers(connection: Connection, rows: Iterable[Any]) -> list[wire.AccessRule]:
    """Rules as the API shows them."""
    listed = list(rows)
    roles = roles_by_key(connection)
    clusters = {row.id: row.name for row in clusters_store.all_clusters(connection)}
    names = store.subject_names(connection, {row.subject_id for row in listed})
    return [_rule_answer(row, roles[row.role], clusters, names) for row in listed if row.role in roles]


def _rule_answer(row: Any, role: KnownRole, clusters: Mapping[str, str], names: Mapping[str, str]) -> wire.AccessRule:
    is_tenant = row.scope_type == ScopeType.TENANT.value
    return wire.AccessRule(
        id=row.number,
        uuid=row.id,
        subject_id=row.subject_id,
        subject_type=row.subject_type,
        subject_name=names.get(row.subject_id, row.subject_id),
        role_id=role.id,
        role=role.label,
        role_name=role.name,
        scope_id=row.scope_id,
        scope_name="tenant" if is_tenant else clusters.get(row.scope_id, row.scope_id),
        scope_type=row.scope_type,
        created_at=iso(row.created_at),
        updated_at=iso(row.created_at),
        created_by=row.created_by,
    )


def last_administrator() -> Refused:
    """At least one administrator must remain."""
    what = "this would remove the last administrator"
    return refused(409, "access.last_administrator", what, "make another user an administrator first")


def _problem(code: str, what: str, field: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix="check the spelling, or create it first", field=field)

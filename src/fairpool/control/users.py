"""HTTP routes for users; the first user, and lost passwords."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.access import normal_email
from fairpool.api.limits import GENERATED_PASSWORD_MIN
from fairpool.api.roles import ADMINISTRATOR
from fairpool.api.wire import Count
from fairpool.control import rbac
from fairpool.control.access_rules import check_may_give, check_not_above, last_administrator, rule_sight
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.mail import Mail
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    optional_time_field,
    page,
    text_field,
    time_field,
)
from fairpool.control.password_reset import begin_sending, check_mail, welcome
from fairpool.control.passwords import NO_PASSWORD, Passwords, new_password
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.preferences import check_password
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.role_lookup import known_role, roles_by_key
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import identity_providers as provider_store
from fairpool.control.store.database import Connection
from fairpool.model.problem import Problem

routes = Routes("access")


class UserQuery(ListQuery):
    """Which users, in which order, and how many."""

    sort_by: Annotated[str, Parameter(alias="sortBy", max_length=64)] = "username"


FIELDS: Mapping[str, Field[wire.User]] = {
    "username": text_field(lambda each: each.username),
    "name": text_field(lambda each: each.username),
    "email": text_field(lambda each: each.email),
    "id": text_field(lambda each: each.id),
    "type": text_field(lambda each: "local" if each.is_local else "sso"),
    "isLocal": text_field(lambda each: str(each.is_local).lower()),
    "createdBy": text_field(lambda each: each.created_by),
    "createdAt": time_field(lambda each: each.created_at),
    "creationTime": time_field(lambda each: each.created_at),
    "lastUpdated": time_field(lambda each: each.updated_at),
    "lastLogin": optional_time_field(lambda each: each.last_login),
}


@routes.get("/api/v1/users", action=Action.USER_READ, answer=list[wire.User], summary="List the users you can see")
async def users(plane: Plane, caller: Caller, query: UserQuery) -> list[wire.User]:
    """Who may read users in one scope only sees those who have a role there."""

    def unit(connection: Connection) -> list[wire.User]:
        return page(filtered(_visible(connection, caller), FIELDS, query), query)[0]

    return await plane.read(unit)


@routes.get("/api/v1/users/count", action=Action.USER_READ, answer=Count, summary="Count the users you can see")
async def user_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    found = await plane.read(lambda connection: _visible(connection, caller))
    return Count(count=len(filtered(found, FIELDS, counting(filter_by, search))))


@routes.get("/api/v1/users/{user_id}", action=Action.USER_READ, answer=wire.User, summary="Get a user")
async def user(user_id: str, plane: Plane, caller: Caller) -> wire.User:
    def unit(connection: Connection) -> wire.User:
        row = _known_user(connection, user_id)
        seen = _seen_ids(connection, caller)
        if seen is not None and row.id not in seen:
            raise unknown("user", user_id, is_hidden=True)
        return _users(connection, [row])[0]

    return await plane.read(unit)


def _visible(connection: Connection, caller: Caller) -> list[wire.User]:
    seen = _seen_ids(connection, caller)
    return _users(connection, [row for row in store.all_users(connection) if seen is None or row.id in seen])


def _seen_ids(connection: Connection, caller: Caller) -> frozenset[str] | None:
    """Users with a role in a scope in which the caller may read users; None: all."""
    if caller.places(Action.USER_READ) is None:
        return None
    sees = rule_sight(connection, caller, Action.USER_READ)
    return frozenset({row.subject_id for row in store.all_rules(connection) if sees(row)})


@routes.post("/api/v1/users", action=Action.USER_CREATE, answer=wire.NewUser, status=201, summary="Create a user")
async def create_user(request: Request, plane: Plane, caller: Caller, body: wire.UserRequest) -> Response:
    password = body.password or new_password()
    hashed = await request.app.state.passwords.hash(password)
    mails: list[Mail] = []

    def unit(connection: Connection) -> ActionResult:
        if body.notify:
            check_mail(connection, plane, "leave out notify, and tell them the password in another way")
        if body.password is not None:
            check_password(plane.settings, connection, body.password, "password", body.email)
        if store.user_by_email(connection, body.email) is not None:
            what = f"user {body.email} already exists"
            raise refused(409, "user.exists", what, "use another email address, or delete that user first", "email")
        now = plane.now()
        row = store.UserRow(
            str(uuid.uuid4()), body.email, hashed, _must_change(body), False, now, created_by=caller.name
        )
        store.add_user(connection, row)
        for name in body.roles:
            role = known_role(connection, name, "roles")
            check_may_give(caller, role, wire.ScopeType.TENANT, rbac.NOWHERE)
            grant = role.grant(wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), row.id, wire.SubjectType.USER, grant, now, caller.name)
        mails[:] = [welcome(connection, plane, row)] if body.notify else []
        made = _users(connection, [row])[0]
        shown = wire.NewUser(**made.model_dump(), temp_password=password if body.password is None else None)
        return ActionResult(
            body=shown,
            kept=made,
            status=201,
            action="create",
            entity_type="user",
            entity_id=row.id,
            entity_name=row.email,
        )

    answer = await plane.perform(request, caller, unit)
    for mail in mails:
        begin_sending(request, plane, mail)
    return answer


def _must_change(body: wire.UserRequest) -> bool:
    """Whether the password is good for its own change only. One that was generated is, unless said otherwise."""
    if body.reset_password is not None:
        return body.reset_password
    return body.need_to_change_password or body.password is None


@routes.delete(
    "/api/v1/users/{user_id}", action=Action.USER_DELETE, status=204, summary="Delete a user and end their sessions"
)
async def delete_user(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, user_id)
        if not store.has_other_administrator(connection, subject=row.id):
            raise last_administrator()
        store.delete_user(connection, row.id)
        return ActionResult(action="delete", entity_type="user", entity_id=row.id, entity_name=row.email)

    return await plane.perform(request, caller, unit)


@routes.patch(
    "/api/v1/users/{user_id}", action=Action.USER_UPDATE, answer=wire.User, summary="Disable or enable a user"
)
async def update_user(user_id: str, request: Request, plane: Plane, caller: Caller, body: wire.UserUpdate) -> Response:
    """A disabled user keeps roles and workloads. Their tokens, streams and open shells end at once."""

    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, user_id)
        if body.disabled and not store.has_other_administrator(connection, subject=row.id):
            raise last_administrator()
        store.change_user(connection, row.id, disabled=body.disabled, updated_at=plane.now())
        if body.disabled:
            store.revoke_subject(connection, row.id)
        made = _users(connection, [_known_user(connection, row.id)])[0]
        return ActionResult(body=made, action="update", entity_type="user", entity_id=row.id, entity_name=row.email)

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/users/{user_id}/password",
    action=Action.USER_UPDATE,
    answer=wire.PasswordAnswer,
    summary="Reset a user's password",
)
async def reset_password(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    password = new_password()
    hashed = await request.app.state.passwords.hash(password)

    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, user_id)
        problem = _made_local(connection, row)
        if problem is not None:
            raise refused(409, problem.code, problem.what, problem.fix)
        store.set_password(connection, row.id, hashed, must_change=True)
        store.revoke_subject(connection, row.id)
        return ActionResult(
            body=wire.PasswordAnswer(temp_password=password),
            kept=wire.PasswordAnswer(temp_password=""),
            action="reset-password",
            entity_type="user",
            entity_id=row.id,
            entity_name=row.email,
        )

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/users/{user_id}/logout", action=Action.USER_UPDATE, status=204, summary="End all sessions of a user"
)
async def end_sessions(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, user_id)
        store.revoke_subject(connection, row.id)
        return ActionResult(action="sign-out", entity_type="user", entity_id=row.id, entity_name=row.email)

    return await plane.perform(request, caller, unit)


def _users(connection: Connection, rows: Sequence[store.UserRow]) -> list[wire.User]:
    """Users as the API shows them, with the roles that they have over everything."""
    labels = {key: role.label for key, role in roles_by_key(connection).items()}
    roles: dict[str, set[str]] = defaultdict(set)
    for rule in store.all_rules(connection):
        if rule.scope_type == wire.ScopeType.TENANT.value and rule.role in labels:
            roles[rule.subject_id].add(labels[rule.role])
    groups = store.groups_of_all(connection)
    return [_user(row, roles.get(row.id, ()), groups.get(row.id, [])) for row in rows]


def _user(row: store.UserRow, roles: Iterable[str], groups: list[str]) -> wire.User:
    return wire.User(
        id=row.id,
        username=row.email,
        email=row.email,
        roles=sorted(roles),
        groups=groups,
        need_to_change_password=row.must_change or row.first_password,
        is_local=row.identity_provider is None,
        disabled=row.disabled,
        created_at=iso(row.created_at),
        created_by=row.created_by,
        updated_at=iso(row.created_at if row.updated_at is None else row.updated_at),
        last_login=iso_or_none(row.last_login_at),
    )


def _made_local(connection: Connection, row: store.UserRow) -> Problem | None:
    """Before a user gets a password: why they must not. One whose identity provider was deleted, or who was separated
    from it, becomes a local user; a password of the others would outlive their account at the provider."""
    if row.identity_provider is None:
        return None
    provider = provider_store.provider_of_user(connection, row.id)
    if provider is None:
        store.change_user(connection, row.id, identity_provider=None)
        return None
    what = f"{row.email} signs in with the identity provider {provider}, not with a password"
    return Problem("user.no_password", what, f"change the password at {provider}")


def _changeable(connection: Connection, caller: Caller, user_id: str) -> store.UserRow:
    row = _known_user(connection, user_id)
    check_not_above(connection, caller, row.id, wire.SubjectType.USER)
    return row


def _known_user(connection: Connection, user_id: str) -> store.UserRow:
    row = store.user(connection, user_id) or store.user_by_email(connection, user_id)
    if row is None:
        raise unknown("user", user_id)
    return row


# --- the first user, and listening -------------------------------------------------------------------------------


async def make_first_user(plane: Plane, passwords: Passwords) -> bool:
    """Create the administrator of a new installation, without a password unless one is configured.

    True: the configured password is ignored, because the account has another one already.
    """
    settings, email = plane.settings, normal_email(plane.settings.first_user)
    is_generated = len(settings.first_password) >= GENERATED_PASSWORD_MIN
    hashed = await passwords.hash(settings.first_password) if settings.first_password else NO_PASSWORD

    def unit(connection: Connection) -> bool:
        if store.user_count(connection) == 0:
            now = plane.now()
            row = store.UserRow(str(uuid.uuid4()), email, NO_PASSWORD, False, False, now)
            store.add_user(connection, row)
            grant = BUILT_IN[ADMINISTRATOR].grant(wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), row.id, wire.SubjectType.USER, grant, now, "")
        first = store.user_by_email(connection, email)
        if hashed and first is not None and first.password_hash == NO_PASSWORD:
            store.set_password(connection, first.id, hashed, must_change=is_generated, first_password=not is_generated)
            return False
        return bool(hashed) and not (first is not None and (first.first_password or first.must_change))

    return await plane.write(unit)


def owner(connection: Connection, first_user: str) -> store.UserRow | None:
    """The account of the platform's owner: the first user while it can be used, else the oldest administrator."""
    first = store.user_by_email(connection, first_user)
    if first is not None and (first.disabled or not store.is_administrator(connection, first.id)):
        first = None
    return first or store.oldest_administrator(connection)


async def give_new_password(plane: Plane, passwords: Passwords, email: str) -> str | Problem:
    """Reset a lost password from the server's machine; the new one must be changed at the next sign-in."""
    password = new_password()
    hashed = await passwords.hash(password)

    def unit(connection: Connection) -> Problem | None:
        row = store.user_by_email(connection, email)
        if row is None:
            there = ", ".join(each.email for each in store.all_users(connection, 8))
            return Problem("user.unknown", f"there is no user {email}", f"existing users: {there}")
        problem = _made_local(connection, row)
        if problem is not None:
            return problem
        store.set_password(connection, row.id, hashed, must_change=True)
        store.revoke_subject(connection, row.id)
        made = ("user", row.email, row.id)
        subject = ("fairpool reset-password", "App")
        audit_store.add(connection, audit_store.without_request(plane.now(), subject, "reset-password", made))
        return None

    problem = await plane.write(unit)
    return problem or password


async def listening_problem(plane: Plane, host_is_local: bool) -> Problem | None:
    """Why the server must not listen on a public address, if so."""
    if host_is_local or not await plane.read(store.first_password_stands):
        return None
    user = plane.settings.first_user
    return Problem(
        "access.first_password",
        f"{user} still has the initial password",
        "start on 127.0.0.1, change it with `runai password`, then start it on the other address; a first password of "
        f"{GENERATED_PASSWORD_MIN} characters or more is allowed there",
    )

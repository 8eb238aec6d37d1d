"""HTTP routes for users; the first user, and lost passwords."""

from __future__ import annotations

import uuid

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.access import normal_email
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.roles import ADMINISTRATOR
from fairpool.control.access_rules import last_administrator
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.passwords import Passwords, new_password
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.preferences import check_password
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.role_lookup import known_role, role_labels
from fairpool.control.routes import Routes
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store.database import Connection
from fairpool.model.problem import Problem

routes = Routes("access")


@routes.get("/api/v1/users", action=Action.ACCESS_READ, answer=wire.UserPage, summary="List users")
async def users(plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT) -> wire.UserPage:
    def unit(connection: Connection) -> wire.UserPage:
        rows = store.all_users(connection, offset, limit + 1)
        following = offset + limit if len(rows) > limit else None
        return wire.UserPage(users=[_user(connection, row) for row in rows[:limit]], next=following)

    return await plane.read(unit)


@routes.get("/api/v1/users/{user_id}", action=Action.ACCESS_READ, answer=wire.User, summary="Get a user")
async def user(user_id: str, plane: Plane, caller: Caller) -> wire.User:
    def unit(connection: Connection) -> wire.User:
        return _user(connection, _known_user(connection, user_id))

    return await plane.read(unit)


@routes.post("/api/v1/users", action=Action.ACCESS_WRITE, answer=wire.NewUser, status=201, summary="Create a user")
async def create_user(request: Request, plane: Plane, caller: Caller, body: wire.UserRequest) -> Response:
    password = body.password or new_password()
    hashed = await request.app.state.passwords.hash(password)
    must_change = body.need_to_change_password or body.password is None

    def unit(connection: Connection) -> ActionResult:
        if body.password is not None:
            check_password(plane.settings, connection, body.password, "password", body.email)
        if store.user_by_email(connection, body.email) is not None:
            what = f"user {body.email} already exists"
            raise refused(409, "user.exists", what, "use another email address, or delete that user first", "email")
        now = plane.now()
        row = store.UserRow(str(uuid.uuid4()), body.email, hashed, must_change, False, now, created_by=caller.name)
        store.add_user(connection, row)
        for name in body.roles:
            grant = known_role(connection, name, "roles").grant(wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), row.id, wire.SubjectType.USER, grant, now, caller.name)
        made = _user(connection, row)
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

    return await plane.perform(request, caller, unit)


@routes.delete(
    "/api/v1/users/{user_id}", action=Action.ACCESS_WRITE, status=204, summary="Delete a user and end their sessions"
)
async def delete_user(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _known_user(connection, user_id)
        if not store.has_other_administrator(connection, subject=row.id):
            raise last_administrator()
        store.delete_user(connection, row.id)
        return ActionResult(action="delete", entity_type="user", entity_id=row.id, entity_name=row.email)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@routes.post(
    "/api/v1/users/{user_id}/password",
    action=Action.ACCESS_WRITE,
    answer=wire.PasswordAnswer,
    summary="Reset a user's password",
)
async def reset_password(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    password = new_password()
    hashed = await request.app.state.passwords.hash(password)

    def unit(connection: Connection) -> ActionResult:
        row = _known_user(connection, user_id)
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

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@routes.post(
    "/api/v1/users/{user_id}/logout", action=Action.ACCESS_WRITE, status=204, summary="End all sessions of a user"
)
async def end_sessions(user_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _known_user(connection, user_id)
        store.revoke_subject(connection, row.id)
        return ActionResult(action="sign-out", entity_type="user", entity_id=row.id, entity_name=row.email)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


def _user(connection: Connection, row: store.UserRow) -> wire.User:
    grants = store.own_grants(connection, row.id, wire.SubjectType.USER)
    return wire.User(
        id=row.id,
        username=row.email,
        email=row.email,
        roles=role_labels(connection, [each for each in grants if each.scope_type is wire.ScopeType.TENANT]),
        need_to_change_password=row.must_change or row.first_password,
        created_at=iso(row.created_at),
    )


def _known_user(connection: Connection, user_id: str) -> store.UserRow:
    row = store.user(connection, user_id) or store.user_by_email(connection, user_id)
    if row is None:
        raise unknown("user", user_id)
    return row


# --- the first user, and listening -------------------------------------------------------------------------------


NO_PASSWORD = ""
"""In place of a hash: no password fits. Such an account can only be used over the Unix socket."""


async def make_first_user(plane: Plane, passwords: Passwords) -> bool:
    """Create the administrator of a new installation, without a password unless one is configured.

    True: the configured password is ignored, because the account has another one already.
    """
    settings, email = plane.settings, normal_email(plane.settings.first_user)
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
            store.set_password(connection, first.id, hashed, must_change=False, first_password=True)
            return False
        return bool(hashed) and not (first is not None and first.first_password)

    return await plane.write(unit)


def owner(connection: Connection, first_user: str) -> store.UserRow | None:
    """The account of the platform's owner: the first user while it exists, else the oldest administrator."""
    first = store.user_by_email(connection, first_user)
    if first is not None and not store.is_administrator(connection, first.id):
        first = None
    return first or store.oldest_administrator(connection)


async def give_new_password(plane: Plane, passwords: Passwords, email: str) -> str | Problem:
    """Reset a lost password from the server's machine; the new one must be changed at the next sign-in."""
    password = new_password()
    hashed = await passwords.hash(password)

    def unit(connection: Connection) -> Problem | None:
        row = store.user_by_email(connection, email)
        if row is None:
            there = ", ".join(each.email for each in store.all_users(connection, 0, 8))
            return Problem("user.unknown", f"there is no user {email}", f"existing users: {there}")
        store.set_password(connection, row.id, hashed, must_change=True)
        store.revoke_subject(connection, row.id)
        made = ("user", row.email, row.id)
        subject = ("fairpool reset-password", "App")
        audit_store.add(connection, audit_store.without_request(plane.now(), subject, "reset-password", made))
        return None

    problem = await plane.write(unit)
    plane.forget_callers()
    return problem or password


async def listening_problem(plane: Plane, host_is_local: bool) -> Problem | None:
    """Why the server must not listen on a public address, if so."""
    if host_is_local or not await plane.read(store.first_password_stands):
        return None
    user = plane.settings.first_user
    return Problem(
        "access.first_password",
        f"{user} still has the initial password",
        "start on 127.0.0.1, change it with `runai password`, then start it on the other address",
    )

"""Sign-in, tokens, users, applications, roles and access rules: who is calling, and who may call."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
import uuid
from dataclasses import replace
from typing import Annotated, Any

from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError
from fastapi import APIRouter, Depends, Form, Query, Request, Response
from fastapi.responses import JSONResponse
from starlette.requests import HTTPConnection

from fairpool.api import access as wire
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import PAGE_DEFAULT, PAGE_MAX, Count, ValidationError
from fairpool.control import rbac
from fairpool.control.attempts import Attempts
from fairpool.control.moments import iso
from fairpool.control.plane import Caller, CallerDep, Done, Plane, PlaneDep, entry, plane_of
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.problem import Problem

router = APIRouter(tags=["access"])

HASHES_AT_ONCE = 2  # each takes 64 MiB and a core for a tenth of a second

Offset = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=1, le=PAGE_MAX)]


class Passwords:
    """Slow hashes, a few at a time and off the event loop."""

    def __init__(self, hasher: PasswordHasher | None = None) -> None:
        self._hasher = hasher or PasswordHasher()
        self._gate = asyncio.Semaphore(HASHES_AT_ONCE)
        self._nobody = self._hasher.hash(secrets.token_urlsafe())

    async def hash(self, password: str) -> str:
        async with self._gate:
            return await asyncio.to_thread(self._hasher.hash, password)

    async def fits(self, password_hash: str | None, password: str) -> bool:
        """Takes as long for a user who does not exist."""
        async with self._gate:
            return await asyncio.to_thread(self._verify, password_hash or self._nobody, password) and bool(
                password_hash
            )

    def _verify(self, password_hash: str, password: str) -> bool:
        try:
            return self._hasher.verify(password_hash, password)
        except (VerificationError, InvalidHashError):
            return False


# --- the guard: before every route -----------------------------------------------------------------------------


async def guard(connection: HTTPConnection) -> None:
    """Nobody comes in whom the table of routes does not let in. What is done in which project is asked again there."""
    method = connection.scope.get("method", "WEBSOCKET")
    action = rbac.ROUTES.get((method, connection.scope["route"].path))
    if action is None:
        raise denied("This route is not in the table of permissions.")
    if action is rbac.Action.OPEN:
        return
    caller = await identify(plane_of(connection), connection.headers.get("authorization"))
    connection.state.caller = caller
    if caller.kind == "cluster" or action is rbac.Action.LINK:
        if caller.kind != "cluster" or action is not rbac.Action.LINK:
            raise denied()
        return
    if caller.must_change_password and action is not rbac.Action.SELF:
        fix = "POST /api/v1/me/password, or runai login"
        raise refused(403, "access.password_must_change", "this password was given to you and must be changed", fix)
    if not rbac.allowed_somewhere(caller.grants, action):
        raise denied()


async def identify(plane: Plane, authorization: str | None) -> Caller:
    """Whose token this is."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise _unauthenticated("no token was sent")
    digest = digest_of(token.strip())
    caller = plane.callers.get(digest)
    if caller is None:
        caller = await plane.read(lambda connection: _caller(connection, digest))
        if caller is None:
            raise _unauthenticated("this token is not known, or was revoked")
        plane.callers[digest] = caller
    if caller.expires_at is not None and caller.expires_at <= plane.now():
        raise _unauthenticated("this token has expired")
    return caller


def digest_of(token: str) -> str:
    """Tokens are random and long: a fast hash is enough, and a stolen database holds none."""
    return hashlib.sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def _unauthenticated(what: str) -> Refused:
    refusal = refused(401, "access.not_signed_in", what, "sign in: runai login, or POST /api/v1/token")
    refusal.headers["WWW-Authenticate"] = "Bearer"
    return refusal


def _caller(connection: Connection, digest: str) -> Caller | None:
    row = store.token(connection, digest)
    if row is None or row.kind == "refresh":
        return None
    if row.subject_type is None:
        cluster = cluster_store.cluster(connection, row.subject_id)
        return cluster and Caller(id=cluster.id, name=cluster.name, kind="cluster", token_hash=digest)
    caller = Caller(
        id=row.subject_id,
        name="",
        kind=row.subject_type.value,
        grants=store.grants(connection, row.subject_id, row.subject_type),
        token_hash=digest,
        family=row.family,
        expires_at=row.expires_at,
    )
    if row.subject_type is wire.SubjectType.APP:
        app = store.application(connection, row.subject_id)
        return app and replace(caller, name=app.name)
    user = store.user(connection, row.subject_id)
    if user is None:
        return None
    return replace(caller, name=user.email, must_change_password=user.must_change, first_password=user.first_password)


# --- tokens ----------------------------------------------------------------------------------------------------


@router.post("/api/v1/token", response_model=wire.TokenAnswer, summary="Exchange a password or secret for a token")
async def make_token(request: Request, plane: PlaneDep, body: wire.TokenRequest) -> wire.TokenAnswer:
    return await _granted(request, plane, body)


@router.post(
    "/api/v2/token",
    response_model=wire.OAuthToken,
    responses={400: {"model": wire.OAuthError}, 401: {"model": wire.OAuthError}},
    summary="The same, in the words of RFC 6749",
)
@router.post(
    "/auth/realms/{realm}/protocol/openid-connect/token",
    response_model=wire.OAuthToken,
    responses={400: {"model": wire.OAuthError}, 401: {"model": wire.OAuthError}},
    summary="The same, at its older address",
)
async def make_oauth_token(
    request: Request,
    plane: PlaneDep,
    grant_type: Annotated[str, Form()] = "",
    username: Annotated[str | None, Form()] = None,
    password: Annotated[str | None, Form()] = None,
    client_id: Annotated[str | None, Form()] = None,
    client_secret: Annotated[str | None, Form()] = None,
    refresh_token: Annotated[str | None, Form()] = None,
) -> Any:
    if grant_type not in list(wire.GrantType):
        return _oauth_error(400, "unsupported_grant_type", f"grants: {', '.join(wire.GrantType)}")
    said = {
        "grantType": grant_type,
        "username": username,
        "password": password,
        "clientId": client_id,
        "clientSecret": client_secret,
        "refreshToken": refresh_token,
    }
    try:
        asked = wire.TokenRequest.model_validate({name: value for name, value in said.items() if value is not None})
        token = await _granted(request, plane, asked)
    except ValidationError:
        return _oauth_error(400, "invalid_request", "a field is missing, or too long")
    except Refused as refusal:
        error = "invalid_client" if grant_type == wire.GrantType.CLIENT_CREDENTIALS else "invalid_grant"
        return _oauth_error(refusal.status, error, refusal.message, refusal.headers)
    return wire.OAuthToken(
        access_token=token.access_token, expires_in=token.expires_in, refresh_token=token.refresh_token
    )


def _oauth_error(status: int, error: str, words: str, headers: dict[str, str] | None = None) -> JSONResponse:
    body = wire.OAuthError(error=error, error_description=words)
    return JSONResponse(body.model_dump(), 400 if status == 422 else status, headers)


async def _granted(request: Request, plane: Plane, body: wire.TokenRequest) -> wire.TokenAnswer:
    match body.grant_type:
        case wire.GrantType.PASSWORD:
            return await _by_password(request, plane, body.username, body.password)
        case wire.GrantType.REFRESH_TOKEN:
            return await _by_refresh(request, plane, body.refresh_token)
        case _:
            return await _by_secret(request, plane, body.client_id, body.client_secret)


async def _by_password(request: Request, plane: Plane, username: str | None, password: str | None) -> wire.TokenAnswer:
    if not username or not password:
        raise refused(422, "access.incomplete", "a password grant needs username and password", "give both")
    names = (f"user {username.lower()}", f"from {request.client.host if request.client else ''}")
    attempts: Attempts = request.app.state.attempts
    _slow_down(attempts, names, plane.now())
    user = await plane.read(lambda connection: store.user_by_email(connection, username))
    passwords: Passwords = request.app.state.passwords
    if not await passwords.fits(user.password_hash if user else None, password) or user is None:
        attempts.failed(names, plane.now())
        nobody = Caller(id="", name=username, kind="user")
        await _note(request, plane, nobody, "sign-in", "Failed")
        raise refused(401, "access.wrong_password", "user or password is wrong", "try again; both matter, case too")
    attempts.succeeded(names)
    caller = Caller(id=user.id, name=user.email, kind="user")
    answer = await _issue(plane, caller, family=str(uuid.uuid4()))
    await _note(request, plane, caller, "sign-in", "Succeeded")
    return answer.model_copy(update={"must_change_password": user.must_change or user.first_password})


async def _by_secret(request: Request, plane: Plane, client_id: str | None, secret: str | None) -> wire.TokenAnswer:
    if not client_id or not secret:
        raise refused(422, "access.incomplete", "this grant needs clientId and clientSecret", "give both")
    names = (f"app {client_id}", f"from {request.client.host if request.client else ''}")
    attempts: Attempts = request.app.state.attempts
    _slow_down(attempts, names, plane.now())
    app = await plane.read(
        lambda connection: store.application(connection, client_id) or store.application_by_name(connection, client_id)
    )
    if app is None or not hmac.compare_digest(app.secret_hash, digest_of(secret)):
        attempts.failed(names, plane.now())
        await _note(request, plane, Caller(id="", name=client_id, kind="app"), "sign-in", "Failed")
        raise refused(401, "access.wrong_secret", "application or secret is wrong", "make a new secret if it is lost")
    attempts.succeeded(names)
    return await _issue(plane, Caller(id=app.id, name=app.name, kind="app"), family=str(uuid.uuid4()))


async def _by_refresh(request: Request, plane: Plane, token: str | None) -> wire.TokenAnswer:
    if not token:
        raise refused(422, "access.incomplete", "a refresh_token grant needs refreshToken", "give it")
    digest = digest_of(token)

    def take(connection: Connection) -> store.TokenRow:
        row = store.token(connection, digest)
        if row is None or row.kind != "refresh" or (row.expires_at or 0) <= plane.now() or row.subject_type is None:
            raise _unauthenticated("this refresh token is not known, was used before, or has expired")
        store.revoke_token(connection, digest)
        return row

    row = await plane.write(take)
    assert row.subject_type is not None
    return await _issue(plane, Caller(id=row.subject_id, name="", kind=row.subject_type.value), family=row.family)


def _slow_down(attempts: Attempts, names: tuple[str, ...], now: Instant) -> None:
    wait_s = attempts.wait_s(names, now)
    if wait_s:
        what = f"too many wrong passwords; the next try counts in {wait_s} s"
        refusal = refused(429, "access.too_many_attempts", what, "wait, then try again")
        refusal.headers["Retry-After"] = str(wait_s)
        raise refusal


async def _issue(plane: Plane, caller: Caller, family: str) -> wire.TokenAnswer:
    settings = plane.settings
    token, refresh = "fpa_" + secrets.token_urlsafe(32), "fpr_" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> None:
        now = plane.now()
        store.drop_expired(connection, now)
        for each, kind, life_s in (
            (token, "access", settings.access_token_s),
            (refresh, "refresh", settings.refresh_token_s),
        ):
            store.add_token(
                connection,
                digest_of(each),
                family=family,
                kind=kind,
                subject_id=caller.id,
                subject_type=caller.kind,
                now=now,
                expires_at=now + life_s * SECOND_MS,
            )

    await plane.write(unit)
    return wire.TokenAnswer(access_token=token, refresh_token=refresh, expires_in=settings.access_token_s)


async def _note(request: Request, plane: Plane, caller: Caller, action: str, result: str) -> None:
    done = Done(action=action, entity_type="user", entity_id=caller.id, entity_name=caller.name)
    line = entry(request, caller, done, plane.now(), result)
    await plane.write(lambda connection: audit_store.add(connection, line))


# --- me ----------------------------------------------------------------------------------------------------------


@router.get("/api/v1/me", response_model=wire.Me, summary="Who I am and what I may do")
async def me(plane: PlaneDep, caller: CallerDep) -> wire.Me:
    rules = await plane.read(lambda connection: store.rules(connection, 0, PAGE_MAX, caller.id))
    return wire.Me(
        id=caller.id,
        username=caller.name,
        subject_type=wire.SubjectType(caller.kind),
        roles=sorted({grant.role for grant in caller.grants}),
        access_rules=[_rule(each) for each in rules],
        permissions=rbac.permissions(caller.grants),
        must_change_password=caller.must_change_password or caller.first_password,
    )


@router.post("/api/v1/me/password", status_code=204, summary="Change my password; every other session ends")
async def change_password(request: Request, plane: PlaneDep, caller: CallerDep, body: wire.PasswordChange) -> Response:
    passwords: Passwords = request.app.state.passwords
    attempts: Attempts = request.app.state.attempts
    names = (f"user {caller.name}",)
    _slow_down(attempts, names, plane.now())
    user = await plane.read(lambda connection: store.user(connection, caller.id))
    if user is None or not await passwords.fits(user.password_hash, body.current_password):
        attempts.failed(names, plane.now())
        raise refused(403, "access.wrong_password", "the current password is wrong", "try again", "currentPassword")
    if body.new_password == body.current_password or body.new_password == plane.settings.first_password:
        what = "the new password is the old one, or the one that everybody knows"
        raise refused(422, "access.same_password", what, "choose another", "newPassword")
    hashed = await passwords.hash(body.new_password)

    def unit(connection: Connection) -> Done:
        store.set_password(connection, caller.id, hashed, must_change=False)
        keep = store.token(connection, caller.token_hash)
        store.revoke_subject(connection, caller.id)
        if keep is not None:
            store.add_token(
                connection,
                keep.hash,
                family=keep.family,
                kind=keep.kind,
                subject_id=keep.subject_id,
                subject_type=caller.kind,
                now=plane.now(),
                expires_at=keep.expires_at,
            )
        return Done(action="reset-password", entity_type="user", entity_id=caller.id, entity_name=caller.name)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@router.post("/api/v1/me/logout", status_code=204, summary="End this session: its tokens are worthless from now on")
async def sign_out(request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    def unit(connection: Connection) -> Done:
        store.revoke_family(connection, caller.family)
        return Done(action="sign-out", entity_type="user", entity_id=caller.id, entity_name=caller.name)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


# --- roles and rules ---------------------------------------------------------------------------------------------


@router.get("/api/v1/authorization/roles", response_model=wire.RolePage, summary="Roles, and what each permits")
async def roles(caller: CallerDep) -> wire.RolePage:
    return wire.RolePage(roles=[_role(name) for name in wire.RoleName])


@router.get("/api/v1/authorization/roles/{role_id}", response_model=wire.Role, summary="One role")
async def role(role_id: str, caller: CallerDep) -> wire.Role:
    if role_id not in list(wire.RoleName):
        raise unknown("role", role_id)
    return _role(wire.RoleName(role_id))


@router.get("/api/v1/authorization/access-rules", response_model=wire.AccessRulePage, summary="Access rules")
async def access_rules(
    plane: PlaneDep,
    caller: CallerDep,
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
    subject_id: Annotated[str | None, Query(alias="subjectId", max_length=256)] = None,
) -> wire.AccessRulePage:
    rows = await plane.read(lambda connection: store.rules(connection, offset, limit + 1, subject_id))
    following = offset + limit if len(rows) > limit else None
    return wire.AccessRulePage(access_rules=[_rule(row) for row in rows[:limit]], next=following)


@router.get("/api/v1/authorization/access-rules/count", response_model=Count, summary="How many rules there are")
async def access_rule_count(plane: PlaneDep, caller: CallerDep) -> Count:
    return Count(count=await plane.read(store.rule_count))


@router.get("/api/v1/authorization/access-rules/{rule_id}", response_model=wire.AccessRule, summary="One access rule")
async def access_rule(rule_id: str, plane: PlaneDep, caller: CallerDep) -> wire.AccessRule:
    row = await plane.read(lambda connection: store.rule(connection, rule_id))
    if row is None:
        raise unknown("access rule", rule_id)
    return _rule(row)


@router.post(
    "/api/v1/authorization/access-rules",
    response_model=wire.AccessRule,
    status_code=201,
    summary="Give somebody a role in a scope",
)
async def create_access_rule(
    request: Request, plane: PlaneDep, caller: CallerDep, body: wire.AccessRuleRequest
) -> Response:
    def unit(connection: Connection) -> Done:
        _check_rule(connection, body)
        subject = store.user_by_email(connection, body.subject_id)
        subject_id = subject.id if subject else body.subject_id
        rule_id = str(uuid.uuid4())
        scope_id = body.scope_id if body.scope_type is not wire.ScopeType.TENANT else ""
        grant = rbac.Grant(body.role_id, body.scope_type, scope_id)
        store.add_rule(connection, rule_id, subject_id, body.subject_type, grant, plane.now(), caller.name)
        row = store.rule(connection, rule_id)
        name = f"{body.subject_id} is {body.role_id} of {scope_id or 'everything'}"
        return Done(
            body=_rule(row), status=201, action="create", entity_type="access-rule", entity_id=rule_id, entity_name=name
        )

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


def _check_rule(connection: Connection, body: wire.AccessRuleRequest) -> None:
    problems = []
    if body.subject_type is wire.SubjectType.USER:
        known: object = store.user(connection, body.subject_id) or store.user_by_email(connection, body.subject_id)
    else:
        known = store.application(connection, body.subject_id)
    if known is None:
        problems.append(_problem("access.no_such_subject", f"there is no {body.subject_type} {body.subject_id!r}"))
    if body.scope_type is wire.ScopeType.PROJECT and not organization_store.project(connection, body.scope_id):
        problems.append(_problem("project.unknown", f"there is no project {body.scope_id!r}"))
    if body.scope_type is wire.ScopeType.DEPARTMENT and not organization_store.department(connection, body.scope_id):
        problems.append(_problem("department.unknown", f"there is no department {body.scope_id!r}"))
    if problems:
        raise Refused(422, problems)


@router.delete("/api/v1/authorization/access-rules/{rule_id}", status_code=204, summary="Take a role away")
async def delete_access_rule(rule_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    def unit(connection: Connection) -> Done:
        if store.rule(connection, rule_id) is None:
            raise unknown("access rule", rule_id)
        if not store.has_other_administrator(connection, rule_id=rule_id):
            raise _last_administrator()
        store.delete_rule(connection, rule_id)
        return Done(action="delete", entity_type="access-rule", entity_id=rule_id)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


# --- users -------------------------------------------------------------------------------------------------------


@router.get("/api/v1/users", response_model=wire.UserPage, summary="Users")
async def users(plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT) -> wire.UserPage:
    def unit(connection: Connection) -> wire.UserPage:
        rows = store.all_users(connection, offset, limit + 1)
        following = offset + limit if len(rows) > limit else None
        return wire.UserPage(users=[_user(connection, row) for row in rows[:limit]], next=following)

    return await plane.read(unit)


@router.get("/api/v1/users/{user_id}", response_model=wire.User, summary="One user")
async def user(user_id: str, plane: PlaneDep, caller: CallerDep) -> wire.User:
    def unit(connection: Connection) -> wire.User:
        return _user(connection, _known_user(connection, user_id))

    return await plane.read(unit)


@router.post("/api/v1/users", response_model=wire.NewUser, status_code=201, summary="Add a user")
async def create_user(request: Request, plane: PlaneDep, caller: CallerDep, body: wire.UserRequest) -> Response:
    password = body.password or secrets.token_urlsafe(12)
    hashed = await request.app.state.passwords.hash(password)
    must_change = body.need_to_change_password or body.password is None

    def unit(connection: Connection) -> Done:
        if store.user_by_email(connection, body.email) is not None:
            what = f"there is a user {body.email} already"
            raise refused(409, "user.exists", what, "choose another address, or delete it first", "email")
        now = plane.now()
        row = store.UserRow(str(uuid.uuid4()), body.email, hashed, must_change, False, now)
        store.add_user(connection, row)
        for name in body.roles:
            grant = rbac.Grant(name, wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), row.id, wire.SubjectType.USER, grant, now, caller.name)
        made = _user(connection, row)
        shown = wire.NewUser(**made.model_dump(), temp_password=password if body.password is None else None)
        return Done(
            body=shown,
            kept=made,
            status=201,
            action="create",
            entity_type="user",
            entity_id=row.id,
            entity_name=row.email,
        )

    return await plane.perform(request, caller, unit)


@router.delete("/api/v1/users/{user_id}", status_code=204, summary="Remove a user; their sessions end")
async def delete_user(user_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    def unit(connection: Connection) -> Done:
        row = _known_user(connection, user_id)
        if not store.has_other_administrator(connection, subject=row.id):
            raise _last_administrator()
        store.delete_user(connection, row.id)
        return Done(action="delete", entity_type="user", entity_id=row.id, entity_name=row.email)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@router.post(
    "/api/v1/users/{user_id}/password", response_model=wire.PasswordAnswer, summary="Give a user a new password"
)
async def reset_password(user_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    password = secrets.token_urlsafe(12)
    hashed = await request.app.state.passwords.hash(password)

    def unit(connection: Connection) -> Done:
        row = _known_user(connection, user_id)
        store.set_password(connection, row.id, hashed, must_change=True)
        store.revoke_subject(connection, row.id)
        return Done(
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


@router.post("/api/v1/users/{user_id}/logout", status_code=204, summary="End every session of a user")
async def end_sessions(user_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    def unit(connection: Connection) -> Done:
        row = _known_user(connection, user_id)
        store.revoke_subject(connection, row.id)
        return Done(action="sign-out", entity_type="user", entity_id=row.id, entity_name=row.email)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


# --- applications ------------------------------------------------------------------------------------------------


@router.get("/api/v1/apps", response_model=wire.ApplicationPage, summary="Applications")
async def applications(
    plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.ApplicationPage:
    def unit(connection: Connection) -> wire.ApplicationPage:
        rows = store.all_applications(connection, offset, limit + 1)
        following = offset + limit if len(rows) > limit else None
        return wire.ApplicationPage(apps=[_application(connection, row) for row in rows[:limit]], next=following)

    return await plane.read(unit)


@router.get("/api/v1/apps/{app_id}", response_model=wire.Application, summary="One application")
async def application(app_id: str, plane: PlaneDep, caller: CallerDep) -> wire.Application:
    def unit(connection: Connection) -> wire.Application:
        return _application(connection, _known_application(connection, app_id))

    return await plane.read(unit)


@router.post(
    "/api/v1/apps", response_model=wire.NewApplication, status_code=201, summary="Add an application; shows its secret"
)
async def create_application(
    request: Request, plane: PlaneDep, caller: CallerDep, body: wire.ApplicationRequest
) -> Response:
    secret = "fps_" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> Done:
        if store.application_by_name(connection, body.name) is not None:
            what = f"there is an application {body.name!r} already"
            raise refused(409, "application.exists", what, "choose another name", "name")
        now, app_id = plane.now(), str(uuid.uuid4())
        store.add_application(connection, app_id, body.name, digest_of(secret), now)
        for name in body.roles:
            grant = rbac.Grant(name, wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), app_id, wire.SubjectType.APP, grant, now, caller.name)
        made = _application(connection, store.application(connection, app_id))
        return Done(
            body=wire.NewApplication(**made.model_dump(), secret=secret),
            kept=made,
            status=201,
            action="create",
            entity_type="application",
            entity_id=app_id,
            entity_name=body.name,
        )

    return await plane.perform(request, caller, unit)


@router.post(
    "/api/v1/apps/{app_id}/secret", response_model=wire.NewApplication, summary="A new secret; the old one ends"
)
async def renew_secret(app_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    secret = "fps_" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> Done:
        row = _known_application(connection, app_id)
        store.set_secret(connection, app_id, digest_of(secret))
        store.revoke_subject(connection, app_id)
        made = _application(connection, row)
        return Done(
            body=wire.NewApplication(**made.model_dump(), secret=secret),
            kept=made,
            action="update",
            entity_type="application",
            entity_id=app_id,
            entity_name=row.name,
        )

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@router.delete("/api/v1/apps/{app_id}", status_code=204, summary="Remove an application; its tokens end")
async def delete_application(app_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
    def unit(connection: Connection) -> Done:
        row = _known_application(connection, app_id)
        store.delete_application(connection, app_id)
        return Done(action="delete", entity_type="application", entity_id=app_id, entity_name=row.name)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


# --- the first user, and listening -------------------------------------------------------------------------------


async def make_first_user(plane: Plane, passwords: Passwords) -> None:
    """On a fresh database: one administrator, with the password that everybody knows."""
    if await plane.read(store.user_count):
        return
    settings = plane.settings
    hashed = await passwords.hash(settings.first_password)

    def unit(connection: Connection) -> None:
        now = plane.now()
        row = store.UserRow(str(uuid.uuid4()), settings.first_user.lower(), hashed, False, True, now)
        store.add_user(connection, row)
        grant = rbac.Grant(wire.RoleName.ADMINISTRATOR, wire.ScopeType.TENANT)
        store.add_rule(connection, str(uuid.uuid4()), row.id, wire.SubjectType.USER, grant, now, "")

    await plane.write(unit)


async def give_new_password(plane: Plane, passwords: Passwords, email: str) -> str | Problem:
    """For whoever sits at the machine and has lost theirs: a password that must be changed at the next sign-in."""
    password = secrets.token_urlsafe(12)
    hashed = await passwords.hash(password)

    def unit(connection: Connection) -> Problem | None:
        row = store.user_by_email(connection, email)
        if row is None:
            there = ", ".join(each.email for each in store.all_users(connection, 0, 8))
            return Problem("user.unknown", f"there is no user {email}", f"these are there: {there}")
        store.set_password(connection, row.id, hashed, must_change=True)
        store.revoke_subject(connection, row.id)
        audit_store.add(connection, _at_the_machine(row, plane.now()))
        return None

    problem = await plane.write(unit)
    plane.forget_callers()
    return problem or password


def _at_the_machine(user: store.UserRow, now: Instant) -> dict[str, object]:
    return {
        "at": now,
        "subject": "fairpool reset-password",
        "subject_type": "App",
        "source_ip": "",
        "action": "reset-password",
        "http_method": "",
        "url": "",
        "entity_type": "user",
        "entity_name": user.email,
        "entity_id": user.id,
        "result": "Succeeded",
    }


async def listening_problem(plane: Plane, host_is_local: bool) -> Problem | None:
    """Why we must not listen at an address that others can reach, if so."""
    if host_is_local or not await plane.read(store.first_password_stands):
        return None
    user = plane.settings.first_user
    return Problem(
        "access.first_password",
        f"{user} still has the password that everybody knows",
        "start on 127.0.0.1, sign in, change it (POST /api/v1/me/password), then listen elsewhere",
    )


# --- rows to answers ---------------------------------------------------------------------------------------------


def _user(connection: Connection, row: store.UserRow) -> wire.User:
    grants = store.grants(connection, row.id, wire.SubjectType.USER)
    return wire.User(
        id=row.id,
        username=row.email,
        email=row.email,
        roles=sorted({grant.role for grant in grants if grant.scope_type is wire.ScopeType.TENANT}),
        need_to_change_password=row.must_change or row.first_password,
        created_at=iso(row.created_at),
    )


def _application(connection: Connection, row: Any) -> wire.Application:
    grants = store.grants(connection, row.id, wire.SubjectType.APP)
    return wire.Application(
        id=row.id,
        name=row.name,
        client_id=row.id,
        roles=sorted({grant.role for grant in grants if grant.scope_type is wire.ScopeType.TENANT}),
        created_at=iso(row.created_at),
    )


def _rule(row: Any) -> wire.AccessRule:
    return wire.AccessRule(
        id=row.id,
        subject_id=row.subject_id,
        subject_type=row.subject_type,
        role_id=row.role,
        role_name=row.role,
        scope_id=row.scope_id,
        scope_type=row.scope_type,
        created_at=iso(row.created_at),
        created_by=row.created_by,
    )


def _role(name: wire.RoleName) -> wire.Role:
    return wire.Role(
        id=name,
        name=name.value.capitalize(),
        description=rbac.DESCRIPTIONS[name],
        permissions=sorted(action.value for action in rbac.ROLES[name]),
    )


def _known_user(connection: Connection, user_id: str) -> store.UserRow:
    row = store.user(connection, user_id) or store.user_by_email(connection, user_id)
    if row is None:
        raise unknown("user", user_id)
    return row


def _known_application(connection: Connection, app_id: str) -> Any:
    row = store.application(connection, app_id)
    if row is None:
        raise unknown("application", app_id)
    return row


def _last_administrator() -> Refused:
    what = "nobody would be left who may administer"
    return refused(409, "access.last_administrator", what, "make somebody else administrator first")


def _problem(code: str, what: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix="name one that exists")


GUARD = Depends(guard)

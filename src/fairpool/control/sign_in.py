"""HTTP routes for sign-in, tokens, and the current user."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from fairpool.api import access as wire
from fairpool.api import programs as programs_wire
from fairpool.api.access import normal_email
from fairpool.api.sessions import SignInMethod
from fairpool.api.wire import ValidationError
from fairpool.control import preferences, rbac
from fairpool.control.access_rules import rule_answers
from fairpool.control.command_grants import redeem_code, redeem_device
from fairpool.control.guard import digest_of, idle_limit_ms, unauthenticated
from fairpool.control.passwords import NO_PASSWORD, Passwords
from fairpool.control.plane import ActionResult, Caller, Plane, entry
from fairpool.control.program_sign_in import program_with
from fairpool.control.provider_sessions import renew
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused
from fairpool.control.role_lookup import role_labels
from fairpool.control.routes import Routes
from fairpool.control.settings import FIRST_PASSWORD
from fairpool.control.sign_in_attempt import TOO_MANY, SignInAttempt
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import sessions as session_store
from fairpool.control.store.database import Connection
from fairpool.control.tokens import address_of, new_tokens, origin_of
from fairpool.model.ids import SECOND_MS, Instant

routes = Routes("access")

T = TypeVar("T")

REFRESH = ("refresh", store.SPENT)
RACE_MS = 30 * SECOND_MS
"""Two commands of one user may renew at the same time: the second is refused without ending the session."""


OAUTH_FIELDS = (
    *("grant_type", "username", "password", "client_id", "client_secret", "refresh_token"),
    *("code", "code_verifier", "device_code"),
)
OAUTH_WORDS = {
    "access.authorization_pending": "authorization_pending",
    "access.slow_down": "slow_down",
    "access.expired_code": "expired_token",
    "access.code_denied": "access_denied",
}
"""Errors of RFC 8628."""
OAUTH_FORM = {
    "content": {
        "application/x-www-form-urlencoded": {
            "schema": {"type": "object", "properties": {name: {"type": "string"} for name in OAUTH_FIELDS}},
            "example": {"grant_type": "password", "username": "ann@example.com", "password": "correct horse battery"},
        }
    }
}
OAUTH_ERRORS = {status: {"model": wire.OAuthError} for status in (400, 401, 429)}


# --- tokens ----------------------------------------------------------------------------------------------------


@routes.post(
    "/api/v1/token",
    action=Action.OPEN,
    answer=wire.TokenAnswer,
    summary="Get a token for a password, secret or refresh token",
)
async def make_token(request: Request, plane: Plane, body: wire.TokenRequest) -> wire.TokenAnswer:
    return await granted(request, plane, body)


@routes.post(
    "/api/v2/token",
    action=Action.OPEN,
    answer=wire.OAuthToken,
    request_body=OAUTH_FORM,
    responses=OAUTH_ERRORS,
    summary="Get a token (OAuth 2.0, RFC 6749)",
)
@routes.post(
    "/auth/realms/{realm}/protocol/openid-connect/token",
    action=Action.OPEN,
    answer=wire.OAuthToken,
    request_body=OAUTH_FORM,
    responses=OAUTH_ERRORS,
    summary="Get a token (OAuth 2.0, legacy path)",
)
async def make_oauth_token(request: Request, plane: Plane) -> Response | wire.OAuthToken:
    form = await request.form()
    grant_type = str(form.get("grant_type", ""))
    if grant_type not in list(wire.GrantType):
        return _oauth_error(400, "unsupported_grant_type", f"supported grant types: {', '.join(wire.GrantType)}")
    said = {name: form[name] for name in OAUTH_FIELDS if form.get(name)}
    try:
        asked = wire.TokenRequest.model_validate(said)
        token = await granted(request, plane, asked)
    except ValidationError:
        return _oauth_error(400, "invalid_request", "a field is missing or too long")
    except Refused as refusal:
        error = "invalid_client" if grant_type == wire.GrantType.CLIENT_CREDENTIALS else "invalid_grant"
        error = OAUTH_WORDS.get(refusal.problems[0].code, error)
        return _oauth_error(refusal.status, error, refusal.message, refusal.headers)
    return wire.OAuthToken(
        access_token=token.access_token,
        id_token=token.id_token,
        expires_in=token.expires_in,
        refresh_token=token.refresh_token,
    )


def _oauth_error(status: int, error: str, words: str, headers: dict[str, str] | None = None) -> JSONResponse:
    body = wire.OAuthError(error=error, error_description=words)
    return JSONResponse(body.model_dump(), 400 if status == 422 else status, headers)


async def granted(request: Request, plane: Plane, body: wire.TokenRequest) -> wire.TokenAnswer:
    """Tokens for valid credentials; raises `Refused`."""
    try:
        match body.grant_type:
            case wire.GrantType.PASSWORD:
                return await _by_password(request, plane, body.username, body.password)
            case wire.GrantType.REFRESH_TOKEN:
                return await _by_refresh(request, plane, body.refresh_token)
            case wire.GrantType.CODE | wire.GrantType.DEVICE_CODE:
                return await _by_browser(request, plane, body)
            case _:
                return await _by_secret(request, plane, body.client_id, body.client_secret)
    except Refused as refusal:
        if refusal.status == TOO_MANY:
            await _note_attempt(request, plane, body)
        raise


async def _note_attempt(request: Request, plane: Plane, body: wire.TokenRequest) -> None:
    kind = "user" if body.grant_type is wire.GrantType.PASSWORD else "app"
    caller, source = Caller(id="", name=body.username or body.client_id or "", kind=kind), f"from {address_of(request)}"
    if plane.denials.is_worth_a_line(source, plane.now(), source, caller.subject_type):
        await _note(request, plane, caller, "Failed")


async def _by_password(request: Request, plane: Plane, username: str | None, password: str | None) -> wire.TokenAnswer:
    def issue(connection: Connection, user: store.UserRow, caller: Caller) -> wire.TokenAnswer:
        origin = origin_of(request, SignInMethod.PASSWORD)
        answer = new_tokens(connection, plane, caller, str(uuid.uuid4()), origin)
        return answer.model_copy(update={"must_change_password": user.must_change or user.first_password})

    return await signed_in_by_password(request, plane, username, password, issue)


async def signed_in_by_password(
    request: Request,
    plane: Plane,
    username: str | None,
    password: str | None,
    issue: Callable[[Connection, store.UserRow, Caller], T],
) -> T:
    """What `issue` makes for a user with the right password. An unknown user costs as much work as a known one."""
    if not username or not password:
        raise refused(422, "access.incomplete", "a password grant needs username and password", "set both")
    unknown_caller = Caller(id="", name=username, kind="user")
    attempt = SignInAttempt(request, plane, "user", normal_email(username))

    def look(connection: Connection) -> store.UserRow | None:
        attempt.check(connection)
        return store.user_by_email(connection, username)

    user = await plane.read(look)
    passwords: Passwords = request.app.state.passwords
    fits = await attempt.fits(passwords, user.password_hash if user else None, password)

    def unit(connection: Connection) -> T | None:
        assert user is not None
        now_is = store.user(connection, user.id)
        if now_is is None or now_is.disabled or now_is.password_hash != user.password_hash:
            return None  # changed or deleted meanwhile
        caller = Caller(id=user.id, name=user.email, kind="user")
        audit_store.add(connection, _line(request, plane, caller, "Succeeded"))
        attempt.succeeded(connection)
        return issue(connection, now_is, caller)

    answer = await plane.write(unit) if fits and user else None
    if answer is None:
        await _note(request, plane, unknown_caller, "Failed")
        await attempt.failed()
        raise refused(401, "access.wrong_password", "wrong user name or password", "try again")
    return answer


async def _by_secret(request: Request, plane: Plane, client_id: str | None, secret: str | None) -> wire.TokenAnswer:
    if not client_id or not secret:
        raise refused(422, "access.incomplete", "this grant needs clientId and clientSecret", "set both")
    unknown_caller = Caller(id="", name=client_id, kind="app")
    attempt = SignInAttempt(request, plane, "app", client_id)

    def unit(connection: Connection) -> wire.TokenAnswer | Refused:
        attempt.begin(connection)
        found = program_with(connection, plane.settings, client_id, secret, plane.now())
        if isinstance(found, Refused):
            return found  # not raised here: the attempt counts
        caller, key = found
        attempt.succeeded(connection)
        audit_store.add(connection, _line(request, plane, caller, "Succeeded"))
        # Without a refresh token (RFC 6749, 4.4.3), which would outlive a rotated secret.
        origin = origin_of(request, SignInMethod.ACCESS_KEY if key else SignInMethod.SECRET, key)
        return new_tokens(connection, plane, caller, str(uuid.uuid4()), origin, is_renewable=False)

    answer = await plane.write(unit)
    if isinstance(answer, Refused):
        await _note(request, plane, unknown_caller, "Failed")
        raise answer
    return answer


@routes.post(
    "/v1/k8s/auth/oauth/apptoken",
    action=Action.OPEN,
    answer=programs_wire.AppToken,
    summary="Get a token for a secret (legacy path)",
)
async def app_token(request: Request, plane: Plane, body: programs_wire.AppTokenRequest) -> programs_wire.AppToken:
    asked = {"grantType": "app_token", "clientId": body.id or body.name, "clientSecret": body.secret}
    answer = await granted(request, plane, wire.TokenRequest.model_validate(asked))
    return programs_wire.AppToken(access_token=answer.access_token, id_token=answer.id_token)


async def _by_refresh(request: Request, plane: Plane, token: str | None) -> wire.TokenAnswer:
    if not token:
        raise refused(422, "access.incomplete", "a refresh_token grant needs refreshToken", "set it")
    digest = digest_of(token)
    await renew(request, plane, digest)

    def unit(connection: Connection) -> wire.TokenAnswer | None:
        row, now = store.token(connection, digest), plane.now()
        if row is None or row.kind not in REFRESH or (row.expires_at or 0) <= now or row.subject_type is None:
            return None
        caller = Caller(id=row.subject_id, name=store.subject_name(connection, row), kind=row.subject_type.value)
        if row.kind == store.SPENT:
            if now - row.created_at > RACE_MS:
                # The token was used twice, so it was stolen: both sessions end.
                store.revoke_family(connection, row.family)
                audit_store.add(connection, _line(request, plane, caller, "Failed", "renew"))
            return None
        if _is_over(connection, plane, row.family, now) or _is_of_secret(connection, row):
            return None
        store.spend_token(connection, digest, now)
        return _issued(connection, request, plane, caller, row.family, None, "renew")

    answer = await plane.write(unit)
    if answer is None:
        raise unauthenticated("this refresh token is invalid, was already used, or has expired")
    return answer


async def _by_browser(request: Request, plane: Plane, body: wire.TokenRequest) -> wire.TokenAnswer:
    """Tokens for a code that a person gave out in their browser."""

    def unit(connection: Connection) -> wire.TokenAnswer | Refused:
        if body.grant_type is wire.GrantType.CODE:
            method = SignInMethod.BROWSER
            redeemed = redeem_code(connection, plane.now(), body.code, body.code_verifier)
        else:
            method = SignInMethod.DEVICE_CODE
            redeemed = redeem_device(connection, plane.now(), body.device_code)
        if isinstance(redeemed, Refused):
            return redeemed  # not raised here: a code that was tried is used
        user = redeemed.user
        caller = Caller(id=user.id, name=user.email, kind="user")
        answer = _issued(connection, request, plane, caller, redeemed.family, method, ends_at=redeemed.ends_at)
        return answer.model_copy(update={"must_change_password": user.must_change or user.first_password})

    answer = await plane.write(unit)
    if isinstance(answer, Refused):
        raise answer
    return answer


def _is_over(connection: Connection, plane: Plane, family: str, now: Instant) -> bool:
    """Whether a session has reached a time limit."""
    session = session_store.one(connection, family)
    if session is None:
        return False
    idle_ms = idle_limit_ms(connection, plane, session)
    used_at = max(session.used_at, plane.session_use.latest(family))
    return bool(idle_ms and used_at + idle_ms <= now) or (session.expires_at or now + 1) <= now


def _is_of_secret(connection: Connection, row: store.TokenRow) -> bool:
    """Whether it began with the secret of a program or access key: earlier versions gave those refresh tokens."""
    session = session_store.one(connection, row.family)
    return row.subject_type is not wire.SubjectType.USER or (session is not None and session.access_key is not None)


def _issued(
    connection: Connection,
    request: Request,
    plane: Plane,
    caller: Caller,
    family: str,
    method: SignInMethod | None,
    action: str = "sign-in",
    ends_at: int | None = None,
) -> wire.TokenAnswer:
    """New tokens with their audit entry, in the transaction that checked the credentials."""
    audit_store.add(connection, _line(request, plane, caller, "Succeeded", action))
    return new_tokens(connection, plane, caller, family, origin_of(request, method), ends_at)


def _line(request: Request, plane: Plane, caller: Caller, result: str, action: str = "sign-in") -> dict[str, object]:
    noun = "user" if caller.kind == "user" else "application"
    done = ActionResult(action=action, entity_type=noun, entity_id=caller.id, entity_name=caller.name, result=result)
    return entry(request, caller, done, plane.now())


async def _note(request: Request, plane: Plane, caller: Caller, result: str) -> None:
    line = _line(request, plane, caller, result)
    await plane.write(lambda connection: audit_store.add(connection, line))


# --- me ----------------------------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/me",
    action=Action.SELF,
    with_initial_password=True,
    answer=wire.Me,
    summary="Get the current user and their permissions",
)
async def me(plane: Plane, caller: Caller) -> wire.Me:
    def unit(connection: Connection) -> wire.Me:
        rules, user = store.rules_of(connection, caller.id, caller.kind), store.user(connection, caller.id)
        return wire.Me(
            id=caller.id,
            username=caller.name,
            subject_type=wire.SubjectType(caller.kind),
            roles=role_labels(connection, caller.grants),
            groups=list(store.groups(connection, caller.id)),
            access_rules=rule_answers(connection, rules),
            permissions=rbac.permissions(caller.grants),
            must_change_password=caller.must_change_password,
            has_password=user is not None and user.password_hash != NO_PASSWORD,
            access_key_id=caller.access_key,
            support_contact=preferences.support_link(connection, preferences.SUPPORT_CONTACT),
            support_feedback=preferences.support_link(connection, preferences.SUPPORT_FEEDBACK),
        )

    return await plane.read(unit)


@routes.post(
    "/api/v1/me/password",
    action=Action.SELF,
    with_initial_password=True,
    status=204,
    summary="Change your password and end your other sessions",
)
async def change_password(request: Request, plane: Plane, caller: Caller, body: wire.PasswordChange) -> Response:
    caller.require_no_key()
    passwords: Passwords = request.app.state.passwords
    attempt = SignInAttempt(request, plane, caller.kind, normal_email(caller.name))

    def look(connection: Connection) -> store.UserRow | None:
        attempt.check(connection)
        return store.user(connection, caller.id)

    user = await plane.read(look)
    if user is not None and user.password_hash == NO_PASSWORD:
        _check_owner(caller)
    elif user is None or not await attempt.fits(passwords, user.password_hash, body.current_password):
        await attempt.failed()
        wrong = refused(403, "access.wrong_password", "the current password is wrong", "try again", "currentPassword")
        wrong.is_denial = True
        raise wrong
    await plane.write(attempt.succeeded)
    if body.new_password in (body.current_password, FIRST_PASSWORD):
        what = "the new password is the same as the current one, or is the default of earlier releases"
        raise refused(422, "access.same_password", what, "choose another password", "newPassword")
    await plane.read(
        lambda connection: preferences.check_password(
            plane.settings, connection, body.new_password, "newPassword", caller.name
        )
    )
    hashed = await passwords.hash(body.new_password)

    def unit(connection: Connection) -> ActionResult:
        keep, now_is = store.token(connection, caller.token_hash), store.user(connection, caller.id)
        if keep is None or now_is is None or now_is.password_hash != user.password_hash:
            raise unauthenticated("the session ended or the password changed during this request")
        store.set_password(connection, caller.id, hashed, must_change=False)
        store.revoke_others(connection, keep)
        return ActionResult(action="reset-password", entity_type="user", entity_id=caller.id, entity_name=caller.name)

    return await plane.perform(request, caller, unit)


def _check_owner(caller: Caller) -> None:
    """Only the machine's own user may set the first password of an account: a token may be stolen."""
    if caller.uid is None:
        what = f"{caller.name} has no password, so it can only be set on the server's machine"
        fix = "run `runai password` there as the user who started the platform, or `fairpool reset-password`"
        raise refused(403, "access.no_password", what, fix)


@routes.post(
    "/api/v1/me/logout",
    action=Action.SELF,
    with_initial_password=True,
    status=204,
    summary="Sign out and revoke the tokens of this session",
)
async def sign_out(request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        store.revoke_family(connection, caller.family)
        return ActionResult(action="sign-out", entity_type="user", entity_id=caller.id, entity_name=caller.name)

    return await plane.perform(request, caller, unit)

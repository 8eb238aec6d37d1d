"""Guard: whose token this is, and whether the caller has the permission that the route asks for."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection

from fairpool.api.access import SubjectType
from fairpool.control import preferences, rbac
from fairpool.control.access_key_end import key_end
from fairpool.control.browser_session import check_own_page, cookie_of
from fairpool.control.key_scope import restricted
from fairpool.control.plane import Caller, Plane, plane_of
from fairpool.control.refusal import Refused, denied, refused
from fairpool.control.routes import Route
from fairpool.control.store import access as store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization, programs
from fairpool.control.store import sessions as session_store
from fairpool.control.store.database import Connection
from fairpool.control.token_keys import KeysUnusable, TokenInvalid
from fairpool.model.ids import SECOND_MS

PEER_UID = "fairpool.peer_uid"
"""Where the server leaves the user id of a process that connects over the Unix socket in the data directory."""
API_TOKENS = frozenset({"access", "cluster"})
"""Kinds of tokens that the API accepts in `Authorization`."""
BROWSER_TOKENS = frozenset({"browser"})
"""In a cookie."""
AUDIENCE = "runai"
"""Of access tokens."""
OPAQUE = "fp"
"""Tokens that are no JWT begin with it."""
TOKEN_HASH = "fairpool.token_hash"
"""Where the host check leaves the hash of the token. The guard looks it up again, because the token may be revoked
while the body is on its way."""
TOKEN_KINDS = "fairpool.token_kinds"
"""And which kinds of tokens are accepted there."""


async def guard(connection: HTTPConnection, route: Route) -> None:
    """Refuse callers without the permission of the route. Handlers check it again for the project in question."""
    action = route.action
    if action is rbac.Action.OPEN:
        return
    digest: str | None = connection.scope.get(TOKEN_HASH)
    if digest is None:
        raise unauthenticated("no token was sent")
    caller = await known(plane_of(connection), digest, connection.scope.get(TOKEN_KINDS, API_TOKENS))
    uid: int | None = connection.scope.get(PEER_UID)
    connection.state.caller = caller if uid is None else replace(caller, uid=uid)
    if caller.kind == "cluster" or action is rbac.Action.LINK:
        if caller.kind != "cluster" or action is not rbac.Action.LINK:
            raise denied()
        return
    if caller.must_change_password and not route.with_initial_password:
        what = f"the password of {caller.name} was set by an administrator and must be changed first"
        raise refused(403, "access.password_must_change", what, "run `runai password` (API: POST /api/v1/me/password)")
    caller.require_somewhere(action)


async def identify(plane: Plane, headers: Headers, method: str, *, is_secure: bool) -> tuple[Caller, frozenset[str]]:
    """The caller of a request, by its Authorization header or its session cookie, and which of them it is."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and token:
        return await caller_with(plane, token.strip()), API_TOKENS
    cookie = cookie_of(headers, is_secure=is_secure) if "authorization" not in headers else ""
    if not cookie:
        raise unauthenticated("no token was sent")
    check_own_page(headers, method)
    return await caller_with(plane, cookie, BROWSER_TOKENS), BROWSER_TOKENS


async def caller_with(plane: Plane, token: str, kinds: frozenset[str] = API_TOKENS) -> Caller:
    """The caller who shows this token, which is thereby used."""
    digest = digest_of(token)
    await plane.confirm_callers()
    is_new = digest not in plane.callers
    caller = await known(plane, digest, kinds)
    if is_new and not token.startswith(OPAQUE):
        # No forged token has a row. But a row may be older than the keys: after a restore, or when a key was stolen.
        try:
            plane.token_keys.verified(token, AUDIENCE, plane.now())
        except (TokenInvalid, KeysUnusable) as error:
            plane.callers.forget(digest)
            raise unauthenticated(f"this token is invalid: {error}") from error
    if caller.family:
        plane.session_use.note(caller.family, plane.now())
    return caller


async def still_known(plane: Plane, caller: Caller) -> Caller:
    """The same caller as of now, for what goes on after the request: the token may be revoked, or a role."""
    return await known(plane, caller.token_hash, frozenset({caller.token_kind}))


async def known(plane: Plane, digest: str, kinds: frozenset[str] = API_TOKENS) -> Caller:
    """The caller whose token has this hash, and is of one of these kinds."""
    await plane.confirm_callers()
    caller = plane.callers.get(digest)
    if caller is None or is_over(plane, caller):  # another process may have seen it used, or made it last longer
        changes = plane.callers.changes
        caller = await plane.read(lambda connection: _caller(connection, plane, digest))
        if caller is None or caller.token_kind not in kinds:
            plane.callers.forget(digest)
            raise unauthenticated("this token is invalid or was revoked")
        plane.callers.keep(digest, caller, changes)
    if caller.token_kind not in kinds:
        raise unauthenticated("this token is invalid or was revoked")
    if has_expired(plane, caller):
        plane.callers.forget(digest)
        raise unauthenticated("this token has expired")
    if is_idle(plane, caller):
        raise unauthenticated("this session was not used for too long")
    return caller


def is_over(plane: Plane, caller: Caller) -> bool:
    """Whether the session has ended by itself, as far as this process knows."""
    return has_expired(plane, caller) or is_idle(plane, caller)


def has_expired(plane: Plane, caller: Caller) -> bool:
    return caller.expires_at is not None and caller.expires_at <= plane.now()


def is_idle(plane: Plane, caller: Caller) -> bool:
    """Whether the session was unused for too long, as far as this process knows."""
    if not caller.idle_ms:
        return False
    return max(caller.used_at, plane.session_use.latest(caller.family)) + caller.idle_ms <= plane.now()


def digest_of(token: str) -> str:
    """Tokens are random and long, so a fast hash is enough; the database stores no token."""
    return hashlib.sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def unauthenticated(what: str) -> Refused:
    refusal = refused(401, "access.not_signed_in", what, "sign in with `runai login` (API: POST /api/v1/token)")
    refusal.headers["WWW-Authenticate"] = "Bearer"
    return refusal


def _caller(connection: Connection, plane: Plane, digest: str) -> Caller | None:
    row = store.token(connection, digest)
    if row is None:
        return None
    if row.subject_type is None:
        cluster = cluster_store.cluster(connection, row.subject_id)
        return cluster and Caller(
            id=cluster.id, name=cluster.name, kind="cluster", token_hash=digest, token_kind=row.kind
        )
    session = session_store.one(connection, row.family)
    caller = Caller(
        id=row.subject_id,
        name="",
        kind=row.subject_type.value,
        grants=store.grants(connection, row.subject_id, row.subject_type),
        token_hash=digest,
        token_kind=row.kind,
        family=row.family,
        expires_at=row.expires_at,
        idle_ms=idle_limit_ms(connection, plane, session),
        used_at=session.used_at if session is not None else 0,
    )
    if row.subject_type is not SubjectType.USER:
        app = store.application(connection, row.subject_id)
        if app is None or not app.enabled:
            return None
        caller = replace(caller, name=app.name)
    else:
        user = store.user(connection, row.subject_id)
        if user is None or user.disabled:
            return None
        caller = replace(caller, name=user.email, must_change_password=user.must_change or user.first_password)
    if session is None or session.access_key is None:
        return caller
    return _with_key(connection, plane, caller, session.access_key)


def _with_key(connection: Connection, plane: Plane, caller: Caller, key_id: str) -> Caller | None:
    """The caller within the scope of an access key; None: it was deleted or has expired."""
    key = programs.key(connection, key_id)
    if key is None:
        return None
    end = key_end(connection, plane.settings, key)
    if end is not None and end <= plane.now():
        return None
    ends = [each for each in (caller.expires_at, end) if each is not None]
    scope = json.loads(key.scope) if key.scope else {}
    projects = None if scope.get("projects") is None else _places(connection, scope["projects"])
    return replace(
        caller,
        access_key=key_id,
        owner_grants=caller.grants,
        grants=restricted(caller.grants, scope.get("actions"), projects),
        expires_at=min(ends, default=None),
    )


def _places(connection: Connection, projects: list[str]) -> list[rbac.Scope]:
    """The projects that exist now, with department and cluster."""
    rows = (organization.project(connection, name) for name in projects)
    return [rbac.Scope(row.name, row.department, row.cluster) for row in rows if row is not None]


def idle_limit_ms(connection: Connection, plane: Plane, session: Any) -> int:
    """How long a session may be unused; 0: for ever."""
    if session is None:
        return 0
    if session.kind == session_store.BROWSER:
        return preferences.current_value(plane.settings, connection, preferences.BROWSER_IDLE) * 60 * SECOND_MS
    return preferences.current_value(plane.settings, connection, preferences.SESSION_IDLE) * SECOND_MS

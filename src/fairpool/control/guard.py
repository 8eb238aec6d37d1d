"""Guard: whose token this is, and whether the caller has the permission that the route asks for."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from starlette.requests import HTTPConnection

from fairpool.api.access import SubjectType
from fairpool.control import rbac
from fairpool.control.plane import Caller, Plane, plane_of
from fairpool.control.refusal import Refused, denied, refused
from fairpool.control.routes import Route
from fairpool.control.store import access as store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store.database import Connection

PEER_UID = "fairpool.peer_uid"
"""Where the server leaves the user id of a process that connects over the Unix socket in the data directory."""
API_TOKENS = frozenset({"access", "cluster"})
"""Kinds of tokens that the API accepts."""
TOKEN_HASH = "fairpool.token_hash"
"""Where the host check leaves the hash of the token. The guard looks it up again, because the token may be revoked
while the body is on its way."""


async def guard(connection: HTTPConnection, route: Route) -> None:
    """Refuse callers without the permission of the route. Handlers check it again for the project in question."""
    action = route.action
    if action is rbac.Action.OPEN:
        return
    digest: str | None = connection.scope.get(TOKEN_HASH)
    if digest is None:
        raise unauthenticated("no token was sent")
    caller = await known(plane_of(connection), digest)
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


async def identify(plane: Plane, authorization: str | None) -> Caller:
    """The caller of an Authorization header."""
    scheme, _, token = (authorization or "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise unauthenticated("no token was sent")
    return await known(plane, digest_of(token.strip()))


async def known(plane: Plane, digest: str, kinds: frozenset[str] = API_TOKENS) -> Caller:
    """The caller whose token has this hash, and is of one of these kinds."""
    key = digest if kinds is API_TOKENS else f"{min(kinds)} {digest}"
    caller = plane.callers.get(key)
    if caller is None:
        caller = await plane.read(lambda connection: _caller(connection, digest, kinds))
        if caller is None:
            raise unauthenticated("this token is invalid or was revoked")
        plane.callers[key] = caller
    if caller.expires_at is not None and caller.expires_at <= plane.now():
        plane.callers.pop(key, None)
        raise unauthenticated("this token has expired")
    return caller


def digest_of(token: str) -> str:
    """Tokens are random and long, so a fast hash is enough; the database stores no token."""
    return hashlib.sha256(token.encode("utf-8", "backslashreplace")).hexdigest()


def unauthenticated(what: str) -> Refused:
    refusal = refused(401, "access.not_signed_in", what, "sign in with `runai login` (API: POST /api/v1/token)")
    refusal.headers["WWW-Authenticate"] = "Bearer"
    return refusal


def _caller(connection: Connection, digest: str, kinds: frozenset[str]) -> Caller | None:
    row = store.token(connection, digest)
    if row is None or row.kind not in kinds:
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
    if row.subject_type is SubjectType.APP:
        app = store.application(connection, row.subject_id)
        return app and replace(caller, name=app.name)
    user = store.user(connection, row.subject_id)
    if user is None or user.disabled:
        return None
    return replace(caller, name=user.email, must_change_password=user.must_change or user.first_password)

"""Tokens of an authenticated caller: signed access tokens, refresh tokens, and the session that they belong to.

An access token is a JWT, because clients look into it and other programs can verify it with the published keys. For
this server the row with its hash is the authority: without the row, the best signature opens nothing.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from starlette.requests import HTTPConnection

from fairpool.api.access import SubjectType, TokenAnswer
from fairpool.api.sessions import KubernetesToken, SignInMethod
from fairpool.control import preferences
from fairpool.control.guard import AUDIENCE, PEER_UID, digest_of
from fairpool.control.moments import iso
from fairpool.control.plane import Caller, Plane
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import access as store
from fairpool.control.store import sessions as session_store
from fairpool.control.store.database import Connection
from fairpool.control.token_keys import ID, KeysUnusable
from fairpool.model.ids import SECOND_MS, Instant

CLIENT_MAX = 128
GROUPS_MAX_BYTES = 3000
"""Of the names of groups in a token: a token must be shorter than `token_keys.TOKEN_MAX`."""
KUBERNETES_AUDIENCE = "fairpool-kubernetes:"
"""Followed by the id of a cluster: the audience of ID tokens for its API server."""
KUBERNETES_TOKEN_S = 600
"""API servers do not ask whether a session has ended: so the token ends soon."""
BROWSER_TOKEN = "browser"
"""Kind of the token in a browser's cookie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInOrigin:
    """How and where a session began: shown in the list of sessions."""

    method: SignInMethod | None
    """None: a session of an earlier version, whose tokens are renewed."""
    address: str = ""
    client: str = ""
    """As the program calls itself."""
    access_key: str | None = None
    """The access key that was used to sign in."""


def origin_of(connection: HTTPConnection, method: SignInMethod | None, access_key: str | None = None) -> SignInOrigin:
    """Where a request comes from, which signs in by this method."""
    agent = "".join(each for each in connection.headers.get("user-agent", "") if each.isprintable())
    return SignInOrigin(method=method, address=address_of(connection), client=agent[:CLIENT_MAX], access_key=access_key)


def address_of(connection: HTTPConnection) -> str:
    """The address of the client, or the user id of a process on this machine."""
    uid: int | None = connection.scope.get(PEER_UID)
    if uid is not None:
        return f"uid {uid}"
    return connection.client.host[:64] if connection.client else ""


def new_tokens(
    connection: Connection,
    plane: Plane,
    caller: Caller,
    family: str,
    origin: SignInOrigin,
    ends_at: int | None = None,
    *,
    is_renewable: bool = True,
) -> TokenAnswer:
    """An access token for an authenticated caller, and a refresh token unless told otherwise. A family that is not
    known begins a session, which ends at `ends_at` at the latest.

    Raises `Refused` if the session has reached its time limit, or tokens cannot be signed now.
    """
    now = plane.now()
    limit = _session_limit(connection, plane, caller, family, origin, session_store.TOKEN, ends_at)
    lifetimes_s = [
        preferences.current_value(plane.settings, connection, key)
        for key in (preferences.ACCESS_TOKEN, preferences.REFRESH_TOKEN)
    ]
    until, renewable = (_earlier(now + each * SECOND_MS, limit) for each in lifetimes_s)
    try:
        claims = _claims(connection, plane, caller, family, now, until)
        token, identity = plane.token_keys.signed(claims, now), plane.token_keys.signed(claims, now, ID)
    except KeysUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    _add(connection, token, store.ACCESS, caller, family, now, until)
    refresh = "fpr_" + secrets.token_urlsafe(32) if is_renewable else None
    if refresh is not None:
        _add(connection, refresh, "refresh", caller, family, now, renewable)
    expires_in = (until - now) // SECOND_MS
    return TokenAnswer(access_token=token, id_token=identity, refresh_token=refresh, expires_in=expires_in)


def new_kubernetes_token(connection: Connection, plane: Plane, caller: Caller, cluster_id: str) -> KubernetesToken:
    """An ID token of a user for the API server of a cluster. It is stored nowhere and opens nothing here.

    Raises `Refused` if tokens cannot be signed now.
    """
    now, audience = plane.now(), f"{KUBERNETES_AUDIENCE}{cluster_id}"
    until = _earlier(now + KUBERNETES_TOKEN_S * SECOND_MS, caller.expires_at)
    claims = _claims(connection, plane, caller, caller.family, now, until) | {"aud": audience, "client_id": audience}
    try:
        token = plane.token_keys.signed(claims, now, ID)
    except KeysUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error
    return KubernetesToken(token=token, audience=audience, expires_at=iso(Instant(until)))


def new_browser_token(
    connection: Connection,
    plane: Plane,
    caller: Caller,
    origin: SignInOrigin,
    family: str | None = None,
    lifetime: str = preferences.REFRESH_TOKEN,
    ends_at: int | None = None,
) -> str:
    """The value of a browser's session cookie, for a new session. It is no bearer token. `lifetime`: the setting that
    says how long it is valid; `ends_at`: when the session ends at the latest."""
    now, family = plane.now(), family or str(uuid.uuid4())
    limit = _session_limit(connection, plane, caller, family, origin, session_store.BROWSER, ends_at)
    lifetime_s = preferences.current_value(plane.settings, connection, lifetime)
    token = "fpb_" + secrets.token_urlsafe(32)
    _add(connection, token, BROWSER_TOKEN, caller, family, now, _earlier(now + lifetime_s * SECOND_MS, limit))
    return token


def _session_limit(
    connection: Connection,
    plane: Plane,
    caller: Caller,
    family: str,
    origin: SignInOrigin,
    kind: str,
    ends_at: int | None = None,
) -> int | None:
    """When the session ends at the latest; a new one is recorded."""
    now, known = plane.now(), session_store.one(connection, family)
    if known is not None:
        if known.expires_at is not None and known.expires_at <= now:
            raise session_over()
        session_store.note_use(connection, {family: now})
        return None if known.expires_at is None else int(known.expires_at)
    most_s = preferences.current_value(plane.settings, connection, preferences.SESSION_MAX)
    limit = _earlier(now + most_s * SECOND_MS, ends_at) if most_s else ends_at
    session_store.add(
        connection,
        {
            "id": family,
            "subject_id": caller.id,
            "subject_type": caller.kind,
            "kind": kind,
            "method": origin.method or "",
            "client": origin.client,
            "source_ip": origin.address,
            "access_key": origin.access_key,
            "created_at": now,
            "used_at": now,
            "expires_at": limit,
        },
    )
    if caller.kind == SubjectType.USER and origin.access_key is None:
        store.note_login(connection, caller.id, now)
    return limit


def session_over() -> Refused:
    what = "this session has reached its time limit"
    return refused(401, "access.not_signed_in", what, "sign in with `runai login` (API: POST /api/v1/token)")


def _add(connection: Connection, token: str, kind: str, caller: Caller, family: str, now: Instant, end: int) -> None:
    store.add_token(
        connection,
        digest_of(token),
        family=family,
        kind=kind,
        subject_id=caller.id,
        subject_type=caller.kind,
        now=now,
        expires_at=end,
    )


def _claims(
    connection: Connection, plane: Plane, caller: Caller, family: str, now: Instant, until: int
) -> dict[str, Any]:
    claims: dict[str, Any] = {
        "iss": plane.settings.issuer,
        "aud": AUDIENCE,
        "sub": caller.id,
        "preferred_username": caller.name,
        "iat": now // SECOND_MS,
        "exp": until // SECOND_MS,
        "jti": str(uuid.uuid4()),
        "sid": family,
        "client_id": caller.id if caller.kind != SubjectType.USER else AUDIENCE,
    }
    if caller.kind != SubjectType.USER:
        return claims
    return claims | {"email": caller.name, "groups": _first_groups(store.groups(connection, caller.id))}


def _first_groups(names: Sequence[str]) -> list[str]:
    """As many as there is room for in a header of a request. Only other programs read them: our own permissions follow
    from what is stored."""
    room, found = GROUPS_MAX_BYTES, []
    for each in names:
        if each.startswith("system:"):  # Kubernetes has meanings of its own for these, such as all rights
            continue
        room -= len(json.dumps(each)) + 1
        if room < 0:
            break
        found.append(each)
    return found


def _earlier(moment: int, limit: int | None) -> int:
    return moment if limit is None else min(moment, limit)

"""Sessions of people who signed in at an identity provider: they last as long as the provider says so.

Whenever such a session renews its token, the provider is asked first, with the refresh token that it gave us. So groups
that changed there hold from then on, and an account that was disabled or removed there is out. A provider that cannot
be reached renews nothing: the caller may try again, and until then has the token of before.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from fairpool.control.exclusive import alone
from fairpool.control.guard import unauthenticated
from fairpool.control.plane import Plane
from fairpool.control.provider_accounts import changes_noted, remember
from fairpool.control.provider_client import ProviderClient
from fairpool.control.provider_error import ProviderError, SessionEnded
from fairpool.control.provider_identity import ProviderIdentity, UnixIdentity, identity_of
from fairpool.control.provider_settings import provider_settings, readable_key
from fairpool.control.refusal import Refused, refused
from fairpool.control.sealing import SealingKey
from fairpool.control.store import access as access_store
from fairpool.control.store import identity_providers as store
from fairpool.control.store.database import Connection
from fairpool.model.problem import Problem

REFRESH = "refresh"
TOKEN = "refreshToken"


def begin_session(
    connection: Connection,
    plane: Plane,
    key: SealingKey | None,
    alias: str,
    identity: ProviderIdentity,
    user_id: str,
    family: str,
    *,
    sid: str = "",
    refresh_token: str = "",
) -> None:
    """Remember that this family of tokens came of a sign-in at a provider."""
    session = str(uuid.uuid4())
    sealed = key.seal({TOKEN: refresh_token.encode()}, session) if key is not None and refresh_token else ""
    store.drop_ended(connection)
    store.add_session(
        connection,
        session,
        provider=alias,
        subject=identity.subject,
        sid=sid[:256],
        user_id=user_id,
        sealed=sealed,
        key_id=key.id if key is not None else "",
        created_at=plane.now(),
    )
    store.add_family(connection, session, family)


def end_sessions(connection: Connection, sessions: Sequence[str]) -> None:
    """With all their tokens."""
    for each in sessions:
        for family in store.families(connection, each):
            access_store.revoke_family(connection, family)
        store.delete_session(connection, each)


async def renew(request: Request, plane: Plane, digest: str) -> None:
    """Ask the provider whether the session of this refresh token goes on, and what it says by now. Raises `Refused`.

    Nothing is asked for a token that is not valid, or was not made by a sign-in at a provider.
    """

    def unit(connection: Connection) -> Any:
        row = access_store.token(connection, digest)
        is_valid = row is not None and row.kind == REFRESH and (row.expires_at or 0) > plane.now()
        return store.session_of(connection, row.family) if row is not None and is_valid else None

    session = await plane.read(unit)
    if session is not None:
        # A provider may take each refresh token once, and two commands may renew at the same time.
        async with alone(plane, f"session {session.id}"):
            await _renew(request, plane, session.id)


async def _renew(request: Request, plane: Plane, session_id: str) -> None:
    session, row, known = await plane.read(lambda connection: _session(connection, session_id))
    if session is None or row is None:
        raise unauthenticated("this session has ended")
    try:
        provider = provider_settings(plane, row)
        refresh_token = _unsealed(plane, session)
        if provider.oidc is None or not refresh_token:
            raise SessionEnded(f"sessions of {row.alias} are not renewed", "sign in again")
        client: ProviderClient = request.app.state.provider_client
        tokens = await client.renewed(plane, provider.oidc, refresh_token)
        wanted = provider.wanted_claims
        claims = await client.claims(plane, provider.oidc, tokens, wanted, subject=session.subject)
        identity = identity_of(session.subject, claims, provider.mappers, provider.mandatory_claim, known)
    except SessionEnded as error:
        await _end(plane, session_id)
        raise unauthenticated(f"{error.problem.what}") from error
    except ProviderError as error:
        raise _not_now(error.problem) from error
    if isinstance(identity, Problem):
        await _end(plane, session_id)
        raise unauthenticated(identity.what)
    follows = str(tokens.get("refresh_token") or refresh_token)
    await plane.write(lambda connection: _record(connection, request, plane, session, identity, follows))


def _session(connection: Connection, session_id: str) -> tuple[Any, Any, UnixIdentity]:
    """With its provider, and the numbers that this gave the account."""
    session = store.session(connection, session_id)
    if session is None:
        return None, None, UnixIdentity()
    account = store.account(connection, session.provider, session.subject)
    known = UnixIdentity.from_text(account.unix_identity) if account is not None else UnixIdentity()
    return session, store.provider(connection, session.provider), known


def _record(
    connection: Connection, request: Request, plane: Plane, session: Any, identity: ProviderIdentity, token: str
) -> None:
    key = plane.key_file.key()
    store.seal_session(connection, session.id, key.seal({TOKEN: token.encode()}, session.id), key.id)
    with changes_noted(connection, request, plane, session.provider, identity.subject):
        remember(connection, plane, session.provider, identity, session.user_id)


async def _end(plane: Plane, session_id: str) -> None:
    await plane.write(lambda connection: end_sessions(connection, [session_id]))


def _unsealed(plane: Plane, session: Any) -> str:
    if not session.sealed:
        return ""
    key = readable_key(plane)
    values = key.unseal(session.sealed, session.id) if key is not None else None
    return values[TOKEN].decode() if values is not None else ""


def _not_now(problem: Problem) -> Refused:
    what = f"the identity provider could not be asked whether your session goes on: {problem.what}"
    return refused(503, "idp.unavailable", what, "try again in a moment")

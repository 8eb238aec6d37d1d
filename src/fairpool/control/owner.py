"""Sign-in of the platform's owner without a password: a session for `runai`, and one-time links for a browser.

Both are requested over the admin socket in the data directory, which only that user can open. A link works once, for
ten minutes. Only hashes of links are stored.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from fairpool.api.access import TokenAnswer
from fairpool.api.sessions import SignInMethod
from fairpool.control import users
from fairpool.control.guard import digest_of
from fairpool.control.plane import Caller, Plane
from fairpool.control.store import access as store
from fairpool.control.store import audit as audit_store
from fairpool.control.store import sign_in_tickets as tickets
from fairpool.control.store.database import Connection
from fairpool.control.tokens import SignInOrigin, new_tokens
from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.problem import Problem

LINK_MS = 10 * 60 * SECOND_MS
LINK = "owner-link"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnerSession:
    """The owner, signed in."""

    user: str
    must_change_password: bool
    tokens: TokenAnswer | None
    """None: the caller's tokens are still valid."""


async def owner_session(plane: Plane, holding: Sequence[str] = ()) -> OwnerSession | Problem:
    """Tokens for the owner's `runai`. `holding` are the tokens that it has: if they are still valid, it keeps them."""

    def unit(connection: Connection) -> OwnerSession | Problem:
        now = plane.now()
        rows = [store.token(connection, digest_of(each)) for each in holding if each]
        good = [row for row in rows if row is not None and row.kind != store.SPENT and (row.expires_at or 0) > now]
        user = store.user(connection, good[0].subject_id) if good else None
        if user is not None:
            return OwnerSession(user=user.email, must_change_password=_must_change(user), tokens=None)
        user = users.owner(connection, plane.settings.first_user)
        if user is None:
            return Problem("user.no_administrator", "there is no administrator account", "restore a backup")
        caller, origin = Caller(id=user.id, name=user.email, kind="user"), SignInOrigin(method=SignInMethod.OWNER)
        tokens = new_tokens(connection, plane, caller, str(uuid.uuid4()), origin)
        audit_store.add(connection, signed_in_here(user, now))
        return OwnerSession(user=user.email, must_change_password=_must_change(user), tokens=tokens)

    return await plane.write(unit)


async def owner_token(plane: Plane) -> str:
    """A token of the owner, for programs that serve the control plane themselves."""
    session = await owner_session(plane)
    assert isinstance(session, OwnerSession)
    assert session.tokens is not None
    return session.tokens.access_token


def _must_change(user: store.UserRow) -> bool:
    return user.must_change or user.first_password


def signed_in_here(user: store.UserRow, now: Instant) -> dict[str, object]:
    """A line of the audit log: the owner signed in over the admin socket."""
    return audit_store.without_request(now, (user.email, "User"), "sign-in", ("user", user.email, user.id))


async def new_link(plane: Plane) -> str | Problem:
    """The path of a one-time link that signs the owner in to the web UI."""
    code = "fpl" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> str | Problem:
        user = users.owner(connection, plane.settings.first_user)
        if user is None:
            return Problem("user.no_administrator", "there is no administrator account", "restore a backup")
        tickets.drop_expired(connection, plane.now())
        tickets.add(connection, digest_of(code), LINK, {"user": user.id}, plane.now() + LINK_MS)
        return f"/sign-in?code={code}"

    return await plane.write(unit)


def redeem_link(connection: Connection, code: str, now: Instant) -> str | None:
    """The user that a link signs in; None: unknown, already used, or expired."""
    link = tickets.take(connection, digest_of(code), LINK, now)
    return str(link["user"]) if link is not None else None

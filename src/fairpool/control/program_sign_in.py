"""Whose secret it is: an application's, a service account's, or that of a user's access key."""

from __future__ import annotations

import hmac
from typing import Any

from fairpool.control.access_key_end import confirmed_until
from fairpool.control.guard import digest_of
from fairpool.control.plane import Caller
from fairpool.control.refusal import Refused, refused
from fairpool.control.settings import Settings
from fairpool.control.store import access as access_store
from fairpool.control.store import programs as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant

NO_SECRET = "0" * 64


def program_with(
    connection: Connection, settings: Settings, client_id: str, secret: str, now: Instant
) -> tuple[Caller, str | None] | Refused:
    """The caller with this id and secret, and the access key if it is one; notes the sign-in.

    What is wrong besides the secret is told to those alone who have it.
    """
    row = store.one(connection, client_id) or store.key(connection, client_id)
    if not _fits(row, digest_of(secret), now):
        return refused(401, "access.wrong_secret", "wrong client ID or secret", "if it is lost, create a new one")
    if "owner" not in row._fields:
        if not row.enabled:
            return refused(401, "access.disabled", f"{row.name} is disabled", "ask an administrator to enable it")
        store.note_login(connection, row, now)
        return Caller(id=row.id, name=row.name, kind=row.kind), None
    owner = _owner(connection, row.owner)
    if owner is None:
        return refused(401, "access.disabled", "the owner of this access key is disabled", "ask an administrator")
    if row.expires_at is not None and row.expires_at <= now:
        return refused(401, "access-key.expired", f"access key {row.name} has expired", "create another one")
    until = confirmed_until(connection, settings, row.owner)
    if until is not None and until <= now:
        what = f"the identity provider of {owner.name} has not confirmed the account for too long"
        return refused(401, "access-key.unconfirmed", what, "sign in once with `runai login`, then use the key again")
    store.note_login(connection, row, now)
    return owner, row.id


def _owner(connection: Connection, owner_id: str) -> Caller | None:
    """The user or program that an access key belongs to; None: it may not sign in."""
    user = access_store.user(connection, owner_id)
    if user is not None:
        return None if user.disabled else Caller(id=user.id, name=user.email, kind="user")
    app = access_store.application(connection, owner_id)
    return Caller(id=app.id, name=app.name, kind=app.kind) if app is not None and app.enabled else None


def _fits(row: Any, digest: str, now: Instant) -> bool:
    """Compares as much for an unknown id as for a known one."""
    present = row.secret_hash if row is not None else NO_SECRET
    former = row.former_secret_hash if row is not None and (row.former_until or 0) > now else None
    fits = hmac.compare_digest(present, digest)
    return fits | hmac.compare_digest(former or NO_SECRET, digest) and row is not None

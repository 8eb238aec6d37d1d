"""SQL for sessions: what came of one sign-in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, insert, or_, select, update

from fairpool.control.store.access_revision import same_callers
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import sessions, tokens
from fairpool.model.ids import Instant

BROWSER, TOKEN = "browser", "token"
"""Kinds: a cookie of a browser, or tokens of a command or program."""

_ONE = Compiled(select(sessions).where(sessions.c.id == bindparam("id")))


def one(connection: Connection, session_id: str) -> Any:
    """A session as its row; None: it ended."""
    return _ONE.one(connection, {"id": session_id})


def add(connection: Connection, row: Mapping[str, Any]) -> None:
    connection.execute(insert(sessions).values(**row))


def note_use(connection: Connection, used: Mapping[str, Instant]) -> None:
    """When sessions were last used."""
    for family, seen in used.items():
        used_later = update(sessions).where(sessions.c.id == family, sessions.c.used_at < seen).values(used_at=seen)
        connection.execute(same_callers(used_later))


def of_subject(connection: Connection, subject_id: str | None, offset: int = 0, limit: int = 10_000) -> list[Any]:
    """Sessions of a user or program, or of all of them; the latest first. Only those that have a token left."""
    query = select(sessions).where(exists().where(tokens.c.family == sessions.c.id))
    if subject_id is not None:
        query = query.where(sessions.c.subject_id == subject_id)
    query = query.order_by(sessions.c.created_at.desc(), sessions.c.id).offset(offset).limit(limit)
    return list(connection.execute(query))


def of_access_key(connection: Connection, key_id: str) -> list[str]:
    return list(connection.execute(select(sessions.c.id).where(sessions.c.access_key == key_id)).scalars())


def drop_ended(connection: Connection, now: Instant, most: int) -> int:
    """Forget sessions that have no token left; says how many went."""
    left = exists().where(
        tokens.c.family == sessions.c.id, or_(tokens.c.expires_at.is_(None), tokens.c.expires_at > now)
    )
    old = select(sessions.c.id).where(~left).limit(most)
    return connection.execute(same_callers(delete(sessions).where(sessions.c.id.in_(old)))).rowcount


def latest_expiry(connection: Connection, now: Instant) -> int:
    """When the last access token that is valid now expires."""
    found = connection.execute(select(func.max(tokens.c.expires_at)).where(tokens.c.kind == "access")).scalar_one()
    return max(int(found or 0), now)

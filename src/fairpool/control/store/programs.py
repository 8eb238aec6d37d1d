"""SQL for accounts of programs and access keys of users."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from fairpool.control.store.access_revision import same_callers
from fairpool.control.store.tables import access_keys, applications
from fairpool.model.ids import Instant


def of_kind(connection: Connection, kind: str, offset: int, limit: int) -> list[Any]:
    """Applications or service accounts, by name."""
    query = select(applications).where(applications.c.kind == kind).order_by(applications.c.name)
    return list(connection.execute(query.offset(offset).limit(limit)))


def one(connection: Connection, program: str, kind: str | None = None) -> Any:
    """By id or name; None: there is none."""
    for column in (applications.c.id, applications.c.name):
        query = select(applications).where(column == program)
        if kind is not None:
            query = query.where(applications.c.kind == kind)
        found = connection.execute(query).one_or_none()
        if found is not None:
            return found
    return None


def add(connection: Connection, **values: Any) -> None:
    connection.execute(insert(applications).values(**values))


def change(connection: Connection, program_id: str, **values: Any) -> None:
    connection.execute(update(applications).where(applications.c.id == program_id).values(**values))


# --- access keys ---


def key(connection: Connection, key_id: str) -> Any:
    """None: it was deleted."""
    return connection.execute(select(access_keys).where(access_keys.c.id == key_id)).one_or_none()


def keys(connection: Connection, owner: str | None = None, key_id: str | None = None) -> list[Any]:
    """By name; of one user, or of all."""
    query = select(access_keys).order_by(access_keys.c.name, access_keys.c.id)
    if owner is not None:
        query = query.where(access_keys.c.owner == owner)
    if key_id is not None:
        query = query.where(access_keys.c.id == key_id)
    return list(connection.execute(query))


def key_count(connection: Connection, owner: str) -> int:
    query = select(func.count()).select_from(access_keys).where(access_keys.c.owner == owner)
    return int(connection.execute(query).scalar_one())


def key_named(connection: Connection, owner: str, name: str) -> Any:
    query = select(access_keys).where(access_keys.c.owner == owner, access_keys.c.name == name)
    return connection.execute(query).one_or_none()


def add_key(connection: Connection, **values: Any) -> None:
    connection.execute(insert(access_keys).values(**values))


def change_key(connection: Connection, key_id: str, **values: Any) -> None:
    connection.execute(update(access_keys).where(access_keys.c.id == key_id).values(**values))


def delete_key(connection: Connection, key_id: str) -> None:
    connection.execute(delete(access_keys).where(access_keys.c.id == key_id))


def note_login(connection: Connection, row: Any, now: Instant) -> None:
    """Of a program or an access key."""
    table = access_keys if "owner" in row._fields else applications
    connection.execute(same_callers(update(table).where(table.c.id == row.id).values(last_login_at=now)))

"""SQL for settings that were changed."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, bindparam, delete, insert, select

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import preferences
from fairpool.model.ids import Instant

_ONE = Compiled(select(preferences).where(preferences.c.key == bindparam("key")))


def one(connection: Connection, key: str) -> Any:
    """A setting as its row; None: it was never changed."""
    return _ONE.one(connection, {"key": key})


def put(connection: Connection, key: str, value: str, now: Instant, by: str, revision: int) -> None:
    connection.execute(delete(preferences).where(preferences.c.key == key))
    row = {"key": key, "value": value, "updated_at": now, "updated_by": by, "revision": revision}
    connection.execute(insert(preferences).values(**row))


def remove(connection: Connection, key: str) -> None:
    connection.execute(delete(preferences).where(preferences.c.key == key))

"""SQL for what users chose in the web UI."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from fairpool.control.store.tables import page_preferences
from fairpool.model.ids import Instant


def of_user(connection: Connection, user_id: str) -> str:
    """A JSON object; empty: nothing was chosen."""
    query = select(page_preferences.c.document).where(page_preferences.c.user_id == user_id)
    return connection.execute(query).scalar_one_or_none() or ""


def put(connection: Connection, user_id: str, document: str, now: Instant) -> None:
    remove(connection, user_id)
    connection.execute(insert(page_preferences).values(user_id=user_id, document=document, updated_at=now))


def remove(connection: Connection, user_id: str) -> None:
    connection.execute(delete(page_preferences).where(page_preferences.c.user_id == user_id))

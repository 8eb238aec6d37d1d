"""SQL for what is on its way while a person signs in: values that are used once, and expire."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from fairpool.control.store.tables import sign_in_tickets
from fairpool.model.ids import Instant

Document = dict[str, Any]


def add(connection: Connection, digest: str, kind: str, document: Mapping[str, Any], expires_at: int) -> None:
    values = {"hash": digest, "kind": kind, "document": json.dumps(document), "expires_at": expires_at}
    connection.execute(insert(sign_in_tickets).values(**values))


def peek(connection: Connection, digest: str, kind: str, now: Instant) -> Document | None:
    """What it stands for, if it is still valid."""
    table = sign_in_tickets.c
    query = select(table.document).where(table.hash == digest, table.kind == kind, table.expires_at > now)
    found = connection.execute(query).scalar_one_or_none()
    return json.loads(found) if found is not None else None


def take(connection: Connection, digest: str, kind: str, now: Instant) -> Document | None:
    """The same, for the last time."""
    found = peek(connection, digest, kind, now)
    connection.execute(delete(sign_in_tickets).where(sign_in_tickets.c.hash == digest, sign_in_tickets.c.kind == kind))
    return found


def use_once(connection: Connection, digest: str, kind: str, now: Instant, expires_at: int) -> bool:
    """Remember something that may be used once until it expires; False: it was used before."""
    drop_expired(connection, now)
    if peek(connection, digest, kind, now) is not None:
        return False
    add(connection, digest, kind, {}, expires_at)
    return True


def change(connection: Connection, digest: str, document: Mapping[str, Any]) -> None:
    where = sign_in_tickets.c.hash == digest
    connection.execute(update(sign_in_tickets).where(where).values(document=json.dumps(document)))


def count(connection: Connection, kind: str) -> int:
    query = select(func.count()).select_from(sign_in_tickets).where(sign_in_tickets.c.kind == kind)
    return int(connection.execute(query).scalar_one())


def drop_expired(connection: Connection, now: Instant) -> None:
    connection.execute(delete(sign_in_tickets).where(sign_in_tickets.c.expires_at <= now))

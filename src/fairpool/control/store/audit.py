"""The audit log and the answers kept for calls that are repeated, as rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, select
from sqlalchemy.engine import Row

from fairpool.control.store.prepared import Prepared
from fairpool.control.store.tables import audit, idempotency
from fairpool.model.ids import Instant

_ADD = Prepared(insert(audit))
_KEPT = Prepared(
    select(idempotency).where(and_(idempotency.c.caller == bindparam("caller"), idempotency.c.key == bindparam("key")))
)
_KEEP = Prepared(insert(idempotency))


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer to a call that was made before."""

    fingerprint: str
    status: int
    answer: str


def add(connection: Connection, entry: dict[str, Any]) -> None:
    _ADD.run(connection, entry)


def entries(
    connection: Connection, filters: dict[str, str], start: int | None, end: int | None, offset: int, limit: int
) -> list[Row[Any]]:
    """Newest first."""
    query = select(audit).order_by(audit.c.id.desc()).offset(offset).limit(limit)
    for name, value in filters.items():
        query = query.where(audit.c[name] == value)
    if start is not None:
        query = query.where(audit.c.at >= start)
    if end is not None:
        query = query.where(audit.c.at <= end)
    return list(connection.execute(query))


def kept(connection: Connection, caller: str, key: str) -> Kept | None:
    row = _KEPT.one(connection, {"caller": caller, "key": key})
    return None if row is None else Kept(row.fingerprint, row.status, row.answer)


def keep(connection: Connection, caller: str, key: str, answer: Kept, now: Instant) -> None:
    _KEEP.run(
        connection,
        {
            "caller": caller,
            "key": key,
            "fingerprint": answer.fingerprint,
            "status": answer.status,
            "answer": answer.answer,
            "created_at": now,
        },
    )


def drop_kept(connection: Connection, before: int) -> None:
    connection.execute(delete(idempotency).where(idempotency.c.created_at < before))

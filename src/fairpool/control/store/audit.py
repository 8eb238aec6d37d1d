"""SQL for the audit log and for answers kept for repeated calls."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, select, tuple_
from sqlalchemy.engine import Row

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import audit, idempotency
from fairpool.model.ids import Instant

log = logging.getLogger("fairpool.control")

_ADD = Compiled(insert(audit))
_KEPT = Compiled(
    select(idempotency).where(and_(idempotency.c.caller == bindparam("caller"), idempotency.c.key == bindparam("key")))
)
_KEEP = Compiled(insert(idempotency))


@dataclass(frozen=True, slots=True)
class Kept:
    """The answer to a call that was made before."""

    fingerprint: str
    status: int
    answer: str


def add(connection: Connection, entry: dict[str, Any]) -> None:
    """Write a line. What was refused is in the server's log as well: wrong passwords, and denied requests."""
    _ADD.run(connection, entry)
    if entry["result"] == "Failed":
        fields = {"by": entry["subject"], "from": entry["source_ip"], "path": entry["url"]}
        log.warning(f"{entry['action']} refused", extra={"fields": fields})


def without_request(now: Instant, by: tuple[str, str], action: str, entity: tuple[str, str, str]) -> dict[str, Any]:
    """A line for what was done on the server's own machine. `by`: name and type; `entity`: type, name and id."""
    subject, subject_type = by
    entity_type, entity_name, entity_id = entity
    return {
        "at": now,
        "subject": subject,
        "subject_type": subject_type,
        "source_ip": "",
        "action": action,
        "http_method": "",
        "url": "",
        "entity_type": entity_type,
        "entity_name": entity_name,
        "entity_id": entity_id,
        "result": "Succeeded",
    }


@dataclass(frozen=True, slots=True)
class Choice:
    """Which lines: those with these values, between these moments."""

    values: dict[str, str]
    start: int | None = None
    end: int | None = None


def entries(
    connection: Connection, chosen: Choice, offset: int, limit: int, before: int | None = None
) -> list[Row[Any]]:
    """Newest first; `before`: only those that are older than this one."""
    query = select(audit).order_by(audit.c.id.desc()).offset(offset).limit(limit)
    for name, value in chosen.values.items():
        query = query.where(audit.c[name] == value)
    if chosen.start is not None:
        query = query.where(audit.c.at >= chosen.start)
    if chosen.end is not None:
        query = query.where(audit.c.at <= chosen.end)
    if before is not None:
        query = query.where(audit.c.id < before)
    return list(connection.execute(query))


def kept(connection: Connection, caller: str, key: str, since: int) -> Kept | None:
    """What this call was answered, unless that was earlier."""
    row = _KEPT.one(connection, {"caller": caller, "key": key})
    if row is None:
        return None
    if row.created_at < since:
        connection.execute(delete(idempotency).where(idempotency.c.caller == caller, idempotency.c.key == key))
        return None
    return Kept(row.fingerprint, row.status, row.answer)


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


def drop_kept(connection: Connection, before: int, most: int) -> int:
    """Forget answers that are older; says how many went."""
    key = (idempotency.c.caller, idempotency.c.key)
    old = select(*key).where(idempotency.c.created_at < before).limit(most)
    return connection.execute(delete(idempotency).where(tuple_(*key).in_(old))).rowcount


def drop_old(connection: Connection, before: int, most: int) -> int:
    """Let go of lines that are older; says how many went."""
    old = select(audit.c.id).where(audit.c.at < before).order_by(audit.c.at).limit(most)
    return connection.execute(delete(audit).where(audit.c.id.in_(old))).rowcount

"""SQL for the audit log and for answers kept for repeated calls."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    String,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    tuple_,
    update,
)
from sqlalchemy.engine import Row

from fairpool.api.audit_chain import Head, hash_of
from fairpool.control.filters import Filter
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import audit, audit_chain, audit_forwarding, idempotency
from fairpool.control.store.workload_lists import ESCAPE, IN_TEXTS, condition_on, escaped
from fairpool.model.ids import Instant

log = logging.getLogger("fairpool.control")

_ADD = Compiled(insert(audit))
_CHAIN = Compiled(select(audit_chain))
_LENGTHEN = Compiled(update(audit_chain).where(audit_chain.c.id == 1))
_AFTER = Compiled(
    select(audit).where(audit.c.id > bindparam("after")).order_by(audit.c.id).limit(bindparam("most", type_=Integer))
)
NOTHING_CHANGED = {"http_status": 0, "request_id": "", "problem": "", "changes": ""}
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
    """Write an entry behind the last one, whose hash it covers: no other transaction writes meanwhile. What was refused
    is in the server's log as well: wrong passwords, and denied requests."""
    chain = _CHAIN.one(connection)
    line = {**NOTHING_CHANGED, **{name: _storable(value) for name, value in entry.items()}, "id": chain.last_id + 1}
    line["hash"] = hash_of(line, chain.last_hash)
    _ADD.run(connection, line)
    _LENGTHEN.run(connection, {"last_id": line["id"], "last_hash": line["hash"]})
    if entry["result"] == "Failed":
        fields = {"by": entry["subject"], "from": entry["source_ip"], "path": entry["url"]}
        log.warning(f"{entry['action']} refused", extra={"fields": fields})


def _storable(value: Any) -> Any:
    """A text that every database takes: a name that was tried at sign-in may be anything."""
    if not isinstance(value, str) or (value.isascii() and "\0" not in value):
        return value
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def chain_ends(connection: Connection) -> tuple[Head, Head]:
    """The anchor before the first entry of the chain that is there, and the last entry."""
    chain = _CHAIN.one(connection)
    return Head(chain.anchor_id, chain.anchor_hash), Head(chain.last_id, chain.last_hash)


def following(connection: Connection, after: int, most: int) -> list[Any]:
    """Entries after one, the oldest first."""
    return _AFTER.rows(connection, {"after": after, "most": most})


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


COLUMNS: dict[str, ColumnElement[Any]] = {
    **{
        name: audit.c[name]
        for name in ("id", "subject", "subject_type", "source_ip", "action", "http_method", "url", "entity_type")
    },
    **{name: audit.c[name] for name in ("entity_name", "entity_id", "result", "request_id")},
    "http_status_code": audit.c.http_status,
    "timestamp": audit.c.at,
}
"""What the log can be filtered and sorted by, in the words of the wire."""
SEARCHED = (audit.c.subject, audit.c.entity_name, audit.c.entity_id, audit.c.url)


@dataclass(frozen=True, slots=True)
class Choice:
    """Which entries: those with these values, between these moments."""

    values: dict[str, str]
    start: int | None = None
    end: int | None = None
    filters: tuple[Filter, ...] = ()
    search: str = ""

    def conditions(self) -> list[ColumnElement[bool]]:
        found: list[ColumnElement[bool]] = [audit.c[name] == value for name, value in self.values.items()]
        if self.start is not None:
            found.append(audit.c.at >= self.start)
        if self.end is not None:
            found.append(audit.c.at <= self.end)
        for each in self.filters:
            column = COLUMNS[each.field]
            value = escaped(str(each.value)) if each.operator in IN_TEXTS else each.value
            found.append(condition_on(column, each.operator, literal(value, column.type)))
        if self.search:
            text = literal(escaped(self.search), String())
            found.append(or_(*(column.icontains(text, escape=ESCAPE) for column in SEARCHED)))
        return found


def entries(
    connection: Connection,
    chosen: Choice,
    offset: int,
    limit: int,
    before: int | None = None,
    *,
    sort_by: str = "id",
    descending: bool = True,
) -> list[Row[Any]]:
    """Newest first unless told otherwise; `before`: only those that are older than this one."""
    column = COLUMNS[sort_by]
    order = (column.desc(), audit.c.id.desc()) if descending else (column.asc(), audit.c.id.asc())
    query = select(audit).where(*chosen.conditions()).order_by(*order).offset(offset).limit(limit)
    if before is not None:
        query = query.where(audit.c.id < before)
    return list(connection.execute(query))


def count(connection: Connection, chosen: Choice) -> int:
    query = select(func.count()).select_from(audit).where(*chosen.conditions())
    return int(connection.execute(query).scalar_one())


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


def drop_old(connection: Connection, before: int, most: int, target: str = "") -> int:
    """Delete entries that are older, the oldest first, and keep the hash of the last of them; says how many went.

    Entries that have not arrived at the target, if there is one, stay however old they are.
    """
    rows = connection.execute(select(audit.c.id, audit.c.at, audit.c.hash).order_by(audit.c.id).limit(most)).all()
    through = _arrived(connection, target) if target else None
    old = list(takewhile(lambda row: row.at < before and (through is None or row.id <= through), rows))
    if not old:
        return 0
    connection.execute(delete(audit).where(audit.c.id <= old[-1].id))
    if old[-1].hash:
        _LENGTHEN.run(connection, {"anchor_id": old[-1].id, "anchor_hash": old[-1].hash})
    return len(old)


def _arrived(connection: Connection, target: str) -> int:
    """The last entry that arrived at a target; 0: none."""
    query = select(audit_forwarding.c.through).where(audit_forwarding.c.target == target)
    return int(connection.execute(query).scalar() or 0)


def is_behind(connection: Connection, target: str) -> bool:
    """Whether there are entries that were not forwarded to a target."""
    row = connection.execute(select(audit_forwarding).where(audit_forwarding.c.target == target)).first()
    return row is None or bool(row.through < _CHAIN.one(connection).last_id)


def hold_forwarding(connection: Connection, target: str, holder: str, now: int, until: int) -> int | None:
    """Take or keep the right to forward to a target: the last entry that arrived there. None: another server has it."""
    mine = audit_forwarding.c.target == target
    row = connection.execute(select(audit_forwarding).where(mine)).first()
    if row is None:
        through = _CHAIN.one(connection).anchor_id
        values = {"target": target, "through": through, "holder": holder, "held_until": until}
        connection.execute(insert(audit_forwarding).values(**values))
        return int(through)
    if row.holder != holder and row.held_until > now:
        return None
    connection.execute(update(audit_forwarding).where(mine).values(holder=holder, held_until=until))
    return int(row.through)


def forwarded(connection: Connection, target: str, holder: str, through: int) -> None:
    """Entries up to this one arrived; another server that took over meanwhile has its own count."""
    mine = (audit_forwarding.c.target == target, audit_forwarding.c.holder == holder)
    connection.execute(update(audit_forwarding).where(*mine).values(through=through))

"""SQL for waits that ended with a start: how long they were, and what they last waited for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, and_, bindparam, delete, insert, select, tuple_

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.database import Connection
from fairpool.control.store.decisions import HistoryListing, conditions_of
from fairpool.control.store.tables import ended_waits, workloads

COLUMNS: dict[str, ColumnElement[Any]] = {
    "cause": ended_waits.c.cause,
    "clusterId": workloads.c.cluster,
    "workloadId": workloads.c.id,
    "workloadName": workloads.c.name,
    "projectId": workloads.c.project,
    "departmentId": workloads.c.department,
    "type": workloads.c.kind,
    "submittedBy": workloads.c.submitted_by,
}
"""What they can be filtered by, in the words of the wire."""

_MINE = and_(ended_waits.c.workload == bindparam("of"), ended_waits.c.ended_at == bindparam("at"))
_DROP = Compiled(delete(ended_waits).where(_MINE))
_ADD = Compiled(insert(ended_waits))


def add(connection: Connection, workload: str, began_at: int, ended_at: int, cause: str) -> None:
    """Once, also if it is reported again."""
    _DROP.run(connection, {"of": workload, "at": ended_at})
    row = {"workload": workload, "began_at": min(began_at, ended_at), "ended_at": ended_at, "cause": cause[:64]}
    _ADD.run(connection, row)


def within(connection: Connection, listing: HistoryListing, start: int, end: int, group: str) -> list[Any]:
    """When waits ended and how long they were, with what they are grouped by; the latest first, so many at most."""
    length = (ended_waits.c.ended_at - ended_waits.c.began_at).label("length")
    query = (
        select(ended_waits.c.ended_at, length, COLUMNS[group].label("key"))
        .join(workloads, workloads.c.id == ended_waits.c.workload)
        .where(ended_waits.c.ended_at >= start, ended_waits.c.ended_at < end, *conditions_of(listing, COLUMNS))
        .order_by(ended_waits.c.ended_at.desc(), ended_waits.c.workload)
    )
    return list(connection.execute(query.limit(listing.limit + 1)))


def drop_old(connection: Connection, before: int, most: int) -> int:
    """Let go of the oldest; says how many went."""
    keys = (ended_waits.c.workload, ended_waits.c.ended_at)
    old = list(connection.execute(select(*keys).where(ended_waits.c.ended_at < before).limit(most)))
    if old:
        connection.execute(delete(ended_waits).where(tuple_(*keys).in_([tuple(row) for row in old])))
    return len(old)

"""SQL for a scrape by Prometheus: the workloads that have series."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import func, or_, select

from fairpool.control.store.database import Connection
from fairpool.control.store.tables import workloads

AT_ONCE = 500

_EXISTS = workloads.c.deleted_at.is_(None)
_COLUMNS = (
    *(workloads.c.id, workloads.c.name, workloads.c.project, workloads.c.department, workloads.c.cluster),
    *(workloads.c.kind, workloads.c.submitted_by, workloads.c.created_at, workloads.c.requested_gpus_milli),
    *(workloads.c.revision, workloads.c.phase, workloads.c.status, workloads.c.allocated_gpus_milli),
    *(workloads.c.running_pods, workloads.c.started_at, workloads.c.completed_at),
)


def workload_rows(connection: Connection, ended_since: int, most: int) -> list[Any]:
    """Those that exist and have not ended before this; the first `most`, those that hold something before others."""
    lately = or_(workloads.c.completed_at.is_(None), workloads.c.completed_at >= ended_since)
    query = select(*_COLUMNS).where(_EXISTS, lately)
    query = query.order_by(workloads.c.allocated_gpus_milli == 0, workloads.c.created_at, workloads.c.id)
    return list(connection.execute(query.limit(most)))


def workload_count(connection: Connection, ended_since: int) -> int:
    lately = or_(workloads.c.completed_at.is_(None), workloads.c.completed_at >= ended_since)
    return int(connection.execute(select(func.count()).where(_EXISTS, lately)).scalar_one())


def declarations(connection: Connection, ids: Collection[str]) -> list[Any]:
    """Id, revision and declaration of each."""
    wanted, found = list(ids), list[Any]()
    columns = (workloads.c.id, workloads.c.revision, workloads.c.declaration)
    for start in range(0, len(wanted), AT_ONCE):
        part = workloads.c.id.in_(wanted[start : start + AT_ONCE])
        found += connection.execute(select(*columns).where(part))
    return found

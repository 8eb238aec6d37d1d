"""SQL for counts of workloads as they are now."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Select, func, literal, select

from fairpool.control.store.database import Connection
from fairpool.control.store.tables import holdings, workloads
from fairpool.control.store.workloads import WAITS

_PLACE = (workloads.c.project, workloads.c.department, workloads.c.cluster, workloads.c.kind, workloads.c.phase)


def workload_totals(connection: Connection) -> list[Any]:
    """Number and GPUs of the workloads that exist, by whose they are, kind and phase."""
    figures = (
        func.count().label("number"),
        func.coalesce(func.sum(workloads.c.allocated_gpus_milli), 0).label("gpus_milli"),
        func.coalesce(func.sum(workloads.c.requested_gpus_milli), 0).label("requested_milli"),
    )
    query = select(*_PLACE, *figures).where(workloads.c.deleted_at.is_(None)).group_by(*_PLACE)
    return list(connection.execute(query.order_by(*_PLACE)))


def workload_rows(connection: Connection) -> list[Any]:
    """The same of each workload, with its id."""
    return list(connection.execute(_each()))


def waiting_rows(connection: Connection) -> list[Any]:
    """Of those that wait and hold nothing, also since when, in the words of their reports."""
    since = (workloads.c.created_at, workloads.c.run, workloads.c.report)
    waits = (workloads.c.phase.in_(WAITS), workloads.c.allocated_gpus_milli == 0)
    return list(connection.execute(_each(*since).where(*waits)))


def _each(*more: ColumnElement[Any]) -> Select[Any]:
    figures = (
        literal(1).label("number"),
        workloads.c.allocated_gpus_milli.label("gpus_milli"),
        workloads.c.requested_gpus_milli.label("requested_milli"),
        workloads.c.id,
    )
    return select(*_PLACE, *figures, *more).where(workloads.c.deleted_at.is_(None)).order_by(workloads.c.id)


def nodes_by_workload(connection: Connection) -> dict[str, set[tuple[str, str]]]:
    """Cluster and node of the pods that hold something."""
    found: dict[str, set[tuple[str, str]]] = {}
    for row in connection.execute(select(holdings.c.workload, holdings.c.cluster, holdings.c.node)):
        found.setdefault(row.workload, set()).add((row.cluster, row.node))
    return found

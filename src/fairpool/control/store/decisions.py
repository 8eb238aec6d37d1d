"""SQL for decisions: the lines of history that a decision of a scheduler is recorded with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, bindparam, false, func, or_, select, tuple_

from fairpool.control.filters import Filter
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import events, workloads
from fairpool.control.store.workload_lists import IN_TEXTS, condition_on, escaped

COLUMNS: dict[str, ColumnElement[Any]] = {
    "kind": events.c.decision,
    "at": events.c.at,
    "sequence": events.c.number,
    "clusterId": events.c.cluster,
    "workloadId": events.c.workload,
    "workloadName": workloads.c.name,
    "projectId": workloads.c.project,
    "departmentId": workloads.c.department,
    "submittedBy": workloads.c.submitted_by,
}
"""What the feed can be filtered by, in the words of the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryListing:
    """Which lines of history, in which order, how many."""

    filters: tuple[Filter, ...] = ()
    search: str = ""
    projects: tuple[str, ...] | None = None
    """Only of these, and of these departments and clusters; None: of all."""
    departments: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    descending: bool = True
    offset: int = 0
    limit: int = 50


def page(connection: Connection, listing: HistoryListing) -> list[Any]:
    """The rows of one page, and one more if there is another page."""
    columns = (events.c.at, events.c.cluster, events.c.number)
    order = [column.desc() if listing.descending else column.asc() for column in columns]
    query = _decisions().where(*conditions_of(listing, COLUMNS)).order_by(*order)
    return list(connection.execute(query.offset(listing.offset).limit(listing.limit + 1)))


def counts(connection: Connection, listing: HistoryListing, start: int, end: int, step_ms: int) -> list[Any]:
    """How many of each kind there were in each part of a time; parts are numbered from `start`."""
    part = ((events.c.at - start) // step_ms).label("part")
    query = (
        select(part, events.c.decision, func.count().label("number"))
        .join(workloads, workloads.c.id == events.c.workload)
        .where(
            events.c.decision.is_not(None), events.c.at >= start, events.c.at < end, *conditions_of(listing, COLUMNS)
        )
        .group_by(part, events.c.decision)
    )
    return list(connection.execute(query.order_by(part, events.c.decision)))


def conditions_of(listing: HistoryListing, columns: Mapping[str, ColumnElement[Any]]) -> list[ColumnElement[bool]]:
    """Of a question about history that is joined with the workloads that it is about."""
    conditions = [
        condition_on(
            columns[each.field],
            each.operator,
            bindparam(
                f"filter_{number}",
                escaped(str(each.value)) if each.operator in IN_TEXTS else each.value,
                type_=columns[each.field].type,
            ),
        )
        for number, each in enumerate(listing.filters)
    ]
    if listing.search:
        conditions.append(workloads.c.name.icontains(listing.search, autoescape=True))
    if listing.projects is not None:
        mine = [
            column.in_(names)
            for column, names in (
                (workloads.c.project, listing.projects),
                (workloads.c.department, listing.departments),
                (workloads.c.cluster, listing.clusters),
            )
            if names
        ]
        conditions.append(or_(*mine) if mine else false())
    return conditions


def some(connection: Connection, keys: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """These, by cluster and number."""
    if not keys:
        return {}
    query = _decisions().where(tuple_(events.c.cluster, events.c.number).in_(keys))
    return {(row.cluster, row.number): row for row in connection.execute(query)}


def _decisions() -> Select[Any]:
    place = (workloads.c.name, workloads.c.project, workloads.c.department, workloads.c.submitted_by)
    columns = (events.c.cluster, events.c.number, events.c.at, events.c.workload, events.c.document)
    joined = select(*columns, *place).join(workloads, workloads.c.id == events.c.workload)
    return joined.where(events.c.decision.is_not(None))

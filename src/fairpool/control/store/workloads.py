"""Workloads and their pods, as rows; and lists of them with filter, order and page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Select,
    and_,
    bindparam,
    delete,
    false,
    func,
    insert,
    or_,
    select,
    update,
)
from sqlalchemy.engine import Row

from fairpool.control.filters import Filter, Operator
from fairpool.control.store.tables import events, pods, workloads
from fairpool.model.ids import Instant

_INSERT = insert(workloads)
_ONE = select(workloads).where(workloads.c.id == bindparam("id"))
_SHOWN = select(
    workloads.c.item,
    workloads.c.request,
    workloads.c.project,
    workloads.c.department,
    workloads.c.kind,
    workloads.c.revision,
    workloads.c.gone_at,
).where(workloads.c.id == bindparam("id"))
_TAKEN = select(workloads.c.id).where(workloads.c.name_key == bindparam("name_key"))
_POD = select(pods.c.id, pods.c.phase, pods.c.since).where(pods.c.workload == bindparam("workload"))

BURIED = "/"

COLUMNS: dict[str, ColumnElement[Any]] = {
    "id": workloads.c.id,
    "name": workloads.c.name,
    "type": workloads.c.kind,
    "phase": workloads.c.phase,
    "projectName": workloads.c.project,
    "projectId": workloads.c.project,
    "departmentName": workloads.c.department,
    "departmentId": workloads.c.department,
    "clusterId": workloads.c.cluster,
    "submittedBy": workloads.c.submitted_by,
    "createdAt": workloads.c.created_at,
    "startedAt": workloads.c.started_at,
    "completedAt": workloads.c.completed_at,
    "desiredPhase": workloads.c.want,
    "runningPods": workloads.c.running_pods,
    "requestedGPU": workloads.c.requested_gpus_milli,
    "allocatedGPU": workloads.c.allocated_gpus_milli,
}
"""What lists can be filtered and sorted by, in the words of the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which workloads, in which order, how many."""

    filters: tuple[Filter, ...] = ()
    search: str = ""
    projects: tuple[str, ...] | None = None
    """Only of these, and of these departments; None: of all."""
    departments: tuple[str, ...] = ()
    deleted: bool = False
    sort_by: str = "createdAt"
    descending: bool = False
    offset: int = 0
    limit: int = 50


def add(connection: Connection, row: dict[str, Any]) -> None:
    connection.execute(_INSERT, row)


def one(connection: Connection, workload_id: str) -> Row[Any] | None:
    return connection.execute(_ONE, {"id": workload_id}).one_or_none()


def shown(connection: Connection, workload_id: str) -> Any:
    """What is needed to answer a person, and no more."""
    return connection.execute(_SHOWN, {"id": workload_id}).one_or_none()


def some(connection: Connection, ids: Sequence[str]) -> dict[str, Row[Any]]:
    found: dict[str, Row[Any]] = {}
    for start in range(0, len(ids), 500):
        rows = connection.execute(select(workloads).where(workloads.c.id.in_(ids[start : start + 500])))
        found |= {row.id: row for row in rows}
    return found


def declared(connection: Connection, cluster: str) -> list[Row[Any]]:
    """Everything a cluster should know, oldest first."""
    query = select(workloads).where(workloads.c.cluster == cluster, workloads.c.gone_at.is_(None))
    return list(connection.execute(query.order_by(workloads.c.created_at, workloads.c.id)))


def is_taken(connection: Connection, name_key: str) -> bool:
    return connection.execute(_TAKEN, {"name_key": name_key}).first() is not None


def named(connection: Connection, project: str, name: str) -> str | None:
    """The id of the one that has this name now."""
    found = connection.execute(_TAKEN, {"name_key": f"{project}/{name}"}).first()
    return None if found is None else str(found.id)


def names_like(connection: Connection, project: str, prefix: str) -> set[str]:
    """Names in a project that begin so and are taken."""
    query = select(workloads.c.name).where(
        workloads.c.project == project,
        workloads.c.name_key.is_not(None),
        workloads.c.name.startswith(prefix, autoescape=True),
    )
    return set(connection.execute(query).scalars())


def change(connection: Connection, workload_id: str, **values: Any) -> None:
    connection.execute(update(workloads).where(workloads.c.id == workload_id).values(**values))


def page(connection: Connection, listing: Listing) -> list[str]:
    """The items of one page, and one more if there is another page."""
    column = COLUMNS[listing.sort_by]
    order = column.desc() if listing.descending else column.asc()
    query = _chosen(select(workloads.c.item), listing).order_by(order, workloads.c.id)
    return list(connection.execute(query.offset(listing.offset).limit(listing.limit + 1)).scalars())


def count(connection: Connection, listing: Listing) -> int:
    return int(connection.execute(_chosen(select(func.count()).select_from(workloads), listing)).scalar_one())


def set_pod(connection: Connection, known: bool, row: dict[str, Any]) -> None:
    if known:
        connection.execute(update(pods).where(pods.c.id == row["id"]).values(**row))
    else:
        connection.execute(insert(pods), row)


def known_pods(connection: Connection, workload_id: str) -> dict[str, Any]:
    return {row.id: row for row in connection.execute(_POD, {"workload": workload_id})}


def pod(connection: Connection, pod_id: str) -> Row[Any] | None:
    return connection.execute(select(pods).where(pods.c.id == pod_id)).first()


def pods_of(connection: Connection, workload_id: str) -> list[Row[Any]]:
    query = select(pods).where(pods.c.workload == workload_id).order_by(pods.c.place, pods.c.incarnation)
    return list(connection.execute(query))


def unheard(connection: Connection, cluster: str, heard: set[str]) -> list[Row[Any]]:
    """Of a whole report: what was reported before and is not in it."""
    query = select(workloads).where(
        workloads.c.cluster == cluster, workloads.c.gone_at.is_(None), workloads.c.report.is_not(None)
    )
    return [row for row in connection.execute(query) if row.id not in heard]


def projects_with_work(connection: Connection, project: str) -> bool:
    query = select(workloads.c.id).where(workloads.c.project == project, workloads.c.gone_at.is_(None)).limit(1)
    return connection.execute(query).first() is not None


def gone(connection: Connection, workload_id: str, now: Instant, item: str, revision: int) -> None:
    values = {"gone_at": now, "name_key": None, "phase": "Deleted", "item": item, "revision": revision}
    change(connection, workload_id, **values, allocated_gpus_milli=0, running_pods=0)


def bury(connection: Connection, column: Column[str], name: str, revision: int) -> None:
    """What is left of a project or department that is no more. The name may be used again; nobody's role covers this.

    A slash is in no name, so that no role can be given over it.
    """
    connection.execute(update(workloads).where(column == name).values({column: f"{name}{BURIED}{revision:x}"}))


def set_department(connection: Connection, project: str, department: str) -> None:
    """Of all the work in a project, also of what is gone."""
    connection.execute(update(workloads).where(workloads.c.project == project).values(department=department))


def there_in(connection: Connection, project: str) -> list[Row[Any]]:
    """What is shown of the work in a project that is not gone."""
    query = select(workloads.c.id, workloads.c.facts, workloads.c.item)
    return list(connection.execute(query.where(workloads.c.project == project, workloads.c.gone_at.is_(None))))


def drop_gone(connection: Connection, before: int, most: int) -> int:
    """Let go of workloads that went earlier than this, with all that is known of them; says how many."""
    query = select(workloads.c.id).where(workloads.c.gone_at < before).order_by(workloads.c.gone_at).limit(most)
    old = list(connection.execute(query).scalars())
    for column in (events.c.workload, pods.c.workload, workloads.c.id):
        connection.execute(delete(column.table).where(column.in_(old)))
    return len(old)


def drop_lives(connection: Connection, workload_id: str, place: int, before: int) -> None:
    """Let go of a pod's lives before this one."""
    mine = and_(pods.c.workload == workload_id, pods.c.place == place)
    connection.execute(delete(pods).where(mine, pods.c.incarnation < before))


def _chosen(query: Select[Any], listing: Listing) -> Select[Any]:
    conditions = [_condition(each) for each in listing.filters]
    if listing.deleted:
        conditions = [or_(each, _of_buried(wish)) for each, wish in zip(conditions, listing.filters, strict=True)]
    else:
        conditions.append(workloads.c.gone_at.is_(None))
    if listing.projects is not None:
        mine = [workloads.c.project.in_(listing.projects), workloads.c.department.in_(listing.departments)]
        conditions.append(or_(*mine) if listing.projects or listing.departments else false())
    if listing.search:
        columns = (workloads.c.name, workloads.c.project, workloads.c.submitted_by)
        conditions.append(or_(*(column.contains(listing.search, autoescape=True) for column in columns)))
    return query.where(and_(*conditions)) if conditions else query


def _of_buried(each: Filter) -> ColumnElement[bool]:
    """Whoever asks for what was deleted in a project also means one of that name that is no more."""
    is_place = COLUMNS[each.field] in (workloads.c.project, workloads.c.department)
    if not is_place or each.operator is not Operator.EQUALS:
        return false()
    return COLUMNS[each.field].startswith(f"{each.value}{BURIED}", autoescape=True)


def _condition(each: Filter) -> ColumnElement[bool]:
    column: ColumnElement[Any] = COLUMNS[each.field]
    value = each.value
    match each.operator:
        case Operator.EQUALS:
            return column == value
        case Operator.DIFFERS:
            return column != value
        case Operator.AT_MOST:
            return column <= value
        case Operator.AT_LEAST:
            return column >= value
        case Operator.CONTAINS:
            return column.contains(str(value), autoescape=True)
        case Operator.LACKS:
            return ~column.contains(str(value), autoescape=True)
        case Operator.BEGINS:
            return column.startswith(str(value), autoescape=True)
        case Operator.ENDS:
            return column.endswith(str(value), autoescape=True)

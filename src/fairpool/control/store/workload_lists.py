"""SQL for lists of workloads: filter, order and page.

To put a statement together takes ten times as long as to carry it out, and most lists differ only in what they look
for. So it is made once for each shape, and what is looked for is handed over beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    String,
    bindparam,
    false,
    func,
    or_,
    select,
)

from fairpool.control.filters import Filter, Operator
from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import workload_labels, workloads
from fairpool.control.store.workloads import KEY, Key
from fairpool.control.workload_documents import RELEASED

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
    "desiredPhase": workloads.c.desired_state,
    "runningPods": workloads.c.running_pods,
    "requestedGPU": workloads.c.requested_gpus_milli,
    "allocatedGPU": workloads.c.allocated_gpus_milli,
    "status": workloads.c.status,
}
"""What lists can be filtered and sorted by, in the words of the wire."""

_INDEXED = frozenset({"phase", "projectName", "projectId"})

_MAY_BE_MISSING = frozenset({"startedAt", "completedAt"})

LABEL = "labels."


def _column(field: str) -> ColumnElement[Any]:
    """A column, or one label, which is empty where there is none."""
    if not field.startswith(LABEL):
        return COLUMNS[field]
    mine = (workload_labels.c.workload == workloads.c.id, workload_labels.c.key == field.removeprefix(LABEL))
    return func.coalesce(select(workload_labels.c.value).where(*mine).scalar_subquery(), "", type_=String)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Which workloads, in which order, how many."""

    filters: tuple[Filter, ...] = ()
    search: str = ""
    projects: tuple[str, ...] | None = None
    """Only of these, and of these departments and clusters; None: of all."""
    departments: tuple[str, ...] = ()
    clusters: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    """Only in one of these; empty: in any."""
    deleted: bool = False
    sort_by: str = "createdAt"
    descending: bool = False
    offset: int = 0
    limit: int = 50

    @property
    def is_indexed(self) -> bool:
        """Whether an index leads to its rows in their order, so that a page costs the same however many there are."""
        return (
            self.projects is None
            and not self.phases
            and not self.search
            and self.sort_by in ("createdAt", "name")
            and all(each.field in _INDEXED and each.operator is Operator.EQUALS for each in self.filters)
        )


def page(connection: Connection, listing: Listing) -> list[Key]:
    """The keys of one page, and one more if there is another page."""
    values = {**_values(listing), "offset": listing.offset, "limit": listing.limit + 1}
    rows = _page_of(_shape(listing), listing.sort_by, listing.descending).tuples(connection, values)
    return [Key._make(row) for row in rows]


def count(connection: Connection, listing: Listing) -> int:
    return int(_count_of(_shape(listing)).column(connection, _values(listing))[0])


def by_phase(connection: Connection, listing: Listing) -> dict[str, int]:
    """How many there are in each phase that has some."""
    found = _by_phase_of(_shape(listing)).tuples(connection, _values(listing))
    return {str(phase): int(number) for phase, number in found}


def totals(connection: Connection, listing: Listing) -> tuple[int, int]:
    """How many there are on all pages, and the GPUs they request, in thousandths."""
    found = _totals_of(_shape(listing)).tuples(connection, _values(listing))[0]
    return int(found[0]), int(found[1])


@dataclass(frozen=True, slots=True)
class _Shape:
    """A list without that which is looked for."""

    filters: tuple[tuple[str, Operator], ...]
    is_search: bool
    projects: int | None
    departments: int
    clusters: int
    deleted: bool
    phases: int


def _shape(listing: Listing) -> _Shape:
    return _Shape(
        filters=tuple((each.field, each.operator) for each in listing.filters),
        is_search=bool(listing.search),
        projects=None if listing.projects is None else len(listing.projects),
        departments=len(listing.departments) if listing.projects is not None else 0,
        clusters=len(listing.clusters) if listing.projects is not None else 0,
        deleted=listing.deleted,
        phases=len(listing.phases),
    )


def _values(listing: Listing) -> dict[str, Any]:
    """What is looked for, by the names of the parameters."""
    values = {
        f"filter_{number}": escaped(str(each.value)) if each.operator in IN_TEXTS else each.value
        for number, each in enumerate(listing.filters)
    }
    if listing.deleted:
        values |= {
            f"released_{number}": escaped(f"{each.value}{RELEASED}")
            for number, each in enumerate(listing.filters)
            if _is_place(each.field, each.operator)
        }
    if listing.search:
        values["search"] = escaped(listing.search)
    values |= {f"phase_{number}": name for number, name in enumerate(listing.phases)}
    if listing.projects is not None:
        values |= {f"project_{number}": name for number, name in enumerate(listing.projects)}
        values |= {f"department_{number}": name for number, name in enumerate(listing.departments)}
        values |= {f"cluster_{number}": name for number, name in enumerate(listing.clusters)}
    return values


@lru_cache(maxsize=512)
def _page_of(shape: _Shape, sort_by: str, descending: bool) -> Compiled:
    column = COLUMNS[sort_by]
    order = column.desc().nulls_last() if descending else column.asc().nulls_first()
    if sort_by not in _MAY_BE_MISSING:  # so that an index is used in every database system
        order = column.desc() if descending else column.asc()
    query = select(*KEY).where(*_conditions(shape)).order_by(order, workloads.c.id)
    return Compiled(query.offset(bindparam("offset")).limit(bindparam("limit")))


@lru_cache(maxsize=512)
def _count_of(shape: _Shape) -> Compiled:
    return Compiled(select(func.count().label("number")).select_from(workloads).where(*_conditions(shape)))


@lru_cache(maxsize=512)
def _by_phase_of(shape: _Shape) -> Compiled:
    query = select(workloads.c.phase, func.count().label("number")).where(*_conditions(shape))
    return Compiled(query.group_by(workloads.c.phase))


@lru_cache(maxsize=64)
def _totals_of(shape: _Shape) -> Compiled:
    requested = func.coalesce(func.sum(workloads.c.requested_gpus_milli), 0).label("requested")
    return Compiled(select(func.count().label("number"), requested).select_from(workloads).where(*_conditions(shape)))


def _conditions(shape: _Shape) -> list[ColumnElement[bool]]:
    conditions = [
        condition_on(_column(field), operator, bindparam(f"filter_{number}", type_=_column(field).type))
        for number, (field, operator) in enumerate(shape.filters)
    ]
    if shape.deleted:
        conditions = [
            or_(each, COLUMNS[field].startswith(bindparam(f"released_{number}"), escape=ESCAPE))
            if _is_place(field, operator)
            else each
            for number, (each, (field, operator)) in enumerate(zip(conditions, shape.filters, strict=True))
        ]
    else:
        conditions.append(workloads.c.deleted_at.is_(None))
    if shape.phases:
        conditions.append(workloads.c.phase.in_([bindparam(f"phase_{number}") for number in range(shape.phases)]))
    if shape.projects is not None:
        mine = [
            column.in_([bindparam(f"{name}_{number}") for number in range(several)])
            for name, column, several in (
                ("project", workloads.c.project, shape.projects),
                ("department", workloads.c.department, shape.departments),
                ("cluster", workloads.c.cluster, shape.clusters),
            )
            if several
        ]
        conditions.append(or_(*mine) if mine else false())
    if shape.is_search:
        columns = (workloads.c.name, workloads.c.project, workloads.c.submitted_by)
        conditions.append(or_(*(column.icontains(bindparam("search"), escape=ESCAPE) for column in columns)))
    return conditions


def _is_place(field: str, operator: Operator) -> bool:
    """A filter for what was deleted in a project also means a former project of that name."""
    return operator is Operator.EQUALS and _column(field) in (workloads.c.project, workloads.c.department)


ESCAPE = "/"
IN_TEXTS = frozenset({Operator.CONTAINS, Operator.LACKS, Operator.BEGINS, Operator.ENDS})


def escaped(text: str) -> str:
    """A text in which nothing has a meaning for LIKE."""
    return text.replace(ESCAPE, ESCAPE * 2).replace("%", f"{ESCAPE}%").replace("_", f"{ESCAPE}_")


def condition_on(column: ColumnElement[Any], operator: Operator, value: BindParameter[Any]) -> ColumnElement[bool]:
    """The condition of a filter; a value of `IN_TEXTS` is `escaped`."""
    match operator:
        case Operator.EQUALS:
            return column == value
        case Operator.DIFFERS:
            return column != value
        case Operator.AT_MOST:
            return column <= value
        case Operator.AT_LEAST:
            return column >= value
        case Operator.CONTAINS:
            return column.icontains(value, escape=ESCAPE)
        case Operator.LACKS:
            return ~column.icontains(value, escape=ESCAPE)
        case Operator.BEGINS:
            return column.istartswith(value, escape=ESCAPE)
        case Operator.ENDS:
            return column.iendswith(value, escape=ESCAPE)

"""Whether the rows of a database agree with each other: references, numbers that were given out, and the audit chain.

The tables have no foreign keys, since whole trees are deleted in batches. What must hold nevertheless is listed here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Column, Connection, Select, Table, func, select

from fairpool.api.audit_chain import ChainCheck
from fairpool.control.store import audit, counters, tables

PIECE = 1000
"""Audit entries that are checked at a time."""
SHOWN = 3
"""Rows that are named of each kind of finding."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A column whose values are keys of another table."""

    column: Column[str]
    target: tuple[Column[str], ...]
    """In one of these."""

    @property
    def name(self) -> str:
        return f"{self.column.table.name}.{self.column.name}"


def _refers(column: Column[str], *target: Column[str]) -> Reference:
    return Reference(column, target)


_USERS, _WORKLOADS = tables.users.c.id, tables.workloads.c.id
REFERENCES = (
    _refers(tables.user_groups.c.user_id, _USERS),
    _refers(tables.page_preferences.c.user_id, _USERS),
    _refers(tables.access_keys.c.owner, _USERS, tables.applications.c.id),
    _refers(tables.provider_accounts.c.provider, tables.identity_providers.c.alias),
    _refers(tables.provider_session_families.c.session, tables.provider_sessions.c.id),
    _refers(tables.projects.c.department, tables.departments.c.name),
    _refers(tables.workload_labels.c.workload, _WORKLOADS),
    _refers(tables.pods.c.workload, _WORKLOADS),
    _refers(tables.holdings.c.workload, _WORKLOADS),
    _refers(tables.nodes.c.cluster, tables.clusters.c.id),
    _refers(tables.queue_reports.c.cluster, tables.clusters.c.id),
)


def findings(connection: Connection) -> list[str]:
    """What is wrong, in words; none: nothing."""
    return [
        *_broken_references(connection),
        *_broken_revisions(connection),
        *_broken_counters(connection),
        *_broken_chain(connection),
    ]


def _broken_references(connection: Connection) -> Iterator[str]:
    for each in REFERENCES:
        lost = select(each.column).distinct().where(*(each.column.not_in(select(target)) for target in each.target))
        found = _first(connection, lost)
        if found:
            where = " or ".join(target.table.name for target in each.target)
            yield f"{each.name} refers to what is not in {where}: {found}"


def _first(connection: Connection, query: Select[str]) -> str:
    found = [repr(str(value)) for value in connection.execute(query.limit(SHOWN + 1)).scalars()]
    return ", ".join(found[:SHOWN]) + (", ..." if len(found) > SHOWN else "")


def _broken_revisions(connection: Connection) -> Iterator[str]:
    rows = connection.execute(select(tables.revision)).all()
    if len(rows) != 1:
        yield f"revision must have one row, and has {len(rows)}"
        return
    (row,) = rows
    if not row.oldest <= row.declared <= row.value:
        yield f"the revisions are out of order: oldest {row.oldest}, declared {row.declared}, last {row.value}"
    for table in tables_with_revisions():
        beyond = connection.execute(select(func.max(table.c.revision))).scalar()
        if beyond is not None and beyond > row.value:
            yield f"{table.name} has revision {beyond}, and the last one that was given out is {row.value}"


def tables_with_revisions() -> list[Table]:
    """Those whose rows carry the revision of their last change."""
    return [table for table in tables.metadata.sorted_tables if "revision" in table.c]


def _broken_counters(connection: Connection) -> Iterator[str]:
    for name, column in ((counters.ACCESS_RULES, tables.access_rules.c.number), (counters.ROLES, tables.roles.c.id)):
        used = connection.execute(select(func.max(column))).scalar()
        given = connection.execute(select(tables.counters.c.value).where(tables.counters.c.name == name)).scalar()
        if used is not None and used > (given or 0):
            yield f"{column.table.name} has number {used}, and the last one that was given out is {given or 0}"


def _broken_chain(connection: Connection) -> Iterator[str]:
    rows = connection.execute(select(func.count()).select_from(tables.audit_chain)).scalar()
    if rows != 1:
        yield f"audit_chain must have one row, and has {rows}"
        return
    anchor, head = audit.chain_ends(connection)
    check = ChainCheck(anchor)
    while piece := audit.following(connection, check.last.id, PIECE):
        if not all(check.take(entry._asdict()) for entry in piece):
            break
    if not check.end(head):
        yield f"audit entry {check.broken} {check.why}"

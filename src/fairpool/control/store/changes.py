"""Revisions: every change gets the next number, in the transaction that makes it.

They only grow, and none is used for two changes; a database that is put back goes on far away (`condition.leap_ahead`).
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, delete, func, insert, select, update

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import changes, revision
from fairpool.model.ids import Instant, Revision

TRIM_EVERY = 1000
ORGANIZATION = frozenset({"project", "department", "node-pool", "node", "setting", "topology"})
"""Nouns whose declared change is a change of the organization, as a cluster sees it."""

_NEXT = revision.c.value + 1
_ROW = update(revision).where(revision.c.id == 1)
_BUMP = Compiled(_ROW.values(value=_NEXT))
_BUMP_DECLARED = Compiled(_ROW.values(value=_NEXT, declared=_NEXT))
_BUMP_ORGANIZATION = Compiled(_ROW.values(value=_NEXT, declared=_NEXT, organization=_NEXT))
_ADD = Compiled(insert(changes))
_CURRENT = Compiled(select(revision.c.value).where(revision.c.id == 1))
_ORGANIZATION = Compiled(select(revision.c.organization).where(revision.c.id == 1))
_DECLARED_NOW = Compiled(
    select(revision.c.declared, revision.c.oldest, revision.c.organization).where(revision.c.id == 1)
)
_AFTER = Compiled(
    select(changes).where(changes.c.revision > bindparam("after")).order_by(changes.c.revision).limit(bindparam("most"))
)
_DECLARED = Compiled(
    select(changes.c.noun, changes.c.id)
    .where(changes.c.revision > bindparam("after"), changes.c.declared)
    .group_by(changes.c.noun, changes.c.id)
    .order_by(func.min(changes.c.revision))
)


@dataclass(frozen=True, slots=True)
class Changed:
    """One change."""

    revision: int
    noun: str
    id: str
    project: str | None
    verb: str


def record(
    connection: Connection,
    noun: str,
    entity: str,
    verb: str,
    at: Instant,
    *,
    project: str | None = None,
    declared: bool = True,
    kept: int = 100_000,
) -> Revision:
    """Number a change. `declared`: clusters must hear of it."""
    bump = _BUMP if not declared else _BUMP_ORGANIZATION if noun in ORGANIZATION else _BUMP_DECLARED
    bump.run(connection)
    number = int(current(connection))  # read afterwards: for RETURNING, SQLite takes five times as long as for both
    _ADD.run(
        connection,
        {
            "revision": number,
            "noun": noun,
            "id": entity,
            "project": project,
            "verb": verb,
            "declared": declared,
            "at": at,
        },
    )
    if number % TRIM_EVERY == 0 and number > kept:
        connection.execute(delete(changes).where(changes.c.revision <= number - kept))
        connection.execute(update(revision).values(oldest=number - kept))
    return Revision(number)


def release_name(connection: Connection, project: str, number: int) -> None:
    """What happened in a project that is no more is nothing for those who use its name again."""
    mine = update(changes).where(changes.c.project == project, changes.c.revision <= number)
    connection.execute(mine.values(project=f"{project}/{number:x}"))


def drop_old(connection: Connection, before: int, most: int) -> int:
    """Let go of the oldest as long as they are older than this; says how many went."""
    rows = connection.execute(select(changes.c.revision, changes.c.at).order_by(changes.c.revision).limit(most))
    old = [row.revision for row in itertools.takewhile(lambda row: row.at < before, rows)]
    if old:
        connection.execute(delete(changes).where(changes.c.revision <= old[-1]))
        connection.execute(update(revision).values(oldest=old[-1]))
    return len(old)


def current(connection: Connection) -> Revision:
    """The last change."""
    return Revision(_CURRENT.one(connection)[0])


def current_declared(connection: Connection) -> Revision:
    """The last change that clusters must hear of."""
    return Revision(_DECLARED_NOW.one(connection)[0])


def organization_revision(connection: Connection) -> int:
    """The last change of the organization."""
    return int(_ORGANIZATION.column(connection)[0])


def is_forgotten(connection: Connection, after: int) -> bool:
    """Whether changes after this one are no longer listed."""
    return after < declared_span(connection).oldest


@dataclass(frozen=True, slots=True)
class DeclaredSpan:
    """Which changes of declarations are listed."""

    oldest: int
    """Changes after this revision are."""
    revision: Revision
    """The last one that clusters must hear of."""
    organization: int
    """The last change of the organization."""

    def is_whole(self, after: int) -> bool:
        """Whether a cluster that has read up to a revision must read everything."""
        return not max(1, self.oldest) <= after <= self.revision


def declared_span(connection: Connection) -> DeclaredSpan:
    row = _DECLARED_NOW.one(connection)
    return DeclaredSpan(row.oldest, Revision(row.declared), row.organization)


def after(connection: Connection, number: int, most: int = 500) -> list[Changed]:
    """What changed after a revision, in order."""
    rows = _AFTER.rows(connection, {"after": number, "most": most})
    return [Changed(row.revision, row.noun, row.id, row.project, row.verb) for row in rows]


def declared_after(connection: Connection, number: int) -> list[tuple[str, str]]:
    """What a cluster that has read up to a revision must hear of: noun and id, each once."""
    return [(row.noun, row.id) for row in _DECLARED.rows(connection, {"after": number})]

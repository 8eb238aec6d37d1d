"""SQL for credentials. Only `sealed_of` reads their values, which are encrypted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, delete, false, func, insert, or_, select, true, update

from fairpool.control.store.tables import credentials

_SHOWN = [column for column in credentials.c if column.key != "sealed"]
SORTABLE = ("name", "kind", "scope", "created_by", "created_at", "updated_at")

Sight = Mapping[str, Collection[str]] | None
"""The scopes that a caller may see, by their kind; None: all."""


def _seen(sight: Sight) -> ColumnElement[bool]:
    if sight is None:
        return true()
    own = [
        and_(credentials.c.scope == scope, credentials.c.scope_id.in_(sorted(ids))) if ids else false()
        for scope, ids in sight.items()
    ]
    return or_(credentials.c.scope == "tenant", credentials.c.cluster_wide, *own)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which credentials are asked for; empty: any."""

    kind: str = ""
    search: str = ""
    name: str = ""
    scope: str = ""
    scopes: tuple[tuple[str, str], ...] = ()
    """Kinds of scopes and their ids, all of which it must be of."""

    def where(self, sight: Sight) -> ColumnElement[bool]:
        table = credentials.c
        return and_(
            _seen(sight),
            table.kind == self.kind if self.kind else true(),
            table.name == self.name if self.name else true(),
            table.name.icontains(self.search, autoescape=True) if self.search else true(),
            table.scope == self.scope if self.scope else true(),
            *(and_(table.scope == scope, table.scope_id == scope_id) for scope, scope_id in self.scopes),
        )


ANY = Wanted()


def some(
    connection: Connection,
    sight: Sight,
    wanted: Wanted,
    *,
    sort_by: str = "name",
    descending: bool = False,
    offset: int = 0,
    limit: int,
) -> list[Any]:
    """A page of those that a caller may see."""
    by = credentials.c[sort_by]
    order = (by.desc() if descending else by, credentials.c.name, credentials.c.id)
    where = wanted.where(sight)
    return list(connection.execute(select(*_SHOWN).where(where).order_by(*order).offset(offset).limit(limit)))


def count(connection: Connection, sight: Sight = None, wanted: Wanted = ANY) -> int:
    where = wanted.where(sight)
    return int(connection.execute(select(func.count()).select_from(credentials).where(where)).scalar_one())


def one(connection: Connection, credential_id: str) -> Any:
    """A credential without its values; None: there is none."""
    return connection.execute(select(*_SHOWN).where(credentials.c.id == credential_id)).one_or_none()


def in_scope_of(connection: Connection, project: Any, names: Collection[str], kinds: Collection[str] = ()) -> list[Any]:
    """Those that a project can use, of these names or ids, or of these kinds."""
    own = {"cluster": project.cluster, "department": project.department, "project": project.name}
    sight = {scope: (scope_id,) for scope, scope_id in own.items()}
    asked = sorted(names)
    named = or_(credentials.c.name.in_(asked), credentials.c.id.in_(asked)) if names else credentials.c.kind.in_(kinds)
    return list(connection.execute(select(*_SHOWN).where(_seen(sight), named)))


def sealed_of(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """The encrypted values of these, by id."""
    found = connection.execute(select(credentials.c.id, credentials.c.sealed).where(credentials.c.id.in_(sorted(ids))))
    return {row.id: row.sealed for row in found}


def named(connection: Connection, scope: str, scope_id: str, name: str) -> Any:
    """The one of exactly this scope and name; None: there is none."""
    where = (credentials.c.name == name, credentials.c.scope == scope, credentials.c.scope_id == scope_id)
    return connection.execute(select(*_SHOWN).where(*where)).one_or_none()


def add(connection: Connection, **values: object) -> None:
    connection.execute(insert(credentials).values(**values))


def change(connection: Connection, credential_id: str, **values: object) -> None:
    connection.execute(update(credentials).where(credentials.c.id == credential_id).values(**values))


def remove(connection: Connection, credential_id: str) -> None:
    connection.execute(delete(credentials).where(credentials.c.id == credential_id))


def remove_scope(connection: Connection, scope: str, scope_id: str) -> None:
    """Those of a project, department or cluster that was deleted."""
    connection.execute(delete(credentials).where(credentials.c.scope == scope, credentials.c.scope_id == scope_id))

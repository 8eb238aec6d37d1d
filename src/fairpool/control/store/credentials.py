"""SQL for credentials. Only `sealed_of` reads their values, which are encrypted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
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


def _wanted(sight: Sight, kind: str, search: str, name: str) -> ColumnElement[bool]:
    return and_(
        _seen(sight),
        credentials.c.kind == kind if kind else true(),
        credentials.c.name == name if name else true(),
        credentials.c.name.icontains(search, autoescape=True) if search else true(),
    )


def some(
    connection: Connection,
    sight: Sight,
    *,
    kind: str = "",
    search: str = "",
    name: str = "",
    sort_by: str = "name",
    descending: bool = False,
    offset: int = 0,
    limit: int,
) -> list[Any]:
    """A page of those that a caller may see."""
    by = credentials.c[sort_by]
    order = (by.desc() if descending else by, credentials.c.name, credentials.c.id)
    where = _wanted(sight, kind, search, name)
    return list(connection.execute(select(*_SHOWN).where(where).order_by(*order).offset(offset).limit(limit)))


def count(connection: Connection, sight: Sight = None, *, kind: str = "", search: str = "", name: str = "") -> int:
    where = _wanted(sight, kind, search, name)
    return int(connection.execute(select(func.count()).select_from(credentials).where(where)).scalar_one())


def one(connection: Connection, credential_id: str) -> Any:
    """A credential without its values; None: there is none."""
    return connection.execute(select(*_SHOWN).where(credentials.c.id == credential_id)).one_or_none()


def in_scope_of(connection: Connection, project: Any, names: Collection[str], kinds: Collection[str] = ()) -> list[Any]:
    """Those that a project can use, of these names or kinds."""
    own = {"cluster": project.cluster, "department": project.department, "project": project.name}
    sight = {scope: (scope_id,) for scope, scope_id in own.items()}
    named = credentials.c.name.in_(sorted(names)) if names else credentials.c.kind.in_(sorted(kinds))
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

"""SQL for volume claims."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from fairpool.control.store.tables import claims


def all_of(connection: Connection, project: str) -> list[Any]:
    """The claims of a project, by name."""
    return list(connection.execute(select(claims).where(claims.c.project == project).order_by(claims.c.name)))


def names(connection: Connection, project: str) -> frozenset[str]:
    """The names of those that a project has."""
    return frozenset(connection.execute(select(claims.c.name).where(claims.c.project == project)).scalars())


def forget(connection: Connection, project: str) -> None:
    """Those of an earlier project of this name."""
    connection.execute(delete(claims).where(claims.c.project == project))


def note(connection: Connection, project: str, made: Iterable[tuple[str, str]], by: str, now: int) -> None:
    """Names and sizes of claims that a project has from now on; those that it had stay as they are."""
    known = names(connection, project)
    rows = [
        {"project": project, "name": name, "size": size, "created_at": now, "created_by": by}
        for name, size in dict(made).items()
        if name not in known
    ]
    if rows:
        connection.execute(insert(claims), rows)

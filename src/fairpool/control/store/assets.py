"""SQL for assets."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, func, insert, or_, select, update

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import assets

TEMPLATE = "workload-template"

_IN_SCOPE = or_(
    assets.c.scope == "tenant",
    and_(assets.c.scope == "cluster", assets.c.scope_id == bindparam("cluster")),
    and_(assets.c.scope == "department", assets.c.scope_id == bindparam("department")),
    and_(assets.c.scope == "project", assets.c.scope_id == bindparam("project")),
)
_OF_PROJECT = select(assets).where(assets.c.kind == bindparam("kind"), _IN_SCOPE)
_ADMINISTRATIVE = Compiled(_OF_PROJECT.where(assets.c.administrative))
_USABLE = Compiled(_OF_PROJECT)
_NAMED = Compiled(_OF_PROJECT.where(or_(assets.c.name == bindparam("name"), assets.c.id == bindparam("name"))))
_ALL = Compiled(select(assets).where(assets.c.kind == bindparam("kind")).order_by(assets.c.name, assets.c.id))
_ONE = Compiled(select(assets).where(assets.c.kind == bindparam("kind"), assets.c.id == bindparam("id")))


def _place(project: Any) -> dict[str, str]:
    return {"cluster": project.cluster, "department": project.department, "project": project.name}


def administrative_of(connection: Connection, project: Any) -> list[Any]:
    """The administrative templates that hold for a project."""
    return _ADMINISTRATIVE.rows(connection, {"kind": TEMPLATE, **_place(project)})


def named(connection: Connection, project: Any, name: str) -> list[Any]:
    """Templates of this name or id that a project can use, of all scopes."""
    return _NAMED.rows(connection, {"kind": TEMPLATE, "name": name, **_place(project)})


def of_project(connection: Connection, project: Any) -> list[Any]:
    """Templates that a project can use, of all scopes."""
    return _USABLE.rows(connection, {"kind": TEMPLATE, **_place(project)})


def all_of(connection: Connection, kind: str) -> list[Any]:
    """By name."""
    return _ALL.rows(connection, {"kind": kind})


def one(connection: Connection, kind: str, asset_id: str) -> Any:
    """An asset; None: there is none."""
    return _ONE.one(connection, {"kind": kind, "id": asset_id})


def in_scope(connection: Connection, kind: str, scope: str, scope_id: str) -> list[Any]:
    """Those of exactly this scope."""
    where = (assets.c.kind == kind, assets.c.scope == scope, assets.c.scope_id == scope_id)
    return list(connection.execute(select(assets).where(*where)))


def count(connection: Connection, kind: str) -> int:
    return int(connection.execute(select(func.count()).where(assets.c.kind == kind)).scalar_one())


def add(connection: Connection, **values: object) -> None:
    connection.execute(insert(assets).values(**values))


def change(connection: Connection, asset_id: str, **values: object) -> None:
    connection.execute(update(assets).where(assets.c.id == asset_id).values(**values))


def remove(connection: Connection, asset_id: str) -> None:
    connection.execute(delete(assets).where(assets.c.id == asset_id))


def remove_scope(connection: Connection, scope: str, scope_id: str) -> None:
    """Those of a project, department or cluster that was deleted."""
    connection.execute(delete(assets).where(assets.c.scope == scope, assets.c.scope_id == scope_id))

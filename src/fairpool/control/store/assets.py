"""SQL for assets."""

from __future__ import annotations

from collections.abc import Sequence
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

_OF_SCOPE = select(assets).where(
    assets.c.kind == bindparam("kind"),
    assets.c.scope == bindparam("scope"),
    assets.c.scope_id == bindparam("scope_id"),
)
_TAKEN = Compiled(_OF_SCOPE.where(assets.c.name == bindparam("name")))
_ADMINISTRATIVE_IN = Compiled(_OF_SCOPE.where(assets.c.administrative))


def place_of(project: Any) -> dict[str, str]:
    """The scopes that a project is in."""
    return {"cluster": project.cluster, "department": project.department, "project": project.name}


def administrative_of(connection: Connection, project: Any) -> list[Any]:
    """The administrative templates that hold for a project."""
    return _ADMINISTRATIVE.rows(connection, {"kind": TEMPLATE, **place_of(project)})


def named(connection: Connection, kind: str, place: dict[str, str], name: str) -> list[Any]:
    """Assets of this name or id that can be used in a place, of all scopes."""
    return _NAMED.rows(connection, {"kind": kind, "name": name, **place})


def usable(connection: Connection, kind: str, place: dict[str, str]) -> list[Any]:
    """Assets that can be used in a place, of all scopes."""
    return _USABLE.rows(connection, {"kind": kind, **place})


def all_of(connection: Connection, kind: str) -> list[Any]:
    """By name."""
    return _ALL.rows(connection, {"kind": kind})


def one(connection: Connection, kind: str, asset_id: str) -> Any:
    """An asset; None: there is none."""
    return _ONE.one(connection, {"kind": kind, "id": asset_id})


def names_of(connection: Connection, ids: Sequence[str]) -> dict[str, str]:
    """The names of assets of any kind, by id."""
    rows = connection.execute(select(assets.c.id, assets.c.name).where(assets.c.id.in_(ids)))
    return {row.id: row.name for row in rows}


def taken(connection: Connection, kind: str, scope: dict[str, str], name: str) -> Any:
    """The asset that has this name in exactly this scope; None: there is none."""
    return _TAKEN.one(connection, {"kind": kind, "name": name, **scope})


def administrative_in(connection: Connection, scope: dict[str, str]) -> Any:
    """The administrative template of exactly this scope; None: there is none."""
    return _ADMINISTRATIVE_IN.one(connection, {"kind": TEMPLATE, **scope})


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

"""SQL for config maps."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from fairpool.control.store.tables import config_maps


def all_of(connection: Connection, project: str) -> list[Any]:
    """Those of a project, by name."""
    query = select(config_maps).where(config_maps.c.project == project)
    return list(connection.execute(query.order_by(config_maps.c.name)))


def some(connection: Connection, project: str, names: Iterable[str]) -> list[Any]:
    """Those of a project that have one of these names."""
    query = select(config_maps).where(config_maps.c.project == project, config_maps.c.name.in_(sorted(names)))
    return list(connection.execute(query))


def one(connection: Connection, project: str, name: str) -> Any:
    """A config map; None: there is none."""
    query = select(config_maps).where(config_maps.c.project == project, config_maps.c.name == name)
    return connection.execute(query).one_or_none()


def count(connection: Connection, project: str) -> int:
    query = select(func.count()).where(config_maps.c.project == project)
    return int(connection.execute(query).scalar_one())


def add(connection: Connection, **values: object) -> None:
    connection.execute(insert(config_maps).values(**values))


def change(connection: Connection, project: str, name: str, **values: object) -> None:
    where = (config_maps.c.project == project, config_maps.c.name == name)
    connection.execute(update(config_maps).where(*where).values(**values))


def remove(connection: Connection, project: str, name: str) -> None:
    connection.execute(delete(config_maps).where(config_maps.c.project == project, config_maps.c.name == name))


def forget(connection: Connection, project: str) -> None:
    """Those of a deleted project."""
    connection.execute(delete(config_maps).where(config_maps.c.project == project))

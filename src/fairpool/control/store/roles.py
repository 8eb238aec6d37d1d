"""SQL for custom roles, and the actions that the role of a stored access rule permits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.engine import Row

from fairpool.api.roles import ResourceType, Verb
from fairpool.control.builtin_roles import BUILT_IN
from fairpool.control.rbac import CELLS, Action, Cell, actions_of
from fairpool.control.store.tables import access_rules, roles

NOTHING: frozenset[Action] = frozenset()


def permitted(key: str, permissions: str | None, enabled: bool | None) -> frozenset[Action]:
    """What the role of this key permits; a custom one comes with its columns."""
    role = BUILT_IN.get(key)
    if role is not None:
        return actions_of(role.cells)
    return actions_of(cells_of(permissions)) if permissions is not None and enabled else NOTHING


@lru_cache(maxsize=1024)
def cells_of(permissions: str) -> frozenset[Cell]:
    """The cells of a stored role; those that no longer exist permit nothing."""
    named = {Cell(ResourceType(row), Verb(column)) for row, column in json.loads(permissions) if _is_known(row, column)}
    return frozenset(named) & CELLS


def text_of(cells: Iterable[Cell]) -> str:
    return json.dumps([[cell.resource.value, cell.verb.value] for cell in sorted(cells)])


def _is_known(resource: str, verb: str) -> bool:
    return resource in ResourceType.__members__.values() and verb in Verb.__members__.values()


def all_roles(connection: Connection) -> list[Row[Any]]:
    return list(connection.execute(select(roles).order_by(roles.c.id)))


def role(connection: Connection, key: str) -> Row[Any] | None:
    return connection.execute(select(roles).where(roles.c.key == key)).one_or_none()


def role_by_name(connection: Connection, name_key: str) -> Row[Any] | None:
    return connection.execute(select(roles).where(roles.c.name_key == name_key)).one_or_none()


def add_role(connection: Connection, **values: Any) -> None:
    connection.execute(insert(roles).values(**values))


def change_role(connection: Connection, key: str, **values: Any) -> None:
    connection.execute(update(roles).where(roles.c.key == key).values(**values))


def delete_role(connection: Connection, key: str) -> None:
    connection.execute(delete(roles).where(roles.c.key == key))


def use_count(connection: Connection, key: str) -> int:
    """The number of access rules that assign a role."""
    query = select(func.count()).select_from(access_rules).where(access_rules.c.role == key)
    return int(connection.execute(query).scalar_one())

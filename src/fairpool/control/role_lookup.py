"""Roles by id or name, built-in and custom ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fairpool.api.access import ScopeType
from fairpool.api.roles import role_key
from fairpool.control.builtin_roles import BUILT_IN, FIRST_CUSTOM_ID, BuiltInRole, built_in
from fairpool.control.rbac import Action, Cell, Grant, actions_of
from fairpool.control.refusal import refused
from fairpool.control.store import roles as store
from fairpool.control.store.database import Connection
from fairpool.model.spelling import did_you_mean

NO_ACTIONS: frozenset[Action] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRole:
    """A role, built-in or custom."""

    id: int
    key: str
    name: str
    description: str
    cells: frozenset[Cell]
    is_custom: bool = False
    is_enabled: bool = True
    created_at: int | None = None
    created_by: str = ""
    updated_at: int | None = None

    @property
    def actions(self) -> frozenset[Action]:
        return actions_of(self.cells) if self.is_enabled else NO_ACTIONS

    @property
    def label(self) -> str:
        """As commands call it: the key of a built-in one, the name of a custom one."""
        return self.name if self.is_custom else self.key

    def grant(self, scope_type: ScopeType, scope_id: str = "") -> Grant:
        return Grant(self.key, self.actions, scope_type, scope_id)


def all_roles(connection: Connection) -> list[KnownRole]:
    """The built-in ones, then the custom ones, by id."""
    return [*(_of_built_in(each) for each in BUILT_IN.values()), *(_of_row(row) for row in store.all_roles(connection))]


def roles_by_key(connection: Connection) -> dict[str, KnownRole]:
    return {role.key: role for role in all_roles(connection)}


def role_labels(connection: Connection, grants: Iterable[Grant]) -> list[str]:
    """The roles of grants, each once, as commands call them."""
    known = roles_by_key(connection)
    return sorted({known[each.role].label for each in grants if each.role in known})


def found_role(connection: Connection, name: str | int) -> KnownRole | None:
    """The role of this id, key or name."""
    text = str(name)
    known = built_in(text)
    if known is not None:
        return _of_built_in(known)
    is_id = text.isascii() and text.isdigit() and len(text) >= len(str(FIRST_CUSTOM_ID))
    row = store.role(connection, text) if is_id else store.role_by_name(connection, role_key(text))
    return _of_row(row) if row is not None else None


def known_role(connection: Connection, name: str | int, field: str = "roleId") -> KnownRole:
    """The same; refuses one that does not exist."""
    role = found_role(connection, name)
    if role is None:
        names = [each.label for each in all_roles(connection)]
        hint = did_you_mean(str(name), names, f"use one of {', '.join(names)}")
        raise refused(422, "role.unknown", f"there is no role {str(name)[:64]!r}", hint, field)
    return role


def _of_built_in(role: BuiltInRole) -> KnownRole:
    return KnownRole(id=role.id, key=role.key, name=role.name, description=role.description, cells=role.cells)


def _of_row(row: Any) -> KnownRole:
    return KnownRole(
        id=row.id,
        key=row.key,
        name=row.name,
        description=row.description,
        cells=store.cells_of(row.permissions),
        is_custom=True,
        is_enabled=row.enabled,
        created_at=row.created_at,
        created_by=row.created_by,
        updated_at=row.updated_at,
    )

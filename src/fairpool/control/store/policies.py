"""SQL for policies."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, insert, or_, select, update

from fairpool.control.store.compiled import Compiled
from fairpool.control.store.tables import policies

_OF_PROJECT = Compiled(
    select(policies).where(
        policies.c.kind == bindparam("kind"),
        or_(
            policies.c.scope == "tenant",
            and_(policies.c.scope == "cluster", policies.c.scope_id == bindparam("cluster")),
            and_(policies.c.scope == "department", policies.c.scope_id == bindparam("department")),
            and_(policies.c.scope == "project", policies.c.scope_id == bindparam("project")),
        ),
    )
)
_ONE = Compiled(
    select(policies).where(
        policies.c.kind == bindparam("kind"),
        policies.c.scope == bindparam("scope"),
        policies.c.scope_id == bindparam("scope_id"),
    )
)


def in_place(connection: Connection, kind: str, place: dict[str, str]) -> list[Any]:
    """The policies for a kind of workload that hold in a place: `cluster`, `department` and `project`."""
    return _OF_PROJECT.rows(connection, {"kind": kind, **place})


def one(connection: Connection, kind: str, scope: dict[str, str]) -> Any:
    """The policy of exactly this scope; None: there is none."""
    return _ONE.one(connection, {"kind": kind, **scope})


def all_of(connection: Connection, kind: str = "") -> list[Any]:
    """Every policy, of one kind if it is named."""
    asked = select(policies).where(policies.c.kind == kind) if kind else select(policies)
    return list(connection.execute(asked.order_by(policies.c.kind, policies.c.name, policies.c.id)))


def naming(connection: Connection, asset_id: str) -> list[Any]:
    """Policies whose document contains the id of an asset."""
    return [row for row in all_of(connection) if f'"{asset_id}"' in row.document]


def add(connection: Connection, **values: object) -> None:
    connection.execute(insert(policies).values(**values))


def change(connection: Connection, policy_id: str, **values: object) -> None:
    connection.execute(update(policies).where(policies.c.id == policy_id).values(**values))


def remove(connection: Connection, policy_id: str) -> None:
    connection.execute(delete(policies).where(policies.c.id == policy_id))


def remove_scope(connection: Connection, scope: str, scope_id: str) -> None:
    """Those of a project, department or cluster that was deleted."""
    connection.execute(delete(policies).where(policies.c.scope == scope, policies.c.scope_id == scope_id))

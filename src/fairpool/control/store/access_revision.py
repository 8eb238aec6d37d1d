"""Access revision: another number after each change of what callers are made of.

A caller (`control/guard.py`) is made of a token, its session, its user or program, their groups, roles and rules, and
what these refer to. Processes remember callers, and ask for this number to know whether others changed one. It is set
where statements are executed and in the same transaction, so that no writer has to think of it and none can forget it.
A statement that leaves every caller as it was is marked as such (`same_callers`).

The number is random: a server that takes over may go on from an earlier state, where a count would be given out again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Connection, Delete, Engine, Insert, Table, Update, event, select, update

from fairpool.control.store.tables import revision

S = TypeVar("S", Update, Delete)

WITH_TOKEN: Final = frozenset({"tokens", "sessions", "users", "applications", "access_keys", "clusters"})
"""Tables whose new rows concern nobody: a caller who is remembered has rows in them already."""
MADE_OF: Final = WITH_TOKEN | {"access_rules", "roles", "user_groups", "provider_accounts", "preferences", "projects"}
"""Tables that callers are made of."""
BITS: Final = 62
_SAME: Final = "same_callers"

_READ = select(revision.c.access).where(revision.c.id == 1)


@dataclass(slots=True)
class _Watch:
    """What a unit does to callers."""

    on_change: Callable[[int], None]
    is_changed: bool = False


_WATCH: ContextVar[_Watch | None] = ContextVar("access", default=None)


@contextmanager
def watched(on_change: Callable[[int], None]) -> Iterator[None]:
    """Give the database another number, and call this with it, once callers may change by what is written within."""
    token = _WATCH.set(_Watch(on_change))
    try:
        yield
    finally:
        _WATCH.reset(token)


def current(connection: Connection) -> int:
    return int(connection.execute(_READ).scalar_one())


def change(connection: Connection) -> None:
    """From within a unit: callers are others from its commit on."""
    watch = _WATCH.get()
    if watch is None or watch.is_changed:
        return
    number = secrets.randbits(BITS)
    connection.execute(update(revision).where(revision.c.id == 1).values(access=number))
    watch.is_changed = True
    watch.on_change(number)


def same_callers(statement: S) -> S:
    """A statement on one of these tables that writes nothing which callers are made of."""
    return statement.execution_options(**{_SAME: True})


def changes_callers(statement: Any) -> bool:
    """Whether callers may be others after this statement."""
    if not isinstance(statement, Insert | Update | Delete):
        return False
    name = cast(Table, statement.table).name
    if name not in MADE_OF or statement.get_execution_options().get(_SAME):
        return False
    return not (isinstance(statement, Insert) and name in WITH_TOKEN)


@event.listens_for(Engine, "before_execute")
def _executing(connection: Connection, clause: Any, _: Sequence[Any], __: Any, ___: Any) -> None:
    """Statements that were not compiled beforehand; for those that were, see `compiled.py`."""
    if changes_callers(clause):
        change(connection)

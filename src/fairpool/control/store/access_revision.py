"""Access revision: other numbers after each change of what callers are made of.

A caller (`control/guard.py`) is made of a token, its session, its user or program, their groups, roles and rules, and
what these refer to. Processes remember callers, and ask for these numbers to know whether one was changed. They are set
where statements are executed and in the same transaction, so that no writer has to think of it and none can forget it.
A statement that leaves every caller as it was is marked as such (`same_callers`). There is a number of its own for
tokens that were revoked, which happens all day: those that are left have the same callers then.

The numbers are random: a server that takes over may go on from an earlier state, where a count would be used again.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar, cast

from sqlalchemy import Column, Connection, Delete, Engine, Insert, Table, Update, event, select, update

from fairpool.control.store.tables import revision, tokens

S = TypeVar("S", Update, Delete)

ENDED_WITH_TOKEN: Final = frozenset({"tokens", "sessions"})
"""Tables whose rows are deleted together when a session is ended."""
WITH_TOKEN: Final = ENDED_WITH_TOKEN | {"users", "applications", "access_keys", "clusters"}
"""Tables whose new rows change no caller: one who is remembered has rows in them already."""
MADE_OF: Final = WITH_TOKEN | {"access_rules", "roles", "user_groups", "provider_accounts", "preferences", "projects"}
"""Tables that callers are made of."""
BITS: Final = 62
HASHES_AT_ONCE: Final = 500
"""Parameters of a statement are limited."""
_SAME: Final = "same_callers"


class AccessRevision(NamedTuple):
    """What is another number after a change."""

    access: int
    """Of anything that callers are made of, but for"""
    revoked: int
    """tokens that were deleted with their sessions."""


_READ = select(revision.c.access, revision.c.revoked).where(revision.c.id == 1)


@dataclass(slots=True)
class _Watch:
    """What a unit does to callers."""

    on_change: Callable[[], None]
    changed: set[str] = field(default_factory=set)


_WATCH: ContextVar[_Watch | None] = ContextVar("access", default=None)


@contextmanager
def watched(on_change: Callable[[], None]) -> Iterator[None]:
    """Give the database other numbers, and call this, once callers may change by what is written within."""
    token = _WATCH.set(_Watch(on_change))
    try:
        yield
    finally:
        _WATCH.reset(token)


def current(connection: Connection) -> AccessRevision:
    return AccessRevision(*connection.execute(_READ).one())


def unrevoked(connection: Connection, hashes: Collection[str]) -> set[str]:
    """Those of these tokens that there are."""
    listed, found = list(hashes), set[str]()
    for start in range(0, len(listed), HASHES_AT_ONCE):
        some = tokens.c.hash.in_(listed[start : start + HASHES_AT_ONCE])
        found.update(connection.execute(select(tokens.c.hash).where(some)).scalars())
    return found


def change(connection: Connection, number: Column[int] = revision.c.access) -> None:
    """From within a unit: callers are others from its commit on."""
    watch = _WATCH.get()
    if watch is None or number.name in watch.changed:
        return
    connection.execute(update(revision).where(revision.c.id == 1).values({number: secrets.randbits(BITS)}))
    if not watch.changed:
        watch.on_change()
    watch.changed.add(number.name)


def same_callers(statement: S) -> S:
    """A statement on one of these tables that writes nothing which callers are made of."""
    return statement.execution_options(**{_SAME: True})


def changed_by(statement: Any) -> Column[int] | None:
    """The number that a statement changes; None: callers are the same after it."""
    if not isinstance(statement, Insert | Update | Delete):
        return None
    name = cast(Table, statement.table).name
    if name not in MADE_OF or statement.get_execution_options().get(_SAME):
        return None
    if isinstance(statement, Insert) and name in WITH_TOKEN:
        return None
    is_end = isinstance(statement, Delete) and name in ENDED_WITH_TOKEN
    return revision.c.revoked if is_end else revision.c.access


@event.listens_for(Engine, "before_execute")
def _executing(connection: Connection, clause: Any, _: Sequence[Any], __: Any, ___: Any) -> None:
    """Statements that were not compiled beforehand; for those that were, see `compiled.py`."""
    number = changed_by(clause)
    if number is not None:
        change(connection, number)

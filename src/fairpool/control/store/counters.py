"""SQL for numbers that are given out once: ids of access rules and custom roles."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select, update

from fairpool.control.store.tables import counters

ACCESS_RULES = "access-rule"
ROLES = "role"


def next_number(connection: Connection, name: str, first: int = 1) -> int:
    """A number that was never given out before; writes are one after the other, so that no two get the same."""
    last = connection.execute(select(counters.c.value).where(counters.c.name == name)).scalar_one_or_none()
    number = first if last is None else int(last) + 1
    if last is None:
        connection.execute(insert(counters).values(name=name, value=number))
    else:
        connection.execute(update(counters).where(counters.c.name == name).values(value=number))
    return number

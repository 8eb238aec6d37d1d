"""SQL for leases: what one of several processes does at a time. A lease that is not renewed ends by itself."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select, update

from fairpool.control.store.tables import leases
from fairpool.model.ids import Instant


def is_free(connection: Connection, name: str, holder: str, now: Instant) -> bool:
    """Whether no other holder has it."""
    others = leases.c.name == name, leases.c.holder != holder, leases.c.until > now
    return connection.execute(select(leases.c.name).where(*others)).first() is None


def take(connection: Connection, name: str, holder: str, now: Instant, until: int) -> bool:
    """Take or renew it; False: another holder has it."""
    if not is_free(connection, name, holder, now):
        return False
    values = {"holder": holder, "until": until}
    if not connection.execute(update(leases).where(leases.c.name == name).values(**values)).rowcount:
        connection.execute(insert(leases).values(name=name, **values))
    return True


def release(connection: Connection, name: str, holder: str) -> None:
    connection.execute(delete(leases).where(leases.c.name == name, leases.c.holder == holder))

"""SQL for counts of failed attempts, and for addresses that users have signed in from. Names are only hashes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256

from sqlalchemy import Connection, delete, insert, select, update

from fairpool.control.store.tables import attempts, known_addresses
from fairpool.model.ids import Instant

Count = tuple[int, Instant]
"""How many, and when the last one was."""


def counts(connection: Connection, names: Iterable[str]) -> dict[str, Count]:
    """Of those names that have one."""
    named = {_hash(each): each for each in names}
    found = connection.execute(select(attempts).where(attempts.c.hash.in_(named)))
    return {named[each.hash]: (each.times, Instant(each.at)) for each in found}


def set_counts(connection: Connection, wanted: Mapping[str, Count | None]) -> None:
    """None: the name has no count any more."""
    for name, count in wanted.items():
        mine = attempts.c.hash == _hash(name)
        if count is None:
            connection.execute(delete(attempts).where(mine))
            continue
        values = {"times": count[0], "at": count[1]}
        if not connection.execute(update(attempts).where(mine).values(**values)).rowcount:
            connection.execute(insert(attempts).values(hash=_hash(name), **values))


def is_known(connection: Connection, name: str) -> bool:
    """Whether a user has signed in from an address; the name is of both."""
    return connection.execute(select(known_addresses).where(known_addresses.c.hash == _hash(name))).first() is not None


def know(connection: Connection, name: str, now: Instant) -> None:
    mine = known_addresses.c.hash == _hash(name)
    if not connection.execute(update(known_addresses).where(mine).values(at=now)).rowcount:
        connection.execute(insert(known_addresses).values(hash=_hash(name), at=now))


def drop_old(connection: Connection, before: int, known_before: int, most: int) -> int:
    """Forget counts whose last attempt was before then, and addresses that no sign-in came from since; how many."""
    gone = 0
    for table, then in ((attempts, before), (known_addresses, known_before)):
        old = select(table.c.hash).where(table.c.at < then).limit(most)
        gone = max(gone, connection.execute(delete(table).where(table.c.hash.in_(old))).rowcount)
    return gone


def _hash(name: str) -> str:
    return sha256(name.encode("utf-8", "backslashreplace")).hexdigest()

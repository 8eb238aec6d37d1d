"""Which keys the processes of one database use: fingerprints, from which no key can be found."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from fairpool.control.store.tables import shared_keys
from fairpool.model.ids import Instant


def agreed(connection: Connection, name: str, fingerprint: str, now: Instant) -> str:
    """The fingerprint of the key of this name; ours, if no process has said one before."""
    found = connection.execute(select(shared_keys.c.fingerprint).where(shared_keys.c.name == name)).scalar()
    if found is None:
        connection.execute(insert(shared_keys).values(name=name, fingerprint=fingerprint, created_at=now))
    return fingerprint if found is None else str(found)

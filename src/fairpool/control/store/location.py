"""Where the control plane's database is: a file in the data directory, or a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

from fairpool.control.store.database import Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.sqlite import Sqlite

FILE = "control.sqlite"


def database_at(location: str, data: Path) -> Database:
    """The database at a location; an empty one is the file in the data directory."""
    if not location:
        return LocalDatabase(Sqlite(data / FILE))
    from fairpool.control.store.postgresql_database import PostgresDatabase  # takes some MiB

    return PostgresDatabase(location)

"""Databases that are only looked at, all at one moment: nothing in them is written, and no table is brought up to date.

For `fairpool database`, also while servers use them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.parse import quote

from sqlalchemy import Connection, create_engine, text
from sqlalchemy.pool import StaticPool

from fairpool.control.store import sqlite
from fairpool.control.store.event_loop_thread import EventLoopThread

T = TypeVar("T")

APPLICATION = "fairpool database"
"""How the server shows our connections: not as those of a control plane."""
BUSY_S = 5.0


class ReadOnlyDatabase(Protocol):
    """A database that is read."""

    def read(self, unit: Callable[[Connection], T]) -> T:
        """What is written, at one moment. Raises `Unavailable`. May be called from any thread, one at a time."""

    def users(self) -> int:
        """How many connections control planes have to it, as far as the database system tells."""

    def close(self) -> None: ...


class SqliteReader:
    """A file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._engine = create_engine("sqlite://", poolclass=StaticPool, creator=self._connect)

    def _connect(self) -> sqlite3.Connection:
        address = f"file:{quote(str(self._path))}?mode=ro"
        made = sqlite3.connect(address, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        made.execute("PRAGMA trusted_schema = OFF")
        return made

    def read(self, unit: Callable[[Connection], T]) -> T:
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql("BEGIN")
                try:
                    return unit(connection)
                finally:
                    connection.exec_driver_sql("ROLLBACK")
        except Exception as error:
            problem = sqlite.unavailable(error, self._path)
            if problem is None:
                raise
            raise problem from error

    def users(self) -> int:
        return 0

    def close(self) -> None:
        self._engine.dispose()


class PostgresReader:
    """A database on a server, with a thread for the event loop that its connection belongs to."""

    def __init__(self, location: str) -> None:
        from fairpool.control.store.postgresql import PostgresLinks, described

        self._where = described(location)
        self._thread = EventLoopThread("read")
        self._links = PostgresLinks(location, APPLICATION)

    def read(self, unit: Callable[[Connection], T]) -> T:
        from fairpool.control.store.postgresql_errors import unavailable

        try:
            return self._thread.run(self._links.read(unit))
        except Exception as error:
            problem = unavailable(error, self._where)
            if problem is None:
                raise
            raise problem from error

    def users(self) -> int:
        from fairpool.control.store.postgresql import APPLICATION as CONTROL_PLANE

        query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = :name"
        return self.read(lambda connection: int(connection.execute(text(query), {"name": CONTROL_PLANE}).scalar_one()))

    def close(self) -> None:
        self._thread.run(self._links.close())
        self._thread.stop()


def reader_of(location: str, file: Path) -> ReadOnlyDatabase:
    """The database at an address; where that is empty, the file."""
    return PostgresReader(location) if location else SqliteReader(file)

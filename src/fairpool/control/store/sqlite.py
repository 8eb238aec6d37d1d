"""SQLite as the control plane's database: connections, transactions, and what its errors mean.

Left to itself the driver begins no transaction before the first write, and so loses updates: here it is told when.
Statements that begin and end transactions go to the driver itself, at a tenth of SQLAlchemy's price.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from fairpool.control.store.unavailable import BUSY, DAMAGED, FAILING, FULL, MOVED, READ_ONLY, Unavailable

T = TypeVar("T")

LOCK_SLICE_MS = 200
"""How long `wait_to_write` waits for the lock at a time."""
READ_BUSY_MS = 250
"""Readers of a write-ahead log hardly ever wait, and while they do the event loop does."""
APPLICATION_ID = 0x46504354
"""Says in the file's header that it is a control database of Fairpool. Files of the first versions have none."""

PRAGMAS = ("journal_mode=WAL", "foreign_keys=ON", "cache_size=-65536")


class Synchronous(StrEnum):
    """What a committed transaction survives."""

    FULL = "FULL"
    """A power failure."""
    NORMAL = "NORMAL"
    """The end of the process, however it ends."""


def driver_of(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection."""
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


class Sqlite:
    """A file, or tables in memory where there is no path. Implements `database.DatabaseDriver`."""

    def __init__(self, path: Path | None, synchronous: Synchronous = Synchronous.FULL) -> None:
        self.path = path
        self._synchronous = synchronous
        self._engines: list[Engine] = []
        self._connections: list[Connection] = []
        self._apart: Connection | None = None
        self._files: list[int] = []
        """Which files were opened, by their inodes."""

    def open(self, prepare: Callable[[Connection], None], busy_s: float) -> tuple[Connection, Connection]:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        writing = self._connect(int(busy_s * 1000))
        self._writer = driver_of(writing)
        self._writer.execute("BEGIN IMMEDIATE")
        try:
            prepare(writing)  # ends the transaction by itself
        finally:
            self.roll_back()
        # Also where it is so already: a write is the only proof that the file can be written.
        self._writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        self._writer.execute("PRAGMA busy_timeout = 0")
        reading = writing if self.path is None else self._connect(READ_BUSY_MS)
        self._reader = driver_of(reading)
        self._files = self._identities()
        return writing, reading

    def close(self) -> None:
        for connection in reversed(self._connections):
            with suppress(Exception):  # a damaged file cannot always be closed in good order
                connection.close()
        for engine in self._engines:
            with suppress(Exception):
                engine.dispose()

    def begin_read(self) -> None:
        self._reader.execute("BEGIN")

    def end_read(self) -> None:
        if self._reader.in_transaction:  # after some errors SQLite has ended it by itself
            self._reader.execute("COMMIT")

    def read_apart(self, unit: Callable[[Connection], T]) -> T:
        assert self.path is not None, "tables in memory have one connection"
        if self._apart is None:
            self._apart = self._connect(READ_BUSY_MS)
        reader = driver_of(self._apart)
        reader.execute("BEGIN")
        try:
            return unit(self._apart)
        finally:
            if reader.in_transaction:
                reader.execute("COMMIT")

    def begin_write(self) -> bool:
        try:
            self._writer.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if code_of(error) == BUSY:
                return False
            raise
        return True

    def wait_to_write(self) -> bool:
        self._writer.execute(f"PRAGMA busy_timeout = {LOCK_SLICE_MS}")
        try:
            return self.begin_write()
        finally:
            self._writer.execute("PRAGMA busy_timeout = 0")

    def busy(self) -> Unavailable:
        return Unavailable(BUSY, f"{self.path}: database is locked", self._lock_holder())

    def commit(self) -> None:
        self._writer.execute("COMMIT")
        if self.path is not None and self._identities() != self._files:
            raise Unavailable(MOVED, str(self.path))

    def roll_back(self) -> None:
        if self._writer.in_transaction:
            self._writer.execute("ROLLBACK")

    def savepoint(self) -> None:
        self._writer.execute("SAVEPOINT unit")

    def release(self) -> None:
        self._writer.execute("RELEASE unit")

    def undo_to_savepoint(self) -> None:
        self._writer.execute("ROLLBACK TO unit")
        self._writer.execute("RELEASE unit")

    def ends_transaction(self, error: Exception) -> bool:
        # A full disk may undo the whole transaction; on a damaged one the others have seen who knows what.
        return not self._writer.in_transaction or self._is_damage(error)

    def unavailable(self, error: BaseException) -> Unavailable | None:
        return unavailable(error, self.path)

    def _is_damage(self, error: Exception) -> bool:
        cause = error.orig if isinstance(error, DBAPIError) else error
        return isinstance(cause, sqlite3.Error) and code_of(cause) not in (None, BUSY)

    def _lock_holder(self) -> int | None:
        return None if self.path is None else write_lock_holder(self.path)

    def _identities(self) -> list[int]:
        try:
            return [os.stat(f"{self.path}{suffix}").st_ino for suffix in ("", "-wal")]
        except OSError:
            return []

    def _connect(self, busy_ms: int) -> Connection:
        engine = create_engine(
            "sqlite://" if self.path is None else f"sqlite:///{self.path}",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
        self._engines.append(engine)

        @event.listens_for(engine, "connect")
        def _on_connect(raw: sqlite3.Connection, _: object) -> None:
            raw.isolation_level = None
            for pragma in (f"busy_timeout={busy_ms}", f"synchronous={self._synchronous}", *PRAGMAS):
                raw.execute(f"PRAGMA {pragma}")

        connection = engine.connect()
        self._connections.append(connection)
        return connection


# --- errors ----------------------------------------------------------------------------------------------------

_CODES = {
    sqlite3.SQLITE_CORRUPT: DAMAGED,
    sqlite3.SQLITE_NOTADB: DAMAGED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_PERM: READ_ONLY,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_IOERR: FAILING,
    sqlite3.SQLITE_CANTOPEN: FAILING,
    sqlite3.SQLITE_BUSY: BUSY,
    sqlite3.SQLITE_LOCKED: BUSY,
    sqlite3.SQLITE_PROTOCOL: BUSY,
}
_NOT_TEXT = "Could not decode to UTF-8"
"""How the driver begins its complaint about text that is none; it has no code."""
_ROOM_BYTES = 1 << 20
"""With less than this left, an input/output error means that the disk is full: SQLite cannot always tell."""


def unavailable(error: BaseException, path: Path | None) -> Unavailable | None:
    """What an error of the driver, or of SQLAlchemy around one, means; None: it is none of these."""
    if isinstance(error, Unavailable):
        return error
    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, sqlite3.Error):
        return None
    code = code_of(cause)
    if code is None:
        return None
    if path is not None and code == FAILING and _has_no_room(path):
        code = FULL
    return Unavailable(code, f"{path}: {cause}", write_lock_holder(path) if path is not None and code == BUSY else None)


def code_of(error: sqlite3.Error) -> str | None:
    """The kind of problem that an error of the driver is; None: it is a bug, and stays what it is."""
    if str(error).startswith(_NOT_TEXT):
        return DAMAGED
    return _CODES.get(int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF)


def _has_no_room(path: Path) -> bool:
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        return disk.f_bavail * disk.f_frsize < _ROOM_BYTES
    return False


def write_lock_holder(path: Path) -> int | None:
    """Another process with a write lock on a database; None: none is found.

    From the kernel's table: to ask about a lock by opening the file would give up all locks that we hold on it.
    """
    inodes = set()
    for suffix in ("", "-shm", "-wal"):
        with suppress(OSError):
            inodes.add(os.stat(f"{path}{suffix}").st_ino)
    with suppress(OSError, ValueError):
        for line in Path("/proc/locks").read_text(encoding="ascii", errors="replace").splitlines():
            words = line.split()
            if len(words) < 6 or "->" in words or words[1] != "POSIX" or words[3] != "WRITE":
                continue
            pid, inode = int(words[4]), int(words[5].rpartition(":")[2])
            if inode in inodes and pid not in (os.getpid(), 0, -1):
                return pid
    return None

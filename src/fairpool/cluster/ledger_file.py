"""The ledger's SQLite file: open, check, migrate, and errors with advice.

The write-ahead log is beside it (`-wal`) until it is closed. A commit is on the disk when it returns. The file is not
vacuumed: freed pages are reused before it grows, and its size is bounded by the pods of the cluster and the cap on
events; vacuuming would cost writes in every cycle to save space that is needed again.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from fairpool.cluster.ledger_schema import APPLICATION_ID, VERSION, migrate, schema_version
from fairpool.cluster.ledger_store import Cell, LedgerProblem, LedgerUnavailable
from fairpool.model.problem import Problem

LOG_KEPT_BYTES = 16 * 1024 * 1024
"""The log is truncated to this at a checkpoint, after 1000 pages (about 4 MiB) unless a reader still needs it."""

CACHE_KIB = 32 * 1024

RETRY_S = 0.02

TRANSIENT = frozenset(
    {
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_PERM,
    }
)
"""Errors of the disk, not of the file. A file system that had an error is often read-only until it is repaired."""

UNREACHABLE = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})

DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

NOT_TEXT = "Could not decode to UTF-8"
"""How the driver's message about invalid text begins; it has no error code."""

START_ANEW = (
    "move the file away and restart Fairpool: running pods are found by their engine, waiting jobs are read from the "
    "control plane; do not restore an older copy, which does not match the pods that are running now"
)


class LedgerFile:
    """The store of a ledger in a file, or in memory."""

    def __init__(self, path: Path | None, busy_s: float) -> None:
        """Raises `LedgerProblem` or `LedgerUnavailable`."""
        self._path = path
        self.named = _named(path)
        self.connection = connect(path, busy_s)

    def begin(self) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        refuse_newer(schema_version(self.connection), self._path)  # it may have been migrated since it was opened

    def begin_reading(self) -> None:
        self.connection.execute("BEGIN")

    def commit(self) -> None:
        self.connection.execute("COMMIT")

    def roll_back(self) -> None:
        # After some errors SQLite has rolled back already.
        if self.connection.in_transaction:
            with suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")

    def rows(self, statement: str, *values: Cell) -> Iterable[tuple[Any, ...]]:
        return self.connection.execute(statement, values)

    def row(self, statement: str) -> tuple[Any, ...]:
        row: tuple[Any, ...] = self.connection.execute(statement).fetchone()
        return row

    def change(self, statement: str, *values: Cell) -> int:
        return self.connection.execute(statement, values).rowcount

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(statement, rows)

    def explained(self, error: BaseException) -> BaseException:
        return ledger_error(error, self._path) if isinstance(error, sqlite3.Error) else error

    def close(self) -> None:
        """With its log folded in."""
        self.connection.close()


def connect(path: Path | None, busy_s: float) -> sqlite3.Connection:
    """Open the ledger at a path, created if missing, with the tables of this version; None: in memory.

    Raises `LedgerProblem` or `LedgerUnavailable`.
    """
    if path is None:
        return _ready(_connection(":memory:", busy_s), None, busy_s)
    _create(path)
    connection = None
    try:
        connection = _connection(str(path), busy_s)
        return _ready(connection, path, busy_s)
    except BaseException as error:
        if connection is not None:
            connection.close()
        if isinstance(error, sqlite3.Error):
            raise opening_error(error, path) from error
        raise


def ledger_error(error: sqlite3.Error, path: Path | None) -> Exception:
    """The exception for an SQLite error while the ledger is in use; a programming error stays what it is."""
    code = _code(error)
    if str(error).startswith(NOT_TEXT):
        return LedgerProblem(_damaged(path, str(error)))
    if code in DAMAGED:
        return LedgerProblem(_damaged(path, str(error)))
    if code not in TRANSIENT:
        return error
    if code == sqlite3.SQLITE_FULL:
        return LedgerUnavailable(
            Problem("ledger.disk_full", f"no space left on the disk of {_named(path)}", "free some disk space")
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL):
        fix = "stop the other process; two clusters must not share a ledger"
        return LedgerUnavailable(Problem("ledger.busy", f"another process is using {_named(path)}", fix))
    fix = "check the disk and its file system, starting with the system log"
    return LedgerUnavailable(Problem("ledger.disk_failing", f"{_named(path)} cannot be read or written: {error}", fix))


def opening_error(error: sqlite3.Error, path: Path) -> Exception:
    """The same while it is opened: a file that cannot be reached or written was set up wrong."""
    if _code(error) in UNREACHABLE:
        return LedgerProblem(_unreachable(path, str(error)))
    return ledger_error(error, path)


def _connection(name: str, busy_s: float) -> sqlite3.Connection:
    # Transactions are begun and ended explicitly (isolation_level). The loop does not always run in the same thread,
    # but in one at a time.
    return sqlite3.connect(name, timeout=busy_s, isolation_level=None, check_same_thread=False, cached_statements=64)


def _create(path: Path) -> None:
    """Create an empty file that only its owner can read: environments of programs contain secrets."""
    if not path.parent.is_dir():
        fix = "create the directory, or choose one that exists"
        raise LedgerProblem(Problem("ledger.no_folder", f"the directory of {_named(path)} does not exist", fix))
    if path.exists() and not path.is_file():
        raise LedgerProblem(Problem("ledger.not_a_file", f"{_named(path)} is not a file", "choose a file"))
    with suppress(FileExistsError):
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        except FileExistsError:
            raise
        except OSError as error:
            raise LedgerProblem(_unreachable(path, error.strerror or str(error))) from error


def _ready(connection: sqlite3.Connection, path: Path | None, busy_s: float) -> sqlite3.Connection:
    """SchedulerCheck the file, migrate it, and configure the connection."""
    _check_kind(connection, path)
    if path is not None:
        _write_ahead(connection, path, busy_s)
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {LOG_KEPT_BYTES}")
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    findings = [text for (text,) in connection.execute("PRAGMA quick_check(1)")]
    if findings != ["ok"]:
        raise LedgerProblem(_damaged(path, "; ".join(findings).replace("\n", " ")))
    _bring_up_to_date(connection, path, busy_s)
    return connection


def _check_kind(connection: sqlite3.Connection, path: Path | None) -> None:
    """SchedulerCheck that it is a ledger, before anything is written to it."""
    connection.execute("BEGIN")  # one snapshot: another process may be creating the file right now
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if tables and application != APPLICATION_ID:
        what = f"{_named(path)} is a database of another program"
        raise LedgerProblem(Problem("ledger.foreign", what, "choose another file"))
    refuse_newer(schema_version(connection), path)
    connection.execute("COMMIT")


def refuse_newer(version: int, path: Path | None) -> None:
    """Raise `LedgerProblem` if a newer version has migrated the tables."""
    if version > VERSION:
        raise LedgerProblem(
            Problem(
                "ledger.newer",
                f"{_named(path)} was written by a newer Fairpool: it has version {version}, this one reads {VERSION}",
                f"run the newer Fairpool, or restore the backup it made next to this file (suffix .v{VERSION}-backup)",
            )
        )


def _write_ahead(connection: sqlite3.Connection, path: Path, busy_s: float) -> None:
    """Switch to a write-ahead log, for good."""
    if _journal_mode(connection, busy_s) != "wal":
        what = f"the file system of {_named(path)} does not support SQLite's write-ahead log"
        raise LedgerProblem(Problem("ledger.file_system", what, "put the ledger on a local disk"))


def _journal_mode(connection: sqlite3.Connection, busy_s: float) -> str:
    """The mode after the switch. SQLite itself does not wait here for other processes that open the file."""
    deadline = time.monotonic() + busy_s
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode = WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_S)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path | None, busy_s: float) -> None:
    """Migrate in one transaction, after a backup."""
    connection.execute("BEGIN IMMEDIATE")
    version = schema_version(connection)
    refuse_newer(version, path)
    if 0 < version < VERSION and path is not None:
        _keep_copy(path, path.with_name(f"{path.name}.v{version}-backup"), busy_s)
    # Also if no step is missing: only a write proves that the file can be written.
    migrate(connection)
    connection.execute("COMMIT")


def _keep_copy(path: Path, copy: Path, busy_s: float) -> None:
    """Back up the file as it was before this transaction, completely or not at all."""
    partial = copy.with_name(f"{copy.name}.partial")
    try:
        partial.unlink(missing_ok=True)
        os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(_connection(str(path), busy_s)) as source, closing(_connection(str(partial), busy_s)) as target:
            source.backup(target)
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(copy)
    except OSError as error:
        what = f"{_named(path)} cannot be backed up before its upgrade: {error.strerror or error}"
        raise LedgerUnavailable(Problem("ledger.no_backup", what, f"make room for {copy.name} next to it")) from error
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def _damaged(path: Path | None, how: str) -> Problem:
    shown = how.encode("ascii", "backslashreplace").decode()[:200]  # invalid text, as far as it can be shown
    return Problem("ledger.damaged", f"{_named(path)} is damaged or not a ledger: {shown}", START_ANEW)


def _unreachable(path: Path, how: str) -> Problem:
    fix = "give the user who runs Fairpool write access to the file and its directory, or choose another path"
    return Problem("ledger.not_writable", f"{_named(path)} cannot be opened for writing: {how.lower()}", fix)


def _named(path: Path | None) -> str:
    return "the ledger in memory" if path is None else f"the ledger {path}"


def _code(error: sqlite3.Error) -> int:
    """The primary error code. Errors of the Python driver have none."""
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE)) & 0xFF

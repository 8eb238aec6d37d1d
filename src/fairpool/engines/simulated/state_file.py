"""State file of a simulation: one SQLite file of plain records, so that a simulation continues after a restart.

The engine writes the changed records in one transaction before it answers. What follows from the passing of time alone
is not written: it is computed when the file is opened. Only for files of this program.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from os import PathLike
from typing import TypeVar

from fairpool.engines.port import EngineUnreachable
from fairpool.model.plain import text_of, value_of

Record = TypeVar("Record")
Key = tuple[str, str]
"""Kind and name of a record."""

_TABLE = "CREATE TABLE IF NOT EXISTS record (kind TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, name))"
_PUT = "INSERT INTO record VALUES (?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value"


class StateFile:
    """The records of one simulation in one file."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self._database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        # With a write-ahead log, NORMAL keeps a transaction when the process dies, without waiting for the disk. The
        # last ones may be lost with the machine, as if the orders had not arrived.
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = NORMAL")
        self._database.execute(_TABLE)

    def read(self, kind: str, of: type[Record]) -> dict[str, Record]:
        """All records of a kind, by name."""
        rows = self._database.execute("SELECT name, value FROM record WHERE kind = ? ORDER BY name", (kind,))
        read = value_of(of)
        return {name: read(value) for name, value in rows}

    def write(self, changes: Mapping[Key, object]) -> None:
        """Set these records; None: delete."""
        puts = [(*key, text_of(type(value))(value)) for key, value in changes.items() if value is not None]
        self._database.execute("BEGIN IMMEDIATE")
        try:
            self._database.executemany(_PUT, puts)
            gone = [key for key, value in changes.items() if value is None]
            self._database.executemany("DELETE FROM record WHERE kind = ? AND name = ?", gone)
            self._database.execute("COMMIT")
        except BaseException:
            if self._database.in_transaction:
                self._database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._database.close()


class PendingChanges:
    """Records that have changed and are not in the state file yet. Without a state file it stays empty."""

    def __init__(self, state_file: StateFile | None) -> None:
        self._state_file = state_file
        self._changes: dict[Key, object] = {}

    def note(self, kind: str, name: str, value: object) -> None:
        """Set a record; None: delete."""
        if self._state_file is not None:
            self._changes[kind, name] = value

    def has(self, kind: str, name: str) -> bool:
        return (kind, name) in self._changes

    def is_empty(self) -> bool:
        return not self._changes

    def write(self) -> None:
        """Write all changes or none; then they are kept for the next time."""
        if self._state_file is not None and self._changes:
            try:
                self._state_file.write(self._changes)
            except sqlite3.Error as error:
                raise EngineUnreachable(f"the state file cannot be written: {error}") from error
            self._changes.clear()

    def discard(self) -> None:
        self._changes.clear()

"""In which condition a database file is, seen before it is opened for good; and copies of it.

A newer program's tables are never touched. Tables of an older one are brought up to date when the database is opened,
and a copy of the file as it was stays beside it.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from fairpool.control.store.migrations import known_versions
from fairpool.model.problem import Problem

BUSY_S = 5.0


def problem_with(path: Path) -> Problem | None:
    """Why this program must not open the database there; None: it may, also if there is none yet."""
    if not path.exists():
        return None
    if not path.is_file():
        return Problem("database.not_a_file", f"the database {path} is not a file", "move it away")
    try:
        version = version_of(path)
    except sqlite3.DatabaseError as error:
        what = f"the database {path} cannot be read: {error}"
        return Problem("database.damaged", what, "put a copy back with `fairpool restore FILE`, or move it away")
    known = known_versions()
    if version is None or version in known:
        return None
    if version == "":
        return Problem("database.foreign", f"{path} is a database of another program", "name another data folder")
    what = f"the database {path} was written by a newer Fairpool: it has version {version}, this one knows {known[-1]}"
    fix = "run that newer Fairpool, or put back a copy from before with `fairpool restore FILE`"
    return Problem("database.newer", what, fix)


def keep_if_older(path: Path) -> Path | None:
    """A copy of a database that is about to be brought up to date; None: it need not be."""
    version = version_of(path) if path.exists() else None
    if not version or version == known_versions()[-1]:
        return None
    copy = path.with_name(f"{path.name}.{version}-backup")
    copy_database(path, copy)
    return copy


def version_of(path: Path) -> str | None:
    """The version of its tables; empty: they are somebody else's, None: there are none. Raises sqlite3's errors."""
    with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "alembic_version" not in tables:
            return ""
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""


def is_sound(path: Path) -> bool:
    """Whether nothing in the file is damaged."""
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
            return list(connection.execute("PRAGMA integrity_check(1)")) == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def copy_database(path: Path, copy: Path) -> None:
    """A copy as of one moment, whole or not at all, also while the database is in use."""
    partial = copy.with_name(f"{copy.name}.partial")
    partial.unlink(missing_ok=True)
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_S)) as source, closing(sqlite3.connect(partial)) as target:
            source.backup(target)
            target.execute("PRAGMA journal_mode = DELETE")  # a copy is one file
        with partial.open("rb") as file:
            os.fsync(file.fileno())
        partial.replace(copy)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)

"""In which condition a database file is, seen before it is opened for good; and copies of it.

A newer program's tables are never touched. Tables of an older one are brought up to date when the database is opened,
and a copy of the file as it was stays beside it. A copy that is put back counts revisions on from somewhere else.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

from fairpool.control.store.migrations import known_versions
from fairpool.model.problem import Problem

BUSY_S = 5.0
LEAP = 2**40
"""More changes than happen between a backup and its restore: a thousand a second for 34 years. And few enough that
thousands of restores, each of a backup made after the one before, stay below 2**53, up to where JavaScript counts."""


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


def leap_ahead(path: Path) -> None:
    """Make a copy ready to be put back: every revision in it becomes one that nobody has ever seen.

    Changes that came after the copy had numbers too, and to give one of them again would tell whoever holds it that
    nothing happened since. So all numbers move far beyond those, and what was read before is forgotten, of which its
    readers are told. How far is left to chance: one copy that is put back twice does not count alike both times. A copy
    in which this was cut off is of no use. Tables of every known version have what is needed.
    """
    leap = LEAP + secrets.randbelow(LEAP)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = OFF")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM changes")
        connection.execute(
            "UPDATE revision SET value = value + ?1, declared = value + ?1, oldest = value + ?1", (leap,)
        )
        for table in _tables_with_revisions(connection):
            connection.execute(f'UPDATE "{table}" SET revision = revision + ?', (leap,))
        connection.execute("UPDATE workloads SET item = json_replace(item, '$.revision', revision)")
        connection.execute("COMMIT")
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _tables_with_revisions(connection: sqlite3.Connection) -> list[str]:
    query = """
        SELECT one.name FROM sqlite_master AS one JOIN pragma_table_info(one.name) AS its
        WHERE one.type = 'table' AND its.name = 'revision' ORDER BY one.name
    """
    return [name for (name,) in connection.execute(query)]

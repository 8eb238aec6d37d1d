"""Checks of a database file before it is opened, and copies of it.

A newer program's tables are never touched. Tables of an older one are brought up to date when the database is opened,
and a copy of the file as it was stays beside it. A copy that is put back counts revisions on from somewhere else.
"""

from __future__ import annotations

import os
import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

from sqlalchemy import create_engine
from sqlalchemy.pool import StaticPool

from fairpool.control.store.migrations import known_versions, upgrade
from fairpool.control.store.sqlite import APPLICATION_ID, code_of, driver_of, write_lock_holder
from fairpool.control.store.unavailable import BUSY, DAMAGED, Unavailable
from fairpool.model.problem import Problem

BUSY_S = 5.0
LEAP = 2**40
"""More changes than happen between a backup and its restore: a thousand a second for 34 years. And few enough that
thousands of restores, each of a backup made after the one before, stay below 2**53, up to where JavaScript counts."""


RESTORE = "restore a backup with `fairpool restore FILE`"


MAGIC = b"SQLite format 3\0"


def problem_with_database(path: Path, *, may_be_new: bool = True) -> Problem | None:
    """Why this program must not open the database there; None: it may, also if there is none yet.

    All of the file is read, at every start: 567 MB took 0.7 s from memory and 10 s from a slow disk. A flipped byte in
    the middle of a text is not found by that or by anything else in SQLite; broken pages and records are.
    """
    if not path.exists():
        return None
    if not path.is_file():
        return Problem("database.not_a_file", f"the control database {path} is not a file", "move it elsewhere")
    try:
        with path.open("rb") as file:
            head = file.read(len(MAGIC))
    except OSError as error:
        return Problem(
            "database.read_only",
            f"the control database {path} cannot be read: {error.strerror}",
            f"make it readable: chmod u+rw {path}",
        )
    if head != MAGIC and (head or not may_be_new):  # SQLite would take some of these for a new one
        return _damaged(path, "it is empty" if not head else "it is not an SQLite database")
    try:
        version = version_of(path)
        if version == "":
            what = f"{path} is the database of another program"
            return Problem("database.foreign", what, "choose another data directory with --data")
        if version is not None and version not in (known := known_versions()):
            return _newer(path, version, known[-1])
        with _looking(path) as connection:
            findings = [str(text) for (text,) in connection.execute("PRAGMA quick_check(1)")]
            added = _behaviour(connection)
    except sqlite3.DatabaseError as error:
        return _unreadable(path, error)
    if findings != ["ok"]:
        return _damaged(path, "; ".join(findings).replace("\n", " "))
    if added:
        what = f"the control database {path} has {', '.join(added)}, which Fairpool did not create"
        return Problem("database.foreign", what, f"drop them, or {RESTORE}")
    return None if os.access(path, os.W_OK) else _read_only(path)


def _newer(path: Path, version: str, known: str) -> Problem:
    what = f"the control database {path} was written by a newer Fairpool: its version is {version}, this one supports "
    fix = f"use the newer Fairpool, or {RESTORE} made before the upgrade"
    return Problem("database.newer", f"{what}{known}", fix)


def _damaged(path: Path, how: str) -> Problem:
    what = f"the control database {path} is damaged: {how}"
    fix = f"{RESTORE}; the damaged file is kept next to it, and running pods that are in FILE continue"
    return Problem("database.damaged", what, fix)


def _read_only(path: Path) -> Problem:
    what = f"the control database {path} is read-only for this user"
    return Problem("database.read_only", what, "make the file and its file system writable (chmod, chattr -i, mount)")


def _unreadable(path: Path, error: sqlite3.DatabaseError) -> Problem:
    code = code_of(error)
    if code == BUSY:
        held = Unavailable(code, holder=write_lock_holder(path)).problem
        return Problem(code, f"{held.what}: {path}", held.fix)
    if code in (DAMAGED, None):
        return _damaged(path, str(error))
    return Problem(code, f"the control database {path} cannot be read: {error}", Unavailable(code).problem.fix)


def _behaviour(connection: sqlite3.Connection) -> list[str]:
    """Triggers and views: none are ours, and they would change what our statements do."""
    query = "SELECT type, name FROM sqlite_master WHERE type NOT IN ('table', 'index') ORDER BY name LIMIT 4"
    return [f"{kind} {name!r}" for kind, name in connection.execute(query)]


@contextmanager
def _looking(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection for files that others may have made: nothing in their tables is called or believed."""
    with closing(sqlite3.connect(path, timeout=BUSY_S)) as connection:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
        yield connection


def keep_if_older(path: Path) -> Path | None:
    """A copy of a database that is about to be brought up to date; None: it need not be."""
    version = version_of(path) if path.exists() else None
    if not version or version == known_versions()[-1]:
        return None
    copy = path.with_name(f"{path.name}.{version}-backup")
    copy_database(path, copy)
    return copy


def version_of(path: Path) -> str | None:
    """The version of its tables; empty: they are of another program, None: there are none. Raises sqlite3's errors."""
    with _looking(path) as connection:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not tables:
            return None
        if "alembic_version" not in tables or application not in (0, APPLICATION_ID):
            return ""
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
        return str(row[0]) if row else ""


def is_sound(path: Path) -> bool:
    """Whether nothing in the file is damaged."""
    try:
        with _looking(path) as connection:
            return list(connection.execute("PRAGMA integrity_check(1)")) == [("ok",)]
    except sqlite3.DatabaseError:
        return False


def strange_in(path: Path) -> list[str]:
    """What is in the schema of a database that Fairpool did not put there, or not like this, or is missing.

    The schema is compared with that of a new database of the same version, by the text of every table and index.
    Raises sqlite3's errors.
    """
    version = version_of(path)
    assert version, "only a database of ours has a version"
    with _looking(path) as connection:
        there = _schema(connection)
    ours = _schema_of(version)
    strange = [f"{kind} {name!r}" for (kind, name), text in sorted(there.items()) if ours.get((kind, name)) != text]
    return strange + [f"no {kind} {name!r}" for kind, name in sorted(ours.keys() - there.keys())]


def _schema(connection: sqlite3.Connection) -> dict[tuple[str, str], str]:
    """Every table, index, trigger and view with its text; figures that SQLite keeps for its planner are left out."""
    rows = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return {
        (str(kind), str(name)): " ".join(f"{table} {text or ''}".split())
        for kind, name, table, text in rows
        if not (kind == "table" and re.fullmatch(r"sqlite_stat\d", str(name)))
    }


@cache
def _schema_of(version: str) -> dict[tuple[str, str], str]:
    engine = create_engine("sqlite://", poolclass=StaticPool)
    try:
        with engine.connect() as connection:
            upgrade(connection, version)
            return _schema(driver_of(connection))
    finally:
        engine.dispose()


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
    """Make a copy ready to be put back: every revision in it becomes one that was never used.

    Changes that came after the copy had numbers too, and to use one again would tell a reader that holds it that
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
        if _has_column(connection, "workloads", "item"):  # up to version 0007
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


def _has_column(connection: sqlite3.Connection, table: str, column: str) -> bool:
    query = "SELECT 1 FROM pragma_table_info(?) WHERE name = ?"
    return connection.execute(query, (table, column)).fetchone() is not None

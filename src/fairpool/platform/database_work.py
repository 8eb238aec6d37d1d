"""What `fairpool database` does with control databases: bring up to date, check, compare, copy and renumber."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from fairpool.control.store import condition, database_copy, integrity
from fairpool.control.store.database import Connection
from fairpool.control.store.migrations import found_version, known_versions, steps_after, upgrade
from fairpool.control.store.read_only import ReadOnlyDatabase
from fairpool.control.store.table_contents import TableDigest, digests
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import PlatformError, directory_problem
from fairpool.platform.database_place import DatabasePlace, database_errors

STOP = "stop the control planes first: fairpool down"
SQLITE_SUFFIXES = ("", "-wal", "-shm")


@dataclass(frozen=True, slots=True)
class Migration:
    """From the version of a database to today's."""

    found: str | None
    """None: it has no tables yet."""
    steps: list[tuple[str, str]]
    """Version and purpose of each."""
    kept: Path | None = None
    """A copy of the file as it was."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What is in a database, and what is wrong with it."""

    version: str
    tables: list[TableDigest]
    findings: list[str]


def plan_migration(place: DatabasePlace) -> Migration:
    """What has to be done. Raises `PlatformError`."""
    place.require()
    with place.reading() as database:
        found = database.read(found_version)
    return Migration(found, steps_after(found))


def migrate(place: DatabasePlace) -> Migration:
    """Bring the tables up to date, in one transaction. Raises `PlatformError`."""
    planned = plan_migration(place)
    if not planned.steps:
        return planned
    place.refuse_if_used(STOP)
    with place.held("database migrate"), database_errors():
        kept = condition.keep_if_older(place.file) if not place.location else None
        database = place.opened()
        database.open_now(upgrade)
        database.close_now()
    return Migration(planned.found, planned.steps, kept)


def examine(place: DatabasePlace) -> Examination:
    """Check a database at one moment; it may be in use. Raises `PlatformError`."""
    place.require()
    with place.reading() as database:
        return database.read(lambda connection: _examined(connection, place))


def _examined(connection: Connection, place: DatabasePlace) -> Examination:
    version = _todays_version(connection, place)
    return Examination(version, digests(connection), integrity.findings(connection))


def _todays_version(connection: Connection, place: DatabasePlace) -> str:
    found, today = found_version(connection), known_versions()[-1]
    if found == today:
        return found
    if found is None:
        what, fix = f"{place} has no tables", "name another database; a control plane makes the tables at its start"
        raise PlatformError(Problem("database.none", what, fix))
    what = f"the tables of {place} are of version {found}, and this Fairpool uses {today}"
    raise PlatformError(Problem("database.older", what, "bring it up to date first: fairpool database migrate"))


def differences(one: Examination, other: Examination) -> list[str]:
    """How two databases differ, in words."""
    there = {each.table: each for each in other.tables}
    found = []
    for each in one.tables:
        if each.rows != there[each.table].rows:
            found.append(f"{each.table}: {each.rows} rows, and {there[each.table].rows} in the other")
        elif each != there[each.table]:
            found.append(f"{each.table}: {each.rows} rows in both, and their checksums differ")
    return found


def copy(
    source: DatabasePlace, target: DatabasePlace, *, overwrite: bool, online: bool, progress: database_copy.Progress
) -> list[TableDigest]:
    """Copy all rows; what was copied. `online`: the source goes on being used. Raises `PlatformError`."""
    if str(source) == str(target):
        raise PlatformError(Problem("copy.itself", f"{source} is both source and target", "name two databases"))
    source.require()
    with source.reading() as database:
        database.read(lambda connection: _todays_version(connection, source))
    stop_or_online = f"{STOP}, or copy what is there at this moment with --online"

    def confirm() -> None:
        # A control plane on another machine may have started meanwhile: what it wrote would not be in the copy.
        if not online:
            source.refuse_if_connected(stop_or_online)

    if not online:
        source.refuse_if_used(stop_or_online)
    is_new = not target.location and not target.file.exists()
    if not is_new:
        _require_target(target)
    held = nullcontext() if online else source.held("database copy")
    with source.reading() as database, held, target.held("database copy"), database_errors():
        if is_new:
            _create(target)
        try:
            return _copied(database, target, overwrite, online, progress, confirm)
        except BaseException:
            if is_new:
                for suffix in SQLITE_SUFFIXES:
                    Path(f"{target.file}{suffix}").unlink(missing_ok=True)
            raise


def _require_target(target: DatabasePlace) -> None:
    """Empty, or with tables of today's version: a copy that is refused must not have upgraded them."""
    target.require()
    target.refuse_if_used(STOP)
    with target.reading() as database:
        if database.read(found_version) is not None:
            database.read(lambda connection: _todays_version(connection, target))


def _create(target: DatabasePlace) -> None:
    """An empty file of our own: what another program has made meanwhile is never overwritten or deleted."""
    try:
        os.close(os.open(target.file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError as error:
        raise _not_empty(target) from error
    except OSError as error:
        raise PlatformError(directory_problem(target.file.parent, error)) from error


def _not_empty(target: DatabasePlace) -> PlatformError:
    fix = "name an empty database, or replace all that is in it with --overwrite"
    return PlatformError(Problem("copy.not_empty", f"the target {target} is not empty", fix))


def _copied(
    source: ReadOnlyDatabase,
    target: DatabasePlace,
    overwrite: bool,
    online: bool,
    progress: database_copy.Progress,
    confirm: Callable[[], None],
) -> list[TableDigest]:
    writing = target.opened()
    writing.open_now(upgrade)
    try:
        return database_copy.copy(
            source, writing, overwrite=overwrite, to_be_renumbered=online, progress=progress, confirm=confirm
        )
    except database_copy.NotEmpty as error:
        raise _not_empty(target) from error
    except database_copy.NotCopied as error:
        fix = "the target is as it was; correct the row in the source, and copy again"
        raise PlatformError(Problem("copy.failed", str(error), fix)) from error
    finally:
        writing.close_now()


def renumber(place: DatabasePlace) -> int:
    """Move all revisions to where none was ever used; the last one. Raises `PlatformError`."""
    place.require()
    with place.reading() as reading:
        reading.read(lambda connection: _todays_version(connection, place))
    place.refuse_if_used(STOP)
    with place.held("database renumber"), database_errors():
        database = place.opened()
        database.open_now(upgrade)
        try:
            return database.write_now(database_copy.renumber)
        finally:
            database.close_now()

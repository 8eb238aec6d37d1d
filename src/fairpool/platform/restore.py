"""Restore of a backup: checked, staged, then moved into place in steps that the next start completes after a crash."""

from __future__ import annotations

import errno
import json
import shutil
import sqlite3
import tarfile
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fairpool import __version__
from fairpool.agent.durable import sync_directory, write_durably
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.project_users import FILE as USERS_FILE
from fairpool.agent.project_users import problem_with_users
from fairpool.control.sealing import FILE as KEY_FILE
from fairpool.control.sealing import unwrapped_key, write_key
from fairpool.control.store import condition
from fairpool.model.problem import Problem
from fairpool.platform.backup import words_of
from fairpool.platform.backup_archive import ABOUT, CONTROL, KEY, MEMBERSHIP, NODES, READABLE_FORMATS, foreign, unpack
from fairpool.platform.data_directory import CLUSTER, CONTENTS, PROGRAMS, UP, DataDirectory, PlatformError
from fairpool.platform.node_set import problem_with_saved
from fairpool.platform.work_directory import RESTORE_PREFIX, work_directory

PROGRAM = "program"
"""In the staging directory: the program that the directory then belongs to, if it is not a whole platform."""
ORDER = "order.json"
"""In the staging directory: what is moved, and under which name the previous files are kept."""


def restore_backup(
    data_directory: DataDirectory, file: Path, passphrase: bytes | None = None
) -> tuple[datetime, list[Path]]:
    """Replace the data by a backup; returns when it was made, and where the previous files are kept.

    The caller holds the directory's lock: no server may run on it. Raises `PlatformError`; then nothing has changed,
    unless the problem says otherwise. A process killed meanwhile has either changed nothing, or the next start
    completes it: the new files are staged in a directory, and renaming that directory is the commit.
    """
    finish_restore(data_directory)
    try:
        with work_directory(data_directory.root, RESTORE_PREFIX) as directory:
            unpack(file, directory)
            about = _read_about(directory / ABOUT, file)
            (directory / ABOUT).unlink()
            _check_program(data_directory, about.program, file)
            _check_content(data_directory, about.program, directory, file)
            _unwrap_key(directory, passphrase, file)
            if about.program != UP:
                write_durably(directory / PROGRAM, f"{about.program}\n".encode())
            order = {
                "stamp": _unused_stamp(data_directory),
                "has_images": (directory / IMAGES_FILE).exists(),
                "has_nodes": (directory / NODES).exists(),
                "has_users": (directory / USERS_FILE).exists(),
                "has_membership": (directory / MEMBERSHIP).exists(),
                "has_key": (directory / KEY_FILE).exists(),
                "program": about.program,
            }
            write_durably(directory / ORDER, json.dumps(order).encode())
            directory.rename(data_directory.restoring)  # the commit
    except (OSError, tarfile.TarError, sqlite3.Error, EOFError, zlib.error) as error:
        what = f"cannot restore {file}: {words_of(error)}"
        is_full = _is_full(error)
        fix = (
            f"free some space in {data_directory.root}"
            if is_full
            else "use a complete file written by `fairpool backup`"
        )
        raise PlatformError(Problem("restore.full" if is_full else "restore.unreadable", what, fix)) from error
    return about.made_at, finish_restore(data_directory)


def _unwrap_key(directory: Path, passphrase: bytes | None, file: Path) -> None:
    """The key of credentials, where it is in the backup and its passphrase is given; otherwise the one that is here
    stays, if there is one."""
    saved = directory / KEY
    if passphrase is None:
        saved.unlink(missing_ok=True)
        return
    if not saved.exists():
        what = f"{file} does not contain the key of credentials"
        raise PlatformError(Problem("restore.no_key", what, "leave out --passphrase-file"))
    key = unwrapped_key(saved.read_bytes(), passphrase)
    if key is None:
        what = f"the passphrase does not fit the key in {file}"
        raise PlatformError(Problem("restore.passphrase", what, "use the passphrase that the backup was made with"))
    saved.unlink()
    write_key(directory / KEY_FILE, key)


def finish_restore(data_directory: DataDirectory) -> list[Path]:
    """Complete a restore, if one was begun; returns where the previous files are kept. Raises `PlatformError`.

    Every step can be repeated. The database comes last, and in a cluster the name of its program: as long as that is
    staged, the restore is not complete.
    """
    ready = data_directory.restoring
    if not (ready / CONTROL).exists() and not (ready / PROGRAM).exists():
        shutil.rmtree(ready, ignore_errors=True)
        return []
    try:
        order = json.loads((ready / ORDER).read_bytes())
        stamp = str(order["stamp"])
        small = [(IMAGES_FILE, data_directory.machine / IMAGES_FILE)] if order["has_images"] else []
        small += [(NODES, data_directory.nodes)] if order.get("has_nodes") else []
        small += [(USERS_FILE, data_directory.machine / USERS_FILE)] if order.get("has_users") else []
        small += [(MEMBERSHIP, data_directory.membership)] if order.get("has_membership") else []
        small += [(KEY_FILE, data_directory.secret_key)] if order.get("has_key") else []
        moves = _moves(data_directory, stamp, small, has_database=order.get("program") != CLUSTER)
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = f"a restore was interrupted, and its files in {ready} cannot be read: {words_of(error)}"
        raise PlatformError(Problem("restore.lost", what, "remove that directory and restore again")) from error
    try:
        data_directory.machine.mkdir(exist_ok=True, mode=0o700)
        for old, new in moves:
            if old.parent == ready and old.name in (
                CONTROL,
                PROGRAM,
            ):  # or it could be on the disk beside the old journal
                _sync(data_directory)
            if any(old == place and not (ready / name).exists() for name, place in small):
                continue  # it is the new one already
            if old.exists():
                old.replace(new)
        _sync(data_directory)
    except OSError as error:
        raise PlatformError(_undone(data_directory, moves, error)) from error
    shutil.rmtree(ready, ignore_errors=True)
    return [aside for aside in (_aside(path, stamp) for path in _replaced(data_directory)) if aside.exists()]


def _replaced(data_directory: DataDirectory) -> tuple[Path, ...]:
    """What a restore may replace."""
    machine = data_directory.machine
    small = (machine / IMAGES_FILE, machine / USERS_FILE, data_directory.nodes, data_directory.membership)
    keys = (data_directory.secret_key, data_directory.token_keys)
    return data_directory.control, data_directory.ledger, *keys, *small


def _moves(
    data_directory: DataDirectory, stamp: str, small: list[tuple[str, Path]], *, has_database: bool
) -> list[tuple[Path, Path]]:
    """Nothing is deleted: a restore may be a mistake. A database and its journal stay together.

    The ledger of a cluster stays: it is the authority on what was decided, and the declarations are elsewhere.
    """
    ready = data_directory.restoring
    others = [move for name, place in small for move in ((place, _aside(place, stamp)), (ready / name, place))]
    others.append((ready / PROGRAM, data_directory.program_file))
    if not has_database:
        return others
    databases = [
        (Path(f"{database}{suffix}"), Path(f"{_aside(database, stamp)}{suffix}"))
        for database in (data_directory.ledger, data_directory.control)
        for suffix in ("-wal", "-shm", "")
    ]
    # Tokens from before the backup end with their key: the database that comes may know some that were revoked since.
    databases.append((data_directory.token_keys, _aside(data_directory.token_keys, stamp)))
    return [*databases, *others, (ready / CONTROL, data_directory.control)]


def _undone(data_directory: DataDirectory, moves: list[tuple[Path, Path]], error: OSError) -> Problem:
    """Move everything back; if that fails too, the next start completes the restore."""
    try:
        for old, new in reversed(moves):
            if old.name != PROGRAM and new.exists() and not old.exists():
                new.replace(old)
        undone = data_directory.root / f"{RESTORE_PREFIX}undone"
        data_directory.restoring.rename(undone)
        shutil.rmtree(undone, ignore_errors=True)
        _sync(data_directory)
    except OSError:
        what = f"the restore in {data_directory.root} is incomplete: {words_of(error)}"
        return Problem("restore.half", what, "fix the disk; the next start completes the restore")
    what = f"nothing was restored, and {data_directory.root} is unchanged: {words_of(error)}"
    return Problem("restore.not_written", what, "fix the disk and try again")


def _sync(data_directory: DataDirectory) -> None:
    for directory in (data_directory.machine, data_directory.root):
        sync_directory(directory)


def _unused_stamp(data_directory: DataDirectory) -> str:
    """Of this second; a number is added if another restore was in the same one."""
    second = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    stamps = (second if number == 1 else f"{second}-{number}" for number in count(1))
    return next(
        stamp
        for stamp in stamps
        if not any(
            Path(f"{_aside(path, stamp)}{suffix}").exists()
            for path in _replaced(data_directory)
            for suffix in ("", "-wal", "-shm")
        )
    )


def _aside(path: Path, stamp: str) -> Path:
    return path.with_name(f"{path.name}.before-restore-{stamp}")


@dataclass(frozen=True, slots=True)
class _About:
    """What a backup says of itself."""

    made_at: datetime
    program: str


def _read_about(about: Path, file: Path) -> _About:
    try:
        content = json.loads(about.read_bytes())
        program = content.get("program", UP)
        if content.get("format") in READABLE_FORMATS and program in PROGRAMS:
            return _About(datetime.fromtimestamp(float(content["at"]), UTC), program)
        version = str(content.get("fairpool", "?"))[:32]
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        raise foreign(file, f"its {ABOUT} cannot be read") from error
    what = f"{file} was written by Fairpool {version}, in a format that this version ({__version__}) cannot read"
    raise PlatformError(Problem("restore.newer", what, "restore it with that version of Fairpool"))


def _check_program(data_directory: DataDirectory, program: str, file: Path) -> None:
    """A backup belongs to the program that it was made of."""
    if data_directory.program not in ("", program):
        what = f"{file} is a backup of {CONTENTS[program]}, and {data_directory.root} holds {data_directory.contents}"
        raise PlatformError(Problem("restore.other_program", what, "choose another directory with --data"))


def _check_content(data_directory: DataDirectory, program: str, directory: Path, file: Path) -> None:
    """All that a backup of this program must contain, and nothing else."""
    if (directory / CONTROL).exists() is (program == CLUSTER):
        raise foreign(file, f"{CONTROL} {'does not belong in it' if program == CLUSTER else 'is missing'}")
    if program != CLUSTER:
        _check(directory / CONTROL, file)
        condition.leap_ahead(directory / CONTROL)
    _check_nodes(directory / NODES, file)
    _check_users(data_directory, directory / USERS_FILE, file)
    _check_membership(data_directory, directory / MEMBERSHIP, file)


def _check_membership(data_directory: DataDirectory, saved: Path, file: Path) -> None:
    if not saved.exists():
        return
    try:
        said = json.loads(saved.read_bytes())
        other = str(said["id"]), str(said["name"]), str(said["installation"])
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise foreign(file, f"{MEMBERSHIP} in it cannot be read") from error
    try:
        own = json.loads(data_directory.membership.read_bytes())
    except (OSError, ValueError):
        return
    if own.get("id") not in ("", other[0]):
        what = f"{file} is a backup of cluster {other[1]}, and {data_directory.root} belongs to {own.get('name')}"
        raise PlatformError(Problem("restore.other_cluster", what, "choose another directory with --data"))


def _check(new: Path, file: Path) -> None:
    """Before anything uses the database: it is sound, and has the tables of its version and nothing else."""
    if new.stat().st_size == 0:
        raise PlatformError(Problem("restore.empty", f"the database in {file} is empty", "use another backup"))
    problem = condition.problem_with_database(new)
    if problem is not None and problem.code == "database.newer":
        what = f"{file} was written by a newer version of Fairpool"
        raise PlatformError(Problem("restore.newer", what, "restore it with that version of Fairpool"))
    if problem is not None and problem.code == "database.foreign":
        raise foreign(file, problem.what.replace(str(new), "in it").replace("the control database in it", "it"))
    if problem is not None or not condition.is_sound(new):
        raise PlatformError(Problem("restore.damaged", f"the database in {file} is damaged", "use an older backup"))
    if condition.version_of(new) is None:
        raise PlatformError(Problem("restore.empty", f"the database in {file} is empty", "use another backup"))
    strange = condition.strange_in(new)
    if strange:
        more = f" and {len(strange) - 4} more" if len(strange) > 4 else ""
        named = f"{', '.join(strange[:4])}{more}"
        raise foreign(file, f"its database schema is not that of Fairpool: {named}")


def _check_nodes(nodes: Path, file: Path) -> None:
    if nodes.exists() and problem_with_saved(nodes) is not None:
        raise foreign(file, f"its {NODES} cannot be read")


def _check_users(data_directory: DataDirectory, users: Path, file: Path) -> None:
    """Files on this machine belong to the users in its own table: that stays, unless it is lost or damaged."""
    if not users.exists():
        return
    if problem_with_users(users):
        raise foreign(file, f"{USERS_FILE} in it cannot be read")
    if not problem_with_users(data_directory.machine / USERS_FILE):
        users.unlink()


def _is_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)

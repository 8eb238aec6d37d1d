"""Backup and restore: what people declared, in one file.

In it are the control plane's database, as of one moment, the description of the nodes, the table of images and that of
the users that projects have. Not in it are what pods wrote and saved (logs, checkpoints, claims), the server's log, and
the cluster's ledger: a copy of that knows of pods that are over and not of those that run. After a restore it is built
anew, from what runs and what is declared.

A file that is restored may have been made by anybody: it is read once, by descriptor, with a bound on everything, and
nothing in it is believed before it was checked.
"""

from __future__ import annotations

import errno
import fcntl
import gzip
import io
import json
import os
import shutil
import sqlite3
import stat
import tarfile
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

from fairpool import __version__
from fairpool.agent.durable import sync_directory, write_durably
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.project_users import FILE as USERS_FILE
from fairpool.agent.project_users import problem_with as problem_with_users
from fairpool.control.store import condition
from fairpool.model.problem import Problem
from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.directory_lock import lock_holder
from fairpool.platform.node_set import problem_with_saved

FORMAT = 3
READABLE_FORMATS = (1, 2, 3)
"""The first had no nodes in it, the second no users."""
ABOUT, CONTROL, ORDER, NODES = "about.json", "control.sqlite", "order.json", "nodes.json"
BACKUP_PREFIX, RESTORE_PREFIX = ".fairpool-backup-", ".restore-"
OLD_BACKUP_PREFIX = ".backup-"
"""Of earlier versions, which worked in the data directory."""
ABOUT_MAX_BYTES = 65536
SMALL_MAX_BYTES = 16 << 20
"""Of the tables of images and users, and the description of nodes."""
EXPANSION_MAX, EXPANSION_FROM_BYTES = 200, 64 << 20
"""A backup that grows by more than this when it is unpacked, beyond a size that any may have, was made to do harm:
databases of ours shrink to a fifth, and to a thirtieth when they hold little but equal jobs."""
BLOCK = tarfile.BLOCKSIZE
NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def make_backup(data_directory: DataDirectory, file: Path) -> int:
    """Write a backup, whole or not at all; says how large it is. Raises `PlatformError`.

    All room that it needs is needed beside the target: a data directory on a full disk is one more reason to make one.
    """
    if (data_directory.restoring / CONTROL).exists():
        what = f"a restore in {data_directory.root} was interrupted; the next start completes it"
        raise PlatformError(Problem("backup.restoring", what, "start the server first: fairpool up"))
    data_directory.require()
    if not data_directory.control.is_file():
        raise PlatformError(_nothing(data_directory))
    try:
        with _work_directory(file.absolute().parent, BACKUP_PREFIX) as directory:
            copy, partial = directory / CONTROL, directory / "partial"
            _copy_control(data_directory, copy)
            if condition.version_of(copy) is None:
                raise PlatformError(_nothing(data_directory))
            handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as raw:
                with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
                    _add_about(archive, copy)
                    archive.add(copy, CONTROL)
                    small = [(data_directory.machine / name, name) for name in (IMAGES_FILE, USERS_FILE)]
                    for path, name in (*small, (data_directory.nodes, NODES)):
                        if path.is_file():
                            archive.add(path, name)
                raw.flush()
                os.fsync(raw.fileno())
            size = partial.stat().st_size
            partial.replace(file)
            sync_directory(file.absolute().parent)
        return size
    except (OSError, sqlite3.Error) as error:
        raise PlatformError(_not_written(data_directory, file, error)) from error


def _nothing(data_directory: DataDirectory) -> Problem:
    what = f"there is nothing to back up in {data_directory.root}: Fairpool was never started there"
    return Problem("backup.nothing", what, "pass the right directory with --data")


def _copy_control(data_directory: DataDirectory, copy: Path) -> None:
    """SQLite needs room beside a database whose journal it reads, and a killed server leaves one on a full disk."""
    try:
        condition.copy_database(data_directory.control, copy)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in NO_ROOM or lock_holder(data_directory) is not None:
            raise
        for suffix in ("", "-wal"):
            if (file := Path(f"{data_directory.control}{suffix}")).exists():
                shutil.copyfile(file, copy.with_name(f"raw{suffix}"))
        condition.copy_database(copy.with_name("raw"), copy)
        if lock_holder(data_directory) is not None or not condition.is_sound(copy):
            raise  # somebody has begun to write while we copied


def _not_written(data_directory: DataDirectory, file: Path, error: Exception) -> Problem:
    """Who is to blame: the database that cannot be read, or the place that cannot be written."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_FULL) & 0xFF  # extended codes keep the plain one there
    if isinstance(error, sqlite3.Error) and code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        what = f"the database {data_directory.control} cannot be copied: {_words(error)}"
        return Problem("backup.not_read", what, "try again later; if the database is damaged, use an older backup")
    what = f"cannot write the backup to {file}: {_words(error)}"
    return Problem("backup.not_written", what, "choose a file in a writable directory with free space")


def _add_about(archive: tarfile.TarFile, copy: Path) -> None:
    said = {"format": FORMAT, "fairpool": __version__, "at": time.time(), "database": condition.version_of(copy)}
    text = json.dumps(said).encode()
    about = tarfile.TarInfo(ABOUT)
    about.size, about.mode, about.mtime = len(text), 0o600, int(time.time())
    archive.addfile(about, io.BytesIO(text))


def restore_backup(data_directory: DataDirectory, file: Path) -> tuple[datetime, list[Path]]:
    """Put a backup in the place of what is there; says from when it is, and where what was there went.

    The caller holds the directory's lock: no server may run on it. Raises `PlatformError`; then nothing has changed,
    unless the problem says otherwise. A process killed meanwhile has either changed nothing, or the next start
    completes it: the new files are staged in a directory, and renaming that directory is the commit.
    """
    finish_restore(data_directory)
    try:
        with _work_directory(data_directory.root, RESTORE_PREFIX) as directory:
            _unpack(file, directory)
            made_at = _made_at(directory / ABOUT, file)
            (directory / ABOUT).unlink()
            _check(directory / CONTROL, file)
            condition.leap_ahead(directory / CONTROL)
            _check_nodes(directory / NODES, file)
            _check_users(data_directory, directory / USERS_FILE, file)
            order = {
                "stamp": _unused_stamp(data_directory),
                "has_images": (directory / IMAGES_FILE).exists(),
                "has_nodes": (directory / NODES).exists(),
                "has_users": (directory / USERS_FILE).exists(),
            }
            write_durably(directory / ORDER, json.dumps(order).encode())
            directory.rename(data_directory.restoring)  # from here on it is done, sooner or later
    except (OSError, tarfile.TarError, sqlite3.Error, EOFError, zlib.error) as error:
        what = f"cannot restore {file}: {_words(error)}"
        is_full = _is_full(error)
        fix = (
            f"free some space in {data_directory.root}"
            if is_full
            else "use a complete file written by `fairpool backup`"
        )
        raise PlatformError(Problem("restore.full" if is_full else "restore.unreadable", what, fix)) from error
    return made_at, finish_restore(data_directory)


def finish_restore(data_directory: DataDirectory) -> list[Path]:
    """Do what is left of a restore, if one was begun; says where what was there went. Raises `PlatformError`.

    Every step can be done again. The database comes last, so that while it still lies ready nothing was finished.
    """
    ready = data_directory.restoring
    if not (ready / CONTROL).exists():
        shutil.rmtree(ready, ignore_errors=True)
        return []
    try:
        order = json.loads((ready / ORDER).read_bytes())
        stamp = str(order["stamp"])
        small = [(IMAGES_FILE, data_directory.machine / IMAGES_FILE)] if order["has_images"] else []
        small += [(NODES, data_directory.nodes)] if order.get("has_nodes") else []
        small += [(USERS_FILE, data_directory.machine / USERS_FILE)] if order.get("has_users") else []
        moves = _moves(data_directory, stamp, small)
    except (OSError, ValueError, LookupError, TypeError) as error:
        what = f"a restore was interrupted, and its files in {ready} cannot be read: {_words(error)}"
        raise PlatformError(Problem("restore.lost", what, "remove that directory and restore again")) from error
    try:
        data_directory.machine.mkdir(exist_ok=True, mode=0o700)
        for old, new in moves:
            if new == data_directory.control:  # or it could be on the disk beside the journal of the one before
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
    small = (data_directory.machine / IMAGES_FILE, data_directory.machine / USERS_FILE, data_directory.nodes)
    return data_directory.control, data_directory.ledger, *small


def _moves(data_directory: DataDirectory, stamp: str, small: list[tuple[str, Path]]) -> list[tuple[Path, Path]]:
    """Nothing is thrown away: a restore may have been a mistake. A database and its journal stay together."""
    ready = data_directory.restoring
    databases = [
        (Path(f"{database}{suffix}"), Path(f"{_aside(database, stamp)}{suffix}"))
        for database in (data_directory.ledger, data_directory.control)
        for suffix in ("-wal", "-shm", "")
    ]
    others = [move for name, place in small for move in ((place, _aside(place, stamp)), (ready / name, place))]
    return [*databases, *others, (ready / CONTROL, data_directory.control)]


def _undone(data_directory: DataDirectory, moves: list[tuple[Path, Path]], error: OSError) -> Problem:
    """Everything back to where it was; where that fails too, the next start goes forward again."""
    try:
        for old, new in reversed(moves):
            if new.exists() and not old.exists():
                new.replace(old)
        undone = data_directory.root / f"{RESTORE_PREFIX}undone"
        data_directory.restoring.rename(undone)
        shutil.rmtree(undone, ignore_errors=True)
        _sync(data_directory)
    except OSError:
        what = f"the restore in {data_directory.root} is incomplete: {_words(error)}"
        return Problem("restore.half", what, "fix the disk; the next `fairpool up` completes the restore")
    what = f"nothing was restored, and {data_directory.root} is unchanged: {_words(error)}"
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


# --- reading what anybody may have made --------------------------------------------------------------------------


def _unpack(file: Path, directory: Path) -> None:
    """Lay the members of an archive in a directory: those we know, each once and as a plain file, in one pass.

    A file that was cut short is found by its checksum, so it is read to its end. The archive is read by blocks: the
    library follows what its headers say into memory, and into names that are links.
    """
    with _opened(file) as raw, gzip.GzipFile(fileobj=raw) as content:
        stream = _Bounded(content, os.fstat(raw.fileno()).st_size)
        while (member := _next_member(stream, file)) is not None:
            most = {CONTROL: None, ABOUT: ABOUT_MAX_BYTES}.get(member.name, SMALL_MAX_BYTES)
            if most is not None and member.size > most:
                raise _foreign(file, f"{member.name} is larger than {most // 1024} KiB")
            target = directory / member.name
            with os.fdopen(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as made:
                stream.copy(member.size, made)
                made.flush()
                os.fsync(made.fileno())
        while stream.some(1 << 20):
            pass
    for name in (ABOUT, CONTROL):
        if not (directory / name).exists():
            raise _foreign(file, f"{name} is missing")


def _opened(file: Path) -> io.BufferedReader:
    handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file")
    return os.fdopen(handle, "rb")


class _Bounded:
    """An unpacked stream that may be so much larger than what it is unpacked from, and no more."""

    def __init__(self, content: gzip.GzipFile, packed_bytes: int) -> None:
        self._content, self._left = content, max(EXPANSION_FROM_BYTES, packed_bytes * EXPANSION_MAX)

    def some(self, most: int) -> bytes:
        piece = self._content.read(most)
        self._left -= len(piece)
        if self._left < 0:
            raise tarfile.ReadError(f"it unpacks to more than {EXPANSION_MAX} times its size")
        return piece

    def exactly(self, size: int) -> bytes:
        made = io.BytesIO()
        self.copy(size, made, padded=False)
        return made.getvalue()

    def copy(self, size: int, target: io.BufferedWriter | io.BytesIO, *, padded: bool = True) -> None:
        left = size
        while left:
            piece = self.some(min(left, 1 << 20))
            if not piece:
                raise EOFError("it is truncated")
            target.write(piece)
            left -= len(piece)
        if padded and size % BLOCK:
            self.exactly(BLOCK - size % BLOCK)


_KNOWN = (ABOUT, CONTROL, IMAGES_FILE, USERS_FILE, NODES)


def _next_member(stream: _Bounded, file: Path) -> tarfile.TarInfo | None:
    """The next file in the archive; None: that was the last."""
    for _ in range(2 * len(_KNOWN)):
        block = stream.exactly(BLOCK)
        if not any(block):
            return None
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if member.type in (tarfile.XHDTYPE, tarfile.XGLTYPE) and 0 <= member.size <= ABOUT_MAX_BYTES:
            stream.exactly(-(-member.size // BLOCK) * BLOCK)  # times with fractions, which nobody needs
        elif member.name not in _KNOWN or member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.size < 0:
            kind = "a link" if member.issym() or member.islnk() else "a device or pipe" if member.isdev() else "a file"
            raise _foreign(file, f"it contains {kind} {member.name[:64]!r}, which does not belong in a backup")
        else:
            return member
    raise _foreign(file, "it contains headers without files")


def _foreign(file: Path, why: str) -> PlatformError:
    what = f"{file} is not a Fairpool backup: {why}"
    return PlatformError(Problem("restore.foreign", what, "use a file written by `fairpool backup`"))


def _made_at(about: Path, file: Path) -> datetime:
    try:
        said = json.loads(about.read_bytes())
        if said.get("format") in READABLE_FORMATS:
            return datetime.fromtimestamp(float(said["at"]), UTC)
        version = str(said.get("fairpool", "?"))[:32]
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
        raise _foreign(file, f"its {ABOUT} cannot be read") from error
    what = f"{file} was written by Fairpool {version}, in a format that this version ({__version__}) cannot read"
    raise PlatformError(Problem("restore.newer", what, "restore it with that version of Fairpool"))


def _check(new: Path, file: Path) -> None:
    """Before anything uses the database: it is whole, and has the tables of its version and nothing else."""
    if new.stat().st_size == 0:
        raise PlatformError(Problem("restore.empty", f"the database in {file} is empty", "use another backup"))
    problem = condition.problem_with(new)
    if problem is not None and problem.code == "database.newer":
        what = f"{file} was written by a newer version of Fairpool"
        raise PlatformError(Problem("restore.newer", what, "restore it with that version of Fairpool"))
    if problem is not None and problem.code == "database.foreign":
        raise _foreign(file, problem.what.replace(str(new), "in it").replace("the control database in it", "it"))
    if problem is not None or not condition.is_sound(new):
        raise PlatformError(Problem("restore.damaged", f"the database in {file} is damaged", "use an older backup"))
    if condition.version_of(new) is None:
        raise PlatformError(Problem("restore.empty", f"the database in {file} is empty", "use another backup"))
    strange = condition.strange_in(new)
    if strange:
        more = f" and {len(strange) - 4} more" if len(strange) > 4 else ""
        named = f"{', '.join(strange[:4])}{more}"
        raise _foreign(file, f"its database schema is not that of Fairpool: {named}")


def _check_nodes(nodes: Path, file: Path) -> None:
    if nodes.exists() and problem_with_saved(nodes) is not None:
        raise _foreign(file, f"its {NODES} cannot be read")


def _check_users(data_directory: DataDirectory, users: Path, file: Path) -> None:
    """Files on this machine belong to the users in its own table: that stays, unless it is lost or damaged."""
    if not users.exists():
        return
    if problem_with_users(users):
        raise _foreign(file, f"{USERS_FILE} in it cannot be read")
    if not problem_with_users(data_directory.machine / USERS_FILE):
        users.unlink()


@contextmanager
def _work_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """A directory to work in, gone afterwards. Those of who was killed are swept out first: nobody holds their lock."""
    sweep(parent, prefix)
    directory = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield directory
    finally:
        os.close(handle)
        shutil.rmtree(directory, ignore_errors=True)


def sweep(parent: Path, *prefixes: str) -> None:
    """Remove directories that somebody worked in until he was killed."""
    for directory in [path for prefix in prefixes for path in parent.glob(f"{prefix}*") if path.is_dir()]:
        with suppress(OSError):  # it is in use, or not ours to remove
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory)
            finally:
                os.close(handle)


def _is_full(error: Exception) -> bool:
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def _words(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said.lower() or type(error).__name__

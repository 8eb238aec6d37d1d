"""Backup: what users and administrators declared, in one file.

Of a whole platform it contains the control plane's database, as of one moment, the description of the nodes, the table
of images and that of the projects' users; of a control plane the database, and of a cluster the rest. It does not
contain what pods wrote (logs, checkpoints, claims), the server's log, and the cluster's ledger: a copy of that would
know pods that are over and not those that run. After a restore it is built anew, from what runs and what is declared.
Values of credentials are in it encrypted; their key is not, unless a passphrase is given.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import sqlite3
import tarfile
import time
from pathlib import Path

from fairpool import __version__
from fairpool.agent.durable import sync_directory
from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.agent.project_users import FILE as USERS_FILE
from fairpool.control.sealing import KeyFile, KeyUnusable, wrapped_key
from fairpool.control.store import condition
from fairpool.model.problem import Problem
from fairpool.platform.backup_archive import ABOUT, CONTROL, FORMAT, KEY, MEMBERSHIP, NODES
from fairpool.platform.data_directory import CLUSTER, DataDirectory, PlatformError
from fairpool.platform.directory_lock import lock_holder
from fairpool.platform.work_directory import BACKUP_PREFIX, work_directory

NO_ROOM = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


def make_backup(data_directory: DataDirectory, file: Path, passphrase: bytes | None = None) -> int:
    """Write a backup, complete or not at all; returns its size. Raises `PlatformError`.

    With a passphrase, under which it is encrypted, the key of credentials is in it too; otherwise it is not.

    All space that it needs is taken beside the target: a full data directory is one more reason for a backup.
    """
    if (data_directory.restoring / CONTROL).exists():
        what = f"a restore in {data_directory.root} was interrupted; the next start completes it"
        fix = f"start the server first: fairpool {data_directory.program}"
        raise PlatformError(Problem("backup.restoring", what, fix))
    data_directory.require()
    has_database = data_directory.program != CLUSTER
    if has_database and not data_directory.control.is_file():
        raise PlatformError(_nothing(data_directory))
    try:
        with work_directory(file.absolute().parent, BACKUP_PREFIX) as directory:
            copy, partial = directory / CONTROL, directory / "partial"
            if has_database:
                _copy_control(data_directory, copy)
                if condition.version_of(copy) is None:
                    raise PlatformError(_nothing(data_directory))
            if passphrase is not None:
                _wrap_key(data_directory, passphrase, directory / KEY)
            _write(data_directory, copy, partial)
            size = partial.stat().st_size
            partial.replace(file)
            sync_directory(file.absolute().parent)
        return size
    except (OSError, sqlite3.Error) as error:
        raise PlatformError(_not_written(data_directory, file, error)) from error


def _write(data_directory: DataDirectory, copy: Path, partial: Path) -> None:
    """The archive, with a copy of the database if there is one."""
    handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    machine = data_directory.machine
    members = [
        *((copy, CONTROL), (machine / IMAGES_FILE, IMAGES_FILE), (machine / USERS_FILE, USERS_FILE)),
        *((data_directory.nodes, NODES), (data_directory.membership, MEMBERSHIP), (copy.with_name(KEY), KEY)),
    ]
    with os.fdopen(handle, "wb") as raw:
        with tarfile.open(fileobj=raw, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
            _add_about(archive, data_directory.program, condition.version_of(copy) if copy.exists() else None)
            for path, name in members:
                if path.is_file():
                    archive.add(path, name)
        raw.flush()
        os.fsync(raw.fileno())


def _wrap_key(data_directory: DataDirectory, passphrase: bytes, target: Path) -> None:
    try:
        key = KeyFile(data_directory.root).existing()
    except KeyUnusable as error:
        raise PlatformError(error.problem) from error
    if key is None:
        what = f"there is no key to back up in {data_directory.root}: no credential was stored there"
        raise PlatformError(Problem("backup.no_key", what, "leave out --passphrase-file"))
    target.write_bytes(wrapped_key(key, passphrase))


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
            raise  # another process has begun to write while we copied


def _not_written(data_directory: DataDirectory, file: Path, error: Exception) -> Problem:
    """Whether the database cannot be read, or the target cannot be written."""
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_FULL) & 0xFF  # extended codes keep the plain one there
    if isinstance(error, sqlite3.Error) and code not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
        what = f"the database {data_directory.control} cannot be copied: {words_of(error)}"
        return Problem("backup.not_read", what, "try again later; if the database is damaged, use an older backup")
    what = f"cannot write the backup to {file}: {words_of(error)}"
    return Problem("backup.not_written", what, "choose a file in a writable directory with free space")


def _add_about(archive: tarfile.TarFile, program: str, database: str | None) -> None:
    about = {"format": FORMAT, "fairpool": __version__, "at": time.time(), "program": program, "database": database}
    text = json.dumps(about).encode()
    member = tarfile.TarInfo(ABOUT)
    member.size, member.mode, member.mtime = len(text), 0o600, int(time.time())
    archive.addfile(member, io.BytesIO(text))


def words_of(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return words.lower() or type(error).__name__

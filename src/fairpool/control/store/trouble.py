"""SQLite errors as problems.

Raised by the database as `Unavailable`, answered with 503 or 507, and said by `fairpool up` when it cannot start. What
is not in the table below is a bug and stays what it is.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from sqlalchemy.exc import DBAPIError

from fairpool.model.problem import Problem

DAMAGED, MOVED, READ_ONLY = "database.damaged", "database.moved", "database.read_only"
BUSY, FULL, FAILING = "database.busy", "disk.full", "disk.failing"
FOR_GOOD = frozenset({DAMAGED, MOVED})
"""After one of these nothing more is written until the server was started again, which checks the file."""

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

_ASK = "ask the administrator to check `fairpool logs`"
_WORDS = {
    DAMAGED: (
        503,
        "the control database is damaged; reads may be incomplete and no change is accepted",
        f"{_ASK} and restore a backup: fairpool down, then fairpool restore FILE",
    ),
    MOVED: (
        503,
        "the control database was moved or deleted while the server was running; no change is accepted",
        f"{_ASK}, put the file back or restore a backup with fairpool restore FILE, and restart the server",
    ),
    READ_ONLY: (
        503,
        "the control database is read-only; no change can be saved",
        f"{_ASK} and make the file and its file system writable again",
    ),
    FULL: (507, "the server's disk is full; no change can be saved", "free some disk space on the server, then retry"),
    FAILING: (
        503,
        "the server's disk cannot be read or written",
        f"{_ASK} and the system log for disk errors, then retry",
    ),
    BUSY: (
        503,
        "another process holds a lock on the control database",
        "stop that process or wait until it finishes, then retry",
    ),
}


class Unavailable(Exception):
    """The database cannot do this now, or not any more. Nothing of what was asked for was saved."""

    def __init__(self, code: str, detail: str = "", holder: int | None = None) -> None:
        self.code, self.detail = code, detail
        self.status, what, fix = _WORDS[code]
        if holder is not None:
            what = f"{what} (process {holder})"
        self.problem = Problem(code, what, fix)
        super().__init__(f"{what}: {detail}" if detail else what)

    @property
    def is_for_good(self) -> bool:
        return self.code in FOR_GOOD


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
    return Unavailable(code, f"{path}: {cause}", lock_holder(path) if path is not None and code == BUSY else None)


def code_of(error: sqlite3.Error) -> str | None:
    """Which trouble an error of the driver is; None: none, but a bug."""
    if str(error).startswith(_NOT_TEXT):
        return DAMAGED
    return _CODES.get(int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)) & 0xFF)


def _has_no_room(path: Path) -> bool:
    with suppress(OSError):
        disk = os.statvfs(path.parent)
        return disk.f_bavail * disk.f_frsize < _ROOM_BYTES
    return False


def lock_holder(path: Path) -> int | None:
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

"""Errors of the database and its disk as problems, whichever database system it is.

Answered with 503 or 507, and printed by `fairpool up` when it cannot start.
"""

from __future__ import annotations

from fairpool.model.problem import Problem

DAMAGED, MOVED, READ_ONLY = "database.damaged", "database.moved", "database.read_only"
BUSY, FULL, FAILING = "database.busy", "disk.full", "disk.failing"
UNREACHABLE, NO_CONNECTIONS, REFUSED = "database.unreachable", "database.connections", "database.refused"
UNTRUSTED = "database.untrusted"
STANDBY, UNSURE, NEWER, FOREIGN = "database.standby", "database.unsure", "database.newer", "database.foreign"
OLDER_IN_USE = "database.older_in_use"
FOR_GOOD = frozenset({DAMAGED, MOVED})
"""After one of these nothing more is written until the server was started again, which checks the file."""

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
    UNREACHABLE: (
        503,
        "the control database cannot be reached",
        f"{_ASK} and the PostgreSQL server, then retry; the control plane reconnects by itself",
    ),
    NO_CONNECTIONS: (
        503,
        "the database server accepts no more connections",
        f"{_ASK} and raise max_connections or close other connections, then retry",
    ),
    REFUSED: (
        503,
        "the database server refused the control plane's user, password or database",
        f"{_ASK}, and correct --database, the password file or the user's permissions",
    ),
    UNTRUSTED: (
        503,
        "the certificate of the database server is not trusted",
        f"{_ASK}, and correct sslrootcert, the host name in --database or the certificate of the server",
    ),
    STANDBY: (
        503,
        "the database server is a standby and takes no changes",
        f"{_ASK}; name all servers in --database, so that the one that takes changes is found",
    ),
    UNSURE: (
        503,
        "the connection to the database broke during the commit; whether the change was saved is not known",
        "check whether it was made, or repeat the request with the same Idempotency-Key",
    ),
    NEWER: (
        503,
        "the control database was written by a newer Fairpool",
        "use the newer Fairpool, or restore a backup made before the upgrade",
    ),
    OLDER_IN_USE: (
        503,
        "the tables of the control database are those of an older Fairpool, and control planes use them",
        "stop all control planes of this database, start one of this version, then the others",
    ),
    FOREIGN: (
        503,
        "the database holds tables of another program",
        "create an empty database for Fairpool, and name it in --database",
    ),
}


class Unavailable(Exception):
    """The database cannot do this now, or not any more. Nothing of what was asked for was saved, except with `UNSURE`:
    then it may have been."""

    def __init__(self, code: str, detail: str = "", holder: int | None = None) -> None:
        self.code, self.detail = code, detail
        self.status, what, fix = _WORDS[code]
        if holder is not None:
            what = f"{what} (process {holder})"
        self.problem = Problem(code, what, fix)
        super().__init__(f"{what}: {detail}" if detail else what)

    @property
    def described(self) -> Problem:
        """With the detail, for administrators."""
        return Problem(self.code, str(self), self.problem.fix)

    @property
    def is_for_good(self) -> bool:
        return self.code in FOR_GOOD

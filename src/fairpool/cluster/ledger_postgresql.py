"""The ledger in a PostgreSQL database, which all replicas of a cluster can reach: another one can take over.

Each cluster has a schema of its own, so several clusters, and the control plane, can share a database. A transaction
that writes begins by locking the row of the lease, so writers come one after the other; `synchronous_commit` is on. A
connection that breaks is replaced by the next transaction. If it breaks during a commit, it is not known whether the
entry was recorded (`LedgerUncertain`).

asyncpg needs an event loop: it runs in a thread of its own, and the loop's thread waits for it.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import threading
from collections.abc import Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import count
from typing import Any, TypeVar

import asyncpg

from fairpool.cluster.ledger_schema import POSTGRESQL_MIGRATIONS, VERSION
from fairpool.cluster.ledger_store import Cell, LedgerProblem, LedgerUnavailable, LedgerUncertain
from fairpool.model.problem import Problem

T = TypeVar("T")

SCHEMES = ("postgresql://", "postgres://")
CONNECT_S = 5.0
STATEMENT_S = 30.0
"""How long one statement may take, also where the server has vanished from the network without a word."""
END_S = 5.0
"""How long the end of a transaction that is given up, or of a connection, may take."""
IDLE_IN_TRANSACTION_MS = 15_000
"""A process that stops in the middle of a transaction must not keep the next one from taking over for longer."""
APPLICATION = "fairpool cluster"
PREPARING = 0x46504C47
"""Number of the advisory lock that is held while tables are brought up to date."""
NUL, ESCAPE = "\x00", "\x01"
"""Texts of PostgreSQL cannot contain the character 0, which a message about a pod may: it is written as two others."""

_PASSWORD = re.compile(r"(?<=://)([^:@/?]*):[^/?]*@|([?&](?:password|sslpassword)=)[^&]*", re.IGNORECASE)
_CLOSED = ("connection is closed", "connection was closed", "connection has been closed", "connection is lost")

_BUSY = frozenset({"55P03", "40001", "40P01", "57014"})
_FULL = "53100"
_REFUSED = frozenset({"3D000", "42501", "3F000"})
_AWAY = ("08", "28", "53", "57", "58", "25")
"""Classes of SQLSTATE: of the connection, of the server, of a standby. Not of a statement."""


class PostgresLedger:
    """The store of a cluster's ledger on a server."""

    def __init__(self, location: str, cluster: str, *, busy_s: float = 5.0) -> None:
        """Connect, and make or migrate the tables of this cluster, named by its id. Raises `LedgerProblem` or
        `LedgerUnavailable`."""
        self._location, self._schema = location, schema_name(cluster)
        self.named = f"the ledger in {described(location)}"
        self._settings = {
            "application_name": APPLICATION,
            "synchronous_commit": "on",
            "jit": "off",
            "search_path": self._schema,
            "lock_timeout": f"{int(busy_s * 1000)}",
            "idle_in_transaction_session_timeout": f"{IDLE_IN_TRANSACTION_MS}",
        }
        self._thread = _EventLoopThread("ledger")
        self._connection: Any = None
        self._is_in_transaction = self._is_committing = False
        try:
            self._run(self._prepared())
        except BaseException as error:
            self.close()
            explained = self.explained(error)
            if explained is not error:
                raise explained from error
            raise

    # --- transactions ---

    def begin(self) -> None:
        self._run(self._begun("BEGIN"))
        try:
            (version,) = self.row("SELECT ledger_version.version FROM ledger_version, lease FOR UPDATE OF lease")
        except asyncpg.UndefinedTableError:
            raise LedgerProblem(self._lost_tables()) from None
        self._refuse_newer(int(version))

    def begin_reading(self) -> None:
        self._run(self._begun("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"))

    def commit(self) -> None:
        self._is_committing = True
        status = self._run(self._connection.execute("COMMIT"))
        self._is_in_transaction = self._is_committing = False
        assert status == "COMMIT", f"the transaction ended with {status}"

    def roll_back(self) -> None:
        if not self._is_in_transaction:
            return
        self._is_in_transaction = False
        try:
            self._run(self._connection.execute("ROLLBACK", timeout=END_S))
        except Exception:
            self._drop()

    # --- statements ---

    def rows(self, statement: str, *values: Cell) -> Iterable[tuple[Any, ...]]:
        found = self._run(self._connection.fetch(numbered(statement), *map(_cell, values)))
        return [tuple(map(_value, row)) for row in found]

    def row(self, statement: str) -> tuple[Any, ...]:
        (row,) = self.rows(statement)
        return row

    def change(self, statement: str, *values: Cell) -> int:
        status: str = self._run(self._connection.execute(numbered(statement), *map(_cell, values)))
        return int(status.rpartition(" ")[2])

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        cells = [[_cell(each) for each in row] for row in rows]
        if cells:
            self._run(self._connection.executemany(numbered(statement), cells))

    # --- errors ---

    def explained(self, error: BaseException) -> BaseException:
        was_committing, self._is_committing = self._is_committing, False
        problem = self._problem_with(error)
        if problem is None:
            return error
        self._drop()
        if was_committing:
            what = f"{self.named} did not answer whether an entry was recorded: {problem.what}"
            return LedgerUncertain(Problem("ledger.uncertain", what, problem.fix))
        return LedgerUnavailable(problem)

    def _problem_with(self, error: BaseException) -> Problem | None:
        """None: it is a bug, or an exception that says what is wrong already."""
        state = str(getattr(error, "sqlstate", None) or "")
        words = (str(error).strip() or type(error).__name__).splitlines()[0]
        if state in _BUSY:
            fix = "check the other connections of the database; only one loop at a time may write"
            return Problem("ledger.busy", f"another process is using {self.named}", fix)
        if state == _FULL:
            return Problem("ledger.disk_full", f"no space left on the disk of {self.named}", "free some disk space")
        if state in _REFUSED or state[:2] == "28":
            fix = "check user, password and database, and that the user may create a schema there"
            return Problem("ledger.refused", f"{self.named} cannot be used: {words}", fix)
        if isinstance(error, ssl.SSLCertVerificationError):
            fix = "name its authority with sslrootcert in --ledger"
            return Problem("ledger.untrusted", f"the certificate of {self.named} cannot be verified: {words}", fix)
        is_closed = isinstance(error, asyncpg.InterfaceError) and any(text in words for text in _CLOSED)
        is_away = isinstance(error, OSError | TimeoutError | EOFError | asyncpg.InternalClientError)
        is_standby = isinstance(error, asyncpg.TargetServerAttributeNotMatched)
        if state[:2] in _AWAY or is_closed or is_away or is_standby:
            fix = "check that the server runs and can be reached"
            return Problem("ledger.unreachable", f"{self.named} does not answer: {words}", fix)
        return None

    def _lost_tables(self) -> Problem:
        what = f"{self.named} has lost the tables of this cluster, {self._schema}"
        return Problem("ledger.lost", what, "restart the cluster: it rebuilds its ledger from the pods that run")

    def _refuse_newer(self, version: int) -> None:
        if version > VERSION:
            what = f"{self.named} was written by a newer Fairpool: it has version {version}, this one reads {VERSION}"
            raise LedgerProblem(Problem("ledger.newer", what, "run the newer Fairpool"))

    # --- the connection ---

    def close(self) -> None:
        if self._thread.is_running:
            self._drop()
            self._thread.stop()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    def _drop(self) -> None:
        """Give the connection up; the next transaction makes another."""
        connection, self._connection, self._is_in_transaction = self._connection, None, False
        if connection is not None:
            with suppress(Exception):
                self._run(_ended(connection))

    async def _begun(self, statement: str) -> None:
        """A connection that broke while it was idle is replaced without a word."""
        if self._connection is not None:
            try:
                await self._connection.execute(statement)
            except Exception as error:
                if self._problem_with(error) is None:
                    raise
                self._connection.terminate()
                self._connection = None
            else:
                self._is_in_transaction = True
                return
        self._connection = await self._connected()
        await self._connection.execute(statement)
        self._is_in_transaction = True

    async def _connected(self) -> Any:
        return await asyncpg.connect(
            dsn=self._location,
            timeout=CONNECT_S,
            command_timeout=STATEMENT_S,
            target_session_attrs=None if "target_session_attrs=" in self._location else "read-write",
            server_settings=self._settings,
        )

    async def _prepared(self) -> None:
        """Make or migrate the tables, one process at a time."""
        self._connection = connection = await self._connected()
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({PREPARING})")
            await connection.execute(f'CREATE SCHEMA IF NOT EXISTS "{self._schema}"')
            await connection.execute("CREATE TABLE IF NOT EXISTS ledger_version (version BIGINT NOT NULL)")
            version = await connection.fetchval("SELECT version FROM ledger_version")
            self._refuse_newer(version or 0)
            for statement in _missing(version):
                await connection.execute(statement)
            if version != VERSION:
                await connection.execute("DELETE FROM ledger_version")
                await connection.execute("INSERT INTO ledger_version VALUES ($1)", VERSION)


def is_postgresql(location: str) -> bool:
    return location.startswith(SCHEMES)


def described(location: str) -> str:
    """A location without its passwords, as messages show it."""
    return _PASSWORD.sub(lambda found: found[2] + "***" if found[2] else f"{found[1]}@", location)


def schema_name(cluster: str) -> str:
    """Of the tables of a cluster, by its id."""
    return "fairpool_ledger_" + re.sub(r"[^a-z0-9]", "_", cluster.lower())


def _missing(version: int | None) -> list[str]:
    """Statements that lead from a version to this one; None: there are no tables."""
    steps = [step for number, step in POSTGRESQL_MIGRATIONS if version is None or number > version]
    return [statement for step in steps for statement in step]


@lru_cache(maxsize=256)
def numbered(statement: str) -> str:
    """With `$1`, `$2` in place of each `?`."""
    numbers = count(1)
    return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)


def _cell(value: Any) -> Any:
    if isinstance(value, str) and (NUL in value or ESCAPE in value):
        return value.replace(ESCAPE, ESCAPE + "1").replace(NUL, ESCAPE + "0")
    return int(value) if isinstance(value, bool) else value


def _value(cell: Any) -> Any:
    if isinstance(cell, str) and ESCAPE in cell:
        return cell.replace(ESCAPE + "0", NUL).replace(ESCAPE + "1", ESCAPE)
    return cell


async def _ended(connection: Any) -> None:
    with suppress(Exception):
        await connection.close(timeout=END_S)


class _EventLoopThread:
    """Runs coroutines in another thread, one at a time."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

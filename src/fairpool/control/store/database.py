"""The database: one connection that writes, one that reads, and group commit.

A unit is an ordinary function of a connection. Units that arrive while a commit is on its way to the disk form the
next one, so that the price of `synchronous=FULL` is paid once for all of them; each runs in a savepoint of its own and
fails alone. On SQLite statements run on the event loop's thread, where no other thread's turn is waited for, and only
the commit, which waits for the disk, is given to another; so is waiting for a lock that another process holds. Errors
of the file and its disk are raised as `Unavailable`. For PostgreSQL the same units are to be run with
`AsyncConnection.run_sync`.

Simulations have no event loop: they open the database with `open_now` and run units with `read_now` and `write_now`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Connection as Connection  # the other modules of the store import it from here
from sqlalchemy import Engine, create_engine, event
from sqlalchemy import Table as Table
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import StaticPool

from fairpool.control.store.trouble import BUSY, MOVED, Unavailable, code_of, unavailable

log = logging.getLogger("fairpool.control")

T = TypeVar("T")
Unit = Callable[[Connection], T]

UNITS_PER_COMMIT = 128
UNITS_CPU_S = 0.02
"""With more at a time, the event loop would be busy for longer than those who only read should wait."""

BUSY_S = 5.0
"""How long a change waits for another process that holds the write lock."""
LOCK_SLICE_MS = 200
"""How long the commit thread waits for the lock at a time, between two looks at who has waited for too long."""
READ_BUSY_MS = 250
"""Readers of a write-ahead log hardly ever wait, and while they do the event loop does."""
APPLICATION_ID = 0x46504354
"""Says in the file's header that it is a control database of Fairpool. Files of the first versions have none."""

PRAGMAS = ("journal_mode=WAL", "foreign_keys=ON", "cache_size=-65536")


class Synchronous(StrEnum):
    """What a committed transaction survives."""

    FULL = "FULL"
    """A power failure."""
    NORMAL = "NORMAL"
    """The end of the process, however it ends."""


class Closed(Exception):
    """A write to a database that was closed."""


@dataclass(slots=True)
class _Pending(Generic[T]):
    unit: Unit[T]
    answer: asyncio.Future[T]
    result: T | None = None
    error: Exception | None = None
    since: float = field(default_factory=time.monotonic)

    def tell(self, trouble: Exception | None) -> None:
        """A disk that fails must not leave callers waiting, nor let them believe that it was written."""
        if self.answer.done():
            return
        error = trouble or self.error
        if isinstance(error, StopIteration):  # which no future takes
            self.answer.set_exception(RuntimeError(f"a unit ended with {error!r}"))
        elif error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(cast(T, self.result))


def driver_of(connection: Connection) -> sqlite3.Connection:
    """SQLite's own connection: transactions are begun and ended on it, at a tenth of the price."""
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)


class Database:
    """A SQLite file, or tables in memory where there is no path. Open it, and close it when done."""

    def __init__(
        self, path: Path | None, *, busy_s: float = BUSY_S, synchronous: Synchronous = Synchronous.FULL
    ) -> None:
        self.path = path
        self._busy_s = busy_s
        self._synchronous = synchronous
        self._trouble: Unavailable | None = None
        """The latest, until something was written again; one that is for good stays."""
        self._queue: deque[_Pending[Any]] = deque()
        self._is_closed = False
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._disk: Executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._writing: Connection | None = None
        self._reading: Connection | None = None
        self._engines: list[Engine] = []
        self.after_commit: Callable[[], None] = lambda: None
        self._then: list[Callable[[], None]] = []
        self._files: list[int] = []
        """Which files were opened, by their inodes."""

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect, bring the tables up to date with `prepare`, and begin to take units. Raises `Unavailable`."""
        self.open_now(prepare)

    def open_now(self, prepare: Callable[[Connection], None]) -> None:
        """The same without an event loop."""
        try:
            if self.path is not None:
                self.path.parent.mkdir(parents=True, exist_ok=True)
            self._writing = self._connection(int(self._busy_s * 1000))
            raw = driver_of(self._writing)
            raw.execute("BEGIN IMMEDIATE")
            try:
                prepare(self._writing)  # ends the transaction by itself
            finally:
                if raw.in_transaction:
                    raw.execute("ROLLBACK")
            # Also where it is so already: a write is the only proof that the file can be written.
            raw.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            raw.execute("PRAGMA busy_timeout = 0")
            self._reading = self._writing if self.path is None else self._connection(READ_BUSY_MS)
        except Exception as error:
            trouble = unavailable(error, self.path)
            if trouble is None:
                raise
            raise trouble from error
        self._files = self._identities()

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file."""
        self._is_closed = True
        while not self._at_rest.is_set():
            await self._at_rest.wait()
        self.close_now()

    def close_now(self) -> None:
        """Let go of the file; nothing may be under way."""
        self._is_closed = True
        for connection in (self._reading, self._writing):
            if connection is not None:
                with suppress(Exception):  # a damaged file cannot always be closed in good order
                    connection.close()
        for engine in self._engines:
            with suppress(Exception):
                engine.dispose()
        self._disk.shutdown()

    async def read(self, unit: Unit[T]) -> T:
        """What is written, at one moment. Raises `Unavailable`."""
        return self.read_now(unit)

    def read_now(self, unit: Unit[T]) -> T:
        """The same without an event loop."""
        assert self._reading is not None, "the database is not open"
        raw = driver_of(self._reading)
        try:
            raw.execute("BEGIN")
            try:
                return unit(self._reading)
            finally:
                if raw.in_transaction:  # after some errors SQLite has ended it by itself
                    raw.execute("COMMIT")
        except Exception as error:
            trouble = unavailable(error, self.path)
            if trouble is None:
                raise
            self._note(trouble)
            raise trouble from error

    async def write(self, unit: Unit[T]) -> T:
        """Do this; when it returns, it survives a power cut. What the unit raises undoes it, and only it.

        Raises `Unavailable`; once the file was seen to be damaged, always.
        """
        self._check_writable()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(unit, answer))
        if self._at_rest.is_set():
            self._begin()
        return await answer

    def write_now(self, unit: Unit[T]) -> T:
        """The same without an event loop: one unit, one commit, both in the calling thread."""
        self._check_writable()
        assert self._writing is not None, "the database is not open"
        assert self._at_rest.is_set(), "the database is written to by tasks"
        raw = driver_of(self._writing)
        try:
            raw.execute("BEGIN IMMEDIATE")
            result = unit(self._writing)
            raw.execute("COMMIT")
        except BaseException as error:
            self._then = []
            self._roll_back()
            trouble = self._in_words(error) if isinstance(error, Exception) else error
            if trouble is error:
                raise
            raise trouble from error
        then, self._then = self._then, []
        for call in (*then, self.after_commit):
            call()
        return result

    def _check_writable(self) -> None:
        if self._is_closed:
            raise Closed("the database is closed; nothing can be saved")
        if self._trouble is not None and self._trouble.is_for_good:
            raise Unavailable(self._trouble.code, self._trouble.detail)

    def when_committed(self, call: Callable[[], None]) -> None:
        """From within a unit: do this once what it did can be read by others; not if it is undone."""
        self._then.append(call)

    # Under load, a task that waits for the event loop waits for all tasks before it. So a unit is
    # carried out where it comes in, and between disk and answer there is no task that would have to be woken first.

    def _begin(self) -> None:
        """Carry out what has come, and send it to the disk."""
        assert self._writing is not None, "the database is not open"
        self._at_rest.clear()
        raw = driver_of(self._writing)
        try:
            raw.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            if code_of(error) == BUSY:
                self._wait_for_lock(raw)
            else:
                self._fail_all([], error)
        else:
            self._carry_out_batch(raw)

    def _carry_out_batch(self, raw: sqlite3.Connection) -> None:
        """The transaction was begun."""
        assert self._writing is not None
        loop = asyncio.get_running_loop()
        batch: list[_Pending[Any]] = []
        try:
            until = time.thread_time() + UNITS_CPU_S
            while self._queue and len(batch) < UNITS_PER_COMMIT and time.thread_time() < until:
                batch.append(self._queue.popleft())
                self._carry_out(batch[-1], self._writing, raw)
            self._disk.submit(self._commit, raw, lambda trouble: loop.call_soon_threadsafe(self._end, batch, trouble))
        except Exception as trouble:
            self._fail_all(batch, trouble)

    def _fail_all(self, batch: list[_Pending[Any]], trouble: Exception) -> None:
        """The next ones would fail as well."""
        batch += self._queue
        self._queue.clear()
        self._end(batch, trouble)

    # Another process that holds the write lock must not stop those who read: it is waited for in the commit thread.

    def _wait_for_lock(self, raw: sqlite3.Connection) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._disk.submit(_begin_patiently, raw, lambda error: loop.call_soon_threadsafe(self._waited, raw, error))
        except Exception as trouble:
            self._fail_all([], trouble)

    def _waited(self, raw: sqlite3.Connection, error: Exception | None) -> None:
        if error is None:
            self._carry_out_batch(raw)
            return
        if not isinstance(error, sqlite3.Error) or code_of(error) != BUSY:
            self._fail_all([], error)
            return
        late = time.monotonic() - self._busy_s
        impatient = []
        while self._queue and self._queue[0].since <= late:
            impatient.append(self._queue.popleft())
        if impatient:
            trouble = self._in_words(error)
            for pending in impatient:
                pending.tell(trouble)
        if self._queue:
            self._wait_for_lock(raw)
        else:
            self._at_rest.set()

    def _carry_out(self, pending: _Pending[Any], connection: Connection, raw: sqlite3.Connection) -> None:
        if not pending.answer.cancelled():
            asked = len(self._then)
            pending.result, pending.error = _attempt(connection, raw, pending.unit)
            if pending.error is not None:
                del self._then[asked:]

    def _end(self, batch: list[_Pending[Any]], trouble: Exception | None) -> None:
        """It is on the disk, or could not be brought there: tell the callers, and go on with what came meanwhile."""
        then, self._then = self._then, []
        try:
            if trouble is not None:
                self._roll_back()
                trouble = self._in_words(trouble)
            else:
                if self._trouble is not None and not self._trouble.is_for_good:
                    log.info("database recovered", extra={"fields": {"was": self._trouble.code}})
                    self._trouble = None
                for call in (*then, self.after_commit):
                    call()
        finally:
            for pending in batch:
                pending.tell(trouble)
            if self._queue:
                asyncio.get_running_loop().call_soon(self._begin)  # after those who were told have answered
            else:
                self._at_rest.set()

    def _roll_back(self) -> None:
        assert self._writing is not None
        with suppress(sqlite3.Error):  # then the next BEGIN fails, and its callers are told
            raw = driver_of(self._writing)
            if raw.in_transaction:
                raw.execute("ROLLBACK")

    def _in_words(self, error: Exception) -> Exception:
        trouble = unavailable(error, self.path)
        if trouble is None:
            return error
        self._note(trouble)
        return trouble

    def _note(self, trouble: Unavailable) -> None:
        """One line for each kind of trouble, until it is over."""
        if self._trouble is None or (trouble.code != self._trouble.code and not self._trouble.is_for_good):
            fields = {"code": trouble.code, "detail": trouble.detail, "fix": trouble.problem.fix}
            log.error(trouble.problem.what, extra={"fields": fields})
            self._trouble = trouble

    def _commit(self, raw: sqlite3.Connection, tell: Callable[[Exception | None], object]) -> None:
        """In the commit thread. What was acknowledged must be found in the file of that name."""
        try:
            raw.execute("COMMIT")
            if self._identities() != self._files:
                raise Unavailable(MOVED, str(self.path))
        except Exception as trouble:
            tell(trouble)
        else:
            tell(None)

    def _identities(self) -> list[int]:
        try:
            return [os.stat(f"{self.path}{suffix}").st_ino for suffix in ("", "-wal")]
        except OSError:
            return []

    def _connection(self, busy_ms: int) -> Connection:
        engine = create_engine(
            "sqlite://" if self.path is None else f"sqlite:///{self.path}",
            poolclass=StaticPool,
            connect_args={"check_same_thread": False},
        )
        self._engines.append(engine)

        # Left to itself the driver begins no transaction before the first write, and so loses updates: we say when.
        @event.listens_for(engine, "connect")
        def _on_connect(raw: sqlite3.Connection, _: object) -> None:
            raw.isolation_level = None
            for pragma in (f"busy_timeout={busy_ms}", f"synchronous={self._synchronous}", *PRAGMAS):
                raw.execute(f"PRAGMA {pragma}")

        return engine.connect()


def _begin_patiently(raw: sqlite3.Connection, tell: Callable[[Exception | None], object]) -> None:
    """In the commit thread: wait a while for the write lock."""
    try:
        raw.execute(f"PRAGMA busy_timeout = {LOCK_SLICE_MS}")
        try:
            raw.execute("BEGIN IMMEDIATE")
        finally:
            raw.execute("PRAGMA busy_timeout = 0")
    except Exception as trouble:
        tell(trouble)
    else:
        tell(None)


def _attempt(connection: Connection, raw: sqlite3.Connection, unit: Unit[T]) -> tuple[T | None, Exception | None]:
    """The result, or what the unit raised. What is the database's trouble, and not the unit's, is raised here."""
    raw.execute("SAVEPOINT unit")
    try:
        result = unit(connection)
    except Exception as error:
        # A full disk may undo the whole transaction; on a damaged one the others have seen who knows what.
        if not raw.in_transaction or _is_damage(error):
            raise
        raw.execute("ROLLBACK TO unit")
        raw.execute("RELEASE unit")
        return None, error
    raw.execute("RELEASE unit")
    return result, None


def _is_damage(error: Exception) -> bool:
    cause = error.orig if isinstance(error, DBAPIError) else error
    return isinstance(cause, sqlite3.Error) and code_of(cause) not in (None, BUSY)

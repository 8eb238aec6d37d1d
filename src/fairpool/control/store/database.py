"""The one connection that writes, the one that reads, and the commit that writers share.

A unit is an ordinary function of a connection. Units that arrive while a commit is on its way to the disk form the
next one, so that the price of `synchronous=FULL` is paid once for all of them; each runs in a savepoint of its own and
fails alone. On SQLite statements run on the event loop's thread, where no other thread's turn is waited for, and only
the commit, which waits for the disk, is given to another. For PostgreSQL the same units are to be run with
`AsyncConnection.run_sync`.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Connection as Connection  # the rest of the room takes it from here
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from fairpool.control.store.prepared import driver_of

T = TypeVar("T")
Unit = Callable[[Connection], T]

UNITS_PER_COMMIT = 128
UNITS_CPU_S = 0.02
"""With more at a time, the event loop would be busy for longer than those who only read should wait."""

PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "foreign_keys=ON", "cache_size=-65536")


class Closed(Exception):
    """Somebody wants to write although we have left."""


@dataclass(slots=True)
class _Pending(Generic[T]):
    unit: Unit[T]
    answer: asyncio.Future[T]
    result: T | None = None
    error: Exception | None = None

    def tell(self, trouble: Exception | None) -> None:
        """A disk that fails must not leave anybody waiting, and nobody may believe that it was written."""
        if self.answer.done():
            return
        error = trouble or self.error
        if isinstance(error, StopIteration):  # which no future takes
            self.answer.set_exception(RuntimeError(f"a unit ended with {error!r}"))
        elif error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(cast(T, self.result))


class Database:
    """A SQLite file. Open it, and close it when done."""

    def __init__(self, path: Path) -> None:
        self.path = path
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

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect, bring the tables up to date with `prepare`, and begin to take units."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._writing = self._connection()
        raw = driver_of(self._writing)
        raw.execute("BEGIN IMMEDIATE")
        try:
            prepare(self._writing)  # ends the transaction by itself
        finally:
            if raw.in_transaction:
                raw.execute("ROLLBACK")
        self._reading = self._connection()

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file."""
        self._is_closed = True
        while not self._at_rest.is_set():
            await self._at_rest.wait()
        for connection in (self._reading, self._writing):
            if connection is not None:
                connection.close()
        for engine in self._engines:
            engine.dispose()
        self._disk.shutdown()

    async def read(self, unit: Unit[T]) -> T:
        """What is written, at one moment."""
        assert self._reading is not None, "the database is not open"
        raw = driver_of(self._reading)  # transactions are begun and ended on it, at a tenth of the price
        raw.execute("BEGIN")
        try:
            return unit(self._reading)
        finally:
            raw.execute("COMMIT")

    async def write(self, unit: Unit[T]) -> T:
        """Do this; when it returns, it survives a power cut. What the unit raises undoes it, and only it."""
        if self._is_closed:
            raise Closed("the database is closed: nothing is written any more")
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(unit, answer))
        if self._at_rest.is_set():
            self._begin()
        return await answer

    def when_committed(self, call: Callable[[], None]) -> None:
        """From within a unit: do this once what it did can be read by others; not if it is undone."""
        self._then.append(call)

    # Under load, whoever waits for the event loop waits for the whole line of those who want something. So a unit is
    # carried out where it comes in, and between disk and answer there is no task that would have to be woken first.

    def _begin(self) -> None:
        """Carry out what has come, and send it to the disk."""
        assert self._writing is not None, "the database is not open"
        self._at_rest.clear()
        loop = asyncio.get_running_loop()
        batch: list[_Pending[Any]] = []
        try:
            raw = driver_of(self._writing)
            raw.execute("BEGIN IMMEDIATE")
            until = time.thread_time() + UNITS_CPU_S
            while self._queue and len(batch) < UNITS_PER_COMMIT and time.thread_time() < until:
                batch.append(self._queue.popleft())
                self._carry_out(batch[-1], self._writing, raw)
            self._disk.submit(_commit, raw, lambda trouble: loop.call_soon_threadsafe(self._end, batch, trouble))
        except Exception as trouble:
            batch += self._queue  # who comes next would fare no better
            self._queue.clear()
            self._end(batch, trouble)

    def _carry_out(self, pending: _Pending[Any], connection: Connection, raw: sqlite3.Connection) -> None:
        if not pending.answer.cancelled():
            asked = len(self._then)
            pending.result, pending.error = _attempt(connection, raw, pending.unit)
            if pending.error is not None:
                del self._then[asked:]

    def _end(self, batch: list[_Pending[Any]], trouble: Exception | None) -> None:
        """It is on the disk, or could not be brought there: let everybody know, and go on with what came meanwhile."""
        then, self._then = self._then, []
        try:
            if trouble is not None:
                self._roll_back()
            else:
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
        with suppress(sqlite3.Error):  # then the next BEGIN says so to whoever comes next
            raw = driver_of(self._writing)
            if raw.in_transaction:
                raw.execute("ROLLBACK")

    def _connection(self) -> Connection:
        engine = create_engine(
            f"sqlite:///{self.path}", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
        self._engines.append(engine)

        # Left to itself the driver begins no transaction before the first write, and so loses updates: we say when.
        @event.listens_for(engine, "connect")
        def _on_connect(raw: sqlite3.Connection, _: object) -> None:
            raw.isolation_level = None
            for pragma in PRAGMAS:
                raw.execute(f"PRAGMA {pragma}")

        return engine.connect()


def _commit(raw: sqlite3.Connection, tell: Callable[[Exception | None], object]) -> None:
    try:
        raw.execute("COMMIT")
    except Exception as trouble:
        tell(trouble)
    else:
        tell(None)


def _attempt(connection: Connection, raw: sqlite3.Connection, unit: Unit[T]) -> tuple[T | None, Exception | None]:
    raw.execute("SAVEPOINT unit")
    try:
        result = unit(connection)
    except Exception as error:
        raw.execute("ROLLBACK TO unit")
        raw.execute("RELEASE unit")
        return None, error
    raw.execute("RELEASE unit")
    return result, None

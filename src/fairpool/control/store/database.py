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
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection as Connection  # the rest of the room takes it from here
from sqlalchemy import Engine, create_engine, event
from sqlalchemy.pool import StaticPool

from fairpool.control.store.prepared import driver_of

T = TypeVar("T")
Unit = Callable[[Connection], T]

UNITS_PER_COMMIT = 128
"""More would keep the event loop busy for longer than a person notices."""

PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=5000", "foreign_keys=ON", "cache_size=-65536")


@dataclass(slots=True)
class _Pending(Generic[T]):
    unit: Unit[T]
    answer: asyncio.Future[T]


class Database:
    """A SQLite file. Open it, and close it when done."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._queue: deque[_Pending[Any]] = deque()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._disk = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
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
        self._task = asyncio.create_task(self._write_for_ever(), name="writer")

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await self._task
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
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(_Pending(unit, answer))
        self._wake.set()
        return await answer

    def when_committed(self, call: Callable[[], None]) -> None:
        """From within a unit: do this once what it did can be read by others; not if it is undone."""
        self._then.append(call)

    async def _write_for_ever(self) -> None:
        while not self._closing:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                count = min(len(self._queue), UNITS_PER_COMMIT)
                await self._commit([self._queue.popleft() for _ in range(count)])

    async def _commit(self, batch: list[_Pending[Any]]) -> None:
        assert self._writing is not None
        raw = driver_of(self._writing)
        outcomes: list[tuple[_Pending[Any], Any, Exception | None]] = []
        loop = asyncio.get_running_loop()
        try:
            raw.execute("BEGIN IMMEDIATE")
            for pending in batch:
                if not pending.answer.cancelled():
                    asked = len(self._then)
                    result, error = _attempt(self._writing, raw, pending.unit)
                    if error is not None:
                        del self._then[asked:]
                    outcomes.append((pending, result, error))
            await loop.run_in_executor(self._disk, raw.execute, "COMMIT")
        except Exception as trouble:
            # A disk that fails must not leave anybody waiting, and nobody may believe that it was written.
            if raw.in_transaction:
                raw.execute("ROLLBACK")
            for pending in batch:
                if not pending.answer.done():
                    pending.answer.set_exception(trouble)
            self._then.clear()
            return
        for call in self._then:
            call()
        self._then.clear()
        self.after_commit()
        for pending, result, error in outcomes:
            if pending.answer.done():
                continue
            if error is not None:
                pending.answer.set_exception(error)
            else:
                pending.answer.set_result(result)

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

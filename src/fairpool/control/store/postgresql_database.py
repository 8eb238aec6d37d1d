"""Transactions of a PostgreSQL database: many connections that read, one that writes, and group commit.

Several processes may use one database. Units are carried out by one task, which is waited for by none: while a
statement is on its way, the event loop answers others. A unit may so be suspended at any statement. Reads that take
long to compute, and those who have no event loop, have a thread with a loop of its own (`read_apart`, `read_now`).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from fairpool.control.store import database as limits
from fairpool.control.store.database import BUSY_S, Closed, Connection, Database, Pending, Unit
from fairpool.control.store.event_loop_thread import EventLoopThread
from fairpool.control.store.migrations import known_versions
from fairpool.control.store.postgresql import APPLICATION, PostgresLinks, described
from fairpool.control.store.postgresql_bell import Bell, in_turn
from fairpool.control.store.postgresql_errors import cause_of, code_of, is_unfit, unavailable
from fairpool.control.store.postgresql_writer import PostgresWriter
from fairpool.control.store.unavailable import OLDER_IN_USE, Unavailable
from fairpool.control.store.unfit import Unfit

log = logging.getLogger("fairpool.control")

T = TypeVar("T")

PREPARING = 0x46504354
"""Number of the advisory lock that is held while tables are brought up to date."""


TIDYING = PREPARING + 1
"""The one that is held by the process that deletes what is old."""

OLDER_WAIT_S, OLDER_PAUSE_S = 10.0, 0.2
OTHERS = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = $1 AND pid <> pg_backend_pid()
      AND (wait_event_type, wait_event) IS DISTINCT FROM ('Lock', 'advisory')
"""
"""Connections of control planes, but for those that wait here for their turn to start."""


class PostgresDatabase(Database):
    """The transactions of this process in a database that others may use too."""

    is_shared = True

    def __init__(self, location: str, *, busy_s: float = BUSY_S) -> None:
        super().__init__()
        self._location, self._busy_s = location, busy_s
        self.where = described(location)
        self.sender = uuid.uuid4().hex
        """By which this process knows its own announcements of commits."""
        self._side: _Side | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._apart: _ApartSide | None = None
        self._writing: asyncio.Task[None] | None = None
        self._connected = 0
        self._said: set[str] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- open and close ---

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._side = _Side(self._location, self.where, self._busy_s)
        try:
            await self._side.open(prepare)
            bell = Bell(self._location, self.sender, lambda said: self.after_commit_elsewhere(said))
            self._start(bell.run(), "bell")
        except Exception as error:
            await self._side.close()
            self._raise_if_unavailable(error)
            raise

    def open_now(self, prepare: Callable[[Connection], None]) -> None:
        apart = self._made_apart()
        try:
            apart.run(apart.side.open(prepare))
        except Exception as error:
            self.close_now()
            self._raise_if_unavailable(error)
            raise

    async def _let_go(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._apart is not None:
            await asyncio.to_thread(self._apart.close)
        if self._side is not None:
            await self._side.close()

    def close_now(self) -> None:
        self._is_closed = True
        if self._apart is not None:
            self._apart.close()

    # --- read ---

    async def read(self, unit: Unit[T]) -> T:
        assert self._side is not None, "the database is not open"
        self._check_loop()
        try:
            return await self._side.links.read(unit)
        except Exception as error:
            self._raise_if_known(error)
            raise

    def read_now(self, unit: Unit[T]) -> T:
        apart = self._made_apart()
        try:
            return apart.run(apart.side.links.read(unit))
        except Exception as error:
            self._raise_if_unavailable(error)
            raise

    async def read_apart(self, unit: Unit[T]) -> T:
        if self._is_closed:
            raise Closed("the database is closed; nothing can be read")
        apart = self._made_apart()
        try:
            return await asyncio.wrap_future(apart.submit(apart.side.links.read(unit)))
        except Exception as error:
            self._raise_if_known(error)
            raise

    def _raise_if_known(self, error: Exception) -> None:
        self._raise_if_unavailable(error)
        if (unfit := _unfit(error)) is not None:
            raise unfit from error

    # --- write ---

    def _check_loop(self) -> None:
        # A connection that is used from another event loop crashes the process in the driver's C code.
        assert asyncio.get_running_loop() is self._loop, "the database was opened in another event loop"

    def _begin(self) -> None:
        self._check_loop()
        self._at_rest.clear()
        self._writing = asyncio.get_running_loop().create_task(self._write_batch(), name="write")

    async def _write_batch(self) -> None:
        assert self._side is not None, "the database is not open"
        writer, batch = self._side.writer, list[Pending[Any]]()
        try:
            await writer.begin()
            until = time.perf_counter() + limits.UNITS_S
            while self._queue and len(batch) < limits.UNITS_PER_COMMIT and time.perf_counter() < until:
                if batch:
                    await writer.keep()
                batch.append(self._queue.popleft())
                await self._carry_out(writer, batch[-1])
            await writer.commit(self._announcement())
        except Exception as error:
            await writer.roll_back(error)
            self._fail_all(batch, error)
        except BaseException:
            await writer.drop()
            self._fail_all(batch, Closed("the server stops; nothing can be saved"))
            raise
        else:
            self._end(batch, None)
        finally:
            self._note_connections(writer)

    async def _carry_out(self, writer: PostgresWriter, pending: Pending[Any]) -> None:
        """Run a unit in a savepoint of its own. Raises what is the database's problem, and not the unit's."""
        if pending.answer.cancelled():
            return
        asked = len(self._then)
        try:
            pending.result = await writer.run(pending.unit)
        except Exception as error:
            if code_of(error) is not None:
                raise
            del self._then[asked:]
            self.undone += 1
            pending.error = _unfit(error) or error
            await writer.undo()

    def write_now(self, unit: Unit[T]) -> T:
        self._check_writable()
        apart = self._made_apart()
        try:
            result = apart.run(self._written(apart.side.writer, self._watched(unit)))
        except BaseException as error:
            self._then = []
            self.undone += 1
            problem = self._described(error) if isinstance(error, Exception) else error
            if problem is error:
                raise
            raise problem from error
        then, self._then = self._then, []
        for call in (*then, self.after_commit):
            call()
        return result

    async def _written(self, writer: PostgresWriter, unit: Unit[T]) -> T:
        await writer.begin()
        try:
            result = await writer.run(unit)
            await writer.commit(self._announcement())
        except BaseException as error:
            await writer.roll_back(error)
            raise
        return result

    # --- other processes ---

    def announce(self, word: str) -> None:
        self._said.add(word)

    def _announcement(self) -> str:
        said, self._said = self._said, set()
        return " ".join((self.sender, *sorted(said)))

    async def in_one_process(self, work: Callable[[], Awaitable[None]]) -> None:
        await in_turn(self._location, TIDYING, work)

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _roll_back(self) -> None:
        """It was rolled back where it failed."""

    def _note_connections(self, writer: PostgresWriter) -> None:
        """After a new connection it may be another server, which counts on from where its copy ended."""
        if writer.connected != self._connected:
            self._connected = writer.connected
            self.undone += 1

    def _unavailable(self, error: BaseException) -> Unavailable | None:
        return unavailable(error, self.where)

    def _made_apart(self) -> _ApartSide:
        if self._apart is None:
            self._apart = _ApartSide(lambda: _Side(self._location, self.where, self._busy_s))
        return self._apart


def _unfit(error: Exception) -> Unfit | None:
    if not is_unfit(error):
        return None
    log.warning("a value did not fit into the database", exc_info=error)
    return Unfit(str(cause_of(error)).partition("\n")[0])


class _Side:
    """What one event loop has of a database."""

    def __init__(self, location: str, where: str, busy_s: float) -> None:
        self.links = PostgresLinks(location)
        self.writer = PostgresWriter(self.links, where, busy_s)

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Bring the tables up to date, one process at a time."""
        link = await self.links.connect()
        try:
            await link.raw.execute(f"SELECT pg_advisory_lock({PREPARING})")
            await _wait_for_older(link.raw)
            await link.connection.execution_options(isolation_level="READ COMMITTED")
            await link.run(prepare)
        finally:
            await link.close()

    async def close(self) -> None:
        await self.writer.drop()
        await self.links.close()


async def _wait_for_older(raw: Any) -> None:
    """Before tables are changed: processes of the older version would go on writing to them as if they were not.

    A process that has just been stopped has a moment to go. Raises `Unavailable`.
    """
    if not await raw.fetchval("SELECT to_regclass('alembic_version') IS NOT NULL"):
        return
    found, known = await raw.fetchval("SELECT version_num FROM alembic_version"), known_versions()
    if found == known[-1] or found not in known:  # nothing to do, or nothing that can be done
        return
    until = time.monotonic() + OLDER_WAIT_S
    while count := await raw.fetchval(OTHERS, APPLICATION):
        if time.monotonic() >= until:
            raise Unavailable(OLDER_IN_USE, f"version {found}, {count} connections")
        await asyncio.sleep(OLDER_PAUSE_S)


class _ApartSide:
    """The same with a thread and an event loop of its own."""

    def __init__(self, make: Callable[[], _Side]) -> None:
        self._thread = EventLoopThread("read")
        self.side = make()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    def submit(self, work: Coroutine[Any, Any, T]) -> Any:
        return self._thread.submit(work)

    def close(self) -> None:
        self._thread.run(self.side.close())
        self._thread.stop()

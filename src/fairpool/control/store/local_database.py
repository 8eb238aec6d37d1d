"""Transactions of a database in this process: one connection that writes, one that reads.

Statements run on the event loop's thread, where no other thread's turn is waited for, and only the commit, which waits
for the disk, is given to another; so is waiting for a lock that another process holds. Reads that go through whole
tables are done in a third thread (`read_apart`), since all others would wait for them.

What differs between database systems is behind `DatabaseDriver`; `store/sqlite.py` is the one there is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from fairpool.control.store import database as limits
from fairpool.control.store.database import BUSY_S, Closed, Connection, Database, Pending, Unit
from fairpool.control.store.unavailable import Unavailable

T = TypeVar("T")


class DatabaseDriver(Protocol):
    """What transactions need of a database system, each with its own way of doing it.

    One connection writes and one reads; all calls come from one thread, but for `wait_to_write` and `commit`, which
    come from another while the first one leaves the writing connection alone. Statements need nothing of this:
    SQLAlchemy compiles them for the dialect of the connection.
    """

    def open(self, prepare: Callable[[Connection], None], busy_s: float) -> tuple[Connection, Connection]:
        """Connect, bring the tables up to date, and check that something can be written; the connection that writes
        and the one that reads. They may be one."""

    def close(self) -> None: ...

    def begin_read(self) -> None:
        """From here on, all statements see the same state."""

    def end_read(self) -> None: ...

    def read_apart(self, unit: Callable[[Connection], T]) -> T:
        """Read in the calling thread, which is always the same, on a connection of its own."""

    def begin_write(self) -> bool:
        """Take the right to write, so that nothing read from here on is changed by others before the commit. False:
        another process has it."""

    def wait_to_write(self) -> bool:
        """The same, waiting a fraction of a second for the other process. Called in another thread."""

    def busy(self) -> Unavailable:
        """The problem that another process has the right to write."""

    def commit(self) -> None:
        """When it returns, what was written survives what was promised. Called in another thread."""

    def roll_back(self) -> None:
        """Undo the transaction, if there is one."""

    def savepoint(self) -> None: ...

    def release(self) -> None:
        """Keep what was written since the savepoint."""

    def undo_to_savepoint(self) -> None: ...

    def ends_transaction(self, error: Exception) -> bool:
        """Whether after this error of a statement the whole transaction is lost or cannot be relied on."""

    def unavailable(self, error: BaseException) -> Unavailable | None:
        """The problem that an error of the database or its disk is; None: it is neither."""


class LocalDatabase(Database):
    """Transactions of a database whose statements are carried out where they are called."""

    def __init__(self, driver: DatabaseDriver, *, busy_s: float = BUSY_S) -> None:
        super().__init__()
        self._driver = driver
        self._busy_s = busy_s
        self._disk: Executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._apart = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read")
        self._writing: Connection | None = None
        self._reading: Connection | None = None

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        self.open_now(prepare)

    def open_now(self, prepare: Callable[[Connection], None]) -> None:
        try:
            self._writing, self._reading = self._driver.open(prepare, self._busy_s)
        except Exception as error:
            problem = self._driver.unavailable(error)
            if problem is None:
                raise
            raise problem from error

    async def _let_go(self) -> None:
        self.close_now()

    def close_now(self) -> None:
        self._is_closed = True
        self._apart.shutdown()
        self._driver.close()
        self._disk.shutdown()

    async def read(self, unit: Unit[T]) -> T:
        return self.read_now(unit)

    def read_now(self, unit: Unit[T]) -> T:
        assert self._reading is not None, "the database is not open"
        try:
            self._driver.begin_read()
            try:
                return unit(self._reading)
            finally:
                self._driver.end_read()
        except Exception as error:
            self._raise_if_unavailable(error)
            raise

    async def read_apart(self, unit: Unit[T]) -> T:
        assert self._reading is not None, "the database is not open"
        if self._is_closed:
            raise Closed("the database is closed; nothing can be read")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._apart, self._driver.read_apart, unit)
        except Exception as error:
            self._raise_if_unavailable(error)
            raise

    def write_now(self, unit: Unit[T]) -> T:
        self._check_writable()
        assert self._writing is not None, "the database is not open"
        assert self._at_rest.is_set(), "the database is written to by tasks"
        try:
            if not self._driver.begin_write():
                raise self._driver.busy()
            result = self._watched(unit)(self._writing)
            self._driver.commit()
        except BaseException as error:
            self._then = []
            self.undone += 1
            self._roll_back()
            problem = self._described(error) if isinstance(error, Exception) else error
            if problem is error:
                raise
            raise problem from error
        then, self._then = self._then, []
        for call in (*then, self.after_commit):
            call()
        return result

    # Under load, a task that waits for the event loop waits for all tasks before it. So a unit is
    # carried out where it comes in, and between disk and answer there is no task that would have to be woken first.

    def _begin(self) -> None:
        assert self._writing is not None, "the database is not open"
        self._at_rest.clear()
        try:
            has_begun = self._driver.begin_write()
        except Exception as error:
            self._fail_all([], error)
            return
        if has_begun:
            self._carry_out_batch([])
        else:
            self._wait_for_lock()

    def _carry_out_batch(self, batch: list[Pending[Any]], used_s: float = 0.0) -> None:
        """The transaction was begun. Between two slices of it others read, on a connection of their own."""
        began = now = time.perf_counter()
        try:
            while self._queue and len(batch) < limits.UNITS_PER_COMMIT and used_s + now - began < limits.UNITS_S:
                if now - began >= limits.SLICE_S:
                    asyncio.get_running_loop().call_soon(self._carry_out_batch, batch, used_s + now - began)
                    return
                batch.append(self._queue.popleft())
                self._carry_out(batch[-1])
                now = time.perf_counter()
            self._in_commit_thread(self._driver.commit, lambda _, error: self._end(batch, error))
        except Exception as error:
            self._fail_all(batch, error)

    def _in_commit_thread(self, call: Callable[[], T], then: Callable[[T | None, Exception | None], None]) -> None:
        """Call this where it may wait; `then` gets what came of it, on the event loop."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            try:
                result = call()
            except Exception as error:
                loop.call_soon_threadsafe(then, None, error)
            else:
                loop.call_soon_threadsafe(then, result, None)

        self._disk.submit(run)

    # Another process that holds the write lock must not stop those who read: it is waited for in the commit thread.

    def _wait_for_lock(self) -> None:
        try:
            self._in_commit_thread(self._driver.wait_to_write, self._waited)
        except Exception as error:
            self._fail_all([], error)

    def _waited(self, has_begun: bool | None, error: Exception | None) -> None:
        if error is not None:
            self._fail_all([], error)
            return
        if has_begun:
            self._carry_out_batch([])
            return
        late = time.monotonic() - self._busy_s
        impatient = []
        while self._queue and self._queue[0].since <= late:
            impatient.append(self._queue.popleft())
        if impatient:
            problem = self._described(self._driver.busy())
            for pending in impatient:
                pending.settle(problem)
        if self._queue:
            self._wait_for_lock()
        else:
            self._at_rest.set()

    def _carry_out(self, pending: Pending[Any]) -> None:
        """Run a unit in a savepoint of its own. Raises what is the database's problem, and not the unit's."""
        assert self._writing is not None
        if pending.answer.cancelled():
            return
        asked = len(self._then)
        self._driver.savepoint()
        try:
            pending.result = pending.unit(self._writing)
        except Exception as error:
            if self._driver.ends_transaction(error):
                raise
            del self._then[asked:]
            self._driver.undo_to_savepoint()
            self.undone += 1
            pending.error = error
        else:
            self._driver.release()

    def _roll_back(self) -> None:
        with suppress(Exception):  # then the next transaction cannot begin, and its callers get the error
            self._driver.roll_back()

    def _unavailable(self, error: BaseException) -> Unavailable | None:
        return self._driver.unavailable(error)

    def announce(self, word: str) -> None:
        """There are no other processes."""

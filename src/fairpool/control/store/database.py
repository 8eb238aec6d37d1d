"""Transactions of the control plane's database: one connection that writes, one that reads, and group commit.

A unit is an ordinary function of a connection. Units that arrive while a commit is on its way to the disk form the
next one, so that the price of a durable commit is paid once for all of them; each runs in a savepoint of its own and
fails alone. Statements run on the event loop's thread, where no other thread's turn is waited for, and only the
commit, which waits for the disk, is given to another; so is waiting for a lock that another process holds. Reads that
go through whole tables are done in a third thread (`read_apart`), since all others would wait for them.

What differs between database systems is behind `DatabaseDriver`; `store/sqlite.py` is the one there is. Errors of the
database and its disk are raised as `Unavailable`.

Simulations have no event loop: they open the database with `open_now` and run units with `read_now` and `write_now`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar, cast

from sqlalchemy import Connection as Connection  # the rest of the package takes it from here
from sqlalchemy import Table as Table

from fairpool.control.store.unavailable import Unavailable

log = logging.getLogger("fairpool.control")

T = TypeVar("T")
Unit = Callable[[Connection], T]

UNITS_PER_COMMIT = 128
UNITS_S = 0.02
"""How long the units of one commit may take together: those who came first wait for the last."""
SLICE_S = 0.003
"""How long units are carried out before other callbacks of the event loop have their turn."""

BUSY_S = 5.0
"""How long a change waits for another process that holds the write lock."""


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


class Closed(Exception):
    """A write to a database that was closed."""


@dataclass(slots=True)
class _Pending(Generic[T]):
    unit: Unit[T]
    answer: asyncio.Future[T]
    result: T | None = None
    error: Exception | None = None
    since: float = field(default_factory=time.monotonic)

    def settle(self, failure: Exception | None) -> None:
        """Answer the caller: a disk that fails leaves none waiting, and none is told that it was written."""
        if self.answer.done():
            return
        error = failure or self.error
        if isinstance(error, StopIteration):  # which no future takes
            self.answer.set_exception(RuntimeError(f"a unit ended with {error!r}"))
        elif error is not None:
            self.answer.set_exception(error)
        else:
            self.answer.set_result(cast(T, self.result))


class Database:
    """Transactions of one database. Open it, and close it when done."""

    def __init__(self, driver: DatabaseDriver, *, busy_s: float = BUSY_S) -> None:
        self._driver = driver
        self._busy_s = busy_s
        self._problem: Unavailable | None = None
        """The latest, until something was written again; one that is for good stays."""
        self._queue: deque[_Pending[Any]] = deque()
        self._is_closed = False
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self._disk: Executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="commit")
        self._apart = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read")
        self._writing: Connection | None = None
        self._reading: Connection | None = None
        self.after_commit: Callable[[], None] = lambda: None
        self._then: list[Callable[[], None]] = []
        self.undone = 0
        """Units and transactions that were undone. Numbers that they took from counters are used again."""

    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect, bring the tables up to date with `prepare`, and begin to take units. Raises `Unavailable`."""
        self.open_now(prepare)

    def open_now(self, prepare: Callable[[Connection], None]) -> None:
        """The same without an event loop."""
        try:
            self._writing, self._reading = self._driver.open(prepare, self._busy_s)
        except Exception as error:
            problem = self._driver.unavailable(error)
            if problem is None:
                raise
            raise problem from error

    async def close(self) -> None:
        """Finish what was accepted, then let go of the file."""
        self._is_closed = True
        while not self._at_rest.is_set():
            await self._at_rest.wait()
        self.close_now()

    def close_now(self) -> None:
        """Let go of the file; nothing may be under way."""
        self._is_closed = True
        self._apart.shutdown()
        self._driver.close()
        self._disk.shutdown()

    async def read(self, unit: Unit[T]) -> T:
        """What is written, at one moment. Raises `Unavailable`."""
        return self.read_now(unit)

    def read_now(self, unit: Unit[T]) -> T:
        """The same without an event loop."""
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
        """The same in another thread: for what goes through whole tables, or takes long to compute from them."""
        assert self._reading is not None, "the database is not open"
        if self._is_closed:
            raise Closed("the database is closed; nothing can be read")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._apart, self._driver.read_apart, unit)
        except Exception as error:
            self._raise_if_unavailable(error)
            raise

    def _raise_if_unavailable(self, error: Exception) -> None:
        problem = self._driver.unavailable(error)
        if problem is not None:
            self._note(problem)
            raise problem from error

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
        try:
            if not self._driver.begin_write():
                raise self._driver.busy()
            result = unit(self._writing)
            self._driver.commit()
        except BaseException as error:
            self._then = []
            self._roll_back()
            problem = self._described(error) if isinstance(error, Exception) else error
            if problem is error:
                raise
            raise problem from error
        then, self._then = self._then, []
        for call in (*then, self.after_commit):
            call()
        return result

    def _check_writable(self) -> None:
        if self._is_closed:
            raise Closed("the database is closed; nothing can be saved")
        if self._problem is not None and self._problem.is_for_good:
            raise Unavailable(self._problem.code, self._problem.detail)

    def when_committed(self, call: Callable[[], None]) -> None:
        """From within a unit: do this once what it did can be read by others; not if it is undone."""
        self._then.append(call)

    # Under load, a task that waits for the event loop waits for all tasks before it. So a unit is
    # carried out where it comes in, and between disk and answer there is no task that would have to be woken first.

    def _begin(self) -> None:
        """Carry out what has come, and send it to the disk."""
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

    def _carry_out_batch(self, batch: list[_Pending[Any]], used_s: float = 0.0) -> None:
        """The transaction was begun. Between two slices of it others read, on a connection of their own."""
        began = now = time.perf_counter()
        try:
            while self._queue and len(batch) < UNITS_PER_COMMIT and used_s + now - began < UNITS_S:
                if now - began >= SLICE_S:
                    asyncio.get_running_loop().call_soon(self._carry_out_batch, batch, used_s + now - began)
                    return
                batch.append(self._queue.popleft())
                self._carry_out(batch[-1])
                now = time.perf_counter()
            self._in_commit_thread(self._driver.commit, lambda _, error: self._end(batch, error))
        except Exception as error:
            self._fail_all(batch, error)

    def _fail_all(self, batch: list[_Pending[Any]], error: Exception) -> None:
        """The next ones would fail as well."""
        batch += self._queue
        self._queue.clear()
        self._end(batch, error)

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

    def _carry_out(self, pending: _Pending[Any]) -> None:
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

    def _end(self, batch: list[_Pending[Any]], error: Exception | None) -> None:
        """It is on the disk, or could not be brought there: answer the callers, and go on with what came meanwhile."""
        then, self._then = self._then, []
        try:
            if error is not None:
                self._roll_back()
                error = self._described(error)
            else:
                if self._problem is not None and not self._problem.is_for_good:
                    log.info("database recovered", extra={"fields": {"was": self._problem.code}})
                    self._problem = None
                for call in (*then, self.after_commit):
                    call()
        finally:
            for pending in batch:
                pending.settle(error)
            if self._queue:
                asyncio.get_running_loop().call_soon(self._begin)  # after the callers have answered their clients
            else:
                self._at_rest.set()

    def _roll_back(self) -> None:
        self.undone += 1
        with suppress(Exception):  # then the next transaction cannot begin, and its callers get the error
            self._driver.roll_back()

    def _described(self, error: Exception) -> Exception:
        """An error of the database as the problem it is; any other as it is."""
        problem = self._driver.unavailable(error)
        if problem is None:
            return error
        self._note(problem)
        return problem

    def _note(self, problem: Unavailable) -> None:
        """One line for each kind of problem, until it is over."""
        if self._problem is None or (problem.code != self._problem.code and not self._problem.is_for_good):
            fields = {"code": problem.code, "detail": problem.detail, "fix": problem.problem.fix}
            log.error(problem.problem.what, extra={"fields": fields})
            self._problem = problem

"""Transactions of the control plane's database: units, group commit, and what its users see of them.

A unit is an ordinary function of a connection. Units that arrive while a commit is on its way to the disk form the
next one, so that the price of a durable commit is paid once for all of them; each runs in a savepoint of its own and
fails alone. Errors of the database and its disk are raised as `Unavailable`.

How units are run differs: `store/local_database.py` runs them on the event loop's thread, for a database in this
process (SQLite), and `store/postgresql_database.py` in greenlets, for one that is waited for.

Simulations have no event loop: they open the database with `open_now` and run units with `read_now` and `write_now`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast

from sqlalchemy import Connection as Connection  # the rest of the package takes it from here
from sqlalchemy import Table as Table
from sqlalchemy import select

from fairpool.control.store import access_revision
from fairpool.control.store.unavailable import UNREACHABLE, Unavailable
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

T = TypeVar("T")
Unit = Callable[[Connection], T]

UNITS_PER_COMMIT = 128
UNITS_S = 0.02
"""How long the units of one commit may take together: those who came first wait for the last."""
SLICE_S = 0.003
"""How long units are carried out before other callbacks of the event loop have their turn."""

CALLERS, MOVED, TUNNELS, SAMPLES = "callers", "moved", "tunnels", "samples"
"""What processes tell each other besides that something was committed: permissions or tokens changed; something belongs
to another project now; a cluster has connected to another process."""
ANSWER_S = 1.0
"""How long a database may take to answer whether it is there."""
BUSY_S = 5.0
"""How long a change waits for another process that holds the write lock."""


class Closed(Exception):
    """A write to a database that was closed."""


@dataclass(slots=True)
class Pending(Generic[T]):
    """A unit that waits for its turn, or for the commit."""

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


class Database(ABC):
    """Transactions of one database. Open it, and close it when done."""

    is_shared = False
    """Whether other processes write to it as well."""
    where = ""
    """Its address, without a password; empty: it is a file."""

    def __init__(self) -> None:
        self._problem: Unavailable | None = None
        """The latest, until something was written again; one that is for good stays."""
        self._queue: deque[Pending[Any]] = deque()
        self._is_closed = False
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self.after_commit: Callable[[], None] = lambda: None
        self.after_commit_elsewhere: Callable[[frozenset[str]], None] = lambda said: None
        """Another process has committed something, and said this besides."""
        self.after_access_change: Callable[[], None] = lambda: None
        """This process has committed something after which callers may be others."""
        self._then: list[Callable[[], None]] = []
        self.undone = 0
        """Units and transactions that were undone. Numbers that they took from counters are used again."""

    # --- open and close ---

    @abstractmethod
    async def open(self, prepare: Callable[[Connection], None]) -> None:
        """Connect, bring the tables up to date with `prepare`, and begin to take units. Raises `Unavailable`."""

    @abstractmethod
    def open_now(self, prepare: Callable[[Connection], None]) -> None:
        """The same without an event loop."""

    async def close(self) -> None:
        """Finish what was accepted, then let go of the database."""
        self._is_closed = True
        while not self._at_rest.is_set():
            await self._at_rest.wait()
        await self._let_go()

    @abstractmethod
    async def _let_go(self) -> None: ...

    @abstractmethod
    def close_now(self) -> None:
        """Let go of the database without an event loop; nothing may be under way."""

    # --- read ---

    @abstractmethod
    async def read(self, unit: Unit[T]) -> T:
        """What is written, at one moment. Raises `Unavailable`."""

    @abstractmethod
    def read_now(self, unit: Unit[T]) -> T:
        """The same without an event loop."""

    @abstractmethod
    async def read_apart(self, unit: Unit[T]) -> T:
        """The same in another thread: for what goes through whole tables, or takes long to compute from them."""

    # --- write ---

    async def write(self, unit: Unit[T]) -> T:
        """Do this; when it returns, it survives a power cut. What the unit raises undoes it, and only it.

        Raises `Unavailable`; once the database was seen to be damaged, always.
        """
        self._check_writable()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queue.append(Pending(self._watched(unit), answer))
        if self._at_rest.is_set():
            self._begin()
        return await answer

    @abstractmethod
    def write_now(self, unit: Unit[T]) -> T:
        """The same without an event loop: one unit, one commit."""

    def _watched(self, unit: Unit[T]) -> Unit[T]:
        """The same unit, with what it does to callers noticed."""

        def watched(connection: Connection) -> T:
            with access_revision.watched(self._callers_change):
                return unit(connection)

        return watched

    def _callers_change(self) -> None:
        self.when_committed(lambda: self.after_access_change())
        self.announce(CALLERS)

    def when_committed(self, call: Callable[[], None]) -> None:
        """From within a unit: do this once what it did can be read by others; not if it is undone."""
        self._then.append(call)

    @abstractmethod
    def announce(self, word: str) -> None:
        """From within a unit: tell other processes with the commit. It does no harm if the unit is undone."""

    async def in_one_process(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this while no other process does."""
        await work()

    def _check_writable(self) -> None:
        if self._is_closed:
            raise Closed("the database is closed; nothing can be saved")
        if self._problem is not None and self._problem.is_for_good:
            raise Unavailable(self._problem.code, self._problem.detail)

    @abstractmethod
    def _begin(self) -> None:
        """There is something in the queue: carry it out and commit it, then call `_end`."""

    def _fail_all(self, batch: list[Pending[Any]], error: Exception) -> None:
        """The next ones would fail as well."""
        batch += self._queue
        self._queue.clear()
        self._end(batch, error)

    def _end(self, batch: list[Pending[Any]], error: Exception | None) -> None:
        """It is on the disk, or could not be brought there: answer the callers, and go on with what came meanwhile."""
        then, self._then = self._then, []
        try:
            if error is not None:
                self.undone += 1
                self._roll_back()
                error = self._described(error)
            else:
                self._recovered()
                for call in (*then, self.after_commit):
                    call()
        finally:
            for pending in batch:
                pending.settle(error)
            if self._queue:
                asyncio.get_running_loop().call_soon(self._begin)  # after the callers have answered their clients
            else:
                self._at_rest.set()

    @abstractmethod
    def _roll_back(self) -> None:
        """Undo the transaction, if there is one."""

    # --- problems ---

    @property
    def is_failing(self) -> bool:
        """Whether it could not be used the last time."""
        return self._problem is not None

    async def problem(self) -> Problem | None:
        """Why nothing can be read or saved at the moment; None: it can, as far as was seen."""
        try:
            await asyncio.wait_for(self.read(lambda connection: connection.execute(select(1)).scalar()), ANSWER_S)
        except TimeoutError:
            return Unavailable(UNREACHABLE, f"{self.where}: no answer within {ANSWER_S:g} s").described
        except Unavailable as error:
            return error.described
        return self._problem.described if self._problem is not None else None

    @abstractmethod
    def _unavailable(self, error: BaseException) -> Unavailable | None:
        """The problem that an error of the database or its disk is; None: it is neither."""

    def _raise_if_unavailable(self, error: Exception) -> None:
        problem = self._unavailable(error)
        if problem is not None:
            self._note(problem)
            raise problem from error

    def _described(self, error: Exception) -> Exception:
        """An error of the database as the problem it is; any other as it is."""
        problem = self._unavailable(error)
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

    def _recovered(self) -> None:
        if self._problem is not None and not self._problem.is_for_good:
            log.info("database recovered", extra={"fields": {"was": self._problem.code}})
            self._problem = None

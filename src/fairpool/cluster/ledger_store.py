"""Where the rows of a ledger are: transactions of one writer, in SQL that SQLite and PostgreSQL both understand.

`ledger_file.py` is a file of SQLite, for a cluster whose data directory outlives its process. `ledger_postgresql.py` is
a database that several replicas of a cluster can reach, so that another one can take over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from fairpool.model.problem import Problem

Cell = int | str | None


class LedgerProblem(Exception):
    """The ledger cannot be used as it is; a retry does not help."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class LedgerUnavailable(Exception):
    """The disk is full or failing, another process held the ledger for too long, or its server does not answer. Nothing
    was changed; retry.

    After a failed write followed by a power loss the change may be there after all; so it must be harmless that
    something was recorded and not done, as it is for every entry.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class LedgerUncertain(Exception):
    """The connection broke while a commit was on its way: the entry is recorded or not.

    What the loop remembers may so be older than the ledger: it must be replaced by one that reads it again, as after a
    crash.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


class LedgerStore(Protocol):
    """One connection, with at most one transaction at a time. Parameters are written as `?`."""

    @property
    def named(self) -> str:
        """What messages call it: `the ledger /data/ledger.sqlite`."""

    def begin(self) -> None:
        """Begin to write, while no other process does. Raises `LedgerProblem` if a newer version has migrated it."""

    def begin_reading(self) -> None:
        """Begin to read, as of one moment."""

    def commit(self) -> None:
        """When it returns, what was written is durable."""

    def roll_back(self) -> None:
        """End the transaction, if there is one. Raises nothing."""

    def rows(self, statement: str, *values: Cell) -> Iterable[tuple[Any, ...]]:
        """What a query finds."""

    def row(self, statement: str) -> tuple[Any, ...]:
        """The one row that a query finds."""

    def change(self, statement: str, *values: Cell) -> int:
        """How many rows a statement changed."""

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """The same statement for each of these."""

    def explained(self, error: BaseException) -> BaseException:
        """The exception for an error of the store, such as `LedgerUnavailable`; any other error as it is."""

    def close(self) -> None:
        """May be called twice."""

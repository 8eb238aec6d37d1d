"""SQLAlchemy statements, compiled once per dialect.

What SQLAlchemy does around a statement each time takes several times as long as SQLite needs to execute it, and a
submit is nine statements, a report three for each workload. So those that are executed all the time are compiled once,
by SQLAlchemy and for the dialect of the connection, and their parameters are handed to a DB-API cursor; the others,
and all that are built from what a user asked for, go through `Connection.execute`. Both may be mixed in one
transaction. Columns are texts, integers and booleans, which drivers take as they are.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

from sqlalchemy import BindParameter, Connection, Delete, Dialect, Insert, Select, Table, Update, bindparam

from fairpool.api.clusters import NameRange
from fairpool.control.store import access_revision
from fairpool.control.store.recording import RECORDING, affected, is_recorded

NOTHING: Mapping[str, Any] = {}


class Compiled:
    """One statement; for each dialect and set of columns that it is given, it is compiled once."""

    __slots__ = (
        "_affected",
        "_by_columns",
        "_changed",
        "_keys",
        "_makers",
        "_recorded",
        "_row",
        "_texts",
        "statement",
    )

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self.statement = statement
        table = None if isinstance(statement, Select) else cast(Table, statement.table)
        self._keys = frozenset() if table is None or isinstance(statement, Delete) else frozenset(table.c.keys())
        self._by_columns = bool(self._keys)
        self._recorded = table if table is not None and is_recorded(table) else None
        self._changed = access_revision.changed_by(statement)
        self._affected: Compiled | None = None
        self._row = namedtuple("Row", [column.key for column in statement.exported_columns])  # type: ignore[misc]
        self._makers: dict[str, Callable[[Sequence[Any]], Any]] = {}
        self._texts: dict[tuple[str, ...], _Text] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> list[Any]:
        """Every row, as a named tuple of the columns that were asked for."""
        dialect = connection.dialect
        make = self._makers.get(dialect.name) or self._maker(dialect)
        return [make(row) for row in self._fetched(connection, values)]

    def tuples(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> Sequence[Sequence[Any]]:
        """Every row as the driver returns it; no column may be a boolean: not every driver has them."""
        return self._fetched(connection, values)

    def one(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> Any:
        """The first row; None: there is none."""
        found = self.rows(connection, values)
        return found[0] if found else None

    def column(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> list[Any]:
        """The first column of every row, which is no boolean: not every driver has them."""
        return [row[0] for row in self._fetched(connection, values)]

    def run(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> None:
        """Execute it; nothing comes back. Of an insert or update, `values` are its columns and parameters."""
        if self._recorded is not None:
            self._record(connection, values)
        if self._changed is not None:
            access_revision.change(connection, self._changed)
        text = self._text(connection.dialect, values)
        cursor = connection.connection.cursor()
        cursor.execute(text.sql, text.arguments(values))
        cursor.close()

    def run_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """The same for many, which all name the same columns."""
        listed = list(rows)
        if listed:
            if self._recorded is not None:
                for each in listed:
                    self._record(connection, each)
            if self._changed is not None:
                access_revision.change(connection, self._changed)
            text = self._text(connection.dialect, listed[0])
            cursor = connection.connection.cursor()
            cursor.executemany(text.sql, [text.arguments(each) for each in listed])
            cursor.close()

    def _record(self, connection: Connection, values: Mapping[str, Any]) -> None:
        """For the audit log, see `recording.py`."""
        recording = RECORDING.get()
        if recording is None or self._recorded is None:
            return
        if isinstance(self.statement, Insert):
            recording.inserting(self._recorded, values)
            return
        if self._affected is None:
            self._affected = Compiled(affected(cast(Update | Delete, self.statement)))
        recording.changing(self._recorded, self._affected.rows(connection, values))

    def _fetched(self, connection: Connection, values: Mapping[str, Any]) -> Sequence[Sequence[Any]]:
        text = self._text(connection.dialect, values)
        cursor = connection.connection.cursor()
        cursor.execute(text.sql, text.arguments(values))
        found: Sequence[Sequence[Any]] = cursor.fetchall()
        cursor.close()
        return found

    def _text(self, dialect: Dialect, values: Mapping[str, Any]) -> _Text:
        # Of selects and deletes there is one text, whatever is looked for.
        key = (dialect.name, *values) if self._by_columns else (dialect.name,)
        text = self._texts.get(key)
        if text is None:
            columns = [name for name in key[1:] if name in self._keys]
            text = self._texts[key] = _Text(self.statement, dialect, columns or None)
        return text

    def _maker(self, dialect: Dialect) -> Callable[[Sequence[Any]], Any]:
        """From a row of the driver to ours: SQLite, for one, has no booleans."""
        maker = self._makers[dialect.name] = _maker(self._row, self.statement, dialect)
        return maker


class CompiledIn:
    """A statement about some of many ids, for any number of them.

    It is compiled for 1, 8, 64 and 512 ids at a time; what is missing to that is filled up with the last one.
    """

    __slots__ = ("_make", "_sizes")

    SIZES = (1, 8, 64, 512)

    def __init__(self, make: Callable[[list[BindParameter[str]]], Select[Any]]) -> None:
        """`make` is given the parameters to put behind `IN`."""
        self._make = make
        self._sizes: dict[int, Compiled] = {}

    def rows(self, connection: Connection, ids: Sequence[str]) -> list[Any]:
        """The rows for all of these."""
        found: list[Any] = []
        for start in range(0, len(ids), self.SIZES[-1]):
            some = ids[start : start + self.SIZES[-1]]
            size = next(each for each in self.SIZES if each >= len(some))
            filled = (*some, *(some[-1] for _ in range(size - len(some))))
            found += self._of(size).rows(connection, {f"id_{number}": each for number, each in enumerate(filled)})
        return found

    def _of(self, size: int) -> Compiled:
        compiled = self._sizes.get(size)
        if compiled is None:
            parameters: list[BindParameter[str]] = [bindparam(f"id_{number}") for number in range(size)]
            compiled = self._sizes[size] = Compiled(self._make(parameters))
        return compiled


def bounds(span: NameRange) -> dict[str, str | int]:
    """The parameters of a range of names that consist of one word."""
    last = span.through or ("",)
    return {"after": (*span.after, "")[0], "through": last[0], "to_the_end": int(span.through is None)}


class _Text:
    """A statement as the driver takes it, and its parameters: in their order, or by name."""

    __slots__ = ("_chosen", "_defaults", "sql")

    def __init__(
        self, statement: Select[Any] | Insert | Update | Delete, dialect: Dialect, columns: list[str] | None
    ) -> None:
        compiled = statement.compile(dialect=dialect, column_keys=columns)
        self.sql = str(compiled)
        self._chosen = _chooser(tuple(compiled.positiontup or ())) if compiled.positional else dict[str, Any]
        self._defaults = {name: value for name, value in compiled.params.items() if value is not None}

    def arguments(self, values: Mapping[str, Any]) -> Any:
        return self._chosen({**self._defaults, **values} if self._defaults else values)


def _chooser(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], Any]:
    """From values to those with these names, in this order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


def _maker(row: Any, statement: Any, dialect: Dialect) -> Callable[[Sequence[Any]], Any]:
    columns = [column.type.dialect_impl(dialect) for column in statement.exported_columns]
    processors = [
        (position, processor)
        for position, type_ in enumerate(columns)
        if (processor := type_.result_processor(dialect, None)) is not None
    ]
    make: Callable[[Sequence[Any]], Any] = row._make
    if not processors:
        return make

    def processed(values: Sequence[Any]) -> Any:
        changed = list(values)
        for position, processor in processors:
            changed[position] = processor(changed[position])
        return make(changed)

    return processed

"""Statements that are turned into text once and from then on handed to the driver as they are.

What SQLAlchemy does around a statement each time takes several times as long as SQLite needs to carry it out, and a
submit is nine statements, a report three for each workload. So those that are carried out all the time are prepared;
the others, and all that are put together from what somebody asked for, go the usual way. Both may be mixed freely in
one transaction. Another database would be handed `statement` itself.
"""

from __future__ import annotations

import sqlite3
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from sqlite3 import IntegrityError as IntegrityError  # what a row that must not be there twice raises
from typing import Any, cast

from sqlalchemy import BindParameter, Boolean, Connection, Delete, Insert, Select, Table, Update, bindparam
from sqlalchemy.dialects import sqlite

NOTHING: Mapping[str, Any] = {}

_DIALECT = sqlite.dialect(paramstyle="qmark")


class Prepared:
    """One statement; for each set of columns that it is given, its text is made once."""

    __slots__ = ("_keys", "_make", "_texts", "statement")

    def __init__(self, statement: Select[Any] | Insert | Update | Delete) -> None:
        self.statement = statement
        table = None if isinstance(statement, Select) else cast(Table, statement.table)
        self._keys = frozenset() if table is None or isinstance(statement, Delete) else frozenset(table.c.keys())
        self._make = _maker(statement)
        self._texts: dict[tuple[str, ...], _Text] = {}

    def rows(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> list[Any]:
        """Every row, as a named tuple of the columns that were asked for."""
        text = self._text(values)
        return list(map(self._make, driver_of(connection).execute(text.sql, text.arguments(values))))

    def one(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> Any:
        """The first row; None: there is none."""
        found = self.rows(connection, values)
        return found[0] if found else None

    def column(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> list[Any]:
        """The first column of every row, which is no boolean: the driver knows none."""
        text = self._text(values)
        return [row[0] for row in driver_of(connection).execute(text.sql, text.arguments(values))]

    def run(self, connection: Connection, values: Mapping[str, Any] = NOTHING) -> None:
        """Carry it out; nothing comes back. Of an insert or update, `values` are its columns and parameters."""
        text = self._text(values)
        driver_of(connection).execute(text.sql, text.arguments(values))

    def run_all(self, connection: Connection, rows: Iterable[Mapping[str, Any]]) -> None:
        """The same for many, which all name the same columns."""
        listed = list(rows)
        if listed:
            text = self._text(listed[0])
            driver_of(connection).executemany(text.sql, [text.arguments(each) for each in listed])

    def _text(self, values: Mapping[str, Any]) -> _Text:
        names = tuple(values) if self._keys else ()  # of the others there is one text, whatever is looked for
        text = self._texts.get(names)
        if text is None:
            columns = [name for name in names if name in self._keys]
            text = self._texts[names] = _Text(self.statement, columns or None)
        return text


class PreparedIn:
    """A statement about some of many ids, for any number of them.

    Its texts are for 1, 8, 64 and 512 ids at a time; what is missing to that is filled up with the last one.
    """

    __slots__ = ("_make", "_sizes")

    SIZES = (1, 8, 64, 512)

    def __init__(self, make: Callable[[list[BindParameter[str]]], Select[Any]]) -> None:
        """`make` is given the parameters to put behind `IN`."""
        self._make = make
        self._sizes: dict[int, Prepared] = {}

    def rows(self, connection: Connection, ids: Sequence[str]) -> list[Any]:
        """The rows for all of these."""
        found: list[Any] = []
        for start in range(0, len(ids), self.SIZES[-1]):
            some = ids[start : start + self.SIZES[-1]]
            size = next(each for each in self.SIZES if each >= len(some))
            filled = (*some, *(some[-1] for _ in range(size - len(some))))
            found += self._of(size).rows(connection, {f"id_{number}": each for number, each in enumerate(filled)})
        return found

    def _of(self, size: int) -> Prepared:
        prepared = self._sizes.get(size)
        if prepared is None:
            parameters: list[BindParameter[str]] = [bindparam(f"id_{number}") for number in range(size)]
            prepared = self._sizes[size] = Prepared(self._make(parameters))
        return prepared


class _Text:
    """A statement as the driver takes it, and the order of its parameters."""

    __slots__ = ("_chosen", "_defaults", "sql")

    def __init__(self, statement: Select[Any] | Insert | Update | Delete, columns: list[str] | None) -> None:
        compiled = statement.compile(dialect=_DIALECT, column_keys=columns)
        self.sql = str(compiled)
        self._chosen = _chooser(tuple(compiled.positiontup or ()))
        self._defaults = {name: value for name, value in compiled.params.items() if value is not None}

    def arguments(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        return self._chosen({**self._defaults, **values} if self._defaults else values)


def _chooser(names: tuple[str, ...]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """From values to those with these names, in this order."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda values: tuple([values[name] for name in names])


def _maker(statement: Select[Any] | Insert | Update | Delete) -> Callable[[tuple[Any, ...]], Any]:
    """From a row of the driver to ours. The driver knows no booleans, and no other of our types needs any change."""
    columns = list(statement.exported_columns)
    named = namedtuple("Row", [column.key for column in columns])  # type: ignore[misc]
    booleans = [position for position, column in enumerate(columns) if isinstance(column.type, Boolean)]
    if not booleans:
        return named._make

    def with_booleans(row: tuple[Any, ...]) -> Any:
        values = list(row)
        for position in booleans:
            values[position] = bool(values[position])
        return named._make(values)

    return with_booleans


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The driver's own connection."""
    return cast(sqlite3.Connection, connection.connection.dbapi_connection)

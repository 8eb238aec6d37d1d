"""Tables of JSON values from frozen dataclasses, and back, led by their type hints.

Rows of one class become columns. A dataclass inside another is written once into a table of its class and referred to
by number, so that 80 000 pods of twelve shapes hold twelve shapes, in the file and again in memory after reading it.
A new field of a dataclass is picked up by itself. Every field is written, so that a default that changes
later does not change what an older table means; a field that a table does not have yet takes its default.

How single values are written is decided in `model/plain.py`, what a file is in `snapshot_file.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from fairpool.model.plain import Codec, Codecs, Unreadable, shown

Row = TypeVar("Row")


@dataclass(slots=True)
class ColumnTable:
    """Rows of one class, by column."""

    count: int
    columns: dict[str, list[Any]]
    same: dict[str, Any] = field(default_factory=dict)
    """Columns that have one value in all rows."""

    @classmethod
    def of(cls, count: int, columns: dict[str, list[Any]]) -> ColumnTable:
        """A table with its constant columns folded."""
        same = {name: column[0] for name, column in columns.items() if _is_constant(column)}
        return cls(count, {name: column for name, column in columns.items() if name not in same}, same)

    def column(self, name: str) -> list[Any]:
        """All values of a column."""
        return [self.same[name]] * self.count if name in self.same else self.columns[name]

    def names(self) -> list[str]:
        return [*self.columns, *self.same]

    def replaced(self, names: Collection[str], change: Callable[[Any], Any]) -> ColumnTable:
        """The table with every value of some columns changed."""
        columns = {
            name: [change(raw) for raw in column] if name in names else column for name, column in self.columns.items()
        }
        same = {name: change(raw) if name in names else raw for name, raw in self.same.items()}
        return ColumnTable(self.count, columns, same)


def _is_constant(column: list[Any]) -> bool:
    # Equal is not enough: 1, 1.0 and true are equal to Python and different in JSON.
    return len(column) > 1 and column.count(column[0]) == len(column) and len(set(map(type, column))) == 1


def to_tables(root: object) -> dict[str, ColumnTable]:
    """A dataclass and everything in it: a table for each of its fields that are rows, and one for each class in them.

    The table of the root has its class's name and one row, without the fields that have a table of their own.
    """
    writer = _Writer()
    own: dict[str, list[Any]] = {}
    tables: dict[str, ColumnTable] = {}
    for each in table_fields(type(root)):
        value = getattr(root, each.name)
        if each.rows is not None:
            tables[each.name] = writer.table(each.rows, value)
        else:
            own[each.name] = [writer.codecs.of(each.hint).encode(value)]
    shared = {cls.__name__: writer.shared_table(cls) for cls in sorted(writer.shared, key=lambda cls: cls.__name__)}
    return {type(root).__name__: ColumnTable(1, own)} | shared | tables


def from_tables(cls: type[Row], tables: Mapping[str, ColumnTable]) -> tuple[Row, list[str]]:
    """What `to_tables` was given, and the names of tables and columns that belong to no class or field.

    Raises Unreadable.
    """
    reader = _Reader(tables)
    values: dict[str, Any] = {}
    for each in table_fields(cls):
        if each.rows is not None and each.name in tables:
            values[each.name] = tuple(reader.rows(each.name, each.rows))
    own = reader.own_row(cls)
    return cls(**own, **values), reader.unknown()


# ---- fields


@dataclass(frozen=True, slots=True)
class TableField:
    """A field of a dataclass as a column."""

    name: str
    hint: Any
    default: Callable[[], Any] | None
    """None: the field must be there."""
    rows: type | None
    """The class of its rows, if the field is a tuple of dataclasses."""


def table_fields(cls: type) -> tuple[TableField, ...]:
    """The fields of a dataclass, as columns."""
    return _table_fields(cls)


@cache
def _table_fields(cls: Any) -> tuple[TableField, ...]:
    hints = get_type_hints(cls)
    return tuple(
        TableField(each.name, hints[each.name], _default(each), _row_class(hints[each.name])) for each in fields(cls)
    )


def _default(each: Any) -> Callable[[], Any] | None:
    if each.default_factory is not MISSING:
        factory: Callable[[], Any] = each.default_factory
        return factory
    return None if each.default is MISSING else lambda: each.default


def _row_class(hint: Any) -> type | None:
    parts = get_args(hint)
    is_many = get_origin(hint) is tuple and len(parts) == 2 and parts[1] is Ellipsis
    return parts[0] if is_many and isinstance(parts[0], type) and is_dataclass(parts[0]) else None


def _is_plain(codec: Codec, column: list[Any]) -> bool:
    """Whether all values of a column are the same in JSON, so that they need not be gone through."""
    return codec.as_it_is is not None and set(map(type, column)) <= {codec.as_it_is}


class _Reference(Codec):
    """A dataclass, as its number in the table of its class."""

    def __init__(self, cls: type, *, writer: _Writer | None = None, reader: _Reader | None = None) -> None:
        self.cls, self.writer, self.reader = cls, writer, reader

    def encode(self, value: Any) -> Any:
        assert self.writer is not None
        return self.writer.number(self.cls, value)

    def decode(self, data: Any) -> Any:
        assert self.reader is not None
        known = self.reader.shared(self.cls)
        if type(data) is not int or not 0 <= data < len(known):
            raise Unreadable(f"{shown(data)} is not the number of an earlier row of {self.cls.__name__}")
        return known[data]


# ---- writing


class _Writer:
    """Collects the dataclasses that others refer to."""

    def __init__(self) -> None:
        self.codecs = Codecs(lambda cls: _Reference(cls, writer=self))
        self.shared: dict[type, list[list[Any]]] = {}
        self.numbers: dict[tuple[type, object], int] = {}
        self.seen: dict[int, int] = {}
        """Number by identity: most pods share the very object of their shape, and hashing it anew costs more."""

    def table(self, cls: type, rows: Iterable[object]) -> ColumnTable:
        rows = tuple(rows)
        columns = {each.name: self._column(each, list(map(attrgetter(each.name), rows))) for each in table_fields(cls)}
        return ColumnTable.of(len(rows), columns)

    def _column(self, each: TableField, values: list[Any]) -> list[Any]:
        codec = self.codecs.of(each.hint)
        return values if _is_plain(codec, values) else [codec.encode(value) for value in values]

    def shared_table(self, cls: type) -> ColumnTable:
        rows = self.shared[cls]
        columns = {each.name: [row[at] for row in rows] for at, each in enumerate(table_fields(cls))}
        return ColumnTable.of(len(rows), columns)

    def number(self, cls: type, value: object) -> int:
        number = self.seen.get(id(value))
        if number is None:
            number = self.seen[id(value)] = self._number_of_equal(cls, value)
        return number

    def _number_of_equal(self, cls: type, value: object) -> int:
        try:
            number = self.numbers.get((cls, value))
        except TypeError:  # it holds a mapping, so it cannot be looked up, and is written as often as it is there
            return self._append(cls, value)
        if number is None:
            number = self.numbers[cls, value] = self._append(cls, value)
        return number

    def _append(self, cls: type, value: object) -> int:
        # What is inside goes first, so that a reference always points to an earlier row.
        row = [self.codecs.of(each.hint).encode(getattr(value, each.name)) for each in table_fields(cls)]
        rows = self.shared.setdefault(cls, [])
        rows.append(row)
        return len(rows) - 1


# ---- reading


class _Reader:
    """Makes rows from tables, each shared one once."""

    def __init__(self, tables: Mapping[str, ColumnTable]) -> None:
        self.codecs = Codecs(lambda cls: _Reference(cls, reader=self))
        self.tables = tables
        self.texts: dict[str, str] = {}
        """Ids repeat from table to table: each is kept once in memory."""
        self.made: dict[type, list[Any]] = {}
        self.asked: dict[str, set[str]] = {}

    def rows(self, name: str, cls: type) -> list[Any]:
        """The rows of a table, column by column."""
        table = self.tables[name]
        there = self._fields(name, cls)
        same = {
            each.name: self._value(name, each, 0, table.same[each.name]) for each in there if each.name in table.same
        }
        varied = [each for each in there if each.name not in same]
        names = [each.name for each in varied]
        columns = [self._column(name, each, table.columns[each.name]) for each in varied]
        if not columns:
            return [cls(**same) for _ in range(table.count)]
        return [cls(**same, **dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]

    def shared(self, cls: type) -> list[Any]:
        """The rows of a class that others refer to: all, or, while they are being made, those made so far."""
        if cls not in self.made:
            made = self.made[cls] = []
            name = cls.__name__
            if name in self.tables:
                there = self._fields(name, cls)
                for number in range(self.tables[name].count):
                    made.append(cls(**self._row(name, there, number)))
        return self.made[cls]

    def own_row(self, cls: type) -> dict[str, Any]:
        """The single row of the root."""
        name = cls.__name__
        if name not in self.tables or self.tables[name].count != 1:
            raise Unreadable(f"there is no table {name} with one row")
        own = [each for each in self._fields(name, cls) if each.rows is None]
        return self._row(name, own, 0)

    def unknown(self) -> list[str]:
        """Tables and columns that no class asked for."""
        names = []
        for name, table in self.tables.items():
            asked = self.asked.get(name)
            if asked is None:
                names.append(name)
            else:
                names += [f"{name}.{column}" for column in table.names() if column not in asked]
        return sorted(names)

    def _fields(self, name: str, cls: type) -> list[TableField]:
        """The fields that a table has; the others take their defaults, if they have any."""
        there = set(self.tables[name].names())
        wanted = table_fields(cls)
        self.asked.setdefault(name, set()).update(each.name for each in wanted)
        for each in wanted:
            has_own_table = each.rows is not None and each.name in self.tables
            if each.name not in there and each.default is None and not has_own_table:
                raise Unreadable(f"{name} has no column {each.name}")
        return [each for each in wanted if each.name in there]

    def _row(self, name: str, there: Iterable[TableField], number: int) -> dict[str, Any]:
        table = self.tables[name]
        return {each.name: self._value(name, each, number, table.column(each.name)[number]) for each in there}

    def _column(self, name: str, each: TableField, column: list[Any]) -> list[Any]:
        codec = self.codecs.of(each.hint)
        if not _is_plain(codec, column):
            return self._decoded(name, each, codec, column)
        if codec.as_it_is is str:
            same = self.texts.setdefault
            return [same(text, text) for text in column]
        return column

    def _decoded(self, name: str, each: TableField, codec: Codec, column: list[Any]) -> list[Any]:
        try:
            return [codec.decode(raw) for raw in column]
        except Unreadable:
            for number, raw in enumerate(column):  # again one by one, to say where
                self._value(name, each, number, raw)
            raise

    def _value(self, name: str, each: TableField, number: int, raw: Any) -> Any:
        try:
            return self.codecs.of(each.hint).decode(raw)
        except Unreadable as error:
            where = "" if ", row " in str(error) else f"{name}, row {number + 1}, {each.name}: "
            raise Unreadable(f"{where}{error}") from None

"""Mapping between the ledger's values and the rows of its tables: a column per field, JSON text for composite fields.

The SQL of a table is derived from its dataclass. The column types are in `ledger_schema`; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from operator import attrgetter
from types import NoneType
from typing import Any, Generic, TypeVar, get_args, get_type_hints

from fairpool.cluster.history import Event
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.organization import Organization
from fairpool.model.plain import Unreadable, shown, text_of, value_of
from fairpool.model.pod_record import PodRecord
from fairpool.model.spec import WorkloadSpec

T = TypeVar("T")

TEXTS_KEPT = 2048
"""Per column. Pods have few distinct shapes: each is encoded once and then found in the cache."""

BATCH = 1000
"""Rows that are decoded together."""


class LedgerTable(Generic[T]):
    """A table for one dataclass, with a row for each value."""

    def __init__(self, name: str, cls: type[T], key: str, *fixed: str) -> None:
        self.name, self.cls, self.key = name, cls, key
        self.columns = tuple(each.name for each in fields(cls))  # type: ignore[arg-type]
        hints = [get_type_hints(cls)[column] for column in self.columns]
        self._parts = attrgetter(*self.columns)
        self._writers = [(place, writer) for place, hint in enumerate(hints) if (writer := _writer(hint))]
        self._readers = [(place, _reader(hint)) for place, hint in enumerate(hints) if _inner(hint) is not int]
        self.select = f"SELECT {', '.join(map(quoted, self.columns))} FROM {name}"
        self.upsert = _upsert(name, self.columns if key in self.columns else (key, *self.columns), key, *fixed)
        self.delete = f"DELETE FROM {name} WHERE {quoted(key)} = ?"

    def row(self, value: T) -> list[Any]:
        """The row of a value."""
        row = list(self._parts(value))
        for place, write in self._writers:
            if row[place] is not None:
                row[place] = write(row[place])
        return row

    def values(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[T]:
        """The values of rows whose cells are in the order of `columns`. Equal parts are one object."""
        readers = [(place, _Known(read).__getitem__) for place, read in self._readers]
        make: Any = self.cls
        rest = iter(rows)
        while batch := list(islice(rest, BATCH)):
            # Column by column takes a third of the time of row by row, and reading is most of a start.
            parts: list[Any] = list(zip(*batch, strict=True))
            for place, read in readers:
                parts[place] = map(read, parts[place])
            for row in zip(*parts, strict=True):
                yield make(**dict(zip(self.columns, row, strict=True)))


def quoted(column: str) -> str:
    """A column name in SQL, where `index` and `group` are keywords."""
    return f'"{column}"'


def _inner(hint: Any) -> Any:
    """The type without `None` and `NewType`."""
    parts = [part for part in get_args(hint) if part is not NoneType]
    if NoneType in get_args(hint) and len(parts) == 1:
        hint = parts[0]
    return getattr(hint, "__supertype__", hint)


def _writer(hint: Any) -> Callable[[Any], Any] | None:
    """How a field is encoded; None: as it is."""
    kind = _inner(hint)
    if kind in (int, str, bool):
        return None
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return attrgetter("value")
    return lru_cache(maxsize=TEXTS_KEPT)(text_of(kind))


def _reader(hint: Any) -> Callable[[Any], Any]:
    """How a column is decoded."""
    kind = _inner(hint)
    if kind is str:
        return lambda text: text
    if kind is bool:
        return bool
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return _word_reader(kind)
    return value_of(kind)


class _Known(dict[Any, Any]):
    """Decoded texts of one column: equal texts share one value."""

    def __init__(self, read: Callable[[Any], Any]) -> None:
        super().__init__({None: None})
        self.read = read

    def __missing__(self, text: Any) -> Any:
        value = self[text] = self.read(text)
        return value


def _word_reader(enum: type[StrEnum]) -> Callable[[Any], StrEnum]:
    def read(word: Any) -> StrEnum:
        try:
            return enum(word)
        except ValueError:
            raise Unreadable(f"{shown(word)} is not one of: {', '.join(enum)}") from None

    return read


def _upsert(name: str, columns: tuple[str, ...], *fixed: str) -> str:
    """Insert or update a row, except for the key (first) and other columns that never change."""
    changing = [f"{quoted(column)} = excluded.{quoted(column)}" for column in columns if column not in fixed]
    return (
        f"INSERT INTO {name} ({', '.join(map(quoted, columns))}) VALUES ({', '.join('?' * len(columns))}) "
        f"ON CONFLICT ({quoted(fixed[0])}) DO UPDATE SET {', '.join(changing)}"
    )


SPECS = LedgerTable("specs", WorkloadSpec, "id")
PODS = LedgerTable("pods", PodRecord, "id", "workload")  # an index on it need not be updated then
STATES = LedgerTable("workload_states", WorkloadState, "workload")
EVENTS = LedgerTable("events", Event, "number")
"""The key is not a field: the ledger numbers events, and puts the number first."""

organization_text: Callable[[Organization], str] = text_of(Organization)
organization_value: Callable[[str], Organization] = value_of(Organization)

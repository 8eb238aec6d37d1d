"""What is in the tables, in the same order and form on every database system: rows in batches, counts and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, literal, select, tuple_

from fairpool.control.store.tables import metadata

ROWS = 500
"""Of one batch. A workload with its report takes some KiB."""

Values = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class TableDigest:
    """Two tables with the same digest hold the same rows."""

    table: str
    rows: int
    checksum: str


class Digest:
    """Of a table whose rows are added in the order of their keys."""

    def __init__(self, table: str) -> None:
        self._table, self._rows, self._hash = table, 0, hashlib.sha256()

    def add(self, rows: Sequence[Values]) -> None:
        for values in rows:
            self._hash.update(json.dumps(values, separators=(",", ":")).encode() + b"\n")
        self._rows += len(rows)

    def result(self) -> TableDigest:
        return TableDigest(self._table, self._rows, self._hash.hexdigest())


def all_tables() -> list[Table]:
    """By name."""
    return sorted(metadata.tables.values(), key=lambda table: table.name)


def batches(connection: Connection, table: Table) -> Iterator[list[Values]]:
    """All rows, by their keys: each batch begins behind the last key of the one before."""
    keys = list(table.primary_key.columns)
    places = [list(table.columns).index(each) for each in keys]
    query = select(table).order_by(*keys).limit(ROWS)
    behind: list[Any] | None = None
    while True:
        following = query
        if behind is not None:
            last = [literal(value, key.type) for key, value in zip(keys, behind, strict=True)]
            following = query.where(tuple_(*keys) > tuple_(*last))
        found = [tuple(row) for row in connection.execute(following)]
        if found:
            yield found
        if len(found) < ROWS:
            return
        behind = [found[-1][place] for place in places]


def digests(connection: Connection) -> list[TableDigest]:
    """Of every table, by name."""
    return [digest_of(connection, table) for table in all_tables()]


def digest_of(connection: Connection, table: Table) -> TableDigest:
    digest = Digest(table.name)
    for rows in batches(connection, table):
        digest.add(rows)
    return digest.result()

"""Which rows a unit changes, before and after: for the audit log.

It is noticed where statements are executed, so that no handler has to think of it and none can forget it. Rows are read
before a statement changes them, and once more when the unit is done; a row that is only inserted is known without that.
Tables that hold what clusters report, or what is not worth an entry, are left out by name; a new table is recorded.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, cast

from sqlalchemy import Connection, Delete, Engine, Insert, Select, Table, Update, bindparam, event, select

from fairpool.model.redaction import REMOVED, without_secrets

UNRECORDED: Final = frozenset(
    {
        *("alembic_version", "revision", "changes", "idempotency", "audit", "audit_chain", "audit_forwarding"),
        *("nodes", "queue_reports", "pods", "holdings", "events", "workload_labels", "notifications", "ended_waits"),
        *("usage_spans", "usage_subjects", "usage_hours", "usage_days", "usage_progress", "quota_history"),
        *("left_colors", "page_preferences"),
        "tokens",  # issued and revoked with an entry of their own
    }
)
EVERYWHERE: Final = frozenset({"revision", "updated_at"})
IGNORED: Final[Mapping[str, frozenset[str]]] = {
    "workloads": frozenset(
        {
            *("name_key", "report", "report_revision", "phase", "status", "allocated_gpus_milli", "running_pods"),
            *("started_at", "completed_at", "urls"),
        }
    ),
    "clusters": frozenset(
        {"report_token", "report_number", "events_through", "needs_resync", "last_seen_at", "nodes_version"}
    ),
    "provider_accounts": frozenset({"confirmed_at"}),
    "projects": frozenset({"color_slot"}),
}
"""Columns that clusters' reports and sign-ins write, and those that follow from others."""
DOCUMENTS: Final = frozenset({"document", "declaration", "value"})
"""Columns whose text is JSON."""
CAPABILITIES: Final[Mapping[str, frozenset[str]]] = {"webhooks": frozenset({"url"})}
"""URLs that are secrets themselves: who knows their path can post there. Only scheme and host are recorded."""
SCHEME_AND_HOST: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@\\\s]+(?=[/?#]|$)")
ROWS_MAX: Final = 50
"""Rows that one statement may change and have recorded."""


Key = tuple[Any, ...]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row before and after a unit, without secrets. None: there was none, or there is none any more."""

    table: str
    key: Key
    before: Row | None
    after: Row | None


class Recording:
    """The rows that one unit changes."""

    def __init__(self) -> None:
        self._before: dict[tuple[str, Key], Row | None] = {}
        self._inserted: dict[tuple[str, Key], Row] = {}

    def inserting(self, table: Table, values: Row) -> None:
        """A row is about to be added."""
        key = (table.name, _key(table, values))
        self._before.setdefault(key, None)
        self._inserted[key] = values

    def changing(self, table: Table, rows: Sequence[Any]) -> None:
        """These rows are about to be changed or deleted."""
        for row in rows:
            found = row._asdict()
            key = (table.name, _key(table, found))
            self._before.setdefault(key, found)
            self._inserted.pop(key, None)  # to be read at the end

    def changes(self, connection: Connection) -> list[RowChange]:
        """What came of it; rows that are as they were are left out."""
        found = []
        for (name, key), before in self._before.items():
            table = _table(name)
            after = self._inserted.get((name, key))
            if after is None:
                row = _by_key(table).one(connection, dict(zip(_key_names(table), key, strict=True)))
                after = row._asdict() if row is not None else None
            change = _change(table, key, before, after)
            if change is not None:
                found.append(change)
        return found


RECORDING: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record what is changed within."""
    recording = Recording()
    token = RECORDING.set(recording)
    try:
        yield recording
    finally:
        RECORDING.reset(token)


def is_recorded(table: Table) -> bool:
    return table.name not in UNRECORDED


def affected(statement: Update | Delete) -> Select[Any]:
    """The rows that a statement is about to change."""
    query = select(*_columns(cast(Table, statement.table)))
    if statement.whereclause is not None:
        query = query.where(statement.whereclause)
    return query.limit(ROWS_MAX)


@event.listens_for(Engine, "before_execute")
def _executing(connection: Connection, clause: Any, multiple: Sequence[Row], single: Row, _: Any) -> None:
    """Statements that were not compiled beforehand."""
    recording = RECORDING.get()
    if recording is None or not isinstance(clause, Insert | Update | Delete):
        return
    table = cast(Table, clause.table)
    if not is_recorded(table):
        return
    for values in multiple or [single]:
        if isinstance(clause, Insert):
            recording.inserting(table, {**clause.compile().params, **values})
        else:
            recording.changing(table, list(connection.execute(affected(clause), values)))


def _change(table: Table, key: Key, before: Row | None, after: Row | None) -> RowChange | None:
    was, now = (_document(table, each) if each is not None else None for each in (before, after))
    if was is None or now is None:
        return None if was is now else RowChange(table.name, key, was, now)
    flat_was, flat_now = dict(_leaves(was)), dict(_leaves(now))
    assert before is not None
    assert after is not None
    for name in now:
        if was.get(name) == now[name] and before[name] != after[name] and REMOVED in str(now[name]):
            flat_was[name], flat_now[name] = REMOVED, f"{REMOVED}, another"
    paths = [path for path in {**flat_was, **flat_now} if flat_was.get(path) != flat_now.get(path)]
    if not paths:
        return None
    return RowChange(
        table.name,
        key,
        {path: flat_was[path] for path in paths if path in flat_was},
        {path: flat_now[path] for path in paths if path in flat_now},
    )


def _document(table: Table, row: Row) -> dict[str, Any]:
    found = {}
    for column in _columns(table):
        value = row.get(column.name)
        is_json = column.name in DOCUMENTS and isinstance(value, str)
        found[column.name] = _said(_parsed(value)) if is_json else value
        if column.name in CAPABILITIES.get(table.name, ()) and isinstance(value, str):
            found[column.name] = _without_path(value)
    cleaned: dict[str, Any] = without_secrets(found)
    return cleaned


def _without_path(url: str) -> str:
    start = SCHEME_AND_HOST.match(url)
    return f"{start.group()}/{REMOVED}" if start is not None else REMOVED


def _said(document: Any) -> Any:
    """What was asked for; what a declaration of a workload derives from that would say everything twice."""
    if isinstance(document, dict) and document.get("request") and "workload" in document:
        return {name: each for name, each in document.items() if name != "workload"}
    return document


def _parsed(text: Any) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each value of a document with its path."""
    if isinstance(value, Mapping) and value:
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value and isinstance(value[0], Mapping | list):
        for number, each in enumerate(value):
            yield from _leaves(each, f"{path}.{number}")
    else:
        yield path, value


def _key(table: Table, values: Row) -> Key:
    return tuple(values.get(name) for name in _key_names(table))


@lru_cache(maxsize=256)
def _key_names(table: Table) -> tuple[str, ...]:
    return tuple(column.name for column in table.primary_key)


@lru_cache(maxsize=256)
def _columns(table: Table) -> tuple[Any, ...]:
    left_out = EVERYWHERE | IGNORED.get(table.name, frozenset())
    return tuple(column for column in table.columns if column.name not in left_out)


def _table(name: str) -> Table:
    from fairpool.control.store.tables import metadata

    return metadata.tables[name]


@lru_cache(maxsize=256)
def _by_key(table: Table) -> Any:
    from fairpool.control.store.compiled import Compiled

    query = select(*_columns(table))
    for column in table.primary_key:
        query = query.where(column == bindparam(column.name, type_=column.type))
    return Compiled(query)

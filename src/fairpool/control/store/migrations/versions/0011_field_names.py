"""Names from the field for what a cluster reported, as columns and in the documents of workloads, pods and nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

COLUMNS = (("clusters", "unsure", "needs_resync"), ("clusters", "heard_at", "last_seen_at"))
AT_ONCE = 500

Parts = Callable[[Any], Iterable[Any]]
"""The objects in a document in which a key was renamed."""
DOCUMENTS: tuple[tuple[str, str, str, Parts, str, str], ...] = (
    ("workloads", "id", "declaration", lambda document: [document["workload"]], "want", "desired_state"),
    ("workloads", "id", "report", lambda document: document["pods"], "trouble", "start_failure"),
    ("pods", "id", "document", lambda document: [document], "trouble", "start_failure"),
    ("nodes", "cluster || '/' || name", "document", lambda document: [document], "words", "message"),
)


def upgrade() -> None:
    for table, before, after in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {before} TO {after}")
    for table, key, column, parts, before, after in DOCUMENTS:
        _rename(table, key, column, parts, before, after)


def downgrade() -> None:
    for table, key, column, parts, before, after in DOCUMENTS:
        _rename(table, key, column, parts, after, before)
    for table, before, after in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {after} TO {before}")


def _rename(table: str, key: str, column: str, parts: Parts, before: str, after: str) -> None:
    connection = op.get_bind()
    where = f"{column} IS NOT NULL AND {key} > :last ORDER BY {key} LIMIT {AT_ONCE}"
    query = sa.text(f"SELECT {key}, {column} FROM {table} WHERE {where}")
    change = sa.text(f"UPDATE {table} SET {column} = :text WHERE {key} = :key")
    last = ""
    while rows := connection.execute(query, {"last": last}).all():
        changed = [{"key": each, "text": _renamed(text, parts, before, after)} for each, text in rows]
        connection.execute(change, changed)
        last = rows[-1][0]


def _renamed(text: str, parts: Parts, before: str, after: str) -> str:
    document = json.loads(text)
    for part in parts(document):
        if before in part:
            part[after] = part.pop(before)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)

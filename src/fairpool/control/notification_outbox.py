"""Puts notifications into the outbox, in the transaction that takes in the report that is worth one."""

from __future__ import annotations

from typing import Any

from fairpool.control.notification_events import event_of, note_id
from fairpool.control.store import notifications as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant


def note_change(connection: Connection, row: Any, phase: str, reason: str | None, since: int, now: Instant) -> None:
    """In the transaction that takes in a report: what the owner of a workload is to be told of it."""
    event = event_of(row.phase, phase, reason)
    if event is not None:
        note(connection, row, event, since, now)


def note(connection: Connection, row: Any, event: str, since: int, now: Instant) -> None:
    """Tell the owner of a workload of an event, once for each `since`."""
    for each in store.wanted(connection, row.submitted_by, event):
        store.add(
            connection,
            {
                "id": note_id(row.id, event, since, each.owner, each.channel),
                "owner": each.owner,
                "channel": each.channel,
                "event": event,
                "workload": row.id,
                "workload_name": row.name,
                "project": row.project,
                "department": row.department,
                "cluster": row.cluster,
                "at": now,
            },
        )

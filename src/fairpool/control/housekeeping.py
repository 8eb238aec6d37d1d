"""Retention: deletes old history, so that a server can run for years on the same disk.

Live objects stay however old they are. Deleted workloads with their pods and events, changes, answers kept for repeated
calls and audit entries go when they are older than `Retention` says, a few rows in each transaction, so that requests
do not wait. Audit entries that were not forwarded yet stay. The file does not shrink; its free pages are reused.
"""

from __future__ import annotations

import asyncio
import logging

from fairpool.api.audit_chain import Head
from fairpool.control.attempts import FORGOTTEN_MS, KNOWN_MS
from fairpool.control.plane import Plane
from fairpool.control.settings import Settings
from fairpool.control.store import (
    access,
    attempts,
    audit,
    changes,
    clusters,
    ended_waits,
    estimates,
    notifications,
    sessions,
    workloads,
)
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import SECOND_MS, Instant

log = logging.getLogger("fairpool.control")

AT_A_TIME = 200
"""Rows of one kind in one unit: a few milliseconds."""
EVERY_S = 60.0


async def delete_old_rows(plane: Plane) -> None:
    """Delete old rows until cancelled."""
    # A short retention needs shorter pauses.
    rest_s = min(EVERY_S, plane.settings.retention.shortest_s / 10)
    shown: Head | None = None
    while True:
        await asyncio.sleep(rest_s)
        try:
            shown = await show_audit_head(plane, shown)
            while await plane.write(lambda connection: clear(connection, plane.settings, plane.now())):
                pass
        except Unavailable:  # already logged by the database
            continue
        except Exception:  # e.g. a full disk: nothing is lost, the next round tries again
            log.exception("could not delete old history; retrying in %g s", rest_s)


async def show_audit_head(plane: Plane, shown: Head | None) -> Head:
    """Write the number and hash of the last audit entry to the server's log, unless it was the last time: with it, the
    removal of later entries from the database can be proved."""
    _, head = await plane.read(audit.chain_ends)
    if head != shown:
        log.info("audit log", extra={"fields": {"entries": head.id, "head": head}})
    return head


def clear(connection: Connection, settings: Settings, now: Instant) -> bool:
    """Delete some rows that are too old; True: there may be more."""
    kept = settings.retention
    old = now - kept.history_s * SECOND_MS
    repeatable = now - min(settings.idempotency_s, kept.history_s) * SECOND_MS
    counts = (
        workloads.drop_deleted(connection, old, AT_A_TIME),
        clusters.drop_events(connection, old, AT_A_TIME),
        estimates.drop_old(connection, old, AT_A_TIME),
        ended_waits.drop_old(connection, old, AT_A_TIME),
        changes.drop_old(connection, old, AT_A_TIME),
        access.drop_expired(connection, now, AT_A_TIME),
        sessions.drop_ended(connection, now, AT_A_TIME),
        attempts.drop_old(connection, now - FORGOTTEN_MS, now - KNOWN_MS, AT_A_TIME),
        audit.drop_kept(connection, repeatable, AT_A_TIME),
        notifications.drop_old(connection, old, AT_A_TIME),
        audit.drop_old(connection, now - kept.audit_s * SECOND_MS, AT_A_TIME, settings.audit_forward),
    )
    return AT_A_TIME in counts

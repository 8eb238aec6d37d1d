"""What nobody needs any more is let go of: a server that runs for years must not need more disk every day.

What is wanted stays however old it is. Deleted work with its lives and events, changes, answers kept for repeated
calls and lines of the audit log go when they are older than `Retention` says. A little at a time, in units like any
other, so that no person waits for a large clearance. The file does not shrink; its free pages are used again.
"""

from __future__ import annotations

import asyncio
import logging

from fairpool.control.plane import Plane
from fairpool.control.settings import Settings
from fairpool.control.store import audit, changes, clusters, workloads
from fairpool.control.store.database import Connection
from fairpool.control.store.trouble import Unavailable
from fairpool.model.ids import SECOND_MS, Instant

log = logging.getLogger("fairpool.control")

AT_A_TIME = 200
"""Rows of one kind in one unit: a few milliseconds."""
EVERY_S = 60.0


async def keep_tidy(plane: Plane) -> None:
    """Until it is cancelled."""
    # Someone who keeps little wants it gone soon after.
    rest_s = min(EVERY_S, plane.settings.retention.shortest_s / 10)
    while True:
        await asyncio.sleep(rest_s)
        try:
            while await plane.write(lambda connection: clear(connection, plane.settings, plane.now())):
                pass
        except Unavailable:  # the database has said so in the log
            continue
        except Exception:  # a disk that does not take it now: nothing is lost, and the next time comes
            log.exception("could not delete old history; retrying in %g s", rest_s)


def clear(connection: Connection, settings: Settings, now: Instant) -> bool:
    """Let go of some of what is too old; says whether there may be more."""
    kept = settings.retention
    old = now - kept.history_s * SECOND_MS
    repeatable = now - min(settings.idempotency_s, kept.history_s) * SECOND_MS
    counts = (
        workloads.drop_gone(connection, old, AT_A_TIME),
        clusters.drop_events(connection, old, AT_A_TIME),
        changes.drop_old(connection, old, AT_A_TIME),
        audit.drop_kept(connection, repeatable, AT_A_TIME),
        audit.drop_old(connection, now - kept.audit_s * SECOND_MS, AT_A_TIME),
    )
    return AT_A_TIME in counts

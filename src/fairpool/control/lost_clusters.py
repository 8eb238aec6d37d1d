"""Announces in the stream of changes that a cluster has not been heard of for too long.

Nothing else would notice: nothing is written while a cluster is silent. That one joins or comes back is announced by
its next call (`clusters.py`). One of several processes looks, for all of them.
"""

from __future__ import annotations

import asyncio
import logging

from fairpool.control.plane import Plane
from fairpool.control.store import changes
from fairpool.control.store import clusters as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import SECOND_MS, Instant

log = logging.getLogger("fairpool.control")

EVERY_S = 2.0
BEFORE_S = 60
"""So far back is looked first: as long as it may take until another process does what one did that ended."""


async def announce_lost_clusters(plane: Plane) -> None:
    """Look until cancelled."""
    seen_until = Instant(plane.now() - BEFORE_S * SECOND_MS)
    while True:
        await asyncio.sleep(EVERY_S)
        try:
            seen_until = await announce_lost(plane, seen_until)
        except Unavailable:  # already logged by the database
            continue
        except Exception:  # the next look begins where this one did
            log.exception("could not look for lost clusters; retrying in %g s", EVERY_S)


async def announce_lost(plane: Plane, after: Instant) -> Instant:
    """Announce those that were lost after a moment; until when was looked."""
    now = plane.now()
    if not await plane.read(lambda connection: _lost(plane, connection, after, now)):
        return now

    def unit(connection: Connection) -> None:
        for cluster in _lost(plane, connection, after, now):
            kept = plane.settings.changes_kept
            changes.record(connection, "cluster", cluster, "disconnected", now, declared=False, kept=kept)

    await plane.write(unit)
    return now


def _lost(plane: Plane, connection: Connection, after: Instant, until: Instant) -> list[str]:
    """Those whose time without a call became too long between two moments."""
    away_ms = plane.settings.cluster_away_s * SECOND_MS
    return [
        row.id
        for row in store.all_clusters(connection)
        if row.last_seen_at is not None and after <= row.last_seen_at + away_ms < until
    ]

"""Sends audit entries on to a file or a syslog server, in order, each at least once.

How far it came is in the database, and is written when the target has taken the entries: what was sent right before a
crash is sent again. Of several servers on one database, one sends at a time; another takes over when it has not been
heard of for `LEASE_S`.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import Final

from fairpool.control.audit import entry_answer
from fairpool.control.audit_targets import AuditTarget, ForwardedEntry, audit_target
from fairpool.control.moments import iso
from fairpool.control.plane import Plane
from fairpool.control.store import audit as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

AT_A_TIME: Final = 200
EVERY_S: Final = 1.0
LEASE_S: Final = 30
REST_MAX_S: Final = 60.0


async def forward_entries(plane: Plane) -> None:
    """Forward until cancelled, if a target is configured."""
    text = plane.settings.audit_forward
    if not text:
        return
    target = audit_target(text)
    assert not isinstance(target, Problem), "checked when the server was started"
    forwarding = AuditForwarding(plane, text, target)
    rest_s = EVERY_S
    try:
        while True:
            try:
                while await forwarding.forward_some():
                    rest_s = EVERY_S
            except Unavailable:  # already logged by the database
                pass
            except OSError as error:
                if rest_s == EVERY_S:
                    fields = {"target": text, "error": error.strerror or str(error)}
                    log.warning("audit entries cannot be forwarded; retrying", extra={"fields": fields})
                rest_s = min(2 * rest_s, REST_MAX_S)
            except Exception:  # nothing is lost: what the target has not taken is sent again
                rest_s = min(2 * rest_s, REST_MAX_S)
                log.exception("could not forward audit entries; retrying in %g s", rest_s)
            await asyncio.sleep(rest_s)
    finally:
        target.close()


class AuditForwarding:
    """One server's part in forwarding to one target."""

    def __init__(self, plane: Plane, name: str, target: AuditTarget) -> None:
        self._plane, self._name, self._target = plane, name, target
        self._me = uuid.uuid4().hex

    async def forward_some(self) -> bool:
        """Send the next entries; False: there are none, or another server sends them."""
        waiting = await self._plane.read(lambda connection: store.is_behind(connection, self._name))
        if not waiting:
            return False
        found = await self._plane.write(self._taken)
        if not found:
            return False
        await asyncio.get_running_loop().run_in_executor(None, self._target.send, found)
        await self._plane.write(lambda connection: store.forwarded(connection, self._name, self._me, found[-1].id))
        return True

    def _taken(self, connection: Connection) -> list[ForwardedEntry]:
        """The next entries, if this server is the one that sends."""
        now = self._plane.now()
        through = store.hold_forwarding(connection, self._name, self._me, now, now + LEASE_S * SECOND_MS)
        if through is None:
            return []
        return [
            ForwardedEntry(
                id=row.id,
                timestamp=iso(row.at),
                text=entry_answer(row).model_dump_json(exclude_none=True),
                is_refusal=row.result == "Failed",
            )
            for row in store.following(connection, through, AT_A_TIME)
        ]

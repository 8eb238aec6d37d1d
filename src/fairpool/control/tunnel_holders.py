"""Which control process holds the tunnel of each cluster, as the processes of one database tell each other.

Each process notes there that it runs, where the others reach it, and which clusters are connected to it. A cluster is
connected to one process at a time: the one that noted it last. A process that finds a cluster of its own noted by
another gives its tunnel up, as it does when the cluster connects to itself again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from fairpool.api.multiplexer import Multiplexer
from fairpool.control.plane import Plane
from fairpool.control.store import processes as store
from fairpool.control.store.database import TUNNELS, Closed, Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.token_keys import KeysUnusable
from fairpool.control.tunnel import REPLACED
from fairpool.model.ids import SECOND_MS, Instant

log = logging.getLogger("fairpool.control")

ALIVE_S = 5.0
"""How often a process notes that it runs."""
LOST_S = 60.0
"""One that has noted nothing for so long is not asked. Much longer than the interval: clocks of machines differ."""
FORGOTTEN_S = 600.0
AGAIN_S = 1.0


class TunnelHolders:
    """The tunnels of this process, and those of the others."""

    def __init__(self, plane: Plane, address: str) -> None:
        """`address`: where other processes reach this one."""
        self._plane, self._address = plane, address
        self._noted: dict[str, Multiplexer] = {}
        self._has_changed = asyncio.Event()
        self._due = 0.0
        """When it is to be noted again that this process runs, by the monotonic clock."""

    async def elsewhere(self) -> Mapping[str, tuple[str, str]]:
        """By cluster: the other process that holds its tunnel, and its address. Raises `Unavailable`."""
        since = self._plane.now() - int(LOST_S * SECOND_MS)
        return await self._plane.read(lambda connection: store.reached(connection, since, self._plane.process))

    async def run(self) -> None:
        """Keep the notes of this process true until cancelled."""
        tunnels = self._plane.pod_access.tunnels
        tunnels.on_change = self._has_changed.set
        try:
            while True:
                self._has_changed.clear()
                pause_s = ALIVE_S
                try:
                    await self._compare()
                except (Unavailable, Closed):
                    pause_s = AGAIN_S
                except Exception:
                    log.exception("could not note which clusters are connected; trying again")
                    pause_s = AGAIN_S
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._has_changed.wait(), pause_s)
        finally:
            tunnels.on_change = lambda: None

    async def end(self) -> None:
        """The process stops."""
        try:
            await self._plane.write(lambda connection: store.forget(connection, self._plane.process))
        except (Unavailable, Closed):
            return  # it is forgotten by the others in time

    async def _compare(self) -> None:
        """Compare what is noted with the tunnels that are there."""
        noted = await self._plane.read(store.tunnels)
        here = self._plane.pod_access.tunnels.here()
        for cluster in [each for each in here if noted.get(each, self._plane.process) != self._plane.process]:
            if self._noted.get(cluster) is here[cluster]:
                log.info("cluster connected elsewhere", extra={"fields": {"cluster": cluster}})
                here.pop(cluster).break_off(REPLACED)
        new = [each for each in here if noted.get(each) != self._plane.process]
        gone = [each for each, process in noted.items() if process == self._plane.process and each not in here]
        if new or gone or time.monotonic() >= self._due:
            await self._plane.write(lambda connection: self._note(connection, new, gone))
            self._due = time.monotonic() + ALIVE_S / 2
        self._noted = here

    def _token_key(self, now: Instant) -> str:
        """Empty: the file cannot be read, which is reported where tokens are signed."""
        try:
            return self._plane.token_keys.published(now)[0].id
        except KeysUnusable:
            return ""

    def _note(self, connection: Connection, new: list[str], gone: list[str]) -> None:
        now = self._plane.now()
        store.note(connection, self._plane.process, self._address, self._token_key(now), now)
        store.forget_lost(connection, now - int(FORGOTTEN_S * SECOND_MS))
        store.hold(connection, self._plane.process, new)
        store.let_go(connection, self._plane.process, gone)
        if new:
            self._plane.database.announce(TUNNELS)

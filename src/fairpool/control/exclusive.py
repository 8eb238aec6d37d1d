"""Work that is done by one task at a time, also where several processes share the database.

There the right to do it is a lease in the database, which is renewed while the work goes on. If its process is killed,
others wait for its end, a few seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fairpool.control.plane import Plane
from fairpool.control.store import leases
from fairpool.control.store.database import Closed, Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.model.ids import SECOND_MS

LEASE_S = 10.0
RENEW_S = LEASE_S / 4
LOOK_AGAIN_S = 0.5


@asynccontextmanager
async def alone(plane: Plane, name: str) -> AsyncIterator[None]:
    """Wait until no one else does what this names, then do it. Raises `Unavailable`."""
    async with plane.lock(name):
        if not plane.database.is_shared:
            yield
            return
        await _take(plane, name)
        renewing = asyncio.create_task(_renew(plane, name), name="lease")
        try:
            yield
        finally:
            renewing.cancel()
            await asyncio.gather(renewing, return_exceptions=True)
            with suppress(Unavailable, Closed):  # it ends by itself
                await plane.write(lambda connection: leases.release(connection, name, plane.process))


def lease_ends(plane: Plane) -> int:
    """When a lease that is taken or renewed now ends."""
    return plane.now() + int(LEASE_S * SECOND_MS)


async def _take(plane: Plane, name: str) -> None:
    while True:
        listening = plane.notifier.listen()
        if await plane.write(lambda connection: _taken(connection, plane, name)):
            listening.cancel()
            return
        await plane.notifier.wait(listening, LOOK_AGAIN_S)


async def _renew(plane: Plane, name: str) -> None:
    while True:
        await asyncio.sleep(RENEW_S)
        with suppress(Unavailable):  # no one else can take it then
            await plane.write(lambda connection: _taken(connection, plane, name))


def _taken(connection: Connection, plane: Plane, name: str) -> bool:
    return leases.take(connection, name, plane.process, plane.now(), lease_ends(plane))

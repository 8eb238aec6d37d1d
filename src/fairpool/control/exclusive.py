"""Work that is done by one task at a time, also where several processes share the database.

There the right to do it is a lease in the database, which is renewed while the work goes on. If its process is killed,
others wait for its end, a few seconds. Work whose lease could not be renewed in time is cancelled: another process may
have begun it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from fairpool.control.plane import Plane
from fairpool.control.store import leases
from fairpool.control.store.database import Closed, Connection
from fairpool.control.store.unavailable import UNREACHABLE, Unavailable
from fairpool.model.ids import SECOND_MS

LEASE_S = 10.0
RENEW_S = LEASE_S / 4
LOOK_AGAIN_S = 0.5


@asynccontextmanager
async def alone(plane: Plane, name: str) -> AsyncIterator[None]:
    """Wait until no one else does what this names, then do it. Raises `Unavailable`, also when the lease is lost."""
    async with plane.lock(name), _counted(plane):
        if not plane.database.is_shared:
            yield
            return
        lease = asyncio.timeout_at(await _take(plane, name) + LEASE_S)
        try:
            async with lease:
                renewing = asyncio.create_task(_renew(plane, name, lease), name="lease")
                try:
                    yield
                finally:
                    renewing.cancel()
                    await asyncio.gather(renewing, return_exceptions=True)
        except TimeoutError as error:
            if not lease.expired():
                raise
            raise Unavailable(UNREACHABLE, f"the lease {name} could not be renewed in time") from error
        finally:
            with suppress(Unavailable, Closed):  # it ends by itself
                await plane.write(lambda connection: leases.release(connection, name, plane.process))


@asynccontextmanager
async def _counted(plane: Plane) -> AsyncIterator[None]:
    plane.leases_held += 1
    try:
        yield
    finally:
        plane.leases_held -= 1


def lease_ends(plane: Plane) -> int:
    """When a lease that is taken or renewed now ends."""
    return plane.now() + int(LEASE_S * SECOND_MS)


async def _take(plane: Plane, name: str) -> float:
    """Wait for the lease; the moment from which it counts, by the clock of the event loop."""
    while True:
        listening = plane.notifier.listen()
        asked_at = asyncio.get_running_loop().time()
        if await plane.write(lambda connection: _taken(connection, plane, name)):
            listening.cancel()
            return asked_at
        await plane.notifier.wait(listening, LOOK_AGAIN_S)


async def _renew(plane: Plane, name: str, lease: asyncio.Timeout) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(RENEW_S)
        asked_at = loop.time()
        with suppress(Unavailable):  # the next try may succeed before the lease ends
            is_ours = await plane.write(lambda connection: _taken(connection, plane, name))
            lease.reschedule(asked_at + LEASE_S if is_ours else loop.time())


def _taken(connection: Connection, plane: Plane, name: str) -> bool:
    return leases.take(connection, name, plane.process, plane.now(), lease_ends(plane))

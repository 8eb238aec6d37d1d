"""What processes that share a PostgreSQL database tell each other: that something was committed, and who tidies up.

Each commit is announced with NOTIFY, in the same transaction. A process that was not listening for a while is rung for
once it listens again, since it may have missed any number of announcements.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from fairpool.control.store.database import CALLERS, MOVED, TUNNELS
from fairpool.control.store.postgresql import connect
from fairpool.control.store.postgresql_errors import code_of
from fairpool.control.store.postgresql_writer import CHANNEL

log = logging.getLogger("fairpool.control")

ALIVE_S = 5.0
"""How often a connection on which nothing comes is tried."""
AGAIN_S = 0.2
TURN_S = 1.0
"""How often a process asks whether it is its turn."""


class Bell:
    """Rings for commits of other processes."""

    def __init__(self, location: str, sender: str, ring: Callable[[frozenset[str]], None]) -> None:
        """`ring` gets what the others said besides; `sender`: whose announcements are our own."""
        self._location, self._sender, self._ring = location, sender, ring

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            connection: Any = None
            try:
                connection, is_over = await connect(self._location), asyncio.Event()
                connection.add_termination_listener(lambda _, is_over=is_over: is_over.set())
                await connection.add_listener(CHANNEL, self._heard)
                self._ring(EVERYTHING)
                while not is_over.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(is_over.wait(), ALIVE_S)
                    await connection.execute("SELECT 1", timeout=ALIVE_S)
            except Exception as error:
                if code_of(error) is None:
                    log.exception("commits of other processes are not heard; trying again")
            finally:
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(AGAIN_S)

    def _heard(self, _: Any, __: int, ___: str, payload: str) -> None:
        sender, *said = payload.split()
        if sender != self._sender:
            self._ring(frozenset(said))


EVERYTHING = frozenset({CALLERS, MOVED, TUNNELS})


async def in_turn(location: str, number: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do this while no other process does, until it is cancelled. It is cut off when the connection breaks: the lock is
    gone then, and another process may have begun."""
    while True:
        connection: Any = None
        working: asyncio.Task[None] | None = None
        try:
            connection = await connect(location)
            while not await connection.fetchval(f"SELECT pg_try_advisory_lock({number})"):
                await asyncio.sleep(TURN_S)
            working = asyncio.ensure_future(_done(work))
            while not working.done():
                await asyncio.wait({working}, timeout=TURN_S)
                await connection.execute("SELECT 1", timeout=ALIVE_S)
            working.result()
            return
        except Exception as error:
            if code_of(error) is None:
                log.exception("what one process does for all of them has failed; trying again")
        finally:
            if working is not None:
                working.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await working
            if connection is not None:
                connection.terminate()
        await asyncio.sleep(TURN_S)


async def _done(work: Callable[[], Awaitable[None]]) -> None:
    await work()

"""Single flight: what many tasks ask for at the same time is done by one of them, and the others wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SingleFlight:
    """One piece of work. For one event loop."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] | None = None

    async def join(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do this, or wait for the task that is doing it. That one may have failed or been cancelled, so look
        afterwards whether it was done. All who wait wake at once; a lock would wake them one after the other."""
        if self._waiting is not None:
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(done)
            await done
            return
        waiting = self._waiting = []
        try:
            await work()
        finally:
            self._waiting = None
            for each in waiting:
                if not each.done():
                    each.set_result(None)

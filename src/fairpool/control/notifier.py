"""Wakes those who wait for something to be written."""

from __future__ import annotations

import asyncio


class Notifier:
    """Rings after every commit. Whoever hears it looks for themselves whether it was for them."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self.rings = 0

    def ring(self) -> None:
        self.rings += 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def listen(self) -> asyncio.Future[None]:
        """Done at the next ring. Take it before looking, so that no ring falls between."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        return waiting

    async def hear(self, listening: asyncio.Future[None], timeout_s: float) -> bool:
        """Wait for a ring; False: none came in time."""
        done, _ = await asyncio.wait({listening}, timeout=timeout_s)
        if not done:
            self._waiting.discard(listening)
            listening.cancel()
        return bool(done)

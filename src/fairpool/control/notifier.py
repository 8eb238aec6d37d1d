"""Notifier: wakes tasks that wait for a commit."""

from __future__ import annotations

import asyncio


class Notifier:
    """Notifies after every commit. A task that wakes up checks whether the commit concerns it."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()
        self.notifications = 0
        self.is_closing = False

    def notify(self) -> None:
        self.notifications += 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)
        self._waiting.clear()

    def close(self) -> None:
        """The server stops: tasks that wait for a commit wake up, and end what they do."""
        self.is_closing = True
        self.notify()

    def listen(self) -> asyncio.Future[None]:
        """A future that is done at the next commit. Take it before reading, so that no commit is missed."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        return waiting

    async def wait(self, listening: asyncio.Future[None], timeout_s: float) -> bool:
        """Wait for a commit; False: none came in time."""
        done, _ = await asyncio.wait({listening}, timeout=timeout_s)
        if not done:
            self._waiting.discard(listening)
            listening.cancel()
        return bool(done)

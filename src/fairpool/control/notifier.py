"""Notifier: wakes tasks that wait for a commit."""

from __future__ import annotations

import asyncio


class Notifier:
    """Notifies after every commit. A task that wakes up checks whether the commit concerns it."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[bool]] = set()
        self.notifications = 0
        self.is_closing = False

    def notify(self) -> None:
        self.notifications += 1
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(True)
        self._waiting.clear()

    def close(self) -> None:
        """The server stops: tasks that wait for a commit wake up, and end what they do."""
        self.is_closing = True
        self.notify()

    def listen(self) -> asyncio.Future[bool]:
        """A future that is done at the next commit. Take it before reading, so that no commit is missed."""
        waiting: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        return waiting

    async def wait(self, listening: asyncio.Future[bool], timeout_s: float) -> bool:
        """Wait for a commit; False: none came in time."""
        if listening.done():
            return True
        timer = asyncio.get_running_loop().call_later(max(0.0, timeout_s), _give_up, listening)
        try:
            return await listening
        finally:
            timer.cancel()
            self._waiting.discard(listening)


def _give_up(listening: asyncio.Future[bool]) -> None:
    if not listening.done():
        listening.set_result(False)

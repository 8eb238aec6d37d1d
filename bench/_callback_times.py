"""How long single callbacks keep an event loop busy: the CPU time of each, and which ones were the longest.

Works with asyncio's own event loop; uvloop runs its callbacks in C, one after the other just the same. In CPU time, so
that other programs on the machine do not count. A callback is a step of a task, data that was received, or a call from
another thread: nothing else happens on the loop meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

LONG_S = 0.005


@dataclass(frozen=True, slots=True, order=True)
class Callback:
    """One that took long."""

    cpu_s: float
    name: str


class CallbackTimes:
    """The callbacks of the event loop of one thread."""

    def __init__(self) -> None:
        self.count = 0
        self.longest = Callback(0.0, "")
        self.long: list[Callback] = []

    def take(self) -> CallbackTimes:
        """What was measured so far; from here on it is measured anew."""
        taken = CallbackTimes()
        taken.count, taken.longest, taken.long = self.count, self.longest, self.long
        self.count, self.longest, self.long = 0, Callback(0.0, ""), []
        return taken

    @contextmanager
    def measured(self) -> Iterator[CallbackTimes]:
        """Measure all callbacks of this thread's event loops meanwhile."""
        run, thread = asyncio.Handle._run, threading.get_ident()

        def timed(handle: Any) -> None:
            if threading.get_ident() != thread:
                run(handle)
                return
            before = _name(handle)
            began = time.thread_time()
            run(handle)
            self._add(time.thread_time() - began, before, handle)

        asyncio.Handle._run = timed  # type: ignore[method-assign, assignment]
        try:
            yield self
        finally:
            asyncio.Handle._run = run  # type: ignore[method-assign]

    def _add(self, cpu_s: float, before: str, handle: Any) -> None:
        self.count += 1
        if cpu_s <= self.longest.cpu_s and cpu_s < LONG_S:
            return
        after = _name(handle)
        found = Callback(cpu_s, before if after == before else f"{before} … {after}")
        self.longest = max(self.longest, found)
        if cpu_s >= LONG_S:
            self.long.append(found)


def _name(handle: Any) -> str:
    """The innermost coroutine of a task, or the name of a function."""
    callback = handle._callback
    task = getattr(callback, "__self__", None)
    coroutine: Any = task.get_coro() if isinstance(task, asyncio.Task) else None
    if coroutine is None:
        return str(getattr(callback, "__qualname__", callback))
    while getattr(inner := getattr(coroutine, "cr_await", None), "cr_code", None) is not None:
        coroutine = inner
    return str(coroutine.__qualname__)

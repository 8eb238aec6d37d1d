"""Calls that may hang, such as file access over a network: run in threads, waited for briefly, collected later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

TIMEOUT_S = 3.0
SHORT_TIMEOUT_S = 0.2
"""While another call hangs: the waits of many would add up."""
CALLS_MAX = 64


class StillRunning(OSError):
    """The call has not returned yet; a later `run` under the same name may find that it has."""


class BoundedCalls(Generic[T]):
    """Runs calls in threads of their own, one for each name. Not thread-safe itself."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s
        self._calls: dict[str, _Call[T]] = {}

    def run(self, name: str, call: Callable[[], T], words: str) -> T:
        """What the call returns or raises. Raises `StillRunning` with `words` if it takes longer than the timeout: the
        call goes on, and its result is kept for the next `run` under this name."""
        known = self._calls.get(name)
        if known is None:
            known = self._begin(name, call)
            another_hangs = any(not each.is_done for each in self._calls.values() if each is not known)
            known.wait(SHORT_TIMEOUT_S if another_hangs else self._timeout_s)
        if not known.is_done:
            raise StillRunning(0, f"{words} ({time.monotonic() - known.begun_at:.0f} s so far)")
        del self._calls[name]
        return known.result()

    def _begin(self, name: str, call: Callable[[], T]) -> _Call[T]:
        if len(self._calls) >= CALLS_MAX:  # results that were never collected go first
            self._calls = {each: kept for each, kept in self._calls.items() if not kept.is_done}
        if len(self._calls) >= CALLS_MAX:
            raise StillRunning(0, "too many others are waiting for files that do not answer")
        self._calls[name] = begun = _Call(call)
        return begun


class _Call(Generic[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._results: list[T] = []
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self.begun_at = time.monotonic()
        threading.Thread(target=self._run, name="bounded call", daemon=True).start()

    def _run(self) -> None:
        try:
            self._results.append(self._call())
        except Exception as error:  # raised in the thread that collects the result
            self._error = error
        finally:
            self._is_over.set()

    def wait(self, timeout_s: float) -> None:
        self._is_over.wait(timeout_s)

    @property
    def is_done(self) -> bool:
        return self._is_over.is_set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]

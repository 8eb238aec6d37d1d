"""Calls that may hang, as files on a network do: waited for a moment, and asked about again later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

PATIENCE_S = 3.0
"""How long a call is waited for."""
BRIEFLY_S = 0.2
"""While another one hangs: many of them would add up."""
CALLS_MAX = 64


class NotYet(OSError):
    """It is not done; the next one who asks may find that it is."""


class Patience(Generic[T]):
    """Makes calls in threads of their own, one for each name. To be used from one thread at a time."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._calls: dict[str, _Call[T]] = {}

    def ask(self, name: str, call: Callable[[], T], words: str) -> T:
        """What the call answers or raises. Raises `NotYet` if that takes longer: then it goes on until it is asked for
        by the same name again."""
        known = self._calls.get(name)
        if known is None:
            known = self._begin(name, call)
            is_held_up = any(not each.is_done for each in self._calls.values() if each is not known)
            known.wait(BRIEFLY_S if is_held_up else self._patience_s)
        if not known.is_done:
            raise NotYet(0, f"{words} ({time.monotonic() - known.begun_at:.0f} s so far)")
        del self._calls[name]
        return known.answer()

    def _begin(self, name: str, call: Callable[[], T]) -> _Call[T]:
        if len(self._calls) >= CALLS_MAX:  # what was not asked for again goes first
            self._calls = {each: kept for each, kept in self._calls.items() if not kept.is_done}
        if len(self._calls) >= CALLS_MAX:
            raise NotYet(0, "too many others are waiting for files that do not answer")
        self._calls[name] = begun = _Call(call)
        return begun


class _Call(Generic[T]):
    def __init__(self, call: Callable[[], T]) -> None:
        self._call = call
        self._answers: list[T] = []
        self._error: Exception | None = None
        self._is_over = threading.Event()
        self.begun_at = time.monotonic()
        threading.Thread(target=self._run, name="patience", daemon=True).start()

    def _run(self) -> None:
        try:
            self._answers.append(self._call())
        except Exception as error:  # it is raised where the answer is asked for
            self._error = error
        finally:
            self._is_over.set()

    def wait(self, patience_s: float) -> None:
        self._is_over.wait(patience_s)

    @property
    def is_done(self) -> bool:
        return self._is_over.is_set()

    def answer(self) -> T:
        if self._error is not None:
            raise self._error
        return self._answers[0]

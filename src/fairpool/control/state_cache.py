"""Cache of values that were computed from the database, each with the state of the tables it was computed from."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")

VALUES_MAX = 10_000


class StateCache:
    """Values by name. Threads may share it: at worst, a value is made twice.

    A state is a number that the database raises with every change. A transaction that is undone gives its numbers
    back, and the next one uses them for something else: so a state also has to say how many were undone.
    """

    def __init__(self, most: int = VALUES_MAX) -> None:
        self._most = most
        self._values: dict[Hashable, tuple[object, Any]] = {}

    def get(self, name: Hashable, state: object, make: Callable[[], T]) -> T:
        """The value of this name, made anew if the state is another."""
        found = self._values.get(name)
        if found is None or found[0] != state:
            if len(self._values) >= self._most:
                self._values.clear()
            found = self._values[name] = (state, make())
        value: T = found[1]
        return value

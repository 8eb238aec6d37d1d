"""Timers of a simulation: at most one per pod or node, the earliest first."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from fairpool.model.ids import Instant

Key = tuple[str, str]
"""Kind and name of what a timer is for."""


class Timers:
    """A priority queue in which a key has one timer."""

    def __init__(self) -> None:
        self._due: dict[Key, Instant] = {}
        self._queue: list[tuple[Instant, Key]] = []
        """Entries that `_due` does not confirm were replaced or cancelled."""

    def set(self, key: Key, at: Instant | None) -> None:
        """Set, move or (None) cancel a timer."""
        if at is None:
            self._due.pop(key, None)
        elif self._due.get(key) != at:
            self._due[key] = at
            heappush(self._queue, (at, key))

    @property
    def next_at(self) -> Instant | None:
        while self._queue and self._due.get(self._queue[0][1]) != self._queue[0][0]:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def expire(self, now: Instant) -> Iterator[tuple[Instant, Key]]:
        """Every timer that is due by now, in order, each removed; timers that are set meanwhile included."""
        while (at := self.next_at) is not None and at <= now:
            _, key = heappop(self._queue)
            del self._due[key]
            yield at, key

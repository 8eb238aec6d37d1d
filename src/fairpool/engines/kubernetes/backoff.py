"""Back-off for each node and pod group whose calls the API server refuses for the moment."""

from __future__ import annotations

from collections.abc import Callable

FIRST_S = 0.5
LONGEST_S = 30.0
KEYS_MAX = 10_000


class Backoff:
    """When what may be tried again."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, tuple[float, float]] = {}
        """For each key: until when, and how long that was."""

    def remaining_s(self, *keys: str) -> float:
        """How long to wait before one of these is tried; 0: now."""
        now = self._clock()
        return max(0.0, *(self._until[key][0] - now for key in keys if key in self._until), 0.0)

    def failed(self, *keys: str, at_least_s: float = 0.0) -> None:
        """A call for these was refused for the moment: wait twice as long as last time. Calls that fail together count
        once."""
        now = self._clock()
        for key in keys:
            until, delay_s = self._until.get(key, (0.0, 0.0))
            if until <= now:
                delay_s = min(max(at_least_s, 2 * delay_s or FIRST_S), LONGEST_S)
                self._until.pop(key, None)
                self._until[key] = now + delay_s, delay_s
        while len(self._until) > KEYS_MAX:
            del self._until[next(iter(self._until))]

    def succeeded(self, *keys: str) -> None:
        for key in keys:
            self._until.pop(key, None)

"""Wrong passwords cost time: each further one doubles the wait before the next is looked at. No clock in here."""

from __future__ import annotations

from dataclasses import dataclass

from fairpool.model.ids import SECOND_MS, Instant

FORGOTTEN_MS = 15 * 60 * SECOND_MS
REMEMBERED_MAX = 10_000
"""Names and addresses; beyond that the oldest are forgotten, so that strangers cannot fill our memory."""


@dataclass(frozen=True, slots=True)
class Patience:
    """So many slips are anybody's; after that each doubles the wait, up to the longest."""

    free: int
    longest_s: int


SOMEBODY_SOMEWHERE = Patience(3, 60)
"""One name at one address."""
ADDRESS = Patience(20, 60)
"""Many people may sit behind one address, or on one machine."""
SOMEBODY = Patience(30, 5)
"""One name, wherever: guesses from many addresses are slowed, and strangers cannot keep a person out for long."""

Names = dict[str, Patience]


def names_of(kind: str, name: str, address: str) -> Names:
    """What an attempt is counted under."""
    return {
        f"{kind} {name} from {address}": SOMEBODY_SOMEWHERE,
        f"{kind} {name}": SOMEBODY,
        f"from {address}": ADDRESS,
    }


class Attempts:
    """Failures by name and by address, in memory: a restart forgives, which costs an attacker more than it gives."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, Instant]] = {}

    def wait_s(self, names: Names, now: Instant) -> int:
        """How long until another attempt under any of these names is looked at; 0: now."""
        return max((self._wait_s(name, patience, now) for name, patience in names.items()), default=0)

    def begin(self, names: Names, now: Instant) -> int:
        """The same; and if it is looked at now, it counts as failed until it turns out otherwise."""
        wait_s = self.wait_s(names, now)
        if wait_s == 0:
            for name in names:
                count, since = self._failures.pop(name, (0, now))
                self._failures[name] = (count + 1 if now - since < FORGOTTEN_MS else 1, now)
            while len(self._failures) > REMEMBERED_MAX:
                self._failures.pop(next(iter(self._failures)))
        return wait_s

    def succeeded(self, names: Names) -> None:
        """It was right. An address is not forgiven what others did there: whoever has one password could guess on."""
        for name, patience in names.items():
            count, since = self._failures.pop(name, (0, Instant(0)))
            if patience is ADDRESS and count > 1:
                self._failures[name] = (count - 1, since)

    def _wait_s(self, name: str, patience: Patience, now: Instant) -> int:
        count, last = self._failures.get(name, (0, now))
        if count < patience.free:
            return 0
        wait_s = min(1 << min(count - patience.free, 10), patience.longest_s)
        until = last + wait_s * SECOND_MS
        return max(0, -(-(until - now) // SECOND_MS))

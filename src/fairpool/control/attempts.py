"""Wrong passwords cost time, and never keep a person out who has the right one. No clock in here.

Each failure counts under three names: the user at this address, the user anywhere, and the address. After a few, each
further one doubles the wait before the next attempt is looked at. That alone would let a stranger lock anybody out, by
failing in their name often enough. So an address from which a user has signed in before is *known*: what is tried from
there is always looked at, and a wrong password costs the delay of its answer instead. How fast one can guess from a
known address is bounded by the thread that hashes for them (`passwords.py`), some ten a second for the whole server.
Every address of this machine counts as one, because one process can have sixteen million of them.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from fairpool.model.ids import SECOND_MS, Instant

FORGOTTEN_MS = 15 * 60 * SECOND_MS
REMEMBERED_MAX = 10_000
"""Names and addresses; beyond that the oldest are forgotten, so that strangers cannot fill our memory."""
LOOPBACK = "loopback"
IPV6_NETWORK = 64
"""Whoever has one address of a network of this size has all of them."""


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
KNOWN_LONGEST_S = 5

Names = dict[str, Patience]


def names_of(kind: str, name: str, address: str) -> Names:
    """What an attempt is counted under."""
    place = network_of(address)
    return {
        f"{kind} {name} from {place}": SOMEBODY_SOMEWHERE,
        f"{kind} {name}": SOMEBODY,
        f"from {place}": ADDRESS,
    }


def network_of(address: str) -> str:
    """An address as it is counted: those that one attacker has at once are one."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    parsed = mapped or parsed
    if parsed.is_loopback:
        return LOOPBACK
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(ipaddress.ip_network((parsed, IPV6_NETWORK), strict=False))
    return str(parsed)


class Attempts:
    """Failures by name and by address, in memory: a restart forgives, which costs an attacker more than it gives."""

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, Instant]] = {}
        self._known: dict[str, None] = {}

    def is_known(self, names: Names) -> bool:
        """Whether this user has signed in from this address before."""
        return _pair(names) in self._known

    def know(self, names: Names) -> None:
        """This user has signed in from this address."""
        self._known.pop(_pair(names), None)
        self._known[_pair(names)] = None
        while len(self._known) > REMEMBERED_MAX:
            self._known.pop(next(iter(self._known)))

    def wait_s(self, names: Names, now: Instant) -> int:
        """How long until another attempt under these names is looked at; 0: now."""
        if self.is_known(names):
            return 0
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

    def delay_s(self, names: Names) -> float:
        """How long the answer to a wrong password is held back, where the next attempt is not."""
        if not self.is_known(names):
            return 0.0
        count, _ = self._failures.get(_pair(names), (0, Instant(0)))
        over = count - SOMEBODY_SOMEWHERE.free
        return 0.0 if over <= 0 else min(0.25 * (1 << min(over, 10)), float(KNOWN_LONGEST_S))

    def undo(self, names: Names) -> None:
        """It was begun and could not be looked at: it counts for nothing."""
        for name in names:
            count, since = self._failures.get(name, (0, Instant(0)))
            if count > 1:
                self._failures[name] = (count - 1, since)
            else:
                self._failures.pop(name, None)

    def succeeded(self, names: Names) -> None:
        """It was right. An address is not forgiven what others did there: whoever has one password could guess on."""
        self.know(names)
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


def _pair(names: Names) -> str:
    return next(iter(names))

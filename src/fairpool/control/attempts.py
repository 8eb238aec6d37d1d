"""Rate limits for sign-in attempts. Pure: the clock is an argument.

Each failure counts under three names: the user at this address, the user anywhere, and the address. After a few, each
further failure doubles the wait before the next attempt is accepted. That alone would let an attacker lock a user out
by failing under their name. So an address from which a user has signed in before is *known*: attempts from there are
always accepted, and a wrong password delays its own answer instead. The rate of guesses from a known address is
bounded by the thread that hashes for them (`passwords.py`), about ten a second for the whole server. All loopback
addresses count as one, because one process can use sixteen million of them.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from fairpool.model.ids import SECOND_MS, Instant

FORGOTTEN_MS = 15 * 60 * SECOND_MS
KNOWN_MS = 90 * 24 * 3600 * SECOND_MS
"""How long an address is known after a user last signed in from there."""
LOOPBACK = "loopback"
IPV6_NETWORK = 64
"""A host usually controls a whole network of this size."""


@dataclass(frozen=True, slots=True)
class FailureLimit:
    """Failures that cost nothing; after that each doubles the wait, up to the longest."""

    free: int
    longest_s: int


USER_AT_ADDRESS = FailureLimit(3, 60)
"""One user at one address."""
ADDRESS = FailureLimit(20, 60)
"""Many users may share one address."""
USER_ANYWHERE = FailureLimit(30, 5)
"""One user from any address: guesses are slowed, but attackers cannot lock a user out for long."""
KNOWN_LONGEST_S = 5

Names = dict[str, FailureLimit]


def names_of(kind: str, name: str, address: str) -> Names:
    """What an attempt is counted under."""
    network = network_of(address)
    return {
        f"{kind} {name} from {network}": USER_AT_ADDRESS,
        f"{kind} {name}": USER_ANYWHERE,
        f"from {network}": ADDRESS,
    }


def network_of(address: str) -> str:
    """The network that an address counts for: addresses that one attacker can use at once."""
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
    """Failures by user and by address, as far as they are known: those of the names that are asked about."""

    def __init__(
        self, failures: Mapping[str, tuple[int, Instant]] = MappingProxyType({}), known: Collection[str] = ()
    ) -> None:
        self.failures, self._known = dict(failures), set(known)

    def is_known(self, names: Names) -> bool:
        """Whether this user has signed in from this address before."""
        return pair_of(names) in self._known

    def know(self, names: Names) -> None:
        """This user has signed in from this address."""
        self._known.add(pair_of(names))

    def wait_s(self, names: Names, now: Instant) -> int:
        """How long until another attempt is accepted; 0: now."""
        if self.is_known(names):
            return 0
        return max((self._wait_s(name, patience, now) for name, patience in names.items()), default=0)

    def begin(self, names: Names, now: Instant) -> int:
        """The same; an attempt that is accepted now counts as failed until it succeeds."""
        wait_s = self.wait_s(names, now)
        if wait_s == 0:
            for name in names:
                count, since = self.failures.pop(name, (0, now))
                self.failures[name] = (count + 1 if now - since < FORGOTTEN_MS else 1, now)
        return wait_s

    def delay_s(self, names: Names) -> float:
        """How long the answer to a wrong password from a known address is delayed."""
        if not self.is_known(names):
            return 0.0
        count, _ = self.failures.get(pair_of(names), (0, Instant(0)))
        over = count - USER_AT_ADDRESS.free
        return 0.0 if over <= 0 else min(0.25 * (1 << min(over, 10)), float(KNOWN_LONGEST_S))

    def undo(self, names: Names) -> None:
        """The password could not be checked: the attempt does not count."""
        for name in names:
            count, since = self.failures.get(name, (0, Instant(0)))
            if count > 1:
                self.failures[name] = (count - 1, since)
            else:
                self.failures.pop(name, None)

    def succeeded(self, names: Names) -> None:
        """The password was right. Failures of the address remain: its user could otherwise guess other passwords."""
        self.know(names)
        for name, patience in names.items():
            count, since = self.failures.pop(name, (0, Instant(0)))
            if patience is ADDRESS and count > 1:
                self.failures[name] = (count - 1, since)

    def _wait_s(self, name: str, patience: FailureLimit, now: Instant) -> int:
        count, last = self.failures.get(name, (0, now))
        if count < patience.free:
            return 0
        wait_s = min(1 << min(count - patience.free, 10), patience.longest_s)
        until = last + wait_s * SECOND_MS
        return max(0, -(-(until - now) // SECOND_MS))


def pair_of(names: Names) -> str:
    """The name of user and address together."""
    return next(iter(names))

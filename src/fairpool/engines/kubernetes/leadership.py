"""Leader election among replicas: what to write into the Lease next, and until when this replica leads. Pure.

As in client-go. Another replica's lease has expired when it was not *seen to change* for its whole duration, by the
clock of this process: the times in it are of another clock and are not compared with anything. The leader itself stops
acting earlier, `ACTING_S` after it sent the request that renewed the lease last. So the two never overlap as long as
both clocks run at about the same rate, however far apart they are set.

A lease only says who should act. What a former leader does late is refused by its fencing token, in the ledger and in
the engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

DURATION_S = 15
ACTING_S = 10.0
"""After so long without a renewal the leader does nothing any more; the difference to the duration is for calls that
are under way."""
RETRY_S = 2.0
"""Between two attempts to acquire or renew the lease."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRecord:
    """The content of the Lease object. `acquired_at` and `renewed_at` are texts that are only compared for equality."""

    holder: str = ""
    """Empty: it was released."""
    duration_s: int = DURATION_S
    acquired_at: str = ""
    renewed_at: str = ""
    transitions: int = 0


@dataclass(frozen=True, slots=True)
class Leadership:
    """What one replica knows about the lease. Moments are seconds of a clock that is never set."""

    identity: str
    seen: LeaseRecord | None = None
    seen_at_s: float = 0.0
    """When `seen` was first seen as it is."""
    leads_until_s: float = float("-inf")

    def leads(self, now_s: float) -> bool:
        """Whether this replica may act."""
        return now_s < self.leads_until_s

    @property
    def is_other(self) -> bool:
        """Whether another replica holds the lease, expired or not."""
        return self.seen is not None and self.seen.holder not in ("", self.identity)

    def expired(self, now_s: float) -> bool:
        """Whether the lease can be taken, also from another replica."""
        return self.seen is None or not self.seen.holder or now_s >= self.seen_at_s + self.seen.duration_s

    def look(self, found: LeaseRecord | None, now_s: float) -> Leadership:
        """After the lease was read. None: there is no such object. If another replica held it, it was deleted by
        hand: then it is not free before it would have expired, since that one acts until it notices."""
        if found is not None and found == self.seen:
            return self
        if found is None and self.is_other and not self.expired(now_s):
            return self
        after = replace(self, seen=found, seen_at_s=now_s)
        return replace(after, leads_until_s=float("-inf")) if after.is_other or found is None else after

    def claim(self, now_s: float, wall: str) -> LeaseRecord | None:
        """What to write in order to acquire or renew the lease; None: it is another replica's. `wall`: the time of day,
        for people who look at it."""
        if self.is_other and not self.expired(now_s):
            return None
        seen = self.seen or LeaseRecord()
        if seen.holder == self.identity:
            return replace(seen, duration_s=DURATION_S, renewed_at=wall)
        transitions = seen.transitions + (self.seen is not None)
        return LeaseRecord(holder=self.identity, acquired_at=wall, renewed_at=wall, transitions=transitions)

    def written(self, claim: LeaseRecord, sent_at_s: float, now_s: float) -> Leadership:
        """After a claim was written, in a request that was sent at that moment."""
        return replace(self, seen=claim, seen_at_s=now_s, leads_until_s=sent_at_s + ACTING_S)

    def release(self) -> LeaseRecord | None:
        """What to write in order to let the next replica lead at once; None: this one does not hold the lease."""
        if self.seen is None or self.seen.holder != self.identity:
            return None
        return replace(self.seen, holder="", duration_s=1)

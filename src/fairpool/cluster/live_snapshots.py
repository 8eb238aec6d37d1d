"""The latest snapshot of each node pool and its plan, for readers outside the loop's thread.

The loop hands in every snapshot before it is planned, and its plan afterwards. Both are immutable, and the mapping is
replaced and never changed, so that readers need no lock and the loop never waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fairpool.model.ids import Instant, PoolName
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot

NO_PLANS: Mapping[PoolName, tuple[Snapshot, Plan]] = MappingProxyType({})


class LiveSnapshots:
    """What the loop saw last, and decided."""

    def __init__(self, then: Callable[[PoolName, Snapshot], None] | None = None) -> None:
        """`then` is called with every snapshot as well."""
        self._then = then
        self._cycle_at = self._cycle_before = Instant(0)
        self.by_pool: Mapping[PoolName, Snapshot] = MappingProxyType({})
        self._plans = NO_PLANS

    def note(self, pool: PoolName, snapshot: Snapshot) -> None:
        """Called by the loop."""
        if snapshot.now != self._cycle_at:
            self._cycle_before, self._cycle_at = self._cycle_at, snapshot.now
        # A pool that was in neither this cycle nor the one before does not exist any more.
        kept = {name: each for name, each in self.by_pool.items() if each.now in (self._cycle_at, self._cycle_before)}
        self.by_pool = MappingProxyType({**kept, pool: snapshot})
        if self._then is not None:
            self._then(pool, snapshot)

    def note_plan(self, pool: PoolName, snapshot: Snapshot, planned: Plan) -> None:
        """Called by the loop."""
        kept = {name: each for name, each in self._plans.items() if name in self.by_pool}
        self._plans = MappingProxyType({**kept, pool: (snapshot, planned)})

    def plan_of(self, pool: PoolName, snapshot: Snapshot) -> Plan:
        """The plan of one of these snapshots: the loop's, or the same made again where the loop is still at it."""
        known = self._plans.get(pool)
        return known[1] if known is not None and known[0] is snapshot else plan(snapshot)

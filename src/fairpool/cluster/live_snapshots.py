"""The latest snapshot of each node pool, for readers outside the loop's thread.

The loop hands in every snapshot before it is planned. Snapshots are immutable, and the mapping is replaced and never
changed, so that readers need no lock and the loop never waits for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from fairpool.model.ids import Instant, PoolName
from fairpool.scheduler.snapshot import Snapshot


class LiveSnapshots:
    """What the loop saw last."""

    def __init__(self, then: Callable[[PoolName, Snapshot], None] | None = None) -> None:
        """`then` is called with every snapshot as well."""
        self._then = then
        self._cycle_at = self._cycle_before = Instant(0)
        self.by_pool: Mapping[PoolName, Snapshot] = MappingProxyType({})

    def note(self, pool: PoolName, snapshot: Snapshot) -> None:
        """Called by the loop."""
        if snapshot.now != self._cycle_at:
            self._cycle_before, self._cycle_at = self._cycle_at, snapshot.now
        # A pool that was in neither this cycle nor the one before does not exist any more.
        kept = {name: each for name, each in self.by_pool.items() if each.now in (self._cycle_at, self._cycle_before)}
        self.by_pool = MappingProxyType({**kept, pool: snapshot})
        if self._then is not None:
            self._then(pool, snapshot)

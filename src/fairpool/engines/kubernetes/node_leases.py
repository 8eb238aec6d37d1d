"""Which silent nodes are gone: their agent could not renew its Lease, and has ended every pod of ours by now. Pure.

An agent that cannot renew for the duration of its lease kills the pods on its node (`agent/lease_fence.py`). The loop
waits longer than that, and only then replaces them. How long a lease was not renewed is counted by the loop's own clock
from the moment it was first seen as it is, so clocks of nodes may be off.

A lease says nothing if its agent had stopped before: then nothing kills pods. So it counts only where agent and kubelet
fell silent together. An agent that fails while its kubelet responds, or long after its kubelet, gives no evidence, and
the node stays silent until its object is deleted, it reboots, or an administrator sets the taint `out-of-service`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fairpool.model.ids import SECOND_MS, Instant, NodeName

PREFIX = "fairpool-node-"
"""How names of these leases begin; the name of the node follows. The admission policy of the chart knows it too."""
AGENT_LABEL = "fairpool.io/node-agent"
GONE_AFTER_S = 300
MARGIN = 5 / 4
"""How much longer than the duration of its lease the loop waits at least: an agent needs time to kill."""
KILLED = 17 / 16
"""How much longer than that after its kubelet was seen to be silent, which takes the node controller a while."""
TOGETHER = 2 / 5
"""Of the time after which a node is gone: how far apart agent and kubelet may fall silent. The node controller takes
40 to 50 s until it says that a kubelet is silent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLease:
    """What an agent has written."""

    renewed: str
    """A text that is only compared for equality."""
    renewed_at: Instant | None
    """The same, by the clock of the node."""
    fences_after_s: int


@dataclass(frozen=True, slots=True)
class SeenLease:
    """A lease as it was last read."""

    lease: AgentLease
    since_s: float
    """When it was first seen as it is."""
    is_renewal: bool
    """It was seen to change; otherwise it may have been as it is for long."""


@dataclass(frozen=True, slots=True)
class Silence:
    """Of a kubelet."""

    since: Instant
    """By the clock of the node controller."""
    seen_s: float


class NodeLeases:
    """What one loop knows about the leases of agents. Moments are seconds of a clock that is never set."""

    def __init__(self, gone_after_s: float = GONE_AFTER_S) -> None:
        self.gone_after_s = gone_after_s
        self._leases: dict[NodeName, SeenLease] = {}
        self._silences: dict[NodeName, Silence] = {}
        self._looked_s = float("-inf")

    @property
    def has_silences(self) -> bool:
        return bool(self._silences)

    def look(self, found: Mapping[NodeName, AgentLease], now_s: float) -> None:
        """All leases as they are now."""
        self._leases = {name: self._seen(name, lease, now_s) for name, lease in found.items()}
        self._looked_s = now_s

    def gone(self, silent: Mapping[NodeName, Instant], now_s: float) -> frozenset[NodeName]:
        """Which of the nodes with a silent kubelet are gone. `silent`: since when, by the node controller."""
        self._silences = {name: self._silence(name, since, now_s) for name, since in silent.items()}
        return frozenset(name for name, silence in self._silences.items() if self._is_gone(name, silence))

    def _seen(self, name: NodeName, lease: AgentLease, now_s: float) -> SeenLease:
        before = self._leases.get(name)
        if before is not None and before.lease == lease:
            return before
        return SeenLease(lease, now_s, is_renewal=before is not None)

    def _silence(self, name: NodeName, since: Instant, now_s: float) -> Silence:
        before = self._silences.get(name)
        return before if before is not None and before.since == since else Silence(since, now_s)

    def _is_gone(self, name: NodeName, silence: Silence) -> bool:
        seen = self._leases.get(name)
        if seen is None or not self._fell_silent_together(seen, silence):
            return False
        fences_after_s = seen.lease.fences_after_s
        by_lease_s = seen.since_s + max(self.gone_after_s, fences_after_s * MARGIN)
        # An agent that was answered, but refused, until its node was cut off has begun to wait only then.
        by_kubelet_s = silence.seen_s + fences_after_s * KILLED
        return self._looked_s >= max(by_lease_s, by_kubelet_s)

    def _fell_silent_together(self, seen: SeenLease, silence: Silence) -> bool:
        if seen.is_renewal:
            return abs(silence.seen_s - seen.since_s) <= self._apart_s
        # It has not changed since this loop leads. The two clocks are of other machines; if they are further apart, an
        # administrator has to say that the node is gone.
        renewed_at = seen.lease.renewed_at
        return renewed_at is not None and abs(silence.since - renewed_at) <= self._apart_s * SECOND_MS

    @property
    def _apart_s(self) -> float:
        return self.gone_after_s * TOGETHER


def lease_name(node: str) -> str:
    """The Lease of the agent on this node."""
    return f"{PREFIX}{node}"

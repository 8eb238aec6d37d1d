"""When the agent of a node kills the pods there: the API server has not answered it for too long. Pure.

The cluster's loop replaces the pods of a node that is cut off, and nothing may run twice. So an agent that had renewed
its lease, and then gets no answer for as long as the lease lasts, ends the pods of its node before the loop starts
others in their place.

An API server that answers and refuses is not away, and kills nothing: a role that was deleted by mistake must not end
every job of a cluster. The loop does not count such a node as gone, because its kubelet responds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FENCE_AFTER_S = 240
RENEW_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFence:
    """What an agent knows. Moments are seconds of a clock that is never set and goes on while the machine sleeps."""

    fence_after_s: float = FENCE_AFTER_S
    answered_at_s: float | None = None
    """When the last request was sent that the API server answered; None until the lease was renewed once."""
    pods: frozenset[str] = frozenset()
    """Uids of our pods on this node, ended or not."""
    fenced: frozenset[str] = frozenset()
    """Those that were ended: what their kubelet may still start of them is ended, too."""

    def renewed(self, sent_at_s: float) -> LeaseFence:
        """The lease was renewed by a request that was sent at this moment."""
        return replace(self, answered_at_s=sent_at_s)

    def refused(self, sent_at_s: float) -> LeaseFence:
        """The API server answered, but did not renew the lease."""
        return self if self.answered_at_s is None else replace(self, answered_at_s=sent_at_s)

    def listed(self, pods: frozenset[str]) -> LeaseFence:
        """All pods of ours on this node, from the API server."""
        return replace(self, pods=pods, fenced=self.fenced & pods)

    def look(self, now_s: float) -> LeaseFence:
        """As time passes."""
        is_cut_off = self.answered_at_s is not None and now_s - self.answered_at_s >= self.fence_after_s
        return replace(self, fenced=self.fenced | self.pods) if is_cut_off and not self.pods <= self.fenced else self

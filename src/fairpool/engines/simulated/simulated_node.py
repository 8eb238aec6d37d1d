"""A simulated node as it really is, which is more than is observed of it: its boots, and whether it responds."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.node import Node
from fairpool.model.observation import ObservedNode

FENCE_S = 240
"""An agent that is cut off for so long stops its pods, before its node is declared gone."""
GONE_S = 300
"""A node that is silent for so long is declared gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedNode:
    """A node, its boot, and its silence."""

    number: int
    """Rises with each node that is added."""
    node: Node
    boot: int = 1
    heard_boot: int = 1
    """The boot in which it last responded."""
    silent_since: Instant | None = None
    silent_until: Instant | None = None
    """None: until further notice."""
    offered: bool = True
    """False: it was removed from the set of nodes. Its pods keep running."""
    gone: bool = False
    """Silent for so long that its pods have certainly been stopped."""

    @property
    def boot_id(self) -> str:
        return _boot_id(self.node, self.boot)

    @property
    def is_silent(self) -> bool:
        return self.silent_since is not None

    @property
    def fences_at(self) -> Instant | None:
        """When its agent stops its pods, if it is silent so long."""
        if self.silent_since is None:
            return None
        fences_at = Instant(self.silent_since + FENCE_S * SECOND_MS)
        return None if self.silent_until is not None and self.silent_until <= fences_at else fences_at

    @property
    def gone_at(self) -> Instant | None:
        """When it is declared gone, if it is silent by then."""
        if self.silent_since is None or self.gone:
            return None
        return Instant(self.silent_since + GONE_S * SECOND_MS)

    def silenced(self, now: Instant, until: Instant | None) -> SimulatedNode:
        """It does not respond until then. If it was silent already, its silence began then."""
        since = self.silent_since if self.silent_since is not None else now
        return replace(self, silent_since=since, silent_until=until)

    def rebooted(self) -> SimulatedNode:
        return replace(self, boot=self.boot + 1)

    def responding(self) -> SimulatedNode:
        return replace(self, heard_boot=self.boot, silent_since=None, silent_until=None, gone=False)

    def observed(self) -> ObservedNode:
        """What the loop can observe of it."""
        boot_id = _boot_id(self.node, self.heard_boot)
        return ObservedNode(node=self.node, boot_id=boot_id, silent_since=self.silent_since, gone=self.gone)


def _boot_id(node: Node, boot: int) -> str:
    return f"{node.name}/{boot}"

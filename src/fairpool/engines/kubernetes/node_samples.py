"""What agents measured on their nodes: the message that they send, and the latest of each node. Pure.

An agent says what pods of its own node used, by their uid. Values of a node are taken from the agent that was
authenticated for this node, and only for pods that are known to run there.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from fairpool.model.ids import NodeName

FRESH_S = 25.0
"""What is older is not known any more: agents send every 10 s."""
PODS_MAX = 8192
BYTES_MAX = 4 << 20

Amount = Annotated[float, msgspec.Meta(ge=0, le=2**62)] | None
Bytes = Annotated[int, msgspec.Meta(ge=0, le=2**62)] | None


class AgentMeasure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A pod or a node. None: not measured."""

    cpu_cores: Amount = None
    memory_bytes: Bytes = None
    received_bytes_s: Amount = None
    sent_bytes_s: Amount = None
    read_bytes_s: Amount = None
    written_bytes_s: Amount = None


class NodeMeasure(msgspec.Struct, frozen=True, gc=False):
    """One message of an agent."""

    node: AgentMeasure
    pods: Annotated[dict[str, AgentMeasure], msgspec.Meta(max_length=PODS_MAX)] = {}
    """By uid."""


UNKNOWN = AgentMeasure()
NOTHING = NodeMeasure(UNKNOWN)
_decoder = msgspec.json.Decoder(NodeMeasure)


class NodeSamples:
    """The latest measure of each node. Written by one thread, read by another."""

    def __init__(self) -> None:
        self._latest: dict[NodeName, tuple[float, NodeMeasure]] = {}

    def take(self, node: NodeName, body: bytes, now_s: float) -> bool:
        """False: it is no such message."""
        try:
            self._latest[node] = now_s, _decoder.decode(body)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return False
        return True

    def of(self, node: NodeName, now_s: float) -> NodeMeasure:
        """What is known now."""
        at_s, found = self._latest.get(node, (float("-inf"), NOTHING))
        return found if now_s - at_s <= FRESH_S else NOTHING

    def forget_all_but(self, nodes: frozenset[NodeName]) -> None:
        for name in [name for name in self._latest if name not in nodes]:
            self._latest.pop(name, None)

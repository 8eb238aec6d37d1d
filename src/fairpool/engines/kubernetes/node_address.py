"""The address of a node under which node ports are reached."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.resources import NODES, ObjectMetadata

NODES_ASKED = 20
"""Node ports are open on every node: some are enough to find one that is ready."""


class AddressOfNode(msgspec.Struct, gc=False):
    type: str = ""
    address: str = ""


class ConditionOfNode(msgspec.Struct, gc=False):
    type: str = ""
    status: str = ""


class ReachedStatus(msgspec.Struct, gc=False):
    addresses: list[AddressOfNode] | None = None
    conditions: list[ConditionOfNode] | None = None


class ReachedNode(msgspec.Struct, gc=False):
    metadata: ObjectMetadata
    status: ReachedStatus = msgspec.field(default_factory=ReachedStatus)


class SomeNodes(msgspec.Struct, gc=False):
    items: list[ReachedNode] | None = None


async def find_node_address(client: KubernetesClient) -> str:
    """Raises `KubernetesError`; empty: no node is ready."""
    listed = await client.raw("GET", f"{NODES.path()}?limit={NODES_ASKED}")
    return node_address(client.decoder(SomeNodes).decode(listed).items or [])


def node_address(nodes: Iterable[ReachedNode]) -> str:
    """An external address before an internal one, of a node that is ready."""
    found = [
        (each.type != "ExternalIP", node.metadata.name, each.address)
        for node in nodes
        if any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or ())
        for each in node.status.addresses or ()
        if each.type in ("ExternalIP", "InternalIP")
    ]
    return min(found)[2] if found else ""

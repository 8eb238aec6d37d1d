"""Writes what administrators declared for nodes onto the Node objects, and removes it again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment_plan import SeenMetadata
from fairpool.engines.kubernetes.failures import Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.node_overrides import DECLARED, NOTHING, SeenNode, node_patch
from fairpool.engines.kubernetes.resources import NODES
from fairpool.model.ids import NodeName
from fairpool.model.organization import NodeOverrides

log = logging.getLogger("fairpool.kubernetes")

ATTEMPTS = 5
"""Of a node that its kubelet changes at the same time."""


class DeclaredNodeSpec(msgspec.Struct, gc=False):
    taints: list[dict[str, Any]] | None = None
    unschedulable: bool | None = None


class DeclaredNode(msgspec.Struct, gc=False):
    metadata: SeenMetadata
    spec: DeclaredNodeSpec = msgspec.field(default_factory=DeclaredNodeSpec)


class NodeDeclarations:
    """Declared fields of nodes. For one event loop."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._written: dict[NodeName, NodeOverrides] | None = None
        """As far as it is known; None: look first."""

    async def look(self) -> None:
        """Find out anew which nodes carry declared fields, also those of an earlier server."""
        self._written = None

    async def declare(
        self, overrides: Mapping[NodeName, NodeOverrides], confirm: Callable[[], Awaitable[None]]
    ) -> None:
        """Make the nodes what is declared. A node that cannot be changed is tried again after the next look. `confirm`
        raises if this loop does not lead any more."""
        wanted = {name: each for name, each in overrides.items() if each != NOTHING}
        if self._written is None:
            listed = await self._client.list(NODES, DeclaredNode, resource_version="0")
            marked = [each for each in listed.items if DECLARED in each.metadata.annotations]
            names = {NodeName(each.metadata.name) for each in marked} | wanted.keys()
        else:
            both = self._written.keys() | wanted.keys()
            names = {name for name in both if self._written.get(name) != wanted.get(name)}
        if names:
            await confirm()
        for name in sorted(names):
            try:
                await self._write(name, wanted.get(name, NOTHING))
            except KubernetesError as error:
                log.warning("node %s is not marked as declared: %s", name, error)
        self._written = wanted

    async def _write(self, name: NodeName, wanted: NodeOverrides) -> None:
        for attempt in range(ATTEMPTS):
            try:
                node = await self._client.get(NODES, name, DeclaredNode)
                patch = node_patch(_seen(node), wanted)
                if patch is not None:
                    await self._client.patch(NODES, name, patch)
                return
            except NotFound:
                return  # it is marked when it joins: after the next look
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise


def _seen(node: DeclaredNode) -> SeenNode:
    metadata = node.metadata
    return SeenNode(
        name=metadata.name,
        resource_version=metadata.resource_version,
        labels=metadata.labels,
        taints=tuple(node.spec.taints or ()),
        unschedulable=bool(node.spec.unschedulable),
        declared=metadata.annotations.get(DECLARED, ""),
    )

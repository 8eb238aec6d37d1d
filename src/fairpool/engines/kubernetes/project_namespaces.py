"""Namespaces of projects, where nothing else provides what pods need: `runai-<project>`, created when it is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment import PodEquipment
from fairpool.engines.kubernetes.failures import AlreadyExists
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, QUEUE, namespace_of
from fairpool.engines.kubernetes.resources import NAMESPACES
from fairpool.model.ids import QueueId
from fairpool.model.observation import StartOrder


class NamespacesOnly:
    """Equipment that consists of namespaces."""

    def __init__(self, client: KubernetesClient) -> None:
        self._client = client
        self._existing: set[QueueId] = set()
        self._creating = asyncio.Lock()

    async def prepare(self, order: StartOrder) -> PodEquipment:
        """The namespace of a project exists afterwards."""
        name = namespace_of(order.project)
        if order.project not in self._existing:
            async with self._creating:  # once for all pods of a burst
                await self._create(order.project, name)
        return PodEquipment(name)

    async def _create(self, project: QueueId, name: str) -> None:
        if project not in self._existing:
            with suppress(AlreadyExists):
                metadata = {"name": name, "labels": {MANAGED_BY: FAIRPOOL, QUEUE: project}}
                await self._client.create(NAMESPACES, {"metadata": metadata})
            self._existing.add(project)

    async def run(self, confirm: Callable[[], Awaitable[None]]) -> None:
        """There is nothing to keep up."""

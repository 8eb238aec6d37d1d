"""The objects of a resource type as a watch reports them, kept for a test."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.resources import ApiResource, Identified
from fairpool.engines.kubernetes.watch import EVERYTHING, WatchBatch, WatchScope, changes

T = TypeVar("T", bound=Identified)


class WatchedObjects(Generic[T]):
    """What exists by name, and every batch that changed it. Begins at once; `stop` it."""

    def __init__(
        self,
        client: KubernetesClient,
        resource: ApiResource,
        answer: type[T],
        scope: WatchScope = EVERYTHING,
        *,
        silence_s: float,
        page: int = 500,
    ) -> None:
        self.objects: dict[str, T] = {}
        self.changes: list[dict[str, str | None]] = []
        """Of each batch with events: the new version of each object; None if it was deleted."""
        self.position = 0
        self.is_complete = asyncio.Event()
        self.failure: KubernetesError | None = None
        self._batches = changes(
            client, resource, answer, scope, silence_s=silence_s, page=page, on_failure=self._failed
        )
        self.task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        await self._batches.aclose()

    def _failed(self, failure: KubernetesError) -> None:
        self.failure = failure

    async def _run(self) -> None:
        async for batch in self._batches:
            self.failure = None
            self._take(batch)
            self.position = int(batch.resource_version or self.position)

    def _take(self, batch: WatchBatch[T]) -> None:
        changed: dict[str, str | None] = {}
        if batch.is_complete:
            listed = {each.object.metadata.name for each in batch.events}
            changed |= {name: None for name in self.objects if name not in listed}
            self.is_complete.set()
        for thing, is_deleted in batch.events:
            changed[thing.metadata.name] = None if is_deleted else thing.metadata.resource_version
            if not is_deleted:
                self.objects[thing.metadata.name] = thing
        for name in [name for name, version in changed.items() if version is None]:
            self.objects.pop(name, None)
        if changed:
            self.changes.append(dict(sorted(changed.items())))

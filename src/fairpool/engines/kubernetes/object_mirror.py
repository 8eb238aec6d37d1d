"""What the API server has of the objects that Fairpool makes, kept up to date by watches."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment_plan import SeenIdentity, SeenObject
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.manifests import ObjectKey
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, QUEUE
from fairpool.engines.kubernetes.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    INGRESSES,
    NAMESPACES,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    ApiResource,
)
from fairpool.engines.kubernetes.watch import WatchBatch, WatchScope, changes, version_number

log = logging.getLogger("fairpool.kubernetes")

STALE_S = 15.0
"""What is known of a resource that cannot be watched for so long is not relied on any more."""
OURS = WatchScope(labels=f"{MANAGED_BY}={FAIRPOOL}")
WATCHED: Mapping[ApiResource, tuple[type[SeenIdentity], WatchScope]] = {
    NAMESPACES: (SeenIdentity, WatchScope(labels=QUEUE)),
    CLUSTER_ROLES: (SeenObject, OURS),
    PRIORITY_CLASSES: (SeenObject, OURS),
    ROLE_BINDINGS: (SeenObject, OURS),
    SERVICES: (SeenObject, OURS),
    INGRESSES: (SeenObject, OURS),
    CONFIG_MAPS: (SeenIdentity, OURS),
    SECRETS: (SeenIdentity, OURS),
    VOLUME_CLAIMS: (SeenIdentity, WatchScope()),
    STORAGE_CLASSES: (SeenObject, WatchScope()),
}
"""Claims of others too: pods mount them."""


class ObjectMirror:
    """All objects that are watched, by key. For one event loop."""

    def __init__(
        self,
        client: KubernetesClient,
        on_change: Callable[[], None],
        *,
        stale_s: float = STALE_S,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client, self._on_change = client, on_change
        self._stale_s, self._steady = stale_s, steady
        self._listed: set[ApiResource] = set()
        self._failing: dict[ApiResource, tuple[float, str]] = {}
        """Since when a resource cannot be watched, and why."""
        self.seen: dict[ObjectKey, SeenIdentity] = {}
        self.changes: dict[ApiResource, int] = dict.fromkeys(WATCHED, 0)
        """Counts the batches of each resource that brought something."""

    @property
    def complete(self) -> set[ApiResource]:
        """Those of which everything is known as it is now; nothing is decided about others."""
        return self._listed - self.failures.keys()

    @property
    def failures(self) -> dict[ApiResource, str]:
        """Why a resource is not known: it cannot be watched, for longer than a watch takes that was cut off."""
        over = self._steady() - self._stale_s
        return {
            resource: f"{resource.plural} cannot be watched: {why}"
            for resource, (since, why) in list(self._failing.items())
            if since <= over or resource not in self._listed
        }

    async def run(self) -> None:
        """Follow all of them, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource, (kind, scope) in WATCHED.items():
                tasks.create_task(self._follow(resource, kind, scope), name=f"watch {resource.plural}")

    def note(self, resource: ApiResource, found: SeenIdentity) -> None:
        """An object that was just read or written."""
        key = _key(resource, found)
        known = self.seen.get(key)
        if known is None or known.metadata.uid != found.metadata.uid or _is_newer(found, known):
            self.seen[key] = found
            self.changes[resource] += 1

    async def _follow(self, resource: ApiResource, kind: type[SeenIdentity], scope: WatchScope) -> None:
        def failed(error: KubernetesError) -> None:
            since, why = self._failing.get(resource, (self._steady(), ""))
            if why != str(error):
                log.warning("%s cannot be watched: %s", resource.plural, error)
            self._failing[resource] = since, str(error)
            self._on_change()

        async for batch in changes(self._client, resource, kind, scope, on_failure=failed):
            had_failed = self._failing.pop(resource, None) is not None
            if self._take(resource, batch) or had_failed:
                self.changes[resource] += 1
                self._on_change()

    def _take(self, resource: ApiResource, batch: WatchBatch[SeenIdentity]) -> bool:
        """Whether something may be different now."""
        if batch.is_complete:
            # Those of an API server whose data was restored are older, and yet what is.
            listed = {_key(resource, each.object) for each in batch.events} if not batch.is_restored else ()
            self.seen = {key: each for key, each in self.seen.items() if key.resource != resource or key in listed}
            self._listed.add(resource)
        for event in batch.events:
            if event.is_deleted:
                self._forget(resource, event.object)
            else:
                self.note(resource, event.object)
        return batch.is_complete or bool(batch.events)

    def _forget(self, resource: ApiResource, gone: SeenIdentity) -> None:
        key = _key(resource, gone)
        known = self.seen.get(key)
        if known is not None and known.metadata.uid == gone.metadata.uid:
            del self.seen[key]


def _key(resource: ApiResource, found: SeenIdentity) -> ObjectKey:
    return ObjectKey(resource, found.metadata.namespace, found.metadata.name)


def _is_newer(found: SeenIdentity, known: SeenIdentity) -> bool:
    return version_number(found.metadata.resource_version) > version_number(known.metadata.resource_version)

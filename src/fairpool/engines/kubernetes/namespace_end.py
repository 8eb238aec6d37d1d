"""Deletes namespaces of ours whose project is gone, once nothing is left in them.

The data of a project is not deleted with it: a namespace with claims stays until an administrator has deleted them. The
same holds for whatever else people have put there.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment_plan import SeenIdentity, is_ours
from fairpool.engines.kubernetes.failures import Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.manifests import ObjectKey
from fairpool.engines.kubernetes.namespaces import SeenNamespace
from fairpool.engines.kubernetes.object_mirror import ObjectMirror
from fairpool.engines.kubernetes.resources import (
    CONFIG_MAPS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
    ApiResource,
)
from fairpool.model.ids import QueueId

log = logging.getLogger("fairpool.kubernetes")

LOOKED_AT = (
    *(VOLUME_CLAIMS, PODS, SERVICES, CONFIG_MAPS, SECRETS),
    *(ApiResource(each, "apps") for each in ("deployments", "statefulsets", "daemonsets", "replicasets")),
    *(ApiResource(each, "batch") for each in ("jobs", "cronjobs")),
)
EVERYWHERE = frozenset({"kube-root-ca.crt", "openshift-service-ca.crt"})
"""Config maps that every namespace has."""
LOOK_EVERY_S = 30.0


class NamespaceEnd:
    """Deletes namespaces of former projects. For one event loop."""

    def __init__(self, client: KubernetesClient, mirror: ObjectMirror) -> None:
        self._client, self._mirror = client, mirror
        self._looked: dict[str, float] = {}

    async def end(
        self, seen: Iterable[SeenNamespace], projects: Collection[QueueId], confirm: Callable[[], Awaitable[None]]
    ) -> None:
        """Delete those of ours that belong to no project of these and are empty. `confirm` raises if this loop does
        not lead any more."""
        over = {each.name for each in seen if each.is_ours and not each.is_terminating and each.project not in projects}
        now = time.monotonic()
        self._looked = {name: at for name, at in self._looked.items() if name in over}
        for name in sorted(over):
            if now < self._looked.get(name, 0.0):
                continue
            self._looked[name] = now + LOOK_EVERY_S
            found = self._mirror.seen.get(ObjectKey(NAMESPACES, "", name))
            try:
                if found is not None and await self._is_empty(name):
                    await confirm()
                    await self._delete(name, found)
            except KubernetesError as error:  # no reason to leave the others
                log.warning("the namespace %s of a former project is not removed: %s", name, error)

    async def _is_empty(self, namespace: str) -> bool:
        for resource in LOOKED_AT:
            listed = await self._client.list(resource, SeenIdentity, namespace=namespace, page=50)
            left = [
                each
                for each in listed.items
                if each.metadata.name not in EVERYWHERE and (resource in (PODS, VOLUME_CLAIMS) or not is_ours(each))
            ]
            if left:
                return False
        return True

    async def _delete(self, name: str, found: SeenIdentity) -> None:
        """As it was before it was found to be empty: a project that uses it again changes it."""
        metadata = found.metadata
        try:
            await self._client.delete(NAMESPACES, name, uid=metadata.uid, resource_version=metadata.resource_version)
        except (NotFound, Conflict):
            return
        log.info("the namespace %s is deleted: its project is gone and it is empty", name)

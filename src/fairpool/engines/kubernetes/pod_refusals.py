"""What a refused call about a pod says about it: whether it is gone, or was only changed by others at the same time."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.failures import Conflict, NotFound, Refused
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.resources import PODS

UNPROCESSABLE = 422


class PodIdentity(NamedTuple):
    """Which object of the API server a pod is."""

    namespace: str
    name: str
    uid: str


async def take_refusal(client: KubernetesClient, cache: ClusterCache, pod: PodIdentity, error: Refused) -> None:
    """A pod that is gone, also if another one has its name, is removed from the cache. One that is still there, and
    only was changed by others at the same time, is not: the error is raised.

    The API server answers 409 in both cases, and 422 to a patch of another pod of that name.
    """
    if not isinstance(error, NotFound):
        if not isinstance(error, Conflict) and error.status != UNPROCESSABLE:
            raise error
        with suppress(NotFound):
            found = await client.get(PODS, pod.name, PodObject, namespace=pod.namespace)
            if found.metadata.uid == pod.uid:
                cache.take_pod(found)
                raise error
    cache.remove(*pod)

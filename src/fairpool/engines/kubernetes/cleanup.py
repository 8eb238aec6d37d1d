"""Removes what would keep namespaces from being deleted once Fairpool is uninstalled: the finalizers of its pods.

The scheduler is stopped first: while it runs, it would start pods with new ones. Pods keep running unless they are to
be deleted. Everything may be repeated, and what is gone meanwhile is left alone.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient, Patch
from fairpool.engines.kubernetes.failures import Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.resources import NAMESPACES, PODS, ApiResource, Object

PREFIX = "fairpool.io/"
"""Of every finalizer that Fairpool puts on an object."""
STATEFUL_SETS = ApiResource("statefulsets", "apps")
LABELS = f"{MANAGED_BY}={FAIRPOOL}"
STOPPED_S = 120.0
"""How long the scheduler may take to stop: a little more than the grace period of its pods."""
LOOK_S = 0.5
ATTEMPTS = 5
"""For one pod that others change at the same time."""


class CleanedMetadata(msgspec.Struct, rename="camel", gc=False):
    """Of an object that may carry a finalizer of ours."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    finalizers: list[str] = msgspec.field(default_factory=list)
    deletion_timestamp: str | None = None


class CleanedPod(msgspec.Struct, gc=False):
    """A pod of ours."""

    metadata: CleanedMetadata


class StatefulSetStatus(msgspec.Struct, gc=False):
    """How many pods of a StatefulSet there are."""

    replicas: int = 0


class StatefulSet(msgspec.Struct, gc=False):
    """A StatefulSet."""

    status: StatefulSetStatus = msgspec.field(default_factory=StatefulSetStatus)


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What was done."""

    released: int
    """Pods that have no finalizer of ours any more."""
    deleted: int


async def stop_scheduler(client: KubernetesClient, namespace: str, name: str) -> None:
    """Scale the StatefulSet of the scheduler to zero and wait until its pods are gone. Raises `KubernetesError`."""
    try:
        body = {"spec": {"replicas": 0}}
        await client.patch(STATEFUL_SETS, name, body, dict, namespace=namespace, subresource="scale")
    except NotFound:
        return
    end = time.monotonic() + STOPPED_S
    while (await client.get(STATEFUL_SETS, name, StatefulSet, namespace=namespace)).status.replicas:
        if time.monotonic() > end:
            raise KubernetesError(f"the pods of StatefulSet {namespace}/{name} are still there after {STOPPED_S:.0f} s")
        await asyncio.sleep(LOOK_S)


async def clean_up(client: KubernetesClient, *, delete_pods: bool) -> Cleaned:
    """Remove our finalizers from all pods, and the pods too if that is wanted. Raises `KubernetesError`."""
    found = await client.list(PODS, CleanedPod, labels=LABELS)
    released = await asyncio.gather(*(_released(client, each.metadata) for each in found.items))
    if delete_pods:
        await asyncio.gather(*(_delete(client, each.metadata) for each in found.items))
    return Cleaned(sum(released), len(found.items) if delete_pods else 0)


async def confirm_installation(client: KubernetesClient, namespace: str, uid: str) -> None:
    """Raises `KubernetesError` unless this is the cluster in which our own namespace has this uid: the current context
    of a kubeconfig may be another one by now."""
    try:
        found = (await client.get(NAMESPACES, namespace, Object)).metadata.uid if namespace and uid else ""
    except NotFound:
        found = ""
    if not found or found != uid:
        raise KubernetesError(
            f"the kubeconfig leads to another Kubernetes cluster: no namespace {namespace} {uid} there"
        )


async def stop_pods(client: KubernetesClient, grace_s: int | None, patience_s: float) -> int:
    """Delete all pods of ours, with their own grace periods or this one, and wait until they are gone: how many there
    were. Raises `KubernetesError`."""
    found = await client.list(PODS, CleanedPod, labels=LABELS)
    await asyncio.gather(*(_delete(client, each.metadata, grace_s) for each in found.items))
    end = time.monotonic() + patience_s
    while left := (await client.list(PODS, CleanedPod, labels=LABELS)).items:
        # Whatever has ended is held by the finalizer alone.
        await asyncio.gather(*(_released(client, each.metadata) for each in left))
        if time.monotonic() > end:
            raise KubernetesError(f"{len(left)} pods are still there after {patience_s:.0f} s")
        await asyncio.sleep(LOOK_S)
    return len(found.items)


async def _released(client: KubernetesClient, found: CleanedMetadata) -> bool:
    """Whether there was a finalizer of ours. Another program's stay: the list is written as it was read. Kubelets
    change pods all the time: then it is read again."""
    for attempt in range(1, ATTEMPTS + 1):
        others = [each for each in found.finalizers if not each.startswith(PREFIX)]
        if len(others) == len(found.finalizers):
            return False
        read = {"uid": found.uid, "resourceVersion": found.resource_version}
        body = {"metadata": {**read, "finalizers": others}}
        try:
            await client.patch(PODS, found.name, body, namespace=found.namespace, kind=Patch.MERGE)
            return True
        except NotFound:
            return False
        except Conflict:
            if attempt == ATTEMPTS:
                raise
        try:
            now = (await client.get(PODS, found.name, CleanedPod, namespace=found.namespace)).metadata
        except NotFound:
            return False
        if now.uid != found.uid:
            return False
        found = now
    return False


async def _delete(client: KubernetesClient, found: CleanedMetadata, grace_s: int | None = None) -> None:
    try:
        await client.delete(PODS, found.name, namespace=found.namespace, uid=found.uid, grace_s=grace_s)
    except NotFound:
        return

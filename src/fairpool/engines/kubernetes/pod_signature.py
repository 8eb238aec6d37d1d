"""Signatures of the pods that Fairpool creates: what other accounts write into pods is not believed.

Labels and annotations of a pod say which workload it belongs to, which GPUs it holds and which loop created it, and
anyone who may create pods in a namespace can write the same. So the values that the engine acts on are signed together
with the pod's namespace, name and node. A pod without a valid signature is a pod of others: what it uses is
subtracted, and nothing it claims is read.

The key is in a secret beside the engine's other objects. The first engine of a cluster makes it; every replica and
every later version uses the same one.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import AlreadyExists, NotFound
from fairpool.engines.kubernetes.fence import ensure_namespace
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, WORKLOAD
from fairpool.engines.kubernetes.objects import ORDER, ORDER_MAX, POD, RESERVATION, SHARED_GPUS, TOKEN, Manifest
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.reservation_pods import ATTEMPT, BOOT
from fairpool.engines.kubernetes.resources import SECRETS, ObjectMetadata
from fairpool.engines.port import EngineUnreachable

SECRET_NAME = "fairpool-pod-signing-key"
SIGNATURE = "fairpool.io/signature"
SIGNED_LABELS = (MANAGED_BY, POD, TOKEN, WORKLOAD, RESERVATION)
SIGNED_ANNOTATIONS = (ORDER, SHARED_GPUS, BOOT, ATTEMPT)
KEY = "key"
KEY_BYTES = 32
ATTEMPTS = 3


class KeySecret(msgspec.Struct, gc=False):
    """The secret with the key."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    data: dict[str, bytes] | None = None


class PodSigner:
    """Signs pods and recognizes those that were signed. Until a key is known, no pod is."""

    def __init__(self, key: bytes = b"") -> None:
        self._key = key

    def signed(self, manifest: Manifest) -> Manifest:
        """The same pod, with its signature."""
        assert self._key, "the key is read before any pod is created"
        metadata, node = manifest["metadata"], manifest["spec"]["nodeName"]
        annotations = metadata["annotations"]
        name = metadata["namespace"], metadata["name"], node
        found = self._signature(*name, metadata["labels"], annotations)
        return {**manifest, "metadata": {**metadata, "annotations": {**annotations, SIGNATURE: found}}}

    def has_signed(self, pod: PodObject) -> bool:
        """Whether this very pod was created by an engine with this key."""
        metadata, annotations = pod.metadata, pod.metadata.annotations or {}
        claimed = annotations.get(SIGNATURE, "")
        if not self._key or not claimed.isascii() or sum(map(len, _signed_part(annotations).values())) > 2 * ORDER_MAX:
            return False
        name = metadata.namespace, metadata.name, pod.spec.node_name or ""
        return hmac.compare_digest(claimed, self._signature(*name, metadata.labels or {}, annotations))

    async def load(self, client: KubernetesClient, namespace: str) -> None:
        """Read the key of the cluster, or make it. Raises `KubernetesError`, or `EngineUnreachable`."""
        for _ in range(ATTEMPTS):
            try:
                found = await client.get(SECRETS, SECRET_NAME, KeySecret, namespace=namespace)
            except NotFound:
                await ensure_namespace(client, namespace)
                try:
                    found = await client.create(SECRETS, _new_secret(), KeySecret, namespace=namespace)
                except AlreadyExists:
                    continue  # another replica was faster
            self._key = _key_in(found)
            return
        raise EngineUnreachable(f"the secret {SECRET_NAME} is created and deleted all the time")

    def _signature(
        self, namespace: str, name: str, node: str, labels: Mapping[str, str], annotations: Mapping[str, str]
    ) -> str:
        own_labels = {key: labels[key] for key in SIGNED_LABELS if key in labels}
        content: Any = [namespace, name, node, own_labels, _signed_part(annotations)]
        text = json.dumps(content, sort_keys=True).encode()
        return hmac.new(self._key, text, hashlib.sha256).hexdigest()


def _signed_part(annotations: Mapping[str, str]) -> dict[str, str]:
    return {key: annotations[key] for key in SIGNED_ANNOTATIONS if key in annotations}


def _new_secret() -> dict[str, Any]:
    key = b64encode(secrets.token_bytes(KEY_BYTES)).decode()
    metadata = {"name": SECRET_NAME, "labels": {MANAGED_BY: FAIRPOOL}}
    return {"metadata": metadata, "type": "Opaque", "immutable": True, "data": {KEY: key}}


def _key_in(found: KeySecret) -> bytes:
    key = (found.data or {}).get(KEY, b"")
    if len(key) != KEY_BYTES:
        # Not replaced by a new one: all running pods would become pods of others.
        raise EngineUnreachable(
            f"the secret {SECRET_NAME} is damaged: it does not contain a key of {KEY_BYTES} bytes. "
            "Restore it, or stop all workloads and delete it"
        )
    return key

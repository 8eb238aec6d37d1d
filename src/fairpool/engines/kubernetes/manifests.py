"""Wanted objects of the Kubernetes API, as server-side apply takes them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.resources import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    INGRESSES,
    NAMESPACES,
    NODES,
    PRIORITY_CLASSES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUME_CLAIMS,
    ApiResource,
)

OWNED = {MANAGED_BY: FAIRPOOL}
KINDS: Mapping[ApiResource, str] = {
    NAMESPACES: "Namespace",
    CLUSTER_ROLES: "ClusterRole",
    ROLE_BINDINGS: "RoleBinding",
    PRIORITY_CLASSES: "PriorityClass",
    VOLUME_CLAIMS: "PersistentVolumeClaim",
    SECRETS: "Secret",
    CONFIG_MAPS: "ConfigMap",
    SERVICES: "Service",
    INGRESSES: "Ingress",
    NODES: "Node",
    STORAGE_CLASSES: "StorageClass",
}


@dataclass(frozen=True, slots=True)
class ObjectKey:
    """Which object."""

    resource: ApiResource
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{KINDS.get(self.resource, self.resource.plural)} {place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectManifest:
    """An object as it should be: the fields that are ours."""

    key: ObjectKey
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    content: Mapping[str, Any]
    """Everything beside kind and metadata."""

    @property
    def body(self) -> dict[str, Any]:
        metadata: dict[str, Any] = {"name": self.key.name, "labels": dict(self.labels)}
        if self.key.namespace:
            metadata["namespace"] = self.key.namespace
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        resource = self.key.resource
        return {
            "apiVersion": resource.api_version,
            "kind": KINDS[resource],
            "metadata": metadata,
            **self.content,
        }


def manifest(
    resource: ApiResource,
    name: str,
    content: Mapping[str, Any],
    *,
    namespace: str = "",
    labels: Mapping[str, str] = OWNED,
    annotations: Mapping[str, str] | None = None,
) -> ObjectManifest:
    return ObjectManifest(
        key=ObjectKey(resource, namespace, name), labels=labels, annotations=annotations or {}, content=content
    )

"""ApiResource types of the Kubernetes API, and the parts that all objects have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote

import msgspec


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A resource type: where the API server keeps objects of one kind."""

    plural: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, or of all in a namespace, or in all namespaces."""
        base = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        if namespace and self.namespaced:
            base = f"{base}/namespaces/{quote(namespace, safe='')}"
        parts = [base, self.plural, quote(name, safe=""), subresource]
        return "/".join(part for part in parts if part)

    @property
    def api_version(self) -> str:
        """As in the field `apiVersion` of objects."""
        return f"{self.group}/{self.version}" if self.group else self.version


PODS = ApiResource("pods")
NODES = ApiResource("nodes", namespaced=False)
NAMESPACES = ApiResource("namespaces", namespaced=False)
EVENTS = ApiResource("events")
SERVICES = ApiResource("services")
SECRETS = ApiResource("secrets")
CONFIG_MAPS = ApiResource("configmaps")
SERVICE_ACCOUNTS = ApiResource("serviceaccounts")
VOLUME_CLAIMS = ApiResource("persistentvolumeclaims")
VOLUMES = ApiResource("persistentvolumes", namespaced=False)
ENDPOINT_SLICES = ApiResource("endpointslices", "discovery.k8s.io")
INGRESSES = ApiResource("ingresses", "networking.k8s.io")
STORAGE_CLASSES = ApiResource("storageclasses", "storage.k8s.io", namespaced=False)
PRIORITY_CLASSES = ApiResource("priorityclasses", "scheduling.k8s.io", namespaced=False)
DISRUPTION_BUDGETS = ApiResource("poddisruptionbudgets", "policy")
LEASES = ApiResource("leases", "coordination.k8s.io")
ROLES = ApiResource("roles", "rbac.authorization.k8s.io")
ROLE_BINDINGS = ApiResource("rolebindings", "rbac.authorization.k8s.io")
CLUSTER_ROLES = ApiResource("clusterroles", "rbac.authorization.k8s.io", namespaced=False)
CLUSTER_ROLE_BINDINGS = ApiResource("clusterrolebindings", "rbac.authorization.k8s.io", namespaced=False)
CUSTOM_RESOURCE_DEFINITIONS = ApiResource("customresourcedefinitions", "apiextensions.k8s.io", namespaced=False)


class ObjectMetadata(msgspec.Struct, rename="camel", gc=False):
    """What identifies an object and its version. A caller that reads more declares a struct of its own."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class Object(msgspec.Struct, gc=False):
    """Any object, of which only the identity is read."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)


class Identity(Protocol):
    """The metadata of an object, as far as this package needs them; structs of callers have more."""

    @property
    def name(self) -> str: ...

    @property
    def namespace(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> str: ...


class Identified(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> Identity: ...

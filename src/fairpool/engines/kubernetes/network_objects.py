"""Services and Ingresses of a workload, and the addresses under which they are reached. Pure.

A workload with ports has a Service of its own name for other pods of the cluster. Node ports and load balancers are
Services beside it, so that each exposes what was asked for and no more. Pods that work together have a headless
Service, which gives each a name: `<workload>-<index>.<service>`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fairpool.engines.kubernetes.manifests import ObjectManifest, manifest
from fairpool.engines.kubernetes.names import WORKLOAD, ServiceRole, ingress_name, service_name, workload_labels
from fairpool.engines.kubernetes.resources import INGRESSES, SERVICES
from fairpool.model.ids import QueueId
from fairpool.model.spec import Arrangement, Exposure, ServicePort, WorkloadSpec

HTTPS_PORT = 443


@dataclass(frozen=True, slots=True, kw_only=True)
class IngressSettings:
    """How an administrator lets the cluster's ingress controller serve workloads. It knows nothing of their members:
    who can reach it can reach them."""

    host: str
    class_name: str = ""
    """Empty: the cluster's default class."""
    tls_secret: str = ""
    """In each project's namespace; empty: plain HTTP."""
    annotations: tuple[tuple[str, str], ...] = ()


def service_manifests(spec: WorkloadSpec, namespace: str) -> list[ObjectManifest]:
    """The Services of a workload."""
    asked = _asked(spec)
    found = []
    if asked:
        ports = [_port(each, each) for each in sorted({each.port for each in asked})]
        found.append(_service(spec, namespace, ServiceRole.CLUSTER, {"type": "ClusterIP", "ports": ports}))
    if node_ports := [each for each in asked if each.exposure is Exposure.NODE_PORT]:
        ports = [_port(each.port, each.port, node_port=each.external) for each in _numbered(node_ports)]
        found.append(_service(spec, namespace, ServiceRole.NODE_PORT, {"type": "NodePort", "ports": ports}))
    if balanced := [each for each in asked if each.exposure is Exposure.LOAD_BALANCER]:
        ports = [_port(each.external or each.port, each.port) for each in _numbered(balanced)]
        found.append(_service(spec, namespace, ServiceRole.LOAD_BALANCER, {"type": "LoadBalancer", "ports": ports}))
    if needs_peers(spec):
        content = {"clusterIP": "None", "publishNotReadyAddresses": True}
        found.append(_service(spec, namespace, ServiceRole.PODS, content))
    return found


def needs_peers(spec: WorkloadSpec) -> bool:
    """Whether its pods have to find each other by name."""
    is_one_run = spec.arrangement is Arrangement.TOGETHER and spec.pods > 1
    return is_one_run or spec.distributed is not None


def ingress_manifests(spec: WorkloadSpec, namespace: str, settings: IngressSettings | None) -> list[ObjectManifest]:
    """The Ingress of a workload, where the cluster's ingress controller serves them: `https://<host>/<project>/<job>-<port>`."""
    ports = sorted({each.port for each in _asked(spec) if each.exposure is Exposure.INGRESS})
    if settings is None or not ports:
        return []
    backend = service_name(spec.name, spec.id, ServiceRole.CLUSTER)
    paths = [
        {
            "path": ingress_path(spec.project, spec.name, port),
            "pathType": "Prefix",
            "backend": {"service": {"name": backend, "port": {"number": port}}},
        }
        for port in ports
    ]
    content: dict[str, Any] = {"rules": [{"host": settings.host, "http": {"paths": paths}}]}
    if settings.class_name:
        content["ingressClassName"] = settings.class_name
    if settings.tls_secret:
        content["tls"] = [{"hosts": [settings.host], "secretName": settings.tls_secret}]
    return [
        manifest(
            INGRESSES,
            ingress_name(spec.name),
            {"spec": content},
            namespace=namespace,
            labels=workload_labels(spec.project, spec.name, spec.id),
            annotations=dict(settings.annotations),
        )
    ]


def ingress_path(project: QueueId, name: str, port: int) -> str:
    """With the project: jobs of two projects may have the same name, and share the host."""
    return f"/{project}/{name}-{port}"


def _asked(spec: WorkloadSpec) -> tuple[ServicePort, ...]:
    templates = [spec.template, *([spec.leader] if spec.leader is not None else [])]
    return tuple(dict.fromkeys(each for template in templates for each in template.program.services))


def _numbered(ports: Sequence[ServicePort]) -> list[ServicePort]:
    return sorted(ports, key=lambda each: (each.port, each.external or 0))


def _port(outside: int, inside: int, *, node_port: int | None = None) -> dict[str, Any]:
    named = inside if outside == inside and node_port is None else f"{inside}-{node_port or outside}"
    port: dict[str, Any] = {"name": f"port-{named}", "port": outside, "targetPort": inside, "protocol": "TCP"}
    return port if node_port is None else {**port, "nodePort": node_port}


def _service(spec: WorkloadSpec, namespace: str, role: ServiceRole, content: Mapping[str, Any]) -> ObjectManifest:
    return manifest(
        SERVICES,
        service_name(spec.name, spec.id, role),
        {"spec": {**content, "selector": {WORKLOAD: spec.id}}},
        namespace=namespace,
        labels=workload_labels(spec.project, spec.name, spec.id),
    )


# --- addresses ---------------------------------------------------------------------------------------------------


def service_addresses(service: Mapping[str, Any], node_address: str) -> list[str]:
    """Where a Service answers outside the cluster, as far as it does by now; `node_address`: that of some node."""
    spec = service.get("spec") or {}
    ports = spec.get("ports") or []
    if spec.get("type") == "NodePort" and node_address:
        return [f"http://{_host(node_address)}:{each['nodePort']}" for each in ports if each.get("nodePort")]
    if spec.get("type") != "LoadBalancer":
        return []
    return [f"http://{_host(host)}:{each['port']}" for host in _given_hosts(service) for each in ports]


def ingress_addresses(ingress: Mapping[str, Any]) -> list[str]:
    """Where an Ingress answers, once its controller has taken it on."""
    spec = ingress.get("spec") or {}
    if not list(_given_hosts(ingress)):
        return []
    scheme = "https" if spec.get("tls") else "http"
    return [
        f"{scheme}://{rule['host']}{path['path']}"
        for rule in spec.get("rules") or []
        for path in (rule.get("http") or {}).get("paths") or []
    ]


def _given_hosts(found: Mapping[str, Any]) -> Iterable[str]:
    given = ((found.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
    return [host for each in given if (host := each.get("hostname") or each.get("ip"))]


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address

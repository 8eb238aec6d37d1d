"""Ports that a submit asks for: which of them no pod can have, and which need another type of service. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fairpool.api import workload_spec as wire
from fairpool.api.pod_spec import ServiceType
from fairpool.api.problems import ProblemList
from fairpool.model.relay_port import RELAY_PORT

EXTERNAL = frozenset({ServiceType.NODE_PORT, ServiceType.LOAD_BALANCER})
"""Types of service with a port of the machine."""


def check_ports(submit: wire.SubmitAny, problems: ProblemList) -> None:
    """Add everything that is wrong with them."""
    for place, port in _container_ports(submit):
        if port == RELAY_PORT:
            what = f"port {port} is reserved: in a pod's network it belongs to the relay for outgoing connections"
            problems.add("port.reserved", what, "let the program listen on another port", place)
    for each in submit.spec.ports:
        if each.external not in (None, each.container) and each.service_type not in EXTERNAL:
            what = f"an external port ({each.external}) needs the service type NodePort or LoadBalancer"
            problems.add("port.external", what, "set serviceType, or remove external", "spec.ports.external")


def _container_ports(submit: wire.SubmitAny) -> Iterator[tuple[str, int]]:
    yield from (("spec.ports.container", each.container) for each in submit.spec.ports)
    yield from (("spec.exposedUrls.container", each.container) for each in submit.spec.exposed_urls)
    if isinstance(submit, wire.SubmitInference) and submit.spec.serving_port is not None:
        yield "spec.servingPort.container", submit.spec.serving_port.container

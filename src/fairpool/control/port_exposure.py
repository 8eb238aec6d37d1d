"""How the ports of a submitted workload are reached, as its cluster gets it. Pure."""

from __future__ import annotations

from dataclasses import replace

from fairpool.api import workload_spec as wire
from fairpool.api.pod_spec import ServiceType
from fairpool.control.external_ports import Pairs, held_ports
from fairpool.model.spec import Exposure, PodTemplate, ServicePort, WorkloadSpec

EXPOSURES = {
    ServiceType.CLUSTER_IP: Exposure.CLUSTER_IP,
    ServiceType.NODE_PORT: Exposure.NODE_PORT,
    ServiceType.LOAD_BALANCER: Exposure.LOAD_BALANCER,
    ServiceType.INGRESS: Exposure.INGRESS,
}
"""Ports that are only forwarded need nothing."""


def with_services(spec: WorkloadSpec, submit: wire.SubmitAny, external: Pairs) -> WorkloadSpec:
    """The workload with its services; `external`: the numbers that its external ports have got."""
    services = _services(submit, external)
    leader = spec.leader and _exposing(spec.leader, services)
    return replace(spec, template=_exposing(spec.template, services), leader=leader)


def _exposing(template: PodTemplate, services: tuple[ServicePort, ...]) -> PodTemplate:
    return replace(template, program=replace(template.program, services=services))


def _services(submit: wire.SubmitAny, external: Pairs) -> tuple[ServicePort, ...]:
    inside = [
        ServicePort(port=each.container, exposure=EXPOSURES[each.service_type])
        for each in submit.spec.ports
        if each.service_type in (ServiceType.CLUSTER_IP, ServiceType.INGRESS)
    ]
    outside = [
        ServicePort(port=each.container, exposure=EXPOSURES[each.service_type], external=number)
        for each, number in held_ports(submit.spec.ports, external)
    ]
    served = [each.container for each in submit.spec.exposed_urls]
    if isinstance(submit, wire.SubmitInference) and submit.spec.serving_port is not None:
        served.append(submit.spec.serving_port.container)
    urls = [ServicePort(port=port, exposure=Exposure.INGRESS) for port in served]
    return tuple(dict.fromkeys([*inside, *outside, *urls]))

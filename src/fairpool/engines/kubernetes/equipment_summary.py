"""What there is of objects beside pods, as a control plane should know it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairpool.engines.kubernetes.equipment_plan import Seen, SeenObject
from fairpool.engines.kubernetes.names import WORKLOAD
from fairpool.engines.kubernetes.namespaces import ProjectNamespaces
from fairpool.engines.kubernetes.network_objects import ingress_addresses, service_addresses
from fairpool.engines.kubernetes.resources import INGRESSES, SERVICES, STORAGE_CLASSES, VOLUME_CLAIMS
from fairpool.engines.kubernetes.volume_claims import default_class
from fairpool.model.ids import QueueId, WorkloadId

REPORTED = frozenset({SERVICES, VOLUME_CLAIMS, STORAGE_CLASSES})
"""What must be known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipmentSummary:
    """What a cluster has, for its control plane."""

    addresses: Mapping[WorkloadId, tuple[str, ...]]
    claims: Mapping[QueueId, tuple[str, ...]]
    storage_classes: Mapping[str, str]
    default_class: str
    problems: Mapping[WorkloadId, str] = field(default_factory=dict)
    """What is wrong with the objects of workloads."""


def summary_of(
    seen: Seen, namespaces: ProjectNamespaces, node_address: str, problems: Mapping[WorkloadId, str]
) -> EquipmentSummary:
    """`node_address`: that of a node, for node ports."""
    classes = [each for key, each in seen.items() if key.resource == STORAGE_CLASSES and isinstance(each, SeenObject)]
    return EquipmentSummary(
        addresses=addresses_of(seen, node_address),
        claims=_claims(seen, namespaces),
        storage_classes={each.metadata.name: each.provisioner for each in classes},
        default_class=default_class({each.metadata.name: each.metadata.annotations for each in classes}),
        problems=problems,
    )


def addresses_of(seen: Seen, node_address: str) -> dict[WorkloadId, tuple[str, ...]]:
    """Where workloads are reached from outside."""
    found: dict[WorkloadId, list[str]] = {}
    for key, each in seen.items():
        workload = each.metadata.labels.get(WORKLOAD)
        if workload is None or not isinstance(each, SeenObject) or key.resource not in (SERVICES, INGRESSES):
            continue
        content = each.content
        mine = ingress_addresses(content) if key.resource == INGRESSES else service_addresses(content, node_address)
        found.setdefault(WorkloadId(workload), []).extend(mine)
    return {workload: tuple(sorted({*each})) for workload, each in sorted(found.items()) if each}


def _claims(seen: Seen, namespaces: ProjectNamespaces) -> dict[QueueId, tuple[str, ...]]:
    """The claims in the namespaces of projects, also those of others."""
    projects = {namespace: project for project, namespace in namespaces.by_project.items()}
    found: dict[QueueId, list[str]] = {}
    for key, each in seen.items():
        is_there = key.resource == VOLUME_CLAIMS and each.metadata.deletion_timestamp is None
        if is_there and key.namespace in projects:
            found.setdefault(projects[key.namespace], []).append(key.name)
    return {project: tuple(sorted(names)) for project, names in sorted(found.items())}

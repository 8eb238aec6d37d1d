"""Which objects beside pods should exist for the projects and workloads of a cluster, and what is due. Pure.

Wanted objects follow from what is declared; what is due follows from them and what is there, however it came about: a
first start, a deletion by hand, a crash in the middle. An object of the same name that others made is never changed. An
object of ours is deleted when its workload or project is gone, and also when its workload does not want it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from fairpool.engines.kubernetes.manifests import ObjectKey, ObjectManifest
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, PROJECT, QUEUE, WORKLOAD
from fairpool.engines.kubernetes.namespaces import (
    MADE_FOR,
    ProjectNamespaces,
    SeenNamespace,
    namespace_manifest,
    projects_of,
)
from fairpool.engines.kubernetes.network_objects import IngressSettings, ingress_manifests, service_manifests
from fairpool.engines.kubernetes.pod_files import config_map_manifests
from fairpool.engines.kubernetes.priority_classes import priority_class_manifests
from fairpool.engines.kubernetes.project_rbac import MEMBER, VIEWER, binding_manifests, cluster_role_manifests
from fairpool.engines.kubernetes.resources import (
    CONFIG_MAPS,
    INGRESSES,
    NAMESPACES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
    ApiResource,
)
from fairpool.engines.kubernetes.volume_claims import claim_manifests
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import Organization
from fairpool.model.spec import DesiredState, WorkloadSpec

EQUIPMENT = "fairpool.io/equipment"
"""The label of objects that come and go with what their workload asks for."""
BY_NAME = frozenset({CONFIG_MAPS, SECRETS, VOLUME_CLAIMS, NAMESPACES})
"""Their contents are not compared: names of config maps follow from them, the others cannot or need not be repaired."""
OF_WORKLOADS: tuple[ApiResource, ...] = (SERVICES, INGRESSES, CONFIG_MAPS, SECRETS)


class SeenMetadata(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    deletion_timestamp: str | None = None


class SeenIdentity(msgspec.Struct, gc=False):
    """An object of which the contents are not read."""

    metadata: SeenMetadata


class SeenObject(SeenIdentity, rename="camel", gc=False):
    """An object with the fields that are compared or reported."""

    spec: dict[str, Any] | None = None
    status: dict[str, Any] | None = None
    rules: list[Any] | None = None
    subjects: list[Any] | None = None
    role_ref: dict[str, Any] | None = None
    value: int | None = None
    provisioner: str = ""

    @property
    def content(self) -> dict[str, Any]:
        found = {
            "spec": self.spec,
            "status": self.status,
            "rules": self.rules,
            "subjects": self.subjects,
            "roleRef": self.role_ref,
            "value": self.value,
        }
        return {name: value for name, value in found.items() if value is not None}


Seen = Mapping[ObjectKey, SeenIdentity]


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the control plane declares for a cluster."""

    workloads: Mapping[WorkloadId, WorkloadSpec] = field(default_factory=dict)
    organization: Organization = Organization()
    ended: Collection[WorkloadId] = frozenset()
    """Workloads that have ended: their claims are not provided again."""
    grants: frozenset[AccessGrant] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class EquipmentSettings:
    """What an administrator chose for a cluster."""

    create_namespaces: bool = True
    """Otherwise only namespaces that carry the label of a project are used."""
    ingress: IngressSettings | None = None
    """None: ingress ports are served by the gateway."""


@dataclass(frozen=True, slots=True)
class Steps:
    """What is due."""

    apply: tuple[ObjectManifest, ...] = ()
    delete: tuple[tuple[ObjectKey, SeenIdentity], ...] = ()
    problems: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Wanted objects that cannot be had, and why."""


# --- what is wanted ------------------------------------------------------------------------------------------------


def cluster_manifests() -> list[ObjectManifest]:
    """The objects that do not depend on what is declared."""
    return [*priority_class_manifests(), *cluster_role_manifests()]


def project_manifests(declared: Declared, namespaces: ProjectNamespaces) -> list[ObjectManifest]:
    """Namespaces, and who may do what in them."""
    created_at = projects_of(declared.organization)
    queues = declared.organization.queues.get(DEFAULT_POOL) or next(iter(declared.organization.queues.values()), ())
    parents = {each.id: [each.parent] if each.parent is not None else [] for each in queues}
    found: list[ObjectManifest] = []
    for project, namespace in sorted(namespaces.by_project.items()):
        own = namespace_manifest(project, created_at[project])
        if own.key.name == namespace:
            found.append(own)
        found += binding_manifests(project, parents.get(project, ()), namespace, declared.grants)
    return found


def workload_manifests(
    spec: WorkloadSpec, namespace: str, settings: EquipmentSettings, *, has_ended: bool = False
) -> list[ObjectManifest]:
    """What the pods of a workload need, and how they are reached."""
    own = [
        *config_map_manifests(spec, namespace),
        *service_manifests(spec, namespace),
        *ingress_manifests(spec, namespace, settings.ingress),
    ]
    marked = [
        ObjectManifest(
            key=each.key,
            labels={**each.labels, EQUIPMENT: "true"},
            annotations=each.annotations,
            content=each.content,
        )
        for each in own
    ]
    needs_claims = spec.desired_state is DesiredState.RUN and not has_ended
    return [*marked, *(claim_manifests(spec, namespace) if needs_claims else ())]


def seen_namespaces(seen: Seen) -> list[SeenNamespace]:
    """The namespaces that carry the label of a project."""
    return [
        SeenNamespace(
            name=key.name,
            project=QueueId(found.metadata.labels[QUEUE]),
            is_ours=is_ours(found),
            made_for=found.metadata.annotations.get(MADE_FOR, ""),
            is_terminating=found.metadata.deletion_timestamp is not None,
        )
        for key, found in seen.items()
        if key.resource == NAMESPACES and QUEUE in found.metadata.labels
    ]


# --- what is due ---------------------------------------------------------------------------------------------------


def due(wanted: Iterable[ObjectManifest], seen: Seen, live: Mapping[WorkloadId, QueueId]) -> Steps:
    """What has to be applied, what of gone workloads is in the way, and what cannot be had. `live`: the workloads that
    are declared or being started, with their projects."""
    apply: list[ObjectManifest] = []
    delete: list[tuple[ObjectKey, SeenIdentity]] = []
    problems: dict[ObjectKey, str] = {}
    for each in wanted:
        found = seen.get(each.key)
        if found is None:
            apply.append(each)
        elif found.metadata.deletion_timestamp is not None:
            continue  # when it is gone, it is made again
        elif not belongs(each, found):
            former = found.metadata.labels.get(WORKLOAD)
            if is_ours(found) and former is not None and former not in live:
                delete.append((each.key, found))
            else:
                problems[each.key] = foreign(each.key)
        elif not shows(each, found):
            apply.append(each)
    return Steps(tuple(apply), tuple(delete), problems)


def left_over(
    wanted: Collection[ObjectKey], seen: Seen, live: Mapping[WorkloadId, QueueId], namespaces: ProjectNamespaces
) -> list[tuple[ObjectKey, SeenIdentity]]:
    """Objects of ours that are not wanted any more."""
    return [
        (key, found) for key, found in seen.items() if key not in wanted and _is_left_over(key, found, live, namespaces)
    ]


def is_ours(found: SeenIdentity) -> bool:
    return found.metadata.labels.get(MANAGED_BY) == FAIRPOOL


def belongs(wanted: ObjectManifest, found: SeenIdentity) -> bool:
    """Whether an object that is there is the one that is wanted, and not another of the same name."""
    labels = found.metadata.labels
    if wanted.key.resource == NAMESPACES:
        return is_ours(found) and labels.get(QUEUE) == wanted.labels[QUEUE]
    names = [name for name in (WORKLOAD, PROJECT) if name in wanted.labels]
    return is_ours(found) and all(labels.get(name) == wanted.labels[name] for name in names)


def shows(wanted: ObjectManifest, found: SeenIdentity) -> bool:
    """Whether an object has every field as wanted; it may have more."""
    metadata = found.metadata
    if not (_has(metadata.labels, wanted.labels) and _has(metadata.annotations, wanted.annotations)):
        return False
    if wanted.key.resource in BY_NAME or not isinstance(found, SeenObject):
        return True
    return content_shows(wanted, found)


def content_shows(wanted: ObjectManifest, found: SeenObject) -> bool:
    """The same without labels and annotations: an object of others that has these contents will do."""
    compared = found.content
    return all(covers(value, compared[name]) for name, value in wanted.content.items() if name in compared)


def covers(wanted: Any, found: Any) -> bool:
    """Whether a value contains all of another: objects may have more fields, lists not more items."""
    if isinstance(wanted, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and covers(wanted[name], found[name]) for name in wanted
        )
    if isinstance(wanted, list | tuple):
        is_as_long = isinstance(found, list) and len(wanted) == len(found)
        return is_as_long and all(covers(one, other) for one, other in zip(wanted, found, strict=True))
    return bool(wanted == found)


def foreign(key: ObjectKey) -> str:
    """What is said about an object that others made."""
    return f"{key} exists already and was not made by Fairpool: delete or rename it"


def _has(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in wanted.items())


def _is_left_over(
    key: ObjectKey, found: SeenIdentity, live: Mapping[WorkloadId, QueueId], namespaces: ProjectNamespaces
) -> bool:
    labels = found.metadata.labels
    if not is_ours(found) or found.metadata.deletion_timestamp is not None:
        return False
    if key.resource == ROLE_BINDINGS:
        return key.name in (VIEWER, MEMBER) and PROJECT in labels
    if key.resource not in OF_WORKLOADS or WORKLOAD not in labels:
        return False
    project = live.get(WorkloadId(labels[WORKLOAD]))
    if project is None:
        return True
    is_elsewhere = namespaces.by_project.get(project) not in (None, key.namespace)
    return is_elsewhere or (key.resource != SECRETS and EQUIPMENT in labels)


def by_key(manifests: Iterable[ObjectManifest]) -> dict[ObjectKey, ObjectManifest]:
    return {each.key: each for each in manifests}

"""Names of the objects that belong to a project or a workload, and the labels by which they are known as ours. Pure.

A workload's objects are called after it, so that people find them; where the name of another workload could be the
same, a few characters of the workload's id are added. Names are no proof of ownership: the labels are.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from fairpool.model.ids import QueueId, WorkloadId

NAMESPACE_PREFIX = "runai-"
RESERVATION_NAMESPACE = "runai-reservation"
"""Of the engine; it carries no label of a project, so that a project `reservation` is refused a namespace."""

MANAGED_BY = "app.kubernetes.io/managed-by"
FAIRPOOL = "fairpool"
WORKLOAD = "fairpool.io/workload"
"""The id of the workload that an object belongs to; it is cleared with it."""
PROJECT = "project"
QUEUE = "runai/queue"
"""On a namespace: the project that it belongs to."""
NAME = "release"
"""The name of the workload."""

DIGEST_CHARACTERS = 6
PLAIN = re.compile("[a-z0-9]([a-z0-9-]*[a-z0-9])?")
"""What an object may be called; names of credentials have other characters too."""


class ServiceRole(StrEnum):
    """What a service of a workload is for."""

    CLUSTER = "cluster"
    """Reached by its name from inside the cluster; the backend of ingresses too."""
    NODE_PORT = "nodeport"
    LOAD_BALANCER = "loadbalancer"
    PODS = "pods"
    """Headless: gives each pod a name of its own."""


def namespace_of(project: QueueId, linked: Mapping[QueueId, str] = MappingProxyType({})) -> str:
    """The namespace of a project: one that an administrator linked to it, else `runai-<project>`."""
    return linked.get(project) or f"{NAMESPACE_PREFIX}{project}"


def claim_name(claim: str) -> str:
    """The PersistentVolumeClaim of a claim of the project."""
    return claim


def secret_name(name: str, credential: str) -> str:
    """The Secret with a credential's keys, for the pods of the workload with this name."""
    if PLAIN.fullmatch(credential):
        return f"{name}.{credential}"
    readable = re.sub("[^a-z0-9]+", "-", credential.lower()).strip("-")
    return f"{name}.{readable or 'secret'}-{_digest(credential)}"


def pull_secret_name(name: str) -> str:
    """The Secret with which the images of a workload are pulled; that of no credential has two dots."""
    return f"{name}.image.pull"


def config_map_name(name: str, files: tuple[tuple[str, str], ...]) -> str:
    """The ConfigMap with these files, for the pods of the workload with this name."""
    return f"{name}.{_digest(json.dumps(files))}"


def service_name(name: str, workload: WorkloadId, role: ServiceRole) -> str:
    """The Service of a workload for one purpose."""
    return name if role is ServiceRole.CLUSTER else f"{name}-{role}-{_digest(workload)}"


def ingress_name(name: str) -> str:
    """The Ingress of a workload."""
    return name


def host_name(name: str, index: int) -> str:
    """The host name of a pod, with the headless service as its subdomain: the same for every incarnation."""
    return f"{name}-{index}"


def workload_labels(project: QueueId, name: str, workload: WorkloadId) -> dict[str, str]:
    """The labels of every object that belongs to a workload. Services select its pods by the last one."""
    return {MANAGED_BY: FAIRPOOL, PROJECT: project, NAME: name, WORKLOAD: workload}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARACTERS]

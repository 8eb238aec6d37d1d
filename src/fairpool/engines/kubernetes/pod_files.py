"""ConfigMaps and Secrets that the pods of a workload read. Pure.

A workload has its own copies: the contents of a config map as they were at its submit, and the values of a credential
as they were when a pod of it last started. Both are cleared with it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping

from fairpool.engines.kubernetes.manifests import ObjectManifest, manifest
from fairpool.engines.kubernetes.names import config_map_name, pull_secret_name, secret_name, workload_labels
from fairpool.engines.kubernetes.resources import CONFIG_MAPS, SECRETS
from fairpool.model.observation import StartOrder
from fairpool.model.secret import Secret, UserLogin
from fairpool.model.spec import WorkloadSpec

DOCKER_HUB = "https://index.docker.io/v1/"
"""How the container runtimes call the default registry."""
DEFAULT_HOSTS = frozenset({"", "docker.io", "index.docker.io", "registry-1.docker.io"})


def config_map_manifests(spec: WorkloadSpec, namespace: str) -> list[ObjectManifest]:
    """The files that its pods mount, by their contents."""
    templates = [spec.template, *([spec.leader] if spec.leader is not None else [])]
    wanted = {volume.files for each in templates for volume in each.program.volumes if volume.files}
    labels = workload_labels(spec.project, spec.name, spec.id)
    return [
        manifest(
            CONFIG_MAPS, config_map_name(spec.name, files), {"data": dict(files)}, namespace=namespace, labels=labels
        )
        for files in sorted(wanted)
    ]


def secret_manifest(secret: Secret, credential: str, order: StartOrder, namespace: str) -> ObjectManifest:
    """The values of one credential, for the pods of one workload."""
    data = {key: _encoded(value) for key, value in sorted(secret.data.items())}
    return manifest(
        SECRETS,
        secret_name(order.name, credential),
        {"type": "Opaque", "data": data},
        namespace=namespace,
        labels=workload_labels(order.project, order.name, order.workload),
    )


def pull_secret_manifest(login: UserLogin, registry: str, order: StartOrder, namespace: str) -> ObjectManifest:
    """The login that the images of one workload are pulled with."""
    return manifest(
        SECRETS,
        pull_secret_name(order.name),
        {
            "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": _encoded(_docker_config(login, registry))},
        },
        namespace=namespace,
        labels=workload_labels(order.project, order.name, order.workload),
    )


def _docker_config(login: UserLogin, registry: str) -> bytes:
    host = DOCKER_HUB if registry in DEFAULT_HOSTS else registry
    auth = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
    auths: Mapping[str, object] = {host: {"username": login.user, "password": login.password, "auth": auth}}
    return json.dumps({"auths": auths}).encode()


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()

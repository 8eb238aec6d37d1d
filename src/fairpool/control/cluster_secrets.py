"""Values of credentials for the pods of a cluster: only those that a workload of this cluster refers to.

Asked for by the cluster when a pod starts. A token of a cluster gives it the values that its own workloads name, as
far as their projects may still use them, and no others.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from fairpool.api import credentials as wire
from fairpool.api.wire import parse_json
from fairpool.control.credentials import key_id, rank_in, usable
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import unknown
from fairpool.control.routes import Routes
from fairpool.control.store import credentials as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of
from fairpool.model.image_name import DEFAULT_REGISTRY, registry_of
from fairpool.model.secret import CredentialKind
from fairpool.model.spec import Program

routes = Routes("clusters")

DEFAULT_NAMES = ("index.docker.io", "registry-1.docker.io", "")
NGC_REGISTRY = "nvcr.io"


@routes.post(
    wire.CLUSTER_SECRETS,
    action=Action.LINK,
    summary="Get the values that a pod needs (called by clusters)",
    answer=wire.SecretsAnswer,
    body_max_bytes=128 * 1024,
)
async def cluster_secrets(plane: Plane, caller: Caller, body: wire.SecretsRequest) -> wire.SecretsAnswer:
    return await secrets_for(plane, caller.id, body)


async def secrets_for(plane: Plane, cluster: str, asked: wire.SecretsRequest) -> wire.SecretsAnswer:
    """The values for a pod of a workload of this cluster; refuses any other workload."""
    return await plane.read(lambda connection: _answer(plane, connection, cluster, asked))


def _answer(plane: Plane, connection: Connection, cluster: str, asked: wire.SecretsRequest) -> wire.SecretsAnswer:
    row = workload_store.one(connection, asked.workload)
    project = organization_store.project(connection, row.project) if row is not None else None
    if row is None or row.deleted_at is not None or row.cluster != cluster or project is None:
        raise unknown("workload", asked.workload)
    programs = _programs(row)
    declared = frozenset(name for program in programs for name in program.credentials)
    names = [name for name in dict.fromkeys(asked.names) if name in declared]
    rows = usable(connection, project, names)
    missing = [_no_credential(name, row.project) for name in asked.names if name not in rows]
    registry = None
    if asked.registry and any(_host(registry_of(program.image)) == _host(asked.registry) for program in programs):
        registry = _registry_row(connection, project, _host(asked.registry))
    values = unsealed(plane, connection, [*rows.values(), *([registry] if registry is not None else [])])
    missing += [_lost(name) for name, each in rows.items() if each.id not in values]
    return wire.SecretsAnswer(
        secrets=[_secret(name, each, values[each.id]) for name, each in rows.items() if each.id in values],
        missing=missing,
        registry=_secret(registry.name, registry, values[registry.id])
        if registry is not None and registry.id in values
        else None,
    )


def _programs(row: Any) -> list[Program]:
    spec = declaration_of(row).workload.to_spec()
    return [spec.template.program, *([spec.leader.program] if spec.leader is not None else [])]


def unsealed(plane: Plane, connection: Connection, rows: list[Any]) -> dict[str, Mapping[str, bytes]]:
    """By id: the values that can be read."""
    readable = [row.id for row in rows if row.key_id == key_id(plane)]
    key = plane.key_file.existing() if readable else None
    if key is None:
        return {}
    found = {each: key.unseal(text, each) for each, text in store.sealed_of(connection, readable).items()}
    return {each: data for each, data in found.items() if data is not None}


def _secret(name: str, row: Any, data: Mapping[str, bytes]) -> wire.SecretAnswer:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return wire.SecretAnswer(name=name, kind=CredentialKind(row.kind), data=encoded)


def _registry_row(connection: Connection, project: Any, host: str) -> Any:
    """The credential for a registry, of the narrowest scope that has one."""
    kinds = (CredentialKind.REGISTRY.value, CredentialKind.NGC.value)
    rows = store.in_scope_of(connection, project, (), kinds)
    fitting = [row for row in rows if _registry_in(row) == host]
    return min(fitting, key=lambda row: (rank_in(project)(row), row.name), default=None)


def _registry_in(row: Any) -> str:
    if row.kind == CredentialKind.NGC:
        return NGC_REGISTRY
    return _host(parse_json(row.document.encode())["shown"].get("url", ""))


def _host(text: str) -> str:
    """`https://Registry:5000/v2/` and `registry:5000` are the same host; empty is the default registry."""
    host = text.partition("://")[2] or text
    host = host.partition("/")[0].lower()
    return DEFAULT_REGISTRY if host in DEFAULT_NAMES else host


def _no_credential(name: str, project: str) -> wire.MissingSecret:
    return wire.MissingSecret(
        code="credential.gone",
        what=f"project {project} has no credential {name} any more",
        fix=f"create it again: runai-adm credential create {name} -p {project} --from-file KEY=FILE",
    )


def _lost(name: str) -> wire.MissingSecret:
    return wire.MissingSecret(
        code="credential.unreadable",
        what=f"the value of credential {name} is lost: it was encrypted with another key",
        fix=f"set it again: runai-adm credential update {name}",
    )

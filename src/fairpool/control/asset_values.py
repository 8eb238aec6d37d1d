"""Environments, compute resources and data sources as fields of a workload: what each says about a submit. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fairpool.api.asset_paths import DATASOURCE_STORAGE
from fairpool.api.asset_reference import DatasourceKind
from fairpool.api.asset_specs import SECURITY_FIELDS, ConnectionType
from fairpool.control.template_values import KEYS, Values

ENVIRONMENT, COMPUTE, DATASOURCE = "environment", "compute", "datasource"
NOUNS = {ENVIRONMENT: "environment", COMPUTE: "compute resource", DATASOURCE: "data source"}
DEFAULT_GIT_PATH = "/code"
CLAIM_NAME_MAX = 40
ORIGINAL_NAMES = {DatasourceKind.CONFIG_MAP.value: "config_map", DatasourceKind.SECRET.value: "secret"}
"""What clients of the original call a kind of data sources in their list, where we call it otherwise."""


def workload_values(kind: str, spec: Values, mount_path: str | None = None) -> Values:
    """The values of an asset as those of a submit. `mount_path`: of a data source, in place of its own."""
    if kind == ENVIRONMENT:
        return _environment(spec)
    if kind == COMPUTE:
        return {"compute": dict(spec)}
    name = DATASOURCE_STORAGE[kind]
    where = KEYS[f"storage.{name}"]
    # The path tells mounts apart, so that the default of a repository must be said.
    default = {where: DEFAULT_GIT_PATH} if kind == DatasourceKind.GIT.value else {}
    return {"storage": {name: [{**default, **spec, **({where: mount_path} if mount_path else {})}]}}


def claim_name(name: str, asset_id: str, spec: Values) -> str:
    """The name of the claim that a data source makes in each project, where it says none itself."""
    plain = re.sub("[^a-z0-9]+", "-", name.lower()).strip("-")[:CLAIM_NAME_MAX] or "data"
    return str(spec.get("claimName") or f"{plain if plain[0].isalpha() else f'pvc-{plain}'}-{asset_id[:8]}")


def is_claim_made(kind: str, spec: Values) -> bool:
    """Whether the first workload of a project that uses a data source makes its claim, and the others mount it."""
    is_new = kind == DatasourceKind.PVC.value and spec.get("existingPvc") is False
    return is_new and not spec.get("ephemeral") and bool(spec.get("claimInfo"))


def with_claim(spec: Values, claim: str, *, exists: bool) -> Values:
    """The values of such a data source in a project: its claim is there, or is made now."""
    if not exists:
        return {**spec, "claimName": claim}
    kept = {key: value for key, value in spec.items() if key not in ("claimInfo", "ephemeral")}
    return {**kept, "claimName": claim, "existingPvc": True}


def original_words(kind: str, spec: Values) -> dict[str, Any]:
    """Values of a data source again under the names that clients of the original know.

    Credentials have ids there: one that is named is not said again.
    """
    if kind == DatasourceKind.CONFIG_MAP.value:
        return {"configMap": spec["name"]}
    if kind == DatasourceKind.SECRET.value:
        return {"credentialAssetId": spec["name"]} if _is_id(spec["name"]) else {}
    credential = spec.get("credential")
    if kind == DatasourceKind.GIT.value and _is_id(credential):
        return {"passwordAssetId": credential}
    if kind == DatasourceKind.S3.value and _is_id(credential):
        return {"accessKeyAssetId": credential}
    return {}


def _is_id(text: Any) -> bool:
    return isinstance(text, str) and re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text) is not None


def _environment(spec: Values) -> Values:
    connections = spec.get("connections", [])
    found = {name: value for name, value in spec.items() if name not in SECURITY_FIELDS and name != "connections"}
    security = {name: value for name, value in spec.items() if name in SECURITY_FIELDS}
    tools = {
        "ports": [each for connection in connections for each in _ports(connection)],
        "exposedUrls": [each for connection in connections for each in _urls(connection)],
    }
    serving = next((_port(each) for each in connections if _is(each, ConnectionType.SERVING_PORT)), None)
    return {
        **found,
        **({"security": security} if security else {}),
        **{name: items for name, items in tools.items() if items},
        **({"servingPort": {"container": serving}} if serving is not None else {}),
    }


def _ports(connection: Values) -> Iterator[Values]:
    kind = connection["internalToolInfo"].get("connectionType", ConnectionType.CLUSTER_IP.value)
    if kind not in (ConnectionType.EXTERNAL_URL.value, ConnectionType.SERVING_PORT.value):
        yield {"container": _port(connection), "serviceType": kind, **_tool(connection)}


def _urls(connection: Values) -> Iterator[Values]:
    if _is(connection, ConnectionType.EXTERNAL_URL):
        yield {"container": _port(connection), **_tool(connection)}


def _tool(connection: Values) -> Values:
    tool = connection["internalToolInfo"].get("toolType")
    return {"toolName": connection["name"], **({"toolType": tool} if tool else {})}


def _port(connection: Values) -> Any:
    return connection["internalToolInfo"]["containerPort"]


def _is(connection: Values, kind: ConnectionType) -> bool:
    return bool(connection["internalToolInfo"].get("connectionType") == kind.value)

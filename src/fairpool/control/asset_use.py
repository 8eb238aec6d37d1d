"""Who uses an asset: the templates that name it, and the workloads that were submitted with it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from fairpool.api import assets as wire
from fairpool.api.wire import parse_json
from fairpool.control.asset_scopes import AssetSight
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.store import assets as store
from fairpool.control.store import policies as policy_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.workload_documents import declaration_of

LISTS = {
    "Workspace": "workspaces",
    "Training": "trainings",
    "Distributed": "distributed",
    "Inference": "inferences",
}


def templates_with(connection: Connection, asset_id: str) -> list[Any]:
    """The templates that name an asset."""
    return [row for row in store.all_of(connection, store.TEMPLATE) if asset_id in _named_by(row)]


def users_of(connection: Connection, caller: Caller, asset_id: str) -> list[str]:
    """The templates that name an asset, and the policies that impose it, in words; those of others without a name."""
    sight = AssetSight(connection, caller, Action.TEMPLATE_READ)
    rows = sorted(templates_with(connection, asset_id), key=lambda row: not sight.covers(row))
    templates = [f"the template {row.name}" if sight.covers(row) else "a template of others" for row in rows]
    return templates + [f"the policy {row.name}" for row in policy_store.naming(connection, asset_id)]


def of_all(connection: Connection, caller: Caller) -> dict[str, wire.AssetUse]:
    """What uses each asset that is used: workloads and templates that the caller may see."""
    found: dict[str, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    sight = AssetSight(connection, caller, Action.TEMPLATE_READ)
    for row in store.all_of(connection, store.TEMPLATE):
        for asset_id in _named_by(row) if sight.covers(row) else ():
            found[asset_id]["templates"].append(wire.AssetLabel(id=row.id, name=row.name))
    for row in workload_store.with_assets(connection):
        if caller.may(Action.WORKLOAD_READ, row.project, row.department, row.cluster):
            use = wire.WorkloadUse(
                id=row.id, name=row.name, project_name=row.project, phase=row.phase, status=row.phase
            )
            for asset_id in asset_ids(declaration_of(row).request.get("assets")):
                found[asset_id][LISTS[row.kind]].append(use)
    return {asset_id: wire.AssetUse(**lists) for asset_id, lists in found.items()}


def _named_by(row: Any) -> list[str]:
    if '"assets"' not in row.document:
        return []
    return list(asset_ids(parse_json(row.document.encode()).get("spec", {}).get("assets")))


def asset_ids(references: Mapping[str, Any] | None) -> Iterator[str]:
    """The ids in the references of a template or a workload."""
    said = references or {}
    yield from (said[name] for name in ("environment", "compute") if said.get(name))
    yield from (each["id"] for each in said.get("datasources", ()))

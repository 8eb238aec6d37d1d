"""The policies that hold for a project or another scope, read from the database. One that cannot be read refuses."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from fairpool.api.assets import AssetScope
from fairpool.api.wire import parse_json
from fairpool.api.workload_spec import Kind
from fairpool.control.asset_lookup import AssetLookup
from fairpool.control.asset_values import COMPUTE, DATASOURCE, ENVIRONMENT
from fairpool.control.policy_document import WorkloadPolicy, read_policy
from fairpool.control.policy_rules import ScopedPolicy
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import assets as asset_store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import policies as store
from fairpool.control.store.database import Connection
from fairpool.control.template_values import AssetValues

ASK = "ask an administrator to change the policy"


def policies_of(connection: Connection, project: Any, kind: Kind) -> list[ScopedPolicy]:
    """The policies that hold for a kind of workload in a project; refuses if one cannot be evaluated."""
    return scoped_policies(connection, store.in_place(connection, kind.value, asset_store.place_of(project)))


def scoped_policies(connection: Connection, rows: Iterable[Any]) -> list[ScopedPolicy]:
    return [scoped_policy(connection, row) for row in rows]


def scoped_policy(connection: Connection, row: Any) -> ScopedPolicy:
    """A stored policy with the assets that it imposes."""
    kind = Kind(row.kind)
    policy = _read(kind, row.document)
    if policy is None:
        what = f"policy {row.name} ({row.scope}) cannot be evaluated: it is not valid"
        raise refused(422, "policy.unreadable", what, ASK)
    return with_assets(connection, row, policy)


def with_assets(connection: Connection, row: Any, policy: WorkloadPolicy) -> ScopedPolicy:
    """A policy of the scope and with the name in `row`."""
    scope = AssetScope(row.scope)
    found = ScopedPolicy(row.id, row.name, scope, policy, row.scope_id, _scope_name(connection, scope, row.scope_id))
    if not policy.imposed:
        return found
    place = place_of(connection, scope, row.scope_id)
    try:
        imposed = tuple(_asset(connection, place, policy.kind, each) for each in policy.imposed)
    except Refused as refusal:
        what = f"{found.origin} cannot be evaluated: {refusal.message}"
        raise refused(422, "policy.asset", what, ASK, "policy.imposedAssets") from refusal
    return ScopedPolicy(found.id, found.name, scope, policy, found.scope_id, found.scope_name, imposed)


@lru_cache(maxsize=1024)
def _read(kind: Kind, document: str) -> WorkloadPolicy | None:
    """Cached, since the value is immutable and is read at every submit."""
    found = read_policy(kind, parse_json(document.encode()))
    return found if isinstance(found, WorkloadPolicy) else None


def _scope_name(connection: Connection, scope: AssetScope, scope_id: str) -> str:
    row = cluster_store.cluster(connection, scope_id) if scope is AssetScope.CLUSTER else None
    return scope_id if row is None else str(row.name)


def place_of(connection: Connection, scope: AssetScope, scope_id: str) -> dict[str, str]:
    """The scopes that contain a scope, and itself."""
    project = organization_store.project(connection, scope_id) if scope is AssetScope.PROJECT else None
    if project is not None:
        return asset_store.place_of(project)
    nowhere = {"cluster": "", "department": "", "project": ""}
    return nowhere if scope is AssetScope.TENANT else {**nowhere, scope.value: scope_id}


def _asset(connection: Connection, place: dict[str, str], kind: Kind, asset_id: str) -> AssetValues:
    for group in (DATASOURCE, ENVIRONMENT, COMPUTE):
        rows = asset_store.named(connection, group, place, asset_id)
        if any(row.id == asset_id for row in rows):
            named: Any = {"datasources": [{"id": asset_id}]} if group == DATASOURCE else {group: asset_id}
            return AssetLookup(connection, place, kind).resolved({"assets": named})[1][0]
    what = f"there is no asset {asset_id} in the scope of the policy"
    raise refused(422, "policy.asset", what, "use the id of an asset of this scope or a wider one", "imposedAssets")

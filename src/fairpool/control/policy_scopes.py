"""Scopes of policies: which one is meant, who may write there, and who sees what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fairpool.api import policies as wire
from fairpool.api.assets import AssetScope
from fairpool.control.asset_scopes import StoredScope
from fairpool.control.numbers import project_name
from fairpool.control.organization import cluster_of
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.refusal import denied, refused, unknown
from fairpool.control.routes import Parameter, Query
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection


class ScopeQuery(Query):
    """The scope of a policy."""

    scope: AssetScope
    cluster_id: Annotated[str, Parameter(alias="clusterId", max_length=256)] = ""
    department_id: Annotated[str, Parameter(alias="departmentId", max_length=256)] = ""
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256, description="Its name or number")] = ""


def asked_scope(connection: Connection, asked: wire.PolicyScope | ScopeQuery) -> StoredScope:
    """The scope that is meant; refuses one without its id, or with that of another."""
    ids = {
        AssetScope.CLUSTER: asked.cluster_id,
        AssetScope.DEPARTMENT: asked.department_id,
        AssetScope.PROJECT: asked.project_id,
    }
    for scope, given in ids.items():
        field = f"{scope.value}Id"
        if scope is asked.scope and not given:
            raise refused(422, "policy.no_scope", f"the scope {scope.value} needs {field}", f"set {field}", field)
        if scope is not asked.scope and given:
            what = f"{field} does not fit the scope {asked.scope.value}"
            raise refused(422, "policy.two_scopes", what, f"remove it, or use the scope {scope.value}", field)
    named = str(ids.get(asked.scope) or "")
    if asked.scope is AssetScope.CLUSTER:
        named = cluster_of(connection, named)
    if asked.scope is AssetScope.PROJECT:
        named = project_name(connection, named)
    return StoredScope(asked.scope, named)


def require(connection: Connection, caller: Caller, place: StoredScope, action: Action) -> None:
    """Refuses a scope that does not exist, that the caller does not see, or in which they may not do this."""
    if not PolicySight(connection, caller).covers(place):
        caller.require_somewhere(action)
        raise unknown(place.scope.value, place.scope_id, is_hidden=_exists(connection, place))
    if not _exists(connection, place):
        raise unknown(place.scope.value, place.scope_id)
    if action is Action.POLICY_READ:
        return
    scope_id = place.scope_id
    match place.scope:
        case AssetScope.PROJECT:
            project = organization_store.project(connection, scope_id)
            caller.require(action, project.name, project.department, project.cluster)
        case AssetScope.DEPARTMENT:
            caller.require(action, department=scope_id)
        case AssetScope.CLUSTER:
            caller.require(action, cluster=scope_id)
        case AssetScope.TENANT if not caller.may(action):
            raise denied(fix="ask an administrator, or use a scope in which you have this role")


def _exists(connection: Connection, place: StoredScope) -> bool:
    if place.scope is AssetScope.PROJECT:
        return organization_store.project(connection, place.scope_id) is not None
    return place.scope is not AssetScope.DEPARTMENT or (
        organization_store.department(connection, place.scope_id) is not None
    )


class PolicySight:
    """Which policies a caller may see: those of the scopes that their projects are in."""

    def __init__(self, connection: Connection, caller: Caller) -> None:
        places = caller.places(Action.POLICY_READ)
        self._ids: Mapping[str, set[str]] | None = None
        if places is not None:
            rows = [
                row
                for row in organization_store.all_projects(connection)
                if places.covers(row.name, row.department, row.cluster)
            ]
            self._ids = {
                AssetScope.PROJECT.value: {row.name for row in rows},
                AssetScope.DEPARTMENT.value: {*(row.department for row in rows), *places.departments},
                AssetScope.CLUSTER.value: {*(row.cluster for row in rows), *places.clusters},
            }

    def covers(self, place: Any) -> bool:
        """`place`: a scope, or the row of a policy."""
        is_everywhere = self._ids is None or place.scope == AssetScope.TENANT.value
        return is_everywhere or (self._ids is not None and place.scope_id in self._ids[str(place.scope)])

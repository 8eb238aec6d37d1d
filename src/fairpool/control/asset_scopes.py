"""Scopes of assets: where one may be written, and who can see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fairpool.api import assets as wire
from fairpool.api.assets import AssetScope
from fairpool.api.credentials import CredentialMeta
from fairpool.control.numbers import project_name, project_number
from fairpool.control.organization import cluster_of
from fairpool.control.plane import Caller
from fairpool.control.rbac import Action
from fairpool.control.refusal import denied, refused, unknown
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection


@dataclass(frozen=True, slots=True)
class StoredScope:
    """The scope of an asset."""

    scope: AssetScope
    scope_id: str

    @property
    def columns(self) -> dict[str, str]:
        return {"scope": self.scope.value, "scope_id": self.scope_id}

    @property
    def text(self) -> str:
        """For messages: `team-a`, or `the tenant`."""
        return self.scope_id or "the tenant"


def scope_of(row: Any) -> StoredScope:
    """The scope of a stored asset."""
    return StoredScope(AssetScope(row.scope), row.scope_id)


def scope_shown(connection: Connection, row: Any) -> dict[str, Any]:
    """The scope of a stored asset as it is answered: a project by its number and its name."""
    if row.scope != AssetScope.PROJECT.value:
        return {"scope": AssetScope(row.scope), **({f"{row.scope}_id": row.scope_id} if row.scope_id else {})}
    number = project_number(connection, row.scope_id)
    return {"scope": AssetScope.PROJECT, "project_id": number, "project_name": row.scope_id}


def named_scope(meta: wire.AssetMeta | CredentialMeta) -> str | int:
    """The id that belongs to the scope of an asset or credential; refuses one that is missing, or of another scope."""
    ids: dict[AssetScope, str | int | None] = {
        AssetScope.CLUSTER: meta.cluster_id,
        AssetScope.DEPARTMENT: meta.department_id,
        AssetScope.PROJECT: meta.project_id,
    }
    for scope, given in ids.items():
        field = f"meta.{scope.value}Id"
        if scope is meta.scope and not given:
            raise refused(422, "asset.no_scope", f"the scope {scope.value} needs {field}", f"set {field}", field)
        if scope is not meta.scope and given:
            what = f"{field} does not fit the scope {meta.scope.value}"
            raise refused(422, "asset.two_scopes", what, f"remove it, or use the scope {scope.value}", field)
    return ids.get(meta.scope) or ""


def asked_scope(
    connection: Connection, caller: Caller, meta: wire.AssetMeta | CredentialMeta, action: Action
) -> StoredScope:
    """The scope that is meant; refuses one that does not exist, or in which the caller may not do this."""
    named = named_scope(meta)
    scope_id = str(named)
    if meta.scope is AssetScope.CLUSTER:
        scope_id = cluster_of(connection, scope_id)
    elif meta.scope is AssetScope.PROJECT:
        scope_id = project_name(connection, named)
    found = StoredScope(meta.scope, scope_id)
    require_write(connection, caller, found, action)
    return found


def require_write(connection: Connection, caller: Caller, place: StoredScope, action: Action) -> None:
    """Refuses a caller who may not do this in this scope, or a scope that does not exist."""
    scope_id = place.scope_id
    if place.scope is AssetScope.PROJECT:
        project = organization_store.project(connection, scope_id)
        if project is None:
            caller.require(action, scope_id)
            raise unknown("project", scope_id)
        caller.require(action, scope_id, project.department, project.cluster)
    elif place.scope is AssetScope.DEPARTMENT:
        caller.require(action, department=scope_id)
        if organization_store.department(connection, scope_id) is None:
            raise unknown("department", scope_id)
    elif not caller.may(action, cluster=scope_id):
        raise denied(fix="ask an administrator, or use the scope of a project in which you have this role")


class AssetSight:
    """Which assets a caller may see: those of the scopes that their projects are in."""

    def __init__(self, connection: Connection, caller: Caller, action: Action) -> None:
        self._ids = seen_scopes(connection, caller, action)

    def covers(self, row: Any) -> bool:
        is_everywhere = self._ids is None or row.scope == AssetScope.TENANT.value
        return is_everywhere or (self._ids is not None and row.scope_id in self._ids[row.scope])


def seen_scopes(connection: Connection, caller: Caller, action: Action) -> dict[str, set[str]] | None:
    """The scopes in which a caller may do this, and those above the caller's projects, by kind; None: all."""
    places = caller.places(action)
    if places is None:
        return None
    rows = organization_store.all_projects(connection, **places.of_projects)
    return {
        AssetScope.PROJECT.value: {row.name for row in rows},
        AssetScope.DEPARTMENT.value: {*(row.department for row in rows), *places.departments},
        AssetScope.CLUSTER.value: {*(row.cluster for row in rows), *places.clusters},
    }

"""Which assets a caller asks for, and what is to be answered about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fairpool.api.assets import AssetScope, SupportedTypes
from fairpool.api.limits import PAGE_MAX
from fairpool.api.roles import Verb
from fairpool.api.workload_spec import DistributedFramework
from fairpool.control.asset_kinds import AssetKind
from fairpool.control.asset_rows import FIELDS, body_of, kind_of
from fairpool.control.asset_scopes import AssetSight
from fairpool.control.numbers import project_name
from fairpool.control.paging import Limit, ListQuery
from fairpool.control.plane import Caller
from fairpool.control.rbac import ON_ASSET
from fairpool.control.refusal import unknown
from fairpool.control.routes import Parameter, Query
from fairpool.control.store import assets as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

UsageInfo = Annotated[bool, Parameter(alias="usageInfo", description="With `usedBy`: workloads and templates")]
StatusInfo = Annotated[bool, Parameter(alias="statusInfo", description="With `status`: whether what it needs is there")]
ComplyToProject = Annotated[
    str, Parameter(alias="complyToProject", max_length=256, description="With `compliance`: for this project")
]
ComplyToType = Annotated[
    str,
    Parameter(
        alias="complyToWorkloadType",
        pattern="(?i)^(workspace|training|distributed|inference)?$",
        description="With `compliance`: for this kind of workload",
    ),
]
ComplyToReplica = Annotated[
    str,
    Parameter(
        alias="complyToReplicaType",
        pattern="(?i)^(master|worker|leader)?$",
        description="Pods of every role are held to the same rules",
    ),
]


class AssetDetails(Query):
    """What is answered beside an asset itself."""

    usage_info: UsageInfo = False
    status_info: StatusInfo = False
    comply_to_project: ComplyToProject = ""
    comply_to_workload_type: ComplyToType = ""
    comply_to_replica_type: ComplyToReplica = ""


class AssetQuery(ListQuery, AssetDetails):
    """Which assets, in which order, and how many; scope, projectId and the like as conditions of `filterBy` too."""

    limit: Limit = PAGE_MAX
    name: Annotated[str, Parameter(max_length=64, description="Only those of this name")] = ""
    scope: AssetScope | None = None
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256, description="Its name or number")] = ""
    department_id: Annotated[str, Parameter(alias="departmentId", max_length=256)] = ""
    cluster_id: Annotated[str, Parameter(alias="clusterId", max_length=256)] = ""
    include_descendants: Annotated[
        bool, Parameter(alias="includeDescendants", description="With those of scopes inside the asked one")
    ] = False
    asset_ids: Annotated[str, Parameter(alias="assetIds", max_length=65_536, description="Comma-separated ids")] = ""
    is_workspace: Annotated[bool | None, Parameter(alias="isWorkspace")] = None
    is_training: Annotated[bool | None, Parameter(alias="isTraining")] = None
    is_distributed: Annotated[bool | None, Parameter(alias="isDistributed")] = None
    is_inference: Annotated[bool | None, Parameter(alias="isInference")] = None
    distributed_framework: Annotated[DistributedFramework | None, Parameter(alias="distributedFramework")] = None

    def covers(self, connection: Connection, row: Any) -> bool:
        is_one = not self.asset_ids or row.id in self.asset_ids.split(",")
        is_named = not self.name or row.name == self.name
        return is_one and is_named and self._is_of_scope(connection, row)

    def _is_of_scope(self, connection: Connection, row: Any) -> bool:
        asked = dict(self._scopes(connection))
        if self.include_descendants and asked:
            return any(_is_inside(connection, row, field, value) for field, value in asked.items())
        return all(FIELDS[field].value(row) == value for field, value in asked.items())

    def _scopes(self, connection: Connection) -> Iterator[tuple[str, str]]:
        if self.scope is not None:
            yield "scope", self.scope.value
        if self.project_id:
            yield "projectId", project_name(connection, self.project_id)
        if self.department_id:
            yield "departmentId", self.department_id
        if self.cluster_id:
            yield "clusterId", self.cluster_id

    def supports(self, types: SupportedTypes) -> bool:
        """Whether an asset for these kinds of workloads is asked for."""
        wanted = {
            "workspace": self.is_workspace,
            "training": self.is_training,
            "distributed": self.is_distributed,
            "inference": self.is_inference,
        }
        framework = self.distributed_framework
        return (framework is None or types.dist_framework in (None, framework)) and all(
            asked is None or getattr(types, name) == asked for name, asked in wanted.items()
        )


def _is_inside(connection: Connection, row: Any, field: str, value: str) -> bool:
    """Whether an asset is of a scope, or of one that this contains."""
    if field == "scope":
        return value == AssetScope.TENANT.value or row.scope == value
    if FIELDS[field].value(row) == value:
        return True
    project = organization_store.project(connection, row.scope_id) if row.scope == AssetScope.PROJECT.value else None
    return (
        project is not None and {"departmentId": project.department, "clusterId": project.cluster}.get(field) == value
    )


def asked_for(connection: Connection, caller: Caller, kind: AssetKind, query: AssetQuery) -> list[Any]:
    """The rows of a kind that the caller may see and asks for, without the conditions of `filterBy`."""
    return [
        row
        for row in visible(connection, caller, kind.stored_as, kind.kind)
        if query.covers(connection, row) and query.supports(kind.types(body_of(kind.request, row.document)))
    ]


def visible(connection: Connection, caller: Caller, group: str, kind: str = "") -> list[Any]:
    """The rows of a group that the caller may see; of one kind of it, if named."""
    sight = AssetSight(connection, caller, ON_ASSET[group][Verb.READ])
    return [row for row in store.all_of(connection, group) if sight.covers(row) and kind in ("", kind_of(row))]


def known_asset(connection: Connection, caller: Caller, kind: AssetKind, asset_id: str) -> Any:
    """The row of an asset; 404 also for one that the caller may not know of."""
    row = store.one(connection, kind.stored_as, asset_id)
    if (
        row is None
        or kind_of(row) != kind.kind
        or not AssetSight(connection, caller, kind.action(Verb.READ)).covers(row)
    ):
        raise unknown(kind.noun, asset_id, is_hidden=row is not None)
    return row

"""HTTP routes for environments, compute resources and data sources."""

from __future__ import annotations

from typing import Any

from fairpool.api import assets as wire
from fairpool.api.asset_paths import ASSET_PATHS, DATASOURCES
from fairpool.api.asset_reference import DatasourceKind
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.control.asset_findings import findings
from fairpool.control.asset_kinds import BY_KIND, KINDS
from fairpool.control.asset_query import AssetQuery, known_asset, visible
from fairpool.control.asset_routes import add_asset_routes
from fairpool.control.asset_rows import FIELDS, body_of, kind_of, spec_of
from fairpool.control.asset_values import DATASOURCE, ORIGINAL_NAMES, claim_name
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset, filtered, page
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import assets as store
from fairpool.control.store import claims as claim_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("assets")

for _each in KINDS:
    add_asset_routes(routes, _each, findings)


@routes.get(
    DATASOURCES, action=Action.DATA_SOURCE_READ, answer=wire.AssetPage, summary="List data sources of all kinds"
)
async def datasources(plane: Plane, caller: Caller, query: AssetQuery) -> wire.AssetPage:
    """The values of each are under its kind: `spec.nfs`."""

    def unit(connection: Connection) -> tuple[list[wire.Asset], int | None]:
        rows = [row for row in visible(connection, caller, DATASOURCE) if query.covers(connection, row)]
        some, following = page(filtered(rows, FIELDS, query), query)
        finder = findings(plane, connection, caller, query)
        found = [BY_KIND[kind_of(row)].shown(connection, row, finder(row)) for row in some]
        return [each.model_copy(update={"spec": _by_kind(each)}) for each in found], following

    entries, following = await plane.read(unit)
    return wire.AssetPage(entries=entries, next=following)


@routes.get(
    f"{ASSET_PATHS[DatasourceKind.PVC.value]}/{{asset_id}}/history",
    action=Action.ASSET_READ,
    answer=wire.ClaimHistory,
    summary="Get the history of the claims of a data source (pvc)",
)
async def claim_history(
    asset_id: str, plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.ClaimHistory:
    """Each project that uses it has a claim of its own; of projects that the caller may see."""

    def unit(connection: Connection) -> list[wire.HistoryRecord]:
        kind = BY_KIND[DatasourceKind.PVC.value]
        row = known_asset(connection, caller, kind, asset_id)
        spec = spec_of(body_of(kind.request, row.document))
        found = claim_store.named(connection, claim_name(row.name, row.id, spec))
        return [_record(each) for each in found if _is_of(connection, caller, row, each.project)]

    records = await plane.read(unit)
    following = offset + limit if len(records) > offset + limit else None
    return wire.ClaimHistory(records=records[offset : offset + limit], next=following)


def _is_of(connection: Connection, caller: Caller, row: Any, project: str) -> bool:
    """Whether a data source is for a project that the caller may see."""
    found = organization_store.project(connection, project)
    if found is None or not caller.may(Action.WORKLOAD_READ, found.name, found.department, found.cluster):
        return False
    return bool(row.scope == "tenant" or store.place_of(found)[row.scope] == row.scope_id)


def _record(claim: Any) -> wire.HistoryRecord:
    message = f"claim {claim.name} of project {claim.project}, {claim.size}, created by {claim.created_by}"
    update = wire.PhaseUpdate(phase=claim.phase, phase_message=message)
    meta = wire.HistoryMeta(creation_timestamp=iso(claim.created_at))
    return wire.HistoryRecord(meta=meta, spec=wire.HistorySpec(phase_update=update))


def _by_kind(found: wire.Asset) -> dict[str, object]:
    """Under our name of the kind, and under the original's where that is another."""
    return {found.kind: found.spec, ORIGINAL_NAMES.get(found.kind, found.kind): found.spec}

"""HTTP routes for environments, compute resources and data sources."""

from __future__ import annotations

from fairpool.api import assets as wire
from fairpool.api.asset_paths import DATASOURCES
from fairpool.control.asset_findings import findings
from fairpool.control.asset_kinds import BY_KIND, KINDS
from fairpool.control.asset_query import AssetQuery, visible
from fairpool.control.asset_routes import add_asset_routes
from fairpool.control.asset_rows import FIELDS, kind_of
from fairpool.control.asset_values import DATASOURCE, ORIGINAL_NAMES
from fairpool.control.paging import filtered, page
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store.database import Connection

routes = Routes("assets")

for _each in KINDS:
    add_asset_routes(routes, _each, findings)


@routes.get(DATASOURCES, action=Action.ASSET_READ, answer=wire.AssetPage, summary="List data sources of all kinds")
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


def _by_kind(found: wire.Asset) -> dict[str, object]:
    """Under our name of the kind, and under the original's where that is another."""
    return {found.kind: found.spec, ORIGINAL_NAMES.get(found.kind, found.kind): found.spec}

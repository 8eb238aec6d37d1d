"""HTTP route for the feed of decisions of all clusters, as history; the stream of changes has them live.

A decision is shown to callers who may see its workload. Names of other projects in it are mentions.
"""

from __future__ import annotations

from starlette.responses import Response

from fairpool.api import decisions as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.control import filters
from fairpool.control.decision_items import decision_item
from fairpool.control.moments import iso
from fairpool.control.paging import FilterBy, Limit, Offset, Search, SortOrder, parsed
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import decisions as store
from fairpool.control.store.database import Connection

routes = Routes("workloads")

NUMBERS = frozenset({"sequence"})
FIELDS = {
    name: filters.Sort.MOMENT if name == "at" else filters.Sort.NUMBER if name in NUMBERS else filters.Sort.TEXT
    for name in store.COLUMNS
}


@routes.get(
    "/api/v1/decisions",
    action=Action.WORKLOAD_READ,
    answer=wire.DecisionPage,
    summary="List decisions of the schedulers, the newest first",
)
async def decisions(
    plane: Plane,
    caller: Caller,
    filter_by: FilterBy = "",
    search: Search = "",
    sort_order: SortOrder = "desc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
) -> Response:
    """Filters: kind, at, sequence, clusterId, workloadId, workloadName, projectId, departmentId, submittedBy."""
    places = caller.places(Action.WORKLOAD_READ)
    listing = store.DecisionListing(
        filters=tuple(parsed(filter_by, "at", FIELDS, {})),
        search=search,
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        descending=sort_order == "desc",
        offset=offset,
        limit=limit,
    )

    def unit(connection: Connection) -> wire.DecisionPage:
        found = store.page(connection, listing)
        return wire.DecisionPage(
            as_of=iso(plane.now()),
            decisions=[decision_item(row, sees_all=places is None) for row in found[:limit]],
            next=offset + limit if len(found) > limit else None,
        )

    return await plane.answer_apart(unit)

"""HTTP route for the feed of decisions of all clusters, as history; the stream of changes has them live.

A decision is shown to callers who may see its workload. Names of other projects in it are mentions.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from fairpool.api import decisions as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.metrics import SAMPLES_DEFAULT
from fairpool.control import filters
from fairpool.control.decision_items import decision_item
from fairpool.control.metric_query import End, Samples, Start, period_of
from fairpool.control.moments import iso
from fairpool.control.paging import FilterBy, Limit, Offset, Search, SortOrder, parsed
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import decisions as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS

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
    listing = _listing(caller, filter_by, search, descending=sort_order == "desc", offset=offset, limit=limit)

    def unit(connection: Connection) -> wire.DecisionPage:
        found = store.page(connection, listing)
        return wire.DecisionPage(
            as_of=iso(plane.now()),
            decisions=[decision_item(row, sees_all=places is None) for row in found[:limit]],
            next=offset + limit if len(found) > limit else None,
        )

    return await plane.answer_apart(unit)


@routes.get(
    "/api/v1/decisions/counts",
    action=Action.WORKLOAD_READ,
    answer=wire.DecisionCounts,
    summary="Count decisions over a time, by kind",
)
async def decision_counts(
    plane: Plane,
    caller: Caller,
    start: Start,
    end: End,
    samples: Samples = SAMPLES_DEFAULT,
    filter_by: FilterBy = "",
    search: Search = "",
) -> Response:
    """Filters as in the list of decisions. A part without decisions is there, and empty."""
    now = plane.now()
    since, until = period_of(start, end)
    step_ms = -(-(until - since) // samples)
    listing = _listing(caller, filter_by, search)

    def unit(connection: Connection) -> wire.DecisionCounts:
        found: dict[int, dict[str, int]] = {}
        for row in store.counts(connection, listing, since, until, step_ms):
            found.setdefault(int(row.part), {})[row.decision] = row.number
        parts = range(-(-(until - since) // step_ms))
        return wire.DecisionCounts(
            as_of=iso(now),
            seconds=step_ms / SECOND_MS,
            parts=[
                wire.CountedDecisions(start=iso(since + part * step_ms), counts=found.get(part, {})) for part in parts
            ],
        )

    return await plane.answer_apart(unit)


def _listing(caller: Caller, filter_by: str, search: str, **rest: Any) -> store.HistoryListing:
    """The decisions that a caller may see and asks for; `rest` are other fields of a listing."""
    places = caller.places(Action.WORKLOAD_READ)
    return store.HistoryListing(
        filters=tuple(parsed(filter_by, "at", FIELDS, {})),
        search=search,
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        **rest,
    )

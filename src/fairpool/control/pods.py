"""HTTP routes for the pods of a workload, current and past."""

from __future__ import annotations

import asyncio
import json
from itertools import zip_longest

from fairpool.api import workloads as wire
from fairpool.api.clusters import PodReport
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.pod_choice import has_log
from fairpool.control import items
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_access import PodAddress
from fairpool.control.rbac import Action
from fairpool.control.routes import Routes
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.workloads import readable
from fairpool.model.lifecycle import PodPhase

routes = Routes("workloads")


@routes.get(
    "/api/v1/workloads/{workload_id}/pods",
    action=Action.WORKLOAD_READ,
    answer=wire.PodPage,
    summary="List the current pods of a workload",
)
async def pods(
    workload_id: str, plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.PodPage:
    everything = await plane.read(
        lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ)
    )
    current = [each for each in everything if each.current]
    following = offset + limit if len(current) > offset + limit else None
    shown = await _with_reports(plane, workload_id, current[offset : offset + limit])
    return wire.PodPage(pods=shown, next=following)


@routes.get(
    "/api/v1/workloads/{workload_id}/history",
    action=Action.WORKLOAD_READ,
    answer=wire.HistoryPage,
    summary="List all pod instances of a workload, past and current",
)
async def history(
    workload_id: str, plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.HistoryPage:
    everything = await plane.read(
        lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ)
    )
    following = offset + limit if len(everything) > offset + limit else None
    shown = await _with_reports(plane, workload_id, everything[offset : offset + limit])
    return wire.HistoryPage(history=shown, next=following)


async def _with_reports(plane: Plane, workload_id: str, found: list[wire.PodItem]) -> list[wire.PodItem]:
    """With the metrics and parameters of current pods, read where the pods run and stored nowhere."""
    current = [each for each in found if each.current and has_log(each)]
    if not current:
        return found
    row = await plane.read(lambda connection: store.one(connection, workload_id))
    if row is None:
        return found
    addresses = [PodAddress(row.cluster, each.id, each.node, workload_id) for each in current]
    reports = await asyncio.gather(*map(plane.pod_access.reports, addresses))
    reported = {pod.id: items.with_reports(pod, each) for pod, each in zip(current, reports, strict=True)}
    return [reported.get(each.id, each) for each in found]


def pod_items_of(connection: Connection, caller: Caller, workload_id: str, action: Action) -> list[wire.PodItem]:
    """Every reported pod of a workload, by index; the latest of each index is current."""
    row = readable(connection, caller, workload_id)
    caller.require(action, row.project, row.department)
    name, known = json.loads(row.item)["name"], json.loads(row.facts)
    rows = store.pods_of(connection, workload_id)
    found = []
    for each, following in zip_longest(rows, rows[1:]):
        report, since = PodReport.from_json(each.document), each.since
        current = following is None or following.place != each.place
        if following is not None and not current and report.phase is not PodPhase.ENDED:
            # Its end was not reported, or not yet; but it has ended, because its replacement exists.
            report, since = report.model_copy(update={"phase": PodPhase.ENDED, "trouble": ""}), following.seen_at
        found.append(items.pod_item(name, report, each.seen_at, since, current, known))
    return found

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
    lives = await plane.read(lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ))
    current = [life for life in lives if life.current]
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
    lives = await plane.read(lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ))
    following = offset + limit if len(lives) > offset + limit else None
    shown = await _with_reports(plane, workload_id, lives[offset : offset + limit])
    return wire.HistoryPage(history=shown, next=following)


async def _with_reports(plane: Plane, workload_id: str, lives: list[wire.PodItem]) -> list[wire.PodItem]:
    """With what the jobs of the current lives say about themselves; asked where they are, and kept nowhere."""
    told = [life for life in lives if life.current and has_log(life)]
    if not told:
        return lives
    row = await plane.read(lambda connection: store.one(connection, workload_id))
    if row is None:
        return lives
    addresses = [PodAddress(row.cluster, life.id, life.node, workload_id) for life in told]
    reports = await asyncio.gather(*map(plane.pod_access.reports, addresses))
    reported = {life.id: items.with_reports(life, each) for life, each in zip(told, reports, strict=True)}
    return [reported.get(life.id, life) for life in lives]


def pod_items_of(connection: Connection, caller: Caller, workload_id: str, action: Action) -> list[wire.PodItem]:
    """Every life that was reported, by pod; the latest life of each pod is current."""
    row = readable(connection, caller, workload_id)
    caller.require(action, row.project, row.department)
    name, known = json.loads(row.item)["name"], json.loads(row.facts)
    rows = store.pods_of(connection, workload_id)
    lives = []
    for each, following in zip_longest(rows, rows[1:]):
        report, since = PodReport.from_json(each.document), each.since
        current = following is None or following.place != each.place
        if following is not None and not current and report.phase is not PodPhase.ENDED:
            # Its end was not told, or not yet; but it is over since there is the next.
            report, since = report.model_copy(update={"phase": PodPhase.ENDED, "trouble": ""}), following.seen_at
        lives.append(items.pod_item(name, report, each.seen_at, since, current, known))
    return lives

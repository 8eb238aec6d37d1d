"""HTTP routes for the pods of a workload, current and past; the pod that a log or shell request means."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from functools import partial
from itertools import zip_longest
from typing import Annotated, Any

from starlette.responses import Response

from fairpool.api import measured as measured_wire
from fairpool.api import workloads as wire
from fairpool.api.clusters import PodReport
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.pod_choice import has_log, pod_called, pod_to_read, pods_there
from fairpool.api.wire import Count
from fairpool.control import items
from fairpool.control.directory_user import require_own_if_directory_user
from fairpool.control.guard import still_known
from fairpool.control.latest_figures import measured_workload
from fairpool.control.metric_query import unreadable
from fairpool.control.paging import (
    Field,
    FilterBy,
    Limit,
    ListQuery,
    Offset,
    Search,
    counting,
    filtered,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import Caller, Plane
from fairpool.control.pod_access import PodAddress
from fairpool.control.rbac import Action, for_kind
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import workload_lists
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.workload_documents import declaration_of
from fairpool.control.workloads import readable
from fairpool.model.lifecycle import PodPhase

routes = Routes("workloads")

WORKLOADS_MAX = 1_000_000
Completed = Annotated[
    str, Parameter(pattern="^(true|false|)$", description="Only pods that have ended, or only those that have not")
]


FIELDS: Mapping[str, Field[wire.PodItem]] = {
    "name": text_field(lambda each: each.name),
    "id": text_field(lambda each: each.id),
    "workloadId": text_field(lambda each: each.workload_id),
    "workloadName": text_field(lambda each: each.workload_name),
    "projectId": text_field(lambda each: each.project_id),
    "projectName": text_field(lambda each: each.project_name),
    "clusterId": text_field(lambda each: each.cluster_id),
    "nodeName": text_field(lambda each: each.node_name or ""),
    "k8sPhase": text_field(lambda each: each.k8s_phase),
    "createdAt": time_field(lambda each: each.created_at),
}


@routes.get(
    "/api/v1/workloads/pods",
    action=Action.WORKLOAD_READ,
    answer=wire.PodPage,
    summary="List the current pods of the workloads you can see",
)
async def all_pods(plane: Plane, caller: Caller, query: ListQuery, completed: Completed = "") -> Response:
    def unit(connection: Connection) -> wire.PodPage:
        listed, following = page(filtered(_visible_pods(connection, caller, completed), FIELDS, query), query)
        return wire.PodPage(pods=listed, next=following)

    return await plane.answer_apart(unit)


@routes.get(
    "/api/v1/workloads/pods/count",
    action=Action.WORKLOAD_READ,
    answer=Count,
    summary="Count the current pods of the workloads you can see",
)
async def pod_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Response:
    query = counting(filter_by, search)
    return await plane.answer_apart(
        lambda connection: Count(count=len(filtered(_visible_pods(connection, caller, ""), FIELDS, query)))
    )


def _visible_pods(connection: Connection, caller: Caller, completed: str) -> list[wire.PodItem]:
    places = caller.places(Action.WORKLOAD_READ)
    listing = workload_lists.Listing(
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        limit=WORKLOADS_MAX,
    )
    keys = [key.id for key in workload_lists.page(connection, listing)]
    rows = store.some(connection, keys)
    current = [pod for key in keys if key in rows for pod in _pod_items(connection, rows[key]) if pod.current]
    wanted = {"true": True, "false": False}.get(completed)
    return [pod for pod in current if wanted is None or (pod.completed_at is not None) is wanted]


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
    "/api/v1/workloads/{workload_id}/measured",
    action=Action.WORKLOAD_READ,
    answer=measured_wire.MeasuredWorkload,
    summary="Get what was last measured of a workload, its pods and their GPUs",
)
async def measured(workload_id: str, plane: Plane, caller: Caller) -> measured_wire.MeasuredWorkload:
    def unit(connection: Connection) -> tuple[str, list[wire.PodItem]]:
        row = readable(connection, caller, workload_id)
        return row.cluster, [each for each in _pod_items(connection, row) if each.current]

    cluster, current = await plane.read(unit)
    try:
        return await measured_workload(plane, cluster, workload_id, current)
    except Unavailable as error:
        raise unreadable(error) from error


@routes.get(
    "/api/v1/workloads/{workload_id}/history",
    action=Action.WORKLOAD_READ,
    answer=wire.HistoryPage,
    summary="List all pods of a workload, past and current",
)
async def history(
    workload_id: str, plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.HistoryPage:
    everything = await plane.read(
        lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ)
    )
    following = offset + limit if len(everything) > offset + limit else None
    shown = await _with_reports(plane, workload_id, everything[offset : offset + limit])
    return wire.HistoryPage(history=shown, records=list(map(items.history_record, shown)), next=following)


async def _with_reports(plane: Plane, workload_id: str, found: list[wire.PodItem]) -> list[wire.PodItem]:
    """With the metrics and parameters of current pods, read where the pods run and stored nowhere."""
    current = [each for each in found if each.current and has_log(each)]
    if not current:
        return found
    row = await plane.read(lambda connection: store.one(connection, workload_id))
    if row is None:
        return found
    addresses = [PodAddress(row.cluster, each.id, each.node, workload_id) for each in current]
    reports = await asyncio.gather(*map(plane.pod_access.of(row.cluster).reports, addresses))
    reported = {pod.id: items.with_reports(pod, each) for pod, each in zip(current, reports, strict=True)}
    return [reported.get(each.id, each) for each in found]


def pod_items_of(connection: Connection, caller: Caller, workload_id: str, action: Action) -> list[wire.PodItem]:
    """Every reported pod of a workload, by index; the latest of each index is current."""
    row = readable(connection, caller, workload_id)
    _require(caller, row, action)
    return _pod_items(connection, row)


def _require(caller: Caller, row: Any, action: Action) -> None:
    caller.require(for_kind(action, row.kind), row.project, row.department, row.cluster)
    if action is not Action.WORKLOAD_READ:
        require_own_if_directory_user(caller, row)


def _pod_items(connection: Connection, row: Any) -> list[wire.PodItem]:
    declared = declaration_of(row)
    rows = store.pods_of(connection, row.id)
    found = []
    for each, following in zip_longest(rows, rows[1:]):
        report, since = PodReport.from_json(each.document), each.since
        current = following is None or following.pod_index != each.pod_index
        if following is not None and not current and report.phase is not PodPhase.ENDED:
            # Its end was not reported, or not yet; but it has ended, because its replacement exists.
            report, since = (
                report.model_copy(update={"phase": PodPhase.ENDED, "start_failure": ""}),
                following.created_at,
            )
        found.append(items.pod_item(row, report, each.created_at, since, current, declared))
    return found


# --- access to one pod -----------------------------------------------------------------------------------------


LOOK_AGAIN_S = 5.0
"""How long a stream can outlast a permission that expires without a commit."""

REVOKED = "you were signed out or no longer have permission"


async def while_allowed(plane: Plane, caller: Caller, workload_id: str, action: Action) -> None:
    """Returns when the caller may no longer do this to the workload.

    The cache of callers is emptied whenever users, rules or tokens change: if a commit brings the same caller again,
    none of them did. Only moved workloads and expired tokens go unnoticed, so they are checked from time to time.
    """
    known: Caller | None = None
    looked_at = 0.0
    while True:
        listening = plane.notifier.listen()
        try:
            caller = await still_known(plane, caller)
            if caller is not known or time.monotonic() - looked_at >= LOOK_AGAIN_S:
                await plane.read(partial(_check_allowed, caller=caller, workload_id=workload_id, action=action))
                known, looked_at = caller, time.monotonic()
        except Refused:
            listening.cancel()
            return
        await plane.notifier.wait(listening, LOOK_AGAIN_S)


def _check_allowed(connection: Connection, caller: Caller, workload_id: str, action: Action) -> None:
    row = store.one(connection, workload_id)
    if row is None:
        raise unknown("workload", workload_id)
    _require(caller, row, action)


async def pod_address(
    plane: Plane, caller: Caller, workload_id: str, pod: str | None, action: Action, *, running: bool
) -> PodAddress:
    """The pod that is meant."""

    def unit(connection: Connection) -> tuple[list[wire.PodItem], str]:
        pods = pod_items_of(connection, caller, workload_id, action)
        row = store.one(connection, workload_id)
        assert row is not None
        return pods, row.cluster

    pods, cluster = await plane.read(unit)
    chosen = pod_called(pods, pod) if pod is not None else pod_to_read(pods)
    if chosen is None and pod is not None and pods:
        raise refused(404, "pod.unknown", f"there is no pod {pod!r}", pods_there(pods), "pod")
    if chosen is None:
        raise refused(404, "pod.unknown", "the job has no pods yet", "see what it is waiting for with `runai why JOB`")
    if running and chosen.phase != "running":
        what = "Unable to run command in a pod that is not running"
        raise refused(
            409, "pod.not_running", what, "wait until it is running; `runai why JOB` shows what it is waiting for"
        )
    return PodAddress(cluster, chosen.id, chosen.node, workload_id)

"""HTTP routes for consumption reports: usage of a period as a CSV file that is kept.

A report shows what its creator could see when it was made. Others see it if they may see everything; its creator as
long as their roles still cover it.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import accounting as wire
from fairpool.api.limits import PAGE_MAX
from fairpool.api.wire import Count
from fairpool.control.accounting import usage_csv
from fairpool.control.moments import iso
from fairpool.control.paging import (
    Field,
    FilterBy,
    ListQuery,
    Search,
    counting,
    filtered,
    page,
    text_field,
    time_field,
)
from fairpool.control.plane import ActionResult, Caller, Places, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Routes
from fairpool.control.store import prices as store
from fairpool.control.store.database import Connection
from fairpool.control.usage_query import UsageQuestion, figures, places_of, question

routes = Routes("accounting")

JSON: Final = "application/json"
FILE: dict[int, dict[str, Any]] = {
    200: {
        "description": "CSV with a header row",
        "content": {
            form: {"schema": {"type": "string"}, "example": "start,end,project,…"} for form in ("text/csv", JSON)
        },
    }
}
REPORTS_MAX: Final = 100
"""Of one user."""
GROUPS: Final = {
    wire.ReportGroup.NODEPOOL: "nodePool",
    wire.ReportGroup.PROJECT: "project",
    wire.ReportGroup.DEPARTMENT: "department",
    wire.ReportGroup.CLUSTER: "cluster",
}
FIELDS: Mapping[str, Field[wire.Report]] = {
    "name": text_field(lambda each: each.name),
    "createdAt": time_field(lambda each: each.created_at),
    "createdBy": text_field(lambda each: each.created_by),
    "status": text_field(lambda each: each.status.value),
}


@routes.get(
    wire.REPORTS,
    action=Action.PROJECT_READ,
    answer=wire.ReportPage,
    summary="List the consumption reports you can see",
)
async def reports(plane: Plane, caller: Caller, query: ListQuery) -> wire.ReportPage:
    found = await plane.read_apart(partial(_visible, caller=caller))
    listed, following = page(filtered(found, FIELDS, query), query)
    return wire.ReportPage(reports=listed, next=following)


@routes.get(
    wire.REPORTS + "/count",
    action=Action.PROJECT_READ,
    answer=Count,
    summary="Count the consumption reports you can see",
)
async def report_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    found = await plane.read_apart(partial(_visible, caller=caller))
    return Count(count=len(filtered(found, FIELDS, counting(filter_by, search))))


@routes.get(
    wire.REPORTS + "/availability",
    action=Action.PROJECT_READ,
    answer=wire.ReportsAvailability,
    summary="Say whether consumption reports can be made",
)
async def availability(plane: Plane, caller: Caller) -> wire.ReportsAvailability:
    return wire.ReportsAvailability(is_available=True)


@routes.post(
    wire.REPORTS,
    action=Action.PROJECT_READ,
    answer=wire.Report,
    status=202,
    summary="Make a consumption report",
)
async def create_report(request: Request, plane: Plane, caller: Caller, body: wire.ReportRequest) -> Response:
    """It is made at once: its file can be downloaded when this returns."""
    caller.require_somewhere(Action.PROJECT_READ)
    groups = (GROUPS[body.group_by],) if body.group_by is not None else ("department", "project", "nodePool")
    now, places = plane.now(), places_of(caller)
    asked = question(now, start=body.start, end=body.end, groups=groups, filter_by=",".join(body.filter_by))
    text = await asyncio.to_thread(usage_csv, await figures(plane, asked, places), asked)

    def unit(connection: Connection) -> ActionResult:
        if store.count_reports_of(connection, caller.id) >= REPORTS_MAX:
            what = f"you have {REPORTS_MAX} consumption reports"
            raise refused(409, "report.too_many", what, "delete some of them first")
        made = str(uuid.uuid4())
        store.add_report(
            connection,
            id=made,
            name=body.name,
            owner=caller.id,
            document=json.dumps({"request": _dated(body, asked).wire(), "places": _words(places)}),
            status=wire.ReportStatus.READY.value,
            message="",
            file=text,
            created_at=now,
            created_by=caller.name,
            updated_at=plane.now(),
        )
        return ActionResult(
            body=_report(store.report(connection, made)),
            status=202,
            action="create",
            entity_type="report",
            entity_id=made,
            entity_name=body.name,
        )

    return await plane.perform(request, caller, unit)


@routes.get(
    wire.REPORTS + "/{report_id}",
    action=Action.PROJECT_READ,
    answer=wire.Report,
    summary="Get a consumption report",
)
async def report(report_id: str, plane: Plane, caller: Caller) -> wire.Report:
    return _report(await plane.read(lambda connection: _known(connection, caller, report_id)))


@routes.get(
    wire.REPORTS + "/{report_id}/file",
    action=Action.PROJECT_READ,
    summary="Download a consumption report as CSV",
    responses=FILE,
)
async def report_file(report_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """A client that speaks JSON only gets the text as a JSON string: the original's reads every answer as JSON, and
    says so with a Content-Type."""
    row = await plane.read(lambda connection: _known(connection, caller, report_id))
    if JSON in (request.headers.get("accept"), request.headers.get("content-type")):
        return Response(json.dumps(row.file), media_type=JSON)
    headers = {"Content-Disposition": 'attachment; filename="report.csv"'}
    return Response(row.file, media_type="text/csv; charset=utf-8", headers=headers)


@routes.delete(
    wire.REPORTS + "/{report_id}",
    action=Action.PROJECT_READ,
    status=204,
    summary="Delete a consumption report that you made",
)
async def delete_report(report_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """Administrators may delete those of others."""

    def unit(connection: Connection) -> ActionResult:
        row = _known(connection, caller, report_id)
        if row.owner != caller.id:
            caller.require(Action.SETTING_WRITE)
        store.drop_report(connection, report_id)
        return ActionResult(
            status=204, action="delete", entity_type="report", entity_id=report_id, entity_name=row.name
        )

    return await plane.perform(request, caller, unit)


def _dated(body: wire.ReportRequest, asked: UsageQuestion) -> wire.ReportRequest:
    """With the moments that were meant, where they were given as how long ago."""
    return body.model_copy(update={"start": iso(asked.start), "end": iso(asked.end)})


def _visible(connection: Connection, caller: Caller) -> list[wire.Report]:
    return [_report(row) for row in store.all_reports(connection) if _may_see(caller, row)][: 100 * PAGE_MAX]


def _known(connection: Connection, caller: Caller, report_id: str) -> Any:
    row = store.report(connection, report_id)
    if row is None or not _may_see(caller, row):
        raise unknown("report", report_id, is_hidden=row is not None)
    return row


def _may_see(caller: Caller, row: Any) -> bool:
    now = places_of(caller)
    if now is None:
        return True
    then = json.loads(row.document)["places"]
    if row.owner != caller.id or then is None:
        return False
    return (
        set(then["projects"]) <= set(now.projects)
        and set(then["departments"]) <= set(now.departments)
        and set(then["clusters"]) <= set(now.clusters)
    )


def _words(places: Places | None) -> dict[str, list[str]] | None:
    if places is None:
        return None
    return {
        "projects": list(places.projects),
        "departments": list(places.departments),
        "clusters": list(places.clusters),
    }


def _report(row: Any) -> wire.Report:
    asked = wire.ReportRequest.model_validate(json.loads(row.document)["request"])
    return wire.Report(
        id=row.id,
        name=row.name,
        description=asked.description,
        start=asked.start,
        end=asked.end,
        group_by=asked.group_by,
        filter_by=asked.filter_by,
        created_at=iso(row.created_at),
        created_by=row.created_by,
        status=wire.ReportStatus(row.status),
        status_updated_at=iso(row.updated_at),
        status_message=row.message,
    )

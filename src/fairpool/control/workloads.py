"""HTTP routes for workloads: list, get, suspend, resume, delete."""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import workload_spec
from fairpool.api import workloads as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.wire import Count, compact
from fairpool.control import declarations, filters, items, submit_values
from fairpool.control.latest_figures import measured_texts, missing_samples_text
from fairpool.control.metric_query import PARTLY
from fairpool.control.paging import FilterBy, Limit, Offset, Search, SortOrder, parsed
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match, part_of
from fairpool.control.rbac import Action, for_kind
from fairpool.control.refusal import Refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import attention_order, holdings, workload_lists
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.store.workload_lists import Listing
from fairpool.control.workload_documents import declaration_of
from fairpool.model.spec import DesiredState

routes = Routes("workloads")

KINDS = {
    "workspaces": workload_spec.Kind.WORKSPACE,
    "trainings": workload_spec.Kind.TRAINING,
    "distributed": workload_spec.Kind.DISTRIBUTED,
    "inferences": workload_spec.Kind.INFERENCE,
}

FIELDS = {
    name: filters.Sort.MOMENT if name.endswith("At") else filters.Sort.TEXT
    for name in workload_lists.COLUMNS
    if name not in ("runningPods", "requestedGPU", "allocatedGPU")
} | {
    "runningPods": filters.Sort.NUMBER,
    "requestedGPU": filters.Sort.GPUS,
    "allocatedGPU": filters.Sort.GPUS,
    "labels": filters.Sort.LABELS,
}

WORDS = {"desiredPhase": {phase: state for state, phase in items.DESIRED.items()}}

Force = Annotated[
    bool,
    Parameter(
        description="Kill the pods immediately, without a grace period; also works while the workload is being deleted"
    ),
]

WorkloadSortBy = Annotated[
    str,
    Parameter(
        alias="sortBy",
        max_length=64,
        description="Field to sort by, any field of filterBy; or `attention`: failed first, then longest waiting, then"
        " newest, whatever sortOrder says",
    ),
]
Counts = Annotated[
    bool,
    Parameter(description="With the number of workloads on all pages, and by phase, whatever phase is asked for"),
]
Measured = Annotated[bool, Parameter(description="With what was last measured of each")]
Deleted = Annotated[bool, Parameter(description="Include deleted workloads")]

# --- look ----------------------------------------------------------------------------------------------------


@routes.get(
    "/api/v1/workloads",
    action=Action.WORKLOAD_READ,
    answer=wire.WorkloadPage,
    responses=PARTLY,
    summary="List the workloads you can see",
)
async def workloads(
    plane: Plane,
    caller: Caller,
    filter_by: FilterBy = "",
    search: Search = "",
    sort_by: WorkloadSortBy = "createdAt",
    sort_order: SortOrder = "asc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
    deleted: Deleted = False,
    measured: Measured = False,
    counts: Counts = False,
) -> Response:
    by_attention, span = sort_by == attention_order.ATTENTION, {"offset": offset, "limit": limit}
    field = "createdAt" if by_attention else sort_by
    listing = listing_of(caller, filter_by, search, field, sort_order == "desc", deleted=deleted, **span)
    if by_attention:
        listing = replace(listing, sort_by=attention_order.ATTENTION)
    is_quick = listing.is_indexed and not counts
    found = await (plane.read if is_quick else plane.read_apart)(partial(_found, listing=listing, counts=counts))
    texts = await rendered_items(plane, found.keys[:limit])
    rest = found.rest + (f',"next":{offset + limit}' if len(found.keys) > limit else "")
    status = 200
    if measured:
        try:
            texts = await with_measured_work(plane, texts)
        except Unavailable as error:
            rest, status = f'{rest},"problems":{missing_samples_text(error)}', 207
    return Response(f'{{"workloads":[{",".join(texts)}]{rest}}}', status, media_type="application/json")


@dataclass(frozen=True, slots=True)
class _Found:
    """What is read of a list at one moment."""

    keys: list[store.Key]
    """Of one page, and one more if there is another page."""
    rest: str = ""
    """Numbers of workloads, as members of a JSON object."""


def _found(connection: Connection, *, listing: Listing, counts: bool) -> _Found:
    by_attention = listing.sort_by == attention_order.ATTENTION
    if not by_attention and not counts:
        return _Found(workload_lists.page(connection, listing))
    mine = workload_lists.by_phase(connection, listing)
    page = attention_order.page(connection, listing, mine) if by_attention else workload_lists.page(connection, listing)
    if not counts:
        return _Found(page)
    other = tuple(each for each in listing.filters if each.field != "phase")
    is_all = len(other) == len(listing.filters)
    phases = mine if is_all else workload_lists.by_phase(connection, replace(listing, filters=other))
    return _Found(page, f',"total":{sum(mine.values())},"phases":{compact(phases)}')


async def with_measured_work(plane: Plane, texts: Sequence[str]) -> list[str]:
    """Workloads as JSON texts, those that hold something with what was last measured of them. Raises `Unavailable`."""
    ids = [text[len(ID_FIRST) : text.index('"', len(ID_FIRST))] for text in texts]
    holders = await plane.read_apart(lambda connection: holdings.holders(connection, ids))
    found = await measured_texts(plane, holders)
    return [
        f'{text[:-1]},"measured":{found[each]}}}' if each in found else text
        for each, text in zip(ids, texts, strict=True)
    ]


ID_FIRST = '{"id":"'
"""How the text of a workload begins."""


RENDERED_AT_ONCE = 32
"""Rows that are rendered before other requests get their turn: 1 to 2 ms."""


async def rendered_items(plane: Plane, keys: Sequence[store.Key]) -> list[str]:
    """Workloads as JSON texts. Long lists are rendered in pieces, so that other requests do not wait."""
    texts: list[str] = []
    for start in range(0, len(keys), RENDERED_AT_ONCE):
        if start:
            await asyncio.sleep(0)
        piece = keys[start : start + RENDERED_AT_ONCE]
        texts += await plane.read(partial(plane.rendered.items, keys=piece))
    return texts


@routes.get(
    "/api/v1/workloads/count", action=Action.WORKLOAD_READ, answer=Count, summary="Count the workloads you can see"
)
async def workload_count(
    plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "", deleted: Deleted = False
) -> Count:
    listing = listing_of(caller, filter_by, search, "createdAt", False, deleted=deleted)
    return Count(count=await plane.read_apart(lambda connection: workload_lists.count(connection, listing)))


def listing_of(caller: Caller, filter_by: str, search: str, sort_by: str, descending: bool, **rest: Any) -> Listing:
    """The workloads that a caller may see and asks for; `rest` are other fields of a listing."""
    conditions = parsed(filter_by, sort_by, FIELDS, WORDS)
    places = caller.places(Action.WORKLOAD_READ)
    return Listing(
        filters=tuple(conditions),
        search=search,
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        clusters=() if places is None else places.clusters,
        sort_by=sort_by,
        descending=descending,
        **rest,
    )


@routes.get(
    "/api/v1/workloads/{workload_id}/events",
    action=Action.WORKLOAD_READ,
    answer=wire.EventPage,
    summary="List the events of a workload",
)
async def events(
    workload_id: str, plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.EventPage:
    def unit(connection: Connection) -> wire.EventPage:
        row = readable(connection, caller, workload_id)
        declared = declaration_of(row)
        lines = cluster_store.events_of(connection, workload_id, offset, limit + 1)
        listed = [items.event_item(row, line, declared) for line in lines[:limit]]
        return wire.EventPage(events=listed, next=offset + limit if len(lines) > limit else None)

    return await plane.read(unit)


def may_read(caller: Caller, row: Any) -> bool:
    """Whether a caller may see the workload of a row."""
    return caller.may(Action.WORKLOAD_READ, row.project, row.department, row.cluster)


def readable(connection: Connection, caller: Caller, workload_id: str) -> Any:
    """The workload's row; refuses as unknown if the caller may not see it."""
    row = store.one(connection, workload_id)
    if row is None or not may_read(caller, row):
        raise unknown("workload", workload_id, is_hidden=row is not None)
    return row


# --- suspend, resume, delete ---------------------------------------------------------------------------------


def _declare(kind: workload_spec.Kind | None, base: str) -> None:
    """Routes of one workload, under the path of its kind or of all kinds."""
    suffix = f" ({kind.value.lower()})" if kind is not None else ""

    async def workload(workload_id: str, plane: Plane, caller: Caller) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = readable(connection, caller, workload_id)
            if kind is not None and row.kind != kind.value:
                raise unknown(kind.value.lower(), workload_id)
            return ActionResult(body=plane.rendered.detail(row), revision=row.revision)

        return answered(await plane.read(unit))

    async def suspend(workload_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.SUSPEND)

    async def resume(workload_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.RESUME)

    async def delete(
        workload_id: str, request: Request, plane: Plane, caller: Caller, force: Force = False
    ) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.DELETE, force=force)

    path, answer = base + "/{workload_id}", wire.Workload
    routes.add("GET", path, workload, action=Action.WORKLOAD_READ, answer=answer, summary=f"Get a workload{suffix}")
    for method, end, handler, action, summary in (
        ("POST", "/suspend", suspend, Action.WORKLOAD_UPDATE, "Suspend a workload: stop its pods"),
        ("POST", "/resume", resume, Action.WORKLOAD_UPDATE, "Resume a workload"),
        ("DELETE", "", delete, Action.WORKLOAD_DELETE, "Delete a workload"),
    ):
        needed = for_kind(action, kind.value) if kind is not None else action
        routes.add(method, path + end, handler, action=needed, answer=answer, status=202, summary=f"{summary}{suffix}")


async def _operate(
    request: Request,
    plane: Plane,
    caller: Caller,
    workload_id: str,
    kind: workload_spec.Kind | None,
    action: wire.BatchAction,
    *,
    force: bool = False,
) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = operable(connection, caller, workload_id, kind, NEEDED[action])
        check_match(request, row.revision)
        done = operated(plane, connection, row, action, caller.name, force=force)
        now_is = store.one(connection, row.id)
        detail = items.accepted_text(items.detail_text(now_is, plane.settings.gateway), MESSAGES[action])
        return replace(done, body=detail, status=202, revision=now_is.revision)

    return await plane.perform(request, caller, unit)


MESSAGES = {
    wire.BatchAction.SUSPEND: "the workload is being suspended",
    wire.BatchAction.RESUME: "the workload is being resumed",
    wire.BatchAction.DELETE: "the workload is being deleted",
}
DESIRED_STATES = {
    wire.BatchAction.SUSPEND: DesiredState.STOP,
    wire.BatchAction.RESUME: DesiredState.RUN,
    wire.BatchAction.DELETE: DesiredState.DELETE,
}


def operated(
    plane: Plane, connection: Connection, row: Any, action: wire.BatchAction, by: str, *, force: bool = False
) -> ActionResult:
    """Change the desired state of a workload. It resumes only if it keeps to the policies of today."""
    if action is wire.BatchAction.RESUME and not declarations.is_to_run(row):
        _refuse_against_policies(connection, row)
    changed = declarations.set_desired_state(plane, connection, row, DESIRED_STATES[action], by, force=force)
    return ActionResult(
        action=_verb(action) if changed else "",
        entity_type="workload",
        entity_id=row.id,
        entity_name=f"{row.project}/{row.name}{' (forced)' if force else ''}",
    )


def _refuse_against_policies(connection: Connection, row: Any) -> None:
    project = organization_store.project(connection, row.project)
    declared = declaration_of(row)
    if project is not None and declared.workload.desired_state is not DesiredState.DELETE:
        kind = workload_spec.Kind(row.kind)
        submit_values.refuse_against_policies(connection, project, kind, row.name, declared.request, "resumed")


def _verb(action: wire.BatchAction) -> str:
    """For the audit log."""
    return "delete" if action is wire.BatchAction.DELETE else "update"


NEEDED = {
    wire.BatchAction.SUSPEND: Action.WORKLOAD_UPDATE,
    wire.BatchAction.RESUME: Action.WORKLOAD_UPDATE,
    wire.BatchAction.DELETE: Action.WORKLOAD_DELETE,
}


def operable(
    connection: Connection, caller: Caller, workload_id: str, kind: workload_spec.Kind | None, action: Action
) -> Any:
    """The workload's row; refuses if the caller may not see it, or not do this with one of its kind."""
    row = store.one(connection, workload_id)
    if row is None or row.deleted_at is not None or not may_read(caller, row):
        raise unknown("workload", workload_id, is_hidden=row is not None and row.deleted_at is None)
    if kind is not None and row.kind != kind.value:
        raise unknown(kind.value.lower(), workload_id)
    caller.require(for_kind(action, row.kind), row.project, row.department, row.cluster)
    return row


@routes.post(
    "/api/v1/workloads/batch",
    action=Action.WORKLOAD_OPERATE,
    answer=wire.BatchAnswer,
    summary="Suspend, resume or delete several workloads; each succeeds or fails on its own",
)
async def batch(request: Request, plane: Plane, caller: Caller, body: wire.BatchRequest) -> Response:
    waiting, batch_id = deque(dict.fromkeys(body.ids)), str(uuid.uuid4())
    succeeded: list[str] = []
    failed: list[wire.BatchFailure] = []

    def act(connection: Connection, workload_id: str) -> ActionResult | None:
        """The entry in the audit log."""
        try:
            row = operable(connection, caller, workload_id, None, NEEDED[body.action])
            done = operated(plane, connection, row, body.action, caller.name, force=body.force)
        except Refused as refusal:
            failed.append(wire.BatchFailure(id=workload_id, code=refusal.status, message=refusal.message))
            denied = ActionResult(
                action=_verb(body.action), entity_type="workload", entity_id=workload_id, result="Failed"
            )
            return denied if refusal.is_denial else None
        succeeded.append(workload_id)
        return done

    def unit(connection: Connection) -> ActionResult:
        entries = part_of(waiting, partial(act, connection))
        answer = None if waiting else wire.BatchAnswer(id=batch_id, succeeded=succeeded, failed=failed)
        return ActionResult(body=answer, also=entries, goes_on=bool(waiting))

    return await plane.perform(request, caller, unit)


for _kind_path, _kind in KINDS.items():
    _declare(_kind, f"/api/v1/workloads/{_kind_path}")

_declare(None, "/api/v1/workloads")

"""Workloads of every kind: submit, look, suspend, resume, delete. Handler and transaction."""

from __future__ import annotations

import asyncio
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from fairpool.api import workload_spec
from fairpool.api import workloads as wire
from fairpool.api.clusters import PodReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.organization import ProjectRequest
from fairpool.api.problems import item as problem_item
from fairpool.api.wire import PAGE_DEFAULT, Count
from fairpool.control import admission, claims, declarations, filters, items, preferences
from fairpool.control.feasibility import never_starts
from fairpool.control.lean_route import LeanRoute
from fairpool.control.organization import cluster_of, pool_names, pool_view
from fairpool.control.paging import FilterBy, Limit, Offset, Search, SortBy, SortOrder, parsed
from fairpool.control.plane import Caller, CallerDep, Done, Plane, PlaneDep, answered, check_match
from fairpool.control.pod_access import PodAddress
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.store import changes
from fairpool.control.store import claims as claim_store
from fairpool.control.store import clusters as cluster_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.precedence import PRIORITY_CLASSES
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.upload import Upload

# Of two routes that fit, the first counts: so the lists come before the one, because `count` could be an id.
lists = APIRouter(tags=["workloads"], route_class=LeanRoute)
singles = APIRouter(tags=["workloads"], route_class=LeanRoute)
router = APIRouter(tags=["workloads"], route_class=LeanRoute)

KINDS = {
    "workspaces": workload_spec.Kind.WORKSPACE,
    "trainings": workload_spec.Kind.TRAINING,
    "distributed": workload_spec.Kind.DISTRIBUTED,
    "inferences": workload_spec.Kind.INFERENCE,
}
FIELDS = {
    name: filters.Sort.MOMENT if name.endswith("At") else filters.Sort.TEXT
    for name in store.COLUMNS
    if name not in ("runningPods", "requestedGPU", "allocatedGPU")
} | {
    "runningPods": filters.Sort.NUMBER,
    "requestedGPU": filters.Sort.GPUS,
    "allocatedGPU": filters.Sort.GPUS,
    "labels": filters.Sort.LABELS,
}
WORDS = {"desiredPhase": {desired.value: want.value for want, desired in items.DESIRED.items()}}

DryRun = Annotated[bool, Query(alias="dryRun", description="Validate only; nothing is submitted")]
GRACE_FIELD = "terminationGracePeriodSeconds"

Force = Annotated[
    bool,
    Query(
        description="Kill the pods immediately, without a grace period; also works while the workload is being deleted"
    ),
]
Deleted = Annotated[bool, Query(description="Include deleted workloads")]


# --- submit --------------------------------------------------------------------------------------------------


@router.post(
    "/api/v1/workloads/workspaces",
    response_model=wire.Workload,
    status_code=202,
    summary="Submit an interactive workspace",
)
async def submit_workspace(
    request: Request, plane: PlaneDep, caller: CallerDep, body: workload_spec.SubmitWorkspace, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@router.post(
    "/api/v1/workloads/trainings", response_model=wire.Workload, status_code=202, summary="Submit a training workload"
)
async def submit_training(
    request: Request, plane: PlaneDep, caller: CallerDep, body: workload_spec.SubmitTraining, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@router.post(
    "/api/v1/workloads/distributed",
    response_model=wire.Workload,
    status_code=202,
    summary="Submit a distributed training workload",
)
async def submit_distributed(
    request: Request, plane: PlaneDep, caller: CallerDep, body: workload_spec.SubmitDistributed, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@router.post(
    "/api/v1/workloads/inferences",
    response_model=wire.Workload,
    status_code=202,
    summary="Submit an inference workload",
)
async def submit_inference(
    request: Request, plane: PlaneDep, caller: CallerDep, body: workload_spec.SubmitInference, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


async def submit(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitAny, *, dry_run: bool = False
) -> Response:
    """Declare it. When this answers, the declaration survives a power cut. A dry run answers alike and does nothing."""
    workdir = body.spec.workdir
    upload = await plane.pod_access.claim_upload(workdir.upload) if workdir is not None else None

    def unit(connection: Connection) -> Done:
        project = organization_store.project(connection, body.project_id)
        if project is None or not caller.may(Action.WORKLOAD_SUBMIT, project.name, project.department):
            raise _no_project(caller, body.project_id)
        if project.phase != "Ready":
            raise refused(
                409, "project.deleting", f"project {project.name} is being deleted", "use another project", "projectId"
            )
        return _declared(plane, connection, caller, body, project, upload=upload, dry_run=dry_run)

    if dry_run:
        return answered(await plane.read(unit))
    return await plane.perform(request, caller, unit)


def _declared(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    body: workload_spec.SubmitAny,
    project: Any,
    *,
    upload: Upload | None = None,
    dry_run: bool = False,
) -> Done:
    name = _name(connection, body, project.name)
    body = claims.named(connection, body, name, project.name)
    spec = _admitted(plane, connection, caller, body, name, project, upload)
    cluster = _cluster(connection, body, project)
    if not body.wait_anyway:
        _refuse_what_never_starts(plane, connection, spec, project)
    facts = items.facts(
        body,
        spec,
        department=project.department,
        cluster=cluster,
        submitted_by=caller.name,
        pod_host=plane.settings.pod_host,
    )
    if body.suspended:
        facts = items.suspended(facts, caller.name, spec.created_at)
    details = items.details(body, spec, caller.name)
    if dry_run:
        return Done(body=items.detail(items.text(items.state({**facts, "id": ""}, spec.want, None, 0)), details))
    now, kept = spec.created_at, plane.settings.changes_kept
    revision = changes.record(connection, "workload", spec.id, "created", now, project=project.name, kept=kept)
    item = items.text(items.state(facts, spec.want, None, revision))
    shown = {"request": details, "facts": items.text(facts), "item": item, "revision": revision}
    if not store.add(connection, {**_row(spec, facts), **shown}):
        raise _name_taken(spec.name)
    claims.make(connection, body, project.name, caller.name, now)
    return Done(
        body=items.detail(item, details),
        status=202,
        action="create",
        entity_type="workload",
        entity_id=spec.id,
        entity_name=f"{project.name}/{spec.name}",
        revision=revision,
    )


def _row(spec: WorkloadSpec, facts: dict[str, Any]) -> dict[str, Any]:
    """A new workload as its row, but for what is shown of it."""
    return {
        "id": spec.id,
        "name": spec.name,
        "name_key": f"{spec.project}/{spec.name}",
        "project": spec.project,
        "department": facts["departmentId"],
        "cluster": facts["clusterId"],
        "kind": facts["type"],
        "submitted_by": facts["submittedBy"],
        "created_at": spec.created_at,
        "requested_gpus_milli": admission.requested_gpus_milli(spec),
        "want": spec.want.value,
        "run": 0,
        "declaration": WorkloadWire.of(spec).to_json(),
        "phase": "Creating",
        "allocated_gpus_milli": 0,
        "running_pods": 0,
    }


def _admitted(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    body: workload_spec.SubmitAny,
    name: str,
    project: Any,
    upload: Upload | None,
) -> WorkloadSpec:
    """What is declared, or everything that is wrong with it."""
    now = plane.now()
    has_upload = _is_free(connection, caller, project.name, upload)
    context = replace(_ground(plane, connection, body, project, has_upload=has_upload), submitter_uid=caller.uid)
    # A folder that was uploaded lies under the id of the workload that it is for.
    workload_id = WorkloadId(upload.id) if upload is not None else new_id(now)
    spec = admission.admit(body, context, workload_id=workload_id, name=name, now=now)
    taken = _name_taken(name) if store.is_taken(connection, f"{project.name}/{name}") else None
    if isinstance(spec, list):
        raise Refused(422, [*spec, *(taken.problems if taken is not None else ())])
    if taken is not None:
        raise taken
    return spec


def _refuse_what_never_starts(plane: Plane, connection: Connection, spec: WorkloadSpec, project: Any) -> None:
    pools = spec.pools or (DEFAULT_POOL,)
    problems = never_starts(spec, [pool_view(plane, connection, project, pool) for pool in pools])
    if problems:
        raise Refused(422, [problem_item(each, "spec") for each in problems])


def _name_taken(name: str) -> Refused:
    what = f"the job {name} already exists, please delete it first (use 'runai delete {name}')"
    return refused(409, "workload.exists", what, "choose another name, or delete it first", "name")


def _ground(
    plane: Plane, connection: Connection, body: workload_spec.SubmitAny, project: Any, *, has_upload: bool = False
) -> admission.AdmissionContext:
    declared = project_of(project.document)
    are_pools_named = bool(body.spec.node_pools or declared.default_node_pools)
    named = {said.partition(":")[0] for said in body.spec.after}
    context = admission.AdmissionContext(
        project=declared,
        pools=pool_names(connection) if are_pools_named else frozenset(),
        images=cluster_store.images(connection, project.cluster),
        claims=claim_store.names(connection, project.name) if body.spec.storage.pvc else frozenset(),
        work={name: found for name in named if (found := _named(connection, project.name, name)) is not None},
        has_upload=has_upload,
    )
    if body.spec.termination_grace_period_seconds is None:
        return context
    return replace(context, grace_most_s=preferences.chosen(plane.settings, connection, preferences.GRACE))


def _named(connection: Connection, project: str, name: str) -> WorkloadId | None:
    """A workload of the project, by its name or its id."""
    found = store.named(connection, project, name)
    if found is None:
        row = store.one(connection, name)
        found = row.id if row is not None and row.project == project and row.gone_at is None else None
    return None if found is None else WorkloadId(found)


def _is_free(connection: Connection, caller: Caller, project: str, upload: Upload | None) -> bool:
    """Whether this folder is complete, the caller's, meant for this project, and no other job's."""
    return (
        upload is not None
        and upload.is_complete
        and upload.owner == caller.id
        and upload.project == project
        and store.one(connection, upload.id) is None
    )


def _cluster(connection: Connection, body: workload_spec.SubmitAny, project: Any) -> str:
    """The project's: no other knows its queue."""
    if body.cluster_id and cluster_of(connection, body.cluster_id) != project.cluster:
        what = f"project {project.name} is in another cluster"
        raise refused(
            422, "cluster.not_the_projects", what, "remove clusterId, or use the project's cluster", "clusterId"
        )
    return str(project.cluster)


@lru_cache(maxsize=4096)
def project_of(document: str) -> ProjectRequest:
    """A project as it was declared; the same text is the same value, which nobody can change."""
    return ProjectRequest.model_validate_json(document)


def new_id(now: Instant) -> WorkloadId:
    """A UUID of version 7: it begins with the moment, so that rows lie on the disk in the order they came."""
    number = (now & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 0x7 << 76
    return WorkloadId(str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62)))


def _name(connection: Connection, body: workload_spec.Submit, project: str) -> str:
    """The name that was given, or the first that is free: `job-0`, `sweep-1`."""
    if body.name is not None and not body.use_given_name_as_prefix:
        return body.name
    prefix = f"{body.name or 'job'}-"
    taken = store.names_like(connection, project, prefix)
    number = next(each for each in range(len(taken) + 1) if f"{prefix}{each}" not in taken)
    return f"{prefix}{number}"


def _no_project(caller: Caller, name: str) -> Refused:
    if caller.may(Action.PROJECT_READ):
        what = f"project {name} was not found. Please run 'runai list project' to view all available projects"
        return refused(404, "project.unknown", what, "use an existing project", "projectId")
    # Whether there is such a project is nothing to tell to somebody who is not in it.
    return denied()


# --- look ----------------------------------------------------------------------------------------------------


@lists.get("/api/v1/workloads", response_model=wire.WorkloadPage, summary="List the workloads you can see")
async def workloads(
    plane: PlaneDep,
    caller: CallerDep,
    filter_by: FilterBy = "",
    search: Search = "",
    sort_by: SortBy = "createdAt",
    sort_order: SortOrder = "asc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
    deleted: Deleted = False,
) -> Response:
    listing = _listing(
        caller, filter_by, search, sort_by, sort_order == "desc", offset=offset, limit=limit, deleted=deleted
    )
    found = await plane.read(lambda connection: store.page(connection, listing))
    following = f',"next":{offset + limit}' if len(found) > limit else ""
    return Response(f'{{"workloads":[{",".join(found[:limit])}]{following}}}', media_type="application/json")


@lists.get("/api/v1/workloads/count", response_model=Count, summary="Count the workloads you can see")
async def workload_count(
    plane: PlaneDep, caller: CallerDep, filter_by: FilterBy = "", search: Search = "", deleted: Deleted = False
) -> Count:
    listing = _listing(caller, filter_by, search, "createdAt", False, deleted=deleted)
    return Count(count=await plane.read(lambda connection: store.count(connection, listing)))


def _listing(caller: Caller, filter_by: str, search: str, sort_by: str, descending: bool, **rest: Any) -> store.Listing:
    conditions = parsed(filter_by, sort_by, FIELDS, WORDS)
    places = caller.places(Action.WORKLOAD_READ)
    return store.Listing(
        filters=tuple(conditions),
        search=search,
        projects=None if places is None else places.projects,
        departments=() if places is None else places.departments,
        sort_by=sort_by,
        descending=descending,
        **rest,
    )


@router.get(
    "/api/v1/workloads/{workload_id}/events", response_model=wire.EventPage, summary="List the events of a workload"
)
async def events(
    workload_id: str, plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.EventPage:
    def unit(connection: Connection) -> wire.EventPage:
        row = _readable(connection, caller, workload_id)
        name, known = json.loads(row.item)["name"], json.loads(row.facts)
        lines = cluster_store.events_of(connection, workload_id, offset, limit + 1)
        listed = [items.event_item(name, line, known) for line in lines[:limit]]
        return wire.EventPage(events=listed, next=offset + limit if len(lines) > limit else None)

    return await plane.read(unit)


@router.get(
    "/api/v1/workloads/{workload_id}/pods", response_model=wire.PodPage, summary="List the current pods of a workload"
)
async def pods(
    workload_id: str, plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.PodPage:
    lives = await plane.read(lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ))
    current = [life for life in lives if life.current]
    following = offset + limit if len(current) > offset + limit else None
    shown = await _with_reports(plane, workload_id, current[offset : offset + limit])
    return wire.PodPage(pods=shown, next=following)


@router.get(
    "/api/v1/workloads/{workload_id}/history",
    response_model=wire.HistoryPage,
    summary="List all pod instances of a workload, past and current",
)
async def history(
    workload_id: str, plane: PlaneDep, caller: CallerDep, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.HistoryPage:
    lives = await plane.read(lambda connection: pod_items_of(connection, caller, workload_id, Action.WORKLOAD_READ))
    following = offset + limit if len(lives) > offset + limit else None
    shown = await _with_reports(plane, workload_id, lives[offset : offset + limit])
    return wire.HistoryPage(history=shown, next=following)


async def _with_reports(plane: Plane, workload_id: str, lives: list[wire.PodItem]) -> list[wire.PodItem]:
    """With what the jobs of the current lives say about themselves; asked where they are, and kept nowhere."""
    told = [life for life in lives if life.current and life.has_log]
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
    row = _readable(connection, caller, workload_id)
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


def _readable(connection: Connection, caller: Caller, workload_id: str) -> Any:
    """What is shown of it, unless the caller may not know of it."""
    row = store.shown(connection, workload_id)
    if row is None or not caller.may(Action.WORKLOAD_READ, row.project, row.department):
        raise unknown("workload", workload_id, is_hidden=row is not None)
    return row


# --- suspend, resume, delete ---------------------------------------------------------------------------------


def _routes_of(kind: workload_spec.Kind | None, base: str, home: APIRouter) -> None:
    """One workload, under the path of its kind and under the path of all."""
    suffix = f" ({kind.value.lower()})" if kind is not None else ""

    async def workload(workload_id: str, plane: PlaneDep, caller: CallerDep) -> Response:
        def unit(connection: Connection) -> Done:
            row = _readable(connection, caller, workload_id)
            if kind is not None and row.kind != kind.value:
                raise unknown(kind.value.lower(), workload_id)
            return Done(body=items.detail(row.item, row.request), revision=row.revision)

        return answered(await plane.read(unit))

    async def suspend(workload_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.SUSPEND)

    async def resume(workload_id: str, request: Request, plane: PlaneDep, caller: CallerDep) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.RESUME)

    async def delete(
        workload_id: str, request: Request, plane: PlaneDep, caller: CallerDep, force: Force = False
    ) -> Response:
        return await _operate(request, plane, caller, workload_id, kind, wire.BatchAction.DELETE, force=force)

    path = base + "/{workload_id}"
    add: Callable[..., None] = home.add_api_route
    add(path, workload, methods=["GET"], response_model=wire.Workload, summary=f"Get a workload{suffix}")
    accepted = {"response_model": wire.Workload, "status_code": 202}
    add(path + "/suspend", suspend, methods=["POST"], summary=f"Suspend a workload: stop its pods{suffix}", **accepted)
    add(path + "/resume", resume, methods=["POST"], summary=f"Resume a workload{suffix}", **accepted)
    add(path, delete, methods=["DELETE"], summary=f"Delete a workload{suffix}", **accepted)


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
    def unit(connection: Connection) -> Done:
        row = operable(connection, caller, workload_id, kind)
        check_match(request, row.revision)
        return operated(plane, connection, row, action, caller.name, force=force)

    return await plane.perform(request, caller, unit)


WANTS = {
    wire.BatchAction.SUSPEND: DesiredState.STOP,
    wire.BatchAction.RESUME: DesiredState.RUN,
    wire.BatchAction.DELETE: DesiredState.DELETE,
}


def operated(
    plane: Plane, connection: Connection, row: Any, action: wire.BatchAction, by: str, *, force: bool = False
) -> Done:
    """Declare what is to become of it, and at whose wish."""
    changed = declarations.set_want(plane, connection, row, WANTS[action], by, force=force)
    now_is = store.shown(connection, row.id)
    assert now_is is not None
    return Done(
        body=items.detail(now_is.item, now_is.request),
        status=202,
        action=_verb(action) if changed else "",
        entity_type="workload",
        entity_id=row.id,
        entity_name=f"{row.project}/{row.name}{' (forced)' if force else ''}",
        revision=now_is.revision,
    )


def _verb(action: wire.BatchAction) -> str:
    """For the audit log."""
    return "delete" if action is wire.BatchAction.DELETE else "update"


def operable(connection: Connection, caller: Caller, workload_id: str, kind: workload_spec.Kind | None) -> Any:
    """The workload, unless the caller may not know of it, or may not do anything to it."""
    row = store.one(connection, workload_id)
    if row is None or row.gone_at is not None or not caller.may(Action.WORKLOAD_READ, row.project, row.department):
        raise unknown("workload", workload_id, is_hidden=row is not None and row.gone_at is None)
    if kind is not None and row.kind != kind.value:
        raise unknown(kind.value.lower(), workload_id)
    caller.require(Action.WORKLOAD_OPERATE, row.project, row.department)
    return row


@router.post(
    "/api/v1/workloads/batch",
    response_model=wire.BatchAnswer,
    summary="Suspend, resume or delete several workloads; each succeeds or fails on its own",
)
async def batch(request: Request, plane: PlaneDep, caller: CallerDep, body: wire.BatchRequest) -> Response:
    def unit(connection: Connection) -> Done:
        done: list[Done] = []
        failed: list[wire.BatchFailure] = []
        refused_ones: list[Done] = []
        for workload_id in dict.fromkeys(body.ids):
            try:
                row = operable(connection, caller, workload_id, None)
                done.append(operated(plane, connection, row, body.action, caller.name, force=body.force))
            except Refused as refusal:
                failed.append(wire.BatchFailure(id=workload_id, code=refusal.status, message=refusal.message))
                if refusal.is_denial:
                    refused_ones.append(
                        Done(action=_verb(body.action), entity_type="workload", entity_id=workload_id, result="Failed")
                    )
        answer = wire.BatchAnswer(succeeded=[each.entity_id for each in done], failed=failed)
        return Done(body=answer, also=(*done, *refused_ones))

    return await plane.perform(request, caller, unit)


@router.patch(
    "/api/v1/workloads/inferences/{workload_id}",
    response_model=wire.Workload,
    status_code=202,
    summary="Update an inference workload",
)
async def update_inference(
    workload_id: str, request: Request, plane: PlaneDep, caller: CallerDep, body: workload_spec.InferenceUpdate
) -> Response:
    """Replaces the fields in `spec`; the others stay as they are."""

    def unit(connection: Connection) -> Done:
        row = operable(connection, caller, workload_id, workload_spec.Kind.INFERENCE)
        check_match(request, row.revision)
        before = json.loads(row.request)
        said = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        merged = claims.as_existing(before["spec"]) | said
        most_s = preferences.chosen(plane.settings, connection, preferences.GRACE)
        if body.spec.termination_grace_period_seconds is None and (merged.get(GRACE_FIELD) or 0) > most_s:
            merged[GRACE_FIELD] = most_s  # declared when more was allowed
        spec_before = declarations.declaration_of(row)
        said_again = workload_spec.SubmitInference(
            name=row.name,
            project_id=row.project,
            command_line=before.get("commandLine", ""),
            spec=workload_spec.InferenceSpec.model_validate(merged),
        )
        again = claims.named(connection, said_again, row.name, row.project)
        assert isinstance(again, workload_spec.SubmitInference)
        project = organization_store.project(connection, row.project)
        assert project is not None, "a project stays as long as it has work"
        # What it waited for at first and the folder that came with it are its own, whatever became of them.
        # What a user of the machine may mount is theirs alone: a change by anybody else is judged as a stranger's.
        own_uid = spec_before.template.program.submitter_uid
        context = replace(
            _ground(plane, connection, again, project),
            submitter_uid=own_uid if caller.uid == own_uid else None,
            work={each.name: each.workload for each in spec_before.after},
            has_upload=again.spec.workdir is not None and again.spec.workdir.upload == row.id,
        )
        spec = admission.admit(again, context, workload_id=spec_before.id, name=row.name, now=spec_before.created_at)
        if isinstance(spec, list):
            raise Refused(422, spec)
        claims.make(connection, again, row.project, caller.name, plane.now())
        return _redeclared(plane, connection, row, again, spec, spec_before)

    return await plane.perform(request, caller, unit)


def _redeclared(
    plane: Plane, connection: Connection, row: Any, again: workload_spec.SubmitInference, spec: Any, before: Any
) -> Done:
    spec = replace(spec, want=before.want, run=before.run)
    facts = items.facts(
        again,
        spec,
        department=row.department,
        cluster=row.cluster,
        submitted_by=row.submitted_by,
        pod_host=plane.settings.pod_host,
    )
    before_facts = json.loads(row.facts)
    facts["source"] = before_facts["source"]
    facts["suspensions"] = before_facts.get("suspensions", [])
    revision = declarations.redeclare(
        plane,
        connection,
        row,
        WorkloadWire.of(spec),
        request=items.details(again, spec, row.submitted_by),
        facts=items.text(facts),
        requested_gpus_milli=admission.requested_gpus_milli(spec),
    )
    now_is = store.shown(connection, row.id)
    assert now_is is not None
    return Done(
        body=items.detail(now_is.item, now_is.request),
        status=202,
        action="update",
        entity_type="workload",
        entity_id=row.id,
        entity_name=f"{row.project}/{row.name}",
        revision=revision,
    )


@router.get("/api/v1/workload-priorities", response_model=wire.PriorityClassPage, summary="List priority classes")
async def priorities(caller: CallerDep) -> wire.PriorityClassPage:
    listed = [wire.PriorityClass(name=name, value=value) for name, value in PRIORITY_CLASSES.items()]
    return wire.PriorityClassPage(workload_priorities=listed)


for _kind_path, _kind in KINDS.items():
    _routes_of(_kind, f"/api/v1/workloads/{_kind_path}", router)
_routes_of(None, "/api/v1/workloads", singles)

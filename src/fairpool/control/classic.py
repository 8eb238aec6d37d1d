"""HTTP routes of the legacy researcher API: jobs and projects, translated to and from the current API."""

from __future__ import annotations

import json
from collections import deque
from functools import partial
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import classic as wire
from fairpool.api import organization as org
from fairpool.api import workload_spec
from fairpool.api import workloads as work
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import ValidationError
from fairpool.control import workloads
from fairpool.control.filters import Filter, Operator
from fairpool.control.plane import ActionResult, Caller, Plane, part_of
from fairpool.control.projects import known_project, visible_projects
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, unknown, validation_problems
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import workload_lists
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.submit import submit as submit_workload

routes = Routes("researcher (legacy)")

JOBS = "/researcher/api/v1/jobs"
EVERYTHING = 1_000_000
NAME_MAX = 1024
TYPES = {"Workspace": "Interactive", "Training": "Train", "Distributed": "Train", "Inference": "Inference"}
FIELDS = {
    "projectId": "project",
    "useGivenNameAsPrefix": "jobNamePrefix",
    "spec.compute.gpu": "gpu",
    "spec.compute.gpuMemoryRequest": "gpuMemory",
    "spec.compute.migProfile": "migProfile",
    "spec.compute.cpuCoreRequest": "cpu",
    "spec.compute.cpuCoreLimit": "cpuLimit",
    "spec.compute.cpuMemoryRequest": "memory",
    "spec.compute.cpuMemoryLimit": "memoryLimit",
    "spec.compute.largeShmRequest": "largeShm",
    "spec.environmentVariables": "environment",
    "spec.storage.hostPath": "volumes",
    "spec.storage.pvc": "pvcs",
    "spec.preemptibility": "preemptible",
    "spec.autoDeletionTimeAfterCompletionSeconds": "ttlAfterFinish",
    "spec.security.hostIpc": "hostIpc",
    "spec.security.hostNetwork": "hostNetwork",
}
"""Legacy names of fields, by their current ones; others only lose their `spec.`."""

Named = Annotated[list[wire.ClassicJobName], Parameter(min_length=1, max_length=1000)]


@routes.get(
    f"{JOBS}/{{project}}",
    action=Action.WORKLOAD_READ,
    answer=list[wire.ClassicJob],
    summary="List the jobs of a project",
)
async def jobs(project: str, plane: Plane, caller: Caller) -> list[wire.ClassicJob]:
    def unit(connection: Connection) -> list[store.Key]:
        known_project(connection, caller, project, Action.WORKLOAD_READ)
        condition = Filter("projectName", Operator.EQUALS, project)
        return workload_lists.page(connection, workload_lists.Listing(filters=(condition,), limit=EVERYTHING))

    found = await workloads.rendered_items(plane, await plane.read(unit))
    return [classic_job(json.loads(each)) for each in found]


@routes.post(JOBS, action=Action.WORKLOAD_SUBMIT, answer=wire.ClassicJob, status=202, summary="Submit a job")
async def submit(request: Request, plane: Plane, caller: Caller, body: wire.ClassicSubmit) -> Response:
    try:
        answer = await submit_workload(request, plane, caller, _newer(body))
    except Refused as refusal:
        raise Refused(refusal.status, [_older(each) for each in refusal.problems], choices=refusal.choices) from refusal
    shown = classic_job(json.loads(bytes(answer.body)))
    return Response(shown.model_dump_json(by_alias=True), answer.status_code, media_type="application/json")


@routes.delete(
    JOBS,
    action=Action.WORKLOAD_DELETE,
    answer=list[wire.ClassicOutcome],
    summary="Delete jobs; each succeeds or fails on its own",
)
async def delete(
    request: Request, plane: Plane, caller: Caller, body: Named, force: workloads.Force = False
) -> Response:
    return await _operate(request, plane, caller, body, work.BatchAction.DELETE, force=force)


@routes.post(
    f"{JOBS}/suspend",
    action=Action.WORKLOAD_UPDATE,
    answer=list[wire.ClassicOutcome],
    summary="Suspend jobs; each succeeds or fails on its own",
)
async def suspend(request: Request, plane: Plane, caller: Caller, body: Named) -> Response:
    return await _operate(request, plane, caller, body, work.BatchAction.SUSPEND)


@routes.post(
    f"{JOBS}/resume",
    action=Action.WORKLOAD_UPDATE,
    answer=list[wire.ClassicOutcome],
    summary="Resume jobs; each succeeds or fails on its own",
)
async def resume(request: Request, plane: Plane, caller: Caller, body: Named) -> Response:
    return await _operate(request, plane, caller, body, work.BatchAction.RESUME)


async def _operate(
    request: Request,
    plane: Plane,
    caller: Caller,
    named: list[wire.ClassicJobName],
    action: work.BatchAction,
    *,
    force: bool = False,
) -> Response:
    waiting = deque(named)
    outcomes: list[wire.ClassicOutcome] = []

    def act(connection: Connection, each: wire.ClassicJobName) -> ActionResult | None:
        """The entry in the audit log."""
        try:
            row = _operable(connection, caller, each, action, force=force)
            done = workloads.operated(plane, connection, row, action, caller.name, force=force)
        except Refused as refusal:
            error = wire.ClassicError(status=refusal.status, message=refusal.message, details=refusal.problems[0].fix)
            outcomes.append(wire.ClassicOutcome(name=each.name, ok=False, error=error))
            return _tried(each, action) if refusal.is_denial else None
        outcomes.append(wire.ClassicOutcome(name=each.name, ok=True))
        return done

    def unit(connection: Connection) -> ActionResult:
        entries = part_of(waiting, partial(act, connection))
        text = ",".join(each.model_dump_json(by_alias=True, exclude_none=True) for each in outcomes)
        return ActionResult(body=None if waiting else f"[{text}]", also=entries, goes_on=bool(waiting))

    return await plane.perform(request, caller, unit)


def _tried(named: wire.ClassicJobName, action: work.BatchAction) -> ActionResult:
    """The audit entry of a denied action."""
    return ActionResult(
        action="delete" if action is work.BatchAction.DELETE else "update",
        entity_type="workload",
        entity_id=f"{named.project}/{named.name}",
        result="Failed",
    )


def _operable(
    connection: Connection, caller: Caller, named: wire.ClassicJobName, action: work.BatchAction, *, force: bool
) -> Any:
    """A job by its name; refuses as unknown if the caller may not see it."""
    found = store.named(connection, named.project, named.name)
    if found is None and force:  # one that is being deleted no longer owns its name
        found = store.leaving(connection, named.project, named.name)
    row = store.one(connection, found) if found is not None else None
    if row is None or not workloads.may_read(caller, row):
        raise unknown("job", f"{named.project}/{named.name}", is_hidden=row is not None)
    return workloads.operable(connection, caller, row.id, None, workloads.NEEDED[action])


@routes.get(
    "/researcher/api/v1/projects",
    action=Action.PROJECT_READ,
    answer=list[wire.ClassicProject],
    summary="List the projects you can use",
)
async def projects(plane: Plane, caller: Caller) -> list[wire.ClassicProject]:
    found = await plane.read_apart(lambda connection: visible_projects(plane, connection, caller))
    return [classic_project(each) for each in found]


def classic_project(project: org.Project) -> wire.ClassicProject:
    """A project with its legacy fields."""
    return wire.ClassicProject(
        name=project.name,
        department_name=project.parent_id,
        deserved_gpus=project.total_resources.gpu_quota,
        interactive_job_time_limit_secs=project.scheduling_rules.interactive_job_time_limit_seconds,
        interactive_node_affinity=project.node_types.workspace,
        train_node_affinity=project.node_types.training,
    )


def classic_job(item: dict[str, Any]) -> wire.ClassicJob:
    """A workload with its legacy fields."""
    return wire.ClassicJob(
        id=item["id"],
        name=item["name"],
        project=item["projectName"],
        user=item["submittedBy"],
        status=item["classicStatus"],
        type=TYPES[item["type"]],
        image=", ".join(item["images"]),
        node=", ".join(item["currentNodes"]),
        requested_gpus=item["workloadRequestedResources"]["gpu"]["request"],
        allocated_gpus=item["allocatedResources"]["gpu"],
        running_pods=item["runningPods"],
        pending_pods=item["pendingPods"],
        service_urls=item["urls"],
        message=item["phaseMessage"],
        created_at=item["createdAt"],
        cluster_id=item["clusterId"],
    )


def _newer(body: wire.ClassicSubmit) -> workload_spec.SubmitAny:
    """The request of the current API, or everything that is wrong with it."""
    problems: list[ProblemItem] = []
    if body.name is not None and body.job_name_prefix is not None:
        what, fix = "name and jobNamePrefix cannot be used together", "remove one of them"
        problems.append(ProblemItem(code="job.two_names", what=what, fix=fix, field="jobNamePrefix"))
    if body.interactive and (body.completions is not None or body.parallelism is not None):
        what, fix = "completions and parallelism apply only to training", "remove them, or remove interactive"
        problems.append(ProblemItem(code="job.not_training", what=what, fix=fix, field="interactive"))
    said: dict[str, Any] = {
        "image": body.image,
        "imagePullPolicy": body.image_pull_policy,
        "command": body.command,
        "args": body.args,
        "workingDir": body.working_dir,
        "environmentVariables": _environment(body.environment, problems),
        "compute": _compute(body),
        "storage": {"hostPath": _mounts(body.volumes, problems), "pvc": _claims(body.pvcs, problems)},
        "nodeType": body.node_type,
        "nodePools": body.node_pools,
        "preemptibility": {None: None, True: "preemptible", False: "non-preemptible"}[body.preemptible],
        "backoffLimit": body.backoff_limit,
        "autoDeletionTimeAfterCompletionSeconds": body.ttl_after_finish,
        "labels": body.labels,
        "annotations": body.annotations,
        "security": _given({"hostIpc": body.host_ipc, "hostNetwork": body.host_network}),
        "stdin": body.stdin,
        "tty": body.tty,
    }
    if problems:
        raise Refused(422, problems)
    head: dict[str, Any] = {
        "name": body.name or body.job_name_prefix,
        "projectId": body.project,
        "useGivenNameAsPrefix": body.job_name_prefix is not None,
        "waitAnyway": body.wait_anyway,
    }
    kind: type[workload_spec.SubmitAny] = workload_spec.SubmitWorkspace
    if not body.interactive:
        kind = workload_spec.SubmitTraining
        said |= {"completions": body.completions, "parallelism": body.parallelism}
    try:
        return kind.model_validate({**head, "spec": _given(said)})
    except ValidationError as error:
        raise Refused(422, validation_problems(error.errors())) from error


def _compute(body: wire.ClassicSubmit) -> dict[str, Any]:
    compute = {
        "gpu": body.gpu,
        "migProfile": body.mig_profile,
        "cpuCoreRequest": body.cpu,
        "cpuCoreLimit": body.cpu_limit,
        "cpuMemoryRequest": body.memory,
        "cpuMemoryLimit": body.memory_limit,
        "largeShmRequest": body.large_shm,
    }
    if body.gpu_memory is not None:
        compute |= {"gpuRequestType": "memory", "gpuMemoryRequest": body.gpu_memory, "gpuDevicesRequest": 1}
    if body.mig_profile is not None:
        compute["gpuRequestType"] = "migProfile"
    return _given(compute)


def _environment(assignments: list[str], problems: list[ProblemItem]) -> list[dict[str, str]]:
    variables = []
    for at, text in enumerate(assignments):
        name, equals, value = text.partition("=")
        if not equals or not name.isprintable() or not 0 < len(name) <= NAME_MAX:
            what = f"{text[:64]!r} is not a valid environment variable"
            problems.append(_wrong("job.environment", what, "use NAME=VALUE", f"environment.{at}"))
        else:
            variables.append({"name": name, "value": value})
    return variables


def _mounts(texts: list[str], problems: list[ProblemItem]) -> list[dict[str, Any]]:
    mounts = []
    for at, text in enumerate(texts):
        parts = text.split(":")
        paths, mode = parts[:2], parts[2:]
        if len(paths) < 2 or not all(path.startswith("/") for path in paths) or mode not in ([], ["ro"], ["rw"]):
            what = f"{text[:64]!r} is not a valid volume"
            problems.append(
                _wrong("job.volume", what, "use /path/on/node:/path/in/job, optionally with :ro", f"volumes.{at}")
            )
        else:
            mounts.append({"path": paths[0], "mountPath": paths[1], "readOnly": mode == ["ro"]})
    return mounts


def _claims(texts: list[str], problems: list[ProblemItem]) -> list[dict[str, Any]]:
    claims = []
    for at, text in enumerate(texts):
        name, _, path = text.partition(":")
        if not name or not path.startswith("/") or len(name) > 256:
            problems.append(
                _wrong("job.pvc", f"{text[:64]!r} is not a valid claim mount", "use claim:/path/in/job", f"pvcs.{at}")
            )
        else:
            claims.append({"claimName": name, "path": path})
    return claims


def _given(said: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in said.items() if value is not None}


def _wrong(code: str, what: str, fix: str, field: str) -> ProblemItem:
    return ProblemItem(code=code, what=what, fix=fix, field=field)


def _older(problem: ProblemItem) -> ProblemItem:
    field = problem.field or ""
    known = next((name for name in FIELDS if field == name or field.startswith(f"{name}.")), None)
    shown = FIELDS[known] + field[len(known) :] if known is not None else field.removeprefix("spec.")
    return problem.model_copy(update={"field": shown or None})

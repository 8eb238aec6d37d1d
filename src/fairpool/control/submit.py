"""HTTP routes that submit workloads: from the request to the stored declaration."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import workload_spec
from fairpool.api import workloads as wire
from fairpool.api.problems import problem_item
from fairpool.api.questions import StartForecast
from fairpool.control import (
    admission,
    claims,
    config_maps,
    declarations,
    external_ports,
    items,
    preferences,
    submit_values,
)
from fairpool.control.cluster_equipment import equipment_of
from fairpool.control.credential_checks import credential_uses
from fairpool.control.credentials import known_credentials
from fairpool.control.directory_user import as_submitter, with_directory_user
from fairpool.control.feasibility import never_starts
from fairpool.control.organization import cluster_of, effective_project, pool_names, pool_view, topologies_in
from fairpool.control.placement_request import permitted_types
from fairpool.control.plane import ActionResult, Caller, Plane, answered
from fairpool.control.questions import forecast
from fairpool.control.rbac import Action, for_kind
from fairpool.control.refusal import Refused, denied, refused
from fairpool.control.reported_nodes import ReportedNodes, reported_nodes
from fairpool.control.routes import Parameter, Routes
from fairpool.control.storage_request import StorageContext, named_config_maps
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.upload_lookup import find_upload
from fairpool.control.workload_documents import WorkloadDeclaration
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.node import DEFAULT_POOL, NODE_TYPE_LABEL
from fairpool.model.problem import Problem
from fairpool.model.spec import WorkloadSpec
from fairpool.model.upload import Upload
from fairpool.model.workload import WorkloadKind

routes = Routes("workloads")


DRY_RUN = "Validate only, and say whether it would start now; nothing is changed"
DryRun = Annotated[
    bool,
    Parameter(alias="dryRun", description=DRY_RUN),
]


@routes.post(
    "/api/v1/workloads/workspaces",
    action=Action.WORKSPACE_CREATE,
    answer=wire.Workload,
    status=202,
    summary="Submit an interactive workspace",
)
async def submit_workspace(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitWorkspace, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@routes.post(
    "/api/v1/workloads/trainings",
    action=Action.TRAINING_CREATE,
    answer=wire.Workload,
    status=202,
    summary="Submit a training workload",
)
async def submit_training(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitTraining, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@routes.post(
    "/api/v1/workloads/distributed",
    action=Action.TRAINING_CREATE,
    answer=wire.Workload,
    status=202,
    summary="Submit a distributed training workload",
)
async def submit_distributed(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitDistributed, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


@routes.post(
    "/api/v1/workloads/inferences",
    action=Action.INFERENCE_CREATE,
    answer=wire.Workload,
    status=202,
    summary="Submit an inference workload",
)
async def submit_inference(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitInference, dry_run: DryRun = False
) -> Response:
    return await submit(request, plane, caller, body, dry_run=dry_run)


async def submit(
    request: Request, plane: Plane, caller: Caller, body: workload_spec.SubmitAny, *, dry_run: bool = False
) -> Response:
    """Declare a workload; the answer means it is on disk. A dry run gives the same answer and changes nothing."""
    workdir = body.spec.workdir
    held = await find_upload(plane, workdir.upload) if workdir is not None else None
    upload = held.upload if held is not None else None

    def prepared(connection: Connection) -> Admitted:
        project = organization_store.project(connection, body.project_id)
        needed = for_kind(Action.WORKLOAD_SUBMIT, admission.KIND_OF_SUBMIT[type(body)].value)
        if project is None or not caller.may(needed, project.name, project.department, project.cluster):
            raise _no_project(caller, body.project_id)
        if project.phase != "Ready":
            raise refused(
                409, "project.deleting", f"project {project.name} is being deleted", "use another project", "projectId"
            )
        return _prepared(plane, connection, caller, body, project, upload)

    if dry_run:
        return await _tried(plane, await plane.read(prepared))
    return await plane.perform(request, caller, lambda connection: _declared(plane, connection, prepared(connection)))


@dataclass(frozen=True, slots=True)
class Admitted:
    """A workload that is admitted and not stored yet."""

    body: workload_spec.SubmitAny
    spec: WorkloadSpec
    declaration: WorkloadDeclaration
    values: dict[str, Any]
    """Other columns of its row."""


async def _tried(plane: Plane, prepared: Admitted) -> Response:
    """What submitting it would answer, and whether it would start now."""
    row = declarations.new_row(prepared.spec, prepared.declaration, **prepared.values, revision=0) | {"id": ""}
    text = items.new_detail_text(SimpleNamespace(**row), prepared.declaration)
    if not prepared.body.suspended:
        text = with_forecast(text, await forecast(plane, prepared.values["cluster"], prepared.spec))
    return answered(ActionResult(body=text))


def with_forecast(text: str, coming: StartForecast) -> str:
    return f'{text[:-1]},"forecast":{coming.model_dump_json(by_alias=True, exclude_none=True)}}}'


def _prepared(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    body: workload_spec.SubmitAny,
    project: Any,
    upload: Upload | None,
) -> Admitted:
    filled = submit_values.filled(connection, as_submitter(connection, caller, body), project)
    with submit_values.naming_origins(filled):
        resolved = as_submitter(connection, caller, filled.body)
        if resolved is not filled.body:  # a template, an asset or a policy asks for the user of the submitter
            submit_values.refuse_user_against_policies(connection, resolved, project)
        return _admitted_values(plane, connection, caller, replace(filled, body=resolved), project, upload)


def _admitted_values(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    filled: submit_values.Filled,
    project: Any,
    upload: Upload | None,
) -> Admitted:
    name = _name(connection, filled.body, project.name)
    body = claims.with_claim_names(connection, filled.body, name, project.name)
    nodes = reported_nodes(plane, connection, project.cluster)
    spec = _admitted(plane, connection, caller, body, name, project, nodes, upload)
    cluster = _cluster(connection, body, project)
    if not body.wait_anyway:
        refuse_what_never_starts(plane, connection, spec, project, nodes)
    external = external_ports.assigned(plane, connection, body)
    host = external_ports.host_of_ports(plane, connection, cluster) if external else ""
    declaration = items.declaration(body, spec, pod_host=host, external_ports=external, origins=filled.origins)
    if body.suspended:
        declaration = declaration.suspended(caller.name, spec.created_at)
    values = {
        "kind": admission.KIND_OF_SUBMIT[type(body)].value,
        "department": project.department,
        "cluster": cluster,
        "submitted_by": caller.name,
    }
    return Admitted(body, spec, declaration, values)


def _declared(plane: Plane, connection: Connection, prepared: Admitted) -> ActionResult:
    spec = prepared.spec
    row = declarations.declare(plane, connection, spec, prepared.declaration, **prepared.values)
    if prepared.declaration.external_ports:
        pairs, cluster = prepared.declaration.external_ports, prepared.values["cluster"]
        external_ports.open_when_committed(plane, connection, spec.id, cluster, pairs)
    values = prepared.values
    claims.make(
        connection,
        prepared.body,
        spec.project,
        workload=spec.id,
        cluster=values["cluster"],
        by=values["submitted_by"],
        now=spec.created_at,
    )
    return ActionResult(
        body=items.new_detail_text(row, prepared.declaration),
        status=202,
        action="create",
        entity_type="workload",
        entity_id=spec.id,
        entity_name=f"{spec.project}/{spec.name}",
        revision=row.revision,
    )


def _admitted(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    body: workload_spec.SubmitAny,
    name: str,
    project: Any,
    nodes: ReportedNodes,
    upload: Upload | None,
) -> WorkloadSpec:
    """The declared workload; refuses with everything that is wrong."""
    now = plane.now()
    has_upload = _is_own_upload(connection, caller, project.name, upload)
    # A user id says nothing on another machine: there it may be anyone's.
    uid = caller.uid if project.cluster == plane.cluster_beside else None
    context = replace(submit_context(plane, connection, body, project, nodes, has_upload=has_upload), submitter_uid=uid)
    # An upload is stored under the id of its workload.
    workload_id = WorkloadId(upload.id) if upload is not None else new_id(now)
    spec = admission.admit(body, context, workload_id=workload_id, name=name, now=now)
    spec = spec if isinstance(spec, list) else with_directory_user(plane, connection, caller, spec)
    taken = declarations.name_taken(name) if store.is_taken(connection, f"{project.name}/{name}") else None
    if isinstance(spec, list):
        raise Refused(422, [*spec, *(taken.problems if taken is not None else ())])
    if taken is not None:
        raise taken
    return spec


def refuse_what_never_starts(
    plane: Plane, connection: Connection, spec: WorkloadSpec, project: Any, nodes: ReportedNodes
) -> None:
    pools = spec.pools or (DEFAULT_POOL,)
    topologies = topologies_in(connection) if spec.constraint is not None else ()
    problems = never_starts(spec, [pool_view(plane, connection, project, nodes, pool) for pool in pools], topologies)
    if problems:
        permitted = permitted_types(
            effective_project(connection, project), is_workspace=spec.kind is WorkloadKind.BUILD
        )
        problems = [_with_types_of_project(each, project.name, permitted) for each in problems]
        raise Refused(422, [problem_item(each, "spec") for each in problems])


def _with_types_of_project(problem: Problem, project: str, permitted: Sequence[str]) -> Problem:
    """A missing node type that the user did not ask for is the project's."""
    if not permitted or problem.code != "node.none_matches" or NODE_TYPE_LABEL not in problem.what:
        return problem
    return replace(problem, what=f"{problem.what}; project {project} may only use nodes of type {', '.join(permitted)}")


def submit_context(
    plane: Plane,
    connection: Connection,
    body: workload_spec.SubmitAny,
    project: Any,
    nodes: ReportedNodes,
    *,
    has_upload: bool = False,
) -> admission.AdmissionContext:
    declared = effective_project(connection, project)
    are_pools_named = bool(body.spec.node_pools or declared.default_node_pools)
    named = {said.partition(":")[0] for said in body.spec.after}
    context = admission.AdmissionContext(
        project=declared,
        pools=pool_names(connection, project.cluster) if are_pools_named else frozenset(),
        images=nodes.images,
        storage=_storage_context(plane, connection, body.spec, project),
        has_containers=nodes.has_containers,
        directory_users=nodes.directory_users,
        credentials=known_credentials(plane, connection, project, {use.name for use in credential_uses(body)}),
        work={name: found for name in named if (found := _named(connection, project.name, name)) is not None},
        has_upload=has_upload,
    )
    if body.spec.topology is not None:
        topologies = topologies_in(connection)
        context = replace(
            context,
            topologies={each.name: each.levels for each in topologies},
            unmatched_topologies=nodes.unmatched(topologies),
        )
    if body.spec.termination_grace_period_seconds is None:
        return context
    return replace(context, grace_most_s=preferences.current_value(plane.settings, connection, preferences.GRACE))


def _storage_context(
    plane: Plane, connection: Connection, spec: workload_spec.CommonSpec, project: Any
) -> StorageContext:
    """What the submit needs of it: most name no storage at all."""
    storage, settings = spec.storage, plane.settings
    context = StorageContext(config_maps=config_maps.contents(connection, project.name, named_config_maps(spec)))
    if storage.pvc:
        there = equipment_of(connection, project.cluster)
        others = there.claims.get(project.name, ()) if there is not None else ()
        context = replace(context, claims=claims.known_claims(connection, project.name, others))
        if there is not None:
            has_default = bool(there.default_class)
            context = replace(context, storage_classes=tuple(there.storage_classes), has_default_class=has_default)
    if storage.host_path or storage.git or spec.python_env:
        context = replace(context, roots=preferences.host_roots(settings, connection))
    if storage.git:
        size_mib = preferences.current_value(settings, connection, preferences.GIT_SIZE)
        timeout_s = preferences.current_value(settings, connection, preferences.GIT_TIMEOUT)
        context = replace(context, git_timeout_s=timeout_s, git_size_bytes=size_mib << 20)
    return context


def _named(connection: Connection, project: str, name: str) -> WorkloadId | None:
    """A workload of the project, by its name or its id."""
    found = store.named(connection, project, name)
    if found is None:
        row = store.one(connection, name)
        found = row.id if row is not None and row.project == project and row.deleted_at is None else None
    return None if found is None else WorkloadId(found)


def _is_own_upload(connection: Connection, caller: Caller, project: str, upload: Upload | None) -> bool:
    """Whether the upload is complete, the caller's own, for this project, and not used by another workload."""
    return (
        upload is not None
        and upload.is_complete
        and upload.owner == caller.id
        and upload.project == project
        and store.one(connection, upload.id) is None
    )


def _cluster(connection: Connection, body: workload_spec.SubmitAny, project: Any) -> str:
    """The project's cluster: only that one has its queue."""
    if body.cluster_id and cluster_of(connection, body.cluster_id) != project.cluster:
        what = f"project {project.name} is in another cluster"
        raise refused(
            422, "cluster.not_the_projects", what, "remove clusterId, or use the project's cluster", "clusterId"
        )
    return str(project.cluster)


def new_id(now: Instant) -> WorkloadId:
    """A UUID of version 7: it starts with the time, so that rows are stored in order of creation."""
    number = (now & (1 << 48) - 1) << 80 | int.from_bytes(os.urandom(10))
    number = number & ~(0xF << 76) | 0x7 << 76
    return WorkloadId(str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62)))


def _name(connection: Connection, body: workload_spec.Submit, project: str) -> str:
    """The given name, or the first free one: `job-0`, `sweep-1`."""
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
    # A caller without access must not learn whether the project exists.
    return denied()

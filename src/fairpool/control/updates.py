"""HTTP routes that change workloads: the same checks as a submit, and what can be changed when (`update_rules`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import workload_spec
from fairpool.api import workloads as wire
from fairpool.api.problems import ProblemItem
from fairpool.api.wire import ValidationError, compact
from fairpool.control import admission, claims, declarations, external_ports, items, preferences, submit_values
from fairpool.control.directory_user import require_own_if_directory_user, user_of_submitter, with_directory_user
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.questions import forecast
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, validation_problems
from fairpool.control.reported_nodes import reported_nodes
from fairpool.control.resource_request import requested_gpus_milli
from fairpool.control.routes import Routes
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.submit import DryRun, refuse_what_never_starts, submit_context, with_forecast
from fairpool.control.template_values import SPECS
from fairpool.control.update_rules import AT_ONCE, ChangeWindow, FieldChanges, change_window
from fairpool.control.workload_columns import of_run
from fairpool.control.workload_documents import WorkloadDeclaration, declaration_of, report_of
from fairpool.control.workloads import operable
from fairpool.model.spec import DesiredState, WorkloadSpec

routes = Routes("workloads")

GRACE_FIELD = "terminationGracePeriodSeconds"
SUBMITS: dict[workload_spec.Kind, type[Any]] = {kind: submit for submit, kind in admission.KIND_OF_SUBMIT.items()}
Update = (
    workload_spec.WorkspaceUpdate
    | workload_spec.TrainingUpdate
    | workload_spec.DistributedUpdate
    | workload_spec.InferenceUpdate
)


@routes.patch(
    "/api/v1/workloads/workspaces/{workload_id}",
    action=Action.WORKSPACE_UPDATE,
    answer=wire.Workload,
    status=202,
    summary="Update a workspace",
)
async def update_workspace(
    workload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    body: workload_spec.WorkspaceUpdate,
    dry_run: DryRun = False,
) -> Response:
    """Replaces the fields in `spec`; the others stay as they are."""
    return await _update(request, plane, caller, workload_id, workload_spec.Kind.WORKSPACE, body, dry_run=dry_run)


@routes.patch(
    "/api/v1/workloads/trainings/{workload_id}",
    action=Action.TRAINING_UPDATE,
    answer=wire.Workload,
    status=202,
    summary="Update a training workload",
)
async def update_training(
    workload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    body: workload_spec.TrainingUpdate,
    dry_run: DryRun = False,
) -> Response:
    """Replaces the fields in `spec`; the others stay as they are."""
    return await _update(request, plane, caller, workload_id, workload_spec.Kind.TRAINING, body, dry_run=dry_run)


@routes.patch(
    "/api/v1/workloads/distributed/{workload_id}",
    action=Action.TRAINING_UPDATE,
    answer=wire.Workload,
    status=202,
    summary="Update a distributed training workload",
)
async def update_distributed(
    workload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    body: workload_spec.DistributedUpdate,
    dry_run: DryRun = False,
) -> Response:
    """Replaces the fields in `spec`; the others stay as they are."""
    return await _update(request, plane, caller, workload_id, workload_spec.Kind.DISTRIBUTED, body, dry_run=dry_run)


@routes.patch(
    "/api/v1/workloads/inferences/{workload_id}",
    action=Action.INFERENCE_UPDATE,
    answer=wire.Workload,
    status=202,
    summary="Update an inference workload",
)
async def update_inference(
    workload_id: str,
    request: Request,
    plane: Plane,
    caller: Caller,
    body: workload_spec.InferenceUpdate,
    dry_run: DryRun = False,
) -> Response:
    """Replaces the fields in `spec`; the others stay as they are."""
    return await _update(request, plane, caller, workload_id, workload_spec.Kind.INFERENCE, body, dry_run=dry_run)


async def _update(
    request: Request,
    plane: Plane,
    caller: Caller,
    workload_id: str,
    kind: workload_spec.Kind,
    body: Update,
    *,
    dry_run: bool,
) -> Response:
    def admitted(connection: Connection) -> AdmittedChange:
        row = operable(connection, caller, workload_id, kind, Action.WORKLOAD_UPDATE)
        require_own_if_directory_user(caller, row)
        check_match(request, row.revision)
        return _readmitted(plane, connection, caller, body, row, kind)

    def unit(connection: Connection) -> ActionResult:
        found = admitted(connection)
        row = found.row
        about = {"workload": row.id, "cluster": row.cluster, "by": caller.name, "now": plane.now()}
        claims.make(connection, found.again, row.project, **about)
        return _redeclared(plane, connection, found)

    if dry_run:
        return await _tried(plane, await plane.read(admitted))
    return await plane.perform(request, caller, unit)


@dataclass(frozen=True, slots=True)
class AdmittedChange:
    """A workload with changes that are admitted and not stored yet."""

    row: Any
    before: WorkloadDeclaration
    said: frozenset[str]
    """The fields that the request sets."""
    again: workload_spec.SubmitAny
    spec: WorkloadSpec
    changes: FieldChanges
    ports: external_ports.Pairs
    """Its external ports."""
    port_host: str
    """Where they are."""


def _readmitted(
    plane: Plane, connection: Connection, caller: Caller, body: Update, row: Any, kind: workload_spec.Kind
) -> AdmittedChange:
    before = declaration_of(row)
    spec_before = before.workload.to_spec()
    window = _window(row, spec_before)
    said = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if "security" in said:
        security = user_of_submitter(connection, caller, body.spec.security)
        said["security"] = security.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if not said:
        raise refused(422, "workload.no_change", "the request changes nothing", "set the fields to change in spec")
    project = organization_store.project(connection, row.project)
    assert project is not None, "a project stays as long as it has work"
    was = claims.as_existing(before.request)
    merged = submit_values.updated(connection, said, was | said, project, kind)
    most_s = preferences.current_value(plane.settings, connection, preferences.GRACE)
    if GRACE_FIELD not in said and (merged.get(GRACE_FIELD) or 0) > most_s:
        merged[GRACE_FIELD] = most_s  # declared when more was allowed
    changes = FieldChanges(row.name, kind, window, _changed(kind, was, merged))
    again = _request(connection, row, kind, before, merged)
    if changes.fields <= AT_ONCE:
        nodes = reported_nodes(plane, connection, project.cluster)
        admitted = admission.admit_at_once(
            again, spec_before, changes.fields, grace_most_s=most_s, has_containers=nodes.has_containers
        )
    else:
        admitted = _admitted(plane, connection, caller, again, row, project, spec_before, changes)
    if isinstance(admitted, list):
        raise Refused(422, admitted)
    spec = admitted
    if problems := changes.problems(spec_before, spec):
        raise Refused(409, problems)
    if changes.may_keep_it_from_starting and not body.wait_anyway:
        refuse_what_never_starts(plane, connection, spec, project, reported_nodes(plane, connection, project.cluster))
    ports = before.external_ports
    if "ports" in changes.fields:
        held = external_ports.held_ports(SPECS[kind].model_validate(was).ports, ports)
        ports = external_ports.assigned(plane, connection, again, workload=row.id, held=held)
    host = external_ports.host_of_ports(plane, connection, row.cluster) if ports else ""
    return AdmittedChange(row, before, frozenset(said), again, spec, changes, ports, host)


def _window(row: Any, spec: WorkloadSpec) -> ChangeWindow:
    window = change_window(spec.desired_state, of_run(report_of(row), row.run))
    if window is ChangeWindow.DELETING:
        raise refused(409, "workload.being_deleted", f"{row.name} is being deleted", "submit it again")
    if window is ChangeWindow.COMPLETED:
        raise refused(409, "workload.completed", f"{row.name} has completed", "to run it again, submit it again")
    return window


def _changed(kind: workload_spec.Kind, was: dict[str, Any], merged: dict[str, Any]) -> frozenset[str]:
    """The fields that are different afterwards, with their defaults filled in."""
    try:
        old, new = (SPECS[kind].model_validate(each).model_dump(mode="json", by_alias=True) for each in (was, merged))
    except ValidationError as error:
        raise Refused(422, validation_problems(error.errors())) from error
    return frozenset(name for name, value in new.items() if value != old[name])


def _request(
    connection: Connection,
    row: Any,
    kind: workload_spec.Kind,
    before: WorkloadDeclaration,
    merged: dict[str, Any],
) -> workload_spec.SubmitAny:
    """As it would have been submitted."""
    said: workload_spec.SubmitAny = SUBMITS[kind](
        name=row.name,
        project_id=row.project,
        command_line=before.command_line,
        spec=SPECS[kind].model_validate(merged),
    )
    return claims.with_claim_names(connection, said, row.name, row.project)


def _admitted(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    again: workload_spec.SubmitAny,
    row: Any,
    project: Any,
    before: WorkloadSpec,
    changes: FieldChanges,
) -> WorkloadSpec | list[ProblemItem]:
    # Its dependencies and its upload were admitted before; they may be gone by now, and so may its image.
    # Host paths depend on the submitting user: a change by another user is admitted without that user's rights.
    own_uid = before.template.program.submitter_uid
    context = submit_context(plane, connection, again, project, reported_nodes(plane, connection, project.cluster))
    context = replace(
        context,
        submitter_uid=own_uid if caller.uid == own_uid else None,
        work={each.name: each.workload for each in before.after},
        has_upload=again.spec.workdir is not None and again.spec.workdir.upload == row.id,
        images=context.images if changes.fields & {"image", "masterSpec"} else None,
    )
    spec = admission.admit(again, context, workload_id=before.id, name=row.name, now=before.created_at)
    spec = spec if isinstance(spec, list) else with_directory_user(plane, connection, caller, spec, row.submitted_by)
    if isinstance(spec, list):
        return spec
    return replace(spec, desired_state=before.desired_state, run=before.run)


async def _tried(plane: Plane, found: AdmittedChange) -> Response:
    """What the change would answer, and whether it would start now if it waits."""
    declaration = _declaration(found)
    gpus = requested_gpus_milli(found.spec)
    row = SimpleNamespace(**(found.row._asdict() | {"requested_gpus_milli": gpus}))
    text = _with_warnings(items.changed_detail_text(row, declaration, plane.settings.gateway), found.changes)
    if found.spec.desired_state is DesiredState.RUN and found.changes.window is not ChangeWindow.RUNNING:
        text = with_forecast(text, await forecast(plane, found.row.cluster, found.spec))
    return answered(ActionResult(body=text))


def _declaration(found: AdmittedChange) -> WorkloadDeclaration:
    declaration = items.declaration(found.again, found.spec, pod_host=found.port_host, external_ports=found.ports)
    before = found.before
    kept = tuple((path, origin) for path, origin in before.origins if path.partition(".")[0] not in found.said)
    changed = tuple(sorted({*before.changed_fields, *found.changes.fields}))
    own = {
        "source": before.source,
        "suspensions": before.suspensions,
        "origins": kept,
        "changed_fields": changed,
        "reported_problem": before.reported_problem,
        "reported_addresses": before.reported_addresses if found.ports == before.external_ports else (),
    }
    return declaration.model_copy(update=own)


def _redeclared(plane: Plane, connection: Connection, found: AdmittedChange) -> ActionResult:
    row = found.row
    external_ports.open_when_committed(plane, connection, row.id, row.cluster, found.ports)
    revision = declarations.redeclare(plane, connection, row, _declaration(found), found.spec)
    now_is = store.one(connection, row.id)
    assert now_is is not None
    return ActionResult(
        body=_with_warnings(items.detail_text(now_is, plane.settings.gateway), found.changes),
        status=202,
        action="update",
        entity_type="workload",
        entity_id=row.id,
        entity_name=f"{row.project}/{row.name}",
        revision=revision,
    )


def _with_warnings(text: str, changes: FieldChanges) -> str:
    warnings = changes.warnings()
    return f'{text[:-1]},"warnings":{compact(warnings)}}}' if warnings else text

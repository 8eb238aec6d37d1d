"""Declared workloads: new ones, changes of their desired state and project, and what their cluster reports.

Every change of a workload's row is made here, under a new revision.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from fairpool.api.clusters import Over, WorkloadReport
from fairpool.control.notification_outbox import note_change
from fairpool.control.refusal import Refused, refused
from fairpool.control.resource_request import requested_gpus_milli
from fairpool.control.store import changes, holdings, usage
from fairpool.control.store import organization as organization_store
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.control.usage_intake import hand_over
from fairpool.control.workload_columns import column_values, urls
from fairpool.control.workload_documents import WorkloadDeclaration, declaration_of, report_of
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase

if TYPE_CHECKING:
    from fairpool.control.plane import Plane


def new_row(spec: WorkloadSpec, declaration: WorkloadDeclaration, **values: Any) -> dict[str, Any]:
    """The row of a new workload; `values` are its kind, department, cluster, user and revision."""
    return {
        "id": spec.id,
        "name": spec.name,
        "name_key": f"{spec.project}/{spec.name}",
        "project": spec.project,
        "created_at": spec.created_at,
        "requested_gpus_milli": requested_gpus_milli(spec),
        "desired_state": spec.desired_state.value,
        "run": spec.run,
        "declaration": declaration.to_json(),
        "report": None,
        "report_revision": 0,
        "deleted_at": None,
        "urls": None,
        **column_values(declaration, None),
        **values,
    }


def declare(
    plane: Plane, connection: Connection, spec: WorkloadSpec, declaration: WorkloadDeclaration, **values: Any
) -> Any:
    """A new workload, whose name is not taken; its row."""
    now, kept = spec.created_at, plane.settings.changes_kept
    revision = changes.record(connection, "workload", spec.id, "created", now, project=spec.project, kept=kept)
    row = new_row(spec, declaration, **values, revision=revision)
    store.add(connection, row, declaration.labels)
    return SimpleNamespace(**row)


def name_taken(name: str) -> Refused:
    what = f"the job {name} already exists, please delete it first (use 'runai delete {name}')"
    return refused(409, "workload.exists", what, "choose another name, or delete it first", "name")


VERBS = {DesiredState.STOP: "suspended", DesiredState.DELETE: "deleted"}


def set_desired_state(
    plane: Plane, connection: Connection, row: Any, desired: DesiredState, by: str = "", *, force: bool = False
) -> bool:
    """Run, stop or delete it, as `by` asked; False: it is so already. `force`: delete it without grace, which
    is declared as such, so that it can be asked for when it is being deleted already."""
    declaration = declaration_of(row)
    spec = declaration.workload
    if desired is DesiredState.DELETE and force and spec.grace_s > 0:
        _declare(plane, connection, row, _with(declaration, desired_state=desired, grace_s=0), VERBS[desired])
        return True
    if spec.desired_state is DesiredState.DELETE:
        if desired is DesiredState.DELETE:
            return False
        what = f"{row.name} is being deleted"
        raise refused(409, "workload.being_deleted", what, "submit it again")
    if desired is DesiredState.RUN:
        return _resume(plane, connection, row, declaration)
    if spec.desired_state is desired:
        return False
    if desired is DesiredState.STOP and by:
        declaration = declaration.suspended(by, plane.now())
    _declare(plane, connection, row, _with(declaration, desired_state=desired), VERBS[desired])
    return True


def move(plane: Plane, connection: Connection, row: Any, project: Any) -> None:
    """It goes on in another project."""
    # Users who see only the project it leaves must learn that it left.
    kept = plane.settings.changes_kept
    changes.record(connection, "workload", row.id, "moved", plane.now(), project=row.project, declared=False, kept=kept)
    department = organization_store.department(connection, project.department)
    hand_over(connection, usage.open_of(connection, workload=row.id), plane.now(), project, department)
    moved = _with(declaration_of(row), project=project.name)
    _declare(plane, connection, row, moved, "moved", project=project.name, department=project.department)


def follow_department(plane: Plane, connection: Connection, project: str, department: str) -> None:
    """The work in a project goes with it to another department. What is gone keeps the names that it had."""
    plane.forget_feed_when_committed()
    now, kept = plane.now(), plane.settings.changes_kept
    for workload in store.existing_in(connection, project):
        revision = changes.record(
            connection, "workload", workload, "updated", now, project=project, declared=False, kept=kept
        )
        store.change(connection, workload, department=department, revision=revision)
    store.set_department(connection, project, department)
    owner = organization_store.project(connection, project)
    above = organization_store.department(connection, department)
    hand_over(connection, usage.open_of(connection, project=project), now, owner, above)


def redeclare(
    plane: Plane, connection: Connection, row: Any, declaration: WorkloadDeclaration, spec: WorkloadSpec
) -> int:
    """A changed declaration; its revision."""
    if declaration.labels != declaration_of(row).labels:
        store.set_labels(connection, row.id, declaration.labels)
    requested = requested_gpus_milli(spec)
    return _declare(plane, connection, row, declaration, "updated", requested_gpus_milli=requested)


def observe(
    plane: Plane, connection: Connection, row: Any, report: WorkloadReport | None, document: str | None
) -> None:
    """What its cluster reported; `document` is the report as text. None: it reports nothing about it any more."""
    now, kept = plane.now(), plane.settings.changes_kept
    number = changes.record(
        connection, "workload", row.id, "observed", now, project=row.project, declared=False, kept=kept
    )
    holdings.replace(connection, row.cluster, row.id, report.pods if report is not None else (), now)
    state = _state(declaration_of(row), report)
    if report is not None:
        note_change(connection, row, state["phase"], report.reason, report.since, now)
    store.change(connection, row.id, report=document, report_revision=number, **state)


def set_reported_equipment(
    plane: Plane, connection: Connection, row: Any, addresses: tuple[str, ...], problem: str
) -> None:
    """Where its cluster says that it is reached now, and what is wrong with its objects."""
    now, kept = plane.now(), plane.settings.changes_kept
    number = changes.record(
        connection, "workload", row.id, "observed", now, project=row.project, declared=False, kept=kept
    )
    declaration = declaration_of(row).model_copy(update={"reported_addresses": addresses, "reported_problem": problem})
    state = _state(declaration, report_of(row))
    store.change(connection, row.id, declaration=declaration.to_json(), report_revision=number, **state)


def forget(plane: Plane, connection: Connection, row: Any) -> None:
    """Its cluster reported that nothing is left of it: it becomes history."""
    now, kept = plane.now(), plane.settings.changes_kept
    revision = changes.record(connection, "workload", row.id, "gone", now, project=row.project, kept=kept)
    state = column_values(declaration_of(row), report_of(row), is_deleted=True)
    store.mark_deleted(connection, row.id, deleted_at=now, revision=revision, **state)


def _state(declaration: WorkloadDeclaration, last: WorkloadReport | None) -> dict[str, Any]:
    """All columns that follow from declaration and report."""
    state = column_values(declaration, last)
    return {**state, "urls": urls(declaration, state)}


def is_to_run(row: Any) -> bool:
    """Whether it runs, or waits for its turn: to resume it changes nothing."""
    return declaration_of(row).workload.desired_state is DesiredState.RUN and not _ended(row)


def _ended(row: Any) -> Over | None:
    """How its current run ended; None: it did not."""
    report = report_of(row)
    over = Over.of_report(report) if report is not None else None
    return over if over is not None and over.run == declaration_of(row).workload.run else None


def _resume(plane: Plane, connection: Connection, row: Any, declaration: WorkloadDeclaration) -> bool:
    spec, over = declaration.workload, _ended(row)
    if is_to_run(row):
        return False
    if over is not None and over.phase is WorkloadPhase.COMPLETED:
        raise refused(409, "workload.completed", f"{row.name} has completed", "to run it again, submit it again")
    _declare(plane, connection, row, _with(declaration, desired_state=DesiredState.RUN, run=spec.run + 1), "resumed")
    return True


def _with(declaration: WorkloadDeclaration, **fields: Any) -> WorkloadDeclaration:
    return declaration.changed(declaration.workload.model_copy(update=fields))


def _declare(
    plane: Plane, connection: Connection, row: Any, declaration: WorkloadDeclaration, verb: str, **values: Any
) -> int:
    spec = declaration.workload
    revision = changes.record(
        connection, "workload", row.id, verb, plane.now(), project=spec.project, kept=plane.settings.changes_kept
    )
    store.change(
        connection,
        row.id,
        declaration=declaration.to_json(),
        desired_state=spec.desired_state.value,
        run=spec.run,
        name_key=None if spec.desired_state is DesiredState.DELETE else f"{spec.project}/{spec.name}",
        revision=revision,
        **_state(declaration, report_of(row)),
        **values,
    )
    return revision

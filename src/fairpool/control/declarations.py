"""Declared workloads: new ones, and changes of their desired state and project, each under a new revision.

A declaration is changed as it is kept, on the wire's own type.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fairpool.api.clusters import Over, WorkloadReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.wire import compact
from fairpool.control import items
from fairpool.control.refusal import Refused, refused
from fairpool.control.resource_request import requested_gpus_milli
from fairpool.control.store import changes
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase

if TYPE_CHECKING:
    from fairpool.control.plane import Plane


def declare(
    plane: Plane, connection: Connection, spec: WorkloadSpec, facts: dict[str, Any], details: str
) -> tuple[str, int]:
    """A new workload: what is shown of it, and its revision."""
    now, kept = spec.created_at, plane.settings.changes_kept
    revision = changes.record(connection, "workload", spec.id, "created", now, project=spec.project, kept=kept)
    item = items.text(items.state(facts, spec.want, None, revision))
    row = {
        "id": spec.id,
        "name": spec.name,
        "name_key": f"{spec.project}/{spec.name}",
        "project": spec.project,
        "department": facts["departmentId"],
        "cluster": facts["clusterId"],
        "kind": facts["type"],
        "submitted_by": facts["submittedBy"],
        "created_at": spec.created_at,
        "requested_gpus_milli": requested_gpus_milli(spec),
        "want": spec.want.value,
        "run": spec.run,
        "declaration": compact(spec),  # as `WorkloadWire` reads it; admission has checked the values
        "phase": "Creating",
        "allocated_gpus_milli": 0,
        "running_pods": 0,
        "request": details,
        "facts": items.text(facts),
        "item": item,
        "revision": revision,
    }
    if not store.add(connection, row):
        raise name_taken(spec.name)
    return item, revision


def name_taken(name: str) -> Refused:
    what = f"the job {name} already exists, please delete it first (use 'runai delete {name}')"
    return refused(409, "workload.exists", what, "choose another name, or delete it first", "name")


VERBS = {DesiredState.STOP: "suspended", DesiredState.DELETE: "deleted"}


def set_want(
    plane: Plane, connection: Connection, row: Any, want: DesiredState, by: str = "", *, force: bool = False
) -> bool:
    """Run, stop or delete it, as `by` asked; False: it is so already. `force`: delete it without grace, which
    is declared as such, so that it can be asked for when it is being deleted already."""
    spec = declaration_of(row)
    if want is DesiredState.DELETE and force and spec.grace_s > 0:
        _declare(plane, connection, row, spec.model_copy(update={"want": want, "grace_s": 0}), VERBS[want])
        return True
    if spec.want is DesiredState.DELETE:
        if want is DesiredState.DELETE:
            return False
        what = f"{row.name} is being deleted"
        raise refused(409, "workload.being_deleted", what, "submit it again")
    if want is DesiredState.RUN:
        return _resume(plane, connection, row, spec)
    if spec.want is want:
        return False
    if want is DesiredState.STOP and by:
        facts = items.text(items.suspended(json.loads(row.facts), by, plane.now()))
        store.change(connection, row.id, facts=facts)
        row = store.one(connection, row.id)
    _declare(plane, connection, row, spec.model_copy(update={"want": want}), VERBS[want])
    return True


def move(plane: Plane, connection: Connection, row: Any, project: Any) -> None:
    """It goes on in another project."""
    spec = declaration_of(row).model_copy(update={"project": project.name})
    facts = json.loads(row.facts) | {"projectId": project.name, "projectName": project.name}
    facts |= {"departmentId": project.department, "departmentName": project.department}
    # Users who see only the project it leaves must learn that it left.
    kept = plane.settings.changes_kept
    changes.record(connection, "workload", row.id, "moved", plane.now(), project=row.project, declared=False, kept=kept)
    store.change(
        connection,
        row.id,
        project=project.name,
        department=project.department,
        facts=items.text(facts),
    )
    _declare(plane, connection, store.one(connection, row.id), spec, "moved")


def follow_department(plane: Plane, connection: Connection, project: str, department: str) -> None:
    """The work in a project goes with it to another department. What is gone keeps the names that it had."""
    plane.database.when_committed(plane.change_feed.forget)
    store.set_department(connection, project, department)
    new = {"departmentId": department, "departmentName": department}
    for row in store.there_in(connection, project):
        revision = changes.record(
            connection,
            "workload",
            row.id,
            "updated",
            plane.now(),
            project=project,
            declared=False,
            kept=plane.settings.changes_kept,
        )
        item = json.loads(row.item) | new | {"revision": revision}
        facts = items.text(json.loads(row.facts) | new)
        store.change(connection, row.id, facts=facts, item=items.text(item), revision=revision)


def redeclare(plane: Plane, connection: Connection, row: Any, spec: WorkloadWire, **values: Any) -> int:
    """A changed declaration, with its new request and facts."""
    store.change(connection, row.id, **values)
    return _declare(plane, connection, store.one(connection, row.id), spec, "updated")


def declaration_of(row: Any) -> WorkloadWire:
    return WorkloadWire.from_json(row.declaration)


def report_of(row: Any) -> WorkloadReport | None:
    return None if row.report is None else WorkloadReport.from_json(row.report)


def with_own_addresses(connection: Connection, row: Any, item: dict[str, Any]) -> dict[str, Any]:
    """An item with those of its addresses that no other workload had when its pods began. One that found a port taken
    listens elsewhere, also after the port was given up."""
    if not item["urls"]:
        return item
    before = json.loads(row.item)
    goes_on = before.get("runningPods") and before.get("startedAt") == item.get("startedAt")
    taken = set(item["urls"]) - set(before["urls"]) if goes_on else store.urls_taken(connection, row, item["urls"])
    return items.without_taken(item, taken)


def _resume(plane: Plane, connection: Connection, row: Any, spec: WorkloadWire) -> bool:
    report = report_of(row)
    over = Over.of_report(report) if report is not None else None
    ended = over is not None and over.run == spec.run
    if spec.want is DesiredState.RUN and not ended:
        return False  # it runs, or waits for its turn: what was asked for is so
    if ended and over is not None and over.phase is WorkloadPhase.COMPLETED:
        raise refused(409, "workload.completed", f"{row.name} has completed", "to run it again, submit it again")
    _declare(plane, connection, row, spec.model_copy(update={"want": DesiredState.RUN, "run": spec.run + 1}), "resumed")
    return True


def _declare(plane: Plane, connection: Connection, row: Any, spec: WorkloadWire, verb: str) -> int:
    revision = changes.record(
        connection, "workload", row.id, verb, plane.now(), project=spec.project, kept=plane.settings.changes_kept
    )
    last = report_of(row)
    # What was said of an earlier run is no longer so, except what its pods still hold.
    report = last if last is not None and last.run == spec.run else None
    item = items.state(json.loads(row.facts), spec.want, report, revision, held=last)
    item = with_own_addresses(connection, row, item)
    store.change(
        connection,
        row.id,
        declaration=spec.to_json(),
        want=spec.want.value,
        run=spec.run,
        name_key=None if spec.want is DesiredState.DELETE else f"{spec.project}/{spec.name}",
        phase=item["phase"],
        item=items.text(item),
        revision=revision,
    )
    return revision

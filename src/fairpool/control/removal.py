"""Deletion of projects: their workloads are deleted or moved only if the caller says so."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from fairpool.api.access import ScopeType
from fairpool.api.problems import ProblemItem
from fairpool.api.workload_spec import Kind
from fairpool.control import declarations, submit_values
from fairpool.control.plane import ActionResult, Plane, Slice
from fairpool.control.refusal import Refused, refused
from fairpool.control.store import access as access_store
from fairpool.control.store import assets as asset_store
from fairpool.control.store import changes, project_colors
from fairpool.control.store import credentials as credential_store
from fairpool.control.store import organization as store
from fairpool.control.store import policies as policy_store
from fairpool.control.store import workloads as workload_store
from fairpool.control.store.database import Connection
from fairpool.control.store.tables import projects, workloads
from fairpool.control.workload_documents import declaration_of
from fairpool.model.spec import DesiredState


class RemainingWorkloads(StrEnum):
    """What to do with the workloads of a deleted project."""

    DELETE = "delete"
    MOVE = "move"


def delete_project_with_work(
    plane: Plane,
    connection: Connection,
    row: Any,
    remaining: RemainingWorkloads | None,
    to: str | None,
    slice_s: float = float("inf"),
) -> ActionResult:
    """Delete it, or refuse with the choices if it has workloads. Many workloads are deleted in parts of `slice_s`."""
    part = Slice(slice_s)
    work = [each for each in store.work_in(connection, row.name) if each.desired_state != DesiredState.DELETE]
    if work and remaining is None:
        raise _undecided(row.name, [each.name for each in work])
    if work and remaining is RemainingWorkloads.MOVE:
        _move(plane, connection, row, to, work)
    if work and remaining is RemainingWorkloads.DELETE:
        for each in work:
            found = workload_store.one(connection, each.id)
            declarations.set_desired_state(plane, connection, found, DesiredState.DELETE)
            if part.is_over and each is not work[-1]:
                return ActionResult(goes_on=True)
    now = plane.now()
    left = workload_store.projects_with_work(connection, row.name)
    verb = "updated" if left else "deleted"
    revision = changes.record(
        connection, "project", row.name, verb, now, project=row.name, kept=plane.settings.changes_kept
    )
    if left:
        # Its pods are still stopping; their queue stays until the cluster reports that all are gone.
        store.change(connection, projects, row.name, now, phase="Deleting", revision=revision)
    else:
        remove_project(plane, connection, row.name, revision)
    return ActionResult(body="{}", status=202, action="delete", entity_type="project", entity_id=row.name)


def remove_project(plane: Plane, connection: Connection, name: str, revision: int) -> None:
    """Remove the project and the access rules on it. Its history stays, under a name that is not reused."""
    project_colors.keep(connection, name, plane.now())
    store.remove(connection, projects, name)
    plane.forget_feed_when_committed()
    workload_store.release_name(connection, workloads.c.project, name, revision)
    changes.release_name(connection, name, revision)
    access_store.delete_rules_of_scope(connection, ScopeType.PROJECT, name)
    asset_store.remove_scope(connection, ScopeType.PROJECT.value, name)
    credential_store.remove_scope(connection, ScopeType.PROJECT.value, name)
    policy_store.remove_scope(connection, ScopeType.PROJECT.value, name)


def _move(plane: Plane, connection: Connection, row: Any, to: str | None, work: list[Any]) -> None:
    target = store.project(connection, to) if to else None
    if target is None or target.name == row.name or target.phase != "Ready":
        what = f"workloads cannot be moved to {to!r}" if to else "no target project was given"
        raise refused(422, "project.no_target", what, "specify another existing project: &to=<project>", "to")
    if target.cluster != row.cluster:
        what = f"project {target.name} is in another cluster, and workloads cannot move between clusters"
        raise refused(422, "project.no_target", what, "specify a project in the same cluster: &to=<project>", "to")
    taken = [each.name for each in work if workload_store.is_taken(connection, f"{target.name}/{each.name}")]
    if taken:
        raise Refused(
            409,
            [
                ProblemItem(
                    code="workload.exists",
                    what=f"project {target.name} already has a workload {each}",
                    fix="delete one of the two first",
                    field="to",
                )
                for each in taken[:100]
            ],
        )
    if held := _with_claims(connection, work):
        raise Refused(
            409,
            [
                ProblemItem(
                    code="project.has_claims",
                    what=f"workload {name} mounts volume claims of project {row.name}: {claims}",
                    fix="claims do not move: copy the data, then delete the workload and submit it again",
                    field="to",
                )
                for name, claims in held[:100]
            ],
        )
    for each in work:
        found = workload_store.one(connection, each.id)
        kind, request = Kind(found.kind), declaration_of(found).request
        submit_values.refuse_against_policies(connection, target, kind, each.name, request, f"moved to {target.name}")
        declarations.move(plane, connection, found, target)


def _with_claims(connection: Connection, work: list[Any]) -> list[tuple[str, str]]:
    """Workloads that mount claims, with their names: claims belong to a project and do not move."""
    found = []
    for each in work:
        spec = declaration_of(workload_store.one(connection, each.id)).workload
        volumes = [one for template in (spec.template, spec.leader) if template for one in template.program.volumes]
        if names := sorted({one.claim for one in volumes if one.claim}):
            found.append((each.name, ", ".join(names)))
    return found


def _undecided(name: str, work: list[str]) -> Refused:
    shown = ", ".join(work[:5]) + (", …" if len(work) > 5 else "")
    problem = ProblemItem(
        code="project.has_work",
        what=f"project {name} still has {len(work)} workload{'s' if len(work) > 1 else ''}: {shown}",
        fix="delete or move them: ?workloads=delete, or ?workloads=move&to=<project>",
    )
    choices = {
        "workloads=delete": "delete all workloads, then the project",
        "workloads=move&to=<project>": "move all workloads to another project, where they continue",
    }
    return Refused(409, [problem], choices=choices)

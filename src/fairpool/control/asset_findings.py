"""What is answered about an asset beside itself: who uses it, whether what it needs is there, who may use it.

Whether a workload may use an asset is answered by filling up a submit that names it: what refuses a real one refuses
this one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fairpool.api import assets as wire
from fairpool.api.asset_reference import DatasourceKind
from fairpool.api.workload_spec import Kind
from fairpool.control import asset_routes, submit_values
from fairpool.control.asset_kinds import BY_KIND
from fairpool.control.asset_query import AssetDetails
from fairpool.control.asset_rows import body_of, kind_of
from fairpool.control.credentials import usable
from fairpool.control.numbers import project_name
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.store import claims as claim_store
from fairpool.control.store import config_maps as config_map_store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.model.spelling import did_you_mean


def findings(plane: Plane, connection: Connection, caller: Caller, asked: AssetDetails) -> asset_routes.Finder:
    """What is asked for about each asset."""
    used = asset_routes.usage(plane, connection, caller, asked)
    project, kind = _complied(connection, caller, asked)

    def found(row: Any) -> wire.AssetFindings:
        more: dict[str, Any] = {}
        if asked.status_info:
            more["status"] = _status(connection, row)
        if kind is not None:
            more["compliance"] = _compliance(connection, row, project, kind)
        return used(row).model_copy(update=more) if more else used(row)

    return found


# --- compliance ----------------------------------------------------------------------------------------------------


def _complied(connection: Connection, caller: Caller, asked: AssetDetails) -> tuple[Any, Kind | None]:
    """The project and the kind of workload that compliance is asked for; None: it is not."""
    name, kind = asked.comply_to_project, asked.comply_to_workload_type
    if not name and not kind:
        return None, None
    if not name or not kind:
        lacking = "complyToWorkloadType" if name else "complyToProject"
        what = "compliance is for a project and a kind of workload"
        raise refused(422, "asset.compliance", what, f"set {lacking} too", lacking)
    row = organization_store.project(connection, project_name(connection, name))
    if row is None or not caller.may(Action.ASSET_READ, row.name, row.department, row.cluster):
        raise unknown("project", name, is_hidden=row is not None)
    return row, Kind(kind.capitalize())


def _compliance(connection: Connection, row: Any, project: Any, kind: Kind) -> wire.Compliance:
    named = {"datasources": [row.id]} if kind_of(row) not in ("environment", "compute") else {row.kind: row.id}
    reasons = submit_values.compliance_issues(connection, project, kind, {"assets": named})
    return wire.Compliance(compliance=not reasons, reason=reasons)


# --- status --------------------------------------------------------------------------------------------------------


def _status(connection: Connection, row: Any) -> wire.AssetStatus:
    if row.scope != "project":
        return wire.AssetStatus(status="No status", message="checked for each project when a workload is submitted")
    project = organization_store.project(connection, row.scope_id)
    lacking = "; ".join(_lacking(connection, row, project)) if project is not None else "its project is deleted"
    return wire.AssetStatus(status="Issues found" if lacking else "No issues found", message=lacking or None)


def _lacking(connection: Connection, row: Any, project: Any) -> Iterator[str]:
    """What the asset of a project refers to and that is not there."""
    kind = BY_KIND[kind_of(row)]
    spec = body_of(kind.request, row.document).spec
    named = [getattr(spec, "credential", None)]
    if kind.kind == DatasourceKind.SECRET.value:
        named.append(spec.name)
    if kind.kind == "environment":
        named += [each.credential.name for each in spec.environment_variables if each.credential is not None]
    wanted = [name for name in named if name]
    known = usable(connection, project, wanted)
    yield from (f"project {project.name} has no credential {name}" for name in wanted if name not in known)
    if kind.kind == DatasourceKind.CONFIG_MAP.value and not config_map_store.one(connection, project.name, spec.name):
        yield f"project {project.name} has no config map {spec.name}"
    if kind.kind == DatasourceKind.PVC.value and spec.existing_pvc:
        names = claim_store.names(connection, project.name)
        if spec.claim_name not in names:
            hint = did_you_mean(spec.claim_name or "", sorted(names), "")
            yield f"project {project.name} has no volume claim {spec.claim_name}" + (f": {hint}" if hint else "")

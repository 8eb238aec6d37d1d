"""HTTP routes for config maps of projects: small files that jobs mount, or values they read as variables.

A workload gets the contents as they are when it is submitted, and all its pods see the same. A config map that is
changed or deleted later changes nothing for it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import config_maps as wire
from fairpool.control.moments import iso
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import denied, refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import changes
from fairpool.control.store import config_maps as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection

routes = Routes("workloads")

CONFIG_MAPS = "/api/v1/config-maps"
BYTES_MAX = 256 * 1024
"""Of one config map, keys and contents."""
OF_PROJECT_MAX = 500
ProjectQuery = Annotated[str, Parameter(alias="projectId", min_length=1, max_length=64)]


@routes.get(
    CONFIG_MAPS, action=Action.WORKLOAD_READ, answer=wire.ConfigMapPage, summary="List the config maps of a project"
)
async def list_config_maps(plane: Plane, caller: Caller, project: ProjectQuery) -> wire.ConfigMapPage:
    def unit(connection: Connection) -> wire.ConfigMapPage:
        _project(connection, caller, Action.WORKLOAD_READ, project)
        return wire.ConfigMapPage(config_maps=[_shown(row) for row in store.all_of(connection, project)])

    return await plane.read(unit)


@routes.get(CONFIG_MAPS + "/{name}", action=Action.WORKLOAD_READ, answer=wire.ConfigMapItem, summary="Get a config map")
async def get_config_map(name: str, plane: Plane, caller: Caller, project: ProjectQuery) -> Response:
    def unit(connection: Connection) -> wire.ConfigMapItem:
        _project(connection, caller, Action.WORKLOAD_READ, project)
        return _shown(_known(connection, project, name))

    found = await plane.read(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    CONFIG_MAPS,
    action=Action.WORKLOAD_SUBMIT,
    answer=wire.ConfigMapItem,
    status=201,
    summary="Create a config map",
)
async def create_config_map(request: Request, plane: Plane, caller: Caller, body: wire.NewConfigMap) -> Response:
    def unit(connection: Connection) -> ActionResult:
        project = body.project_id
        _project(connection, caller, Action.WORKLOAD_SUBMIT, project)
        if store.one(connection, project, body.name) is not None:
            what = f"project {project} already has a config map {body.name}"
            raise refused(409, "config_map.exists", what, "use another name, or replace its contents", "name")
        if store.count(connection, project) >= OF_PROJECT_MAX:
            what = f"project {project} has {OF_PROJECT_MAX} config maps already"
            raise refused(409, "config_map.too_many", what, "delete some that are not used")
        document, now = _document(body.data), plane.now()
        made = {"created_at": now, "updated_at": now, "created_by": caller.name}
        revision = _changed(plane, connection, project, body.name, "created")
        store.add(connection, project=project, name=body.name, document=document, revision=revision, **made)
        return _result(connection, project, body.name, "create", status=201)

    return await plane.perform(request, caller, unit)


@routes.put(
    CONFIG_MAPS + "/{name}",
    action=Action.WORKLOAD_SUBMIT,
    answer=wire.ConfigMapItem,
    summary="Replace the contents of a config map",
)
async def replace_config_map(
    name: str, request: Request, plane: Plane, caller: Caller, body: wire.ConfigMapChange, project: ProjectQuery
) -> Response:
    """Workloads that were submitted before keep the contents they were submitted with."""

    def unit(connection: Connection) -> ActionResult:
        _project(connection, caller, Action.WORKLOAD_SUBMIT, project)
        row = _known(connection, project, name)
        check_match(request, row.revision)
        revision = _changed(plane, connection, project, name, "updated")
        store.change(
            connection, project, name, document=_document(body.data), updated_at=plane.now(), revision=revision
        )
        return _result(connection, project, name, "update")

    return await plane.perform(request, caller, unit)


@routes.delete(CONFIG_MAPS + "/{name}", action=Action.WORKLOAD_SUBMIT, status=204, summary="Delete a config map")
async def delete_config_map(
    name: str, request: Request, plane: Plane, caller: Caller, project: ProjectQuery
) -> Response:
    """Workloads that were submitted with it keep its contents."""

    def unit(connection: Connection) -> ActionResult:
        _project(connection, caller, Action.WORKLOAD_SUBMIT, project)
        row = _known(connection, project, name)
        check_match(request, row.revision)
        store.remove(connection, project, name)
        _changed(plane, connection, project, name, "deleted")
        return ActionResult(
            status=204,
            action="delete",
            entity_type="config-map",
            entity_id=name,
            entity_name=f"{project}/{name}",
        )

    return await plane.perform(request, caller, unit)


def contents(connection: Connection, project: str, names: Collection[str]) -> dict[str, Mapping[str, str]]:
    """The contents of those of these names that a project has."""
    rows = store.some(connection, project, names) if names else []
    return {row.name: json.loads(row.document) for row in rows}


def _project(connection: Connection, caller: Caller, action: Action, name: str) -> None:
    row = organization_store.project(connection, name)
    if row is None or not caller.may(Action.WORKLOAD_READ, row.name, row.department, row.cluster):
        raise unknown("project", name, is_hidden=row is not None)
    if not caller.may_in_part(action, row.name, row.department, row.cluster):
        raise denied()


def _known(connection: Connection, project: str, name: str) -> Any:
    row = store.one(connection, project, name)
    if row is None:
        raise unknown("config map", name)
    return row


def _document(data: Mapping[str, str]) -> str:
    size = sum(len(key) + len(text.encode("utf-8", "surrogatepass")) for key, text in data.items())
    if size > BYTES_MAX:
        what = f"a config map has at most {BYTES_MAX} bytes, this one {size}"
        raise refused(422, "config_map.too_large", what, "put large files in a volume claim", "data")
    return json.dumps(dict(data))


def _changed(plane: Plane, connection: Connection, project: str, name: str, verb: str) -> int:
    kept, now = plane.settings.changes_kept, plane.now()
    return changes.record(
        connection, "config-map", f"{project}/{name}", verb, now, project=project, declared=False, kept=kept
    )


def _result(connection: Connection, project: str, name: str, action: str, status: int = 200) -> ActionResult:
    made = _shown(store.one(connection, project, name))
    return ActionResult(
        body=made,
        status=status,
        action=action,
        entity_type="config-map",
        entity_id=name,
        entity_name=f"{project}/{name}",
        revision=made.revision,
    )


def _shown(row: Any) -> wire.ConfigMapItem:
    return wire.ConfigMapItem(
        name=row.name,
        project_id=row.project,
        data=json.loads(row.document),
        created_at=iso(row.created_at),
        created_by=row.created_by,
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )

"""HTTP routes for workload templates: values that submits are filled up with."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import assets as wire
from fairpool.api import workload_spec
from fairpool.api.assets import AssetScope
from fairpool.api.wire import Count, ValidationError
from fairpool.control.admission import KIND_OF_SUBMIT
from fairpool.control.moments import iso
from fairpool.control.organization import cluster_of
from fairpool.control.paging import Field, FilterBy, ListQuery, Search, counting, filtered, page, text_field, time_field
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown, validation_problems
from fairpool.control.routes import Routes
from fairpool.control.store import assets as store
from fairpool.control.store import changes
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.control.template_checks import template_problems
from fairpool.control.template_values import (
    SPECS,
    WIDEST_FIRST,
    TemplateValues,
    locked_problems,
    merged,
    relocked,
    supported,
    supports,
)
from fairpool.model.spelling import did_you_mean

routes = Routes("assets")

TEMPLATES = "/api/v1/asset/workload-template"
TEMPLATES_MAX = 2_000

FIELDS: Mapping[str, Field[wire.Template]] = {
    "name": text_field(lambda each: each.meta.name),
    "id": text_field(lambda each: each.id),
    "scope": text_field(lambda each: each.meta.scope.value),
    "projectId": text_field(lambda each: each.meta.project_id or ""),
    "departmentId": text_field(lambda each: each.meta.department_id or ""),
    "clusterId": text_field(lambda each: each.meta.cluster_id or ""),
    "createdBy": text_field(lambda each: each.created_by),
    "createdAt": time_field(lambda each: each.created_at),
    "updatedAt": time_field(lambda each: each.updated_at),
}


@routes.get(TEMPLATES, action=Action.ASSET_READ, answer=wire.TemplatePage, summary="List workload templates")
async def templates(plane: Plane, caller: Caller, query: ListQuery) -> wire.TemplatePage:
    found = filtered(await plane.read(lambda connection: _visible(connection, caller)), FIELDS, query)
    listed, following = page(found, query)
    return wire.TemplatePage(entries=listed, next=following)


@routes.get(f"{TEMPLATES}/count", action=Action.ASSET_READ, answer=Count, summary="Count workload templates")
async def template_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    everything = await plane.read(lambda connection: _visible(connection, caller))
    return Count(count=len(filtered(everything, FIELDS, counting(filter_by, search))))


@routes.get(
    TEMPLATES + "/{template_id}", action=Action.ASSET_READ, answer=wire.Template, summary="Get a workload template"
)
async def template(template_id: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read(lambda connection: _shown(_known(connection, caller, template_id)))
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    TEMPLATES, action=Action.ASSET_WRITE, answer=wire.Template, status=201, summary="Create a workload template"
)
async def create_template(request: Request, plane: Plane, caller: Caller, body: wire.TemplateRequest) -> Response:
    def unit(connection: Connection) -> ActionResult:
        place = _place(connection, caller, body.meta)
        if store.count(connection, store.TEMPLATE) >= TEMPLATES_MAX:
            what = f"there are {TEMPLATES_MAX} templates already"
            raise refused(409, "template.too_many", what, "delete some that are not used")
        values = _stored(connection, place, body, None)
        now, asset_id = plane.now(), str(uuid.uuid4())
        revision = _changed(plane, connection, asset_id, place.scope, place.scope_id, "created")
        made_by = {"created_at": now, "created_by": caller.name, "updated_at": now, "revision": revision}
        store.add(connection, id=asset_id, kind=store.TEMPLATE, **place.columns, **values, **made_by)
        return _result(connection, asset_id, "create", status=201)

    return await plane.perform(request, caller, unit)


@routes.put(
    TEMPLATES + "/{template_id}",
    action=Action.ASSET_WRITE,
    answer=wire.Template,
    summary="Replace a workload template",
)
async def replace_template(
    template_id: str, request: Request, plane: Plane, caller: Caller, body: wire.TemplateRequest
) -> Response:
    """Workloads that were submitted with it stay as they are."""

    def unit(connection: Connection) -> ActionResult:
        row = _known(connection, caller, template_id)
        check_match(request, row.revision)
        place = _place(connection, caller, body.meta)
        if (row.scope, row.scope_id) != (place.scope.value, place.scope_id):
            what = "a template cannot move to another scope"
            raise refused(422, "template.moved", what, "create another template there", "meta.scope")
        values = _stored(connection, place, body, row)
        now = plane.now()
        revision = _changed(plane, connection, row.id, place.scope, place.scope_id, "updated")
        store.change(connection, row.id, updated_at=now, revision=revision, **values)
        return _result(connection, row.id, "update")

    return await plane.perform(request, caller, unit)


@routes.delete(
    TEMPLATES + "/{template_id}", action=Action.ASSET_WRITE, status=204, summary="Delete a workload template"
)
async def delete_template(template_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """Workloads that were submitted with it stay as they are."""

    def unit(connection: Connection) -> ActionResult:
        row = _known(connection, caller, template_id)
        check_match(request, row.revision)
        _require_write(connection, caller, AssetScope(row.scope), row.scope_id)
        store.remove(connection, row.id)
        _changed(plane, connection, row.id, AssetScope(row.scope), row.scope_id, "deleted")
        return ActionResult(status=204, action="delete", entity_type="template", entity_id=row.id, entity_name=row.name)

    return await plane.perform(request, caller, unit)


def _changed(plane: Plane, connection: Connection, asset_id: str, scope: AssetScope, scope_id: str, verb: str) -> int:
    """Record that it changed; clusters need not know."""
    project = scope_id if scope is AssetScope.PROJECT else None
    kept = plane.settings.changes_kept
    return changes.record(
        connection, "template", asset_id, verb, plane.now(), project=project, declared=False, kept=kept
    )


def _result(connection: Connection, asset_id: str, action: str, status: int = 200) -> ActionResult:
    made = _shown(store.one(connection, store.TEMPLATE, asset_id))
    return ActionResult(
        body=made,
        status=status,
        action=action,
        entity_type="template",
        entity_id=asset_id,
        entity_name=made.meta.name,
        revision=made.revision,
    )


# --- scope -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredScope:
    """The scope of an asset."""

    scope: AssetScope
    scope_id: str

    @property
    def columns(self) -> dict[str, str]:
        return {"scope": self.scope.value, "scope_id": self.scope_id}


def _place(connection: Connection, caller: Caller, meta: wire.AssetMeta) -> StoredScope:
    """The scope that is meant; refuses one that does not exist, or in which the caller may not write."""
    ids = {
        AssetScope.CLUSTER: meta.cluster_id,
        AssetScope.DEPARTMENT: meta.department_id,
        AssetScope.PROJECT: meta.project_id,
    }
    for scope, given in ids.items():
        field = f"meta.{scope.value}Id"
        if scope is meta.scope and not given:
            raise refused(422, "asset.no_scope", f"the scope {scope.value} needs {field}", f"set {field}", field)
        if scope is not meta.scope and given:
            what = f"{field} does not fit the scope {meta.scope.value}"
            raise refused(422, "asset.two_scopes", what, f"remove it, or use the scope {scope.value}", field)
    scope_id = ids.get(meta.scope) or ""
    if meta.scope is AssetScope.CLUSTER:
        caller.require(Action.ASSET_WRITE)
        scope_id = cluster_of(connection, scope_id)
    _require_write(connection, caller, meta.scope, scope_id)
    return StoredScope(meta.scope, scope_id)


def _require_write(connection: Connection, caller: Caller, scope: AssetScope, scope_id: str) -> None:
    if scope is AssetScope.PROJECT:
        project = organization_store.project(connection, scope_id)
        caller.require(Action.ASSET_WRITE, scope_id, project.department if project is not None else "")
        if project is None:
            raise unknown("project", scope_id)
    elif scope is AssetScope.DEPARTMENT:
        caller.require(Action.ASSET_WRITE, department=scope_id)
        if organization_store.department(connection, scope_id) is None:
            raise unknown("department", scope_id)
    elif not caller.may(Action.ASSET_WRITE):
        raise denied(fix="ask an administrator, or use the scope of a project in which you have this role")


def _visible(connection: Connection, caller: Caller) -> list[wire.Template]:
    sees = _Sight(connection, caller)
    return [_shown(row) for row in store.all_of(connection, store.TEMPLATE) if sees.covers(row)]


class _Sight:
    """Which assets a caller may see: those of the scopes that their projects are in."""

    def __init__(self, connection: Connection, caller: Caller) -> None:
        self._places = caller.places(Action.ASSET_READ)
        rows = (
            []
            if self._places is None
            else organization_store.all_projects(
                connection, names=self._places.projects, parents=self._places.departments
            )
        )
        own = self._places.departments if self._places is not None else ()
        self._ids = {
            AssetScope.PROJECT.value: {row.name for row in rows},
            AssetScope.DEPARTMENT.value: {*(row.department for row in rows), *own},
            AssetScope.CLUSTER.value: {row.cluster for row in rows},
        }

    def covers(self, row: Any) -> bool:
        is_everywhere = self._places is None or row.scope == AssetScope.TENANT.value
        return is_everywhere or row.scope_id in self._ids[row.scope]


def _known(connection: Connection, caller: Caller, template_id: str) -> Any:
    row = store.one(connection, store.TEMPLATE, template_id)
    if row is None or not _Sight(connection, caller).covers(row):
        raise unknown("template", template_id, is_hidden=row is not None)
    return row


# --- rows --------------------------------------------------------------------------------------------------------


def _stored(connection: Connection, place: StoredScope, body: wire.TemplateRequest, before: Any) -> dict[str, Any]:
    """The columns of a template; refuses with everything that is wrong with it."""
    for other in store.in_scope(connection, store.TEMPLATE, place.scope.value, place.scope_id):
        if before is not None and other.id == before.id:
            continue
        where = place.scope_id or "the tenant"
        if other.name == body.meta.name:
            raise refused(
                409, "template.exists", f"{where} already has a template {other.name}", "use another name", "meta.name"
            )
        if other.administrative and body.administrative:
            what = f"{where} already has an administrative template: {other.name}"
            raise refused(409, "template.administrative", what, "change or delete that one first", "administrative")
    if problems := template_problems(body):
        raise Refused(422, problems)
    return {
        "name": body.meta.name,
        "administrative": body.administrative,
        "document": body.model_dump_json(by_alias=True, exclude_unset=True),
    }


@lru_cache(maxsize=1024)
def _body(document: str) -> wire.TemplateRequest:
    """Cached, since the value is immutable and is read at every submit."""
    return wire.TemplateRequest.model_validate_json(document)


def _values(body: wire.TemplateRequest) -> dict[str, Any]:
    return body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _types(body: wire.TemplateRequest) -> wire.SupportedTypes:
    return body.meta.workload_supported_types or supported(_values(body))


def values_of(row: Any) -> tuple[TemplateValues, wire.SupportedTypes]:
    """What a stored template says about submits, and of which kinds."""
    body = _body(row.document)
    template = TemplateValues(
        name=row.name,
        scope=AssetScope(row.scope),
        values=_values(body),
        administrative=body.administrative,
        required=tuple(body.required),
        locked=tuple(body.locked),
    )
    return template, _types(body)


def _shown(row: Any) -> wire.Template:
    body = _body(row.document)
    return wire.Template(
        id=row.id,
        meta=wire.AssetAnswer(
            name=row.name,
            scope=AssetScope(row.scope),
            description=body.meta.description,
            workload_supported_types=_types(body),
            **({f"{row.scope}_id": row.scope_id} if row.scope_id else {}),
        ),
        spec=_values(body),
        administrative=body.administrative,
        required=body.required,
        locked=body.locked,
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )


# --- submits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """A submit with the values of templates, and where they are from."""

    body: workload_spec.SubmitAny
    origins: Mapping[str, str]


def filled(connection: Connection, body: workload_spec.SubmitAny, project: Any) -> Filled:
    """The submit with the values of the administrative templates of its project and of the one that it names."""
    kind = KIND_OF_SUBMIT[type(body)]
    found = [values_of(row) for row in store.administrative_of(connection, project)]
    applied = [template for template, types in found if supports(types, kind)]
    asked = body.spec.template or body.template_id
    if body.template_id and body.spec.template and body.template_id != body.spec.template:
        raise refused(422, "template.twice", "a template is named twice", "remove templateId", "templateId")
    if asked:
        chosen_one = _named(connection, project, asked, kind)
        applied += [] if chosen_one.administrative else [chosen_one]
    if not applied:
        return Filled(body, {})
    request = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    result = merged(request, applied)
    if result.problems:
        raise Refused(422, result.problems)
    try:
        spec = type(body.spec).model_validate(result.spec)
    except ValidationError as error:  # joined lists may be too long
        raise Refused(422, validation_problems(error.errors())) from error
    return Filled(body.model_copy(update={"spec": spec}), result.origins)


def _named(connection: Connection, project: Any, asked: str, kind: workload_spec.Kind) -> TemplateValues:
    """The template of this name or id, of the narrowest scope that has one."""
    rows = store.named(connection, project, asked)
    if not rows:
        names = [row.name for row in store.of_project(connection, project)]
        fix = did_you_mean(asked, names, "see them with `runai list templates`")
        raise refused(422, "template.unknown", f"there is no template {asked[:64]!r}", fix, "spec.template")
    row = max(rows, key=lambda each: (each.id == asked, WIDEST_FIRST.index(AssetScope(each.scope))))
    template, types = values_of(row)
    if not supports(types, kind):
        kinds = [each.value.lower() for each in SPECS if supports(types, each)]
        what = f"template {row.name} is not for a {kind.value.lower()}"
        raise refused(422, "template.other_kind", what, f"use it for {', '.join(kinds)}", "spec.template")
    return template


def updated(
    connection: Connection,
    said: Mapping[str, Any],
    spec: dict[str, Any],
    project: Any,
    kind: workload_spec.Kind,
) -> dict[str, Any]:
    """The specification of a workload that is changed. Refuses other values for locked fields, and another template; a
    locked value that the change leaves out stays."""
    if "template" in said:
        what = "the template of a workload cannot be changed"
        raise refused(422, "template.changed", what, "set the values themselves", "spec.template")
    found = [values_of(row) for row in store.administrative_of(connection, project)]
    applied = [template for template, types in found if supports(types, kind)]
    result = relocked(spec, applied)
    if problems := [*locked_problems(said, applied), *result.problems]:
        raise Refused(422, problems)
    return result.spec

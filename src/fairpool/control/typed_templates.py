"""HTTP routes for workload templates of one kind, in the form of the original: `/api/v1/workload-templates`.

One storage with `templates.py`: a template for several kinds of workloads is listed here with each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import assets as assets_wire
from fairpool.api import typed_templates as wire
from fairpool.api.assets import AssetScope
from fairpool.api.limits import TENANT_ID
from fairpool.api.original_spec import in_original_form
from fairpool.api.typed_templates import WORKLOAD_TEMPLATES
from fairpool.api.wire import Count, ValidationError, parse_json
from fairpool.api.workload_spec import Kind
from fairpool.control import asset_routes, submit_values
from fairpool.control.asset_lookup import AssetLookup
from fairpool.control.asset_query import ComplyToProject, ComplyToReplica, known_asset, visible
from fairpool.control.asset_rows import FIELDS, body_of, spec_of
from fairpool.control.asset_scopes import scope_of, scope_shown
from fairpool.control.moments import iso
from fairpool.control.numbers import project_name
from fairpool.control.paging import FilterBy, ListQuery, Search, counting, filtered, page
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, unknown, validation_problems
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import assets as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.control.template_values import NESTED, SPECS, supports
from fairpool.control.templates import TEMPLATE, scopes_around, types_of, values_of

routes = Routes("assets")

PATHS: Mapping[Kind, str] = {
    Kind.WORKSPACE: "workspaces",
    Kind.TRAINING: "trainings",
    Kind.DISTRIBUTED: "distributed",
    Kind.INFERENCE: "inferences",
}
TemplateName = Annotated[str, Parameter(alias="templateName", min_length=1, max_length=64)]
ScopeType = Annotated[AssetScope, Parameter(alias="scopeType")]
ScopeId = Annotated[str, Parameter(alias="scopeId", max_length=256)]


class TypedQuery(ListQuery):
    """Which templates, in which order, and how many."""

    comply_to_project: ComplyToProject = ""
    comply_to_replica_type: ComplyToReplica = ""


# --- templates of all kinds ------------------------------------------------------------------------------------------


@routes.get(
    WORKLOAD_TEMPLATES,
    action=Action.ASSET_READ,
    answer=wire.TypedTemplatePage,
    summary="List workload templates, each with one of its kinds",
)
async def templates_of_all_kinds(plane: Plane, caller: Caller, query: TypedQuery) -> wire.TypedTemplatePage:
    return await plane.read(lambda connection: _page(connection, caller, query, None))


@routes.get(f"{WORKLOAD_TEMPLATES}/count", action=Action.ASSET_READ, answer=Count, summary="Count workload templates")
async def template_count(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
    rows = await plane.read(lambda connection: visible(connection, caller, store.TEMPLATE))
    return Count(count=len(filtered(rows, FIELDS, counting(filter_by, search))))


@routes.get(
    f"{WORKLOAD_TEMPLATES}/name-availability",
    action=Action.ASSET_READ,
    answer=wire.NameAvailability,
    summary="Whether a template can have a name",
)
async def name_availability(
    plane: Plane, caller: Caller, template_name: TemplateName, scope_type: ScopeType, scope_id: ScopeId = ""
) -> wire.NameAvailability:
    """Of names that the caller may see."""

    def unit(connection: Connection) -> bool:
        named = project_name(connection, scope_id) if scope_type is AssetScope.PROJECT else scope_id
        wanted = "" if scope_type is AssetScope.TENANT else named
        return any(
            (row.name, row.scope, row.scope_id) == (template_name, scope_type.value, wanted)
            for row in visible(connection, caller, store.TEMPLATE)
        )

    return wire.NameAvailability(available=not await plane.read(unit))


@routes.get(
    WORKLOAD_TEMPLATES + "/{template_id}",
    action=Action.ASSET_READ,
    answer=wire.TypedTemplate,
    summary="Get a workload template of any kind",
)
async def template_of_any_kind(template_id: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read(lambda connection: _shown(connection, _known(connection, caller, template_id, None), None))
    return answered(ActionResult(body=found, revision=found.revision))


# --- templates of one kind -------------------------------------------------------------------------------------------


def _add_reads(kind: Kind) -> None:
    async def list_templates(plane: Plane, caller: Caller, query: TypedQuery) -> wire.TypedTemplatePage:
        return await plane.read(lambda connection: _page(connection, caller, query, kind))

    async def get_template(template_id: str, plane: Plane, caller: Caller) -> Response:
        found = await plane.read(
            lambda connection: _shown(connection, _known(connection, caller, template_id, kind), kind)
        )
        return answered(ActionResult(body=found, revision=found.revision))

    path, noun = f"{WORKLOAD_TEMPLATES}/{PATHS[kind]}", f"templates for {PATHS[kind]}"
    read, page_of, one = Action.ASSET_READ, wire.TypedTemplatePage, wire.TypedTemplate
    routes.add("GET", path, list_templates, action=read, answer=page_of, summary=f"List {noun}")
    routes.add("GET", path + "/{template_id}", get_template, action=read, answer=one, summary=f"Get one of the {noun}")


def _add_writes(kind: Kind) -> None:
    async def create_template(request: Request, plane: Plane, caller: Caller, body: wire.NewTypedTemplate) -> Response:
        def unit(connection: Connection) -> ActionResult:
            meta = body.meta
            named = {} if meta.scope_type is AssetScope.TENANT else {f"{meta.scope_type.value}Id": meta.scope_id}
            said = {"name": meta.name, "scope": meta.scope_type, "description": meta.description, **named}
            made = asset_routes.created(plane, connection, caller, TEMPLATE, _request(kind, said, body.values()))
            return _answered(connection, made, kind)

        return await plane.perform(request, caller, unit)

    async def replace_template(
        template_id: str, request: Request, plane: Plane, caller: Caller, body: wire.TypedTemplateReplacement
    ) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = _known(connection, caller, template_id, kind)
            check_match(request, row.revision)
            said = {"name": body.meta.name, "description": body.meta.description}
            return _replaced(plane, connection, caller, kind, row, said, body.values())

        return await plane.perform(request, caller, unit)

    async def patch_template(
        template_id: str, request: Request, plane: Plane, caller: Caller, body: wire.TypedTemplatePatch
    ) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = _known(connection, caller, template_id, kind)
            check_match(request, row.revision)
            before = body_of(TEMPLATE.request, row.document)
            said = {"name": row.name, "description": before.meta.description}
            said |= body.meta.model_dump(exclude_unset=True, exclude_none=True)
            values = _patched(spec_of(before), _own_form(kind, body.values()), body.fields_to_clear)
            return _replaced(plane, connection, caller, kind, row, said, values)

        return await plane.perform(request, caller, unit)

    async def delete_template(template_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = _known(connection, caller, template_id, kind)
            check_match(request, row.revision)
            return asset_routes.deleted(plane, connection, caller, TEMPLATE, row)

        return await plane.perform(request, caller, unit)

    path, one = f"{WORKLOAD_TEMPLATES}/{PATHS[kind]}", f"{WORKLOAD_TEMPLATES}/{PATHS[kind]}/{{template_id}}"
    noun, answer = f"a template for {PATHS[kind]}", wire.TypedTemplate
    write = Action.ASSET_WRITE
    routes.add("POST", path, create_template, action=write, answer=answer, status=201, summary=f"Create {noun}")
    routes.add("PUT", one, replace_template, action=write, answer=answer, summary=f"Replace {noun}")
    routes.add("PATCH", one, patch_template, action=write, answer=answer, summary=f"Change {noun}")
    routes.add("DELETE", one, delete_template, action=write, status=204, summary=f"Delete {noun}")


for _kind in PATHS:
    _add_reads(_kind)
    _add_writes(_kind)


# --- writing ---------------------------------------------------------------------------------------------------------


def _replaced(
    plane: Plane,
    connection: Connection,
    caller: Caller,
    kind: Kind,
    row: Any,
    meta: Mapping[str, Any],
    values: Mapping[str, Any],
) -> ActionResult:
    """What only our own form can say of the template stays: its locks, and other kinds that it is for."""
    before = body_of(TEMPLATE.request, row.document)
    whole = _request(kind, {**meta, "scope": AssetScope(row.scope)}, values)
    kept = {
        "meta": whole.meta.model_copy(
            update={"scope": None, "workload_supported_types": before.meta.workload_supported_types}
        ),
        **{name: getattr(before, name) for name in ("administrative", "required", "locked")},
    }
    done = asset_routes.replaced(plane, connection, caller, TEMPLATE, row, whole.model_copy(update=kept))
    return _answered(connection, done, kind)


def _request(kind: Kind, meta: Mapping[str, Any], values: Mapping[str, Any]) -> assets_wire.TemplateRequest:
    types = {"workloadSupportedTypes": {kind.value.lower(): True}}
    return assets_wire.TemplateRequest.model_validate({"meta": {**meta, **types}, "spec": _own_form(kind, values)})


def _own_form(kind: Kind, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as a submit of this kind has them; refuses what it does not have."""
    try:
        spec = SPECS[kind].model_validate(values)
    except ValidationError as error:
        problems = validation_problems(error.errors())
        placed = [each.model_copy(update={"field": f"spec.{each.field}"}) for each in problems]
        raise Refused(422, placed) from error
    said: dict[str, Any] = spec.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)
    return said


def _patched(before: dict[str, Any], change: Mapping[str, Any], cleared: list[str]) -> dict[str, Any]:
    """The values with those that change, and without those that are cleared."""
    found = dict(before)
    for name, value in change.items():
        is_inside = name in NESTED and isinstance(value, Mapping) and isinstance(found.get(name), Mapping)
        found[name] = {**found[name], **value} if is_inside else value
    for path in cleared:
        top, _, below = path.removeprefix("spec.").partition(".")
        if not below:
            found.pop(top, None)
        elif isinstance(found.get(top), Mapping):
            found[top] = {name: value for name, value in found[top].items() if name != below}
    return found


def _answered(connection: Connection, done: ActionResult, kind: Kind) -> ActionResult:
    row = store.one(connection, store.TEMPLATE, done.entity_id)
    return replace(done, body=_shown(connection, row, kind))


# --- reading ---------------------------------------------------------------------------------------------------------


def _known(connection: Connection, caller: Caller, template_id: str, kind: Kind | None) -> Any:
    row = known_asset(connection, caller, TEMPLATE, template_id)
    if kind is not None and not supports(types_of(row), kind):
        raise unknown("template", template_id)
    return row


def _page(connection: Connection, caller: Caller, query: TypedQuery, kind: Kind | None) -> wire.TypedTemplatePage:
    rows = visible(connection, caller, store.TEMPLATE)
    fitting = [row for row in rows if kind is None or supports(types_of(row), kind)]
    some, following = page(filtered(fitting, FIELDS, query), query)
    project = _complied(connection, caller, query.comply_to_project)
    pagination = wire.Pagination(limit=query.limit, offset=query.offset, next_offset=following)
    return wire.TypedTemplatePage(
        entries=[_shown(connection, row, kind, project) for row in some], pagination=pagination
    )


def _complied(connection: Connection, caller: Caller, asked: str) -> Any:
    """The project that compliance is asked for; None: it is not."""
    if not asked:
        return None
    row = organization_store.project(connection, project_name(connection, asked))
    if row is None or not caller.may(Action.ASSET_READ, row.name, row.department, row.cluster):
        raise unknown("project", asked, is_hidden=row is not None)
    return row


def _shown(connection: Connection, row: Any, kind: Kind | None, project: Any = None) -> wire.TypedTemplate:
    body = body_of(TEMPLATE.request, row.document)
    types = types_of(row)
    of = kind or next((each for each in PATHS if supports(types, each)), Kind.TRAINING)
    values = spec_of(body)
    scope = scope_shown(connection, row)
    meta = wire.TypedTemplateMeta(
        id=row.id,
        name=row.name,
        description=body.meta.description or None,
        workload_type=of,
        scope_type=scope.pop("scope"),
        scope_id=row.scope_id or str(TENANT_ID),
        **scope,
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_by=parse_json(row.document.encode()).get("updatedBy", row.created_by),
        updated_at=iso(row.updated_at),
    )
    master = values.pop("masterSpec", None)
    found = wire.TypedTemplate(meta=meta, spec=in_original_form(values), revision=row.revision)
    more: dict[str, Any] = {}
    if master is not None:
        more |= {"master_spec_same_as_worker": False, "master": wire.MasterAnswer(spec=in_original_form(master))}
    if values.get("assets"):
        more["combined_spec"] = _combined(connection, row)
    if project is not None:
        more["compliance_issues"] = submit_values.compliance_issues(connection, project, of, {"template": row.id})
    return found.model_copy(update=more)


def _combined(connection: Connection, row: Any) -> dict[str, Any] | None:
    """With the values of its assets; None: one of them is gone."""
    place = scopes_around(connection, scope_of(row))
    try:
        whole = dict(values_of(row, AssetLookup(connection, place)).whole)
    except Refused:
        return None
    return in_original_form({name: value for name, value in whole.items() if name not in ("assets", "masterSpec")})

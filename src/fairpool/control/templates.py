"""HTTP routes for workload templates: values that submits are filled up with."""

from __future__ import annotations

from typing import Any

from fairpool.api import assets as wire
from fairpool.api.assets import AssetScope
from fairpool.control.asset_kinds import AssetKind
from fairpool.control.asset_lookup import AssetLookup
from fairpool.control.asset_routes import add_asset_routes
from fairpool.control.asset_rows import body_of, spec_of
from fairpool.control.asset_scopes import StoredScope
from fairpool.control.asset_use import asset_ids
from fairpool.control.refusal import Refused, refused
from fairpool.control.routes import Routes
from fairpool.control.store import assets as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.control.template_checks import template_problems
from fairpool.control.template_values import TemplateValues

routes = Routes("assets")


class TemplateKind(AssetKind):
    """Workload templates: beside values they have requirements, locks, and the assets that they name."""

    __slots__ = ()

    def check(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> None:
        other = store.administrative_in(connection, place.columns) if body.administrative else None
        if other is not None and (before is None or other.id != before.id):
            what = f"{place.text} already has an administrative template: {other.name}"
            raise refused(409, "template.administrative", what, "change or delete that one first", "administrative")
        if problems := template_problems(body):
            raise Refused(422, problems)

    def columns(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> dict[str, Any]:
        """With the ids of its assets: a narrower scope cannot put another one of the same name in their place."""
        self.check(connection, place, body, before)
        spec, _ = AssetLookup(connection, scopes_around(connection, place)).resolved(spec_of(body))
        resolved = body.model_copy(update={"spec": type(body.spec).model_validate(spec)})
        return {"administrative": body.administrative, "document": self.document(resolved)}

    def values(self, body: Any) -> dict[str, Any]:
        return spec_of(body)

    def more(self, connection: Connection, body: Any) -> dict[str, Any]:
        said = {"administrative": body.administrative, "required": body.required, "locked": body.locked}
        spec = spec_of(body)
        references = spec.get("assets")
        if not references:
            return said
        names = store.names_of(connection, list(asset_ids(references)))
        shown = {
            **{group: _label(asset_id, names) for group, asset_id in references.items() if group != "datasources"},
            **{
                group: [{**each, **_label(each["id"], names)} for each in found]
                for group, found in references.items()
                if group == "datasources"
            },
        }
        return {**said, "spec": {**spec, "assets": shown}}


def _label(asset_id: str, names: dict[str, str]) -> dict[str, str]:
    return {"id": asset_id, "name": names.get(asset_id, "")}


def scopes_around(connection: Connection, place: StoredScope) -> dict[str, str]:
    """The scopes that contain a scope: what may be named in it."""
    if place.scope is AssetScope.PROJECT:
        return store.place_of(organization_store.project(connection, place.scope_id))
    return {"cluster": "", "department": "", "project": "", place.scope.value: place.scope_id}


TEMPLATE = TemplateKind(
    kind=store.TEMPLATE,
    noun="template",
    request=wire.TemplateRequest,
    answer=wire.Template,
    page=wire.TemplatePage,
)
add_asset_routes(routes, TEMPLATE)


def types_of(row: Any) -> wire.SupportedTypes:
    """The kinds of workloads that a stored template is for."""
    return TEMPLATE.types(body_of(TEMPLATE.request, row.document))


def values_of(row: Any, lookup: AssetLookup) -> TemplateValues:
    """What a stored template says about submits."""
    body = body_of(TEMPLATE.request, row.document)
    try:
        values, assets = lookup.resolved(spec_of(body))
    except Refused as refusal:
        what = f"template {row.name} cannot be used: {refusal.message}"
        raise refused(422, "template.asset", what, "ask an administrator to change the template", "spec") from refusal
    return TemplateValues(
        name=row.name,
        scope=AssetScope(row.scope),
        values=values,
        administrative=body.administrative,
        required=tuple(body.required),
        locked=tuple(body.locked),
        assets=assets,
    )

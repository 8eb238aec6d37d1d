"""HTTP routes that every kind of asset has: list, count, get, create, replace, delete.

routes = Routes("assets")
add_asset_routes(routes, AssetKind(kind="compute", …))
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import assets as wire
from fairpool.api.asset_paths import ASSET_PATHS
from fairpool.api.assets import AssetScope
from fairpool.api.roles import Verb
from fairpool.api.wire import Count, compact, parse_json
from fairpool.control import asset_use
from fairpool.control.asset_scopes import AssetSight, StoredScope, asked_scope, require_write, scope_of
from fairpool.control.moments import iso
from fairpool.control.paging import Field, FilterBy, ListQuery, Search, counting, filtered, page, text_field, time_field
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import ON_ASSET, Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import assets as store
from fairpool.control.store import changes
from fairpool.control.store.database import Connection
from fairpool.control.template_values import supported

ASSETS_MAX = 10_000
"""Of each noun."""

UsageInfo = Annotated[bool, Parameter(alias="usageInfo", description="With `usedBy`: workloads and templates")]


def _of_scope(scope: AssetScope) -> Field[Any]:
    return text_field(lambda row: row.scope_id if row.scope == scope.value else "")


@lru_cache(maxsize=16_384)
def _kind_in(document: str) -> str | None:
    found = parse_json(document.encode()).get("kind")
    return None if found is None else str(found)


ABOUT_IT = ("kind", "updatedBy")
"""Keys of a document beside the request."""


def kind_of(row: Any) -> str:
    """The kind of a stored asset: `nfs` of a data source."""
    return _kind_in(row.document) or str(row.kind)


FIELDS: Mapping[str, Field[Any]] = {
    "name": text_field(lambda row: row.name),
    "id": text_field(lambda row: row.id),
    "kind": text_field(kind_of),
    "scope": text_field(lambda row: row.scope),
    "projectId": _of_scope(AssetScope.PROJECT),
    "departmentId": _of_scope(AssetScope.DEPARTMENT),
    "clusterId": _of_scope(AssetScope.CLUSTER),
    "createdBy": text_field(lambda row: row.created_by),
    "createdAt": time_field(lambda row: iso(row.created_at)),
    "updatedAt": time_field(lambda row: iso(row.updated_at)),
}
"""Of stored assets: only the listed page is read whole."""


class AssetQuery(ListQuery):
    """Which assets, in which order, and how many; scope, projectId and the like as conditions of `filterBy` too."""

    name: Annotated[str, Parameter(max_length=64, description="Only those of this name")] = ""
    scope: AssetScope | None = None
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256)] = ""
    department_id: Annotated[str, Parameter(alias="departmentId", max_length=256)] = ""
    cluster_id: Annotated[str, Parameter(alias="clusterId", max_length=256)] = ""
    asset_ids: Annotated[str, Parameter(alias="assetIds", max_length=65_536, description="Comma-separated ids")] = ""
    usage_info: UsageInfo = False

    def covers(self, row: Any) -> bool:
        asked = {
            "name": self.name,
            "scope": self.scope.value if self.scope is not None else "",
            "projectId": self.project_id,
            "departmentId": self.department_id,
            "clusterId": self.cluster_id,
        }
        is_one = not self.asset_ids or row.id in self.asset_ids.split(",")
        return is_one and all(not value or FIELDS[field].value(row) == value for field, value in asked.items())


@lru_cache(maxsize=1024)
def body_of(request: type[wire.AssetRequest], document: str) -> Any:
    """A stored asset as it was requested; cached, since the value is immutable and is read at every submit."""
    return request.model_validate(
        {name: each for name, each in parse_json(document.encode()).items() if name not in ABOUT_IT}
    )


def spec_of(body: Any) -> dict[str, Any]:
    """The values of an asset, those that are given."""
    said: dict[str, Any] = body.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return said


@dataclass(frozen=True, slots=True)
class AssetKind:
    """A kind of asset: its place in the API, its messages, and what must hold before it is stored."""

    kind: str
    noun: str
    """As people call it: `data source`."""
    request: type[wire.AssetRequest]
    group: str = ""
    """The kind as stored, if several kinds share names and ids; else the same."""
    answer: type[wire.Asset] = wire.Asset
    page: type[Any] = wire.AssetPage

    @property
    def path(self) -> str:
        return ASSET_PATHS[self.kind]

    @property
    def stored_as(self) -> str:
        return self.group or self.kind

    def action(self, verb: Verb) -> Action:
        return ON_ASSET[self.stored_as][verb]

    @property
    def code(self) -> str:
        """The first part of the codes of its problems."""
        return self.stored_as.removeprefix("workload-")

    @property
    def summed_up(self) -> str:
        """In the summary of a route: `a data source (nfs)`."""
        return _article(self.noun) + (f" ({self.kind})" if self.group else "")

    @property
    def summed_up_as_list(self) -> str:
        return f"{self.noun}s" + (f" ({self.kind})" if self.group else "")

    def columns(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> dict[str, Any]:
        """Checked values to store; refuses with everything that is wrong. `before`: the row that is replaced."""
        self.check(connection, place, body, before)
        return {"administrative": False, "document": self.document(body)}

    def check(self, connection: Connection, place: StoredScope, body: Any, before: Any) -> None:
        """Refuses what must not be stored."""

    def document(self, body: Any) -> dict[str, Any]:
        return {"kind": self.kind, **body.model_dump(mode="json", by_alias=True, exclude_unset=True)}

    def values(self, body: Any) -> dict[str, Any]:
        """What it says about submits, in fields of a workload."""
        raise NotImplementedError

    def types(self, body: Any) -> wire.SupportedTypes:
        """The kinds of workloads that it is for."""
        return body.meta.workload_supported_types or supported(self.values(body))

    def more(self, connection: Connection, body: Any) -> dict[str, Any]:
        """Fields of the answer that only this kind has, or has otherwise."""
        return {}

    def shown(self, connection: Connection, row: Any, uses: Mapping[str, wire.AssetUse] | None = None) -> Any:
        body = body_of(self.request, row.document)
        written: dict[str, Any] = {
            "created_by": row.created_by,
            "created_at": iso(row.created_at),
            "updated_at": iso(row.updated_at),
        }
        meta = wire.AssetAnswer(
            id=row.id,
            kind=self.kind,
            name=row.name,
            scope=AssetScope(row.scope),
            description=body.meta.description or None,
            workload_supported_types=self.types(body),
            updated_by=parse_json(row.document.encode()).get("updatedBy", row.created_by),
            **written,
            **({f"{row.scope}_id": row.scope_id} if row.scope_id else {}),
        )
        said = {"id": row.id, "kind": self.kind, "meta": meta, "spec": spec_of(body), "revision": row.revision}
        used = {} if uses is None else {"used_by": uses.get(row.id, wire.AssetUse())}
        return self.answer(**{**said, **written, **used, **self.more(connection, body)})


def visible(connection: Connection, caller: Caller, group: str, kind: str = "") -> list[Any]:
    """The rows of a group that the caller may see; of one kind of it, if named."""
    sight = AssetSight(connection, caller, ON_ASSET[group][Verb.READ])
    return [row for row in store.all_of(connection, group) if sight.covers(row) and kind in ("", kind_of(row))]


def known_asset(connection: Connection, caller: Caller, kind: AssetKind, asset_id: str) -> Any:
    """The row of an asset; 404 also for one that the caller may not know of."""
    row = store.one(connection, kind.stored_as, asset_id)
    if (
        row is None
        or kind_of(row) != kind.kind
        or not AssetSight(connection, caller, kind.action(Verb.READ)).covers(row)
    ):
        raise unknown(kind.noun, asset_id, is_hidden=row is not None)
    return row


def add_asset_routes(routes: Routes, kind: AssetKind) -> None:
    """Declare the routes of a kind."""
    _add_reads(routes, kind)
    _add_writes(routes, kind)


def _add_reads(routes: Routes, kind: AssetKind) -> None:
    async def list_assets(plane: Plane, caller: Caller, query: AssetQuery) -> Any:
        def unit(connection: Connection) -> tuple[list[Any], int | None]:
            rows = visible(connection, caller, kind.stored_as, kind.kind)
            some, following = page(filtered([row for row in rows if query.covers(row)], FIELDS, query), query)
            uses = asset_use.of_all(connection, caller) if query.usage_info else None
            return [kind.shown(connection, row, uses) for row in some], following

        entries, following = await plane.read(unit)
        return kind.page(entries=entries, next=following)

    async def count_assets(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
        rows = await plane.read(lambda connection: visible(connection, caller, kind.stored_as, kind.kind))
        return Count(count=len(filtered(rows, FIELDS, counting(filter_by, search))))

    async def get_asset(asset_id: str, plane: Plane, caller: Caller, usage_info: UsageInfo = False) -> Response:
        def unit(connection: Connection) -> Any:
            uses = asset_use.of_all(connection, caller) if usage_info else None
            return kind.shown(connection, known_asset(connection, caller, kind, asset_id), uses)

        found = await plane.read(unit)
        return answered(ActionResult(body=found, revision=found.revision))

    read, one, all_of_them = kind.action(Verb.READ), kind.summed_up, kind.summed_up_as_list
    routes.add("GET", kind.path, list_assets, action=read, answer=kind.page, summary=f"List {all_of_them}")
    routes.add("GET", f"{kind.path}/count", count_assets, action=read, answer=Count, summary=f"Count {all_of_them}")
    routes.add("GET", _one(kind), get_asset, action=read, answer=kind.answer, summary=f"Get {one}")


def _add_writes(routes: Routes, kind: AssetKind) -> None:
    async def create_asset(request: Request, plane: Plane, caller: Caller, body: Any) -> Response:
        return await plane.perform(request, caller, lambda connection: _created(plane, connection, caller, kind, body))

    async def replace_asset(asset_id: str, request: Request, plane: Plane, caller: Caller, body: Any) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = known_asset(connection, caller, kind, asset_id)
            check_match(request, row.revision)
            return _replaced(plane, connection, caller, kind, row, body)

        return await plane.perform(request, caller, unit)

    async def delete_asset(asset_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = known_asset(connection, caller, kind, asset_id)
            check_match(request, row.revision)
            return _deleted(plane, connection, caller, kind, row)

        return await plane.perform(request, caller, unit)

    stays = "Workloads that were submitted with it stay as they are."
    replace_asset.__doc__ = f"Its scope cannot be changed. {stays}"
    delete_asset.__doc__ = stays
    create_asset.__annotations__["body"] = kind.request
    replace_asset.__annotations__["body"] = wire.change_of(kind.request)
    noun, answer = kind.summed_up, kind.answer
    create, change, drop = (kind.action(verb) for verb in (Verb.CREATE, Verb.UPDATE, Verb.DELETE))
    routes.add("POST", kind.path, create_asset, action=create, answer=answer, status=201, summary=f"Create {noun}")
    routes.add("PUT", _one(kind), replace_asset, action=change, answer=answer, summary=f"Replace {noun}")
    routes.add("DELETE", _one(kind), delete_asset, action=drop, status=204, summary=f"Delete {noun}")


def _one(kind: AssetKind) -> str:
    return kind.path + "/{asset_id}"


def _article(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


# --- writing -----------------------------------------------------------------------------------------------------


def _created(plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, body: Any) -> ActionResult:
    place = asked_scope(connection, caller, body.meta, kind.action(Verb.CREATE))
    if store.count(connection, kind.stored_as) >= ASSETS_MAX:
        what = f"there are {ASSETS_MAX} {kind.noun}s already"
        raise refused(409, f"{kind.code}.too_many", what, "delete some that are not used")
    values = _checked(connection, caller, kind, place, body, None)
    now, asset_id = plane.now(), str(uuid.uuid4())
    revision = _recorded(plane, connection, kind, asset_id, place, "created")
    made_by = {"created_at": now, "created_by": caller.name, "updated_at": now, "revision": revision}
    store.add(connection, id=asset_id, kind=kind.stored_as, **place.columns, **values, **made_by)
    return _result(connection, kind, asset_id, "create", status=201)


def _replaced(
    plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, row: Any, body: Any
) -> ActionResult:
    place = scope_of(row)
    needed = kind.action(Verb.UPDATE)
    require_write(connection, caller, place, needed)
    if body.meta.scope is not None and asked_scope(connection, caller, body.meta, needed) != place:
        what = f"{_article(kind.noun)} cannot move to another scope"
        raise refused(422, f"{kind.code}.moved", what, f"create another {kind.noun} there", "meta.scope")
    spec = body_of(kind.request, row.document).spec if body.spec is None else body.spec
    whole = body.model_copy(update={"meta": body.meta.model_copy(update={"scope": place.scope}), "spec": spec})
    values = _checked(connection, caller, kind, place, whole, row)
    revision = _recorded(plane, connection, kind, row.id, place, "updated")
    store.change(connection, row.id, updated_at=plane.now(), revision=revision, **values)
    return _result(connection, kind, row.id, "update")


def _deleted(plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, row: Any) -> ActionResult:
    place = scope_of(row)
    require_write(connection, caller, place, kind.action(Verb.DELETE))
    if users := asset_use.templates_with(connection, row.id):
        sight = AssetSight(connection, caller, Action.TEMPLATE_READ)
        named = next((f"the template {each.name}" for each in users if sight.covers(each)), "a template of others")
        what = f"{kind.noun} {row.name} is used by {named}"
        raise refused(412, f"{kind.code}.in_use", what, "change or delete the template first")
    store.remove(connection, row.id)
    _recorded(plane, connection, kind, row.id, place, "deleted")
    return ActionResult(status=204, action="delete", entity_type=kind.code, entity_id=row.id, entity_name=row.name)


def _checked(
    connection: Connection, caller: Caller, kind: AssetKind, place: StoredScope, body: Any, before: Any
) -> dict[str, Any]:
    other = store.taken(connection, kind.stored_as, place.columns, body.meta.name)
    if other is not None and (before is None or other.id != before.id):
        what = f"{place.text} already has {_article(kind.noun)} {other.name}"
        raise refused(409, f"{kind.code}.exists", what, "use another name", "meta.name")
    values = kind.columns(connection, place, body, before)
    document = compact({**values["document"], "updatedBy": caller.name})
    return {**values, "name": body.meta.name, "document": document}


def _recorded(
    plane: Plane, connection: Connection, kind: AssetKind, asset_id: str, place: StoredScope, verb: str
) -> int:
    """Number the change; clusters need not know."""
    project = place.scope_id if place.scope is AssetScope.PROJECT else None
    kept = plane.settings.changes_kept
    return changes.record(
        connection, kind.code, asset_id, verb, plane.now(), project=project, declared=False, kept=kept
    )


def _result(connection: Connection, kind: AssetKind, asset_id: str, action: str, status: int = 200) -> ActionResult:
    made = kind.shown(connection, store.one(connection, kind.stored_as, asset_id))
    return ActionResult(
        body=made,
        status=status,
        action=action,
        entity_type=kind.code,
        entity_id=asset_id,
        entity_name=made.meta.name,
        revision=made.revision,
    )

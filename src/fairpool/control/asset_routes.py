"""HTTP routes that every kind of asset has: list, count, get, create, replace, delete.

routes = Routes("assets")
add_asset_routes(routes, AssetKind(kind="compute", …))
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import assets as wire
from fairpool.api.assets import AssetScope
from fairpool.api.roles import Verb
from fairpool.api.wire import Count, compact
from fairpool.control import asset_use
from fairpool.control.asset_kinds import NO_FINDINGS, AssetKind, article
from fairpool.control.asset_query import AssetDetails, AssetQuery, asked_for, known_asset, visible
from fairpool.control.asset_rows import FIELDS, body_of
from fairpool.control.asset_scopes import StoredScope, asked_scope, require_write, scope_of
from fairpool.control.paging import FilterBy, Search, counting, filtered, page
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.refusal import refused
from fairpool.control.routes import Routes
from fairpool.control.store import assets as store
from fairpool.control.store import changes
from fairpool.control.store.database import Connection

ASSETS_MAX = 10_000
"""Of each noun."""

Finder = Callable[[Any], wire.AssetFindings]
"""What was asked for about the asset of a row."""
FinderOf = Callable[[Plane, Connection, Caller, AssetDetails], Finder]


def usage(plane: Plane, connection: Connection, caller: Caller, asked: AssetDetails) -> Finder:
    """Who uses each asset, if that is asked for."""
    if not asked.usage_info:
        return lambda row: NO_FINDINGS
    uses = asset_use.of_all(connection, caller)
    return lambda row: wire.AssetFindings(used_by=uses.get(row.id, wire.AssetUse()))


def add_asset_routes(routes: Routes, kind: AssetKind, finder_of: FinderOf = usage) -> None:
    """Declare the routes of a kind."""
    _add_reads(routes, kind, finder_of)
    _add_writes(routes, kind)


def _add_reads(routes: Routes, kind: AssetKind, finder_of: FinderOf) -> None:
    async def list_assets(plane: Plane, caller: Caller, query: AssetQuery) -> Any:
        def unit(connection: Connection) -> tuple[list[Any], int | None]:
            rows = asked_for(connection, caller, kind, query)
            some, following = page(filtered(rows, FIELDS, query), query)
            finder = finder_of(plane, connection, caller, query)
            return [kind.shown(connection, row, finder(row)) for row in some], following

        entries, following = await plane.read(unit)
        return kind.page(entries=entries, next=following)

    async def count_assets(plane: Plane, caller: Caller, filter_by: FilterBy = "", search: Search = "") -> Count:
        rows = await plane.read(lambda connection: visible(connection, caller, kind.stored_as, kind.kind))
        return Count(count=len(filtered(rows, FIELDS, counting(filter_by, search))))

    async def get_asset(asset_id: str, plane: Plane, caller: Caller, asked: AssetDetails) -> Response:
        def unit(connection: Connection) -> Any:
            row = known_asset(connection, caller, kind, asset_id)
            return kind.shown(connection, row, finder_of(plane, connection, caller, asked)(row))

        found = await plane.read(unit)
        return answered(ActionResult(body=found, revision=found.revision))

    read, one, all_of_them = kind.action(Verb.READ), kind.summed_up, kind.summed_up_as_list
    routes.add("GET", kind.path, list_assets, action=read, answer=kind.page, summary=f"List {all_of_them}")
    routes.add("GET", f"{kind.path}/count", count_assets, action=read, answer=Count, summary=f"Count {all_of_them}")
    routes.add("GET", _one(kind), get_asset, action=read, answer=kind.answer, summary=f"Get {one}")


def _add_writes(routes: Routes, kind: AssetKind) -> None:
    async def create_asset(request: Request, plane: Plane, caller: Caller, body: Any) -> Response:
        return await plane.perform(request, caller, lambda connection: created(plane, connection, caller, kind, body))

    async def replace_asset(asset_id: str, request: Request, plane: Plane, caller: Caller, body: Any) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = known_asset(connection, caller, kind, asset_id)
            check_match(request, row.revision)
            return replaced(plane, connection, caller, kind, row, body)

        return await plane.perform(request, caller, unit)

    async def delete_asset(asset_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        def unit(connection: Connection) -> ActionResult:
            row = known_asset(connection, caller, kind, asset_id)
            check_match(request, row.revision)
            return deleted(plane, connection, caller, kind, row)

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


# --- writing -----------------------------------------------------------------------------------------------------


def created(plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, body: Any) -> ActionResult:
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


def replaced(
    plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, row: Any, body: Any
) -> ActionResult:
    place = scope_of(row)
    needed = kind.action(Verb.UPDATE)
    require_write(connection, caller, place, needed)
    if body.meta.scope is not None and asked_scope(connection, caller, body.meta, needed) != place:
        what = f"{article(kind.noun)} cannot move to another scope"
        raise refused(422, f"{kind.code}.moved", what, f"create another {kind.noun} there", "meta.scope")
    spec = kind.changed(body_of(kind.request, row.document).spec, body.spec)
    whole = body.model_copy(update={"meta": body.meta.model_copy(update={"scope": place.scope}), "spec": spec})
    values = _checked(connection, caller, kind, place, whole, row)
    revision = _recorded(plane, connection, kind, row.id, place, "updated")
    store.change(connection, row.id, updated_at=plane.now(), revision=revision, **values)
    return _result(connection, kind, row.id, "update")


def deleted(plane: Plane, connection: Connection, caller: Caller, kind: AssetKind, row: Any) -> ActionResult:
    place = scope_of(row)
    require_write(connection, caller, place, kind.action(Verb.DELETE))
    if users := asset_use.users_of(connection, caller, row.id):
        what = f"{kind.noun} {row.name} is used by {users[0]}"
        raise refused(412, f"{kind.code}.in_use", what, f"change or delete {users[0]} first")
    store.remove(connection, row.id)
    _recorded(plane, connection, kind, row.id, place, "deleted")
    return ActionResult(status=204, action="delete", entity_type=kind.code, entity_id=row.id, entity_name=row.name)


def _checked(
    connection: Connection, caller: Caller, kind: AssetKind, place: StoredScope, body: Any, before: Any
) -> dict[str, Any]:
    other = store.taken(connection, kind.stored_as, place.columns, body.meta.name)
    if other is not None and (before is None or other.id != before.id):
        what = f"{place.text} already has {article(kind.noun)} {other.name}"
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

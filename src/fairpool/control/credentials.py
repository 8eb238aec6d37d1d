"""HTTP routes for credentials: stored encrypted, listed without their values, used by the pods of their scope."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import credentials as wire
from fairpool.api.assets import AssetScope
from fairpool.api.limits import CREDENTIALS, PAGE_MAX
from fairpool.api.wire import Count, compact, parse_json
from fairpool.control import credential_use
from fairpool.control.asset_query import UsageInfo
from fairpool.control.asset_scopes import StoredScope, asked_scope, named_scope, scope_of, seen_scopes
from fairpool.control.credential_answers import listed, shown
from fairpool.control.credential_checks import KnownCredential
from fairpool.control.credential_values import key_sizes, secret_values, shown_values
from fairpool.control.numbers import project_name
from fairpool.control.paging import Limit, Offset, Search, SortOrder
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.sealing import KeyUnusable, SealingKey
from fairpool.control.store import changes
from fairpool.control.store import credentials as store
from fairpool.control.store import organization as organization_store
from fairpool.control.store.database import Connection
from fairpool.model.secret import CredentialKind

routes = Routes("credentials")

CREDENTIALS_MAX = 50_000
NARROWEST_FIRST = ("project", "department", "cluster", "tenant")
Kind = Annotated[
    str, Parameter(max_length=32, pattern=f"^({'|'.join(CredentialKind)})?$", description="Only this type")
]
Name = Annotated[str, Parameter(max_length=64, description="Only those of exactly this name")]
SortBy = Annotated[str, Parameter(alias="sortBy", pattern="^(name|kind|scope|createdBy|createdAt|updatedAt)$")]
Answered = Callable[[wire.StoredCredential], Any]
"""What is answered in place of a credential."""
CREATE = Action.CREDENTIAL_WRITE
COLUMNS = {"createdBy": "created_by", "createdAt": "created_at", "updatedAt": "updated_at"}


class CredentialQuery(Query):
    """Which credentials, in which order, and how many."""

    name: Name = ""
    search: Search = ""
    scope: AssetScope | None = None
    project_id: Annotated[str, Parameter(alias="projectId", max_length=256, description="Its name or number")] = ""
    department_id: Annotated[str, Parameter(alias="departmentId", max_length=256)] = ""
    cluster_id: Annotated[str, Parameter(alias="clusterId", max_length=256)] = ""
    usage_info: UsageInfo = False
    sort_by: SortBy = "name"
    sort_order: SortOrder = "asc"
    offset: Offset = 0
    limit: Limit = PAGE_MAX

    def wanted(self, connection: Connection, kind: str) -> store.Wanted:
        ids = {
            AssetScope.PROJECT.value: self.project_id and project_name(connection, self.project_id),
            AssetScope.DEPARTMENT.value: self.department_id,
            AssetScope.CLUSTER.value: self.cluster_id,
        }
        scopes = tuple((scope, scope_id) for scope, scope_id in ids.items() if scope_id)
        scope = self.scope.value if self.scope is not None else ""
        return store.Wanted(kind=kind, search=self.search, name=self.name, scope=scope, scopes=scopes)


@routes.get(CREDENTIALS, action=Action.CREDENTIAL_READ, answer=wire.MixedPage, summary="List credentials")
async def credentials(plane: Plane, caller: Caller, query: CredentialQuery, kind: Kind = "") -> wire.MixedPage:
    """Without their values: those are only given to pods."""
    found, following = await plane.read(lambda connection: _page(plane, connection, caller, query, kind))
    return wire.MixedPage(entries=[listed(each) for each in found], next=following)


@routes.get(f"{CREDENTIALS}/count", action=Action.CREDENTIAL_READ, answer=Count, summary="Count credentials")
async def credential_count(
    plane: Plane, caller: Caller, kind: Kind = "", name: Name = "", search: Search = ""
) -> Count:
    wanted = store.Wanted(kind=kind, search=search, name=name)
    return Count(
        count=await plane.read(
            lambda connection: store.count(connection, seen_scopes(connection, caller, Action.CREDENTIAL_READ), wanted)
        )
    )


@routes.get(
    CREDENTIALS + "/{kind}", action=Action.CREDENTIAL_READ, answer=wire.CredentialPage, summary="List those of a type"
)
async def credentials_of_kind(kind: str, plane: Plane, caller: Caller, query: CredentialQuery) -> wire.CredentialPage:
    of = _kind(kind)
    found, following = await plane.read(lambda connection: _page(plane, connection, caller, query, of.value))
    return wire.CredentialPage(entries=found, next=following)


def _page(
    plane: Plane, connection: Connection, caller: Caller, query: CredentialQuery, kind: str
) -> tuple[list[wire.StoredCredential], int | None]:
    rows = store.some(
        connection,
        seen_scopes(connection, caller, Action.CREDENTIAL_READ),
        query.wanted(connection, kind),
        sort_by=COLUMNS.get(query.sort_by, query.sort_by),
        descending=query.sort_order == "desc",
        offset=query.offset,
        limit=query.limit + 1,
    )
    following = query.offset + query.limit if len(rows) > query.limit else None
    uses = credential_use.of_all(connection, caller, usable) if query.usage_info else None
    return [shown(connection, row, key_id(plane), uses) for row in rows[: query.limit]], following


@routes.get(
    CREDENTIALS + "/{kind}/{credential_id}",
    action=Action.CREDENTIAL_READ,
    answer=wire.StoredCredential,
    summary="Get a credential without its values",
)
async def credential(
    kind: str, credential_id: str, plane: Plane, caller: Caller, usage_info: UsageInfo = False
) -> Response:
    def unit(connection: Connection) -> wire.StoredCredential:
        row = known(connection, caller, _kind(kind), credential_id)
        uses = credential_use.of_all(connection, caller, usable) if usage_info else None
        return shown(connection, row, key_id(plane), uses)

    found = await plane.read(unit)
    return answered(ActionResult(body=found, revision=found.revision))


@routes.post(
    CREDENTIALS + "/{kind}",
    action=Action.CREDENTIAL_WRITE,
    answer=wire.StoredCredential,
    status=201,
    summary="Create a credential",
)
async def create_credential(
    kind: str, request: Request, plane: Plane, caller: Caller, body: wire.CredentialRequest
) -> Response:
    """Pods of its scope refer to it by its name."""
    return await create(request, plane, caller, _kind(kind), body)


def _as_stored(found: wire.StoredCredential) -> Any:
    return found


async def create(
    request: Request,
    plane: Plane,
    caller: Caller,
    of: CredentialKind,
    body: wire.CredentialRequest,
    as_answered: Answered = _as_stored,
) -> Response:
    """Store a credential; refuses one that is incomplete or whose name is taken."""
    key = _key(plane)
    data = _data(of, body.spec or wire.CredentialSpec())

    def unit(connection: Connection) -> ActionResult:
        place = _place(connection, caller, body)
        if store.named(connection, place.scope.value, place.scope_id, body.meta.name) is not None:
            what = f"{place.text} already has a credential {body.meta.name}"
            raise refused(409, "credential.exists", what, "use another name, or update that one", "meta.name")
        if store.count(connection) >= CREDENTIALS_MAX:
            what = f"there are {CREDENTIALS_MAX} credentials already"
            raise refused(409, "credential.too_many", what, "delete some that are not used")
        credential_id, now = str(uuid.uuid4()), plane.now()
        store.add(
            connection,
            id=credential_id,
            kind=of.value,
            name=body.meta.name,
            **place.columns,
            cluster_wide=bool(body.cluster_wide),
            **_values(key, credential_id, of, data, body.meta.description, caller.name),
            owner=caller.id,
            created_at=now,
            created_by=caller.name,
            updated_at=now,
            revision=_changed(plane, connection, credential_id, place, "created"),
        )
        return _result(connection, credential_id, "create", key.id, as_answered, status=201)

    return await plane.perform(request, caller, unit, pepper=key.content)


@routes.put(
    CREDENTIALS + "/{kind}/{credential_id}",
    action=Action.CREDENTIAL_CHANGE,
    answer=wire.StoredCredential,
    summary="Replace a credential",
)
async def replace_credential(
    kind: str, credential_id: str, request: Request, plane: Plane, caller: Caller, body: wire.CredentialChange
) -> Response:
    """Pods that start from now on get the new values; those that run keep what they have."""
    return await replace(request, plane, caller, _kind(kind), credential_id, body)


async def replace(
    request: Request,
    plane: Plane,
    caller: Caller,
    of: CredentialKind,
    credential_id: str,
    body: wire.CredentialChange,
    as_answered: Answered = _as_stored,
) -> Response:
    """Store other values, or another description."""
    key = _key(plane)
    data = _data(of, body.spec) if body.spec is not None else None

    def unit(connection: Connection) -> ActionResult:
        row = known(connection, caller, of, credential_id)
        check_match(request, row.revision)
        _require_change(connection, caller, row, Action.CREDENTIAL_UPDATE)
        place = scope_of(row) if body.meta.scope is None else _place(connection, caller, body, scope_of(row))
        if (row.name, scope_of(row)) != (body.meta.name or row.name, place):
            what = "a credential cannot get another name or scope"
            raise refused(422, "credential.moved", what, "create another one there", "meta.name")
        _require_wide(caller, body)
        before = parse_json(row.document.encode())
        said = "description" in body.meta.model_fields_set
        description = body.meta.description if said else before["description"]
        if data is not None:
            values = _values(key, row.id, of, data, description, caller.name)
        else:
            values = {"document": compact(before | {"description": description, "updatedBy": caller.name})}
        wide = row.cluster_wide if body.cluster_wide is None else body.cluster_wide
        revision = _changed(plane, connection, row.id, place, "updated")
        store.change(connection, row.id, cluster_wide=wide, updated_at=plane.now(), revision=revision, **values)
        return _result(connection, row.id, "update", key.id, as_answered)

    return await plane.perform(request, caller, unit, pepper=key.content)


@routes.delete(
    CREDENTIALS + "/{kind}/{credential_id}",
    action=Action.CREDENTIAL_CHANGE,
    status=204,
    summary="Delete a credential",
)
async def delete_credential(kind: str, credential_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """Pods that run keep what they have; those that refer to it and are to start wait, and say so."""

    def unit(connection: Connection) -> ActionResult:
        row = known(connection, caller, _kind(kind), credential_id)
        check_match(request, row.revision)
        _require_change(connection, caller, row, Action.CREDENTIAL_DELETE)
        store.remove(connection, row.id)
        _changed(plane, connection, row.id, scope_of(row), "deleted")
        return ActionResult(
            status=204, action="delete", entity_type="credential", entity_id=row.id, entity_name=row.name
        )

    return await plane.perform(request, caller, unit)


# --- values --------------------------------------------------------------------------------------------------------


def _kind(text: str) -> CredentialKind:
    try:
        return CredentialKind(text)
    except ValueError:
        what = f"there is no type of credentials {text[:64]!r}"
        raise refused(404, "credential.no_kind", what, f"use one of {', '.join(CredentialKind)}") from None


def _data(kind: CredentialKind, spec: wire.CredentialSpec) -> dict[str, bytes]:
    data = secret_values(kind, spec)
    if isinstance(data, list):
        raise Refused(422, data)
    return data


def _values(
    key: SealingKey, credential_id: str, kind: CredentialKind, data: Mapping[str, bytes], text: str, by: str
) -> Any:
    document = {"description": text, "shown": shown_values(kind, data), "keys": key_sizes(data), "updatedBy": by}
    return {"document": compact(document), "sealed": key.seal(data, credential_id), "key_id": key.id}


def _key(plane: Plane) -> SealingKey:
    try:
        return plane.key_file.key()
    except KeyUnusable as error:
        raise refused(503, error.problem.code, error.problem.what, error.problem.fix) from error


def key_id(plane: Plane) -> str:
    """Of the key that values can be read with; empty: there is none."""
    try:
        found = plane.key_file.existing()
    except KeyUnusable:
        return ""
    return found.id if found is not None else ""


def _result(
    connection: Connection, credential_id: str, action: str, key: str, as_answered: Answered, status: int = 200
) -> ActionResult:
    made = shown(connection, store.one(connection, credential_id), key)
    return ActionResult(
        body=as_answered(made),
        status=status,
        action=action,
        entity_type="credential",
        entity_id=credential_id,
        entity_name=made.meta.name,
        revision=made.revision,
    )


def _changed(plane: Plane, connection: Connection, credential_id: str, place: StoredScope, verb: str) -> int:
    """Record that it changed; clusters ask for values when a pod starts."""
    project = place.scope_id if place.scope is AssetScope.PROJECT else None
    kept = plane.settings.changes_kept
    return changes.record(
        connection, "credential", credential_id, verb, plane.now(), project=project, declared=False, kept=kept
    )


# --- scope ---------------------------------------------------------------------------------------------------------


def _place(
    connection: Connection, caller: Caller, body: wire.CredentialRequest, before: StoredScope | None = None
) -> StoredScope:
    """The scope that is meant; refuses one that does not exist, or in which the caller may not create credentials."""
    is_same = before is not None and (body.meta.scope, str(named_scope(body.meta))) == (before.scope, before.scope_id)
    place = before if is_same and before is not None else asked_scope(connection, caller, body.meta, CREATE)
    _require_wide(caller, body)
    if place.scope in (AssetScope.TENANT, AssetScope.CLUSTER):
        caller.require(Action.CREDENTIAL_UPDATE, cluster=place.scope_id)  # the pods of others get it
    return place


def _require_wide(caller: Caller, body: wire.CredentialRequest) -> None:
    if body.cluster_wide is not None:
        caller.require(Action.CREDENTIAL_UPDATE)  # for all projects


def _require_change(connection: Connection, caller: Caller, row: Any, action: Action) -> None:
    """Those who made it and may still make others, and administrators of its scope."""
    place = scope_of(row)
    is_own = row.owner == caller.id and _may_in(connection, caller, place, Action.CREDENTIAL_WRITE)
    if not is_own and not _may_in(connection, caller, place, action):
        raise denied(f"credential {row.name} was made by {row.created_by}", "ask them, or an administrator")


def _may_in(connection: Connection, caller: Caller, place: StoredScope, action: Action) -> bool:
    match place.scope:
        case AssetScope.PROJECT:
            project = organization_store.project(connection, place.scope_id)
            home = (project.department, project.cluster) if project is not None else ("", "")
            return caller.may(action, place.scope_id, *home)
        case AssetScope.DEPARTMENT:
            return caller.may(action, department=place.scope_id)
        case _:
            return caller.may(action, cluster=place.scope_id)


def known(connection: Connection, caller: Caller, kind: CredentialKind, credential_id: str) -> Any:
    """The row of a credential; 404 also for one that the caller may not know of."""
    row = store.one(connection, credential_id)
    sight = seen_scopes(connection, caller, Action.CREDENTIAL_READ)
    is_seen = row is not None and (
        sight is None or row.scope == "tenant" or row.cluster_wide or row.scope_id in sight[row.scope]
    )
    if row is None or row.kind != kind.value or not is_seen:
        raise unknown("credential", credential_id, is_hidden=row is not None)
    return row


# --- use -----------------------------------------------------------------------------------------------------------


def usable(connection: Connection, project: Any, names: Collection[str]) -> dict[str, Any]:
    """Those of these names or ids that a project can use; of a name, that of the narrowest scope that has one."""
    if not names:
        return {}
    rows = sorted(store.in_scope_of(connection, project, names), key=rank_in(project), reverse=True)
    found = {row.name: row for row in rows if row.name in names}
    return found | {row.id: row for row in rows if row.id in names}


def rank_in(project: Any) -> Any:
    """The order in which credentials of one name count for a project: the lowest first."""
    own = {"project": project.name, "department": project.department, "cluster": project.cluster, "tenant": ""}

    def rank(row: Any) -> int:
        return NARROWEST_FIRST.index(row.scope) if own[row.scope] == row.scope_id else len(NARROWEST_FIRST)

    return rank


def known_credentials(
    plane: Plane, connection: Connection, project: Any, names: Collection[str]
) -> dict[str, KnownCredential]:
    """What a submit to this project is checked against."""
    readable = key_id(plane)
    return {
        name: KnownCredential(
            CredentialKind(row.kind), parse_json(row.document.encode())["keys"], row.key_id == readable
        )
        for name, row in usable(connection, project, names).items()
    }

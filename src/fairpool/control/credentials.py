"""HTTP routes for credentials: stored encrypted, listed without their values, used by the pods of their scope."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import credentials as wire
from fairpool.api.assets import AssetScope
from fairpool.api.limits import CREDENTIALS, PAGE_DEFAULT
from fairpool.api.wire import Count, compact, parse_json
from fairpool.control.asset_scopes import StoredScope, asked_scope, named_scope, scope_of, seen_scopes
from fairpool.control.credential_checks import KnownCredential
from fairpool.control.credential_values import key_sizes, secret_values, shown_values
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset, Search, SortOrder
from fairpool.control.plane import ActionResult, Caller, Plane, answered, check_match
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, denied, refused, unknown
from fairpool.control.routes import Parameter, Routes
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
COLUMNS = {"createdBy": "created_by", "createdAt": "created_at", "updatedAt": "updated_at"}


@routes.get(CREDENTIALS, action=Action.CREDENTIAL_READ, answer=wire.CredentialPage, summary="List credentials")
async def credentials(
    plane: Plane,
    caller: Caller,
    kind: Kind = "",
    name: Name = "",
    search: Search = "",
    sort_by: SortBy = "name",
    sort_order: SortOrder = "asc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
) -> wire.CredentialPage:
    """Without their values: those are only given to pods."""
    known = key_id(plane)

    def unit(connection: Connection) -> wire.CredentialPage:
        found = store.some(
            connection,
            seen_scopes(connection, caller, Action.CREDENTIAL_READ),
            kind=kind,
            search=search,
            name=name,
            sort_by=COLUMNS.get(sort_by, sort_by),
            descending=sort_order == "desc",
            offset=offset,
            limit=limit + 1,
        )
        following = offset + limit if len(found) > limit else None
        return wire.CredentialPage(entries=[_shown(row, known) for row in found[:limit]], next=following)

    return await plane.read(unit)


@routes.get(f"{CREDENTIALS}/count", action=Action.CREDENTIAL_READ, answer=Count, summary="Count credentials")
async def credential_count(
    plane: Plane, caller: Caller, kind: Kind = "", name: Name = "", search: Search = ""
) -> Count:
    return Count(
        count=await plane.read(
            lambda connection: store.count(
                connection, seen_scopes(connection, caller, Action.CREDENTIAL_READ), kind=kind, search=search, name=name
            )
        )
    )


@routes.get(
    CREDENTIALS + "/{kind}", action=Action.CREDENTIAL_READ, answer=wire.CredentialPage, summary="List those of a type"
)
async def credentials_of_kind(
    kind: str, plane: Plane, caller: Caller, search: Search = "", offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.CredentialPage:
    of = _kind(kind)
    return await credentials(plane, caller, kind=of.value, search=search, offset=offset, limit=limit)


@routes.get(
    CREDENTIALS + "/{kind}/{credential_id}",
    action=Action.CREDENTIAL_READ,
    answer=wire.StoredCredential,
    summary="Get a credential without its values",
)
async def credential(kind: str, credential_id: str, plane: Plane, caller: Caller) -> Response:
    found = await plane.read(lambda connection: _known(connection, caller, _kind(kind), credential_id))
    shown = _shown(found, key_id(plane))
    return answered(ActionResult(body=shown, revision=shown.revision))


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
    of, key = _kind(kind), _key(plane)
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
            **_values(key, credential_id, of, data, body.meta.description),
            owner=caller.id,
            created_at=now,
            created_by=caller.name,
            updated_at=now,
            revision=_changed(plane, connection, credential_id, place, "created"),
        )
        return _result(connection, credential_id, "create", key.id, status=201)

    return await plane.perform(request, caller, unit, pepper=key.content)


@routes.put(
    CREDENTIALS + "/{kind}/{credential_id}",
    action=Action.CREDENTIAL_CHANGE,
    answer=wire.StoredCredential,
    summary="Replace a credential",
)
async def replace_credential(
    kind: str, credential_id: str, request: Request, plane: Plane, caller: Caller, body: wire.CredentialRequest
) -> Response:
    """Pods that start from now on get the new values; those that run keep what they have."""
    of, key = _kind(kind), _key(plane)
    data = _data(of, body.spec) if body.spec is not None else None

    def unit(connection: Connection) -> ActionResult:
        row = _known(connection, caller, of, credential_id)
        check_match(request, row.revision)
        _require_change(connection, caller, row, Action.CREDENTIAL_UPDATE)
        place = _place(connection, caller, body, scope_of(row))
        if (row.name, scope_of(row)) != (body.meta.name, place):
            what = "a credential cannot get another name or scope"
            raise refused(422, "credential.moved", what, "create another one there", "meta.name")
        if data is not None:
            values = _values(key, row.id, of, data, body.meta.description)
        else:
            document = parse_json(row.document.encode()) | {"description": body.meta.description}
            values = {"document": compact(document)}
        wide = row.cluster_wide if body.cluster_wide is None else body.cluster_wide
        revision = _changed(plane, connection, row.id, place, "updated")
        store.change(connection, row.id, cluster_wide=wide, updated_at=plane.now(), revision=revision, **values)
        return _result(connection, row.id, "update", key.id)

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
        row = _known(connection, caller, _kind(kind), credential_id)
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


def _values(key: SealingKey, credential_id: str, kind: CredentialKind, data: Mapping[str, bytes], text: str) -> Any:
    document = {"description": text, "shown": shown_values(kind, data), "keys": key_sizes(data)}
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


def _shown(row: Any, key: str) -> wire.StoredCredential:
    document = parse_json(row.document.encode())
    keys = [
        wire.CredentialKeyAnswer(name=name, bytes=size if size >= 0 else -1 - size, is_text=size >= 0)
        for name, size in document["keys"].items()
    ]
    return wire.StoredCredential(
        id=row.id,
        kind=CredentialKind(row.kind),
        meta=wire.CredentialMetaAnswer(
            name=row.name,
            scope=AssetScope(row.scope),
            description=document["description"],
            **({f"{row.scope}_id": row.scope_id} if row.scope_id else {}),
        ),
        spec=wire.CredentialSpecAnswer.model_validate({"secret_keys": keys, **document["shown"]}),
        cluster_wide=row.cluster_wide,
        status="Ready" if row.key_id == key else "Unreadable",
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at),
        revision=row.revision,
    )


def _result(connection: Connection, credential_id: str, action: str, key: str, status: int = 200) -> ActionResult:
    made = _shown(store.one(connection, credential_id), key)
    return ActionResult(
        body=made,
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
    asked = StoredScope(body.meta.scope, named_scope(body.meta))
    place = before if asked == before else asked_scope(connection, caller, body.meta, Action.CREDENTIAL_WRITE)
    if body.cluster_wide is not None:
        caller.require(Action.CREDENTIAL_UPDATE)  # for all projects
    if place.scope in (AssetScope.TENANT, AssetScope.CLUSTER):
        caller.require(Action.CREDENTIAL_UPDATE, cluster=place.scope_id)  # the pods of others get it
    return place


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


def _known(connection: Connection, caller: Caller, kind: CredentialKind, credential_id: str) -> Any:
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
    """Those of these names that a project can use, each of the narrowest scope that has one."""
    found: dict[str, Any] = {}
    if names:
        for row in sorted(store.in_scope_of(connection, project, names), key=rank_in(project), reverse=True):
            found[row.name] = row
    return found


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

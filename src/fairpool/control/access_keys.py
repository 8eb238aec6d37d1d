"""HTTP routes for access keys: with one, a user's own programs sign in as the user, within the key's scope.

An application can have keys as well, for parts of it that may do less. The original has keys under two names: a user
application is an access key.
"""

from __future__ import annotations

import json
import uuid
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import programs as wire
from fairpool.api.access import normal_email
from fairpool.control import rbac
from fairpool.control.access_key_end import end_key_sessions
from fairpool.control.applications import Overlap, new_secret, rotated
from fairpool.control.guard import digest_of
from fairpool.control.moments import instant, iso, iso_or_none
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, refused, unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import organization
from fairpool.control.store import programs as store
from fairpool.control.store.database import Connection
from fairpool.model.spelling import did_you_mean

routes = Routes("access")

KEYS_MAX = 100
"""Of one user."""
KEYS, APPS = "/api/v1/access-keys", "/api/v1/user-applications"
ALL_KEYS, ALL_APPS = "/api/v1/administration/access-keys", "/api/v1/administration/user-applications"

ClientId = Annotated[str | None, Parameter(alias="clientId", max_length=64)]
CreatedBy = Annotated[str | None, Parameter(alias="createdBy", max_length=256, description="Email of the owner")]


@routes.get(KEYS, action=Action.SELF, answer=wire.AccessKeyList, summary="List your access keys")
async def access_keys(plane: Plane, caller: Caller) -> wire.AccessKeyList:
    return wire.AccessKeyList(access_keys=await user_applications(plane, caller))


@routes.get(APPS, action=Action.SELF, answer=list[wire.AccessKeyAnswer], summary="List your access keys (older path)")
async def user_applications(plane: Plane, caller: Caller) -> list[wire.AccessKeyAnswer]:
    return await plane.read(lambda connection: [_answer(connection, row) for row in store.keys(connection, caller.id)])


@routes.get(ALL_KEYS, action=Action.USER_READ, answer=wire.AccessKeyList, summary="List the access keys of all users")
async def all_access_keys(
    plane: Plane, caller: Caller, client_id: ClientId = None, created_by: CreatedBy = None
) -> wire.AccessKeyList:
    return wire.AccessKeyList(access_keys=await all_user_applications(plane, caller, client_id, created_by))


@routes.get(
    ALL_APPS,
    action=Action.USER_READ,
    answer=list[wire.AccessKeyAnswer],
    summary="List the access keys of all users (older path)",
)
async def all_user_applications(
    plane: Plane, caller: Caller, client_id: ClientId = None, created_by: CreatedBy = None
) -> list[wire.AccessKeyAnswer]:
    caller.require(Action.USER_READ)

    def unit(connection: Connection) -> list[wire.AccessKeyAnswer]:
        found = [_answer(connection, row) for row in store.keys(connection, None, client_id)]
        return [
            each for each in found if created_by is None or each.created_by in (created_by, normal_email(created_by))
        ]

    return await plane.read(unit)


@routes.get(f"{KEYS}/{{key_id}}", action=Action.SELF, answer=wire.AccessKeyAnswer, summary="Get an access key")
@routes.get(
    f"{APPS}/{{key_id}}", action=Action.SELF, answer=wire.AccessKeyAnswer, summary="Get an access key (older path)"
)
async def access_key(key_id: str, plane: Plane, caller: Caller) -> wire.AccessKeyAnswer:
    return await plane.read(lambda connection: _answer(connection, _own(connection, caller, key_id)))


@routes.post(
    KEYS, action=Action.SELF, answer=wire.NewAccessKey, status=201, summary="Create an access key; returns its secret"
)
@routes.post(
    APPS, action=Action.SELF, answer=wire.NewAccessKey, status=201, summary="Create an access key (older path)"
)
async def create_access_key(request: Request, plane: Plane, caller: Caller, body: wire.AccessKeyRequest) -> Response:
    caller.require_no_key()
    secret = new_secret()

    def unit(connection: Connection) -> ActionResult:
        now, key_id = plane.now(), str(uuid.uuid4())
        if store.key_named(connection, caller.id, body.name) is not None:
            what = f"you already have an access key {body.name!r}"
            raise refused(409, "access-key.exists", what, "choose another name, or delete that key", "name")
        if store.key_count(connection, caller.id) >= KEYS_MAX:
            what = f"you have {KEYS_MAX} access keys already"
            raise refused(409, "access-key.too_many", what, "delete one that is no longer used")
        store.add_key(
            connection,
            id=key_id,
            owner=caller.id,
            name=body.name,
            secret_hash=digest_of(secret),
            created_at=now,
            expires_at=_expiry(body.expires_at, now),
            scope=_scope(connection, caller, body.scope),
        )
        return _done(_answer(connection, store.key(connection, key_id)), "create", secret, 201)

    return await plane.perform(request, caller, unit)


@routes.post(
    f"{KEYS}/{{key_id}}/secret", action=Action.SELF, answer=wire.NewAccessKey, summary="Create a new secret of a key"
)
@routes.post(
    f"{APPS}/{{key_id}}/secret",
    action=Action.SELF,
    answer=wire.NewAccessKey,
    summary="Create a new secret of a key (older path)",
)
async def renew_access_key(
    key_id: str, request: Request, plane: Plane, caller: Caller, overlap: Overlap = 0
) -> Response:
    caller.require_no_key()
    secret = new_secret()

    def unit(connection: Connection) -> ActionResult:
        row = _own(connection, caller, key_id)
        if not overlap:
            end_key_sessions(connection, row.id)
        store.change_key(connection, row.id, **rotated(row, secret, plane.now(), overlap))
        return _done(_answer(connection, store.key(connection, row.id)), "update", secret)

    return await plane.perform(request, caller, unit)


@routes.delete(f"{KEYS}/{{key_id}}", action=Action.SELF, status=204, summary="Delete an access key; its sessions end")
@routes.delete(f"{APPS}/{{key_id}}", action=Action.SELF, status=204, summary="Delete an access key (older path)")
async def delete_access_key(key_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require_no_key()
    return await _delete(request, plane, caller, key_id, caller)


@routes.delete(
    f"{ALL_KEYS}/{{key_id}}", action=Action.USER_UPDATE, status=204, summary="Delete an access key of any user"
)
@routes.delete(
    f"{ALL_APPS}/{{key_id}}",
    action=Action.USER_UPDATE,
    status=204,
    summary="Delete an access key of any user (older path)",
)
async def delete_any_access_key(key_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.USER_UPDATE)
    return await _delete(request, plane, caller, key_id, None)


async def _delete(request: Request, plane: Plane, caller: Caller, key_id: str, owner: Caller | None) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _own(connection, owner, key_id) if owner is not None else store.key(connection, key_id)
        if row is None:
            raise unknown("access key", key_id)
        end_key_sessions(connection, row.id)
        store.delete_key(connection, row.id)
        return ActionResult(action="delete", entity_type="access-key", entity_id=row.id, entity_name=row.name)

    return await plane.perform(request, caller, unit)


def _own(connection: Connection, caller: Caller, key: str) -> Any:
    row = store.key(connection, key) or store.key_named(connection, caller.id, key)
    if row is None or row.owner != caller.id:
        raise unknown("access key", key)
    return row


def _expiry(text: str | None, now: int) -> int | None:
    if text is None:
        return None
    moment = instant(text)
    if moment is None or moment <= now:
        what = f"{text[:64]!r} is not a moment in the future"
        raise refused(422, "access-key.expiry", what, "use ISO 8601, e.g. 2027-11-15T12:00:00Z", "expiresAt")
    return moment


def _scope(connection: Connection, caller: Caller, scope: wire.KeyScope | None) -> str | None:
    """What a key is restricted to, as it is stored. What the owner cannot use is a mistake, and is refused."""
    if scope is None or (scope.actions is None and scope.projects is None):
        return None
    own = set(rbac.permissions(caller.grants))
    wrong: list[Refused] = []
    for action in scope.actions or ():
        if action not in own:
            what = f"you do not have the permission {action[:64]!r}"
            fix = did_you_mean(action[:64], own, "see `runai whoami --permissions`")
            wrong.append(refused(422, "access-key.scope", what, fix, "scope.actions"))
    for project in scope.projects or ():
        row = organization.project(connection, project)
        if row is None or not caller.may(Action.PROJECT_READ, row.name, row.department, row.cluster):
            what = f"there is no project {project!r}, or you have no access to it"
            wrong.append(refused(422, "access-key.scope", what, "see `runai list projects`", "scope.projects"))
    if wrong:
        raise Refused(422, [each for refusal in wrong for each in refusal.problems])
    return json.dumps({"actions": scope.actions, "projects": scope.projects})


def _done(made: wire.AccessKeyAnswer, action: str, secret: str, status: int = 200) -> ActionResult:
    return ActionResult(
        body=wire.NewAccessKey(**made.model_dump(), secret=secret, client_secret=secret),
        kept=made,
        status=status,
        action=action,
        entity_type="access-key",
        entity_id=made.id,
        entity_name=made.name,
    )


def _answer(connection: Connection, row: Any) -> wire.AccessKeyAnswer:
    user = access_store.user(connection, row.owner)
    app = access_store.application(connection, row.owner) if user is None else None
    return wire.AccessKeyAnswer(
        id=row.id,
        client_id=row.id,
        name=row.name,
        created_by=user.email if user is not None else app.name if app is not None else "",
        created_at=iso(row.created_at),
        last_login=iso_or_none(row.last_login_at),
        expires_at=iso_or_none(row.expires_at),
        former_secret_until=iso_or_none(row.former_until),
        scope=wire.AccessKeyScopeAnswer(**json.loads(row.scope)) if row.scope else None,
    )

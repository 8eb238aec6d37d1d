"""HTTP routes for accounts of programs: applications, and service accounts, which are the same under a newer name."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import programs as wire
from fairpool.api.access import ScopeType, SubjectType
from fairpool.api.limits import PAGE_MAX
from fairpool.control import rbac
from fairpool.control.access_rules import check_may_give, check_not_above
from fairpool.control.guard import digest_of
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.role_lookup import known_role, role_labels
from fairpool.control.routes import Parameter, Routes
from fairpool.control.store import access as access_store
from fairpool.control.store import programs as store
from fairpool.control.store.database import Connection
from fairpool.model.ids import SECOND_MS

routes = Routes("access")

OVERLAP_MAX_S = 30 * 86_400
Overlap = Annotated[
    int,
    Parameter(
        alias="overlapSeconds",
        ge=0,
        le=OVERLAP_MAX_S,
        description="How long the former secret stays valid. 0: it ends at once, with all sessions",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramKind:
    """Applications or service accounts."""

    noun: str
    article: str
    path: str
    subject: SubjectType
    read: Action
    create: Action
    update: Action
    delete: Action


KINDS = (
    ProgramKind(
        noun="application",
        article="an",
        path="/api/v1/apps",
        subject=SubjectType.APP,
        read=Action.APP_READ,
        create=Action.APP_CREATE,
        update=Action.APP_UPDATE,
        delete=Action.APP_DELETE,
    ),
    ProgramKind(
        noun="service account",
        article="a",
        path="/api/v1/service-accounts",
        subject=SubjectType.SERVICE_ACCOUNT,
        read=Action.SERVICE_ACCOUNT_READ,
        create=Action.SERVICE_ACCOUNT_CREATE,
        update=Action.SERVICE_ACCOUNT_UPDATE,
        delete=Action.SERVICE_ACCOUNT_DELETE,
    ),
)


def new_secret() -> str:
    return "fps_" + secrets.token_urlsafe(32)


def _declare(kind: ProgramKind) -> None:
    """The routes of one kind."""
    one = f"{kind.path}/{{app_id}}"
    label = f"{kind.article} {kind.noun}"

    @routes.get(kind.path, action=kind.read, answer=list[wire.Application], summary=f"List {kind.noun}s")
    async def programs(
        plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_MAX
    ) -> list[wire.Application]:
        caller.require(kind.read)
        return await plane.read(
            lambda connection: [
                _program(connection, row) for row in store.of_kind(connection, kind.subject.value, offset, limit)
            ]
        )

    @routes.get(one, action=kind.read, answer=wire.Application, summary=f"Get {label}")
    async def program(app_id: str, plane: Plane, caller: Caller) -> wire.Application:
        caller.require(kind.read)
        return await plane.read(lambda connection: _program(connection, _known(connection, kind, app_id)))

    @routes.post(
        kind.path,
        action=kind.create,
        answer=wire.NewApplication,
        status=201,
        summary=f"Create {label}; returns its secret",
    )
    async def create(request: Request, plane: Plane, caller: Caller, body: wire.ApplicationRequest) -> Response:
        return await _create(request, plane, caller, kind, body)

    @routes.patch(one, action=kind.update, answer=wire.Application, summary=f"Enable or disable {label}")
    async def change(
        app_id: str, request: Request, plane: Plane, caller: Caller, body: wire.ApplicationUpdate
    ) -> Response:
        return await _change(request, plane, caller, kind, app_id, body)

    @routes.post(f"{one}/secret", action=kind.update, answer=wire.NewApplication, summary="Create a new secret")
    async def renew(app_id: str, request: Request, plane: Plane, caller: Caller, overlap: Overlap = 0) -> Response:
        return await _renew(request, plane, caller, kind, app_id, overlap)

    @routes.delete(one, action=kind.delete, status=204, summary=f"Delete {label} and revoke its tokens")
    async def remove(app_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
        return await _delete(request, plane, caller, kind, app_id)


for _kind in KINDS:
    _declare(_kind)


async def _create(
    request: Request, plane: Plane, caller: Caller, kind: ProgramKind, body: wire.ApplicationRequest
) -> Response:
    caller.require(kind.create)
    if body.roles:
        caller.require(Action.RULE_CREATE)
    secret = new_secret()

    def unit(connection: Connection) -> ActionResult:
        if store.one(connection, body.name) is not None:
            what = f"an application or service account {body.name!r} already exists"
            raise refused(409, "application.exists", what, "choose another name", "name")
        now, program_id = plane.now(), str(uuid.uuid4())
        store.add(
            connection,
            id=program_id,
            name=body.name,
            kind=kind.subject.value,
            secret_hash=digest_of(secret),
            created_at=now,
            created_by=caller.name,
        )
        for name in body.roles:
            role = known_role(connection, name, "roles")
            check_may_give(caller, role, ScopeType.TENANT, rbac.NOWHERE)
            grant = role.grant(ScopeType.TENANT)
            access_store.add_rule(connection, str(uuid.uuid4()), program_id, kind.subject, grant, now, caller.name)
        made = _program(connection, store.one(connection, program_id))
        return _done(made, "create", kind, secret, 201)

    return await plane.perform(request, caller, unit)


async def _change(
    request: Request, plane: Plane, caller: Caller, kind: ProgramKind, program_id: str, body: wire.ApplicationUpdate
) -> Response:
    caller.require(kind.update)

    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, kind, program_id)
        if not body.enabled:
            access_store.revoke_subject(connection, row.id)
        store.change(connection, row.id, enabled=body.enabled, updated_at=plane.now())
        return _done(_program(connection, store.one(connection, row.id)), "update", kind)

    return await plane.perform(request, caller, unit)


async def _renew(
    request: Request, plane: Plane, caller: Caller, kind: ProgramKind, program_id: str, overlap_s: int
) -> Response:
    caller.require(kind.update)
    secret = new_secret()

    def unit(connection: Connection) -> ActionResult:
        row, now = _changeable(connection, caller, kind, program_id), plane.now()
        if not overlap_s:
            access_store.revoke_subject(connection, row.id)
        store.change(connection, row.id, updated_at=now, **rotated(row, secret, now, overlap_s))
        return _done(_program(connection, store.one(connection, row.id)), "update", kind, secret)

    return await plane.perform(request, caller, unit)


async def _delete(request: Request, plane: Plane, caller: Caller, kind: ProgramKind, program_id: str) -> Response:
    caller.require(kind.delete)

    def unit(connection: Connection) -> ActionResult:
        row = _changeable(connection, caller, kind, program_id)
        made = _program(connection, row)
        access_store.delete_application(connection, row.id, kind.subject)
        return ActionResult(action="delete", entity_type=_entity(kind), entity_id=made.id, entity_name=made.name)

    return await plane.perform(request, caller, unit)


def rotated(row: Any, secret: str, now: int, overlap_s: int) -> dict[str, Any]:
    """The columns of a secret after its rotation."""
    return {
        "secret_hash": digest_of(secret),
        "former_secret_hash": row.secret_hash if overlap_s else None,
        "former_until": now + overlap_s * SECOND_MS if overlap_s else None,
    }


def _done(made: wire.Application, action: str, kind: ProgramKind, secret: str = "", status: int = 200) -> ActionResult:
    shown = wire.NewApplication(**made.model_dump(), secret=secret, client_secret=secret) if secret else made
    return ActionResult(
        body=shown,
        kept=made if secret else None,
        status=status,
        action=action,
        entity_type=_entity(kind),
        entity_id=made.id,
        entity_name=made.name,
    )


def _entity(kind: ProgramKind) -> str:
    return kind.noun.replace(" ", "-")


def _program(connection: Connection, row: Any) -> wire.Application:
    grants = access_store.own_grants(connection, row.id, SubjectType(row.kind))
    return wire.Application(
        id=row.id,
        name=row.name,
        client_id=row.id,
        roles=role_labels(connection, [each for each in grants if each.scope_type is ScopeType.TENANT]),
        enabled=row.enabled,
        created_by=row.created_by,
        created_at=iso(row.created_at),
        updated_at=iso(row.updated_at or row.created_at),
        last_login=iso_or_none(row.last_login_at),
        former_secret_until=iso_or_none(row.former_until),
    )


def _changeable(connection: Connection, caller: Caller, kind: ProgramKind, program: str) -> Any:
    row = _known(connection, kind, program)
    check_not_above(connection, caller, row.id, kind.subject)
    return row


def _known(connection: Connection, kind: ProgramKind, program: str) -> Any:
    row = store.one(connection, program, kind.subject.value)
    if row is None:
        raise unknown(_entity(kind), program)
    return row

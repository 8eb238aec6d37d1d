"""HTTP routes for applications: callers that are programs, each with a secret."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import access as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.control import rbac
from fairpool.control.access_rules import check_may_give
from fairpool.control.guard import digest_of
from fairpool.control.moments import iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused, unknown
from fairpool.control.role_lookup import known_role, role_labels
from fairpool.control.routes import Routes
from fairpool.control.store import access as store
from fairpool.control.store.database import Connection

routes = Routes("access")


@routes.get("/api/v1/apps", action=Action.APP_READ, answer=wire.ApplicationPage, summary="List applications")
async def applications(
    plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.ApplicationPage:
    def unit(connection: Connection) -> wire.ApplicationPage:
        rows = store.all_applications(connection, offset, limit + 1)
        following = offset + limit if len(rows) > limit else None
        return wire.ApplicationPage(apps=[_application(connection, row) for row in rows[:limit]], next=following)

    return await plane.read(unit)


@routes.get("/api/v1/apps/{app_id}", action=Action.APP_READ, answer=wire.Application, summary="Get an application")
async def application(app_id: str, plane: Plane, caller: Caller) -> wire.Application:
    def unit(connection: Connection) -> wire.Application:
        return _application(connection, _known_application(connection, app_id))

    return await plane.read(unit)


@routes.post(
    "/api/v1/apps",
    action=Action.APP_CREATE,
    answer=wire.NewApplication,
    status=201,
    summary="Create an application; returns its secret",
)
async def create_application(request: Request, plane: Plane, caller: Caller, body: wire.ApplicationRequest) -> Response:
    secret = "fps_" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> ActionResult:
        if store.application_by_name(connection, body.name) is not None:
            what = f"application {body.name!r} already exists"
            raise refused(409, "application.exists", what, "choose another name", "name")
        now, app_id = plane.now(), str(uuid.uuid4())
        store.add_application(connection, app_id, body.name, digest_of(secret), now)
        for name in body.roles:
            role = known_role(connection, name, "roles")
            check_may_give(caller, role, wire.ScopeType.TENANT, rbac.NOWHERE)
            grant = role.grant(wire.ScopeType.TENANT)
            store.add_rule(connection, str(uuid.uuid4()), app_id, wire.SubjectType.APP, grant, now, caller.name)
        made = _application(connection, store.application(connection, app_id))
        return ActionResult(
            body=wire.NewApplication(**made.model_dump(), secret=secret),
            kept=made,
            status=201,
            action="create",
            entity_type="application",
            entity_id=app_id,
            entity_name=body.name,
        )

    return await plane.perform(request, caller, unit)


@routes.post(
    "/api/v1/apps/{app_id}/secret",
    action=Action.APP_UPDATE,
    answer=wire.NewApplication,
    summary="Create a new secret; the old one stops working",
)
async def renew_secret(app_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    secret = "fps_" + secrets.token_urlsafe(32)

    def unit(connection: Connection) -> ActionResult:
        row = _known_application(connection, app_id)
        store.set_secret(connection, app_id, digest_of(secret))
        store.revoke_subject(connection, app_id)
        made = _application(connection, row)
        return ActionResult(
            body=wire.NewApplication(**made.model_dump(), secret=secret),
            kept=made,
            action="update",
            entity_type="application",
            entity_id=app_id,
            entity_name=row.name,
        )

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


@routes.delete(
    "/api/v1/apps/{app_id}",
    action=Action.APP_DELETE,
    status=204,
    summary="Delete an application and revoke its tokens",
)
async def delete_application(app_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = _known_application(connection, app_id)
        store.delete_application(connection, app_id)
        return ActionResult(action="delete", entity_type="application", entity_id=app_id, entity_name=row.name)

    answer = await plane.perform(request, caller, unit)
    plane.forget_callers()
    return answer


def _application(connection: Connection, row: Any) -> wire.Application:
    grants = store.own_grants(connection, row.id, wire.SubjectType.APP)
    return wire.Application(
        id=row.id,
        name=row.name,
        client_id=row.id,
        roles=role_labels(connection, [each for each in grants if each.scope_type is wire.ScopeType.TENANT]),
        created_at=iso(row.created_at),
    )


def _known_application(connection: Connection, app_id: str) -> Any:
    row = store.application(connection, app_id)
    if row is None:
        raise unknown("application", app_id)
    return row

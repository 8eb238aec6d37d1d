"""HTTP routes for sessions: list and end one's own, and for administrators those of all users and programs."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import sessions as wire
from fairpool.api.access import SubjectType
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import unknown
from fairpool.control.routes import Parameter, Routes
from fairpool.control.session_use import SAVE_S
from fairpool.control.store import access as access_store
from fairpool.control.store import sessions as store
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable

log = logging.getLogger("fairpool.control")

routes = Routes("access")


@routes.get("/api/v1/me/sessions", action=Action.SELF, answer=wire.SessionPage, summary="List your sessions")
async def own_sessions(
    plane: Plane, caller: Caller, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> wire.SessionPage:
    return await plane.read(lambda connection: _page(connection, plane, caller, caller.id, offset, limit))


@routes.delete("/api/v1/me/sessions", action=Action.SELF, answer=wire.EndedSessions, summary="End your other sessions")
async def end_other_sessions(request: Request, plane: Plane, caller: Caller) -> Response:
    """All but the one that asks."""
    caller.require_no_key()

    def unit(connection: Connection) -> ActionResult:
        rows = [row for row in store.of_subject(connection, caller.id) if row.id != caller.family]
        for row in rows:
            access_store.revoke_family(connection, row.id)
        return ActionResult(
            body=wire.EndedSessions(ended=len(rows)),
            action="sign-out",
            entity_type="user",
            entity_id=caller.id,
            entity_name=caller.name,
        )

    return await plane.perform(request, caller, unit)


@routes.delete("/api/v1/me/sessions/{session_id}", action=Action.SELF, status=204, summary="End one of your sessions")
async def end_own_session(session_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    if session_id != caller.family:
        caller.require_no_key()
    return await _end(request, plane, caller, session_id, caller.id)


@routes.get(
    "/api/v1/sessions",
    action=Action.ACCESS_READ,
    answer=wire.SessionPage,
    summary="List the sessions of all users and programs",
)
async def all_sessions(
    plane: Plane,
    caller: Caller,
    subject: Annotated[str, Parameter(max_length=256, description="Id or name of a user or program")] = "",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
) -> wire.SessionPage:
    caller.require(Action.ACCESS_READ)

    def unit(connection: Connection) -> wire.SessionPage:
        chosen = _subject_id(connection, subject) if subject else None
        return _page(connection, plane, caller, chosen, offset, limit)

    return await plane.read(unit)


@routes.delete(
    "/api/v1/sessions/{session_id}", action=Action.ACCESS_WRITE, status=204, summary="End a session of any user"
)
async def end_session(session_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    caller.require(Action.ACCESS_WRITE)
    return await _end(request, plane, caller, session_id, None)


async def _end(request: Request, plane: Plane, caller: Caller, session_id: str, owner: str | None) -> Response:
    def unit(connection: Connection) -> ActionResult:
        row = store.one(connection, session_id)
        if row is None or (owner is not None and row.subject_id != owner):
            raise unknown("session", session_id)
        access_store.revoke_family(connection, session_id)
        name = access_store.name_of(connection, row.subject_id, SubjectType(row.subject_type))
        noun = "user" if row.subject_type == SubjectType.USER.value else "application"
        return ActionResult(action="sign-out", entity_type=noun, entity_id=row.subject_id, entity_name=name)

    return await plane.perform(request, caller, unit)


def _subject_id(connection: Connection, name: str) -> str:
    found: Any = (
        access_store.user(connection, name)
        or access_store.user_by_email(connection, name)
        or access_store.application(connection, name)
        or access_store.application_by_name(connection, name)
    )
    if found is None:
        raise unknown("user", name)
    return str(found.id)


def _page(
    connection: Connection, plane: Plane, caller: Caller, subject_id: str | None, offset: int, limit: int
) -> wire.SessionPage:
    rows = store.of_subject(connection, subject_id, offset, limit + 1)
    following = offset + limit if len(rows) > limit else None
    names: dict[str, str] = {}
    for row in rows[:limit]:
        if row.subject_id not in names:
            names[row.subject_id] = access_store.name_of(connection, row.subject_id, SubjectType(row.subject_type))
    shown = [_session(plane, caller, row, names[row.subject_id]) for row in rows[:limit]]
    return wire.SessionPage(sessions=shown, next=following)


def _session(plane: Plane, caller: Caller, row: Any, name: str) -> wire.SessionItem:
    return wire.SessionItem(
        id=row.id,
        subject_id=row.subject_id,
        subject_type=SubjectType(row.subject_type),
        subject_name=name,
        kind=row.kind,
        method=wire.SignInMethod(row.method) if row.method else None,
        client=row.client,
        source_ip=row.source_ip,
        access_key_id=row.access_key,
        created_at=iso(row.created_at),
        last_used_at=iso(max(row.used_at, plane.session_use.latest(row.id))),
        expires_at=iso_or_none(row.expires_at),
        is_current=row.id == caller.family,
    )


# --- last use ----------------------------------------------------------------------------------------------------


async def save_session_use(plane: Plane) -> None:
    """Write down when sessions were last used, all together, until cancelled."""
    while True:
        await asyncio.sleep(SAVE_S)
        await save_once(plane)


async def save_once(plane: Plane, *, is_closing: bool = False) -> None:
    """The same, once, and how many refusals have no entry in the audit log."""
    used = plane.session_use.unsaved(plane.now())
    try:
        if used:
            await plane.write(lambda connection: store.note_use(connection, used))
        await plane.note_unlisted(is_closing=is_closing)
    except Unavailable:  # already logged by the database
        return
    except Exception:
        log.exception("could not record when sessions were used, or how many requests were refused")

"""The audit log: who did what, and whether it went through."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from fairpool.api import organization as wire
from fairpool.api.wire import PAGE_DEFAULT
from fairpool.control.moments import instant, iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import CallerDep, PlaneDep
from fairpool.control.rbac import Action
from fairpool.control.refusal import refused
from fairpool.control.store import audit as store

router = APIRouter(tags=["audit"])

Word = Annotated[str | None, Query(max_length=256)]


@router.get("/api/v1/audit/log", response_model=wire.AuditPage, summary="Who did what, newest first")
async def log(
    plane: PlaneDep,
    caller: CallerDep,
    start: Word = None,
    end: Word = None,
    action: Word = None,
    entity_type: Annotated[str | None, Query(alias="entityType", max_length=64)] = None,
    subject: Word = None,
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
) -> wire.AuditPage:
    caller.require(Action.AUDIT_READ)
    said = {"action": action, "entity_type": entity_type, "subject": subject}
    filters = {name: value for name, value in said.items() if value is not None}
    first, last = _moment(start, "start"), _moment(end, "end")
    rows = await plane.read(lambda connection: store.entries(connection, filters, first, last, offset, limit + 1))
    entries = [
        wire.AuditEntry(
            id=row.id,
            timestamp=iso(row.at),
            subject=row.subject,
            subject_type=row.subject_type,
            source_ip=row.source_ip,
            action=row.action,
            http_method=row.http_method,
            url=row.url,
            entity_type=row.entity_type,
            entity_name=row.entity_name,
            entity_id=row.entity_id,
            result=row.result,
        )
        for row in rows[:limit]
    ]
    return wire.AuditPage(entries=entries, next=offset + limit if len(rows) > limit else None)


def _moment(text: str | None, field: str) -> int | None:
    if text is None:
        return None
    moment = instant(text)
    if moment is None:
        what = f"{text[:64]!r} is not a date"
        raise refused(400, "request.not_a_date", what, "write it as in 2026-11-15T12:00:00Z", field)
    return moment

"""HTTP routes for the audit log: a page of it, or all of it as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

from starlette.responses import Response, StreamingResponse

from fairpool.api import audit as wire
from fairpool.api.limits import PAGE_DEFAULT
from fairpool.api.problems import ProblemItem
from fairpool.control.moments import instant, iso
from fairpool.control.paging import Limit, Offset
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.store import audit as store
from fairpool.control.store.database import Connection

routes = Routes("audit")

PIECE = 500
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet takes a cell that starts with one of these for a formula, and names in the log are user input."""

Word = Annotated[str | None, Parameter(max_length=256)]
Moment = Annotated[str | None, Parameter(max_length=64, examples=["2026-11-15T12:00:00Z"])]
FILE: dict[int, dict[str, Any]] = {
    200: {
        "description": "CSV with a header row",
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "id,timestamp,subject,…\n7,2026-11-15T12:00:00.000Z,ann@example.com,…\n",
            }
        },
    }
}


class AuditQuery(Query):
    """Which entries are wanted."""

    start: Moment = None
    end: Moment = None
    action: Word = None
    entity_type: Annotated[str | None, Parameter(alias="entityType", max_length=64)] = None
    subject: Word = None
    result: Annotated[str | None, Parameter(pattern="^(Succeeded|Failed)$")] = None

    def choice(self) -> store.Choice:
        return choice(self.model_dump(exclude={"start", "end"}, exclude_none=True), self.start, self.end)


def choice(said: dict[str, str], start: str | None, end: str | None) -> store.Choice:
    """Which entries are wanted; refuses a date that is not valid."""
    moments = {name: (text, instant(text)) for name, text in (("start", start), ("end", end)) if text is not None}
    problems = [
        ProblemItem(
            code="request.not_a_date",
            what=f"{text!r} is not a valid date",
            fix="use ISO 8601, e.g. 2026-11-15T12:00:00Z",
            field=name,
        )
        for name, (text, moment) in moments.items()
        if moment is None
    ]
    if problems:
        raise Refused(400, problems)
    return store.Choice(said, *(moments[name][1] if name in moments else None for name in ("start", "end")))


@routes.get(
    "/api/v1/audit/log", action=Action.AUDIT_READ, answer=wire.AuditPage, summary="List the audit log, newest first"
)
async def log(
    plane: Plane, caller: Caller, query: AuditQuery, offset: Offset = 0, limit: Limit = PAGE_DEFAULT
) -> Response:
    caller.require(Action.AUDIT_READ)
    chosen = query.choice()

    def unit(connection: Connection) -> wire.AuditPage:
        rows = store.entries(connection, chosen, offset, limit + 1)
        entries = [_entry(row) for row in rows[:limit]]
        return wire.AuditPage(entries=entries, next=offset + limit if len(rows) > limit else None)

    return await plane.answer_apart(unit)


@routes.get("/api/v1/audit/log/file", action=Action.AUDIT_READ, summary="Download the audit log as CSV", responses=FILE)
async def log_file(plane: Plane, caller: Caller, query: AuditQuery) -> Response:
    caller.require(Action.AUDIT_READ)
    headers = {"Content-Disposition": 'attachment; filename="audit.csv"'}
    return StreamingResponse(_lines(plane, query.choice()), media_type="text/csv; charset=utf-8", headers=headers)


async def _lines(plane: Plane, chosen: store.Choice) -> AsyncIterator[str]:
    """In pieces; entries added meanwhile are newer and are left out."""
    yield _csv([list(wire.AuditEntry.model_fields)])
    before: int | None = None
    while (piece := await plane.read_apart(partial(_piece, chosen=chosen, before=before))) is not None:
        text, before = piece
        yield text


def _piece(connection: Connection, chosen: store.Choice, before: int | None) -> tuple[str, int] | None:
    """The entries before one, and the last of them; None: there are no more."""
    rows = store.entries(connection, chosen, 0, PIECE, before)
    if not rows:
        return None
    return _csv([[_cell(value) for value in _entry(row).model_dump().values()] for row in rows]), rows[-1].id


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _cell(value: object) -> str:
    text = str(value)
    return f"'{text}" if text.startswith(FORMULA) else text


def _entry(row: Any) -> wire.AuditEntry:
    return wire.AuditEntry(
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

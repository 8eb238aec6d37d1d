"""HTTP routes for the audit log: a page of it, all of it as CSV or JSON lines, and whether it is intact."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

from starlette.responses import Response, StreamingResponse

from fairpool.api import audit as wire
from fairpool.api.audit_chain import ChainCheck, Head, head_of
from fairpool.api.limits import PAGE_DEFAULT, PAGE_MAX
from fairpool.control.csv_text import csv_cell, csv_text
from fairpool.control.filters import Sort
from fairpool.control.moments import instant, iso
from fairpool.control.paging import FilterBy, Limit, Offset, SortBy, SortOrder, parsed
from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, not_a_date, refused
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.store import audit as store
from fairpool.control.store.database import Connection

routes = Routes("audit")

MEDIA_TYPES = {"csv": "text/csv; charset=utf-8", "json": "application/json", "jsonl": "application/x-ndjson"}
"""Of a downloaded log, by its form."""

PIECE = 500

Word = Annotated[str | None, Parameter(max_length=256)]
Moment = Annotated[str | None, Parameter(max_length=64, examples=["2026-11-15T12:00:00Z"])]
FILE: dict[int, dict[str, Any]] = {
    200: {
        "description": "CSV with a header row, or one JSON object a line",
        "content": {
            "text/csv": {
                "schema": {"type": "string"},
                "example": "id,timestamp,tenant_id,subject,…\n7,2026-11-15T12:00:00.000Z,1,ann@example.com,…\n",
            },
            "application/x-ndjson": {
                "schema": {"type": "string"},
                "example": '{"id":"7","subject":"ann@example.com"}\n',
            },
        },
    }
}
FILTERS: dict[str, Sort] = {
    **dict.fromkeys(store.COLUMNS, Sort.TEXT),
    "id": Sort.NUMBER,
    "http_status_code": Sort.NUMBER,
    "timestamp": Sort.MOMENT,
}


class AuditQuery(Query):
    """Which entries are wanted."""

    start: Moment = None
    end: Moment = None
    action: Word = None
    entity_type: Annotated[str | None, Parameter(alias="entityType", max_length=64)] = None
    subject: Word = None
    result: Annotated[str | None, Parameter(pattern="^(Succeeded|Failed)$")] = None
    filter_by: FilterBy = ""
    search: Annotated[str, Parameter(max_length=256, description="Text in the subject, the entity or the URL")] = ""

    def choice(self) -> store.Choice:
        named = {"action", "entity_type", "subject", "result"}
        chosen = choice(self.model_dump(include=named, exclude_none=True), self.start, self.end)
        filters = tuple(parsed(self.filter_by, "id", FILTERS, {}))
        return replace(chosen, filters=filters, search=self.search)


def choice(said: dict[str, str], start: str | None, end: str | None) -> store.Choice:
    """Which entries are wanted; refuses a date that is not valid."""
    moments = {name: (text, instant(text)) for name, text in (("start", start), ("end", end)) if text is not None}
    problems = [not_a_date(text, name) for name, (text, moment) in moments.items() if moment is None]
    if problems:
        raise Refused(400, problems)
    first, last = (moments[name][1] if name in moments else None for name in ("start", "end"))
    return store.Choice(said, first, last)


@routes.get(
    "/api/v1/audit/log", action=Action.AUDIT_READ, answer=wire.AuditPage, summary="List the audit log, newest first"
)
async def log(
    plane: Plane,
    caller: Caller,
    query: AuditQuery,
    sort_by: SortBy = "timestamp",
    sort_order: SortOrder = "desc",
    offset: Offset = 0,
    limit: Limit = PAGE_DEFAULT,
    number_of_samples: Annotated[int | None, Parameter(alias="numberOfSamples", ge=1, le=PAGE_MAX)] = None,
) -> Response:
    caller.require(Action.AUDIT_READ)
    chosen, most = query.choice(), number_of_samples or limit
    parsed("", sort_by, FILTERS, {})

    def unit(connection: Connection) -> wire.AuditPage:
        # Numbers are given in the order of time, and have an index.
        column = "id" if sort_by == "timestamp" else sort_by
        is_newest_first = sort_order == "desc"
        rows = store.entries(connection, chosen, offset, most + 1, sort_by=column, descending=is_newest_first)
        entries = [entry_answer(row) for row in rows[:most]]
        total = offset + len(rows) if len(rows) <= most and (rows or not offset) else store.count(connection, chosen)
        following = offset + most if len(rows) > most else None
        return wire.AuditPage(entries=entries, audit_logs=entries, total=total, next=following)

    return await plane.answer_apart(unit)


@routes.get(
    "/api/v1/audit/log/file",
    action=Action.AUDIT_READ,
    summary="Download the audit log as CSV, JSON or JSON lines",
    responses=FILE,
)
async def log_file(
    plane: Plane,
    caller: Caller,
    query: AuditQuery,
    file_type: Annotated[str, Parameter(alias="fileType", pattern="(?i)^(csv|json|jsonl)$", examples=["json"])] = "csv",
    number_of_samples: Annotated[int | None, Parameter(alias="numberOfSamples", ge=1, le=2**31)] = None,
) -> Response:
    """A JSON file is one list, which needs memory to be read; JSON lines can be read one by one."""
    caller.require(Action.AUDIT_READ)
    form = file_type.lower()
    headers = {"Content-Disposition": f'attachment; filename="audit.{form}"'}
    lines = _lines(plane, query.choice(), number_of_samples, form)
    return StreamingResponse(lines, media_type=MEDIA_TYPES[form], headers=headers)


@routes.get(
    "/api/v1/audit/verify",
    action=Action.AUDIT_READ,
    answer=wire.AuditVerification,
    summary="Check that no entry of the audit log was changed or removed",
)
async def verify(
    plane: Plane,
    caller: Caller,
    known: Annotated[
        str | None, Parameter(max_length=96, description="An entry recorded elsewhere, as ID:HASH: it must be there")
    ] = None,
) -> wire.AuditVerification:
    caller.require(Action.AUDIT_READ)
    head = head_of(known) if known is not None else None
    if known is not None and head is None:
        fix = "use the number and hash of an entry, as in the server's log: 7:0a1b…"
        raise refused(400, "audit.not_a_head", f"{known!r} is not an entry of the audit log", fix, "known")
    check, anchor, last = await _checked(plane, head)
    return wire.AuditVerification(
        is_intact=check.broken is None,
        checked=check.count,
        first_broken=check.broken,
        why=check.why,
        head=wire.AuditHead(id=last.id, hash=last.hash),
        anchor=wire.AuditHead(id=anchor.id, hash=anchor.hash),
    )


async def _checked(plane: Plane, known: Head | None) -> tuple[ChainCheck, Head, Head]:
    """Whether the chain is intact, the entry before its beginning, and its last one."""
    while True:
        anchor, last = await plane.read_apart(store.chain_ends)
        check = ChainCheck(anchor, known)
        is_over = check.broken is not None
        while not is_over:
            is_over, last = await plane.read_apart(partial(_check_piece, check=check))
        now_anchor, _ = await plane.read_apart(store.chain_ends)
        if check.broken is None or now_anchor.id < check.broken or now_anchor == anchor:
            return check, anchor, last


def _check_piece(connection: Connection, check: ChainCheck) -> tuple[bool, Head]:
    _, last = store.chain_ends(connection)
    rows = store.following(connection, check.last.id, PIECE)
    is_intact = all(check.take(row._asdict()) for row in rows)
    if len(rows) == PIECE and is_intact:
        return False, last
    check.end(last)
    return True, last


async def _lines(plane: Plane, chosen: store.Choice, most: int | None, form: str) -> AsyncIterator[str]:
    pieces = _pieces(plane, chosen, most, form)
    if form != "json":
        async for piece in pieces:
            yield piece
        return
    lead = "["
    async for piece in pieces:
        yield lead + "\n" + piece.rstrip("\n").replace("\n", ",\n")
        lead = ","
    yield "\n]\n" if lead == "," else "[]\n"


async def _pieces(plane: Plane, chosen: store.Choice, most: int | None, form: str) -> AsyncIterator[str]:
    """Entries, one in a line; those added meanwhile are newer and are left out."""
    is_csv = form == "csv"
    if is_csv:
        yield csv_text([list(wire.AuditEntry.model_fields)])
    before: int | None = None
    left = most if most is not None else 2**31
    while left > 0:
        read = partial(_piece, chosen=chosen, before=before, most=min(PIECE, left), is_csv=is_csv)
        piece = await plane.read_apart(read)
        if piece is None:
            return
        text, before = piece
        yield text
        left -= PIECE


def _piece(
    connection: Connection, chosen: store.Choice, before: int | None, most: int, is_csv: bool
) -> tuple[str, int] | None:
    """The entries before one, and the last of them; None: there are no more."""
    rows = store.entries(connection, chosen, 0, most, before)
    if not rows:
        return None
    entries = [entry_answer(row) for row in rows]
    if is_csv:
        text = csv_text(
            [[csv_cell(value) for value in each.model_dump(exclude_none=False).values()] for each in entries]
        )
    else:
        text = "".join(f"{each.model_dump_json(exclude_none=True)}\n" for each in entries)
    return text, rows[-1].id


def entry_answer(row: Any) -> wire.AuditEntry:
    return wire.AuditEntry(
        id=str(row.id),
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
        http_status_code=row.http_status or None,
        request_id=row.request_id,
        metadata={"problem": row.problem} if row.problem else {},
        changes=[wire.AuditChange(**each) for each in json.loads(row.changes or "[]")],
        hash=row.hash,
    )

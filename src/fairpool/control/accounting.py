"""HTTP routes for accounting: usage over a period as JSON, CSV or a page, and prices. Sums hours in the background."""

from __future__ import annotations

import asyncio
import logging
import uuid
from decimal import Decimal
from typing import Annotated, Any

from starlette.requests import Request
from starlette.responses import Response

from fairpool.api import accounting as wire
from fairpool.api.limits import PAGE_MAX, PRICES, USAGE
from fairpool.control.moments import instant, iso
from fairpool.control.paging import FilterBy, Limit, Offset
from fairpool.control.plane import ActionResult, Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.refusal import Refused, not_a_date, refused, unknown
from fairpool.control.routes import Parameter, Query, Routes
from fairpool.control.store import prices as store
from fairpool.control.store import usage
from fairpool.control.store.database import Connection
from fairpool.control.store.unavailable import Unavailable
from fairpool.control.usage_figures import MICRO, csv_pieces
from fairpool.control.usage_page import usage_page
from fairpool.control.usage_periods import delete_old_spans, next_hour, set_summed
from fairpool.control.usage_query import UsageFigures, UsageQuestion, figures, places_of, question
from fairpool.control.usage_sums import HOUR_MS
from fairpool.model.ids import SECOND_MS

log = logging.getLogger("fairpool.control")

routes = Routes("accounting")

EVERY_S = 60.0
WITHOUT_SAMPLES_MS = 24 * HOUR_MS
"""After this, hours are summed without samples that cannot be read."""
AT_A_TIME = 200
"""Old rows that are deleted in one transaction."""
CSV, HTML = "text/csv", "text/html"
TABLE: dict[int, dict[str, Any]] = {
    200: {
        "description": "Usage, as JSON, a table or a page",
        "content": {
            CSV: {
                "schema": {"type": "string"},
                "example": "start,end,project,gpuHoursRequested,…\n2026-11-01T00:00:00.000Z,…,team-a,12.5,…\n",
            },
            HTML: {"schema": {"type": "string"}},
        },
    }
}
Moment = Annotated[str | None, Parameter(max_length=64, examples=["2026-11-01T00:00:00Z"])]


class UsageQuery(Query):
    """Which period, grouped by what, of whom."""

    start: Annotated[Moment, Parameter(description="Default: the beginning of the month")] = None
    end: Annotated[Moment, Parameter(description="Not included. Default: now")] = None
    group_by: Annotated[
        str,
        Parameter(
            alias="groupBy",
            max_length=256,
            description=f"Comma-separated: {', '.join(wire.GROUPS)}",
            examples=["department,project"],
        ),
    ] = "project"
    interval: Annotated[wire.Interval | None, Parameter(description="Also by hour, day or month, in UTC")] = None
    filter_by: FilterBy = ""


@routes.get(
    USAGE,
    action=Action.PROJECT_READ,
    answer=wire.UsageAnswer,
    summary="Sum GPU, CPU and memory hours and their cost over a period",
    responses=TABLE,
)
async def usage_sums(
    request: Request,
    plane: Plane,
    caller: Caller,
    query: UsageQuery,
    form: Annotated[str | None, Parameter(alias="format", pattern="^(json|csv|html)$", examples=["csv"])] = None,
    offset: Offset = 0,
    limit: Limit = PAGE_MAX,
) -> Response:
    """A table has all rows. It is also the answer to `Accept: text/csv`. A page (`html`) can be printed."""
    groups = [each.strip() for each in query.group_by.split(",") if each.strip()]
    asked = question(
        plane.now(),
        start=query.start,
        end=query.end,
        groups=groups,
        interval=query.interval,
        filter_by=query.filter_by,
    )
    places = places_of(caller)
    if form == "csv" or (form is None and request.headers.get("accept", "").startswith(CSV)):
        text = await asyncio.to_thread(usage_csv, await figures(plane, asked, places), asked)
        headers = {"Content-Disposition": 'attachment; filename="usage.csv"'}
        return Response(text, media_type=f"{CSV}; charset=utf-8", headers=headers)

    if form == "html":
        return await asyncio.to_thread(usage_page, await figures(plane, asked, places), asked)
    text = await asyncio.to_thread(_usage_json, await figures(plane, asked, places), offset, limit)
    return Response(text, media_type="application/json")


def _usage_json(found: UsageFigures, offset: int, limit: int) -> str:
    rows = found.table.answer_rows()
    answer = wire.UsageAnswer(
        start=iso(found.period.start),
        end=iso(found.period.end),
        at=iso(found.at),
        rows=rows[offset : offset + limit],
        total=found.table.answer_total(),
        next=offset + limit if len(rows) > offset + limit else None,
    )
    return answer.model_dump_json(by_alias=True, exclude_none=True)


def usage_csv(found: UsageFigures, asked: UsageQuestion) -> str:
    """The answer as a table."""
    start, end = iso(found.period.start), iso(found.period.end)
    rows = found.table.answer_rows()
    return "".join(csv_pieces(rows, asked.groups, start, end, has_parts=asked.interval is not None))


# --- prices --------------------------------------------------------------------------------------------------


@routes.get(PRICES, action=Action.PROJECT_READ, answer=wire.PriceList, summary="List prices, the latest first")
async def price_list(plane: Plane, caller: Caller) -> wire.PriceList:
    rows = await plane.read(store.all_prices)
    return wire.PriceList(prices=[_price(row) for row in rows])


@routes.post(
    PRICES,
    action=Action.SETTING_WRITE,
    answer=wire.Price,
    status=201,
    summary="Set the price of a GPU, a core or a GiB of memory for an hour",
)
async def set_price(request: Request, plane: Plane, caller: Caller, body: wire.PriceRequest) -> Response:
    """It holds from a full hour on, also in the past, until the next one. A price from the same hour is replaced."""
    caller.require(Action.SETTING_WRITE)
    from_at = _full_hour(body.valid_from) if body.valid_from is not None else plane.now() // HOUR_MS * HOUR_MS
    if body.gpu_type and body.resource is not wire.PricedResource.GPU:
        what = f"the price of {body.resource} does not depend on the type of a GPU"
        raise refused(422, "price.gpu_type", what, "leave out gpuType", "gpuType")

    def unit(connection: Connection) -> ActionResult:
        made = uuid.uuid4().hex
        store.add_price(
            connection,
            id=made,
            resource=body.resource.value,
            gpu_type=body.gpu_type,
            from_at=from_at,
            price_micro=int(Decimal(body.price) * MICRO),
            created_at=plane.now(),
            created_by=caller.name,
        )
        price = _price(store.price(connection, made))
        name = f"{body.resource} {body.gpu_type}".strip()
        return ActionResult(
            body=price, status=201, action="create", entity_type="price", entity_id=made, entity_name=name
        )

    return await plane.perform(request, caller, unit)


@routes.delete(PRICES + "/{price_id}", action=Action.SETTING_WRITE, status=204, summary="Delete a price")
async def delete_price(price_id: str, request: Request, plane: Plane, caller: Caller) -> Response:
    """The one before it holds again."""
    caller.require(Action.SETTING_WRITE)

    def unit(connection: Connection) -> ActionResult:
        row = store.price(connection, price_id)
        if row is None:
            raise unknown("price", price_id)
        store.drop_price(connection, price_id)
        name = f"{row.resource} {row.gpu_type}".strip()
        return ActionResult(status=204, action="delete", entity_type="price", entity_id=price_id, entity_name=name)

    return await plane.perform(request, caller, unit)


def _full_hour(text: str) -> int:
    at = instant(text)
    if at is None:
        raise Refused(422, [not_a_date(text, "from")])
    if at % HOUR_MS:
        what = f"{text} is not a full hour in UTC: usage is summed by hours"
        raise refused(422, "price.not_an_hour", what, f"use e.g. {iso(at // HOUR_MS * HOUR_MS)}", "from")
    return at


def _price(row: Any) -> wire.Price:
    return wire.Price.model_validate(
        {
            "id": row.id,
            "resource": row.resource,
            "gpu_type": row.gpu_type,
            "price": f"{Decimal(row.price_micro) / MICRO:f}",
            "valid_from": iso(row.from_at),
            "created_at": iso(row.created_at),
            "created_by": row.created_by,
        }
    )


# --- in the background ---------------------------------------------------------------------------------------


async def keep_sums(plane: Plane) -> None:
    """Sum the hours that are over, and delete what is too old, until cancelled."""
    while True:
        try:
            while await sum_next_hour(plane):
                pass
            await _delete_old(plane)
        except Unavailable:  # already logged by the database
            pass
        except Exception:  # e.g. a full disk: nothing is lost, the next round tries again
            log.exception("could not sum usage; retrying in %g s", EVERY_S)
        await asyncio.sleep(EVERY_S)


async def sum_next_hour(plane: Plane) -> bool:
    """Sum one hour in another thread and store it; True: there may be more. While samples cannot be read, an hour waits
    for them, but not for ever: it can be asked for all the same, and is summed without them at last."""
    now = plane.now()
    found = await plane.read_apart(lambda connection: next_hour(connection, now))
    if found is None:
        return False
    try:
        summed = await asyncio.to_thread(found.summed, plane.gpu_uses)
    except Unavailable:
        if now - found.start < WITHOUT_SAMPLES_MS:
            raise
        summed = await asyncio.to_thread(found.summed, None)
    await plane.write(lambda connection: set_summed(connection, summed))
    return True


async def _delete_old(plane: Plane) -> None:
    before = plane.now() - plane.settings.retention.usage_s * SECOND_MS
    first = await plane.read(usage.first_end)
    if first is None or first >= before:
        return
    while await plane.write(lambda connection: delete_old_spans(connection, before, AT_A_TIME)) == AT_A_TIME:
        pass

"""SQL for prices and consumption reports."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from fairpool.api.accounting import PricedResource
from fairpool.control.store.tables import usage_prices, usage_reports


def all_prices(connection: Connection) -> list[Any]:
    """The latest first."""
    order = (usage_prices.c.from_at.desc(), usage_prices.c.resource, usage_prices.c.gpu_type)
    return list(connection.execute(select(usage_prices).order_by(*order)))


def of_hours(connection: Connection) -> list[tuple[PricedResource, str, int, int]]:
    """What is priced, its GPU type, from when, and the price in millionths."""
    return [
        (PricedResource(row.resource), row.gpu_type, row.from_at, row.price_micro) for row in all_prices(connection)
    ]


def add_price(connection: Connection, **values: Any) -> None:
    """A price; one from the same moment on is replaced."""
    key = ("resource", "gpu_type", "from_at")
    connection.execute(delete(usage_prices).where(*(usage_prices.c[name] == values[name] for name in key)))
    connection.execute(insert(usage_prices).values(**values))


def price(connection: Connection, price_id: str) -> Any:
    return connection.execute(select(usage_prices).where(usage_prices.c.id == price_id)).one_or_none()


def drop_price(connection: Connection, price_id: str) -> None:
    connection.execute(delete(usage_prices).where(usage_prices.c.id == price_id))


_LISTED = [column for column in usage_reports.c if column.name != "file"]


def all_reports(connection: Connection) -> list[Any]:
    """Without their files."""
    return list(connection.execute(select(*_LISTED).order_by(usage_reports.c.created_at, usage_reports.c.id)))


def report(connection: Connection, report_id: str) -> Any:
    return connection.execute(select(usage_reports).where(usage_reports.c.id == report_id)).one_or_none()


def count_reports_of(connection: Connection, owner: str) -> int:
    query = select(func.count()).where(usage_reports.c.owner == owner)
    return int(connection.execute(query).scalar_one())


def add_report(connection: Connection, **values: Any) -> None:
    connection.execute(insert(usage_reports).values(**values))


def drop_report(connection: Connection, report_id: str) -> None:
    connection.execute(delete(usage_reports).where(usage_reports.c.id == report_id))

"""Milliseconds since 1970 as people and programs read them, and back."""

from __future__ import annotations

from datetime import UTC, datetime

from fairpool.model.ids import Instant


def iso(moment: int) -> str:
    """`2026-11-15T12:00:00.000Z`."""
    seconds, milli = divmod(moment, 1000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{milli:03d}Z"


def iso_or_none(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)


def instant(text: str) -> Instant | None:
    """The moment that somebody wrote, in UTC unless they say otherwise; None: it is none."""
    try:
        moment = datetime.fromisoformat(text.strip().replace(" ", "+"))
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return Instant(int(moment.timestamp() * 1000))

"""Conversion between instants (milliseconds since 1970) and ISO 8601."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from fairpool.model.ids import Instant


def iso(moment: int) -> str:
    """`2026-11-15T12:00:00.000Z`."""
    seconds, milli = divmod(moment, 1000)
    minutes, second = divmod(seconds, 60)
    return f"{_minute(minutes)}:{second:02d}.{milli:03d}Z"


@lru_cache(maxsize=4096)
def _minute(minutes: int) -> str:
    """`2026-11-15T12:00`; cached, since a list is full of moments that are close together."""
    return datetime.fromtimestamp(60 * minutes, UTC).isoformat()[:16]


def iso_or_none(moment: int | None) -> str | None:
    return None if moment is None else iso(moment)


_EPOCH = datetime.fromtimestamp(0, UTC)
_AGO = re.compile(r"(\d{1,9})(s|m|h|d)")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment_or_ago(text: str, now: Instant) -> Instant | None:
    """Parse ISO 8601 or a duration before now (`90s`, `10m`, `2h`, `1d`); None: not valid."""
    ago = _AGO.fullmatch(text.strip())
    return instant(text) if ago is None else Instant(max(0, now - int(ago[1]) * _UNITS_MS[ago[2]]))


def instant(text: str) -> Instant | None:
    """Parse ISO 8601, in UTC unless an offset is given; None: not valid, or not within the years 1 to 9999. A plus
    sign may have become a space on the way, as in a query that was not encoded."""
    for each in (text.strip(), text.strip().replace(" ", "+")):
        try:
            moment = datetime.fromisoformat(each)
            moment = moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        except (ValueError, OverflowError):
            continue
        return Instant((moment - _EPOCH) // timedelta(milliseconds=1))  # a float would be late by one at times
    return None

"""Times and durations as users write and read them: `2m`, `1h30m`, `00:11:40`."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from fairpool.model.problem import Problem
from fairpool.model.quantity import length_text

UNITS = (("y", 365 * 86_400), ("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))
SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001, "d": 86_400.0}
DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?(?:h|ms|m|s|d))+")
PART = re.compile(r"(\d+(?:\.\d+)?)(h|ms|m|s|d)")


def now() -> datetime:
    return datetime.now(UTC)


def moment(text: str) -> datetime:
    """A time as the API writes it."""
    return datetime.fromisoformat(text)


def age(text: str | None, at: datetime | None = None) -> str:
    """How long ago: the largest unit alone, as in `4d`."""
    return "" if text is None else brief((at or now()).timestamp() - moment(text).timestamp())


def brief(seconds: float) -> str:
    """`11s`, `2m`, `12h`, `4d`, `1y`."""
    whole = max(0, int(seconds))
    name, unit = next(((name, unit) for name, unit in UNITS if whole >= unit), ("s", 1))
    return f"{whole // unit}{name}"


def clock(seconds: float) -> str:
    """`HH:MM:SS`."""
    whole = max(0, int(seconds))
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"


def exact(seconds: int) -> str:
    """`8h`, `1h30m`: every unit that is not 0."""
    return length_text(seconds)


def local(text: str) -> str:
    """A time in the user's time zone."""
    return moment(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def utc(text: str) -> str:
    """A time in UTC, for what is counted and priced by hours and months in UTC."""
    return moment(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def ahead(text: str, at: datetime | None = None) -> str:
    """A time in the future: `14:02:10 (in 20s)`, with the date unless it is today."""
    there, options = moment(text).astimezone(), (at or now()).astimezone()
    day = "" if there.date() == options.date() else "%Y-%m-%d "
    left = (there - options).total_seconds()
    return f"{there.strftime(f'{day}%H:%M:%S')} ({f'in {brief(left)}' if left >= 1 else 'now'})"


def seconds(text: str) -> int | Problem:
    """`5s`, `2m`, `3h`, `1h30m`; 0 needs no unit."""
    if text == "0":
        return 0
    if not DURATION.fullmatch(text):
        return Problem("value.not_understood", f"{text!r} is not a valid duration", "write 5s, 2m, 3h or 1h30m")
    return round(sum(float(amount) * SECONDS[unit] for amount, unit in PART.findall(text)))

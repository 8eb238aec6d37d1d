"""What errors of PostgreSQL, of its driver and of the network to it mean."""

from __future__ import annotations

import ssl

import asyncpg
from sqlalchemy.exc import DBAPIError

from fairpool.control.store.unavailable import (
    BUSY,
    FAILING,
    FULL,
    NO_CONNECTIONS,
    REFUSED,
    STANDBY,
    UNREACHABLE,
    UNTRUSTED,
    Unavailable,
)

_STATES = {
    "53100": FULL,
    "53200": FAILING,
    "53300": NO_CONNECTIONS,
    "58030": FAILING,
    "XX001": FAILING,
    "XX002": FAILING,
    "25006": STANDBY,
    "55P03": BUSY,
    "40001": BUSY,
    "40P01": BUSY,
    "57014": BUSY,
    "57P01": UNREACHABLE,
    "57P02": UNREACHABLE,
    "57P03": UNREACHABLE,
    "25P03": UNREACHABLE,
    "3D000": REFUSED,
    "42501": REFUSED,
}
"""By SQLSTATE."""
_CLASSES = {"08": UNREACHABLE, "28": REFUSED}
"""By the first two characters of it."""
_CLOSED = ("connection is closed", "connection was closed", "connection has been closed", "connection is lost")


def cause_of(error: BaseException) -> BaseException:
    """The error of the driver or the network within SQLAlchemy's."""
    while True:
        if isinstance(error, DBAPIError) and error.orig is not None:
            error = error.orig
        elif type(error).__module__.startswith("sqlalchemy") and error.__cause__ is not None:
            error = error.__cause__
        else:
            return error


def sqlstate_of(error: BaseException) -> str:
    return str(getattr(cause_of(error), "sqlstate", None) or "")


def code_of(error: BaseException) -> str | None:
    """The kind of problem that an error is; None: it is a bug, and stays what it is."""
    cause = cause_of(error)
    state = sqlstate_of(cause)
    if state:
        return _STATES.get(state) or _CLASSES.get(state[:2])
    if isinstance(cause, asyncpg.TargetServerAttributeNotMatched):
        return STANDBY
    if isinstance(cause, asyncpg.InterfaceError):
        text = str(cause)
        return UNREACHABLE if any(words in text for words in _CLOSED) else None
    if isinstance(cause, ssl.SSLCertVerificationError):
        return UNTRUSTED
    if isinstance(cause, OSError | TimeoutError | EOFError | asyncpg.InternalClientError):
        return UNREACHABLE
    return None


def is_unfit(error: BaseException) -> bool:
    """Whether a value was too long, too large, or of characters that cannot be stored."""
    cause = cause_of(error)
    return isinstance(cause, asyncpg.DataError) or sqlstate_of(cause)[:2] == "22"


def is_lost(error: BaseException) -> bool:
    """Whether the connection that it happened on is of no further use."""
    return code_of(error) in (UNREACHABLE, STANDBY, NO_CONNECTIONS, REFUSED, UNTRUSTED)


def unavailable(error: BaseException, where: str) -> Unavailable | None:
    """The problem that an error is; None: it is none of the database's."""
    if isinstance(error, Unavailable):
        return error
    code = code_of(error)
    if code is None:
        return None
    words = str(cause_of(error)).strip() or type(cause_of(error)).__name__
    return Unavailable(code, f"{where}: {words.splitlines()[0]}")

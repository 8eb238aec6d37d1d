"""Redacts names in answers that the caller may not see."""

from __future__ import annotations

from collections.abc import Callable

from starlette.responses import Response

from fairpool.control.change_feed import NO_HOME, Homes
from fairpool.control.plane import Caller, Places, Plane
from fairpool.control.rbac import Action
from fairpool.control.store import organization as store
from fairpool.model import mentions

MARK = mentions.MARK.encode()


def redacted(body: bytes, places: Places | None, homes: Homes) -> bytes:
    """A text for those who may read the work in these places."""
    if MARK not in body:
        return body
    if places is None:
        return _rewritten(body, mentions.in_full)
    return _rewritten(
        body, lambda text: mentions.redacted(text, lambda project: places.covers(project, *homes.get(project, NO_HOME)))
    )


def _rewritten(body: bytes, rewrite: Callable[[str], str]) -> bytes:
    """The bytes of a mark can also occur by chance in what is not text, such as a compressed answer: that stays."""
    return rewrite(body.decode(errors="surrogateescape")).encode(errors="surrogateescape")


async def redacted_for(plane: Plane, caller: Caller | None, body: bytes) -> bytes:
    """A text as one caller may read it."""
    if MARK not in body:
        return body
    if caller is None:
        return _rewritten(body, mentions.anonymous)
    return redacted(body, caller.places(Action.WORKLOAD_READ), await plane.read(store.homes))


async def redacted_response(plane: Plane, caller: Caller | None, response: Response) -> Response:
    """An answer as one caller may read it; streams see to that themselves."""
    body = getattr(response, "body", b"")
    if MARK in body:
        response.body = await redacted_for(plane, caller, bytes(body))
        response.headers["content-length"] = str(len(response.body))
    return response

"""Redacts names in answers that the caller may not see."""

from __future__ import annotations

from starlette.responses import Response

from fairpool.control.plane import Caller, Plane
from fairpool.control.rbac import Action
from fairpool.control.store import organization as store
from fairpool.model import mentions

MARK = mentions.MARK.encode()


async def redacted_for(plane: Plane, caller: Caller | None, body: bytes) -> bytes:
    """A text as one caller may read it."""
    if MARK not in body:
        return body
    text = body.decode()
    if caller is None:
        return mentions.anonymous(text).encode()
    if caller.places(Action.WORKLOAD_READ) is None:
        return mentions.in_full(text).encode()
    homes = await plane.read(store.homes)
    return mentions.redacted(
        text, lambda project: caller.may(Action.WORKLOAD_READ, project, *homes.get(project, ("", "")))
    ).encode()


async def redacted_response(plane: Plane, caller: Caller | None, response: Response) -> Response:
    """An answer as one caller may read it; streams see to that themselves."""
    body = getattr(response, "body", b"")
    if MARK in body:
        response.body = await redacted_for(plane, caller, bytes(body))
        response.headers["content-length"] = str(len(response.body))
    return response

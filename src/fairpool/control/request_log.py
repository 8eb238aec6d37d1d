"""Middleware that counts and times requests, and logs those that failed with a server error or were slow."""

from __future__ import annotations

import logging
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fairpool.control.measures import NO_ROUTE, Measures
from fairpool.control.router import MATCH

log = logging.getLogger("fairpool.requests")

SLOW_S = 1.0
HELD = ("/api/v1/cluster/",)
"""Long polls: waiting there is not slow."""


METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestLog:
    """Counts all answers; logs answers of 500 and above, and answers that took long."""

    def __init__(self, app: ASGIApp, measures: Measures) -> None:
        self._app, self._measures = app, measures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.monotonic()

        async def watched(message: Message) -> None:
            if message["type"] == "http.response.start":
                took_s = time.monotonic() - started
                match = scope.get(MATCH)
                route = match.route.path if match is not None else NO_ROUTE
                self._measures.answered(_method(scope["method"]), route, message["status"], took_s)
                if message["status"] >= 500:
                    log.error("request failed", extra={"fields": _fields(scope, message["status"], took_s)})
                elif took_s > SLOW_S and not scope["path"].startswith(HELD):
                    log.warning("slow request", extra={"fields": _fields(scope, message["status"], took_s)})
            await send(message)

        await self._app(scope, receive, watched)


def _method(said: str) -> str:
    """A client may send any word."""
    return said if said in METHODS else "other"


def _fields(scope: Scope, status: int, took_s: float) -> dict[str, object]:
    """Without the query string, which may contain secrets."""
    client = scope.get("client")
    return {
        "method": scope["method"],
        "path": scope["path"],
        "status": status,
        "took_ms": int(took_s * 1000),
        "from": client[0] if client else "",
    }

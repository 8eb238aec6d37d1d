"""A small server for programs and flags that need no API: `GET /healthz`, `GET /readyz` and `GET /metrics`.

A few lines of HTTP/1.1, because a cluster needs no web server for it. It listens on a loopback address by default;
a request is bounded in size and time, and nothing in it is used but its path and whether it accepts gzip.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from fairpool.api.exposition import CONTENT_TYPE

log = logging.getLogger("fairpool.up")

HEAD_BYTES = 16 * 1024
HEAD_S = 10.0
SEND_S = 60.0
CONNECTIONS_MAX = 64
SCRAPES_MAX = 2
"""At a time: each may take a while."""

PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
PACKS = re.compile(rb"\r\naccept-encoding:[^\r\n]*\bgzip\b", re.IGNORECASE)

Metrics = Callable[[bool], Awaitable[bytes]]
"""The series of this process, in the text format of Prometheus; the argument: compressed."""


@asynccontextmanager
async def health_server(
    listener: socket.socket, why_not_ready: Callable[[], str], metrics: Metrics
) -> AsyncIterator[None]:
    """Answer until the context ends. `why_not_ready`: empty if it is."""
    free, scrapes = asyncio.Semaphore(CONNECTIONS_MAX), asyncio.Semaphore(SCRAPES_MAX)

    async def answer(head: bytes) -> bytes:
        if _path(head) != b"/metrics" or _method(head) not in (b"GET", b"HEAD"):
            return _answer(head, why_not_ready())
        packs = PACKS.search(head) is not None
        try:
            async with scrapes:
                body = await metrics(packs)
        except Exception:
            log.exception("a scrape failed")
            return _response(503, b'{"status": "see the log of the server"}', "application/json", head)
        return _response(200, body, CONTENT_TYPE, head, "Content-Encoding: gzip\r\n" if packs else "")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not free.locked():
                async with free:
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
                    writer.write(await answer(head))
                    await asyncio.wait_for(writer.drain(), SEND_S)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # too slow, too long, or gone
        finally:
            with suppress(OSError):
                writer.close()

    server = await asyncio.start_server(serve, sock=listener, limit=HEAD_BYTES)
    try:
        yield
    finally:
        server.close()


def _answer(head: bytes, why_not_ready: str) -> bytes:
    path = _path(head)
    if path not in (b"/healthz", b"/readyz", b"/metrics"):
        status, body = 404, {"status": "there are only /healthz, /readyz and /metrics here"}
    elif _method(head) not in (b"GET", b"HEAD"):
        status, body = 405, {"status": "only GET is allowed"}
    elif path == b"/readyz" and why_not_ready:
        status, body = 503, {"status": "not ready", "reason": why_not_ready}
    else:
        status, body = 200, {"status": "ready" if path == b"/readyz" else "ok"}
    return _response(status, json.dumps(body).encode(), "application/json", head)


def _response(status: int, body: bytes, kind: str, head: bytes, more: str = "") -> bytes:
    fields = f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\nCache-Control: no-store\r\n{more}"
    start = f"HTTP/1.1 {status} {PHRASES[status]}\r\n{fields}Connection: close\r\n\r\n".encode()
    return start + (b"" if _method(head) == b"HEAD" else body)


def _method(head: bytes) -> bytes:
    return head.split(b"\r\n", 1)[0].partition(b" ")[0]


def _path(head: bytes) -> bytes:
    return head.split(b"\r\n", 1)[0].partition(b" ")[2].partition(b" ")[0].partition(b"?")[0]

"""Health and readiness of a program that serves no API: `GET /healthz` and `GET /readyz`.

A few lines of HTTP/1.1, because a cluster needs no web server for it. It listens on a loopback address by default;
a request is bounded in size and time, and nothing in it is used but its path.
"""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

HEAD_BYTES = 16 * 1024
HEAD_S = 10.0
CONNECTIONS_MAX = 64

PHRASES = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


@asynccontextmanager
async def health_server(listener: socket.socket, why_not_ready: Callable[[], str]) -> AsyncIterator[None]:
    """Answer until the context ends. `why_not_ready`: empty if it is."""
    free = asyncio.Semaphore(CONNECTIONS_MAX)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not free.locked():
                async with free:
                    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)
                    writer.write(_answer(head, why_not_ready()))
                    await asyncio.wait_for(writer.drain(), HEAD_S)
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
    method, _, rest = head.split(b"\r\n", 1)[0].partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if path not in (b"/healthz", b"/readyz"):
        status, body = 404, {"status": "there are only /healthz and /readyz here"}
    elif method not in (b"GET", b"HEAD"):
        status, body = 405, {"status": "only GET is allowed"}
    elif path == b"/readyz" and why_not_ready:
        status, body = 503, {"status": "not ready", "reason": why_not_ready}
    else:
        status, body = 200, {"status": "ready" if path == b"/readyz" else "ok"}
    text = json.dumps(body).encode()
    fields = f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\nCache-Control: no-store\r\n"
    start = f"HTTP/1.1 {status} {PHRASES[status]}\r\n{fields}Connection: close\r\n\r\n".encode()
    return start + (b"" if method == b"HEAD" else text)

"""The HTTP server: uvicorn, with limits that apply before a client is authenticated.

uvicorn itself bounds neither the size of a request's head nor the time that a client may take, and takes connections
until no descriptors are left. Here the head is bounded in bytes and fields, a head or a body that comes too slowly is
given up, and connections are counted: in all, and for each address but those of trusted proxies, which stand for many
clients. The same protocol serves the Unix socket in the
data directory, where the kernel reports the user of the client.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fairpool.api.tunnel import PING_S
from fairpool.control.attempts import network_of
from fairpool.control.guard import PEER_UID
from fairpool.control.refusal import Refused, refused
from fairpool.control.settings import BODY_MAX_BYTES
from fairpool.control.trusted_proxies import NO_PROXIES, TrustedProxies
from fairpool.platform.admin_socket import peer_uid

DESCRIPTORS_KEPT = 384
"""Descriptors for everything else: databases, logs, watched pods, shells."""
CONNECTIONS_MAX = 4096
OWN_CONNECTIONS_MAX = 128
"""Over the Unix socket; separate, so that remote clients cannot exhaust them."""
SWEEP_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a client may send before it is authenticated, and how long it may take."""

    head_bytes: int = 64 * 1024
    """Request line and all headers; also trailers and what surrounds chunks."""
    head_fields: int = 128
    head_s: float = 20.0
    """From the first byte of a request, or from the connection, to the end of its headers."""
    body_idle_s: float = 30.0
    body_slow_s: float = 60.0
    """After so long a body must have come at the least rate."""
    body_bytes_per_s: int = 512
    discarded_bytes: int = 10 * BODY_MAX_BYTES
    """How much of a body is still read after its request was refused, so that the client can read the refusal.

    Beyond it the connection is closed, which a client notices only at its next request. So it is more than any body
    that is refused by a few bytes.
    """
    pipelined: int = 16
    connections: int = 640
    connections_per_address: int = 480

    @classmethod
    def of_this_process(cls) -> Limits:
        """As many connections as leave descriptors for everything else."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = max(64, min(CONNECTIONS_MAX, soft - DESCRIPTORS_KEPT))
        return cls(connections=most, connections_per_address=most * 3 // 4)


class ConnectionLimiter:
    """Counts connections. At the limit, the one that has been idle for longest is closed."""

    def __init__(self, limits: Limits, proxies: TrustedProxies = NO_PROXIES) -> None:
        self.limits, self._proxies = limits, proxies
        self._places: dict[object, str] = {}
        """By transport: a connection may change from HTTP to a WebSocket."""
        self._count: Counter[str] = Counter()
        self._waiting: dict[object, HttpConnection] = {}

    def enter(self, connection: HttpConnection, place: str) -> bool:
        """Count a connection; False: there is no room."""
        if self._count[place] >= self._most(connection) and not self._make_room(place):
            return False
        if connection.uid is None and len(self._places) >= self.limits.connections and not self._make_room(None):
            return False
        self._places[connection.transport] = place
        self._waiting[connection.transport] = connection
        self._count[place] += 1
        return True

    def _most(self, connection: HttpConnection) -> int:
        """Connections of one place."""
        if connection.uid is not None:
            return OWN_CONNECTIONS_MAX
        is_proxy = connection.client is not None and self._proxies.has(connection.client[0])
        return self.limits.connections if is_proxy else self.limits.connections_per_address

    def leave(self, transport: object) -> None:
        place = self._places.pop(transport, None)
        self._waiting.pop(transport, None)
        if place is not None:
            self._count[place] -= 1
            if not self._count[place]:
                del self._count[place]

    def upgraded(self, transport: object) -> None:
        """It is a WebSocket now: it is not idle without a request."""
        self._waiting.pop(transport, None)

    def _make_room(self, place: str | None) -> bool:
        """End the connection that has been without a request for longest; one that never made any goes first."""
        idle = [
            each
            for transport, each in self._waiting.items()
            if each.idle_since is not None
            and each.uid is None
            and (place is None or self._places.get(transport) == place)
        ]
        if not idle:
            return False
        victim = min(idle, key=lambda each: (each.requests > 0, each.idle_since or 0.0))
        self.leave(victim.transport)
        victim.transport.abort()
        return True


class HttpConnection(HttpToolsProtocol):
    """One connection, within the limits."""

    def __init__(self, *arguments: Any, limiter: ConnectionLimiter, is_own: bool = False, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limiter, self._limits, self._is_own = limiter, limiter.limits, is_own
        self.uid: int | None = None
        self.requests = 0
        self.idle_since: float | None = None
        """Since when it has been waiting for the head of a request."""
        self._unread = 0
        self._head_bytes = self._head_fields = 0
        self._body_since: float | None = None
        self._body_bytes = self._discarded = 0
        self._received_at = 0.0
        self._refusal: Refused | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.idle_since = self._received_at = time.monotonic()
        if self._is_own:
            self.uid = peer_uid(transport)
            if self.uid not in (os.geteuid(), 0):
                transport.abort()
                return
        place = f"uid {self.uid}" if self.uid is not None else network_of(self.client[0] if self.client else "")
        if not self._limiter.enter(self, place):
            self._answer(refused(503, "server.busy", "too many connections are open", "close some, or try again later"))

    def connection_lost(self, exc: Exception | None) -> None:
        self._limiter.leave(self.transport)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._received_at = time.monotonic()
        if self.timeout_keep_alive_task is not None:
            self.idle_since = self._received_at  # the first byte of the next request
        self._unread += len(data)
        super().data_received(data)
        if self._refusal is None and self._unread > self._limits.head_bytes:
            self._refusal = _too_large("the headers are larger", self._limits)
        if self._refusal is not None:
            self._answer(self._refusal)

    def handle_websocket_upgrade(self) -> None:
        if self._refusal is not None:
            return
        self._limiter.upgraded(self.transport)
        super().handle_websocket_upgrade()

    # --- what the parser finds ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_bytes = self._head_fields = self._discarded = 0
        if self.uid is not None:
            self.scope[PEER_UID] = self.uid  # type: ignore[literal-required]
        if len(self.pipeline) >= self._limits.pipelined:
            self._refusal = refused(429, "request.pipelined", "too many requests at once on one connection")

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._count_head(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_fields += 1
        self._count_head(len(name) + len(value))
        if self._refusal is None:
            super().on_header(name, value)

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self._limits.head_bytes:
            self._refusal = _too_large("the headers are larger", self._limits)
        elif self._head_fields > self._limits.head_fields:
            self._refusal = _too_large("there are more headers", self._limits)

    def on_headers_complete(self) -> None:
        if self._refusal is not None:
            return
        self._unread = 0
        self.requests += 1
        self.idle_since = None
        self._body_since, self._body_bytes = time.monotonic(), 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        if self._refusal is not None:
            return
        self._body_bytes += len(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self._limits.discarded_bytes:
                self.transport.close()
        super().on_body(body)

    def on_chunk_complete(self) -> None:
        self._unread = 0

    def on_message_complete(self) -> None:
        self._unread = 0
        self._body_since = None
        if self._refusal is None:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.pipeline:
            self.idle_since = time.monotonic()

    # --- time ---

    def check(self, now: float) -> None:
        """Give up on a client that takes too long."""
        limits = self._limits
        if self.idle_since is not None:
            # Between two requests uvicorn's own keep-alive timeout counts, until the first byte of the next.
            if now - self.idle_since <= limits.head_s or self.timeout_keep_alive_task is not None:
                return
            if self._body_since is not None:
                self.transport.close()  # it was answered, and its body has still not come
            else:
                self._answer(
                    refused(408, "request.slow", "the request headers did not arrive in time", "send them at once")
                )
        elif self._body_since is not None and not self.flow.read_paused:
            age_s = now - self._body_since
            is_slow = age_s > limits.body_slow_s and self._body_bytes < age_s * limits.body_bytes_per_s
            if now - self._received_at > limits.body_idle_s or is_slow:
                self._answer(refused(408, "request.slow", "the request body did not arrive in time", "send it faster"))

    def _answer(self, refusal: Refused) -> None:
        """Send why, unless another response is being sent; then close the connection."""
        if self.transport.is_closing():
            return
        cycle: Any = self.cycle  # None before the first request, whatever its type says
        if cycle is None or cycle.response_complete or not (cycle.response_started or self.pipeline):
            response = refusal.response()
            head = f"HTTP/1.1 {response.status_code} {_PHRASES.get(response.status_code, '')}\r\n".encode()
            fields = [name + b": " + value + b"\r\n" for name, value in response.raw_headers]
            self.transport.write(b"".join([head, *fields, b"connection: close\r\n\r\n", bytes(response.body)]))
        self.transport.close()


_PHRASES = {
    408: "Request Timeout",
    429: "Too Many Requests",
    431: "Request Header Fields Too Large",
    503: "Service Unavailable",
}


def _too_large(what: str, limits: Limits) -> Refused:
    most = f"{limits.head_fields} fields and {limits.head_bytes // 1024} KiB"
    return refused(431, "request.head_too_large", f"{what} than this server accepts", f"send at most {most}")


class Server(uvicorn.Server):
    """uvicorn within the limits. It does not handle signals: the rest of the platform must end after it."""

    def __init__(
        self, app: Any, limits: Limits | None = None, proxies: TrustedProxies = NO_PROXIES, **options: Any
    ) -> None:
        self.limiter = ConnectionLimiter(limits or Limits.of_this_process(), proxies)
        protocol: Any = partial(HttpConnection, limiter=self.limiter)
        config = uvicorn.Config(
            app,
            http=protocol,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,  # clients can forge them; see `trusted_proxies.py`
            ws_ping_interval=PING_S,
            ws_ping_timeout=PING_S,
            **options,
        )
        config.load()
        config.ws_protocol_class = _counting(config.ws_protocol_class, self.limiter)
        super().__init__(config)

    def own_connection(self) -> asyncio.Protocol:
        """A protocol for a connection over the Unix socket."""
        connection = HttpConnection(
            config=self.config,
            server_state=self.server_state,
            app_state={},
            _loop=asyncio.get_running_loop(),
            limiter=self.limiter,
            is_own=True,
        )
        assert isinstance(connection, asyncio.Protocol)
        return connection

    async def sweep(self) -> None:
        """Without end: close connections of clients that take too long."""
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            for each in list(self.server_state.connections):
                if isinstance(each, HttpConnection):
                    each.check(now)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """uvicorn would raise signals again when it is done, while the rest of the platform is not."""
        yield


def _counting(base: Any, limiter: ConnectionLimiter) -> Any:
    """uvicorn's protocol for WebSockets, which is counted until it ends."""

    class Counting(base):  # type: ignore[misc]
        def connection_lost(self, exc: Exception | None) -> None:
            limiter.leave(self.transport)
            super().connection_lost(exc)

    return Counting

"""The HTTP library: the parts of aiohttp that the gateway uses, and what it adds to them.

The only module that imports aiohttp. Three things rely on its internals and are tested against the pinned version:
connections that come from `PodStream`, responses that pass through unchanged, and the bytes after an upgrade.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Protocol, cast, runtime_checkable

from aiohttp import BaseConnector, ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, web
from aiohttp.client_proto import ResponseHandler
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict
from yarl import URL

from fairpool.api.gateway import Admission, PodStream

__all__ = ["ClientError", "ClientResponse", "Request", "Response", "web"]

Request = web.BaseRequest
Response = web.StreamResponse

HEAD_BYTES = 32 * 1024
"""Of one header field, or of the request line."""
HEAD_FIELDS = 128
KEEP_ALIVE_S = 75.0
"""How long a client may take for the head of a request, and between requests."""
POD_KEEP_ALIVE_S = 3.0
"""Less than common servers (5 s): a request must not be sent just when the server closes the connection."""
POD_CONNECTIONS_MAX = 1024
"""To one port of one pod, of all users together."""
BUFFER_BYTES = 1 << 18
FLUSH_SECONDS = 5.0
"""For what was written before a stream is closed."""
AUTOMATIC = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

_admission: ContextVar[Admission] = ContextVar("admission")

Connect = Callable[[Admission], Awaitable[PodStream]]


@runtime_checkable
class OwnTransport(Protocol):
    """A connection that is a socket of this process and can be left to a protocol."""

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport: ...


# --- to the pod ------------------------------------------------------------------------------------------------


class PodClient:
    """HTTP client for pods. Connections are reused for the same port of the same pod."""

    def __init__(self, connect: Connect) -> None:
        self._session = ClientSession(
            connector=PodConnector(connect),
            cookie_jar=DummyCookieJar(),
            auto_decompress=False,
            timeout=ClientTimeout(total=None, connect=None, sock_read=None),
            max_line_size=HEAD_BYTES,
            max_field_size=HEAD_BYTES,
            max_headers=HEAD_FIELDS,
            read_bufsize=BUFFER_BYTES,
        )
        self._session._retry_connection = False  # a body cannot be sent twice

    async def request(
        self,
        admission: Admission,
        method: str,
        target: str,
        fields: Iterable[tuple[str, str]],
        body: AsyncIterator[bytes] | None,
    ) -> ClientResponse:
        """Send a request; returns when the head of the answer is there."""
        _admission.set(admission)
        return await self._session._request(
            method,
            URL(f"http://{admission.upstream}{target}", encoded=True),
            headers=CIMultiDict(fields),
            data=body,
            allow_redirects=False,
            skip_auto_headers=AUTOMATIC,
        )

    async def close(self) -> None:
        await self._session.close()


class PodConnector(BaseConnector):
    """Opens connections by the platform's own way to a pod."""

    allowed_protocol_schema_set = frozenset({"http"})

    def __init__(self, connect: Connect) -> None:
        super().__init__(keepalive_timeout=POD_KEEP_ALIVE_S, limit=0, limit_per_host=POD_CONNECTIONS_MAX)
        self._connect_pod = connect

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> ResponseHandler:
        stream = await self._connect_pod(_admission.get())
        protocol = PodProtocol(self._loop)
        protocol.stream = stream
        if isinstance(stream, OwnTransport):
            stream.hand_over(protocol)
        else:
            StreamTransport(self._loop, stream, protocol)
        return protocol


class PodProtocol(ResponseHandler):
    """The client's side of a connection; keeps the stream alive with it."""

    stream: PodStream


class StreamTransport(asyncio.Transport):
    """A stream of a tunnel, as a transport."""

    def __init__(self, loop: asyncio.AbstractEventLoop, stream: PodStream, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self._stream, self._protocol = stream, protocol
        self._waiting: list[bytes] = []
        self._size = 0
        self._has_data, self._may_read, self._is_sent = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._may_read.set()
        self._is_sent.set()
        self._is_closing = self._is_paused = False
        protocol.connection_made(self)
        self._tasks = [loop.create_task(self._write()), loop.create_task(self._read())]

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        if self._is_closing or not data:
            return
        self._waiting.append(bytes(data))
        self._size += len(data)
        self._has_data.set()
        self._is_sent.clear()
        if self._size > BUFFER_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_writing()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview[int]]) -> None:
        self.write(b"".join(list_of_data))

    def pause_reading(self) -> None:
        self._may_read.clear()

    def resume_reading(self) -> None:
        self._may_read.set()

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return self._size

    def abort(self) -> None:
        self._end(patience=0)

    def close(self) -> None:
        self._end(patience=FLUSH_SECONDS)

    def _end(self, patience: float) -> None:
        if not self._is_closing:
            self._is_closing = True
            asyncio.get_running_loop().create_task(self._close(patience))

    async def _write(self) -> None:
        while True:
            await self._has_data.wait()
            data, self._waiting, self._size = b"".join(self._waiting), [], 0
            self._has_data.clear()
            await self._stream.send(data)
            if not self._waiting:
                self._is_sent.set()
            if self._is_paused and not self._size:
                self._is_paused = False
                self._protocol.resume_writing()

    async def _read(self) -> None:
        while (data := await self._stream.receive()) is not None:
            await self._may_read.wait()
            if self._is_closing:
                return
            self._protocol.data_received(data)
        self.close()

    async def _close(self, patience: float) -> None:
        writer, _reader = self._tasks
        sent = asyncio.ensure_future(self._is_sent.wait())
        await asyncio.wait((writer, sent), timeout=patience, return_when=asyncio.FIRST_COMPLETED)
        tasks = (*self._tasks, sent)
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._stream.close()
        self._protocol.connection_lost(None)


# --- to the client ---------------------------------------------------------------------------------------------


class Connection(RequestHandler):
    """The server's side of a connection to a client."""

    def handle_error(
        self, request: Request, status: int = 500, exc: BaseException | None = None, message: str | None = None
    ) -> Response:
        """What is not valid HTTP gets a plain answer, without names of our libraries or what was sent."""
        headers = {"Server": "fairpool", "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
        answer = web.Response(status=status, text="the request is not valid HTTP, or too large\n", headers=headers)
        answer.force_close()
        return answer


def connection_of(request: Request) -> Connection:
    """The connection that a request came on; it has one at a time."""
    connection = request.protocol
    assert isinstance(connection, Connection)
    return connection


class ConnectionFactory(web.Server):
    """Makes the protocol of each connection."""

    def __call__(self) -> Connection:
        return Connection(self, loop=self._loop, **self._kwargs)


def make_server(handler: Callable[[Request], Awaitable[Response]]) -> web.Server:
    """A server with limits on heads and time. Bodies are neither decoded nor limited."""
    return ConnectionFactory(
        handler,
        handler_cancellation=True,
        access_log=None,
        auto_decompress=False,
        keepalive_timeout=KEEP_ALIVE_S,
        lingering_time=0.0,
        max_line_size=HEAD_BYTES,
        max_field_size=HEAD_BYTES,
        max_headers=HEAD_FIELDS,
        read_bufsize=BUFFER_BYTES,
    )


async def listen(server: web.Server, sock: Any, tls: ssl.SSLContext | None) -> asyncio.Server:
    return await asyncio.get_running_loop().create_server(cast(Any, server), sock=sock, ssl=tls)


class PassedResponse(web.StreamResponse):
    """A response whose fields are those of the pod: none is added but what belongs to this connection."""

    _send_headers_immediately = False

    async def _prepare_headers(self) -> None:
        before = set(self.headers)
        await super()._prepare_headers()
        for name in ("Content-Type", "Server", "Date"):
            if name not in before and name in self.headers:
                del self.headers[name]

    def flush_head(self) -> None:
        """Send the head now; it is otherwise sent with the first part of the body."""
        writer = self._payload_writer
        if writer is not None:
            writer.send_headers()


def passed_response(status: int, reason: str | None, fields: Iterable[tuple[str, str]]) -> PassedResponse:
    response = PassedResponse(status=status, reason=reason)
    response.headers.extend(fields)
    return response


class Upgraded(web.StreamResponse):
    """The answer 101 to a client; after it the connection carries bytes."""

    _length_check = False

    async def _prepare_headers(self) -> None:
        """As given."""


# --- after an upgrade --------------------------------------------------------------------------------------------


class Feed:
    """Bytes of one side on their way to the other, as the library's protocols deliver them."""

    def __init__(self, protocol: Any) -> None:
        self._protocol = protocol
        self._pieces: list[bytes] = []
        self._size = 0
        self._has_ended = self._is_paused = False
        self._ready = asyncio.Event()

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        if data:
            self._pieces.append(bytes(data))
            self._size += len(data)
            self._ready.set()
        if self._size > BUFFER_BYTES and not self._is_paused:
            self._is_paused = True
            self._protocol.pause_reading()
        return False, b""

    def feed_eof(self) -> None:
        self._has_ended = True
        self._ready.set()

    set_exception = feed_eof

    async def next(self) -> bytes | None:
        """What has arrived; None after the last."""
        await self._ready.wait()
        if not self._pieces:
            return None
        data, self._pieces, self._size = b"".join(self._pieces), [], 0
        if not self._has_ended:
            self._ready.clear()
        if self._is_paused:
            self._is_paused = False
            self._protocol.resume_reading()
        return data


async def splice(request: Request, pod: ClientResponse) -> None:
    """Copy bytes in both directions until one side ends."""
    assert pod.connection is not None
    near, far = request.protocol, pod.connection.protocol
    assert far is not None
    from_client, from_pod = Feed(near), Feed(far)
    near.set_parser(cast(Any, from_client))
    far.set_parser(from_pod, None)
    tasks = [asyncio.create_task(_copy(from_client, far)), asyncio.create_task(_copy(from_pod, near))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(feed: Feed, to: Any) -> None:
    while (data := await feed.next()) is not None:
        transport = to.transport
        if transport is None or transport.is_closing():
            return
        transport.write(data)
        with suppress(ConnectionError):
            await to._drain_helper()

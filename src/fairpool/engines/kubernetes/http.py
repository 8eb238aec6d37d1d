"""HTTP to the API server: calls, streamed answers and WebSockets, with the current credentials.

The only module of this package that imports aiohttp. It knows nothing about objects; it turns the library's errors into
`ApiUnreachable` and never repeats a request, except once after a 401 when the credentials could be renewed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import (
    ClientConnectorCertificateError,
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ClientWebSocketResponse,
    ConnectionTimeoutError,
    DummyCookieJar,
    TCPConnector,
    WSMsgType,
)
from yarl import URL

from fairpool.engines.kubernetes.credentials import Access, ApiServer, HeaderFields
from fairpool.engines.kubernetes.failures import ApiUnreachable, BadConfiguration, KubernetesError, Refused, refusal

CONNECT_S = 10.0
KEEP_ALIVE_S = 30.0
"""Less than the API server's, so that a request is not sent on a connection which the server is closing."""
HEARTBEAT_S = 30.0
"""Of WebSockets: a terminal may be idle for hours, and a lost connection must show."""
CHUNK_BYTES = 1 << 18
ERROR_BYTES = 1 << 16
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A complete answer."""

    status: int
    body: bytes
    retry_after_s: float | None


class Http:
    """Connections to one API server. Belongs to the event loop in which it is first used."""

    def __init__(self, server: ApiServer, user_agent: str) -> None:
        self._server, self._agent = server, user_agent
        self._base = server.url.rstrip("/")
        self._session: ClientSession | None = None
        self._sockets: ClientSession | None = None
        self._access: Access | None = None
        self._reading = asyncio.Lock()
        self._headers: HeaderFields = ()

    async def call(
        self, name: str, method: str, target: str, body: bytes | None, content_type: str, timeout_s: float
    ) -> HttpAnswer:
        """Send a request and read the whole answer, whatever its status. `name` is for messages."""
        try:
            async with asyncio.timeout(timeout_s):
                response = await self._send(method, target, body, content_type)
                async with response:
                    return HttpAnswer(response.status, await response.read(), _retry_after(response))
        except (ClientError, OSError, TimeoutError) as error:
            raise _failed(name, error, timeout_s) from None

    @asynccontextmanager
    async def stream(
        self, name: str, target: str, *, silence_s: float | None, answer_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The parts of an answer as they come.

        Raises `ApiUnreachable` if it is cut off or nothing comes for `silence_s`, and `Refused` if it is an error.
        """
        try:
            async with asyncio.timeout(answer_s):
                response = await self._send("GET", target, None, "", silence_s)
        except (ClientError, OSError, TimeoutError) as error:
            raise _failed(name, error, answer_s) from None
        async with response:
            if response.status >= 300:
                raise await _refused(name, response)
            yield _parts(name, response, silence_s)

    async def websocket(self, name: str, target: str, protocols: tuple[str, ...], timeout_s: float) -> Socket:
        """Open a WebSocket with the first of `protocols` that the API server speaks."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._upgrade(name, target, protocols)
        except (ClientError, OSError, TimeoutError) as error:
            raise _failed(name, error, timeout_s) from None

    async def close(self) -> None:
        if self._session is not None and self._sockets is not None:
            await self._sockets.close()
            await self._session.close()
            self._session = self._sockets = None

    async def _send(
        self, method: str, target: str, body: bytes | None, content_type: str, silence_s: float | None = None
    ) -> ClientResponse:
        access = await self._authenticate()
        response = await self._request(access, method, target, body, content_type, silence_s)
        if response.status == 401:
            response.release()
            self._server.credentials.rejected(access)
            access = await self._authenticate()
            response = await self._request(access, method, target, body, content_type, silence_s)
        return response

    async def _request(
        self,
        access: Access,
        method: str,
        target: str,
        body: bytes | None,
        content_type: str,
        silence_s: float | None,
    ) -> ClientResponse:
        session = self._open()
        return await session._request(  # what `session.request` wraps, without its context manager
            method,
            URL(self._base + target, encoded=True),
            data=body,
            headers=self._headers if body is None else (*self._headers, ("Content-Type", content_type)),
            ssl=access.tls,
            server_hostname=self._server.tls_server_name or None,
            allow_redirects=False,
            timeout=ClientTimeout(total=None, sock_connect=CONNECT_S, sock_read=silence_s),
        )

    async def _upgrade(self, name: str, target: str, protocols: tuple[str, ...]) -> Socket:
        for is_last in (False, True):
            access = await self._authenticate()
            self._open()
            assert self._sockets is not None
            try:
                socket = await self._sockets.ws_connect(
                    URL(self._base + target, encoded=True),
                    protocols=protocols,
                    headers=(*access.headers, ("User-Agent", self._agent)),  # 406 if it accepts JSON only
                    ssl=access.tls,
                    server_hostname=self._server.tls_server_name or None,
                    max_msg_size=0,
                    heartbeat=HEARTBEAT_S,
                )
            except _NotUpgradedError as error:
                if error.status != 401 or is_last:
                    raise refusal(name, error.status, error.body) from None
                self._server.credentials.rejected(access)
            else:
                return Socket(name, socket)
        raise AssertionError("the last attempt returns or raises")

    async def _authenticate(self) -> Access:
        access = self._server.credentials.current() or await self._read_credentials()
        if access is not self._access:
            self._access = access
            self._headers = (("Accept", JSON), ("User-Agent", self._agent), *access.headers)
        return access

    async def _read_credentials(self) -> Access:
        async with self._reading:  # one thread is enough for all calls
            known = self._server.credentials.current()
            return known if known is not None else await asyncio.to_thread(self._server.credentials.read)

    def _open(self) -> ClientSession:
        if self._session is None:
            connector = TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S)
            self._session = ClientSession(
                connector=connector,
                cookie_jar=DummyCookieJar(),
                skip_auto_headers=("Accept-Encoding",),
                read_bufsize=CHUNK_BYTES,
            )
            self._session._retry_connection = False  # only the caller knows what may be sent twice
            self._sockets = ClientSession(
                connector=connector,
                connector_owner=False,
                cookie_jar=DummyCookieJar(),
                timeout=ClientTimeout(total=None, sock_connect=CONNECT_S),
                raise_for_status=_check_upgrade,
            )
        return self._session


class _NotUpgradedError(Exception):
    """An answer other than an upgrade; the library would drop its body."""

    def __init__(self, status: int, body: bytes) -> None:
        super().__init__(status)
        self.status, self.body = status, body


async def _check_upgrade(response: ClientResponse) -> None:
    if response.status != 101:
        raise _NotUpgradedError(response.status, await response.content.read(ERROR_BYTES))


class Socket:
    """A WebSocket that carries binary messages."""

    def __init__(self, name: str, socket: ClientWebSocketResponse) -> None:
        self._name, self._socket = name, socket
        self.protocol = socket.protocol or ""

    async def send(self, message: bytes) -> None:
        try:
            await self._socket.send_bytes(message)
        except (ClientError, OSError) as error:
            raise _failed(self._name, error, 0.0) from None

    async def receive(self) -> bytes | None:
        """The next message; None after the last."""
        while True:
            message = await self._socket.receive()
            if message.type is WSMsgType.BINARY:
                return bytes(message.data)
            if message.type is WSMsgType.TEXT:
                return str(message.data).encode()
            if message.type is WSMsgType.ERROR:
                raise ApiUnreachable(self._name, f"the connection was lost: {message.data}")
            if message.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED):
                return None

    async def close(self) -> None:
        await self._socket.close()


async def _parts(name: str, response: ClientResponse, silence_s: float | None) -> AsyncIterator[bytes]:
    try:
        async for part in response.content.iter_any():
            yield part
    except (ClientError, OSError, TimeoutError) as error:
        raise _failed(name, error, silence_s or 0.0) from None


async def _refused(name: str, response: ClientResponse) -> Refused:
    try:
        async with asyncio.timeout(CONNECT_S):
            body = await response.content.read(ERROR_BYTES)
    except (ClientError, OSError, TimeoutError):
        body = b""
    return refusal(name, response.status, body, _retry_after(response))


def _retry_after(response: ClientResponse) -> float | None:
    """The header as seconds; the form with a date is not used by the API server."""
    text = response.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdecimal() else None


def _failed(name: str, error: Exception, timeout_s: float) -> KubernetesError:
    if isinstance(error, ClientConnectorCertificateError):
        return BadConfiguration(f"{name}: the certificate of the Kubernetes API server is not accepted: {error}")
    cause = (
        f"no answer within {timeout_s:g} s" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
    )
    return ApiUnreachable(name, cause, was_sent=not isinstance(error, ClientConnectorError | ConnectionTimeoutError))

"""HTTP to a server on another machine, and WebSockets: with proxies, certificates and HTTP/2.

The same calls as `loopback`, by way of httpx2, which only this module of the client's side imports: that takes 100 ms.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx2
from httpx2.websockets import WebSocketSession, WebSocketUpgradeError

from fairpool.api.loopback import Reply, Streamed, Unreachable

SWITCHED = 101


class UpgradeRefused(Exception):
    """The server answered instead of opening a WebSocket."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"{reply.status_code} {reply.reason_phrase}")
        self.reply = reply


class NetworkHttp:
    """Calls to one server. For one thread."""

    def __init__(self, address: str, timeout_s: float, *, is_here: bool = False) -> None:
        """`is_here`: on this machine, so past any proxy, and without certificates, of which plain HTTP has none."""
        self._address, self._timeout_s = address, timeout_s
        self._client = httpx2.Client(base_url=address, timeout=timeout_s, verify=not is_here, trust_env=not is_here)
        self._client.event_hooks["response"].append(_read_refused_upgrade)

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> Reply:
        """One call, once."""
        with self._losing():
            return _reply(self._client.request(method, path, content=content, params=params, headers=headers))

    @contextmanager
    def stream(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
        silence_s: float | None,
    ) -> Iterator[Streamed]:
        """One call whose answer comes in pieces; `silence_s`: how long the next may take, None: for ever."""
        timeout = httpx2.Timeout(self._timeout_s, read=silence_s)
        with (
            self._losing(),
            self._client.stream(method, path, params=params, headers=headers, timeout=timeout) as answer,
        ):
            yield Streamed(answer.status_code, answer.reason_phrase, answer.iter_raw())

    @contextmanager
    def websocket(
        self, path: str, *, params: Sequence[tuple[str, Any]], headers: Mapping[str, str], message_max: int
    ) -> Iterator[WebSocketSession]:
        """Raises `UpgradeRefused` before it begins."""
        address = self._client.base_url.join(path)
        address = address.copy_with(scheme="wss" if address.scheme == "https" else "ws")
        try:
            with (
                self._losing(),
                self._client.websocket(
                    address, params=list(params), headers=headers, max_message_size_bytes=message_max
                ) as session,
            ):
                yield session
        except WebSocketUpgradeError as error:
            raise UpgradeRefused(_reply(error.response)) from error

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def _losing(self) -> Iterator[None]:
        try:
            yield
        except httpx2.TransportError as error:
            never_connected = isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout)
            reason = str(error) or type(error).__name__
            raise Unreachable(self._address, reason, connected=not never_connected) from error


def _reply(answer: httpx2.Response) -> Reply:
    return Reply(answer.status_code, answer.reason_phrase, answer.content)


def _read_refused_upgrade(answer: httpx2.Response) -> None:
    """What is answered instead of opening a WebSocket must be read before the connection is given up."""
    if "sec-websocket-key" in answer.request.headers and answer.status_code != SWITCHED:
        answer.read()

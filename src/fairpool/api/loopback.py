"""Plain HTTP to a server on this machine, for commands that are over in a moment.

The full client costs a command 100 ms before its first byte: proxies, certificates, HTTP/2. To a server on this machine
the standard library is enough. What needs more (a stream, a shell) is left to the full client, which is imported then.
Trouble is raised as the full client raises it, so that callers know one set of exceptions.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import select
import socket
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

if TYPE_CHECKING:
    import httpx2
    from httpx2.websockets import WebSocketSession


OWN = re.compile(r"127(\.\d{1,3}){3}")


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, as far as anybody looks at it."""

    status_code: int
    reason_phrase: str
    content: bytes

    @property
    def is_error(self) -> bool:
        return self.status_code >= 400

    def json(self) -> Any:
        return json.loads(self.content)


def is_here(address: str) -> bool:
    """Whether this is plain HTTP to this machine."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "http" and (host in ("localhost", "::1") or bool(OWN.fullmatch(host)))


class LoopbackHttp:
    """One connection, kept open. For one thread."""

    def __init__(self, address: str, timeout_s: float, place: Path | None = None) -> None:
        """`place` is a Unix socket at which the same server answers; tried first."""
        parts = urlsplit(address)
        self._place = place
        self._address, self._timeout_s, self._prefix = address, timeout_s, parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
        self._full: httpx2.Client | None = None

    def request(
        self,
        method: str,
        path: str,
        *,
        content: str | bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> Reply:
        """One call, once: whether it may be repeated is for the caller to know."""
        target = f"{self._prefix}{path}" + (f"?{urlencode(params)}" if params else "")
        self._connect()
        try:
            body = content.encode() if isinstance(content, str) else content
            self._connection.request(method, target, body, dict(headers))
            answer = self._connection.getresponse()
            return Reply(answer.status, answer.reason, answer.read())
        except (OSError, http.client.HTTPException) as error:
            import httpx2

            self._connection.close()
            kind = httpx2.ReadTimeout if isinstance(error, TimeoutError) else httpx2.ReadError
            raise kind(str(error) or type(error).__name__) from error

    def _connect(self) -> None:
        """A server hangs up on who is silent for long, for instance while a person is asked: then it is called anew."""
        known = self._connection.sock
        if known is not None and select.select([known], [], [], 0)[0]:
            self._connection.close()
        if self._connection.sock is None:
            try:
                self._connection.sock = self._owners_line()
                if self._connection.sock is None:
                    self._connection.connect()
            except OSError as error:
                import httpx2

                raise httpx2.ConnectError(str(error)) from error

    def _owners_line(self) -> Any:
        """A connection to the server's Unix socket; None: there is none that we could open."""
        if self._place is None:
            return None
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        line.settimeout(self._timeout_s)
        try:
            folder = os.open(self._place.parent, os.O_PATH | os.O_CLOEXEC)  # an address may only have 107 bytes
            try:
                line.connect(f"/proc/self/fd/{folder}/{self._place.name}")
            finally:
                os.close(folder)
        except (OSError, AttributeError):  # not ours, not there, or not Linux
            line.close()
            return None
        return line

    def stream(self, method: str, path: str, **options: Any) -> AbstractContextManager[httpx2.Response]:
        return self._whole().stream(method, path, **options)

    def websocket(self, address: httpx2.URL, **options: Any) -> AbstractContextManager[WebSocketSession]:
        return self._whole().websocket(address, **options)

    @property
    def event_hooks(self) -> dict[str, list[Any]]:
        return self._whole().event_hooks

    @property
    def base_url(self) -> httpx2.URL:
        return self._whole().base_url

    def close(self) -> None:
        self._connection.close()
        if self._full is not None:
            self._full.close()

    def _whole(self) -> httpx2.Client:
        """Past any proxy, and without reading certificates that nobody will show."""
        import httpx2

        if self._full is None:
            self._full = httpx2.Client(base_url=self._address, timeout=self._timeout_s, verify=False, trust_env=False)
        return self._full

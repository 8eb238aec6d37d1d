"""HTTP to a server on this machine, for commands that are over in a moment.

The full client costs a command 100 ms before its first byte (proxies, certificates, HTTP/2), and the standard library's
20 ms (it parses headers as mail). A server on this machine is ours, speaks HTTP/1.1 and answers with a length or in
chunks: that much is here. A shell, which needs a WebSocket, is left to the full client, which is imported then.
"""

from __future__ import annotations

import json
import os
import re
import select
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode, urlsplit

from fairpool.api.listener import job_user

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from httpx2.websockets import WebSocketSession

    from fairpool.api.network import NetworkHttp


OWN = re.compile(r"127(\.\d{1,3}){3}")
LINE_MAX = 65_536
PIECE = 65_536
HEADERS_MAX = 200
IDLE_S = 2.0
"""Less than servers keep a connection open that is not used."""
IN_PATHS = "/?&=:%@!$'()*+,;~"


class Unreachable(Exception):
    """No answer came. Unless `connected` is false, the request may have been carried out."""

    def __init__(self, address: str, reason: str, *, connected: bool) -> None:
        super().__init__(f"{address} does not answer: {reason}")
        self.reason = reason
        self.connected = connected


class JobListens(Unreachable):
    """A program of a job listens where the server should. Nothing was sent to it."""

    def __init__(self, address: str, uid: int) -> None:
        super().__init__(address, f"a program of a job (user {uid}) listens there", connected=False)
        self.uid = uid


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer with all of its body."""

    status_code: int
    reason_phrase: str
    content: bytes

    @property
    def is_error(self) -> bool:
        return self.status_code >= 400

    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer whose body is read piece by piece."""

    status_code: int
    reason_phrase: str
    pieces: Iterator[bytes]

    @property
    def is_error(self) -> bool:
        return self.status_code >= 400

    def whole(self) -> Reply:
        """The same with all of its body."""
        return Reply(self.status_code, self.reason_phrase, b"".join(self.pieces))


def is_here(address: str) -> bool:
    """Whether this is plain HTTP to this machine."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    return parts.scheme == "http" and (host in ("localhost", "::1") or bool(OWN.fullmatch(host)))


def job_at(address: str, timeout_s: float = 10.0) -> int | None:
    """The uid of a pod that listens on this machine where the server should; None: there is none."""
    parts = urlsplit(address)
    if is_here(address):
        with suppress(OSError), socket.create_connection((parts.hostname, parts.port or 80), timeout_s) as opened:
            return job_user(opened)
    return None


class LoopbackHttp:
    """One connection, kept open, and one for each stream. For one thread."""

    def __init__(self, address: str, timeout_s: float, place: Path | None = None) -> None:
        """`place` is a Unix socket at which the same server answers; tried first."""
        parts = urlsplit(address)
        self._place = place
        self._address, self._timeout_s, self._prefix = address, timeout_s, parts.path.rstrip("/")
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._line: _Line | None = None
        self._used_at = 0.0
        self._full: NetworkHttp | None = None

    def request(
        self,
        method: str,
        path: str,
        *,
        content: bytes | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str],
    ) -> Reply:
        """One call. Only a GET on a connection that was open already is repeated; others the caller may repeat."""
        is_reused = self._is_open()
        if self._line is None:
            self._line = self._connect()
        try:
            with self._losing():
                self._line.send(method, self._target(path, params), headers, content)
                status, reason, fields = self._line.head()
                body = b"".join(self._line.body(status, fields))
        except Unreachable:
            self._hang_up()
            if is_reused and method == "GET":  # the server may have closed it just now, as an idle one
                return self.request(method, path, content=content, params=params, headers=headers)
            raise
        self._used_at = time.monotonic()
        if fields.get("connection", "").lower() == "close":
            self._hang_up()
        return Reply(status, reason, body)

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
        """One call on a connection of its own; `silence_s`: how long the next piece may take, None: for ever."""
        line = self._connect()
        try:
            with self._losing():
                line.send(method, self._target(path, params), headers, None)
                line.socket.settimeout(silence_s)
                status, reason, fields = line.head()
            yield Streamed(status, reason, self._pieces(line.body(status, fields)))
        finally:
            line.close()

    def websocket(
        self, path: str, *, params: Sequence[tuple[str, Any]], headers: Mapping[str, str], message_max: int
    ) -> AbstractContextManager[WebSocketSession]:
        """By the full client."""
        if self._full is None:
            from fairpool.api.network import NetworkHttp  # takes 100 ms

            self._full = NetworkHttp(self._address, self._timeout_s, is_here=True)
        uid = job_at(self._address, self._timeout_s)
        if uid is not None:
            raise JobListens(self._address, uid)
        return self._full.websocket(path, params=params, headers=headers, message_max=message_max)

    def close(self) -> None:
        self._hang_up()
        if self._full is not None:
            self._full.close()

    def _target(self, path: str, params: Mapping[str, Any] | None) -> str:
        return quote(f"{self._prefix}{path}", safe=IN_PATHS) + (f"?{urlencode(params)}" if params else "")

    def _is_open(self) -> bool:
        """Whether there is a connection to use again. A server closes one that is idle for some seconds, for instance
        while a user is prompted, so an older one is not used."""
        if self._line is None:
            return False
        readable = select.poll()  # unlike select(), for any number of open files
        readable.register(self._line.socket, select.POLLIN)
        is_closed = bool(readable.poll(0))
        if is_closed or time.monotonic() - self._used_at > IDLE_S:
            self._hang_up()
        return self._line is not None

    def _connect(self) -> _Line:
        try:
            opened = self._owners_socket() or self._connected()
        except OSError as error:
            raise Unreachable(self._address, str(error), connected=False) from error
        return _Line(opened, urlsplit(self._address).netloc)

    def _connected(self) -> socket.socket:
        """A connection to the port, unless a pod listens there."""
        opened = socket.create_connection((self._host, self._port), self._timeout_s)
        uid = job_user(opened)
        if uid is not None:
            opened.close()
            raise JobListens(self._address, uid)
        return opened

    def _owners_socket(self) -> socket.socket | None:
        """A connection to the server's Unix socket, which tells it the caller's process; None: it cannot be opened."""
        if self._place is None:
            return None
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        opened.settimeout(self._timeout_s)
        try:
            folder = os.open(self._place.parent, os.O_PATH | os.O_CLOEXEC)  # an address may only have 107 bytes
            try:
                opened.connect(f"/proc/self/fd/{folder}/{self._place.name}")
            finally:
                os.close(folder)
        except (OSError, AttributeError):  # not ours, not there, or not Linux
            opened.close()
            return None
        return opened

    def _pieces(self, body: Iterator[bytes]) -> Iterator[bytes]:
        with self._losing():
            yield from body

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Whatever goes wrong on a connection, as one exception."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise Unreachable(self._address, str(error) or type(error).__name__, connected=True) from error

    def _hang_up(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None


class _Line:
    """HTTP/1.1 on one open connection. What is wrong with an answer is a `ValueError`."""

    def __init__(self, opened: socket.socket, host: str) -> None:
        self.socket = opened
        self._host = host
        self._reader = opened.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self.socket.close()

    def send(self, method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> None:
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if content is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(content or b'')}")
        if any(not line.isprintable() for line in lines):
            raise ValueError("the request contains a control character")
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (content or b""))

    def head(self) -> tuple[int, str, dict[str, str]]:
        """Status, its words, and the header fields, by their names in lower case."""
        while True:
            version, _, rest = self._text().partition(" ")
            status, _, reason = rest.partition(" ")
            if not version.startswith("HTTP/1.") or not status.isdecimal():
                raise ValueError("the answer is not HTTP" if version else "the connection was closed")
            fields: dict[str, str] = {}
            while text := self._text():
                name, _, value = text.partition(":")
                fields[name.strip().lower()] = value.strip()
                if len(fields) > HEADERS_MAX:
                    raise ValueError("the answer has too many header fields")
            if int(status) >= 200:
                return int(status), reason, fields

    def body(self, status: int, fields: Mapping[str, str]) -> Iterator[bytes]:
        """As it comes, in pieces."""
        if status in (204, 304):
            return
        if fields.get("transfer-encoding", "").lower() == "chunked":
            while size := int(self._text().partition(";")[0], 16):
                yield from self._exactly(size)
                self._text()
            while self._text():
                pass
        elif "content-length" in fields:
            yield from self._exactly(int(fields["content-length"]))
        else:
            yield from iter(lambda: self._reader.read1(PIECE), b"")

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._reader.read1(min(size, PIECE))
            if not piece:
                raise ValueError("the answer ended too early")
            size -= len(piece)
            yield piece

    def _text(self) -> str:
        """One line, without its end."""
        line = self._reader.readline(LINE_MAX)
        if not line.endswith(b"\n"):
            raise ValueError("a line of the answer is too long" if line else "the connection was closed")
        return line.rstrip(b"\r\n").decode("latin-1")

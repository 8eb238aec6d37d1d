"""Where audit entries are forwarded to: a file of JSON lines, or syslog (RFC 5424).

Called from a thread, since all of it waits. A target says that entries arrived only when they are on the disk, or with
the socket's own system; UDP has no other way of knowing, and TCP knows no better for the last ones before a connection
is cut.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from fairpool.model.problem import Problem

TIMEOUT_S: Final = 5.0
ROTATE_BYTES: Final = 64 * 1024 * 1024
ROTATED_KEPT: Final = 10
DATAGRAM_MAX: Final = 32 * 1024
"""Bytes of an entry in a datagram; a longer one loses its changes and says so."""
NOTICE: Final = 13 * 8 + 5
"""Facility log audit, severity notice."""
WARNING: Final = 13 * 8 + 4
FIX: Final = "use file:/path, syslog+udp://host:514, syslog+tcp://host:514 or syslog+unix:/dev/log"


@dataclass(frozen=True, slots=True)
class ForwardedEntry:
    """An entry as it is sent."""

    id: int
    timestamp: str
    text: str
    """JSON, on one line."""
    is_refusal: bool


class AuditTarget(Protocol):
    """Takes entries; raises OSError if it cannot."""

    def send(self, entries: Sequence[ForwardedEntry]) -> None: ...

    def close(self) -> None: ...


def audit_target(text: str) -> AuditTarget | Problem:
    """The target that a flag names."""
    parts = urlsplit(text)
    path = Path(parts.path)
    if parts.scheme in ("file", "syslog+unix") and not parts.netloc and path.is_absolute():
        return AuditFile(path) if parts.scheme == "file" else Syslog(str(path), "unix")
    kind = parts.scheme.removeprefix("syslog+")
    try:
        host, port = parts.hostname, parts.port or 514
    except ValueError:
        host, port = None, 0
    is_server = parts.scheme in ("syslog+udp", "syslog+tcp") and not parts.path.strip("/") and "@" not in parts.netloc
    if not is_server or not host:
        return Problem("audit.target", f"{text!r} is not a target for audit entries", FIX)
    return Syslog((host, port), kind)


class AuditFile:
    """A file of JSON lines. It is opened for each batch, so that other programs may move it away at any time."""

    def __init__(self, path: Path, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._path, self._rotate_bytes = path, rotate_bytes

    def send(self, entries: Sequence[ForwardedEntry]) -> None:
        data = "".join(f"{each.text}\n" for each in entries).encode()
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(file).st_size
            if size and os.pread(file, 1, size - 1) != b"\n":  # the last write was cut off
                data = b"\n" + data
            while data:
                data = data[os.write(file, data) :]
            os.fsync(file)
            is_full = os.fstat(file).st_size >= self._rotate_bytes
        finally:
            os.close(file)
        if is_full:
            self._rotate()

    def _rotate(self) -> None:
        for number in range(ROTATED_KEPT - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self._path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def close(self) -> None: ...


class Syslog:
    """A syslog server, or the machine's own syslog socket. Over TCP, messages begin with their length (RFC 6587)."""

    def __init__(self, address: str | tuple[str, int], kind: str) -> None:
        self._address, self._kind = address, kind
        self._socket: socket.socket | None = None
        self._host = re.sub(r"[^\x21-\x7e]", "-", socket.gethostname())[:255] or "-"

    def send(self, entries: Sequence[ForwardedEntry]) -> None:
        messages = [self._message(each) for each in entries]
        try:
            connected = self._socket = self._socket or self._connected()
            if self._kind == "tcp":
                self._check_open(connected)
                connected.sendall(b"".join(b"%d %s" % (len(each), each) for each in messages))
            else:
                for each in messages:
                    connected.send(each)
        except OSError:
            self.close()
            raise

    def _connected(self) -> socket.socket:
        if isinstance(self._address, tuple) and self._kind == "tcp":
            return socket.create_connection(self._address, TIMEOUT_S)
        if isinstance(self._address, tuple):
            family, kind, protocol, _, place = socket.getaddrinfo(*self._address, type=socket.SOCK_DGRAM)[0]
            opened = socket.socket(family, kind, protocol)
            opened.settimeout(TIMEOUT_S)
            opened.connect(place)
            return opened
        opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        opened.settimeout(TIMEOUT_S)
        opened.connect(self._address)
        return opened

    def _check_open(self, connected: socket.socket) -> None:
        """A server that closed the connection would take what is sent, and lose it."""
        connected.setblocking(False)
        try:
            if not connected.recv(1):
                raise ConnectionResetError("the syslog server closed the connection")
        except BlockingIOError:
            pass
        finally:
            connected.settimeout(TIMEOUT_S)

    def _message(self, entry: ForwardedEntry) -> bytes:
        text = entry.text
        if self._kind != "tcp" and len(text) > DATAGRAM_MAX:
            text = f'{{"id":"{entry.id}","too_long":true}}'
        priority = WARNING if entry.is_refusal else NOTICE
        head = f"<{priority}>1 {entry.timestamp} {self._host} fairpool {os.getpid()} audit - "
        return head.encode() + b"\xef\xbb\xbf" + text.encode()

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

"""The address the server listens on: parsed, bound, and if it is in use, by which process."""

from __future__ import annotations

import errno
import json
import os
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fairpool.model.problem import Problem
from fairpool.platform.data_directory import PlatformError

DEFAULT = "127.0.0.1:8080"
ASK_S = 1.0
OTHER_LOOPBACKS = {"127.0.0.1": (socket.AF_INET6, "::1"), "::1": (socket.AF_INET, "127.0.0.1")}
LISTENING = "0A"
"""The state of a listening socket in the kernel's table."""


@dataclass(frozen=True, slots=True)
class Address:
    """Host and port, as they were written."""

    host: str
    port: int
    scheme: str = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.place}"

    @property
    def place(self) -> str:
        """`HOST:PORT`, as it is written for `--listen`."""
        return f"{self.bracketed}:{self.port}"

    @property
    def bracketed(self) -> str:
        """The host as it stands in a URL."""
        return f"[{self.host}]" if ":" in self.host else self.host


def read_address(text: str, default: str = DEFAULT) -> Address | Problem:
    """`HOST:PORT`, `[HOST]:PORT` for IPv6, or one of the two alone."""
    default_host, _, default_port = default.partition(":")
    host, colon, port = text.strip().rpartition(":")
    if not colon:
        host, port = (default_host, port) if port.isdecimal() else (port, default_port)
    host = host.removeprefix("[").removesuffix("]") or default_host
    if not port.isascii() or not port.isdecimal() or not 0 <= int(port) <= 65535 or any(map(str.isspace, host)):
        fix = f"expected HOST:PORT, e.g. {default} or [::1]:{default_port}"
        return Problem("listen.unreadable", f"{text!r} is not a valid address to listen on", fix)
    return Address(host, int(port))


def listening_socket(address: Address, flag: str = "--listen") -> tuple[socket.socket, Address]:
    """A bound socket, and its address with the port it got for port 0. Raises `PlatformError`.

    `flag` is the one that the address was given with.
    """
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        what = f"host {address.host!r} cannot be resolved: {error.strerror or error}"
        raise PlatformError(Problem("listen.unknown_host", what, f"use an IP address, e.g. {DEFAULT}")) from error
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        # Connections of a killed server linger for a minute; they must not prevent the next one from binding.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except OSError as error:
        listener.close()
        raise PlatformError(_not_available(address, error, flag)) from error
    return listener, replace(address, port=int(listener.getsockname()[1]))


def other_loopback(listener: socket.socket) -> socket.socket | Problem | None:
    """The same port at the other loopback address, because `localhost` leads to both: a pod could listen there.

    A problem: another program does. None: it is not needed, or this machine has no such address.
    """
    host, port = listener.getsockname()[:2]
    if host not in OTHER_LOOPBACKS:
        return None
    family, other = OTHER_LOOPBACKS[host]
    address = Address(other, port)
    try:
        found = socket.create_server((other, port), family=family, backlog=2048)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return None
        what = (
            f"{_user_of(address)} listens on {address.place}, and may be sent what is meant for Fairpool at localhost"
        )
        return Problem("listen.other_loopback", what, "stop it, and start Fairpool again")
    return found


def _user_of(address: Address) -> str:
    pid = _listener_pid(address.port)
    return f"process {pid} ({_name_of(pid)})" if pid is not None else "another process"


def _not_available(address: Address, error: OSError, flag: str) -> Problem:
    if error.errno == errno.EADDRINUSE:
        return _taken(address, flag)
    if error.errno == errno.EADDRNOTAVAIL:
        what = f"{address.host} is not an address of this machine"
        return Problem("listen.foreign", what, f"use one that is, e.g. {flag} {DEFAULT}")
    if error.errno in (errno.EACCES, errno.EPERM):
        what = f"this user is not allowed to listen on port {address.port}"
        return Problem("listen.forbidden", what, f"use a port above 1023, e.g. {flag} {DEFAULT}")
    what = f"cannot listen on {address.url}: {(error.strerror or str(error)).lower()}"
    return Problem("listen.unavailable", what, f"choose another address with {flag}")


def _taken(address: Address, flag: str) -> Problem:
    process = _user_of(address)
    other = Address(address.host, address.port + 1 if address.port < 65535 else 8081)
    elsewhere = f"choose another port, e.g. {flag} {other.place}"
    if _is_fairpool(address):
        what = f"{address.url} is in use by another Fairpool, {process}, with a different data directory"
        return Problem("listen.taken", what, f"use that one, or {elsewhere}")
    return Problem("listen.taken", f"{address.url} is in use by {process}", f"stop it, or {elsewhere}")


def _is_fairpool(address: Address) -> bool:
    """Whether a request without a token is refused there as Fairpool does."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(f"{address.url}/api/v1/me", timeout=ASK_S).close()
    except urllib.error.HTTPError as refusal:
        with refusal, suppress(ValueError, OSError, LookupError, TypeError):
            return str(json.loads(refusal.read(65536))["problems"][0]["code"]).startswith("access.")
    except (OSError, ValueError):
        return False
    return False


def _listener_pid(port: int) -> int | None:
    """The process that listens on a port, as far as this user may see it."""
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for directory in Path("/proc").glob("[0-9]*/fd") if wanted else ():
        if directory.parent.name == str(os.getpid()):
            continue  # listens at another address
        with suppress(OSError):
            if any(os.readlink(entry) in wanted for entry in directory.iterdir()):
                return int(directory.parent.name)
    return None


def _inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        with suppress(OSError):
            for line in table.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]


def _name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return "?"

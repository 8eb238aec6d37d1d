"""Connects to a port that a process of a pod listens on.

Everything in the network of a pod that has its own is the pod's. Other pods share the network of their machine, where a
port by itself may belong to another pod, or to the platform: only a socket that a process of the pod has open is
connected to.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace

from fairpool.agent import process_table
from fairpool.agent.libc import check_result, libc
from fairpool.agent.pod_network import open_sockets
from fairpool.model.problem import Problem
from fairpool.model.relay_port import RELAY_PORT

CONNECT_S = 5.0
KNOWN_MAX = 4096
LISTENING = "0A"
TABLES = (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6))
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""Where to connect to a socket that listens on all addresses."""


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that takes connections."""

    address: str
    inode: int
    pid: int = 0
    """A process that has it open."""


class PodPorts:
    """Connections to ports of pods. Which socket belongs to a pod is remembered: to find out takes all processes."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int], Listener] = {}

    def connect(self, pod: str, port: int, pids: Callable[[], Collection[int]]) -> socket.socket | Problem:
        """A connection to the port, if one of the pod's processes listens on it."""
        known = self._known.get((pod, port))
        # One that is known was the pod's, and is looked at again after the connection is made.
        connection = _connected(port, known) if known is not None else None
        listener = known
        if not isinstance(connection, socket.socket):
            listener = _listener(port, pids())
            connection = _connected(port, listener)
        if listener is not None and isinstance(connection, socket.socket):
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[pod, port] = listener
        return connection


def connect_inside(main: int, port: int, sockets: Callable[[], Sequence[socket.socket]]) -> socket.socket | Problem:
    """A connection to a port of a pod that has a network of its own; `main` is a process in it, and `sockets` opens
    one there of each family."""
    address = next((each.address for each in _listeners(port, f"/proc/{main}/net")), None)
    if address is None or port == RELAY_PORT:
        return _closed(port)
    try:
        by_family = sockets()
    except OSError as error:
        return Problem("pod.port_closed", f"the pod does not answer ({error.strerror or error})", "try again")
    is_6 = ":" in address
    connection, other = (by_family[1], by_family[0]) if is_6 else (by_family[0], by_family[1])
    other.close()
    try:
        connection.settimeout(CONNECT_S)
        connection.connect((LOOPBACK.get(address, address), port))
    except OSError as error:
        connection.close()
        return _takes_none(port, error)
    return connection


def has_other_network(pid: int) -> bool:
    """Whether a process has another network than this one."""
    try:
        return os.stat(f"/proc/{pid}/ns/net").st_ino != os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return False


def sockets_beside(pid: int, started: int) -> list[socket.socket]:
    """Sockets in the network of a process, by a thread that enters it and ends: for networks that a container runtime
    has made, and no shim is in. Raises OSError."""
    handle = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        if not process_table.is_alive(pid, started):
            raise ProcessLookupError(errno.ESRCH, "its container has ended")
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(_sockets_in, handle).result()
    finally:
        os.close(handle)


def _sockets_in(network: int) -> list[socket.socket]:
    check_result(libc().setns(network, 0), "setns")
    return open_sockets()


def _closed(port: int) -> Problem:
    what = f"no process of the pod listens on port {port}"
    return Problem("pod.port_closed", what, "start the program first, or name the port that it uses")


def _takes_none(port: int, error: OSError) -> Problem:
    what = f"port {port} of the pod takes no connection ({error.strerror or error})"
    return Problem("pod.port_closed", what, "try again")


def _connected(port: int, listener: Listener | None) -> socket.socket | Problem:
    if listener is None:
        return _closed(port)
    try:
        connection = socket.create_connection((LOOPBACK.get(listener.address, listener.address), port), CONNECT_S)
    except OSError as error:
        return _takes_none(port, error)
    if _listener(port, [listener.pid]) != listener:  # the program ended meanwhile, and another may have answered
        connection.close()
        return Problem("pod.port_closed", f"the program on port {port} has ended", "try again")
    return connection


def _listener(port: int, pids: Collection[int]) -> Listener | None:
    listeners = {each.inode: each for each in _listeners(port)}
    if not listeners:
        return None
    found = ((pid, inode) for pid in pids for inode in _sockets(pid) if inode in listeners)
    pid, inode = next(found, (0, 0))
    return replace(listeners[inode], pid=pid) if pid else None


def _listeners(port: int, tables: str = "/proc/net") -> Iterator[Listener]:
    for table, family in TABLES:
        with suppress(OSError), open(f"{tables}/{table}", encoding="ascii") as file:
            next(file, "")
            for line in file:
                fields = line.split()
                if fields[3] != LISTENING:
                    break  # they come first, and the others may be many thousands
                address, _, number = fields[1].partition(":")
                if int(number, 16) == port:
                    yield Listener(_address(address, family), int(fields[9]))


def _address(text: str, family: socket.AddressFamily) -> str:
    """An address of the kernel's table: words of 32 bits in the order of this machine."""
    words = struct.unpack(f"={len(text) // 8}I", struct.pack(f">{len(text) // 8}I", *_words(text)))
    return socket.inet_ntop(family, struct.pack(f">{len(words)}I", *words))


def _words(text: str) -> list[int]:
    return [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]


def _sockets(pid: int) -> Iterator[int]:
    """The inodes of the sockets that a process has open."""
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for name in names:
        with suppress(OSError, ValueError):
            target = os.readlink(f"/proc/{pid}/fd/{name}")
            if target.startswith("socket:["):
                yield int(target[len("socket:[") : -1])

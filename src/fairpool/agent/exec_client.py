"""Exec and attach in a running pod: the client of the socket that its shim opens in `exec_server.py`."""

from __future__ import annotations

import array
import errno
import json
import os
import socket
import struct
import termios
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairpool.agent import pod_directory, process_table
from fairpool.agent.exec_server import OPEN_SIGNAL, SOCKET, SOCKETS, TERMINAL

DEFAULT_SIZE = (24, 80)
COMMAND_MAX = 65536
"""Bytes of a command: written as JSON they may be twice as many, and must fit into one packet."""
CONNECT_S = 5.0
OPEN_TIMEOUT_S = 30.0
"""How long a shim has to open its socket; on a busy machine it must first be scheduled."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05
"""Between two attempts to connect."""


class ExecSession:
    """A command that runs in a pod. Read and write its descriptors; closing the session sends it SIGHUP."""

    def __init__(self, connection: socket.socket, stdin: int, stdout: int, stderr: int | None) -> None:
        self._connection = connection
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        """With a terminal, input and output are one descriptor, and there is no other for errors."""

    def resize(self, rows: int, columns: int) -> None:
        """Set the size of the terminal."""
        termios.tcsetwinsize(self.stdout, (rows, columns))

    def end_input(self) -> None:
        """Close stdin; a terminal takes a character for that instead."""
        if self.stdin >= 0 and self.stdin != self.stdout:
            os.close(self.stdin)
            self.stdin = -1

    def fileno(self) -> int:
        """Readable when the command has ended."""
        return self._connection.fileno()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit code; None if it has not ended by then, or if the pod ended with it."""
        self._connection.settimeout(timeout_s)
        try:
            answer = self._connection.recv(4096)
        except TimeoutError:
            return None
        return int(json.loads(answer)["exit"]) if answer else None

    def close(self) -> None:
        self._connection.close()
        for fd in {self.stdin, self.stdout, self.stderr} - {None, -1}:
            assert fd is not None
            os.close(fd)
        self.stdin = self.stdout = -1
        self.stderr = None


class AttachSession:
    """The output of a pod's program, the latest first, and its input."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def fileno(self) -> int:
        return self._connection.fileno()

    def read(self, timeout_s: float | None = None) -> bytes | None:
        """The next piece of output; empty at its end, None if nothing came in time."""
        self._connection.settimeout(timeout_s)
        try:
            return self._connection.recv(131072)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def write(self, data: bytes) -> None:
        """Send input to the program, if it reads any."""
        self._connection.settimeout(CONNECT_S)
        for start in range(0, len(data), 32768):
            self._connection.send(b"d" + data[start : start + 32768])

    def end_input(self) -> None:
        self._connection.send(b"e")

    def resize(self, rows: int, columns: int) -> None:
        self._connection.send(b"r" + struct.pack("<HH", rows, columns))

    def close(self) -> None:
        """Detach; the program runs on."""
        self._connection.close()


def execute(
    directory: Path,
    argv: Sequence[str],
    *,
    tty: bool = False,
    size: tuple[int, int] = DEFAULT_SIZE,
    environment: Mapping[str, str] | None = None,
    working_dir: str = "",
) -> ExecSession:
    """Run a command in the pod's environment, directory and namespaces. Raises OSError where no shim answers."""
    connection = _connect(directory)
    request = {
        "op": "exec",
        "argv": list(argv),
        "env": {"TERM": "xterm-256color", **(environment or {})} if tty else dict(environment or {}),
        "cwd": working_dir,
        "tty": tty,
        "size": size,
    }
    if tty:
        return _on_terminal(connection, request)
    ours, theirs, slots = _pipes()
    try:
        _send(connection, request, slots)
    except OSError:
        connection.close()
        for fd in {fd for fd in ours if fd is not None}:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return ExecSession(connection, *ours)


def _on_terminal(connection: socket.socket, request: Mapping[str, Any]) -> ExecSession:
    """The terminal is created inside the pod, in its own /dev/pts, and its master side is passed back."""
    try:
        connection.send(json.dumps(request).encode())
        connection.settimeout(OPEN_TIMEOUT_S)
        packet, fds, _, _ = socket.recv_fds(connection, 4096, 1)
        if packet != TERMINAL or not fds:
            raise OSError(errno.EAGAIN, "cannot start a process in the pod")
    except OSError:
        connection.close()
        raise
    os.set_inheritable(fds[0], False)
    return ExecSession(connection, fds[0], fds[0], None)


def attach(directory: Path) -> AttachSession:
    """Read the output of the pod's program, and write its input if it reads."""
    connection = _connect(directory)
    connection.send(json.dumps({"op": "attach"}).encode())
    return AttachSession(connection)


def sockets(directory: Path) -> list[socket.socket]:
    """Sockets in the network of a pod that has its own, of IPv4 and of IPv6. Raises OSError where no shim answers."""
    connection = _connect(directory)
    try:
        connection.send(json.dumps({"op": "sockets"}).encode())
        connection.settimeout(OPEN_TIMEOUT_S)
        packet, fds, _, _ = socket.recv_fds(connection, 64, 2)
    finally:
        connection.close()
    found = [socket.socket(fileno=fd) for fd in fds]
    if packet != SOCKETS or len(found) != 2:
        for each in found:
            each.close()
        raise OSError(errno.EAGAIN, "the pod's network does not answer")
    for each in found:
        each.set_inheritable(False)
    return found


def _connect(directory: Path) -> socket.socket:
    """Connect to the shim; without a socket it is signalled to open one, as long as the program runs."""
    until, pause_s = time.monotonic() + OPEN_TIMEOUT_S, FIRST_PAUSE_S
    while True:
        try:
            return _connected(directory)
        except (FileNotFoundError, ConnectionRefusedError):
            found = pod_directory.read_files(str(directory))
            shim = found.shim
            runs = shim is not None and found.running_since is not None and shim.is_alive
            if shim is None or not runs or time.monotonic() >= until:
                raise
        process_table.send(shim.pid, OPEN_SIGNAL, only_if=partial(process_table.is_alive, started=shim.started))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _connected(directory: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(CONNECT_S)
    handle = os.open(directory, os.O_PATH | os.O_CLOEXEC)
    try:
        # Through a descriptor, because the address of a socket may have 107 bytes at most.
        connection.connect(f"/proc/self/fd/{handle}/{SOCKET}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(handle)
    return connection


def _pipes() -> tuple[tuple[int, int, int | None], set[int], list[int]]:
    (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = os.pipe(), os.pipe(), os.pipe()
    return (ours_in, ours_out, ours_err), {stdin, stdout, stderr}, [stdin, stdout, stderr]


def _send(connection: socket.socket, request: Mapping[str, Any], fds: Sequence[int]) -> None:
    rights = array.array("i", fds).tobytes()
    text = json.dumps(request, ensure_ascii=False).encode()
    connection.sendmsg([text], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

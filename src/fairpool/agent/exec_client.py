"""Exec and attach for a running pod; the other end is `exec_server.py`."""

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
from fairpool.agent.exec_server import KNOCK, TERMINAL

DEFAULT_SIZE = (24, 80)
COMMAND_MAX = 65536
"""Bytes of a command: written as JSON they may be twice as many, and must fit into one packet."""
CONNECT_S = 5.0
KNOCK_S = 30.0
"""How long a shim has to make a door; on a busy machine it must first get its turn."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.002, 0.05
"""Between two tries to come in."""


class Execution:
    """A command that runs in a pod. Read and write its descriptors; closing it tells the command to leave."""

    def __init__(self, line: socket.socket, stdin: int, stdout: int, stderr: int | None) -> None:
        self._line = line
        self.stdin, self.stdout, self.stderr = stdin, stdout, stderr
        """With a terminal, input and output are one descriptor, and there is no other for errors."""

    def resize(self, rows: int, columns: int) -> None:
        """The window of whoever looks at the terminal has another size now."""
        termios.tcsetwinsize(self.stdout, (rows, columns))

    def end_input(self) -> None:
        """Nothing more will be typed; a terminal says so with a character instead."""
        if self.stdin >= 0 and self.stdin != self.stdout:
            os.close(self.stdin)
            self.stdin = -1

    def fileno(self) -> int:
        """Readable when the command has ended."""
        return self._line.fileno()

    def wait(self, timeout_s: float | None = None) -> int | None:
        """The exit code; None if it has not ended by then, or if the pod ended with it."""
        self._line.settimeout(timeout_s)
        try:
            answer = self._line.recv(4096)
        except TimeoutError:
            return None
        return int(json.loads(answer)["exit"]) if answer else None

    def close(self) -> None:
        self._line.close()
        for fd in {self.stdin, self.stdout, self.stderr} - {None, -1}:
            assert fd is not None
            os.close(fd)
        self.stdin = self.stdout = -1
        self.stderr = None


class Attachment:
    """The program of a pod, seen live: its latest output first, then what comes."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line

    def fileno(self) -> int:
        return self._line.fileno()

    def read(self, timeout_s: float | None = None) -> bytes | None:
        """The next piece of output; empty at its end, None if nothing came in time."""
        self._line.settimeout(timeout_s)
        try:
            return self._line.recv(131072)
        except TimeoutError:
            return None
        except ConnectionError:
            return b""

    def type(self, data: bytes) -> None:
        """Hand keystrokes to the program, if it reads any."""
        self._line.settimeout(CONNECT_S)
        for start in range(0, len(data), 32768):
            self._line.send(b"d" + data[start : start + 32768])

    def end_input(self) -> None:
        self._line.send(b"e")

    def resize(self, rows: int, columns: int) -> None:
        self._line.send(b"r" + struct.pack("<HH", rows, columns))

    def close(self) -> None:
        """Leave; the program runs on."""
        self._line.close()


def execute(
    folder: Path,
    argv: Sequence[str],
    *,
    tty: bool = False,
    size: tuple[int, int] = DEFAULT_SIZE,
    environment: Mapping[str, str] | None = None,
    working_dir: str = "",
) -> Execution:
    """Run a command in the pod's environment, folder and view. Raises OSError where no shim answers."""
    line = _knock(folder)
    wish = {
        "op": "exec",
        "argv": list(argv),
        "env": {"TERM": "xterm-256color", **(environment or {})} if tty else dict(environment or {}),
        "cwd": working_dir,
        "tty": tty,
        "size": size,
    }
    if tty:
        return _on_terminal(line, wish)
    ours, theirs, slots = _pipes()
    try:
        _send(line, wish, slots)
    except OSError:
        line.close()
        for fd in {fd for fd in ours if fd is not None}:
            os.close(fd)
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return Execution(line, *ours)


def _on_terminal(line: socket.socket, wish: Mapping[str, Any]) -> Execution:
    """The terminal is made inside the pod, in its own view, and one end of it handed out."""
    try:
        line.send(json.dumps(wish).encode())
        line.settimeout(KNOCK_S)
        packet, fds, _, _ = socket.recv_fds(line, 4096, 1)
        if packet != TERMINAL or not fds:
            raise OSError(errno.EAGAIN, "cannot start a process in the pod")
    except OSError:
        line.close()
        raise
    os.set_inheritable(fds[0], False)
    return Execution(line, fds[0], fds[0], None)


def attach(folder: Path) -> Attachment:
    """Look over the shoulder of the pod's program, and type for it if it reads."""
    line = _knock(folder)
    line.send(json.dumps({"op": "attach"}).encode())
    return Attachment(line)


def _knock(folder: Path) -> socket.socket:
    """Come in; where there is no door the shim is asked to make one, as long as it lives and the program runs."""
    until, pause_s = time.monotonic() + KNOCK_S, FIRST_PAUSE_S
    while True:
        try:
            return _connected(folder)
        except (FileNotFoundError, ConnectionRefusedError):
            found = pod_directory.glance(str(folder))
            shim = found.shim
            runs = shim is not None and found.running_since is not None and shim.is_alive
            if shim is None or not runs or time.monotonic() >= until:
                raise
        process_table.send(shim.pid, KNOCK, only_if=partial(process_table.is_alive, started=shim.started))
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _connected(folder: Path) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    line.settimeout(CONNECT_S)
    handle = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        # Through the descriptor, because the address of a socket may only have 107 bytes.
        line.connect(f"/proc/self/fd/{handle}/door")
    except OSError:
        line.close()
        raise
    finally:
        os.close(handle)
    return line


def _pipes() -> tuple[tuple[int, int, int | None], set[int], list[int]]:
    (stdin, ours_in), (ours_out, stdout), (ours_err, stderr) = os.pipe(), os.pipe(), os.pipe()
    return (ours_in, ours_out, ours_err), {stdin, stdout, stderr}, [stdin, stdout, stderr]


def _send(line: socket.socket, wish: Mapping[str, Any], fds: Sequence[int]) -> None:
    rights = array.array("i", fds).tobytes()
    line.sendmsg([json.dumps(wish, ensure_ascii=False).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

"""Visitors of a running pod: those who attach to its program, and those who execute a command beside it.

The shim's side of a socket in the life's folder; the other side is in `visit.py`. Few pods are ever visited, so most
have none: who wants to come in knocks, by a signal to the shim, and waits until it is there. A pod with a keyboard
has one from the start. A visitor's first packet says what it wants. After that an attached visitor gets output and
sends keystrokes and window sizes, one packet each; one that executes has handed over the file descriptors, or is handed
the end of a terminal, and waits for the exit code.

Whatever a visitor says, and whenever it leaves, costs that visitor its place and nobody anything else: the shim
alone knows how the program ends, so nothing here may end the shim.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import select
import signal
import socket
import struct
import termios
from collections.abc import Mapping

from fairpool.agent import namespaces
from fairpool.agent.cgroup import Group
from fairpool.agent.pod_init import limit_processes
from fairpool.agent.program import NOT_EXECUTABLE, CannotRun, become

TYPE_CHECKING = False
if TYPE_CHECKING:  # its own word for it is in `typing`, which would be a tenth of every shim's memory
    from typing import Any, NoReturn

KNOCK = signal.SIGUSR1
"""Somebody wants to come in."""
REPLAY_BYTES = 65536
"""The latest output, shown to whoever attaches, so that a prompt is not missing."""
TERMINAL = b"terminal"
"""What comes with the other end of a terminal, for a visitor that wants one."""
PACKET_MAX = 131072
KEYBOARD_MAX = 1 << 20
"""Keystrokes kept for a program that does not read; more are dropped."""


class Door:
    """The socket on which visitors knock, and the visitors inside."""

    def __init__(self, poll: select.poll, launch: Mapping[str, Any], group: Group | None = None) -> None:
        self._poll, self._launch, self._group = poll, launch, group
        self._listener: socket.socket | None = None
        self._guests: dict[int, socket.socket] = {}
        self._attached: set[int] = set()
        self._executing: dict[int, int] = {}
        self._replay = bytearray()
        self._keyboard, self._typed, self._is_terminal, self._main = -1, bytearray(), False, 0
        self._is_typed_out = False

    def furnish(self, *, main: int, keyboard: int, is_terminal: bool) -> None:
        """What visitors will find."""
        self._main, self._keyboard, self._is_terminal = main, keyboard, is_terminal
        if keyboard >= 0:
            self.open()

    def open(self) -> None:
        """Let visitors in, from now on; where there is no room for a door, nobody can."""
        if self._listener is None:
            try:
                self._listener = _listening()
                self._poll.register(self._listener, select.POLLIN)
            except OSError:
                return

    def close(self) -> None:
        for guest in [*self._guests.values(), *([self._listener] if self._listener else [])]:
            guest.close()

    def show(self, data: bytes) -> None:
        """Output of the program, for everyone attached; who cannot keep up may come again and see the replay."""
        if self._is_terminal or self._keyboard >= 0:
            self._replay += data
            del self._replay[:-REPLAY_BYTES]
        for fd in sorted(self._attached):
            self._send(fd, data)

    def serve(self, fd: int, events: int) -> None:
        """Something happened on a descriptor that is not the shim's."""
        try:
            if self._listener is not None and fd == self._listener.fileno():
                self._admit()
            elif fd == self._keyboard:
                self._type()
            elif fd in self._guests:
                self._hear(fd)
        except Exception:
            self._dismiss(fd)

    def visitor_ended(self, pid: int, code: int) -> None:
        """A child of the shim that is not the program has ended."""
        fd = self._executing.pop(pid, None)
        if fd is not None:
            self._part(fd, code if code >= 0 else 128 - code)

    def _admit(self) -> None:
        assert self._listener is not None
        try:
            guest, _ = self._listener.accept()
        except OSError:
            return
        guest.setblocking(False)
        self._guests[guest.fileno()] = guest
        self._poll.register(guest, select.POLLIN)

    def _hear(self, fd: int) -> None:
        try:
            packet, fds = _received(self._guests[fd])
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        try:
            if not packet:
                self._dismiss(fd)
            elif fd in self._attached:
                self._obey(packet)
            elif fd not in self._executing.values():
                self._welcome(fd, json.loads(packet), fds)
        finally:
            for each in fds:
                os.close(each)

    def _welcome(self, fd: int, wish: Mapping[str, Any], fds: list[int]) -> None:
        if wish["op"] == "attach":
            if self._replay:
                self._send(fd, bytes(self._replay))
            if fd in self._guests:
                self._attached.add(fd)
        elif wish["op"] == "exec" and len(fds) == (0 if wish["tty"] else 3):
            try:
                pid = os.fork()
            except OSError as error:  # no more processes, or no memory
                if fds:
                    _say(fds[2], f"cannot start a process in the pod: {error.strerror}")
                self._part(fd, NOT_EXECUTABLE)
                return
            if pid == 0:
                self._execute(wish, fds, self._guests[fd])
            self._executing[pid] = fd
        else:
            self._dismiss(fd)

    def _execute(self, wish: Mapping[str, Any], fds: list[int], guest: socket.socket) -> NoReturn:
        """In the child: become the command, in the pod's view, as its user and under its limits."""
        code = NOT_EXECUTABLE
        try:
            namespaces.hide_memory()  # ours is not the pod's to read, until there is none of it left
            os.setsid()
            if self._group is not None:
                self._group.enter()
            if self._main:
                namespaces.join(self._main)
            if self._launch.get("view"):
                _take_on(self._launch["view"])
            if wish["tty"]:
                fds = _terminal(wish["size"], guest)
            env = {**self._launch["env"], **wish["env"]}
            cwd = wish["cwd"] or self._launch["cwd"]
            become(wish["argv"], env, cwd, (fds[0], fds[1], fds[2]), is_terminal=wish["tty"])
        except CannotRun as error:
            code = error.code
            _say_if_possible(fds, error.words)
        except BaseException as error:
            _say_if_possible(fds, str(error))
        finally:
            os._exit(code)

    def _obey(self, packet: bytes) -> None:
        """One packet of an attached visitor: `d` and what was typed, `r` and the new size of its window."""
        kind, body = packet[:1], packet[1:]
        if kind == b"d" and self._keyboard >= 0 and len(self._typed) < KEYBOARD_MAX:
            self._typed += body
            self._type()
        elif kind == b"r" and self._is_terminal:
            rows, columns = struct.unpack("<HH", body)
            fcntl.ioctl(self._keyboard, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif kind == b"e" and self._keyboard >= 0 and not self._is_terminal:
            self._is_typed_out = True
            self._type()

    def _type(self) -> None:
        """Hand over what was typed; the rest when there is room, also on a terminal into which somebody pastes."""
        try:
            while self._typed:
                del self._typed[: os.write(self._keyboard, self._typed)]
        except BlockingIOError:
            self._poll.register(self._keyboard, select.POLLOUT)
            return
        except OSError:  # the program has closed its input
            self._typed.clear()
        if self._is_typed_out:
            self._close_keyboard()
        else:
            self._forget_keyboard_interest()

    def _forget_keyboard_interest(self) -> None:
        try:
            self._poll.unregister(self._keyboard)
        except KeyError:
            return

    def _close_keyboard(self) -> None:
        self._forget_keyboard_interest()
        os.close(self._keyboard)
        self._keyboard = -1

    def _send(self, fd: int, data: bytes) -> None:
        guest = self._guests.get(fd)
        if guest is None:
            return
        try:
            guest.send(data)
        except OSError:
            self._dismiss(fd)

    def _part(self, fd: int, code: int) -> None:
        """Tell a visitor how its command ended, and let it go."""
        self._send(fd, json.dumps({"exit": code}).encode())
        self._dismiss(fd)

    def _dismiss(self, fd: int) -> None:
        """A visitor leaves, once; what it executed is told so, as by a terminal that was closed."""
        self._attached.discard(fd)
        guest = self._guests.pop(fd, None)
        if guest is None:
            return
        self._poll.unregister(fd)
        guest.close()
        for pid in [pid for pid, owner in self._executing.items() if owner == fd]:
            del self._executing[pid]
            try:
                os.killpg(pid, signal.SIGHUP)
            except OSError:
                continue


def _listening() -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        if os.path.lexists("door"):
            os.unlink("door")  # of a shim that was killed
        listener.bind("door")
        listener.listen(8)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _take_on(view: Mapping[str, Any]) -> None:
    """Be who the pod is; its namespaces were entered before, and other groups left."""
    if view["user"] is not None:
        uid, gid = view["user"]
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        namespaces.hide_memory()  # shown again by the change
    if view["counts_processes"]:
        limit_processes(view["processes_max"])
    namespaces.leave_key_rings()
    namespaces.renounce_privileges()


def _terminal(size: list[int], guest: socket.socket) -> list[int]:
    """One of the pod's own for the command; its other end goes to the visitor."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (size[0], size[1]))
    guest.setblocking(True)
    socket.send_fds(guest, [TERMINAL], [master])
    os.close(master)
    return [slave, slave, slave]


def _say_if_possible(fds: list[int], words: str) -> None:
    if fds:
        _say(fds[2], words)


def _say(fd: int, words: str) -> None:
    """A line for the visitor, if there is room for it: nobody waits for a visitor who does not read."""
    try:
        os.set_blocking(fd, False)
        os.write(fd, f"{words}\n".encode())
    except OSError:
        return


def _received(guest: socket.socket) -> tuple[bytes, list[int]]:
    room = socket.CMSG_SPACE(3 * 4)
    packet, ancillary, _, _ = guest.recvmsg(PACKET_MAX, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return packet, list(fds)

"""Exec and attach in a running pod: the shim's side of a socket in the pod directory. The client is `exec_client.py`.

Few pods ever need the socket, so most have none: a client signals the shim and waits until it is there. A pod with
stdin has one from the start. The client's first packet is its request. Afterwards an attached client receives output
and sends input and window sizes, one packet each; one that executes a command has passed its file descriptors, or is
passed the master side of a terminal, and waits for the exit code; one that connects to a port is passed sockets.

A worker of MPI has a second socket, in the directory of its run, which is mounted into the pods of that run and no
others: through it the launcher starts programs here (`pod/remote_shell.py`). It takes commands without a terminal,
from processes of the pod's own user.

Whatever a client sends, and whenever it disconnects, affects that client alone: only the shim knows how the program
ends, so nothing here may end the shim.
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

from fairpool.agent import namespaces, process_attributes
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.container_program import exec_command
from fairpool.agent.pod_init import limit_processes
from fairpool.agent.pod_network import open_sockets
from fairpool.agent.program import NOT_EXECUTABLE, CannotRun, become

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any, NoReturn

SOCKET = "exec.sock"
OPEN_SIGNAL = signal.SIGUSR1
"""Asks the shim to open the socket."""
REPLAY_BYTES = 65536
"""The latest output, sent to a client that attaches, so that a prompt is not missing."""
TERMINAL = b"terminal"
"""Comes with the master side of a terminal, for a client that wants one."""
SOCKETS = b"sockets"
"""Comes with sockets in the pod's network."""
PACKET_MAX = 131072
PEERS_MAX = 64
"""Programs that are started here by other pods, at a time."""
STDIN_MAX = 1 << 20
"""Input kept for a program that does not read; more is dropped."""


class ExecServer:
    """The listening socket, and its exec and attach sessions."""

    def __init__(self, poll: select.poll, launch: Mapping[str, Any], group: Cgroup | None = None) -> None:
        self._poll, self._launch, self._group = poll, launch, group
        self._listener: socket.socket | None = None
        self._gang_listener: socket.socket | None = None
        self._peers: set[int] = set()
        """Clients that came through it."""
        self._clients: dict[int, socket.socket] = {}
        self._attached: set[int] = set()
        self._executing: dict[int, int] = {}
        """Processes of commands, each with the descriptor of its client."""
        self._replay = bytearray()
        self._stdin, self._input, self._is_terminal, self._main = -1, bytearray(), False, 0
        self._input_has_ended = False

    def set_program(self, *, main: int, stdin: int, is_terminal: bool) -> None:
        """What clients attach to, and whose namespaces commands join."""
        self._main, self._stdin, self._is_terminal = main, stdin, is_terminal
        if stdin >= 0:
            self.open()
        if self._launch.get("gang"):
            self._open_gang_socket(*self._launch["gang"])

    def _open_gang_socket(self, directory: str, name: str) -> None:
        """Without it the launcher does not reach this worker, and says so."""
        try:
            self._gang_listener = _listening(directory, name, mode=0o666)
            self._poll.register(self._gang_listener, select.POLLIN)
        except OSError:
            return

    def open(self) -> None:
        """Accept clients from now on, if the socket can be created."""
        if self._listener is None:
            try:
                self._listener = _listening(".", SOCKET)
                self._poll.register(self._listener, select.POLLIN)
            except OSError:
                return

    def close(self) -> None:
        for each in (*self._clients.values(), self._listener, self._gang_listener):
            if each is not None:
                each.close()

    def send_output(self, data: bytes) -> None:
        """To all attached clients; one that cannot keep up is disconnected, and gets the replay when it returns."""
        if self._is_terminal or self._stdin >= 0:
            self._replay += data
            del self._replay[:-REPLAY_BYTES]
        for fd in sorted(self._attached):
            self._send(fd, data)

    def serve(self, fd: int, events: int) -> None:
        """Handle an event on a descriptor that is not the shim's."""
        try:
            if self._listener is not None and fd == self._listener.fileno():
                self._accept(self._listener)
            elif self._gang_listener is not None and fd == self._gang_listener.fileno():
                self._accept_peer(self._gang_listener)
            elif fd == self._stdin:
                self._write_stdin()
            elif fd in self._clients:
                self._receive(fd)
        except Exception:
            self._disconnect(fd)

    def child_ended(self, pid: int, code: int) -> None:
        """A child of the shim that is not the program has ended."""
        fd = self._executing.pop(pid, None)
        if fd is not None:
            self._finish(fd, code if code >= 0 else 128 - code)

    def _accept(self, listener: socket.socket) -> int:
        try:
            client, _ = listener.accept()
        except OSError:
            return -1
        client.setblocking(False)
        self._clients[client.fileno()] = client
        self._poll.register(client, select.POLLIN)
        return client.fileno()

    def _accept_peer(self, listener: socket.socket) -> None:
        """A process of another pod of the run; what it may take of the shim is limited."""
        fd = self._accept(listener)
        if fd < 0:
            return
        user = self._launch["view"]["user"][0] if (self._launch["view"] or {}).get("user") else os.geteuid()
        if len(self._peers) >= PEERS_MAX or _user_of(self._clients[fd]) != user:
            self._disconnect(fd)
        else:
            self._peers.add(fd)

    def _receive(self, fd: int) -> None:
        try:
            packet, fds = _received(self._clients[fd])
        except BlockingIOError:
            return
        except OSError:
            packet, fds = b"", []
        try:
            if not packet:
                self._disconnect(fd)
            elif fd in self._attached:
                self._handle_attached(packet)
            elif fd not in self._executing.values():
                self._begin(fd, json.loads(packet), fds)
        finally:
            for each in fds:
                os.close(each)

    def _begin(self, fd: int, request: Mapping[str, Any], fds: list[int]) -> None:
        if fd in self._peers and (request["op"] != "exec" or request["tty"]):
            self._disconnect(fd)
        elif request["op"] == "attach":
            if self._replay:
                self._send(fd, bytes(self._replay))
            if fd in self._clients:
                self._attached.add(fd)
        elif request["op"] == "sockets":
            self._pass_sockets(fd)
        elif request["op"] == "exec" and len(fds) == (0 if request["tty"] else 3):
            try:
                pid = os.fork()
            except OSError as error:  # no more processes, or no memory
                if fds:
                    _write_line(fds[2], f"cannot start a process in the pod: {error.strerror}")
                self._finish(fd, NOT_EXECUTABLE)
                return
            if pid == 0:
                self._execute(request, fds, self._clients[fd])
            self._executing[pid] = fd
        else:
            self._disconnect(fd)

    def _pass_sockets(self, fd: int) -> None:
        """Sockets in the pod's network, through which the client connects to its ports."""
        sockets = open_sockets() if self._launch.get("network") else []
        socket.send_fds(self._clients[fd], [SOCKETS], [each.fileno() for each in sockets])
        for each in sockets:
            each.close()
        self._disconnect(fd)

    def _execute(self, request: Mapping[str, Any], fds: list[int], client: socket.socket) -> NoReturn:
        """In the child: become the command, in the pod's namespaces, as its user and under its limits."""
        code = NOT_EXECUTABLE
        try:
            process_attributes.hide_memory()  # the pod must not read the shim's memory before it is replaced
            os.setsid()
            if self._launch.get("container"):
                self._execute_in_container(request, fds, client)
            if self._group is not None:
                self._group.enter()
            if self._main:
                namespaces.join(self._main, (self._launch.get("view") or {}).get("groups", ()))
            if self._launch.get("view"):
                _become_pod_user(self._launch["view"])
            if request["tty"]:
                fds = _terminal(request["size"], client)
            env = {**self._launch["env"], **request["env"]}
            cwd = request["cwd"] or self._launch["cwd"]
            become(request["argv"], env, cwd, (fds[0], fds[1], fds[2]), is_terminal=request["tty"])
        except CannotRun as error:
            code = error.code
            _write_error(fds, error.words)
        except BaseException as error:
            _write_error(fds, str(error))
        finally:
            os._exit(code)

    def _execute_in_container(self, request: Mapping[str, Any], fds: list[int], client: socket.socket) -> NoReturn:
        """The container's own tool enters it: it knows its limits and filters."""
        if request["tty"]:
            fds = _terminal(request["size"], client)
        argv, env = exec_command(self._launch, request), self._launch["container"]["environment"]
        become(argv, env, "/", (fds[0], fds[1], fds[2]), is_terminal=request["tty"])

    def _handle_attached(self, packet: bytes) -> None:
        """A packet of an attached client: `d` and input, `r` and the size of its window, `e` for the end of input."""
        kind, body = packet[:1], packet[1:]
        if kind == b"d" and self._stdin >= 0 and len(self._input) < STDIN_MAX:
            self._input += body
            self._write_stdin()
        elif kind == b"r" and self._is_terminal:
            rows, columns = struct.unpack("<HH", body)
            fcntl.ioctl(self._stdin, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        elif kind == b"e" and self._stdin >= 0 and not self._is_terminal:
            self._input_has_ended = True
            self._write_stdin()

    def _write_stdin(self) -> None:
        """Write what was received; the rest when there is room, also on a terminal into which much is pasted."""
        try:
            while self._input:
                del self._input[: os.write(self._stdin, self._input)]
        except BlockingIOError:
            self._poll.register(self._stdin, select.POLLOUT)
            return
        except OSError:  # the program has closed its input
            self._input.clear()
        self._unregister_stdin()
        if self._input_has_ended:
            os.close(self._stdin)
            self._stdin = -1

    def _unregister_stdin(self) -> None:
        try:
            self._poll.unregister(self._stdin)
        except KeyError:
            return

    def _send(self, fd: int, data: bytes) -> None:
        client = self._clients.get(fd)
        if client is None:
            return
        try:
            client.send(data)
        except OSError:
            self._disconnect(fd)

    def _finish(self, fd: int, code: int) -> None:
        """Send a client the exit code of its command, and disconnect it."""
        self._send(fd, json.dumps({"exit": code}).encode())
        self._disconnect(fd)

    def _disconnect(self, fd: int) -> None:
        """Its command gets SIGHUP, as when a terminal is closed. May be called twice."""
        self._attached.discard(fd)
        self._peers.discard(fd)
        client = self._clients.pop(fd, None)
        if client is None:
            return
        self._poll.unregister(fd)
        client.close()
        for pid in [pid for pid, owner in self._executing.items() if owner == fd]:
            del self._executing[pid]
            try:
                os.killpg(pid, signal.SIGHUP)
            except OSError:
                continue


def _listening(directory: str, name: str, mode: int = 0o600) -> socket.socket:
    """`mode` is for those who come through the directory, which is restricted by its own mode and its mounts."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handle = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Through a descriptor, because the address of a socket may have 107 bytes at most.
        path = f"/proc/self/fd/{handle}/{name}"
        if os.path.lexists(path):
            os.unlink(path)  # of a shim that was killed
        listener.bind(path)
        os.chmod(path, mode)
        listener.listen(8)
    except OSError:
        listener.close()
        raise
    finally:
        os.close(handle)
    listener.setblocking(False)
    return listener


def _user_of(client: socket.socket) -> int:
    _, uid, _ = struct.unpack("iii", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iii")))
    return int(uid)


def _become_pod_user(view: Mapping[str, Any]) -> None:
    """In the pod's namespaces, which were joined before, with its supplementary groups."""
    if view["user"] is not None:
        uid, gid = view["user"]
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        process_attributes.hide_memory()  # the change of user has made it readable again
    if view["counts_processes"]:
        limit_processes(view["processes_max"])
    process_attributes.new_session_keyring()
    process_attributes.drop_privileges()


def _terminal(size: list[int], client: socket.socket) -> list[int]:
    """A terminal of the pod's own for the command; the master side goes to the client."""
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (size[0], size[1]))
    client.setblocking(True)
    socket.send_fds(client, [TERMINAL], [master])
    os.close(master)
    return [slave, slave, slave]


def _write_error(fds: list[int], words: str) -> None:
    if fds:
        _write_line(fds[2], words)


def _write_line(fd: int, words: str) -> None:
    """To the client, if there is room: the shim never waits for a client that does not read."""
    try:
        os.set_blocking(fd, False)
        os.write(fd, f"{words}\n".encode())
    except OSError:
        return


def _received(client: socket.socket) -> tuple[bytes, list[int]]:
    room = socket.CMSG_SPACE(3 * 4)
    packet, ancillary, _, _ = client.recvmsg(PACKET_MAX, room, socket.MSG_CMSG_CLOEXEC)
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return packet, list(fds)

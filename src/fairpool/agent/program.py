"""Starting the program of a pod: its output, its keyboard, its limits and its view, then the program itself.

Where the system permits it a pod is isolated: its first process (`pod_init.py`) makes the view and starts the program.
Elsewhere the shim starts it: with `posix_spawn` where there are no mounts, limits or terminal, which copies no memory
and says at once if the program could not be executed; else with a fork, which says so through a pipe that closes on
success. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import termios
from collections.abc import Callable, Mapping

from fairpool.agent import namespaces
from fairpool.agent.cgroup import Group
from fairpool.agent.pod_init import CANNOT, PACKET_MAX, TERMINAL, TROUBLE, be_first

TYPE_CHECKING = False
if TYPE_CHECKING:  # its own word for it is in `typing`, which would be a tenth of every shim's memory
    from typing import Any, NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes that shells and container runtimes use for a program that could not be started."""


NAMESPACE = "ns"
"""A link in the life's folder to the number of the pod's process table: all that is in there is the pod's."""
TERMINAL_SIZE = (24, 80)
"""Rows and columns until somebody attaches and says theirs."""


class CannotRun(Exception):
    """The program did not start; what a person needs to know."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Started:
    """A running program and the ends of its pipes that stay with the shim."""

    __slots__ = ("keyboard", "line", "output", "pid")

    def __init__(self, pid: int, output: int, keyboard: int, line: socket.socket | None = None) -> None:
        self.pid, self.output = pid, output
        """Of an isolated pod `pid` is its first process, which says on the line how the program ended."""
        self.keyboard = keyboard
        """Where to write what it reads, or -1 if it reads nothing."""
        self.line = line


def start_program(launch: Mapping[str, Any], group: Group | None) -> Started:
    """Start what the launch says, in the shim's current folder."""
    if launch.get("view"):
        return _start_isolated(launch, group)
    if launch["host_name"]:
        _or_cannot(lambda: namespaces.own_host_name(launch["host_name"]))
    if launch["tty"]:
        return _start_on_terminal(launch, group)
    reader, keyboard, inside, output = _make_pipes(launch)
    if group is None and not launch["mounts"]:
        pid = _spawn(launch, reader, inside)
    else:
        pid = _fork(launch, group, reader, inside, is_terminal=False)
    os.close(inside)
    os.close(reader)
    return Started(pid, output, keyboard)


def _make_pipes(launch: Mapping[str, Any]) -> tuple[int, int, int, int]:
    """Both ends of what it reads and of what it writes: its own, ours; its own, ours."""
    os.mkfifo("output", 0o600)
    # Open for reading too on both sides: neither the program nor a later shim meets a broken pipe when this one dies.
    inside = os.open("output", os.O_RDWR | os.O_CLOEXEC)
    output = os.open("output", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if launch["stdin"]:
        reader, keyboard = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(keyboard, False)
    else:
        reader, keyboard = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
    return reader, keyboard, inside, output


def _start_isolated(launch: Mapping[str, Any], group: Group | None) -> Started:
    _or_cannot(lambda: namespaces.part_from_machine(launch["host_name"]))
    if group is not None:
        _or_cannot(lambda: group.make(launch["limits"]["cpu_milli"], launch["limits"]["memory_bytes"]))
    reader, keyboard, inside, output = (-1, -1, -1, -1) if launch["tty"] else _make_pipes(launch)
    if inside >= 0 and launch["view"]["user"] is not None:
        os.fchown(inside, *launch["view"]["user"])  # or nothing there could open /dev/stdout
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        be_first(launch, group, theirs, lambda line: _start_inside(launch, reader, inside, line))
    theirs.close()
    for fd in (reader, inside):
        if fd >= 0:
            os.close(fd)
    try:
        os.symlink(str(namespaces.process_table_of_children()), NAMESPACE)
        terminal = _hear_that_it_runs(ours)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ours.close()
        raise
    if terminal < 0:
        return Started(pid, output, keyboard, ours)
    os.set_blocking(terminal, False)
    return Started(pid, terminal, os.dup(terminal), ours)


def _start_inside(launch: Mapping[str, Any], reader: int, output: int, line: socket.socket) -> int:
    """In the first process of a pod, with its view around it."""
    if not launch["tty"]:
        return _spawn(launch, reader, output)
    master, slave = os.openpty()  # one of the pod's own: those of the machine are not in its view
    termios.tcsetwinsize(slave, TERMINAL_SIZE)
    socket.send_fds(line, [TERMINAL], [master])
    trouble, trouble_writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            become(launch["argv"], launch["env"], launch["cwd"], (slave, slave, slave), is_terminal=True)
        except CannotRun as error:
            os.write(trouble_writer, f"{error.code} {error.words}".encode())
        except BaseException as error:
            os.write(trouble_writer, f"{NOT_EXECUTABLE} {error}".encode())
        os._exit(NOT_FOUND)
    os.close(trouble_writer)
    _raise_trouble(trouble)
    return pid


def _hear_that_it_runs(line: socket.socket) -> int:
    """Wait until the program runs; its terminal, or -1. Raises `CannotRun`."""
    terminal = -1
    while True:
        packet, fds, _, _ = socket.recv_fds(line, PACKET_MAX, 1)
        if packet[:1] == TERMINAL:
            terminal = fds[0]
            os.set_inheritable(terminal, False)
        elif packet[:1] == TROUBLE:
            code, _, words = packet[1:].decode(errors="replace").partition(" ")
            raise CannotRun(int(code), words)
        elif packet:
            return terminal
        else:
            raise CannotRun(CANNOT, "its first process was killed while it started")


def _start_on_terminal(launch: Mapping[str, Any], group: Group | None) -> Started:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, TERMINAL_SIZE)
    pid = _fork(launch, group, slave, slave, is_terminal=True)
    os.close(slave)
    os.set_blocking(master, False)
    return Started(pid, master, os.dup(master))  # each can be closed without the other


def _spawn(launch: Mapping[str, Any], reader: int, output: int) -> int:
    home = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        change_folder(launch["cwd"])
        path = find_program(launch["argv"][0], launch["env"])
        return os.posix_spawn(
            path,
            launch["argv"],
            launch["env"],
            file_actions=[
                (os.POSIX_SPAWN_DUP2, reader, 0),
                (os.POSIX_SPAWN_DUP2, output, 1),
                (os.POSIX_SPAWN_DUP2, output, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESTORED,
        )
    except OSError as error:
        raise _cannot_execute(launch["argv"][0], error) from None
    except ValueError as error:  # a variable named `A=B`, a zero byte in an argument
        raise CannotRun(NOT_EXECUTABLE, f"{launch['argv'][0]}: {error}") from None
    finally:
        os.fchdir(home)
        os.close(home)


def _fork(launch: Mapping[str, Any], group: Group | None, reader: int, output: int, *, is_terminal: bool) -> int:
    shim = os.getpid()
    if launch["mounts"]:
        os.makedirs("view", exist_ok=True)
    staging = os.path.abspath("view")
    if group is not None:
        _or_cannot(lambda: group.make(launch["limits"]["cpu_milli"], launch["limits"]["memory_bytes"]))
    trouble, trouble_writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            # Until it carries its mark nobody could find it, so it must not outlive its shim.
            namespaces.die_with_parent(shim)
            os.setsid()
            if group is not None:
                group.enter()
            if launch["mounts"]:
                namespaces.enter(namespaces.CLONE_NEWNS)
                namespaces.mount_view(launch["mounts"], staging, inside_user_namespace=os.geteuid() != 0)
            become(launch["argv"], launch["env"], launch["cwd"], (reader, output, output), is_terminal=is_terminal)
        except CannotRun as error:
            os.write(trouble_writer, f"{error.code} {error.words}".encode())
        except BaseException as error:
            os.write(trouble_writer, f"{NOT_EXECUTABLE} {error}".encode())
        os._exit(NOT_FOUND)
    os.close(trouble_writer)
    try:
        _raise_trouble(trouble)
    except CannotRun:
        os.waitpid(pid, 0)
        raise
    return pid


def _raise_trouble(trouble: int) -> None:
    """What a child says that could not become the program; nothing, when it has."""
    with os.fdopen(trouble, "rb") as answer:
        words = answer.read().decode(errors="replace")
    if words:
        code, _, what = words.partition(" ")
        raise CannotRun(int(code), what)


def become(argv: list[str], env: dict[str, str], cwd: str, fds: tuple[int, int, int], *, is_terminal: bool) -> NoReturn:
    """Turn this process, already in a session of its own, into a program."""
    change_folder(cwd)
    for number in _RESTORED:
        signal.signal(number, signal.SIG_DFL)
    if is_terminal:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    # Beyond 2 first, or the second of them could overwrite what the third is copied from.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds]
    for target, fd in enumerate(copies):
        os.dup2(fd, target)
    path = find_program(argv[0], env)
    namespaces.outlive_parent()
    try:
        os.execve(path, argv, env)
    except OSError as error:
        raise _cannot_execute(argv[0], error) from None


def change_folder(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise CannotRun(NOT_EXECUTABLE, f"working directory {cwd}: {error.strerror}") from None


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The file a name stands for, by the program's own PATH and not by ours."""
    if "/" in name:
        return name
    for folder in env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{name}"
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise CannotRun(NOT_FOUND, f"{name}: command not found on its PATH")


def _cannot_execute(name: str, error: OSError) -> CannotRun:
    missing = error.errno in (errno.ENOENT, errno.ENOTDIR)
    return CannotRun(NOT_FOUND if missing else NOT_EXECUTABLE, f"{name}: {error.strerror}")


def _or_cannot(act: Callable[[], None]) -> None:
    try:
        act()
    except OSError as error:
        raise CannotRun(NOT_EXECUTABLE, str(error.strerror)) from None


_RESTORED = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
)
"""Signals that the shim or its interpreter treats specially; the program starts with the defaults."""

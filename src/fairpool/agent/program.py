"""Starting the program of a pod: its stdin, output, limits and mounts, then the program itself.

Where the system permits it a pod is isolated: its first process (`pod_init.py`) sets up the file system and starts the
program. Otherwise the shim starts it: with `posix_spawn` where there are no mounts, limits or terminal, which copies no
memory and fails at once if the program cannot be executed; else with a fork, which reports errors through a pipe that
closes on success. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import termios
from collections.abc import Callable, Mapping

from fairpool.agent import mounts, namespaces, process_attributes
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.pod_init import CANNOT, FAILED, PACKET_MAX, TERMINAL, run_init
from fairpool.agent.pod_network import PodNetwork

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any, NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes that shells and container runtimes use for a program that could not be started."""


OUTPUT = "output"
"""The pipe through which the output of a pod that is not isolated comes."""
TERMINAL_SIZE = (24, 80)
"""Rows and columns until a client attaches and sends its own."""


class CannotRun(Exception):
    """The program did not start: its exit code, and why in words."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Started:
    """A running program and the shim's ends of its pipes."""

    __slots__ = ("init_socket", "main", "namespace", "output", "pid", "stdin")

    def __init__(
        self,
        pid: int,
        output: int,
        stdin: int,
        init_socket: socket.socket | None = None,
        namespace: int = 0,
        main: int = 0,
    ) -> None:
        self.pid, self.output = pid, output
        """Of an isolated pod `pid` is its first process, which reports on `init_socket` how the program ended."""
        self.stdin = stdin
        """Where to write its input, or -1 if it reads none."""
        self.init_socket = init_socket
        self.namespace = namespace
        """The inode of the pod's PID namespace: every process in it is the pod's. 0: it has none of its own."""
        self.main = main or pid
        """The pod's first process: in a container not `pid`, which is the command that waits for it."""


def start_program(launch: Mapping[str, Any], group: Cgroup | None) -> Started:
    """Start the program of the launch, in the shim's current directory."""
    if launch.get("view"):
        return _start_isolated(launch, group)
    if launch["host_name"]:
        _or_cannot(lambda: namespaces.own_host_name(launch["host_name"]))
    if launch["tty"]:
        return _start_on_terminal(launch, group)
    reader, stdin = make_input(launch)
    os.mkfifo(OUTPUT, 0o600)
    inside, output = open_output(OUTPUT)
    if group is None and not launch["mounts"]:
        pid = _spawn(launch, reader, inside)
    else:
        pid = _fork(launch, group, reader, inside, is_terminal=False)
    os.close(inside)
    os.close(reader)
    return Started(pid, output, stdin)


def make_input(launch: Mapping[str, Any]) -> tuple[int, int]:
    """The program's end of its stdin, and ours."""
    if not launch["stdin"]:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
    reader, stdin = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(stdin, False)
    return reader, stdin


def open_output(pipe: str) -> tuple[int, int]:
    """The program's end of its output, and ours. Both are open for reading too, so that the pipe does not break when
    this shim dies."""
    return os.open(pipe, os.O_RDWR | os.O_CLOEXEC), reopen_output(pipe)


def reopen_output(pipe: str) -> int:
    """Our end of a program's output. Raises OSError where the pipe is gone."""
    return os.open(pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def _make_output() -> tuple[int, int]:
    """The same in a pipe without a name: its first process keeps it open, and a replacement shim finds it there."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    try:
        return open_output(f"/proc/self/fd/{reader}")
    finally:
        os.close(reader)
        os.close(writer)


def _start_isolated(launch: Mapping[str, Any], group: Cgroup | None) -> Started:
    _or_cannot(lambda: _enter_namespaces(launch))
    if group is not None:
        _or_cannot(lambda: group.make(launch["limits"]["cpu_milli"], launch["limits"]["memory_bytes"]))
    (reader, stdin), (inside, output) = (-1, -1), (-1, -1)
    if not launch["tty"]:
        (reader, stdin), (inside, output) = make_input(launch), _make_output()
    if inside >= 0 and launch["view"]["user"] is not None:
        os.fchown(inside, *launch["view"]["user"])  # or no program in the pod could open /dev/stdout
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        run_init(launch, group, theirs, inside, lambda to_shim: _start_inside(launch, reader, inside, to_shim))
    theirs.close()
    for fd in (reader, inside):
        if fd >= 0:
            os.close(fd)
    try:
        namespace = namespaces.pid_namespace_of_children()
        terminal = _wait_until_running(ours)
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        ours.close()
        raise
    if terminal < 0:
        return Started(pid, output, stdin, ours, namespace)
    os.set_blocking(terminal, False)
    return Started(pid, terminal, os.dup(terminal), ours, namespace)


def _enter_namespaces(launch: Mapping[str, Any]) -> None:
    network = PodNetwork() if launch.get("network") else None
    namespaces.isolate_children(launch["host_name"], own_network=network is not None)
    if network is not None:
        network.set_up()


def _start_inside(launch: Mapping[str, Any], reader: int, output: int, to_shim: socket.socket) -> int:
    """In the first process of a pod, in its own file system."""
    if not launch["tty"]:
        return _spawn(launch, reader, output)
    master, slave = os.openpty()  # in the pod's own /dev/pts
    termios.tcsetwinsize(slave, TERMINAL_SIZE)
    socket.send_fds(to_shim, [TERMINAL], [master])

    def start() -> None:
        os.setsid()
        become(launch["argv"], launch["env"], launch["cwd"], (slave, slave, slave), is_terminal=True)

    return forked(start)


def _wait_until_running(init_socket: socket.socket) -> int:
    """Wait until the program runs; its terminal, or -1. Raises `CannotRun`."""
    terminal = -1
    while True:
        packet, fds, _, _ = socket.recv_fds(init_socket, PACKET_MAX, 1)
        if packet[:1] == TERMINAL:
            terminal = fds[0]
            os.set_inheritable(terminal, False)
        elif packet[:1] == FAILED:
            code, _, words = packet[1:].decode(errors="replace").partition(" ")
            raise CannotRun(int(code), words)
        elif packet:
            return terminal
        else:
            raise CannotRun(CANNOT, "its first process was killed while it started")


def _start_on_terminal(launch: Mapping[str, Any], group: Cgroup | None) -> Started:
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, TERMINAL_SIZE)
    pid = _fork(launch, group, slave, slave, is_terminal=True)
    os.close(slave)
    os.set_blocking(master, False)
    return Started(pid, master, os.dup(master))  # each can be closed without the other


def _spawn(launch: Mapping[str, Any], reader: int, output: int) -> int:
    home = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        change_directory(launch["cwd"])
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
            setsigdef=RESTORED_SIGNALS,
        )
    except OSError as error:
        raise _cannot_execute(launch["argv"][0], error) from None
    except ValueError as error:  # a variable named `A=B`, a zero byte in an argument
        raise CannotRun(NOT_EXECUTABLE, f"{launch['argv'][0]}: {error}") from None
    finally:
        os.fchdir(home)
        os.close(home)


def _fork(launch: Mapping[str, Any], group: Cgroup | None, reader: int, output: int, *, is_terminal: bool) -> int:
    shim = os.getpid()
    if launch["mounts"]:
        os.makedirs("view", exist_ok=True)
    staging = os.path.abspath("view")
    if group is not None:
        _or_cannot(lambda: group.make(launch["limits"]["cpu_milli"], launch["limits"]["memory_bytes"]))

    def start() -> None:
        # Until it has its POD_UUID it could not be found, so it must not outlive its shim.
        process_attributes.die_with_parent(shim)
        os.setsid()
        if group is not None:
            group.enter()
        if launch["mounts"]:
            namespaces.enter(namespaces.CLONE_NEWNS)
            mounts.bind_mounts(launch["mounts"], staging, inside_user_namespace=os.geteuid() != 0)
        become(launch["argv"], launch["env"], launch["cwd"], (reader, output, output), is_terminal=is_terminal)

    return forked(start)


def forked(start: Callable[[], None]) -> int:
    """Fork a child in which `start` becomes the program; raise what the child reports if it cannot."""
    errors, error_writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            start()
        except CannotRun as error:
            os.write(error_writer, f"{error.code} {error.words}".encode())
        except BaseException as error:
            os.write(error_writer, f"{NOT_EXECUTABLE} {error}".encode())
        os._exit(NOT_FOUND)
    os.close(error_writer)
    with os.fdopen(errors, "rb") as answer:
        words = answer.read().decode(errors="replace")
    if words:
        os.waitpid(pid, 0)
        code, _, what = words.partition(" ")
        raise CannotRun(int(code), what)
    return pid


def become(argv: list[str], env: dict[str, str], cwd: str, fds: tuple[int, int, int], *, is_terminal: bool) -> NoReturn:
    """Turn this process, already in a session of its own, into a program."""
    change_directory(cwd)
    for number in RESTORED_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    if is_terminal:
        fcntl.ioctl(fds[0], termios.TIOCSCTTY, 0)
    # Beyond 2 first, or the second of them could overwrite what the third is copied from.
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3) for fd in fds]
    for target, fd in enumerate(copies):
        os.dup2(fd, target)
    path = find_program(argv[0], env)
    process_attributes.outlive_parent()
    try:
        os.execve(path, argv, env)
    except OSError as error:
        raise _cannot_execute(argv[0], error) from None


def change_directory(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        raise CannotRun(NOT_EXECUTABLE, f"working directory {cwd}: {error.strerror}") from None


def find_program(name: str, env: Mapping[str, str]) -> str:
    """The file of a program, by the pod's own PATH."""
    if "/" in name:
        return name
    for directory in env.get("PATH", os.defpath).split(":"):
        path = f"{directory or '.'}/{name}"
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


RESTORED_SIGNALS = (
    *(signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ),
)
"""Signals that the shim or its interpreter treats specially; the program starts with the defaults."""

"""Starting the program of a pod: its output, its keyboard, its limits and its view, then the program itself.

The plain case, a program without mounts, limits or terminal, goes through `posix_spawn`, which copies no memory and
says at once if the program could not be executed. The others fork, and say so through a pipe that closes on success.
Runs in keepers, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import termios
from collections.abc import Callable, Mapping

from fairpool.agent import namespaces
from fairpool.agent.cgroup import Group

TYPE_CHECKING = False
if TYPE_CHECKING:  # its own word for it is in `typing`, which would be a tenth of every keeper's memory
    from typing import Any, NoReturn

NOT_FOUND, NOT_EXECUTABLE = 127, 126
"""Exit codes that shells and container runtimes use for a program that could not be started."""


TERMINAL_SIZE = (24, 80)
"""Rows and columns until somebody attaches and says theirs."""


class CannotRun(Exception):
    """The program did not start; what a person needs to know."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(words)
        self.code, self.words = code, words


class Started:
    """A running program and the ends of its pipes that stay with the keeper."""

    __slots__ = ("keyboard", "output", "pid")

    def __init__(self, pid: int, output: int, keyboard: int) -> None:
        self.pid, self.output = pid, output
        self.keyboard = keyboard
        """Where to write what it reads, or -1 if it reads nothing."""


def start_program(launch: Mapping[str, Any], group: Group | None) -> Started:
    """Start what the launch says, in the keeper's current folder."""
    if launch["host_name"]:
        _or_cannot(lambda: namespaces.own_host_name(launch["host_name"]))
    if launch["tty"]:
        return _start_on_terminal(launch, group)
    os.mkfifo("output", 0o600)
    # Open for reading too on both sides: neither the program nor a later keeper meets a broken pipe when this one dies.
    inside = os.open("output", os.O_RDWR | os.O_CLOEXEC)
    output = os.open("output", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    if launch["stdin"]:
        reader, keyboard = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(keyboard, False)
    else:
        reader, keyboard = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1
    if group is None and not launch["mounts"]:
        pid = _spawn(launch, reader, inside)
    else:
        pid = _fork(launch, group, reader, inside, is_terminal=False)
    os.close(inside)
    os.close(reader)
    return Started(pid, output, keyboard)


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
    keeper = os.getpid()
    if launch["mounts"]:
        os.makedirs("view", exist_ok=True)
    staging = os.path.abspath("view")
    if group is not None:
        _or_cannot(lambda: group.make(launch["limits"]["cpu_milli"], launch["limits"]["memory_bytes"]))
    trouble, trouble_writer = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            # Until it carries its mark nobody could find it, so it must not outlive its keeper.
            namespaces.die_with_parent(keeper)
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
    with os.fdopen(trouble, "rb") as answer:
        words = answer.read().decode(errors="replace")
    if words:
        os.waitpid(pid, 0)
        code, _, what = words.partition(" ")
        raise CannotRun(int(code), what)
    return pid


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
    raise CannotRun(NOT_FOUND, f"{name}: no such program on its PATH")


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
"""Signals that the keeper or its interpreter treats specially; the program starts with the defaults."""

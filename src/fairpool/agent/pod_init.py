"""The first process of an isolated pod: makes its view, starts the program, and is there for as long as the pod is.

Process 1 of a pod's own process table. When it ends, the kernel ends everything else in there, so one signal from
outside ends a pod however fast it forks. It collects orphans, passes SIGTERM on to the program and tells the shim how
that ended. Signals from inside reach it only where it listens, so nothing in the pod can stop or kill it; and nothing
in the pod can look into it, for it has rights that the pod's processes lack. Imports next to nothing.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Mapping

from fairpool.agent import namespaces
from fairpool.agent.cgroup import Group
from fairpool.agent.view import make_view

TYPE_CHECKING = False
if TYPE_CHECKING:  # its own word for it is in `typing`, which would be a tenth of every shim's memory
    from typing import Any, NoReturn

CANNOT = 126
"""What is told to the shim where nothing else is known."""
RUNS, TROUBLE, ENDED, TERMINAL = b"r", b"t", b"e", b"m"
"""How its packets to the shim begin."""
PACKET_MAX = 4096
NOBODY = 65534


def be_first(
    launch: Mapping[str, Any], group: Group | None, line: socket.socket, start: Callable[[socket.socket], int]
) -> NoReturn:
    """Be process 1; called in the child that is. `start` starts the program in the view and says its number."""
    try:
        namespaces.end_with_parent()
        if select.select([line], [], [], 0)[0]:  # the shim was killed before we could ask to be told
            os._exit(1)
        signal.set_wakeup_fd(-1)
        if group is not None:
            group.enter()
        make_view(launch["view"], launch["mounts"])
        os.chdir("/")  # out of the life's folder
        take_on(launch["view"])
        namespaces.end_with_parent()  # once more: the kernel forgets it when a process becomes another user
        if select.select([line], [], [], 0)[0]:
            os._exit(1)
        program = start(line)
        _stay(program, line)
    except BaseException as error:
        code = getattr(error, "code", None)
        words = f"{code if isinstance(code, int) else CANNOT} {getattr(error, 'words', None) or error}"
        line.send(TROUBLE + words.encode(errors="replace")[: PACKET_MAX - 1])
    os._exit(CANNOT)


def take_on(view: Mapping[str, Any]) -> None:
    """Become the pod's user with the pod's limits, for good."""
    if view["user"] is not None:
        namespaces.become_user(*view["user"])
    if view["counts_processes"]:
        if view["user"] is not None:
            namespaces.show_memory()  # who has just become another user may not write about itself
            namespaces.own_user_namespace()
        limit_processes(view["processes_max"])
    if view["user"] is not None:
        namespaces.hide_memory()
    namespaces.leave_key_rings()
    namespaces.renounce_privileges()


def limit_processes(most: int) -> None:
    """Counted in the pod's own user namespace, so other pods of the same user are not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def end_told(line: socket.socket | None, status: int) -> int:
    """How the program ended: what its first process has said, else how that ended itself. Called by the shim."""
    if line is None:
        return status
    try:
        packet = line.recv(PACKET_MAX, socket.MSG_DONTWAIT)
    except OSError:
        return status
    return int(packet[1:]) if packet[:1] == ENDED else status


def _stay(program: int, line: socket.socket) -> NoReturn:
    """Collect whoever ends, until the program does; the rest ends with us."""
    os.chdir("/")  # out of the program's folder too, which may be a volume
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: _pass_on(program))
    os.closerange(0, line.fileno())
    os.closerange(line.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    line.send(RUNS)
    namespaces.outlive_parent()
    while True:
        pid, status = os.wait()
        if pid == program:
            break
    try:
        line.send(ENDED + str(status).encode())
    finally:
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _pass_on(program: int) -> None:
    try:
        os.kill(program, signal.SIGTERM)
    except ProcessLookupError:
        return


def isolation_permitted() -> str:
    """Empty if this system lets us isolate pods, else why not. Tried in children, with everything but a program."""
    return namespaces.tried_in_child(_try_isolation)


def counting_permitted() -> str:
    """Empty if the processes of a pod can be counted apart from those of others of its user, else why not."""
    release = os.uname().release.split("-")[0].split(".")
    if tuple(int(word) for word in release[:2] if word.isdigit()) < (5, 14):
        return "it requires Linux 5.14 or later"
    return namespaces.tried_in_child(_try_counting)


def _try_isolation() -> None:
    namespaces.part_from_machine("")
    trouble = namespaces.tried_in_child(_try_view)
    if trouble:
        raise OSError(0, trouble)


def _try_view() -> None:
    make_view({"hidden": ["/run"], "binds": [], "volumes": None, "user": None, "shm_bytes": 0}, [])


def _try_counting() -> None:
    if os.geteuid() == 0:
        namespaces.become_user(NOBODY, NOBODY)
        namespaces.show_memory()
    namespaces.own_user_namespace()

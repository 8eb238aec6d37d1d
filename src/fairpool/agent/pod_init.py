"""The init process of an isolated pod: sets up its file system, starts the program, and runs as long as the pod.

It is process 1 of the pod's PID namespace. When it ends, the kernel kills everything else in there, so one signal from
outside ends a pod however fast it forks. It reaps orphans, passes SIGTERM on to the program and reports its exit status
to the shim. The kernel drops unhandled signals from inside, so nothing in the pod can stop or kill it; nor
can the pod read its memory, because it has capabilities that the pod lacks. Imports next to nothing.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
from collections.abc import Callable, Mapping

from fairpool.agent import namespaces, process_attributes
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.root_filesystem import make_root_filesystem

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from typing import Any, NoReturn

CANNOT = 126
"""The exit code reported to the shim where nothing else is known."""
RUNS, FAILED, ENDED, TERMINAL = b"r", b"t", b"e", b"m"
"""The first byte of its packets to the shim."""
RECORDED = b"k"
"""The shim's answer to `RUNS`, once a replacement could find this process."""
LOOK_S = 0.1
"""Between two looks for processes to reap while that answer is awaited, which takes long only on a full disk."""
PACKET_MAX = 4096
UNPRIVILEGED_ID = 65534
KEPT_OUTPUT = 0
"""The descriptor of the pipe for the program's output: it does not break when the shim dies, and is found here by the
replacement."""


def run_init(
    launch: Mapping[str, Any],
    group: Cgroup | None,
    to_shim: socket.socket,
    output: int,
    start: Callable[[socket.socket], int],
) -> NoReturn:
    """Be process 1; called in that child. `start` starts the program and returns its pid. `output` is kept open under
    the number `KEPT_OUTPUT`; -1: there is none."""
    try:
        process_attributes.end_with_parent()
        if select.select([to_shim], [], [], 0)[0]:  # the shim was killed before we could ask for the signal
            os._exit(1)
        signal.set_wakeup_fd(-1)
        if group is not None:
            group.enter()
        make_root_filesystem(launch["view"], launch["mounts"])
        os.chdir("/")  # out of the pod directory
        become_pod_user(launch["view"])
        process_attributes.end_with_parent()  # again: the kernel resets it when a process changes its user
        if select.select([to_shim], [], [], 0)[0]:
            os._exit(1)
        program = start(to_shim)
        _wait_for_program(program, to_shim, output)
    except BaseException as error:
        code = getattr(error, "code", None)
        words = f"{code if isinstance(code, int) else CANNOT} {getattr(error, 'words', None) or error}"
        to_shim.send(FAILED + words.encode(errors="replace")[: PACKET_MAX - 1])
    os._exit(CANNOT)


def become_pod_user(view: Mapping[str, Any]) -> None:
    """Become the pod's user with the pod's limits, for good."""
    if view["user"] is not None:
        _become_other_user(view)
    if view["counts_processes"]:
        limit_processes(view["processes_max"])
    if view["user"] is not None:
        process_attributes.hide_memory()
    process_attributes.new_session_keyring()
    process_attributes.drop_privileges()


def _become_other_user(view: Mapping[str, Any]) -> None:
    """Where processes are counted, in a user namespace of its own."""
    (uid, gid), groups = view["user"], view.get("groups", ())  # orders of earlier versions have none

    def become() -> None:
        process_attributes.become_user(uid, gid, groups)
        process_attributes.show_memory()  # a process that has changed its user may not write to its own /proc files

    if view["counts_processes"] and groups:
        namespaces.own_user_namespace_as(become, groups)
        return
    become()
    if view["counts_processes"]:
        namespaces.own_user_namespace()


def limit_processes(most: int) -> None:
    """Counted in the pod's own user namespace, so other pods of the same user are not."""
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))


def program_status(init_socket: socket.socket | None, status: int) -> int:
    """How the program ended: as init has reported it, else how init ended itself. Called by the shim."""
    if init_socket is None:
        return status
    try:
        packet = init_socket.recv(PACKET_MAX, socket.MSG_DONTWAIT)
    except OSError:
        return status
    return int(packet[1:]) if packet[:1] == ENDED else status


def _wait_for_program(program: int, to_shim: socket.socket, output: int) -> NoReturn:
    """Reap processes until the program ends; the rest ends with this process."""
    os.chdir("/")  # out of the program's directory too, which may be a volume
    for number in (signal.SIGCHLD, signal.SIGUSR1):
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: _pass_on(program))
    if output >= 0:
        os.dup2(output, KEPT_OUTPUT)
    os.closerange(0 if output < 0 else KEPT_OUTPUT + 1, to_shim.fileno())
    os.closerange(to_shim.fileno() + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    # From now on the socket tells of the shim's death, and not before an answer that is still in it.
    process_attributes.outlive_parent()
    to_shim.send(RUNS)
    status = _reap_until_ended(program, to_shim)
    try:
        to_shim.send(ENDED + str(status).encode())
    finally:
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def _reap_until_ended(program: int, to_shim: socket.socket) -> int:
    """The exit status of the program. Until this process is recorded no replacement would find it, nor the output that
    it keeps, so until then it ends with its shim."""
    flags = os.WNOHANG
    while True:
        if flags and select.select([to_shim], [], [], LOOK_S)[0]:
            if to_shim.recv(PACKET_MAX) != RECORDED:  # the shim was killed
                os._exit(CANNOT)
            flags = 0
        pid, status = os.waitpid(-1, flags)
        if pid == program:
            return status


def _pass_on(program: int) -> None:
    try:
        os.kill(program, signal.SIGTERM)
    except ProcessLookupError:
        return


def isolation_permitted() -> str:
    """Empty if pods can be isolated on this system, else why not. Tried in children, with everything but a program."""
    return namespaces.tried_in_child(_try_isolation)


def counting_permitted() -> str:
    """Empty if the processes of a pod can be counted apart from others of the same user, else why not."""
    release = os.uname().release.split("-")[0].split(".")
    if tuple(int(word) for word in release[:2] if word.isdigit()) < (5, 14):
        return "it requires Linux 5.14 or later"
    return namespaces.tried_in_child(_try_counting)


def _try_isolation() -> None:
    namespaces.isolate_children("")
    error = namespaces.tried_in_child(_try_root_filesystem)
    if error:
        raise OSError(0, error)


def _try_root_filesystem() -> None:
    make_root_filesystem({"hidden": ["/run"], "binds": [], "volumes": None, "user": None, "shm_bytes": 0}, [])


def _try_counting() -> None:
    if os.geteuid() == 0:
        process_attributes.become_user(UNPRIVILEGED_ID, UNPRIVILEGED_ID)
        process_attributes.show_memory()
    namespaces.own_user_namespace()

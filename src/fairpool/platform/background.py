"""The server as a background process: started and awaited, stopped, and its pods with it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fairpool.agent.state_directory import UnknownInstallation
from fairpool.agent.supervisor import Supervisor
from fairpool.model.ids import PodId
from fairpool.model.observation import ObservedPod, PodState, StopOrder
from fairpool.model.problem import Problem
from fairpool.platform.admin_socket import NoAnswer, ask
from fairpool.platform.data_directory import DataDirectory, PlatformError, directory_problem
from fairpool.platform.directory_lock import LockHolder, lock_holder

READY_S = 120.0
"""A server that cannot start exits, which is noticed at once; a slow one, on a busy machine, gets time."""
JOIN_S = 5.0
"""How long a cluster may take to reach its control plane, until it is left waiting for it."""
CONFIG_FILE = "FAIRPOOL_CONFIG_FILE"
"""Not for a server in the background: it gets all values as arguments."""
LEAVE_S = 30.0
LOOK_S = 0.05
LAST_GRACE_S = 5.0
LONGEST_GRACE_S = 30
"""The longest grace period of `down --stop-pods`, by default."""
KILLED = 137
"""The exit code of a killed process."""


class ServerExited(Exception):
    """The server exited before it was ready: its output and its exit code."""

    def __init__(self, output: str, code: int) -> None:
        super().__init__(output)
        self.output, self.code = output, code


def start(
    data_directory: DataDirectory,
    program: str,
    arguments: Sequence[str],
    stdin: bytes | None = None,
    secrets: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Start a server in the background, wait until it is ready, and return its status.

    A cluster that cannot reach its control plane is left waiting for it. `stdin` and `secrets`, environment
    variables, are for what must not show in a process listing. Raises `PlatformError` or `ServerExited`.
    """
    command = [sys.executable, "-m", "fairpool.cli.main", program, "--foreground", *arguments]
    with data_directory.output.open("wb") as output:
        server = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd="/",
            env={**{name: value for name, value in os.environ.items() if name != CONFIG_FILE}, **(secrets or {})},
            start_new_session=True,
        )
    if server.stdin is not None:
        with suppress(BrokenPipeError), server.stdin as line:
            line.write(stdin or b"")
    begun = time.monotonic()
    while time.monotonic() < begun + READY_S:
        code = server.poll()
        if code is not None:
            raise ServerExited(data_directory.output.read_text(encoding="utf-8", errors="replace"), code)
        status = status_of(data_directory)
        if status is not None and status["pid"] == server.pid:
            is_waiting = bool(status.get("waiting_for")) and time.monotonic() > begun + JOIN_S
            if status["is_ready"] or is_waiting:
                return status
        time.sleep(LOOK_S)
    what = f"the server (process {server.pid}) is not ready after {READY_S:g} s"
    raise PlatformError(Problem("up.slow", what, "check `fairpool logs` and `fairpool status`"))


def status_of(data_directory: DataDirectory, timeout_s: float = 2.0) -> dict[str, Any] | None:
    """The status of the running server; None: it does not answer, or not yet."""
    try:
        status = ask(data_directory.admin_socket, "status", timeout_s)
    except NoAnswer:
        return None
    return None if isinstance(status, Problem) else status


def stop(data_directory: DataDirectory, holder: LockHolder) -> bool:
    """Stop the server gracefully; returns whether it has exited. Running pods are not affected.

    It has when its process is gone, which is a little later than when it gives its directory back.
    """
    try:
        handle = os.pidfd_open(holder.pid)
    except OSError:
        return True
    try:
        if not _is_still_there(data_directory, holder):  # the pid may be another process's by now
            return True
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        signal.pidfd_send_signal(handle, signal.SIGCONT)  # a stopped process handles the signal only then
        gone, _, _ = select.select([handle], [], [], LEAVE_S)
        return bool(gone)
    except ProcessLookupError:
        return True
    finally:
        os.close(handle)


def _is_still_there(data_directory: DataDirectory, holder: LockHolder) -> bool:
    now = lock_holder(data_directory)
    return now is not None and (now.pid, now.since_ms) == (holder.pid, holder.since_ms)


@dataclass(frozen=True, slots=True)
class PodsStopped:
    """How many pods are gone, how many of them had to be killed, and which are left."""

    ended: int
    killed: int = 0
    left: tuple[str, ...] = ()


def stop_pods(data_directory: DataDirectory, grace_s: int = LONGEST_GRACE_S) -> PodsStopped:
    """Stop every pod on this machine. No server may run meanwhile.

    Each has its own grace period, but no more than `grace_s`, and is then killed. To the platform it is as if the
    machine had been rebooted: at its next start training is started again. Raises `PlatformError`.
    """
    try:
        supervisor = Supervisor(data_directory.machine, None)
    except UnknownInstallation as error:
        raise PlatformError(error.problem) from error
    except OSError as error:
        raise PlatformError(directory_problem(data_directory.root, error)) from error
    try:
        running = {
            pod: observed
            for pod, observed in supervisor.observe().pods.items()
            if observed.state is not PodState.EXITED
        }
        notices = [_notice(pod, observed, grace_s) for pod, observed in running.items()]
        supervisor.stop(notices)
        left = _left_after(supervisor, running, max([order.grace_s for order in notices], default=0) + LAST_GRACE_S)
        if left:
            supervisor.stop([StopOrder(pod=pod, node=None, grace_s=0, reason="down --stop-pods") for pod in left])
            left = _left_after(supervisor, left, LAST_GRACE_S)
        seen = supervisor.observe().pods
        killed = [pod for pod in running if pod not in left and (pod not in seen or seen[pod].exit_code == KILLED)]
        return PodsStopped(len(running) - len(left), len(killed), (*left, *supervisor.orphans))
    finally:
        supervisor.close()


def _notice(pod: PodId, observed: ObservedPod, most_s: int) -> StopOrder:
    grace_s = min(observed.order.grace_s, most_s)
    return StopOrder(pod=pod, node=observed.order.node, grace_s=grace_s, reason="down --stop-pods")


def _left_after(supervisor: Supervisor, pods: Collection[PodId], timeout_s: float) -> list[PodId]:
    """Those of these pods that have not ended within the timeout."""
    until = time.monotonic() + timeout_s
    while True:
        seen = supervisor.observe().pods
        left = [pod for pod in pods if pod in seen and seen[pod].state is not PodState.EXITED]
        if not left or time.monotonic() >= until:
            return left
        supervisor.wait(0.2)

"""The fork server: a small warm process that forks a shim for each requested pod.

A fresh interpreter costs ten times as much as a fork of a warm one. It has no state: if it is killed it is started
again, and shims that were requested and not forked are requested again, because a pod is claimed once however often it
is launched. It exits with the process that started it; the shims stay.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import select
import signal
import sys
from contextlib import suppress

from fairpool.agent import libc, namespaces, process_attributes
from fairpool.agent.pod_init import counting_permitted, isolation_permitted
from fairpool.agent.pod_network import network_permitted
from fairpool.agent.program import CannotRun
from fairpool.agent.shim import prepare_signals, run_shim, warm_up
from fairpool.agent.shim_launch import read_launch

REQUEST_MAX = 1 << 17
READ_AT_ONCE = 64
"""Orders read before the first of their shims is forked."""


def main() -> None:
    """Serve the socket named on the command connection until its other end is closed."""
    connection, files_max, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # Also while it is stopped and cannot read that the socket is closed. Shims do not inherit this.
    process_attributes.die_with_parent(os.getppid())
    os.set_inheritable(connection, False)
    os.write(connection, json.dumps(_permissions()).encode())
    os.umask(0o022)
    libc.warm_up()
    process_attributes.set_process_name("fp:fork server")
    prepare_signals()
    with suppress(OSError, CannotRun):  # no room, or a machine without `true`: then shims cost more
        warm_up(directory)
    os.chdir("/")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, hard))
    ended, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    poll.register(ended, select.POLLIN)
    # A collection in a child would touch, and so copy, every page it shares with us.
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        for fd, _ in poll.poll():
            if fd == ended:
                _collect(ended)
            elif request := os.read(connection, REQUEST_MAX):
                _answer(connection, request)
            else:
                return


def _collect(ended: int) -> None:
    """Reap shims that have ended. Not left to the kernel: shims inherit how SIGCHLD is handled, and need it."""
    with suppress(BlockingIOError, ChildProcessError):
        os.read(ended, 4096)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(connection: int, request: bytes) -> None:
    rows = request.decode().splitlines()
    for start in range(0, len(rows), READ_AT_ONCE):
        _fork_shims(rows[start : start + READ_AT_ONCE])
        _confirm(connection)


def _confirm(connection: int) -> None:
    """Show the launcher progress. If it does not read, it has many of these already and needs no more."""
    os.set_blocking(connection, False)
    with suppress(OSError):
        os.write(connection, b"k")
    os.set_blocking(connection, True)


def _fork_shims(rows: list[str]) -> None:
    requests = [row.split(" ", 1) for row in rows]
    wanted = [(directory, int(generation), read_launch(directory)) for generation, directory in requests]
    for each in wanted:
        if os.fork() == 0:
            run_shim(*each)


def _permissions() -> dict[str, str]:
    """What this system permits shims to do, tried once; empty: permitted, else why not."""
    return {
        "mounts": namespaces.permitted(namespaces.CLONE_NEWNS),
        "host_name": namespaces.permitted(namespaces.CLONE_NEWUTS),
        "isolation": isolation_permitted(),
        "counting": counting_permitted(),
        "network": network_permitted(),
    }


if __name__ == "__main__":
    main()

"""The warm parent of shims: a small process that forks one for each life it is told about.

A fresh interpreter costs ten times what a fork of a warm one does. It holds nothing: killed, it is started again, and
whoever was asked for and not made is asked for again, for a life is claimed once however often it is launched. It
leaves when the process that started it does; the shims stay.
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

from fairpool.agent import namespaces
from fairpool.agent.pod_init import counting_permitted, isolation_permitted
from fairpool.agent.program import CannotRun
from fairpool.agent.shim import keep, prepare_signals, read_launch, rehearse

REQUEST_MAX = 1 << 17
READ_AT_ONCE = 64
"""Orders read before the first of their shims is forked."""


def main() -> None:
    """Serve the socket named on the command line until its other end is closed."""
    line, files_max, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    # Also while it is stopped and cannot hear that the line is closed. Shims do not inherit this.
    namespaces.die_with_parent(os.getppid())
    os.set_inheritable(line, False)
    os.write(line, json.dumps(_permissions()).encode())
    os.umask(0o022)
    namespaces.warm_up("fp:fork server")
    prepare_signals()
    with suppress(OSError, CannotRun):  # no room, or a machine without `true`: then shims cost more
        rehearse(folder)
    os.chdir("/")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, hard))
    ended, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    poll = select.poll()
    poll.register(line, select.POLLIN)
    poll.register(ended, select.POLLIN)
    # A collection in a child would touch, and so copy, every page it shares with us.
    gc.collect()
    gc.freeze()
    gc.disable()
    while True:
        for fd, _ in poll.poll():
            if fd == ended:
                _collect(ended)
            elif request := os.read(line, REQUEST_MAX):
                _answer(line, request)
            else:
                return


def _collect(ended: int) -> None:
    """Shims that have ended. Not left to the kernel: they inherit how we treat the end of children, and need it."""
    with suppress(BlockingIOError, ChildProcessError):
        os.read(ended, 4096)
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _answer(line: int, request: bytes) -> None:
    rows = request.decode().splitlines()
    for start in range(0, len(rows), READ_AT_ONCE):
        _fork_shims(rows[start : start + READ_AT_ONCE])
        _confirm(line)


def _confirm(line: int) -> None:
    """Whoever asked sees that we get on. Where it does not read, it has many of these already and needs no more."""
    os.set_blocking(line, False)
    with suppress(OSError):
        os.write(line, b"k")
    os.set_blocking(line, True)


def _fork_shims(rows: list[str]) -> None:
    lives = [row.split(" ", 1) for row in rows]
    wanted = [(folder, int(generation), read_launch(folder)) for generation, folder in lives]
    for each in wanted:
        if os.fork() == 0:
            keep(*each)


def _permissions() -> dict[str, str]:
    """What this system lets shims do, tried once; empty means yes, else why not."""
    return {
        "mounts": namespaces.permitted(namespaces.CLONE_NEWNS),
        "host_name": namespaces.permitted(namespaces.CLONE_NEWUTS),
        "isolation": isolation_permitted(),
        "counting": counting_permitted(),
    }


if __name__ == "__main__":
    main()

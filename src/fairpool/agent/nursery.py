"""The warm parent of keepers: a small process that forks one for each life it is told about.

A fresh interpreter costs ten times what a fork of a warm one does. It holds nothing: killed, it is started again, and
whoever was asked for and not made is asked for again, for a life is claimed once however often it is launched. It
leaves when the process that started it does; the keepers stay.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import socket
import sys

from fairpool.agent import namespaces
from fairpool.agent.shim import keep, prepare_signals

REQUEST_MAX = 1 << 17


def main() -> None:
    """Serve the socket named on the command line until its other end is closed."""
    files_max = int(sys.argv[2])
    line = socket.socket(fileno=int(sys.argv[1]))
    line.set_inheritable(False)
    line.send(json.dumps(_permissions()).encode())
    os.umask(0o022)
    namespaces.warm_up("fp:nursery")
    prepare_signals()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, hard))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # so that ended keepers are collected without us
    # A collection in a child would touch, and so copy, every page it shares with us.
    gc.collect()
    gc.freeze()
    gc.disable()
    while request := line.recv(REQUEST_MAX):
        for row in request.decode().splitlines():
            generation, folder = row.split(" ", 1)
            if os.fork() == 0:
                keep(folder, int(generation))


def _permissions() -> dict[str, str]:
    """What this system lets keepers do, tried once; empty means yes, else why not."""
    return {
        "mounts": namespaces.permitted(namespaces.CLONE_NEWNS),
        "host_name": namespaces.permitted(namespaces.CLONE_NEWUTS),
    }


if __name__ == "__main__":
    main()

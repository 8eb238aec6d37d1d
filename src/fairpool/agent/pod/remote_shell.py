"""Runs a command in another pod of the same MPI run: `fairpool-rsh HOST COMMAND…`, in place of ssh.

`mpirun` starts it for each host of its host file. It passes its standard input, output and error to the worker's
shim through a socket that only pods of the run can see, and ends with the exit code of the command. One file without
dependencies, put on the path of every pod.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys
import time

PEERS = "FAIRPOOL_PEERS"
NO_HOST = 255
"""The exit code of ssh where it does not reach the host."""
CONNECT_S = 30.0
"""For a worker whose shim is being replaced; launchers are started after their workers."""
PAUSE_S = 0.1
COMMAND_MAX = 65536


def main(arguments: list[str]) -> int:
    """The exit code of the command."""
    while arguments and arguments[0].startswith("-"):  # of ssh: they have no meaning here
        arguments = arguments[2 if arguments[0] in ("-l", "-o", "-p", "-i", "-F") else 1 :]
    if len(arguments) < 2:
        return _failed("usage: fairpool-rsh HOST COMMAND...")
    host, words = arguments[0], " ".join(arguments[1:])
    directory = os.environ.get(PEERS, "")
    if not directory:
        return _failed(f"{PEERS} is not set: this is not a pod of an MPI job")
    if "/" in host or host in ("", ".", "..") or not os.path.isdir(directory):
        return _failed(f"{host!r} is not a worker of this job")
    if len(words) > COMMAND_MAX:
        return _failed(f"the command is longer than {COMMAND_MAX} characters")
    try:
        return _run(f"{directory}/{host}", words)
    except FileNotFoundError:
        known = ", ".join(sorted(os.listdir(directory))) or "none is running"
        return _failed(f"{host} is not a worker of this job; its workers: {known}")
    except OSError as error:
        return _failed(f"cannot reach {host}: {error.strerror or error}")


def _run(path: str, words: str) -> int:
    connection = _connected(path)
    request = {"op": "exec", "argv": ["/bin/sh", "-c", words], "env": {}, "cwd": "", "tty": False, "size": [24, 80]}
    rights = array.array("i", [0, 1, 2]).tobytes()
    connection.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    answer = connection.recv(4096)
    if not answer:
        return _failed(f"{os.path.basename(path)} refused the command, or ended while it ran")
    return int(json.loads(answer)["exit"])


def _connected(path: str) -> socket.socket:
    until = time.monotonic() + CONNECT_S
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            connection.close()
            if time.monotonic() >= until or not os.path.exists(path):
                raise
            time.sleep(PAUSE_S)
            continue
        return connection


def _failed(words: str) -> int:
    sys.stderr.write(f"fairpool-rsh: {words}\n")
    return NO_HOST


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

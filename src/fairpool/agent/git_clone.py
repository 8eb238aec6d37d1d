"""Carries out the clones of a pod before its program starts: one process that watches, and Git in a sandbox below it.

The watching process ends Git when it takes too long or too much room, and ends with the shim. Nothing of it outlives
either: the first process of the sandbox ends when its socket to the watching process is closed. What was cloned lies in
the pod's own directory and is removed with it. Runs in shims, so it imports next to nothing.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import time

from fairpool.agent import process_attributes
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.pod_init import program_status
from fairpool.agent.program import CannotRun, Started, start_program

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing `typing` to know this would be a tenth of every shim's memory
    from collections.abc import Mapping
    from typing import Any

LOOK_S = 0.5
"""Between two looks at the size of a clone."""
LOOK_MAX_S = 10.0
TAIL_BYTES = 2000
"""What is kept of Git's output: the error is at its end."""
BLOCK = 512


class CloneProcess:
    """One clone that is going on. `fileno` is readable when it has ended; `result` is then what there is to say."""

    def __init__(self, plan: Mapping[str, Any], limits: Mapping[str, Any] | None, group: Cgroup | None) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        shim = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                signal.set_wakeup_fd(-1)
                process_attributes.die_with_parent(shim)
                os.write(writer, _cloned(plan, limits, group).encode(errors="replace"))
            except BaseException as error:
                os.write(writer, f"1 {getattr(error, 'words', None) or error}".encode(errors="replace"))
            os._exit(0)
        os.close(writer)
        self._reader = reader

    def fileno(self) -> int:
        return self._reader

    def result(self) -> tuple[bool, str]:
        """Whether it is cloned; and the commit, or why not."""
        text = b""
        while piece := os.read(self._reader, 65536):
            text += piece
        self._end()
        code, _, words = text.decode(errors="replace").partition(" ")
        return code == "0", words or "it was killed"

    def cancel(self) -> None:
        """End it at once."""
        os.kill(self._pid, signal.SIGKILL)
        self._end()

    def _end(self) -> None:
        os.close(self._reader)
        os.waitpid(self._pid, 0)


def _cloned(plan: Mapping[str, Any], limits: Mapping[str, Any] | None, group: Cgroup | None) -> str:
    """In the watching process: run Git to its end; `0 COMMIT` or `1 REASON`."""
    size_bytes, timeout_s = plan["size_bytes"], plan["timeout_s"]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, size_bytes))  # of one file, at once
    try:
        started = start_program({**plan["launch"], "limits": limits}, group)
    except CannotRun as error:
        return f"1 {error.words}"
    until, tail, pause_s = time.monotonic() + timeout_s, b"", LOOK_S
    while True:
        status, output = _look(started, pause_s)
        tail = (tail + output)[-TAIL_BYTES:]
        if status is not None:
            return _outcome(status, tail, size_bytes)
        begun = time.monotonic()
        if size_of(plan["directory"]) > size_bytes:
            return _ended(started, f"it is larger than {size_bytes >> 20} MiB, the limit of the administrator")
        if time.monotonic() >= until:
            return _ended(started, f"it took longer than {timeout_s} s, the limit of the administrator")
        # A large tree is looked through less often.
        pause_s = min(max(LOOK_S, 10 * (time.monotonic() - begun)), LOOK_MAX_S, max(until - time.monotonic(), 0.01))


def _look(started: Started, timeout_s: float) -> tuple[int | None, bytes]:
    """Wait a little: the exit status if Git has ended, and its output."""
    output, until = b"", time.monotonic() + timeout_s
    while True:
        pid, status = os.waitpid(started.pid, os.WNOHANG)
        while piece := _piece(started.output):
            output = (output + piece)[-TAIL_BYTES:]
        if pid:
            return program_status(started.init_socket, status), output
        if time.monotonic() >= until:
            return None, output
        select.select([started.init_socket or started.output], [], [], min(0.1, timeout_s))


def _piece(output: int) -> bytes:
    try:
        return os.read(output, 65536)
    except OSError:
        return b""


def _ended(started: Started, words: str) -> str:
    os.kill(started.pid, signal.SIGKILL)  # the kernel kills all else in its PID namespace
    os.waitpid(started.pid, 0)
    return f"1 {words}"


def _outcome(status: int, tail: bytes, size_bytes: int) -> str:
    words = " ".join(tail.decode(errors="replace").split())
    if status == 0:
        return f"0 {words[-64:]}"
    if "File size limit exceeded" in words or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXFSZ):
        return f"1 it is larger than {size_bytes >> 20} MiB, the limit of the administrator"
    return f"1 {words or 'git has failed'}"


def size_of(directory: str) -> int:
    """What a tree takes up on the disk; what vanishes meanwhile does not count."""
    size, pending = 0, [directory]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    size += entry.stat(follow_symlinks=False).st_blocks * BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return size

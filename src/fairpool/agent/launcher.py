"""The client of the fork server: starts it, requests shims, and starts another one when it was killed.

Each request is answered, piece by piece, as soon as its shims are forked. A fork server that does not answer for a
while is stopped or stuck: it is killed and replaced, and missing shims are requested again.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fairpool.agent.fork_server import READ_AT_ONCE, REQUEST_MAX

PROGRAM = "import sys; sys.path.insert(0, {root!r}); from fairpool.agent.fork_server import main; main()"
HELLO_S = 20.0
GOODBYE_S = 5.0
ANSWER_S = 10.0
"""A fork server forks sixty shims in a tenth of a second; one that is silent for so long will not answer."""
SLOW_S = 2.0
"""From then on the status shows that nothing starts."""


class Launcher:
    """Requests shims. Nothing here is certain: what became of a pod is in its directory."""

    def __init__(self, log: Path, warm_up_directory: Path) -> None:
        self._log, self._warm_up_directory = log, warm_up_directory
        self._connection: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._files_max = _raise_files_max()
        self._unanswered = 0
        """Pieces of requests that the fork server has not confirmed."""
        self._answered_at = 0.0
        """When it last confirmed one, or got the first request since."""
        self.unavailable: dict[str, str] = {}
        """`mounts` and `host_name`: why this system does not permit them; empty if it does."""

    @property
    def pid(self) -> int | None:
        """The fork server's, if one was started."""
        return self._process.pid if self._process is not None else None

    def open(self) -> None:
        """Start the fork server, unless it runs."""
        if self._process is not None and self._process.poll() is None:
            return
        self.close()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._start(theirs)
            ours.settimeout(HELLO_S)
            hello = ours.recv(4096)
            if not hello:
                raise OSError(f"cannot start pod supervisors; see {self._log}")
        except BaseException:
            ours.close()
            self._end()
            raise
        self.unavailable = {name: why for name, why in json.loads(hello).items() if why}
        ours.setblocking(False)
        self._connection, self._unanswered = ours, 0

    def _start(self, theirs: socket.socket) -> None:
        root = str(Path(__file__).resolve().parents[2])
        fd = theirs.fileno()
        # Isolated and without site packages: it must be small, and no user's start-up files belong into every shim.
        command = [sys.executable, "-I", "-S", "-c", PROGRAM.format(root=root), str(fd), str(self._files_max)]
        command.append(str(self._warm_up_directory))
        with self._log.open("ab") as log, theirs:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                # Functions are looked up in libraries once and at the start, not by each shim that first calls them.
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "LD_BIND_NOW": "1"},
                pass_fds=(fd,),
                start_new_session=True,
            )

    def launch(self, wanted: Sequence[tuple[int, str]]) -> int:
        """Request shims, each with its generation and pod directory; returns how many could be requested now."""
        self.check_answers()
        self.open()
        assert self._connection is not None
        asked = 0
        while asked < len(wanted):
            batch, size = [], 0
            for generation, directory in wanted[asked:]:
                row = f"{generation} {directory}\n".encode()
                if size + len(row) > REQUEST_MAX:
                    break
                batch.append(row)
                size += len(row)
            try:
                self._connection.send(b"".join(batch))
            except (BlockingIOError, BrokenPipeError, ConnectionError):
                break  # busy or killed: missing shims are requested again later
            asked += len(batch)
            if not self._unanswered:
                self._answered_at = time.monotonic()
            self._unanswered += -(-len(batch) // READ_AT_ONCE)
        return asked

    def check_answers(self) -> bool:
        """Read confirmations. A fork server that is silent for too long is killed; True: that was done."""
        self.read_answers()
        if self.silent_s < ANSWER_S:
            return False
        self._end()
        return True

    @property
    def silent_s(self) -> float:
        """For how long a request was unanswered; 0: none is."""
        return time.monotonic() - self._answered_at if self._unanswered else 0.0

    @property
    def error(self) -> str:
        """Why no pod can start just now; empty while they can."""
        if self.silent_s < SLOW_S:
            return ""
        return f"process {self.pid}, which starts pods, has not answered for {self.silent_s:.0f} s"

    def read_answers(self) -> None:
        """Read what the fork server has confirmed."""
        if self._connection is None:
            return
        with suppress(OSError):  # nothing more to read, or it was killed
            while self._connection.recv(16):
                self._unanswered = max(0, self._unanswered - 1)
                self._answered_at = time.monotonic()

    def close(self) -> None:
        """Stop the fork server; shims stay."""
        self._disconnect()
        if self._process is not None:
            try:
                self._process.wait(GOODBYE_S)
            except subprocess.TimeoutExpired:
                self._end()
            self._process = None

    def _end(self) -> None:
        self._disconnect()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _disconnect(self) -> None:
        self._unanswered = 0
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _raise_files_max() -> int:
    """The supervisor holds a descriptor for each pod; pods get the original limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft

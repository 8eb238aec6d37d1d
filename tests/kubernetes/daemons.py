"""Long-running programs of a cluster, started by tests, that none of them can leave behind."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

START_S = 120.0
"""Machines are busy."""
STOP_S = 20.0


def free_port() -> int:
    """Not one of those that outgoing connections are given: between this and the start of a program they are many."""
    while True:
        port = random.SystemRandom().randrange(12_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class ProcessGroup:
    """Ends all of its processes with this one, also if this one is killed: then the pipe to its leader closes."""

    def __init__(self) -> None:
        self._leader = subprocess.Popen(
            ["/bin/sh", "-c", "read _; kill -9 -$$"], stdin=subprocess.PIPE, process_group=0
        )

    @property
    def pid(self) -> int:
        return self._leader.pid

    def close(self) -> None:
        self._leader.communicate(timeout=STOP_S)


class Daemon:
    """One program, with a log. It can be stopped, killed, paused and started again with the same arguments."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        group: ProcessGroup,
        folder: Path,
        *,
        is_ready: Callable[[], bool],
        environment: dict[str, str] | None = None,
    ) -> None:
        self.name, self.command, self.log = name, list(command), folder / f"{name}.log"
        self._group, self._folder, self._is_ready, self._environment = group, folder, is_ready, environment
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        assert not self.is_running, f"{self.name} is running"
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(self._environment or {})},
                process_group=self._group.pid,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self, timeout_s: float = START_S) -> None:
        end = time.monotonic() + timeout_s
        while not self._answers():
            assert self.is_running, f"{self.name} ended: {self.last_lines()}"
            assert time.monotonic() < end, f"{self.name} is not ready after {timeout_s:.0f} s: {self.last_lines()}"
            time.sleep(0.03)

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if that does not suffice."""
        if self._process is None:
            return
        self.signal(signal.SIGTERM)
        self.resume()  # if it is paused
        try:
            self._process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_S)

    def restart(self) -> None:
        """As after a crash."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """It answers nothing until `resume`; connections to it stay open."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def last_lines(self) -> str:
        with contextlib.suppress(OSError):
            return self.log.read_text(errors="replace")[-3000:]
        return ""

    def _answers(self) -> bool:
        try:
            return self._is_ready()
        except OSError:
            return False

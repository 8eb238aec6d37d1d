"""A server as a process that benchmarks start, talk to and end; and what it has used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench._report import ROOT

TICKS = os.sysconf("SC_CLK_TCK")


class Server:
    """A module that says where it listens, and obeys lines."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hello = self.hear()

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, line: str) -> dict[str, Any]:
        """Send a command, and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.hear()

    def hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the server ended with {self._process.wait()}")
        heard: dict[str, Any] = json.loads(line)
        return heard

    def end(self) -> None:
        """By closing its input, so that it ends what it has started."""
        self._process.communicate()

    def kill(self) -> None:
        """As the power would."""
        self._process.kill()
        self._process.communicate()


def end_in_good_order() -> None:
    """On SIGTERM, also by a time limit, a benchmark first ends what it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def cpu_s(pid: int) -> float:
    """CPU time of a process with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def ended_children_cpu_s(pid: int) -> float:
    """CPU time of a process and of all below it that have ended and were waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / TICKS


def main_thread_cpu_s(pid: int) -> float:
    """CPU time of the thread that a process began with; of the platform that is the control plane."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def resident_mib(pid: int) -> float:
    """Memory of a process that is resident now."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

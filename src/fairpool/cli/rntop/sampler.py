"""Samples from machines: one `ssh` for each, which asks `nvidia-smi` again and again, and is started again if it ends.

A machine is not trusted: what it sends is bounded, and only ever kept as text and numbers.
"""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import IO

from fairpool.cli.rntop.gpu_sample import GPUS_MAX, QUERY, HostSample, parsed

HOST = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}@)?[A-Za-z0-9_:\[][A-Za-z0-9_.:%\]-]{0,253}")
BEGIN, END = "fairpool-begin", "fairpool-end"
LINE_MAX = 4096
MESSAGE_MAX = 200
CONNECT_S = 10
SILENT_ROUNDS = 3
LEAVE_S = 2.0


def script(interval: float) -> str:
    """What runs on a machine, in any login shell; it ends when its output is closed."""
    loop = f"while :; do echo {BEGIN}; {QUERY} 2>&1; echo {END} $?; sleep {interval:g}; done"
    return f"exec sh -c '{loop}'"


def ssh_command(host: str, interval: float, *, user: str | None, config: str | None) -> list[str]:
    """Never asks for anything: a question would be lost behind the full screen."""
    options = {
        "BatchMode": "yes",
        "ConnectTimeout": str(CONNECT_S),
        "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3",
        "LogLevel": "ERROR",
    }
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    words += ["-F", config] if config else []
    words += ["-l", user] if user and "@" not in host else []
    return ["ssh", "-T", "-x", *words, "--", host, script(interval)]


class HostSampler:
    """Keeps the latest sample of one machine."""

    def __init__(self, host: str, command: Sequence[str], interval: float) -> None:
        self.host = host
        self._command = command
        self._interval = interval
        self._latest = HostSample(host, problem="connecting")
        self._at = time.monotonic()
        self._process: subprocess.Popen[bytes] | None = None
        self._leaving = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the connection."""
        self._leaving.set()
        process = self._process
        if process is not None:
            with suppress(OSError):
                process.terminate()
        self._thread.join(LEAVE_S)
        if process is not None and process.poll() is None:
            process.kill()

    def latest(self) -> HostSample:
        """The newest sample; one that is too old is none."""
        silent_s = time.monotonic() - self._at
        if self._latest.gpus and silent_s > SILENT_ROUNDS * self._interval + CONNECT_S:
            return HostSample(self.host, problem=f"no sample for {silent_s:.0f} s")
        return self._latest

    def _run(self) -> None:
        while not self._leaving.is_set():
            message = self._one_connection()
            if not self._leaving.is_set():
                self._keep(HostSample(self.host, problem=f"unreachable: {message}"))
                self._leaving.wait(self._interval)

    def _one_connection(self) -> str:
        """Until it ends; why it ended."""
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            return f"{self._command[0]} cannot be started: {(error.strerror or str(error)).lower()}"
        self._process = process
        if self._leaving.is_set():
            process.terminate()
        with process:
            assert process.stdout is not None
            message = self._read(process.stdout)
        return message or f"{self._command[0]} ended with code {process.returncode}"

    def _read(self, stream: IO[bytes]) -> str:
        """Take samples until the stream ends; the last line that belongs to none of them."""
        message = ""
        sample: list[str] | None = None
        while raw := stream.readline(LINE_MAX):
            line = raw.decode("utf-8", "replace").strip()
            word, _, rest = line.partition(" ")
            if line == BEGIN:
                sample = []
            elif word == END and sample is not None:
                self._take(sample, rest)
                sample = None
            elif sample is None:
                message = line[:MESSAGE_MAX] or message
            elif len(sample) < GPUS_MAX:
                sample.append(line)
        return message

    def _take(self, lines: list[str], code: str) -> None:
        said = next((line[:MESSAGE_MAX] for line in lines if line), "")
        gpus = parsed(lines)
        if code != "0":
            self._keep(HostSample(self.host, problem=f"nvidia-smi failed: {said or f'exit code {code}'[:MESSAGE_MAX]}"))
        elif gpus is None:
            self._keep(HostSample(self.host, problem=f"not the output of nvidia-smi: {said}"))
        else:
            self._keep(HostSample(self.host, gpus, problem="" if gpus else "no GPU"))

    def _keep(self, sample: HostSample) -> None:
        self._latest, self._at = sample, time.monotonic()

"""Processes on terminals of their own, for tests of what people see and type."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence


def _hear_ctrl_c() -> None:
    """As on any terminal; a process in the background ignores it, and so do the processes it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A process on a terminal of its own."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], columns: int = 80, rows: int = 24
    ) -> None:
        self.text, self.code = "", -1
        self._ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, columns))
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=dict(environment),
            close_fds=True,
            preexec_fn=_hear_ctrl_c,
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    @property
    def hears_ctrl_c(self) -> bool:
        """Whether the key is a signal here, and not a byte for another program."""
        return bool(termios.tcgetattr(self._ours)[3] & termios.ISIG)

    def interrupt(self) -> None:
        """What Ctrl-C comes to, on a terminal that belongs to no session."""
        self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """As when its window is closed without asking."""
        self._process.kill()

    def read_until(self, text: str, timeout_s: float = 120) -> None:
        end = time.monotonic() + timeout_s
        while text not in self.text:
            assert time.monotonic() < end, self.text
            if select.select([self._ours], [], [], 0.2)[0]:
                self._read()

    def _read(self) -> bool:
        try:
            data = os.read(self._ours, 65536)
        except OSError:
            return False
        self.text += data.decode(errors="replace")
        return bool(data)

    def __exit__(self, failed: type[BaseException] | None, *_: object) -> None:
        if failed is not None:
            self._process.kill()  # it may wait for a key for ever
        while self._read():
            pass
        self.code = self._process.wait(20)
        os.close(self._ours)

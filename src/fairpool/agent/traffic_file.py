"""The file in which the relay of a pod counts what passes through it, and which the sampler reads.

Written in place, because the relay has left the pod directory; at most once a second. Runs next to shims, so it imports
next to nothing.
"""

from __future__ import annotations

import os

NAME = "traffic"
SIZE = 32
"""Two numbers of 15 digits, each with a separator: one write replaces both."""
READINGS = 3


class TrafficFile:
    """Bytes that a pod has received and sent, written by its relay."""

    def __init__(self) -> None:
        """Open the file in the current directory, to continue what is in it; without one, on a full disk for example,
        nothing is counted."""
        self.received = self.sent = 0
        self._written = (0, 0)
        try:
            self.fd = os.open(NAME, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError:
            self.fd = -1
            return
        self._written = self.received, self.sent = _numbers(os.pread(self.fd, SIZE, 0)) or (0, 0)

    @property
    def is_written(self) -> bool:
        return self.fd < 0 or self._written == (self.received, self.sent)

    def write(self) -> None:
        """Write what has changed; again the next time if the disk is full."""
        if self.is_written:
            return
        try:
            os.pwrite(self.fd, f"{self.received:015} {self.sent:015}\n".encode(), 0)
        except OSError:
            return
        self._written = self.received, self.sent

    def close(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


def relayed_bytes(directory: str) -> tuple[int, int] | None:
    """What the pod with this directory has received and sent; None: it was not counted."""
    try:
        fd = os.open(f"{directory}/{NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        # Twice the same: one reading could meet a write halfway.
        found = [os.pread(fd, SIZE, 0) for _ in range(2)]
        while found[-1] != found[-2] and len(found) < READINGS:
            found.append(os.pread(fd, SIZE, 0))
    except OSError:
        return None
    finally:
        os.close(fd)
    return (_numbers(found[-1]) if found[-1] else (0, 0)) if found[-1] == found[-2] else None


def _numbers(text: bytes) -> tuple[int, int] | None:
    words = text.split()
    return (int(words[0]), int(words[1])) if len(words) == 2 and all(word.isdigit() for word in words) else None

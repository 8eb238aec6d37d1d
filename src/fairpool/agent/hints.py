"""Hints from shims to the supervisor: a named pipe in the state directory that carries ids of pods that changed.

Never more than hints. There may be no reader, the pipe may be full, and a pod may write anything into it; so the reader
knows when some may be missing, and then checks all pods. Used by shims, so it imports next to nothing.
"""

from __future__ import annotations

import os

NAME = "hints"
FROM_POD_DIRECTORY = f"../../{NAME}"
ROOM_BYTES = 65536
READS_MAX = 4
"""At a time: a pod that writes without end does not keep the reader here; then all pods are checked instead."""


def send(pod: str) -> None:
    """Wake the supervisor, if one runs. Called in a pod directory."""
    try:
        pipe = os.open(FROM_POD_DIRECTORY, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(pipe, f"{pod}\n".encode())
    except OSError:
        return
    finally:
        os.close(pipe)


class Hints:
    """The reading end of the pipe."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        import fcntl  # shims do not need it, and every import costs each of them memory

        path = os.path.join(root, NAME)
        if os.path.lexists(path):
            os.unlink(path)  # of a supervisor that was killed or fenced
        os.mkfifo(path, 0o600)
        # For writing too, or it would be at its end whenever no shim has it open.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Pipes may be smaller than the default: the kernel limits users with very many. If half of it was read at
        # once, there may have been no room for more.
        self._nearly_full_bytes = fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ) // 2

    def fileno(self) -> int:
        """Readable when there is a hint."""
        return self._pipe

    def take(self) -> tuple[set[str], bool]:
        """Pods hinted at since the last call, and whether these are all: other hints may have found no room."""
        text, is_read_out = b"", False
        for _ in range(READS_MAX):
            try:
                text += os.read(self._pipe, ROOM_BYTES)
            except BlockingIOError:
                is_read_out = True
                break
        rows = text.decode(errors="replace").split("\n")
        return set(rows[:-1]), is_read_out and not rows[-1] and len(text) < self._nearly_full_bytes

    def wake(self) -> None:
        """Wake the supervisor itself; from any thread of its process."""
        try:
            os.write(self._pipe, b"\n")
        except OSError:  # full: it will wake anyway
            return

    def close(self) -> None:
        os.close(self._pipe)

"""Hints from shims to whoever looks at the pods: a pipe in the data folder that says whose life has changed.

Never more than hints. Nobody may listen, there may be no room, and whoever may write here may write anything; so it is
known when some may be missing, and then everyone is looked at. Shims use it too, so it imports next to nothing.
"""

from __future__ import annotations

import os

NAME = "hints"
FROM_A_LIFE = f"../../{NAME}"
ROOM_BYTES = 65536
READS_MAX = 4
"""At a time. Whoever writes without end does not keep us here: then everybody is looked at, and no more is read."""


def give(pod: str) -> None:
    """Wake whoever looks at the pods, if anybody does; from the folder of a life."""
    try:
        pipe = os.open(FROM_A_LIFE, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        os.write(pipe, f"{pod}\n".encode())
    except OSError:
        return
    finally:
        os.close(pipe)


class Hints:
    """The end at which they are read."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        import fcntl  # of no use to shims

        path = os.path.join(root, NAME)
        if os.path.lexists(path):
            os.unlink(path)  # of one that was killed, or that is fenced
        os.mkfifo(path, 0o600)
        # For writing too, or it would be at its end whenever no shim has it open.
        self._pipe = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Not always what it is elsewhere: a user with very many pipes gets small ones. Where half of it has come at a
        # time, there may have been no room for more.
        self._nearly_full_bytes = fcntl.fcntl(self._pipe, fcntl.F_GETPIPE_SZ) // 2

    def fileno(self) -> int:
        """Readable when there is a hint."""
        return self._pipe

    def take(self) -> tuple[set[str], bool]:
        """Pods that were hinted at since the last time, and whether these are all: others may have found no room."""
        text, is_read_out = b"", False
        for _ in range(READS_MAX):
            try:
                text += os.read(self._pipe, ROOM_BYTES)
            except BlockingIOError:
                is_read_out = True
                break
        rows = text.decode(errors="replace").split("\n")
        return set(rows[:-1]), is_read_out and not rows[-1] and len(text) < self._nearly_full_bytes

    def close(self) -> None:
        os.close(self._pipe)

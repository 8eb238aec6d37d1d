"""Files that are there whole or not at all, also when the disk fills up or the power fails.

Used by keepers too, so it imports next to nothing.
"""

from __future__ import annotations

import os
from contextlib import suppress


def write_durably(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Replace a file so that a power cut leaves the old one or the new one; what cannot be written leaves no trace."""
    replace_file(path, content, mode)
    folder = os.open(os.path.dirname(os.fspath(path)) or ".", os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def replace_file(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Replace a file, whole or not at all; after a power cut it may be the old one still."""
    new = f"{os.fspath(path)}.{os.getpid()}.new"
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            write_all(fd, content)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(new, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(new)
        raise


def write_all(fd: int, content: bytes) -> None:
    """Write every byte; the kernel may take fewer at a time, above all when there is hardly any room."""
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]

"""Atomic and durable files: complete or absent, also when the disk is full or the power fails.

Writing is not enough for that. A write may be short, the content may reach the disk after the name does, and the name
may not reach it at all; so all is written, then flushed, then renamed, then the directory is flushed. Used by shims, so
it imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from _thread import get_ident  # `threading` would have work done after every fork, and in every shim
from contextlib import suppress

ORDER_MAX = 64 << 20
"""Bytes of an order: everything that a workload may be submitted with."""
READ_BYTES = 65536


def write_durably(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Write a file, on the disk when this returns. On an OSError the previous content is still complete."""
    _replace(path, content, mode, is_flushed=True)
    sync_directory(os.path.dirname(os.fspath(path)) or ".")


def replace_file(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Replace a file, whole or not at all, for as long as the machine runs: for what means nothing after a power cut.

    The disk is not waited for, which would be the longest part of a start. `sync_file` does that later.
    """
    _replace(path, content, mode, is_flushed=False)


def _replace(path: str | os.PathLike[str], content: bytes, mode: int, *, is_flushed: bool) -> None:
    directory, name = os.path.split(os.fspath(path))
    new = os.path.join(directory, f".{name}.{os.getpid()}.{get_ident()}.new")
    try:
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
        try:
            write_all(fd, content)
            if is_flushed:
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


def read_regular(path: str | os.PathLike[str], most: int) -> bytes:
    """The content of a file. A pod could have put anything in its place, so it never blocks and is bounded."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, f"{os.fspath(path)} is not a file")
        if about.st_size > most:
            raise OSError(errno.EFBIG, f"{os.fspath(path)} is too large")
        parts, left = [], most
        while left > 0 and (part := os.read(fd, min(left, READ_BYTES))):
            parts.append(part)
            left -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def sync_file(path: str | os.PathLike[str]) -> None:
    """Flush a file that was written without flushing."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(directory: str | os.PathLike[str]) -> None:
    """Flush the names in a directory."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems do not support it, and keep names in order themselves
            raise
    finally:
        os.close(handle)

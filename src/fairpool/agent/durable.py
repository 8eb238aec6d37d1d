"""Files that are there whole or not at all, also when the disk fills up or the power fails.

Writing is not enough for that. A disk may take less than it was given, the content may reach it after the name does,
and the name may not reach it at all; so all is written, then flushed, then renamed, then the folder is flushed. Used by
keepers too, so it imports next to nothing.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress


def write_durably(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Put a file there, on the disk when this returns. On an OSError what was there before is still there, whole."""
    replace_file(path, content, mode)
    sync_folder(os.path.dirname(os.fspath(path)) or ".")


def replace_file(path: str | os.PathLike[str], content: bytes, mode: int = 0o600) -> None:
    """Replace a file, whole or not at all; after a power cut it may be the old one still."""
    folder, name = os.path.split(os.fspath(path))
    new = os.path.join(folder, f".{name}.{os.getpid()}.{threading.get_ident()}.new")
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


def sync_folder(folder: str | os.PathLike[str]) -> None:
    """Let the disk know which names are in a folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some file systems know no such thing, and keep names in order themselves
            raise
    finally:
        os.close(handle)

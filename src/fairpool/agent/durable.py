"""Files that are whole after a power cut: the one before or the new one, never a piece of either.

For what is small and cannot be worked out again: who this installation is, where pods meet, which nodes were chosen.
Writing is not enough for that. A disk may take less than it was given, the content may reach it after the name does,
and the name may not reach it at all; so all is written, then flushed, then renamed, then the folder is flushed.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress
from pathlib import Path


def write_durably(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Put a file there, on the disk when this returns. On an OSError what was there before is still there, whole."""
    new = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    new.unlink(missing_ok=True)  # of somebody who was killed and had our numbers
    try:
        handle = os.open(new, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)
        new.replace(path)
    except BaseException:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Let the disk know which names are in a folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        if (
            error.errno != errno.EINVAL
        ):  # some file systems know no such thing, and keep their names in order themselves
            raise
    finally:
        os.close(handle)

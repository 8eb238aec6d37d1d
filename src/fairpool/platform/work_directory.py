"""Temporary directories for backup and restore, removed afterwards or, after a crash, at the next use."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

BACKUP_PREFIX = ".fairpool-backup-"
RESTORE_PREFIX = ".restore-"
PREFIXES = (BACKUP_PREFIX, RESTORE_PREFIX, ".backup-")
"""The last one is of earlier versions, which made backups in the data directory."""


@contextmanager
def work_directory(parent: Path, prefix: str) -> Iterator[Path]:
    """A locked temporary directory. Those of processes that were killed, which nothing locks, are removed first."""
    remove_abandoned(parent, prefix)
    directory = Path(tempfile.mkdtemp(dir=parent, prefix=prefix))
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield directory
    finally:
        os.close(handle)
        shutil.rmtree(directory, ignore_errors=True)


def remove_abandoned(parent: Path, *prefixes: str) -> None:
    """Remove work directories of processes that were killed."""
    for directory in [path for prefix in prefixes for path in parent.glob(f"{prefix}*") if path.is_dir()]:
        with suppress(OSError):  # in use, or not permitted
            handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory)
            finally:
                os.close(handle)

"""Snapshot files on disk: reading one, writing one. What is in them is `scheduler/snapshot_file.py`."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from tempfile import NamedTemporaryFile

from fairpool.model.bulk_read import without_garbage_collection
from fairpool.model.problem import Problem
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import LARGEST_BYTES, Loaded, from_bytes, to_bytes

STANDARD_STREAM = "-"
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a broken symbolic link",
}


def load(name: str) -> Loaded | Problem:
    """The snapshot in a file, or in what comes through standard input if the name is `-`; a Problem names the file."""
    shown = "standard input" if name == STANDARD_STREAM else name
    try:
        data = _read(name)
    except (OSError, ValueError) as error:  # ValueError: a name that no file can have
        fix = "name an existing snapshot file that you can read"
        return Problem("file.unreachable", f"{shown} cannot be read: {_why(error)}", fix)
    return load_bytes(data, shown)


def load_bytes(data: bytes, shown: str) -> Loaded | Problem:
    """The snapshot in the bytes of a file, which is called `shown`."""
    with without_garbage_collection():
        loaded = from_bytes(data)
    return Problem(loaded.code, f"{shown}: {loaded.what}", loaded.fix) if isinstance(loaded, Problem) else loaded


def save(snapshot: Snapshot, name: str, *, overwrite: bool = False) -> Problem | None:
    """Write a file whole or not at all; `-` is standard output."""
    return save_bytes(to_bytes(snapshot), name, overwrite=overwrite)


def save_bytes(data: bytes, name: str, *, overwrite: bool = False) -> Problem | None:
    """The same, with the bytes of a snapshot file."""
    if name == STANDARD_STREAM:
        return _send(data)
    try:
        problem = _obstacle(name, overwrite)
        if problem is None:
            _write(Path(os.path.realpath(name)), data)
    except (OSError, ValueError) as error:
        fix = "choose a file in an existing directory that you can write to"
        return Problem("file.unreachable", f"{name} cannot be written: {_why(error)}", fix)
    return problem


def _read(name: str) -> bytes:
    if name == STANDARD_STREAM:
        if sys.stdin is None:
            raise OSError("it is closed")
        return sys.stdin.buffer.read(LARGEST_BYTES)
    with Path(name).open("rb") as file:
        return file.read(LARGEST_BYTES)


def _send(data: bytes) -> Problem | None:
    try:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # the reader has read enough: no error, and the command ends quietly
    except OSError as error:
        fix = "redirect it elsewhere, or name a file"
        return Problem("file.unreachable", f"standard output cannot be written: {_why(error)}", fix)
    return None


def _obstacle(name: str, overwrite: bool) -> Problem | None:
    """What is already where the file should go. Only a file is ever replaced, and a link is followed to its target."""
    if not name.strip():
        return Problem("file.no_name", "the file name is empty", "name a file, or write to standard output with -")
    if not os.path.lexists(name):
        return None
    target = os.path.realpath(name)
    mode = os.lstat(target).st_mode if os.path.lexists(target) else stat.S_IFREG
    if not stat.S_ISREG(mode):
        what = f"{name} is {KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file"
        return Problem("file.other_kind", what, "name a file, or write to standard output with -")
    if not overwrite:
        return Problem("file.exists", f"{name} exists already", "choose another name, or pass --force")
    return None


def _write(path: Path, data: bytes) -> None:
    """To a temporary file beside it, which then replaces it, so that the file is never there in part."""
    with NamedTemporaryFile(dir=path.parent, prefix=".fairpool.", delete=False) as file:
        beside = Path(file.name)
        try:
            file.write(data)
            file.flush()
            beside.chmod(0o644)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)


def _why(error: OSError | ValueError) -> str:
    return ((error.strerror if isinstance(error, OSError) else None) or str(error)).lower()

"""The share files of a machine: made before a program starts, removed when none of its processes is left.

Every process of a share locks a byte of the file for as long as it lives. So whether a share is in use, and by which
slots, is asked of the kernel, and never of what processes have written.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import stat
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent.fractions.share_file import (
    FILE_BYTES,
    SLOT_LOCKS_AT,
    SLOTS_MAX,
    SharedDevice,
    ShareFile,
    decode_share,
    encode_share,
)
from fairpool.model.problem import Problem

SUFFIX = ".share"
ALONE_S = 10.0
_OFD_GETLK, _OFD_SETLK = 36, 37
_FLOCK = struct.Struct("hhqqi4x")
_HOLDER = SLOT_LOCKS_AT + SLOTS_MAX
"""The byte that a launcher locks until its program has ended."""


class DirectoryRefused(Exception):
    """The folder for share files cannot be used."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(str(problem))
        self.problem = problem


@dataclass(frozen=True, slots=True)
class FoundShare:
    """One share of this machine."""

    path: Path
    content: ShareFile
    """With the slots of live processes only."""
    is_held: bool
    """A process of it lives, or what started them."""


def default_directory() -> Path:
    """Root's, or one for each user: a folder that several could write to is refused."""
    named = os.environ.get("FAIRPOOL_GPU_SHARES")
    if named:
        return Path(named)
    if os.geteuid() == 0:
        return Path("/run/fairpool-gpu")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    return Path(runtime, "fairpool-gpu") if runtime else Path(f"/tmp/fairpool-gpu-{os.geteuid()}")


def prepare_directory(directory: Path) -> None:
    """Make it, or refuse one that another user could have put there."""
    try:
        directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        found = directory.lstat()
    except OSError as error:
        raise DirectoryRefused(
            Problem("gpu.directory", f"{directory}: {error.strerror}", "name another one")
        ) from error
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid in (0, os.geteuid())
    if not is_ours or found.st_mode & 0o022:
        what = f"{directory} belongs to another user, or other users can write to it"
        raise DirectoryRefused(Problem("gpu.directory", what, "set FAIRPOOL_GPU_SHARES to a folder of your own"))


@contextmanager
def new_share(
    directory: Path,
    name: str,
    devices: Sequence[SharedDevice],
    check: Callable[[Sequence[SharedDevice]], None],
) -> Iterator[Path]:
    """A share for as long as this block runs; `check` is given the devices of all others and may raise."""
    prepare_directory(directory)
    path = directory / f"{secrets.token_hex(8)}{SUFFIX}"
    with _alone(directory):
        remove_unused(directory)
        check([device for each in shares(directory) for device in each.content.devices])
        fd = _created(path, encode_share(name, devices))
    try:
        yield path
    finally:
        os.close(fd)
        # The program has run: a folder that is gone or busy must not become its result. The next share removes it.
        with suppress(DirectoryRefused, OSError), _alone(directory):
            remove_unused(directory)


def _created(path: Path, content: bytes) -> int:
    """The open file, locked by us: before that it would count as unused."""
    fd = -1
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _lock(fd, _HOLDER)
        written = 0
        while written < len(content):
            written += os.pwrite(fd, content[written:], written)
    except OSError as error:
        if fd >= 0:
            os.close(fd)
            path.unlink(missing_ok=True)
        what = f"{path} cannot be written: {error.strerror}"
        raise DirectoryRefused(Problem("gpu.directory", what, "free some space, or name another folder")) from error
    return fd


def shares(directory: Path) -> list[FoundShare]:
    """The share files that are there, oldest first. What is not a share file is left out."""
    found = []
    for path in sorted(directory.glob(f"*{SUFFIX}"), key=_made_at):
        with suppress(OSError), _opened(path) as fd:
            share = _read(path, fd)
            if share is not None:
                found.append(share)
    return found


def remove_unused(directory: Path) -> None:
    """Remove shares whose launcher and processes have all ended, killed or not."""
    for each in shares(directory):
        if not each.is_held:
            each.path.unlink(missing_ok=True)


def _read(path: Path, fd: int) -> FoundShare | None:
    content = decode_share(os.pread(fd, FILE_BYTES + 1, 0))
    if isinstance(content, str):
        return None
    live = tuple(each for each in content.slots if _is_locked(fd, SLOT_LOCKS_AT + each.slot))
    is_held = bool(live) or _is_locked(fd, _HOLDER) or _is_locked(fd, SLOT_LOCKS_AT, SLOTS_MAX)
    return FoundShare(path, ShareFile(name=content.name, devices=content.devices, slots=live), is_held)


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Nothing else makes or removes a share of this folder meanwhile. Other users cannot open the lock, and so not
    hold it."""
    fd = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        until = time.monotonic() + ALONE_S
        while not _flocked(fd):
            if time.monotonic() > until:
                what = f"another process has held {directory / '.lock'} for {ALONE_S:g} s"
                raise DirectoryRefused(Problem("gpu.busy", what, "see which with `fuser`, and try again"))
            time.sleep(0.01)
        yield
    finally:
        os.close(fd)


def _flocked(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_locked(fd: int, at: int, length: int = 1) -> bool:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, length, 0)
    kind, *_ = _FLOCK.unpack(fcntl.fcntl(fd, _OFD_GETLK, asked))
    return bool(kind != fcntl.F_UNLCK)


def _lock(fd: int, at: int) -> None:
    fcntl.fcntl(fd, _OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, at, 1, 0))


def _made_at(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        return 0.0, path.name

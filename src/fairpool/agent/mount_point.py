"""Mount points: found and created by descriptors, name by name, without following a symbolic link.

What is in a volume belongs to users, who may exchange any part of a path at any moment, also for a link to a place of
the machine. So each step starts at the directory that was opened before it, nothing that exists is ever opened for
writing, and the descriptor that comes out is what a volume is attached to. Runs in shims, so it imports next to
nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Sequence

KERNEL = ("/proc", "/sys", "/dev")
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def resolved_targets(targets: Iterable[str]) -> dict[str, str]:
    """By target, the path without links of the machine's own (`/lib`, `/var/run`): called before any volume is mounted,
    so that none of a volume's own is followed."""
    found: dict[str, str] = {}
    for target in sorted(targets):
        around = next((other for other in found if target.startswith(f"{other}/")), None)
        place = os.path.realpath(target) if around is None else found[around] + target.removeprefix(around)
        if place != target and any(f"{place}/".startswith(f"{kernel}/") for kernel in KERNEL):
            raise OSError(errno.EPERM, f"{target} leads to {place}, where nothing can be mounted: use another path")
        found[target] = place
    return found


def open_place(place: str) -> tuple[int, list[str]]:
    """A descriptor of as much of an absolute path as exists, and the names that are missing after it. Raises OSError at
    a symbolic link."""
    names = [name for name in place.split("/") if name]
    at = os.open("/", _PATH)
    for index, name in enumerate(names):
        try:
            below = _open_below(at, name, f"/{'/'.join(names[: index + 1])}")
        except FileNotFoundError:
            return at, names[index:]
        except BaseException:
            os.close(at)
            raise
        os.close(at)
        at = below
    return at, []


def create_below(at: int, names: Sequence[str], *, is_directory: bool) -> int:
    """Create directories below an open one, the last a file unless it is to be a directory too; a descriptor of it.
    Closes `at`."""
    for index, name in enumerate(names):
        try:
            _create(at, name, is_directory=is_directory or index < len(names) - 1)
            below = _open_below(at, name, name)
        finally:
            os.close(at)
        at = below
    return at


def _create(at: int, name: str, *, is_directory: bool) -> None:
    try:
        if is_directory:
            os.mkdir(name, dir_fd=at)
        else:
            os.close(os.open(name, _NEW, 0o644, dir_fd=at))
    except FileExistsError:  # another pod with the same volume was faster
        pass


def _open_below(at: int, name: str, shown: str) -> int:
    try:
        below = os.open(name, _PATH, dir_fd=at)
    except NotADirectoryError:
        words = f"{os.path.dirname(shown)} is not a directory: nothing can be mounted below it"
        raise OSError(errno.ENOTDIR, words) from None
    if stat.S_ISLNK(os.fstat(below).st_mode):
        os.close(below)
        words = f"{shown} is a symbolic link in a volume: nothing can be mounted there or below it; use another path"
        raise OSError(errno.ELOOP, words)
    return below

"""Records the pid of a pod's program in the pod directory.

A hard link to an existing file costs less than a file that must be made and removed for each pod. Used by shims, so it
imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

PREFIX = "main."
NAMESPACE = "ns"
"""A symbolic link to a number: the inode of the pod's PID namespace, where it has one."""
LINK = "main"
"""A symbolic link to the same numbers: from earlier versions, and on file systems without hard links."""


def record(numbers: str, existing: str) -> None:
    """Record it in the current directory, as a hard link to `existing`: pid, start time from the process table (0 if it
    has ended already) and milliseconds since the epoch, separated by dots.

    Raises OSError if the disk is full, and FileExistsError if it was recorded before.
    """
    try:
        os.link(existing, f"{PREFIX}{numbers}", follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        os.symlink(numbers, LINK)


def recorded(directory: str, names: Collection[str] | None = None) -> tuple[int, int, int] | None:
    """The numbers; None: none are recorded that can be read. `names` is the listing, if the caller has it already."""
    if names is None:
        try:
            names = os.listdir(directory)
        except OSError:  # removed meanwhile
            return None
    texts = [name[len(PREFIX) :] for name in names if name.startswith(PREFIX)]
    if LINK in names:
        with suppress(OSError):  # not a link: not written by a shim
            texts.append(os.readlink(f"{directory}/{LINK}"))
    return min((main for text in texts if (main := _numbers(text)) is not None), default=None)


def namespace(directory: str) -> int | None:
    """The inode of the program's PID namespace, as its shim recorded it; None: it has none of its own."""
    try:
        text = os.readlink(f"{directory}/{NAMESPACE}")
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _numbers(text: str) -> tuple[int, int, int] | None:
    words = text.replace("None", "0").split(".")  # the earliest shims wrote None for a process that had ended
    if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2])

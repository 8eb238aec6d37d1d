"""Records the process of a pod's program in the pod directory, and its PID namespace.

A hard link to an existing file costs less than a file that must be made and removed for each pod, so the numbers are in
its name. Used by shims, so it imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection

PREFIX = "main."
NAMESPACE = "ns"
"""A symbolic link to the inode of the PID namespace: from earlier versions."""
LINK = "main"
"""A symbolic link to the same numbers: from earlier versions, and on file systems without hard links."""


def record(numbers: str, existing: str) -> None:
    """Record it in the current directory, as a hard link to `existing`: pid, start time from the process table (0 if it
    has ended already), milliseconds since the epoch and the inode of its PID namespace (0 if it has none of its own),
    separated by dots.

    Raises OSError if the disk is full, and FileExistsError if it was recorded before.
    """
    try:
        os.link(existing, f"{PREFIX}{numbers}", follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        os.symlink(numbers, LINK)


def recorded(directory: str, names: Collection[str] | None = None) -> tuple[int, int, int, int] | None:
    """The numbers; None: none are recorded that can be read. `names` is the listing, if the caller has it already."""
    if names is None:
        try:
            names = os.listdir(directory)
        except OSError:  # removed meanwhile
            return None
    texts = [name[len(PREFIX) :] for name in names if name.startswith(PREFIX)]
    if LINK in names:
        texts.append(_link(f"{directory}/{LINK}"))
    main = min((main for text in texts if (main := _numbers(text)) is not None), default=None)
    if main is not None and NAMESPACE in names:
        inode = _link(f"{directory}/{NAMESPACE}")
        return *main[:3], int(inode) if inode.isascii() and inode.isdigit() else main[3]
    return main


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # not a link: not written by a shim
        return ""


def _numbers(text: str) -> tuple[int, int, int, int] | None:
    words = text.replace("None", "0").split(".")  # the earliest shims wrote None for a process that had ended
    if len(words) not in (3, 4) or not all(word.isascii() and word.isdigit() for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2]), int(words[3]) if len(words) == 4 else 0

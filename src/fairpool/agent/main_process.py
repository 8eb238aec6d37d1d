"""Which process a life's program is, as its shim says it: by a name in the life's folder, with nothing behind it.

A second name for what is there already is no file that must be made and removed for each life. Used by shims too, so
it imports next to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from contextlib import suppress

PREFIX = "main."
NAMESPACE = "ns"
"""A link to a number: the inode of the pod's PID namespace, where it has one."""
LINK = "main"
"""A link to the same numbers: how earlier versions said it, and how it is said where nothing can have two names."""


def say(numbers: str, existing: str) -> None:
    """Say it in the current folder, as another name of what is there already: pid, start time as the process table has
    it (0 if it had ended already, which is nobody's) and milliseconds since the epoch, with dots between them.

    Raises OSError if there is no room, and FileExistsError if it was said before.
    """
    try:
        os.link(existing, f"{PREFIX}{numbers}", follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        os.symlink(numbers, LINK)


def said(folder: str, names: Collection[str] | None = None) -> tuple[int, int, int] | None:
    """The numbers, from a folder whose names one may know already; None: nothing was said that can be read."""
    if names is None:
        try:
            names = os.listdir(folder)
        except OSError:  # forgotten meanwhile
            return None
    texts = [name[len(PREFIX) :] for name in names if name.startswith(PREFIX)]
    if LINK in names:
        with suppress(OSError):  # somebody has put something else there
            texts.append(os.readlink(f"{folder}/{LINK}"))
    return min((main for text in texts if (main := _numbers(text)) is not None), default=None)


def namespace(folder: str) -> int | None:
    """The inode of the PID namespace the program is in, as its shim wrote it down; None: it has none of its own."""
    try:
        text = os.readlink(f"{folder}/{NAMESPACE}")
    except OSError:
        return None
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


def _numbers(text: str) -> tuple[int, int, int] | None:
    words = text.replace("None", "0").split(".")  # which the earliest shims wrote if it had ended already
    if len(words) != 3 or not all(word.isascii() and word.isdigit() for word in words):
        return None
    return int(words[0]), int(words[1]), int(words[2])

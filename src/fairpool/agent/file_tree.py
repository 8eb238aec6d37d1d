"""Directory trees of any size and depth: removed, measured and dated without recursion and without following links."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

BLOCK = 512
"""Bytes in what `st_blocks` counts."""


def remove_tree(directory: str) -> None:
    """Remove a directory with its contents, however deep. A directory in it is moved up before it is emptied, so that
    no path becomes long."""
    pending, number = [directory], 0
    while pending:
        here = pending[-1]
        try:
            os.chmod(here, 0o700)
            entries = list(os.scandir(here))
        except OSError:
            rmdir_if_empty(pending.pop())
            continue
        for entry in entries:
            if not entry.is_dir(follow_symlinks=False):
                unlink_if_there(entry.path)
                continue
            number += 1
            moved = f"{directory}.{number}"
            with suppress(OSError):
                os.chmod(entry.path, 0o700)  # without root, a directory must be writable to be moved
                os.rename(entry.path, moved)
                pending.insert(0, moved)
        rmdir_if_empty(pending.pop())


def remove_files(directory: str) -> None:
    """Remove a directory that nearly always contains only files, which is cheaper than a tree."""
    try:
        for name in os.listdir(directory):
            os.unlink(f"{directory}/{name}")
        os.rmdir(directory)
    except OSError:
        remove_tree(directory)


def unlink_if_there(file: str) -> None:
    with suppress(OSError):
        os.unlink(file)


def rmdir_if_empty(directory: str) -> None:
    with suppress(OSError):
        os.rmdir(directory)


def size_of_tree(directory: Path) -> int:
    size = 0
    for each in _all_in(directory):
        with suppress(OSError):
            size += each.lstat().st_blocks * BLOCK
    return size


def unchanged_s(path: Path, enough_s: float) -> float:
    """For how long nothing in a tree was changed; stops at the first file that is younger than `enough_s`."""
    latest_ns = 0
    for each in _all_in(path):
        with suppress(OSError):  # removed meanwhile
            latest_ns = max(latest_ns, each.lstat().st_mtime_ns)
        if (age_s := time.time() - latest_ns / 1e9) < enough_s:
            return age_s
    return time.time() - latest_ns / 1e9


def _all_in(path: Path) -> Iterator[Path]:
    yield path
    pending = [str(path)]
    while pending:  # not os.walk, which recurses
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                yield Path(entry.path)
                if entry.is_dir(follow_symlinks=False):
                    pending.append(entry.path)

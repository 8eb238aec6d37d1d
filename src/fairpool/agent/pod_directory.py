"""The directory of a pod, read from outside: what its shim has written so far. `shim.py` lists the files.

A pod may be able to write here too. What cannot be read counts as not written; it never stops the reader.
"""

from __future__ import annotations

import os
from typing import NamedTuple
from urllib.parse import quote, unquote

from fairpool.agent import main_process, process_table, stop_notice
from fairpool.model.ids import Instant, PodId

UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)
"""What reading JSON of unknown content may raise."""


class ShimProcess(NamedTuple):
    """The latest shim of a pod."""

    generation: int
    pid: int
    started: int
    home: int = 0
    """The inode of the directory it was started in; 0: not recorded."""

    @property
    def is_alive(self) -> bool:
        return process_table.is_alive(self.pid, self.started)


def directory_name(pod: PodId) -> str:
    """A pod's id as the name of a directory; whatever it contains, it is one name and not a path."""
    return quote(pod, safe=" ") if pod not in (".", "..") else quote(pod).replace(".", "%2E")


def pod_of(directory_name: str) -> PodId:
    return PodId(unquote(directory_name))


class PodFiles(NamedTuple):
    """What a pod's directory contained at one moment, except how it ended."""

    has_stop_notice: bool
    shim: ShimProcess | None
    """None: no shim has claimed this pod yet. With the stop notice there, none will start it any more."""
    running_since: Instant | None
    """When its program was started; None: not yet, as far as is recorded."""
    main: tuple[int, int] | None = None
    """Its process and when that began, whether it is still alive or not."""
    namespace: int | None = None
    """Its PID namespace, if it has one of its own."""


def read_files(directory: str) -> PodFiles:
    """Read everything but the exit record, with as few calls as possible: it is done for each pod that is starting."""
    names = set(os.listdir(directory))
    has_stop_notice, shim = stop_notice.NAME in names, _latest_shim(directory, names)
    if has_stop_notice and shim is None:
        # A shim that claimed the pod while we were reading may not have seen the notice. Any later one will.
        shim = _latest_shim(directory, set(os.listdir(directory)))
    main = main_process.recorded(directory, names)
    if main is None:
        return PodFiles(has_stop_notice, shim, None)
    return PodFiles(has_stop_notice, shim, Instant(main[2]), main[:2], main[3] or None)


def main_of(directory: str) -> tuple[int, int] | None:
    """The process of its program and when it began, if it is alive."""
    main = main_process.recorded(directory)
    return main[:2] if main is not None and process_table.is_alive(main[0], main[1]) else None


def is_copied(directory: str) -> bool:
    """Whether this is a copy of a pod's directory: its shim is alive, in another directory."""
    shim = _latest_shim(directory, set(os.listdir(directory)))
    if shim is None or shim.home in (0, os.stat(directory).st_ino):
        return False
    try:
        # Some file systems change inode numbers, so the shim's own working directory is compared too.
        is_elsewhere = not os.path.samefile(f"/proc/{shim.pid}/cwd", directory)
    except OSError:
        return False
    return is_elsewhere and shim.is_alive


def is_of_an_earlier_boot(directory: str) -> bool:
    """Whether nothing was created or removed here since the machine booted, and no shim is alive."""
    shim = read_files(directory).shim
    return os.stat(directory).st_mtime < process_table.booted_at() and not (shim is not None and shim.is_alive)


def _latest_shim(directory: str, names: set[str]) -> ShimProcess | None:
    generation = -1
    while f"shim.{generation + 1}" in names:
        generation += 1
    if generation < 0:
        return None
    numbers = _numbers(f"{directory}/shim.{generation}")
    if numbers is None:  # not written by a shim, so there is none that we know of
        return ShimProcess(generation, 0, 0)
    return ShimProcess(generation, numbers[0], numbers[1], numbers[2] if len(numbers) > 2 else 0)


def _numbers(path: str) -> list[int] | None:
    """The target of a link: at least two numbers with dots between them."""
    try:
        numbers = [int(word) if word != "None" else 0 for word in os.readlink(path).split(".")]
    except (OSError, ValueError):
        return None
    return numbers if len(numbers) >= 2 else None

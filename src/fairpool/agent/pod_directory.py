"""Reading the folder of a life from outside: what its shim has written so far. See `shim.py` for what lies in it.

A pod may write wherever its user may, here too. What cannot be read counts as not written; it never stops the reader.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from fairpool.agent import main_process, notice, process_table
from fairpool.agent.durable import read_regular, sync_file, write_durably
from fairpool.model.ids import Instant, PodId

CONTENT_MAX = 1 << 17
"""Bytes; what shims and jobs write here is far smaller."""
UNREADABLE = (OSError, ValueError, KeyError, TypeError, RecursionError)
"""What reading JSON of unknown content may raise."""


class ShimProcess(NamedTuple):
    """The latest shim of a life."""

    generation: int
    pid: int
    started: int
    home: int = 0
    """The inode of the folder it was made in; 0: it did not say."""

    @property
    def is_alive(self) -> bool:
        return process_table.is_alive(self.pid, self.started)


class End(NamedTuple):
    """How a life ended, as its shim wrote it down."""

    code: int
    words: str
    after_notice: bool


def folder_name(pod: PodId) -> str:
    """A pod's id as the name of a folder; whatever it holds, it is one name and not a path."""
    return quote(pod, safe=" ") if pod not in (".", "..") else quote(pod).replace(".", "%2E")


def pod_of(folder_name: str) -> PodId:
    return PodId(unquote(folder_name))


class Glance(NamedTuple):
    """What lies in a life's folder at one moment."""

    is_told_to_stop: bool
    shim: ShimProcess | None
    """None: no shim has claimed this life yet. With the notice there, none will start it any more."""
    running_since: Instant | None
    """When its program was started; None: it was not, as far as one knows."""
    main: tuple[int, int] | None = None
    """Its process and when that began, whether it still lives or not."""
    namespace: int | None = None
    """The PID namespace it is in, if it has one of its own."""


def glance(folder: str) -> Glance:
    """Look at everything but the end, with as few calls as possible: it is done for each life that is starting."""
    names = set(os.listdir(folder))
    is_told, shim = notice.NAME in names, _latest_shim(folder, names)
    if is_told and shim is None:
        # One that claimed it while we were reading may not have found the notice. Any later one will.
        shim = _latest_shim(folder, set(os.listdir(folder)))
    main = main_process.said(folder, names)
    if main is None:
        return Glance(is_told, shim, None)
    namespace = namespace_of(folder) if main_process.NAMESPACE in names else None
    return Glance(is_told, shim, Instant(main[2]), main[:2], namespace)


def end_of(folder: str) -> End | None:
    """None: it has not ended, as far as one knows. Of what cannot be read its shim, or an heir, writes another."""
    try:
        found = json.loads(_content(f"{folder}/exit.json"))
        return End(int(found["code"]), str(found["words"]), bool(found["after_notice"]))
    except UNREADABLE:
        return None


def write_end(folder: str, end: End, at: Instant) -> None:
    """In place of a shim, when none can be had."""
    with suppress(OSError):
        sync_file(f"{folder}/order.json")
    text = {"code": end.code, "words": end.words, "at": at, "after_notice": end.after_notice}
    write_durably(f"{folder}/exit.json", json.dumps(text).encode())


def main_of(folder: str) -> tuple[int, int] | None:
    """The process of its program and when it began, if that still lives."""
    main = main_process.said(folder)
    return main[:2] if main is not None and process_table.is_alive(main[0], main[1]) else None


def is_copied(folder: str) -> bool:
    """Whether this is a copy of a life's folder: its shim lives, and does so in another one."""
    shim = _latest_shim(folder, set(os.listdir(folder)))
    if shim is None or shim.home in (0, os.stat(folder).st_ino):
        return False
    try:
        # Some file systems number anew, so the shim itself is asked too.
        is_elsewhere = not os.path.samefile(f"/proc/{shim.pid}/cwd", folder)
    except OSError:
        return False
    return is_elsewhere and shim.is_alive


def is_of_an_earlier_boot(folder: str) -> bool:
    """Whether nothing was made or removed here since the machine was started, and nobody keeps it."""
    shim = glance(folder).shim
    return os.stat(folder).st_mtime < process_table.booted_at() and not (shim is not None and shim.is_alive)


def namespace_of(folder: str) -> int | None:
    """The inode of the PID namespace of its program; None: it has none of its own, or nobody wrote it down."""
    return main_process.namespace(folder)


def reports(file: str) -> dict[str, Any]:
    """What the job itself has reported: metrics and parameters."""
    try:
        found = json.loads(_content(file))
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}


def _latest_shim(folder: str, names: set[str]) -> ShimProcess | None:
    generation = -1
    while f"shim.{generation + 1}" in names:
        generation += 1
    if generation < 0:
        return None
    link = _numbers(f"{folder}/shim.{generation}", 2)
    if link is None:  # not what a shim has written, so nobody we know of keeps it
        return ShimProcess(generation, 0, 0)
    return ShimProcess(generation, link[0], link[1], link[2] if len(link) > 2 else 0)


def _numbers(path: str, at_least: int) -> list[int] | None:
    """What a link says, which is numbers with dots between them."""
    try:
        numbers = [int(word) if word != "None" else 0 for word in os.readlink(path).split(".")]
    except (OSError, ValueError):
        return None
    return numbers if len(numbers) >= at_least else None


def _content(path: str) -> bytes:
    return read_regular(path, CONTENT_MAX)

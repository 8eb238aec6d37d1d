"""Reading the folder of a life from outside: what its keeper has written so far. See `shim.py` for what lies in it."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from fairpool.agent import process_table
from fairpool.model.ids import Instant, PodId


class Keeper(NamedTuple):
    """The latest keeper of a life."""

    generation: int
    pid: int
    started: int

    @property
    def is_alive(self) -> bool:
        return process_table.is_alive(self.pid, self.started)


class End(NamedTuple):
    """How a life ended, as its keeper wrote it down."""

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
    keeper: Keeper | None
    """None: no keeper has claimed this life yet. With the notice there, none will start it any more."""
    running_since: Instant | None
    """When its program was started; None: it was not, as far as one knows."""


def glance(folder: str) -> Glance:
    """Look at everything but the end, with as few calls as possible: it is done for each life that is starting."""
    names = set(os.listdir(folder))
    is_told, keeper = "stop.json" in names, _latest_keeper(folder, names)
    if is_told and keeper is None:
        # One that claimed it while we were reading may not have found the notice. Any later one will.
        keeper = _latest_keeper(folder, set(os.listdir(folder)))
    main = _link(f"{folder}/main") if "main" in names else None
    return Glance(is_told, keeper, Instant(int(main.split(".")[2])) if main is not None else None)


def end_of(folder: str) -> End | None:
    """None: it has not ended, as far as one knows."""
    try:
        with open(f"{folder}/exit.json", "rb") as file:
            found = json.load(file)
    except FileNotFoundError:
        return None
    return End(found["code"], found["words"], found["after_notice"])


def main_pid(folder: str) -> int | None:
    """The process of its program, if that still lives."""
    link = _link(f"{folder}/main")
    if link is None:
        return None
    pid, started, _ = link.split(".")
    return int(pid) if process_table.is_alive(int(pid), int(started)) else None


def is_told_to_stop(folder: str) -> bool:
    return os.path.exists(f"{folder}/stop.json")


def tell_to_stop(folder: str, grace_s: int, reason: str) -> None:
    """Leave the notice; the first one counts, so that a grace runs once."""
    new = f"{folder}/stop.{os.getpid()}.{threading.get_ident()}"
    with open(new, "w", encoding="utf-8") as file:
        json.dump({"grace_s": grace_s, "reason": reason}, file)
    with suppress(FileExistsError):
        os.link(new, f"{folder}/stop.json")
    os.unlink(new)


def reports(folder: str) -> dict[str, Any]:
    """What the job itself has reported: metrics and parameters."""
    try:
        with open(f"{folder}/reports.json", "rb") as file:
            found = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _latest_keeper(folder: str, names: set[str]) -> Keeper | None:
    generation = -1
    while f"keeper.{generation + 1}" in names:
        generation += 1
    link = _link(f"{folder}/keeper.{generation}") if generation >= 0 else None
    if link is None:
        return None
    pid, _, started = link.partition(".")
    return Keeper(generation, int(pid), int(started))


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None

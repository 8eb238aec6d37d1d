"""What is left of lives: their processes, found in every way there is, and ended.

Three ways, of which none is enough alone: by the folder (the shim, the program and whoever descends from them), by
the mark in the environment, and by the control group or the PID namespace. A folder may be removed, a shim killed and
an environment written over; whatever is found by any of them is of the pod, and the pod is over when nothing is found.
Used by the supervisor, never on ordinary turns: each question is a look at every process of the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent import process_table
from fairpool.agent.cgroup import Group
from fairpool.agent.process_table import Census

Process = tuple[int, int]
"""A process and when it began."""

LOOK_AGAIN_S = 0.01
REMOVED = " (deleted)"
SHIMS_PROGRAM = b"fairpool.agent.fork_server"


@dataclass(frozen=True, slots=True, kw_only=True)
class Traces:
    """By what the processes of one life are found."""

    mark: str
    shim: Process | None = None
    main: Process | None = None
    namespace: int | None = None
    group: Group | None = None


def remains_of(lives: Sequence[Traces], beside: Collection[int] = ()) -> list[dict[int, int]]:
    """The living processes of each of these, its shim not among them."""
    shims = [life.shim if life.shim and process_table.is_alive(*life.shim) else None for life in lives]
    census = Census({os.getpid(), *beside, *(shim[0] for shim in shims if shim is not None)})
    return [_found(census, life, shim) for life, shim in zip(lives, shims, strict=True)]


def end(lives: Sequence[Traces], patience_s: float, beside: Collection[int] = ()) -> list[dict[int, int]]:
    """Kill what is left of these lives, shims excepted; says what is still there when that took too long."""
    until = time.monotonic() + patience_s
    while True:
        left = remains_of(lives, beside)
        if not any(left):
            return left
        for life, found in zip(lives, left, strict=True):
            if found and life.group is not None:
                life.group.kill()
            process_table.end_family(found)
        if time.monotonic() >= until:
            return left
        time.sleep(LOOK_AGAIN_S)


def homeless_shims(census: Census, pods: Path) -> dict[Process, str]:
    """Shims whose life has no folder any more, with the name that it had."""
    found, start = {}, f"{pods}/"
    for pid, started in census.everybody().items():
        where = process_table.working_folder(pid)
        if where.startswith(start) and where.endswith(REMOVED) and process_table.runs(pid, SHIMS_PROGRAM):
            found[pid, started] = where.removeprefix(start).removesuffix(REMOVED)
    return found


def _found(census: Census, life: Traces, shim: Process | None) -> dict[int, int]:
    known = dict([life.main] if life.main is not None else [])
    # Asked again after the look: were it gone by then, its number could have been another's during it.
    if shim is not None and process_table.is_alive(*shim):
        known |= census.children(shim[0])
    for pid in life.group.members() if life.group is not None else ():
        known[pid] = process_table.start_time(pid) or 0
    return census.family(life.mark, known, life.namespace)

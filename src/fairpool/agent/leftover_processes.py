"""Processes left over from pods: found in every way there is, and killed.

There are three ways, none sufficient alone: by the pod directory (the shim, the program and their descendants), by the
`POD_UUID` in the environment, and by the control group or PID namespace. A directory may be removed, a shim killed and
an environment overwritten; what is found in any way belongs to the pod, and the pod is gone when nothing is found.
Never used on ordinary turns: each call reads every process of the machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairpool.agent import process_table
from fairpool.agent.cgroup import Cgroup
from fairpool.agent.process_table import ProcessList

Process = tuple[int, int]
"""A process and when it began."""

RETRY_S = 0.01
REMOVED = " (deleted)"
SHIMS_PROGRAM = b"fairpool.agent.fork_server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSelector:
    """How the processes of one pod are found."""

    pod_uuid: str
    shim: Process | None = None
    main: Process | None = None
    namespace: int | None = None
    group: Cgroup | None = None


def find_leftovers(selectors: Sequence[ProcessSelector], excluded: Collection[int] = ()) -> list[dict[int, int]]:
    """The living processes of each of these pods, without its shim."""
    shims = [each.shim if each.shim and process_table.is_alive(*each.shim) else None for each in selectors]
    processes = ProcessList({os.getpid(), *excluded, *(shim[0] for shim in shims if shim is not None)})
    return [_found(processes, each, shim) for each, shim in zip(selectors, shims, strict=True)]


def kill_leftovers(
    selectors: Sequence[ProcessSelector], timeout_s: float, excluded: Collection[int] = ()
) -> list[dict[int, int]]:
    """Kill what is left of these pods, shims excepted; returns what is still alive after the timeout."""
    until = time.monotonic() + timeout_s
    while True:
        left = find_leftovers(selectors, excluded)
        if not any(left):
            return left
        for selector, found in zip(selectors, left, strict=True):
            if found and selector.group is not None:
                selector.group.kill()
            process_table.kill_processes(found)
        if time.monotonic() >= until:
            return left
        time.sleep(RETRY_S)


def orphaned_shims(processes: ProcessList, pods: Path) -> dict[Process, str]:
    """Shims whose pod directory was removed, with the name it had."""
    found, start = {}, f"{pods}/"
    for pid, started in processes.all().items():
        where = process_table.working_directory(pid)
        if where.startswith(start) and where.endswith(REMOVED) and process_table.runs(pid, SHIMS_PROGRAM):
            found[pid, started] = where.removeprefix(start).removesuffix(REMOVED)
    return found


def _found(processes: ProcessList, selector: ProcessSelector, shim: Process | None) -> dict[int, int]:
    known = dict([selector.main] if selector.main is not None else [])
    # Checked again after the list was read: had the shim ended meanwhile, its pid could have been reused.
    if shim is not None and process_table.is_alive(*shim):
        known |= processes.children(shim[0])
    for pid in selector.group.members() if selector.group is not None else ():
        known[pid] = process_table.start_time(pid) or 0
    return processes.pod_processes(selector.pod_uuid, known, selector.namespace)

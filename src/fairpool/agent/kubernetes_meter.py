"""CPU, memory and network of the pods on a node of Kubernetes between two samples, from control groups and /proc.

Control groups of version 1 and 2, below `kubepods` as either driver of the kubelet makes them. A group is the pod's as
its outermost name says (`kubernetes_cgroups`); what a pod creates below its own group is never looked at.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fairpool.agent import process_table
from fairpool.agent.kubernetes_cgroups import pod_uid_in, pod_uid_of
from fairpool.agent.machine_meter import interface_bytes
from fairpool.agent.usage import Pair, ResourceUsage, rates

ROOT = "/sys/fs/cgroup"
KUBEPODS = "kubepods"
ABOVE_MAX = 2
"""How many groups may be above `kubepods`: that of a setting of the kubelet (`cgroupRoot`)."""
BELOW_MAX = 2
"""How many are between it and those of pods: one for each quality of service."""
NUMBER_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    at: float
    cpu_s: float | None
    network: Pair | None


class KubernetesMeter:
    """Measures pods, and remembers the last reading. For one thread."""

    def __init__(self, root: str = ROOT) -> None:
        self._is_unified = os.path.exists(f"{root}/cgroup.controllers")
        self._cpu = root if self._is_unified else f"{root}/cpuacct"
        self._memory = root if self._is_unified else f"{root}/memory"
        self._last: dict[str, _Reading] = {}

    def measure(self, uids: Collection[str], sharing_network: Collection[str], at: float) -> dict[str, ResourceUsage]:
        """What each pod used since the last call. `sharing_network`: pods that have the network of their node; `at`:
        now by the monotonic clock."""
        cpu_groups = _pod_groups(self._cpu)
        memory_groups = cpu_groups if self._is_unified else _pod_groups(self._memory)
        processes = _a_process_of_each(frozenset(uids) - frozenset(sharing_network))
        readings, found = {}, {}
        for uid in uids:
            network = interface_bytes(f"/proc/{processes[uid]}/net/dev") if uid in processes else None
            now = _Reading(at=at, cpu_s=self._cpu_s(cpu_groups.get(uid)), network=network)
            memory = self._memory_bytes(memory_groups.get(uid))
            readings[uid], found[uid] = now, _usage(self._last.get(uid), now, memory)
        self._last = readings
        return found

    def _cpu_s(self, group: str | None) -> float | None:
        if group is None:
            return None
        if not self._is_unified:
            nanoseconds = _number(f"{group}/cpuacct.usage")
            return None if nanoseconds is None else nanoseconds / 1e9
        microseconds = _rows(f"{group}/cpu.stat").get("usage_usec")
        return None if microseconds is None else microseconds / 1e6

    def _memory_bytes(self, group: str | None) -> int | None:
        """Without cached files that the kernel can drop at once, as `kubectl top` has it."""
        if group is None:
            return None
        used = _number(f"{group}/{'memory.current' if self._is_unified else 'memory.usage_in_bytes'}")
        droppable = "inactive_file" if self._is_unified else "total_inactive_file"
        return None if used is None else max(0, used - _rows(f"{group}/memory.stat").get(droppable, 0))


def _usage(last: _Reading | None, now: _Reading, memory_bytes: int | None) -> ResourceUsage:
    if last is None or now.at <= last.at:
        return ResourceUsage(memory_bytes=memory_bytes)
    elapsed_s = now.at - last.at
    received, sent = rates(last.network, now.network, elapsed_s)
    is_known = last.cpu_s is not None and now.cpu_s is not None
    cores = max(0.0, (now.cpu_s or 0.0) - (last.cpu_s or 0.0)) / elapsed_s if is_known else None
    return ResourceUsage(cpu_cores=cores, memory_bytes=memory_bytes, received_bytes_s=received, sent_bytes_s=sent)


def _a_process_of_each(uids: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for pid in process_table.pids() if uids else ():
        uid = pod_uid_of(pid)
        if uid in uids:
            found.setdefault(uid, pid)
    return found


def _pod_groups(root: str) -> dict[str, str]:
    """The directories of pods, by uid."""
    return {
        uid: path
        for top in _kubepods(root, ABOVE_MAX)
        for path in _below(top, BELOW_MAX)
        if (uid := pod_uid_in(os.path.basename(path)))
    }


def _kubepods(folder: str, depth: int) -> Iterator[str]:
    for path in _folders(folder):
        if os.path.basename(path).startswith(KUBEPODS):
            yield path
        elif depth > 1:
            yield from _kubepods(path, depth - 1)


def _below(folder: str, depth: int) -> Iterator[str]:
    for path in _folders(folder):
        yield path
        if depth > 1 and not pod_uid_in(os.path.basename(path)):
            yield from _below(path, depth - 1)


def _folders(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read(NUMBER_MAX))
    except (OSError, ValueError):
        return None


def _rows(path: str) -> dict[str, int]:
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except (OSError, ValueError):
        return {}
    return {row[0]: int(row[1]) for row in rows if len(row) == 2 and row[1].isdigit()}

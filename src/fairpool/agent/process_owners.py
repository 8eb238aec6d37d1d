"""Which pod each process of the machine belongs to, with its counters: read once for a sample of all pods.

A process that was once found to be a pod's stays the pod's, so most of them are known from the sample before, and only
new ones are searched for. What a pod cannot forge comes first: descent from its shim, its session, its PID namespace,
its control group. Only then the `POD_UUID` in the environment counts. Nothing here holds a lock.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairpool.agent import process_table
from fairpool.agent.leftover_processes import Process, ProcessSelector
from fairpool.model.ids import NodeName, PodId
from fairpool.model.workload import NO_GPU, GpuRequest

KERNEL_THREADS = 2
"""The parent of all threads of the kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningPod:
    """A pod that runs, and how its processes are found."""

    pod: PodId
    node: NodeName
    devices: tuple[int, ...]
    gpu: GpuRequest = NO_GPU
    selector: ProcessSelector
    directory: str = ""
    is_container: bool = False
    has_relay: bool = False
    """It has a network of its own, and its way out is the relay, which counts what passes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subjects:
    """The pods that are measured."""

    pods: Sequence[RunningPod]
    excluded: Collection[int] = ()
    """Processes that belong to no pod although pods descend from them."""


class ProcessCounters(NamedTuple):
    """One process, zombies too: until it is reaped, its time is in no other counter."""

    pid: int
    started: int
    """In clock ticks since boot."""
    session: int
    own_ticks: int
    """CPU time of all its threads."""
    reaped_ticks: int
    """CPU time of children that it has waited for, and of those that they had."""
    at: float
    """When this was read, by the monotonic clock."""

    @property
    def process(self) -> Process:
        return self.pid, self.started


@dataclass(frozen=True, slots=True)
class PodProcesses:
    """The processes of one pod, and its shim, which is not one of them."""

    rows: Sequence[ProcessCounters] = ()
    shim: ProcessCounters | None = None


class ProcessOwners:
    """The owner of each process, remembered between readings. For one thread."""

    def __init__(self) -> None:
        self._owners: dict[int, tuple[int, PodId | None]] = {}
        """By pid: when the process began and whose it is. None: no pod's."""
        self._before: dict[int, tuple[int, PodId | None]] = {}
        self._pods: frozenset[PodId] = frozenset()

    def read(self, subjects: Subjects) -> dict[PodId, PodProcesses]:
        """The processes of each pod."""
        pods = subjects.pods
        self._forget_foreign(pods)
        table, parents = _read_table()
        shims = {
            each.selector.shim[0]: each.pod
            for each in pods
            if each.selector.shim is not None and _is_in(table, each.selector.shim)
        }
        search = _Search(pods, table, parents, shims, {os.getpid(), *subjects.excluded, *shims})
        owners: dict[int, tuple[int, PodId | None]] = {}
        running = {each.pod for each in pods}
        for pid, row in table.items():
            started, owner = self._owners.get(pid, (-1, None))
            if started == row.started and (owner is None or owner in running):
                search.owners[pid] = owner
        search.run()
        found: dict[PodId, list[ProcessCounters]] = {each.pod: [] for each in pods}
        for pid, row in table.items():
            owner = search.owners[pid]
            owners[pid] = row.started, owner
            if owner is not None:
                found[owner].append(row)
        self._before, self._owners, self._pods = self._owners, owners, frozenset(running)
        rows_of_shims = {pod: table[pid] for pid, pod in shims.items()}
        return {pod: PodProcesses(rows, rows_of_shims.get(pod)) for pod, rows in found.items()}

    def owner(self, pid: int) -> PodId | None:
        """The pod of a process that was there at this reading, or at the one before."""
        known = self._owners.get(pid) or self._before.get(pid)
        return known[1] if known is not None else None

    def is_there(self, pid: int) -> bool:
        """Whether it was there at this reading."""
        return pid in self._owners

    def _forget_foreign(self, pods: Sequence[RunningPod]) -> None:
        """A process that was no pod's may be that of a pod we have not heard of before, if it began after that pod."""
        new = [each.selector.main for each in pods if each.pod not in self._pods]
        since = min((main[1] if main is not None else 0 for main in new), default=None)
        if since is not None:
            foreign = [pid for pid, (started, owner) in self._owners.items() if owner is None and started >= since]
            for pid in foreign:
                del self._owners[pid]


class _Search:
    """Finds the owners of processes that are not known yet."""

    def __init__(
        self,
        pods: Sequence[RunningPod],
        table: Mapping[int, ProcessCounters],
        parents: Mapping[int, int],
        shims: Mapping[int, PodId],
        excluded: set[int],
    ) -> None:
        self._table, self._parents, self._shims, self._excluded = table, parents, shims, excluded
        mains = {each.selector.main: each for each in pods if each.selector.main is not None}
        living = {main[0]: each for main, each in mains.items() if _is_in(table, main)}
        self._mains = {pid: each.pod for pid, each in living.items()}
        # The kernel reuses the inode of a namespace as soon as its first process has ended.
        self._namespaces: dict[int | None, PodId] = {
            each.selector.namespace: each.pod for each in living.values() if each.selector.namespace
        }
        self._uuids = {each.selector.pod_uuid: each.pod for each in pods if each.selector.pod_uuid}
        self._groups = {each.selector.pod_uuid: each.pod for each in pods if each.selector.group is not None}
        self._sessions: dict[int, PodId] = {}
        self.owners: dict[int, PodId | None] = {}

    def run(self) -> None:
        """Fill in the owner of every process."""
        # A child that its shim has just forked is in the shim's session, and so are its first process and its relay.
        no_evidence = {self._table[pid].session for pid in self._excluded if pid in self._table} | {0}
        for pid, owner in self.owners.items():
            if owner is not None and self._table[pid].session not in no_evidence:
                self._sessions[self._table[pid].session] = owner
        for pid in self._table:
            for each in reversed(self._unknown_from(pid)):
                owner = self._owner(each)
                self.owners[each] = owner
                if owner is not None and self._table[each].session not in no_evidence:
                    self._sessions.setdefault(self._table[each].session, owner)

    def _unknown_from(self, pid: int) -> list[int]:
        """It and those above it, up to the first whose owner is known."""
        found: list[int] = []
        seen: set[int] = set()  # the table is not read at one moment, so a reused pid could close a circle
        while pid in self._table and pid not in self.owners and pid not in seen:
            seen.add(pid)
            found.append(pid)
            pid = self._parents[pid]
        return found

    def _owner(self, pid: int) -> PodId | None:
        if pid in self._excluded:
            return None
        parent = self._parents[pid]
        descent = self._mains.get(pid) or self._shims.get(parent) or self.owners.get(parent)
        owner = descent or self._sessions.get(self._table[pid].session)
        if owner is not None or not self._uuids:
            return owner
        inside = self._namespaces.get(process_table.pid_namespace(pid)) if self._namespaces else None
        if inside is not None or parent == KERNEL_THREADS:
            return inside
        group = self._group_of(pid) if self._groups else None
        return group or self._uuids.get(process_table.pod_uuid_of(pid) or "")

    def _group_of(self, pid: int) -> PodId | None:
        """By the first group in its path that is named after a pod; a pod can create groups only below its own."""
        parts = (part for line in process_table.groups(pid) for part in line.split("/"))
        return next((self._groups[part] for part in parts if part in self._groups), None)


def _is_in(table: Mapping[int, ProcessCounters], process: Process | None) -> bool:
    return process is not None and process[0] in table and table[process[0]].started == process[1]


def _read_table() -> tuple[dict[int, ProcessCounters], dict[int, int]]:
    """Every process with its counters, and its parent."""
    table, parents = {}, {}
    for pid in process_table.pids():
        if (fields := process_table.stat_fields(pid)) is not None:
            table[pid] = ProcessCounters(
                pid=pid,
                started=int(fields[19]),
                session=int(fields[3]),
                own_ticks=int(fields[11]) + int(fields[12]),
                reaped_ticks=int(fields[13]) + int(fields[14]),
                at=time.monotonic(),
            )
            parents[pid] = int(fields[1])
    return table, parents

"""CPU time, memory, network and disk of one pod between two samples, from /proc and its control group.

Without a group, what a pod has used is the sum over its processes. One that ended is in the counters of the process
that waited for it, so their growth is added, less what was counted while it lived. What a child used after the last
sample is lost only where its parent has told the kernel that it waits for none (SIGCHLD ignored).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fairpool.agent import process_table
from fairpool.agent.leftover_processes import Process
from fairpool.agent.machine_meter import interface_bytes
from fairpool.agent.pod_port import has_other_network
from fairpool.agent.process_owners import PodProcesses, ProcessCounters, RunningPod
from fairpool.agent.traffic_file import relayed_bytes
from fairpool.agent.usage import Pair, Usage, rates

TICKS_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CORES = os.cpu_count() or 1

Counters = Mapping[Process, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """Counters of one pod at one moment."""

    at: float
    began_ticks: int
    """No process that began later was missed for having begun too late."""
    own_ticks: Counters
    reaped_ticks: Counters
    """With those of its shim."""
    group_cpu_s: float | None
    disk: tuple[Counters, Counters] | None
    """Read and written bytes. None: those of one process could not be read."""
    network: Pair | None
    """Received and sent bytes."""


class PodMeter:
    """Measures one pod, and remembers the last reading of it."""

    def __init__(self) -> None:
        self._last: _Reading | None = None
        self._cpu, self._read, self._written = _Inherited(), _Inherited(), _Inherited()

    def measure(self, pod: RunningPod, processes: PodProcesses, *, began_ticks: int, at: float) -> Usage:
        """What it used since the last call. `at`: now by the monotonic clock, for a pod whose processes have ended."""
        now, last = _read(pod, processes, began_ticks, at), self._last
        self._last = now
        memory = _memory_bytes(pod, processes)
        if last is None or now.at <= last.at:
            return Usage(memory_bytes=memory)
        elapsed_s = now.at - last.at
        received, sent = rates(last.network, now.network, elapsed_s)
        return Usage(
            cpu_cores=min(self._cpu_s(last, now) / elapsed_s, float(CORES)),
            memory_bytes=memory,
            received_bytes_s=received,
            sent_bytes_s=sent,
            read_bytes_s=self._disk_rate(0, self._read, last, now),
            written_bytes_s=self._disk_rate(1, self._written, last, now),
        )

    def _cpu_s(self, last: _Reading, now: _Reading) -> float:
        since = last.began_ticks
        gone = _gone(last.own_ticks, last, now) + _gone(last.reaped_ticks, last, now)
        inherited = self._cpu.growth(_grown(last.reaped_ticks, now.reaped_ticks, since), gone)
        if now.group_cpu_s is not None and last.group_cpu_s is not None:
            return max(0.0, now.group_cpu_s - last.group_cpu_s)
        return (_grown(last.own_ticks, now.own_ticks, since) + inherited) / TICKS_S

    def _disk_rate(self, which: int, inherited: _Inherited, last: _Reading, now: _Reading) -> float | None:
        if last.disk is None or now.disk is None:
            return None
        before, after = last.disk[which], now.disk[which]
        growth = inherited.growth(_grown(before, after, last.began_ticks), _gone(before, last, now))
        return growth / (now.at - last.at)


class _Inherited:
    """Growth of counters that also grow by all of a child that has ended, part of which was counted before."""

    def __init__(self) -> None:
        self._owed = 0

    def growth(self, grown: int, gone: int) -> int:
        """`gone`: what the children that have ended had when they were last counted.

        One may end between the readings of its parent and of itself; then its parent has it at the next one. If it has
        not by then, that parent waits for no children.
        """
        growth, self._owed = grown - gone - self._owed, max(0, gone - grown)
        return max(0, growth)


def _grown(last: Counters, now: Counters, since: int) -> int:
    """Of a process that was there before and was only found now, what it used in between is not known."""
    return sum(value - last.get(each, 0 if each[1] >= since else value) for each, value in now.items())


def _gone(counters: Counters, last: _Reading, now: _Reading) -> int:
    """Of its processes that have ended. Not of a shim: no process of the pod waits for one."""
    return sum(counters.get(each, 0) for each in last.own_ticks.keys() - now.own_ticks.keys())


def _read(pod: RunningPod, processes: PodProcesses, began_ticks: int, at: float) -> _Reading:
    shim = () if processes.shim is None else (processes.shim,)
    group = pod.selector.group
    return _Reading(
        at=max((row.at for row in processes.rows), default=at),
        began_ticks=began_ticks,
        own_ticks={row.process: row.own_ticks for row in processes.rows},
        reaped_ticks={row.process: row.reaped_ticks for row in (*processes.rows, *shim)},
        group_cpu_s=group.cpu_s() if group is not None else None,
        disk=_disk((*processes.rows, *shim)),
        network=_network(pod, processes),
    )


def _disk(rows: Sequence[ProcessCounters]) -> tuple[Counters, Counters] | None:
    """With its shim: that writes the pod's output to the disk, and has the counters of children that it waited for."""
    read, written = {}, {}
    for row in rows:
        counters = process_table.disk_bytes(row.pid)
        if counters is not None:
            read[row.process], written[row.process] = counters
        elif process_table.start_time(row.pid) == row.started:
            return None
    return read, written


def _network(pod: RunningPod, processes: PodProcesses) -> Pair | None:
    """None: it uses the network of the machine, where traffic is not counted by pod."""
    if pod.has_relay:
        return relayed_bytes(pod.directory)
    main = pod.selector.main
    if not pod.is_container or main is None or all(row.process != main for row in processes.rows):
        return None
    return interface_bytes(f"/proc/{main[0]}/net/dev") if has_other_network(main[0]) else None


def _memory_bytes(pod: RunningPod, processes: PodProcesses) -> int | None:
    """What its group counts, less files that are cached and not used. Without a group, memory of each process alone,
    and once as much as the process with most of it has of files and shared memory.

    Processes in the session of the shim are our own: the first of an isolated pod, and the relay.
    """
    group, shim = pod.selector.group, processes.shim
    if group is not None and (counted := group.memory_bytes()) is not None:
        return counted
    own = shared = 0
    for row in processes.rows:
        if shim is not None and row.session == shim.session:
            continue
        if (pages := process_table.memory_pages(row.pid)) is not None:
            own, shared = own + pages[0] - pages[1], max(shared, pages[1])
    return (own + shared) * PAGE_BYTES

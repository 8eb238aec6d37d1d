"""CPU and memory limits of a pod by control groups: version 2 where it has the controllers, else version 1.

A pod without limits gets no group: it costs each start a migration, and its processes are found without one.
Where no group can be created the limits are not enforced, and `Limiter.missing` contains the reason.
Used by the supervisor (which asks what is possible) and by shims (which make, enter and remove a group).
"""

from __future__ import annotations

import errno
import os
import time

from fairpool.agent import process_table
from fairpool.agent.libc import write_kernel_file

V1_PERIOD_US = 100_000
REMOVAL_TRIES = 50
LEAF = "fairpool-server"
"""In version 2 only groups without processes can have children: the server moves to this group below its own."""
PROCESSES_MAX = 16_384
"""Processes and threads of one pod: beyond what work needs, below what hurts a machine."""


class Limiter:
    """Where groups can be created on this machine: found once, passed to shims as plain text."""

    def __init__(self, cpu: str, memory: str, version: int, missing: str) -> None:
        self.cpu, self.memory, self.version, self.missing = cpu, memory, version, missing

    @property
    def is_able(self) -> bool:
        return not self.missing

    def to_json(self) -> dict[str, str | int]:
        return {"cpu": self.cpu, "memory": self.memory, "version": self.version, "missing": self.missing}


def find_limiter(name: str) -> Limiter:
    """Find where this process may create groups below its own; `name` keeps several installations apart."""
    version_2, version_1 = _hierarchies()
    words = "this machine has no cgroups"
    if version_2:
        own = _own_group(version_2, "")
        # Beside our leaf, if we are in one: systemd put us there, or we did at an earlier start of this process.
        base = f"{os.path.dirname(own) if os.path.basename(own) == LEAF else own}/{name}"
        words = _try_version_2(base)
        if not words:
            return Limiter(base, base, 2, "")
    if "cpu" in version_1 and "memory" in version_1:
        cpu = f"{_own_group(version_1['cpu'], 'cpu')}/{name}"
        memory = f"{_own_group(version_1['memory'], 'memory')}/{name}"
        words = _try_directory(cpu) or _try_directory(memory)
        if not words:
            return Limiter(cpu, memory, 1, "")
    return Limiter("", "", 0, words)


class Cgroup:
    """The control group of one pod."""

    def __init__(self, limiter: dict[str, str | int], name: str) -> None:
        self._version = int(limiter["version"])
        self._cpu, self._memory = f"{limiter['cpu']}/{name}", f"{limiter['memory']}/{name}"

    def make(self, cpu_limit_milli: int, memory_limit_bytes: int) -> None:
        for directory in {self._cpu, self._memory}:
            os.makedirs(directory, exist_ok=True)
        if cpu_limit_milli:
            quota_us = max(1000, cpu_limit_milli * V1_PERIOD_US // 1000)
            if self._version == 2:
                write_kernel_file(f"{self._cpu}/cpu.max", f"{quota_us} {V1_PERIOD_US}")
            else:
                write_kernel_file(f"{self._cpu}/cpu.cfs_period_us", str(V1_PERIOD_US))
                write_kernel_file(f"{self._cpu}/cpu.cfs_quota_us", str(quota_us))
        if memory_limit_bytes:
            self._limit_memory(memory_limit_bytes)
        if self._version == 2:
            _write_if_there(f"{self._cpu}/pids.max", str(PROCESSES_MAX))

    def _limit_memory(self, limit_bytes: int) -> None:
        """Swap included, or a pod beyond its limit would slow down the machine instead of ending."""
        if self._version == 2:
            write_kernel_file(f"{self._memory}/memory.max", str(limit_bytes))
            _write_if_there(f"{self._memory}/memory.swap.max", "0")
            # All of it or nothing: a training that lost one of its workers waits for it for ever.
            _write_if_there(f"{self._memory}/memory.oom.group", "1")
        else:
            write_kernel_file(f"{self._memory}/memory.limit_in_bytes", str(limit_bytes))
            _write_if_there(f"{self._memory}/memory.memsw.limit_in_bytes", str(limit_bytes))

    def enter(self) -> None:
        """Put the calling process, and all it starts, under the limits."""
        for directory in {self._cpu, self._memory}:
            write_kernel_file(f"{directory}/cgroup.procs", "0")

    def members(self) -> list[int]:
        """Every process under the limits, also in groups that it created below."""
        found = []
        for directory, _, _ in os.walk(self._memory):
            try:
                found += _members(directory)
            except OSError:  # it was removed meanwhile
                continue
        return found

    def kill(self) -> None:
        """Kill all of them at once, however fast they fork, where the kernel can do that."""
        try:
            _write_if_there(f"{self._memory}/cgroup.kill", "1")
        except OSError:
            return

    def memory_kills(self) -> int:
        """How often the kernel killed a process of the group because memory had run out."""
        report = "memory.events" if self._version == 2 else "memory.oom_control"
        return _row(f"{self._memory}/{report}", "oom_kill") or 0

    def cpu_s(self) -> float | None:
        """CPU time of all that ran in it. None: it is not counted here; with version 1 it is where `cpu` and `cpuacct`
        are mounted together."""
        if self._version == 2:
            used_us = _row(f"{self._cpu}/cpu.stat", "usage_usec")
            return None if used_us is None else used_us / 1e6
        used_ns = _number(f"{self._cpu}/cpuacct.usage")
        return None if used_ns is None else used_ns / 1e9

    def memory_bytes(self) -> int | None:
        """Memory in use, without cached files that can be dropped at any time; None: it cannot be read."""
        if self._version == 2:
            used, cached = (
                _number(f"{self._memory}/memory.current"),
                _row(f"{self._memory}/memory.stat", "inactive_file"),
            )
        else:
            used = _number(f"{self._memory}/memory.usage_in_bytes")
            cached = _row(f"{self._memory}/memory.stat", "total_inactive_file")
        return None if used is None or cached is None else max(0, used - cached)

    def remove(self) -> None:
        """Remove the group; the kernel releases dead members a little late."""
        for directory in {self._cpu, self._memory}:
            for _ in range(REMOVAL_TRIES):
                try:
                    os.rmdir(directory)
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)
                else:
                    break


def names_of_groups(limiter: Limiter) -> list[str]:
    """The names of existing groups of pods."""
    try:
        with os.scandir(limiter.memory or "/nonexistent") as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []


def remove_if_empty(limiter: Limiter) -> None:
    """Remove what `find_limiter` made, unless pods still use it."""
    for directory in {limiter.cpu, limiter.memory} - {""}:
        try:
            os.rmdir(directory)
        except OSError:
            continue


def _hierarchies() -> tuple[str, dict[str, str]]:
    """Where version 2 is mounted, and version 1 by controller."""
    version_2, version_1 = "", {}
    with open("/proc/self/mounts", encoding="utf-8") as file:
        for line in file:
            _, place, kind, options = line.split()[:4]
            if kind == "cgroup2":
                version_2 = place
            elif kind == "cgroup":
                version_1.update(dict.fromkeys(options.split(","), place))
    return version_2, version_1


def _own_group(mounted: str, controller: str) -> str:
    """The directory of the group we are in: below it, limits that are set on us hold for our pods too."""
    own = ""
    with open("/proc/self/cgroup", encoding="utf-8") as file:
        for line in file:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            if controllers == controller or controller in controllers.split(","):
                own = path.rstrip("/")
    # Inside a container the path may be one of the host, which is not mounted here.
    return f"{mounted}{own}" if os.path.isdir(f"{mounted}{own}") else mounted


def _try_version_2(base: str) -> str:
    parent = os.path.dirname(base)
    try:
        with open(f"{parent}/cgroup.controllers", encoding="ascii") as file:
            offered = set(file.read().split())
    except OSError as error:
        return str(error.strerror)
    if not {"cpu", "memory"} <= offered:
        return "its cgroups have no CPU and memory controllers"
    wanted = "+cpu +memory +pids" if "pids" in offered else "+cpu +memory"
    try:
        words = _divide(parent, wanted)
        if not words:
            os.makedirs(base, exist_ok=True)
            write_kernel_file(f"{base}/cgroup.subtree_control", wanted)
    except OSError as error:
        words = str(error.strerror)
    return f"Fairpool cannot create child cgroups in the cgroup it runs in ({words})" if words else ""


def _divide(group: str, wanted: str) -> str:
    """Let groups be created below this one; returns why not. Where only we are in it, we move to a leaf first."""
    try:
        write_kernel_file(f"{group}/cgroup.subtree_control", wanted)
        return ""
    except OSError as error:
        if error.errno != errno.EBUSY:
            raise
    if not _is_delegated(group):
        return f"systemd manages it: set Delegate=yes and DelegateSubgroup={LEAF} in the unit"
    members, me = _members(group), os.getpid()
    for pid in members:
        if pid != me and me not in process_table.ancestors(pid):
            return f"it also contains process {pid}, {process_table.name(pid) or 'name unknown'}"
    os.makedirs(f"{group}/{LEAF}", exist_ok=True)
    for pid in members:
        try:
            write_kernel_file(f"{group}/{LEAF}/cgroup.procs", str(pid))
        except ProcessLookupError:  # it has ended meanwhile
            continue
    write_kernel_file(f"{group}/cgroup.subtree_control", wanted)
    return ""


def _members(group: str) -> list[int]:
    with open(f"{group}/cgroup.procs", encoding="ascii") as file:
        return [int(line) for line in file]


def _is_delegated(group: str) -> bool:
    """Whether we may create groups here: systemd marks those that it delegates. Without systemd, we may."""
    if not os.path.isdir("/run/systemd/system"):
        return True
    for attribute in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(group, attribute) == b"1":
                return True
        except OSError:  # there is none, or it is not readable
            continue
    return False


def _try_directory(base: str) -> str:
    try:
        os.makedirs(base, exist_ok=True)
    except OSError as error:
        return f"cgroups cannot be created here ({error.strerror})"
    return "" if os.access(f"{base}/cgroup.procs", os.W_OK) else "cgroups cannot be used here"


def _row(path: str, name: str) -> int | None:
    """A number in a table of names and numbers; None: it is not there."""
    try:
        with open(path, encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    return next((int(row[1]) for row in rows if row[0] == name), None)


def _number(path: str) -> int | None:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _write_if_there(path: str, text: str) -> None:
    """For what some kernels lack, or were started without."""
    if os.path.exists(path):
        write_kernel_file(path, text)

"""The kernel's process table: identity across pid reuse, descent, and the pod each process belongs to.

Used by shims, so it imports next to nothing: every shim is a copy of its memory.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

POD_UUID = "POD_UUID"
"""The environment variable that identifies a pod's processes when the processes that started them are gone."""

STAT_MAX = 2048
"""Bytes; more than fifty numbers and a short name take. In one call, because it is read at every start."""
STAT_FIELDS = 20
"""As many as are used; the rest is not split."""

GONE = (b"Z", b"X")
"""States of a process that holds no resources any more."""


def boot_id() -> str:
    """The id of this boot; processes of another one are gone."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def booted_at() -> float:
    """When the machine booted, by the current time of day."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: with the pid an identity that is never reused. None: it is gone.

    A zombie counts as gone: it holds nothing, and where its parent does not reap it, it would stay for ever.
    """
    fields = stat_fields(pid)
    return int(fields[19]) if fields is not None and fields[0] not in GONE else None


def is_alive(pid: int, started: int) -> bool:
    """Whether this very process is alive."""
    return start_time(pid) == started


def descendants(pid: int) -> list[int]:
    """Processes below this one, zombies too, parents first."""
    found = [pid]
    for each in found:
        below = _children(each)
        if below is None and each == pid:  # a kernel without such lists: the parent of every process is read
            return _descendants_by_parent(pid)
        found.extend(below or ())
    return found[1:]


def ancestors(pid: int) -> list[int]:
    """The parent of a process, its parent, and so on."""
    found: list[int] = []
    while (fields := stat_fields(found[-1] if found else pid)) is not None and int(fields[1]) > 0:
        found.append(int(fields[1]))
    return found


def name(pid: int) -> str:
    """The name `ps` shows; empty: the process is gone."""
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def working_directory(pid: int) -> str:
    """Empty: the process is gone, or this user may not see it."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def runs(pid: int, words: bytes) -> bool:
    """Whether the command line of a process contains this."""
    return words in _read(f"/proc/{pid}/cmdline")


def _children(pid: int) -> list[int] | None:
    """Children of all threads of a process; with thousands of pods, reading all processes would be too slow."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")
        if not os.path.exists(f"/proc/{pid}/task/{threads[0]}/children"):
            return None
    except (OSError, IndexError):
        return None
    return [int(word) for thread in threads for word in _read(f"/proc/{pid}/task/{thread}/children").split()]


def _descendants_by_parent(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for other in pids():
        if (fields := stat_fields(other)) is not None:
            children.setdefault(int(fields[1]), []).append(other)
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found[1:]


class ProcessList:
    """Every living process, read once and searched for any number of pods.

    Reading costs some 30 microseconds a process, so it is done only when something is unusual.
    """

    __slots__ = ("_by_pod_uuid", "_excluded", "_namespaces", "_table")

    def __init__(self, excluded: Collection[int] = ()) -> None:
        """`excluded`: processes that belong to no pod, whatever their environment: shims, their parent, ourselves."""
        self._excluded = frozenset(excluded)
        self._table: dict[int, tuple[int, int, int]] = {}
        """Parent, session and start time of each."""
        for pid in pids():
            if pid not in excluded and (fields := stat_fields(pid)) is not None and fields[0] not in GONE:
                self._table[pid] = int(fields[1]), int(fields[3]), int(fields[19])
        self._by_pod_uuid: dict[str, set[int]] | None = None
        self._namespaces: dict[int, set[int]] | None = None

    def by_pod_uuid(self) -> dict[str, set[int]]:
        """Processes by the `POD_UUID` each was started with. Those we may not inspect are not ours."""
        if self._by_pod_uuid is None:
            self._by_pod_uuid = {}
            for pid in self._table:
                if (pod_uuid := pod_uuid_of(pid)) is not None:
                    self._by_pod_uuid.setdefault(pod_uuid, set()).add(pid)
        return self._by_pod_uuid

    def in_namespace(self, inode: int) -> set[int]:
        """Processes in a PID namespace; never our own namespace, whatever was recorded."""
        if self._namespaces is None:
            own, self._namespaces = pid_namespace(os.getpid()), {}
            for pid in self._table:
                if (found := pid_namespace(pid)) not in (None, own):
                    self._namespaces.setdefault(found or 0, set()).add(pid)
        return self._namespaces.get(inode, set())

    def all(self) -> dict[int, int]:
        """All processes, each with its start time."""
        return {pid: row[2] for pid, row in self._table.items()}

    def children(self, pid: int) -> dict[int, int]:
        """The children of a process, each with its start time."""
        return {each: row[2] for each, row in self._table.items() if row[0] == pid}

    def pod_processes(self, pod_uuid: str, known: Mapping[int, int], namespace: int | None = None) -> dict[int, int]:
        """Living processes of a pod, each with its start time, found in every way there is.

        They carry its `POD_UUID`, or are `known` (by start time) and alive, or are in its PID namespace; and so are
        their descendants and all in their sessions, because programs may clear their environment or write their title
        over it. Sessions are created inside a pod, so no other process is in one.
        """
        found = {pid for pid, started in known.items() if pid in self._table and self._table[pid][2] == started}
        # The kernel reuses the inode of a namespace as soon as its first process has ended, and nothing is left in it
        # then: without a process known to be in it, the inode is another pod's by now.
        if namespace and not found.isdisjoint(inside := self.in_namespace(namespace)):
            found |= inside
        found |= self.by_pod_uuid().get(pod_uuid, set()) if pod_uuid else set()
        while found:
            # A child that its shim has just forked is in the shim's session, and the shim is not part of the pod.
            sessions = {self._table[pid][1] for pid in found} - self._excluded - {0}
            more = {pid for pid, row in self._table.items() if row[0] in found or row[1] in sessions} - found
            if not more:
                break
            found |= more
        return {pid: self._table[pid][2] for pid in sorted(found)}


def pod_processes(pod_uuid: str, known: Mapping[int, int], namespace: int | None = None) -> dict[int, int]:
    """The processes of one pod; see `ProcessList`."""
    return ProcessList(excluded=(os.getpid(),)).pod_processes(pod_uuid, known, namespace)


def pid_namespace(pid: int) -> int | None:
    """The inode of the PID namespace a process is in; None: it is gone, or this user may not see it."""
    try:
        return int(os.readlink(f"/proc/{pid}/ns/pid")[len("pid:[") : -1])
    except (OSError, ValueError):
        return None


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by a signal or a debugger."""
    fields = stat_fields(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def send(pid: int, number: int, *, only_if: Callable[[int], bool]) -> None:
    """Signal a process, and never one that got its pid meanwhile: opened first, then checked."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        return
    try:
        if only_if(pid):
            signal.pidfd_send_signal(handle, number)
    except (ProcessLookupError, PermissionError):
        return
    finally:
        os.close(handle)


def kill_processes(found: Mapping[int, int]) -> None:
    """Kill these; stopped first, or a fork could escape."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid, started in found.items():
            send(pid, number, only_if=partial(is_alive, started=started))


def pod_uuid_of(pid: int) -> str | None:
    """The `POD_UUID` a process was started with."""
    prefix = f"{POD_UUID}=".encode()
    found = (line[len(prefix) :] for line in _environment(pid) if line.startswith(prefix))
    # Any program can write any bytes there.
    return next((value.decode(errors="replace") for value in found), None)


def groups(pid: int) -> list[str]:
    """The paths of the control groups a process is in; none: it is gone."""
    lines = _read(f"/proc/{pid}/cgroup").decode(errors="replace").splitlines()
    return [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]


def memory_pages(pid: int) -> tuple[int, int] | None:
    """Pages of memory that a process has, and how many of them others may share: files and shared memory. None: it is
    gone."""
    words = _read(f"/proc/{pid}/statm").split()
    return (int(words[1]), int(words[2])) if len(words) > 2 else None


def disk_bytes(pid: int) -> tuple[int, int] | None:
    """Bytes that a process, its threads and the children it has waited for read from disks and wrote to them. None: it
    is gone, or this user may not see it."""
    found = dict(line.split(b": ") for line in _read(f"/proc/{pid}/io").splitlines() if b": " in line)
    try:
        return int(found[b"read_bytes"]), int(found[b"write_bytes"])
    except (KeyError, ValueError):
        return None


def pids() -> Iterator[int]:
    """The pids of all processes."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/environ").split(b"\0")


def stat_fields(pid: int) -> list[bytes] | None:
    """The fields after the name, which may itself hold blanks, brackets and line breaks: state, parent, …, 11 to 14:
    CPU time, 19: start time. None: it is gone."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, STAT_MAX)
    except OSError:  # it ended between the two calls
        return None
    finally:
        os.close(fd)
    return text[text.rindex(b")") + 2 :].split(None, STAT_FIELDS) if text else None


def _read(path: str) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = []
        while part := os.read(fd, 65536):
            parts.append(part)
        return b"".join(parts)
    except OSError:  # it ended between the two calls
        return b""
    finally:
        os.close(fd)

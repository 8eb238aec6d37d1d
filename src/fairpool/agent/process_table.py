"""What the kernel says about processes: who is who across pid reuse, who descends from whom, who carries a mark.

Read by shims and by the supervisor, so it imports next to nothing: every shim is a copy of its memory.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial

POD_MARK = "POD_UUID"
"""The variable by which a pod's processes are known when nobody who started them is left."""

STAT_MAX = 2048
"""More than fifty numbers and a short name take up; in one call, for it is read at every start."""
STAT_FIELDS = 20
"""As many as anybody asks for; the rest stays in one piece."""

GONE = (b"Z", b"X")
"""States of a process that holds nothing any more."""


def boot_id() -> str:
    """Which boot this is; processes of another one are gone."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def booted_at() -> float:
    """When the machine was started, by the time of day as it is now."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def start_time(pid: int) -> int | None:
    """When a process began, in clock ticks since boot: with the pid a name that is never reused. None: it is gone.

    A zombie counts as gone: it holds nothing, and where nobody collects children it would stay for ever.
    """
    fields = _stat(pid)
    return int(fields[19]) if fields is not None and fields[0] not in GONE else None


def is_alive(pid: int, started: int) -> bool:
    """Whether this very process still runs."""
    return start_time(pid) == started


def descendants(pid: int) -> list[int]:
    """Processes below this one, zombies too, parents first."""
    found = [pid]
    for each in found:
        below = _children(each)
        if below is None and each == pid:  # a kernel that keeps no such list, so everyone is asked for its parent
            return _descendants_by_parent(pid)
        found.extend(below or ())
    return found[1:]


def ancestors(pid: int) -> list[int]:
    """The parent of a process, its parent, and so on."""
    found: list[int] = []
    while (fields := _stat(found[-1] if found else pid)) is not None and int(fields[1]) > 0:
        found.append(int(fields[1]))
    return found


def name(pid: int) -> str:
    """What `ps` shows of a process; empty: it is gone."""
    return _read(f"/proc/{pid}/comm").decode(errors="replace").strip()


def working_folder(pid: int) -> str:
    """Where a process is; empty: it is gone, or not ours to look at."""
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def runs(pid: int, words: bytes) -> bool:
    """Whether the command line of a process has these words in it."""
    return words in _read(f"/proc/{pid}/cmdline")


def _children(pid: int) -> list[int] | None:
    """Children of all threads of a process; with thousands of pods, looking through all processes would not do."""
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
        if (fields := _stat(other)) is not None:
            children.setdefault(int(fields[1]), []).append(other)
    found = [pid]
    for each in found:
        found.extend(children.get(each, ()))
    return found[1:]


class Census:
    """Every process that holds something, at one moment: looked at once, asked about any number of pods.

    A look costs some 30 microseconds a process, so nobody takes one as long as nothing is odd.
    """

    __slots__ = ("_beside", "_marks", "_namespaces", "_table")

    def __init__(self, beside: Collection[int] = ()) -> None:
        """`beside`: processes that are nobody's pod, whatever they carry: shims, their parent, ourselves."""
        self._beside = frozenset(beside)
        self._table: dict[int, tuple[int, int, int]] = {}
        """Parent, session and start time of each."""
        for pid in pids():
            if pid not in beside and (fields := _stat(pid)) is not None and fields[0] not in GONE:
                self._table[pid] = int(fields[1]), int(fields[3]), int(fields[19])
        self._marks: dict[str, set[int]] | None = None
        self._namespaces: dict[int, set[int]] | None = None

    def marks(self) -> dict[str, set[int]]:
        """Processes by the mark that each was started with. Those we may not look at are not ours."""
        if self._marks is None:
            self._marks = {}
            for pid in self._table:
                if (mark := mark_of(pid)) is not None:
                    self._marks.setdefault(mark, set()).add(pid)
        return self._marks

    def in_namespace(self, inode: int) -> set[int]:
        """Processes in a PID namespace; never ours, whatever somebody wrote down."""
        if self._namespaces is None:
            own, self._namespaces = pid_namespace(os.getpid()), {}
            for pid in self._table:
                if (found := pid_namespace(pid)) not in (None, own):
                    self._namespaces.setdefault(found or 0, set()).add(pid)
        return self._namespaces.get(inode, set())

    def everybody(self) -> dict[int, int]:
        """All of them, each with its start time."""
        return {pid: row[2] for pid, row in self._table.items()}

    def children(self, pid: int) -> dict[int, int]:
        """Whoever a process has started or inherited, each with its start time."""
        return {each: row[2] for each, row in self._table.items() if row[0] == pid}

    def family(self, mark: str, known: Mapping[int, int], namespace: int | None = None) -> dict[int, int]:
        """Living processes of a pod, each with its start time, found in every way there is.

        They carry its mark, or are `known` (by start time) and still live, or are in its PID namespace; and so are
        whoever descends from one of these or shares its session, because programs may clear their environment or write
        their title over it. Sessions are made inside a pod, so no stranger is in one.
        """
        found = {pid for pid, started in known.items() if pid in self._table and self._table[pid][2] == started}
        # The kernel gives the number of a namespace away again as soon as its first process has ended, and nothing is
        # left in it then: without a process that we know to be in it, it is the next pod's.
        if namespace and not found.isdisjoint(inside := self.in_namespace(namespace)):
            found |= inside
        found |= self.marks().get(mark, set()) if mark else set()
        while found:
            # A child that its shim has just forked is in the shim's session, and the shim is not of the pod.
            sessions = {self._table[pid][1] for pid in found} - self._beside - {0}
            more = {pid for pid, row in self._table.items() if row[0] in found or row[1] in sessions} - found
            if not more:
                break
            found |= more
        return {pid: self._table[pid][2] for pid in sorted(found)}


def family(mark: str, known: Mapping[int, int], namespace: int | None = None) -> dict[int, int]:
    """The family of one pod; see `Census`."""
    return Census(beside=(os.getpid(),)).family(mark, known, namespace)


def pid_namespace(pid: int) -> int | None:
    """The inode of the PID namespace a process is in; None: it is gone, or not ours to look at."""
    try:
        return int(os.readlink(f"/proc/{pid}/ns/pid")[len("pid:[") : -1])
    except (OSError, ValueError):
        return None


def is_stopped(pid: int) -> bool:
    """Whether somebody has stopped a process, by a signal or as a debugger does."""
    fields = _stat(pid)
    return fields is not None and fields[0] in (b"T", b"t")


def send(pid: int, number: int, *, only_if: Callable[[int], bool]) -> None:
    """Signal a process, and never somebody who got its number meanwhile: held first, then looked at once more."""
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


def end_family(found: Mapping[int, int]) -> None:
    """Kill these; stopped first, or a fork could slip past."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid, started in found.items():
            send(pid, number, only_if=partial(is_alive, started=started))


def mark_of(pid: int) -> str | None:
    """The `POD_UUID` a process was started with."""
    prefix = f"{POD_MARK}=".encode()
    return next((line[len(prefix) :].decode() for line in _environment(pid) if line.startswith(prefix)), None)


def pids() -> Iterator[int]:
    """Every process there is."""
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _environment(pid: int) -> list[bytes]:
    return _read(f"/proc/{pid}/environ").split(b"\0")


def _stat(pid: int) -> list[bytes] | None:
    """The fields after the name, which may itself hold blanks and brackets: state, parent, …, 19: start time."""
    try:
        fd = os.open(f"/proc/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        text = os.read(fd, STAT_MAX)
    except OSError:  # it went away between the two calls
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
    except OSError:  # it went away between the two calls
        return b""
    finally:
        os.close(fd)

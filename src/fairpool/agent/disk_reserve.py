"""Keeps a reserve of disk space for the server, and stops the pod that fills the disk.

The reserve is a file that takes up space and contains nothing. A pod that writes faster than the disk is checked fills
it up to the reserve; then the pod is found and stopped, and the file is removed, so that databases and exit records can
be written. It is created again when there is room. Which pod it was is measured only when space is low: what each has
written lately to the directories that it may write, and to deleted files that it still holds open. Change times decide,
because a program cannot set them.
"""

from __future__ import annotations

import os
import signal
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from fairpool.agent import process_table
from fairpool.model.ids import PodId
from fairpool.model.observation import EVICTED

RESERVE_BYTES = 1 << 30
SMALLEST_BYTES = 16 << 20
"""A smaller reserve would not last for as long as it takes to stop a pod."""
SHARE = 4
"""At most this part of the free space: a reserve must not be what fills a small disk."""
LATELY_S = 120.0
SETTLE_S = 10.0
"""After a pod was stopped its directories are removed; no other pod is evicted before that."""
ENTRIES_MAX = 200_000
MEASURE_S = 3.0
PIECE_BYTES = 64 << 20
BLOCK = 512
"""Bytes in what `st_blocks` counts."""


class Reserve:
    """A file of so many bytes that is removed when the disk is full."""

    def __init__(self, file: Path, wanted_bytes: int = RESERVE_BYTES) -> None:
        self.file, self.wanted_bytes = file, wanted_bytes
        self.bytes = 0
        """What is reserved when there is room; less than what is wanted on a small disk."""
        self.words = ""
        """Why that is less."""

    @property
    def held_bytes(self) -> int:
        try:
            return os.stat(self.file, follow_symlinks=False).st_blocks * BLOCK
        except OSError:
            return 0

    @property
    def free_bytes(self) -> int:
        disk = os.statvfs(self.file.parent)
        return disk.f_bavail * disk.f_frsize

    def measure(self) -> str:
        """Decide how much is reserved; returns a warning if that is less than what is wanted."""
        room = self.free_bytes + self.held_bytes
        self.bytes = min(self.wanted_bytes, room // SHARE)
        if self.bytes < SMALLEST_BYTES:
            self.bytes = 0
        kept = f"only {_size(self.bytes)}" if self.bytes else "nothing"
        self.words = (
            f"{kept} is reserved instead of {_size(self.wanted_bytes)}, because {_size(room)} of the disk is free"
        )
        if self.bytes == self.wanted_bytes:
            self.words = ""
        return self.words

    def grow(self) -> None:
        """Reserve more where the disk was too full for it at the start and has room by now; never less."""
        if self.bytes == self.wanted_bytes:
            return
        before, words = self.bytes, self.words
        self.measure()
        if self.bytes < self.wanted_bytes and self.bytes - before <= before // 4:  # not for every file that is removed
            self.bytes, self.words = before, words

    def hold(self, is_stopping: Callable[[], bool] = lambda: False) -> bool:
        """Create the file, or make it as large as it should be; returns whether it is. Takes a while on some disks."""
        if not self.bytes:
            self.release()
            return True
        with suppress(OSError):
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            handle = os.open(self.file, flags, 0o600)
            try:
                if os.fstat(handle).st_size > self.bytes:
                    os.ftruncate(handle, self.bytes)
                for start in range(0, self.bytes, PIECE_BYTES):
                    if is_stopping():
                        return False
                    os.posix_fallocate(handle, start, min(PIECE_BYTES, self.bytes - start))
                return True
            finally:
                os.close(handle)
        self.release()  # there was no room for all of it
        return False

    def shrink(self) -> None:
        """Give a little back: enough to write a stop notice, and too little for the pod to write on for long."""
        with suppress(OSError):
            os.truncate(self.file, max(0, os.stat(self.file).st_size - max(self.bytes // 8, 1 << 20)))

    def release(self) -> None:
        """Remove the file."""
        with suppress(OSError):
            os.unlink(self.file)

    @property
    def is_low(self) -> bool:
        """Whether what is free, with the reserve, has come down to the reserve."""
        return bool(self.bytes) and self.free_bytes + self.held_bytes < self.bytes + self.bytes // 4

    @property
    def is_critical(self) -> bool:
        """Whether databases may not find room soon."""
        return self.free_bytes < max(self.bytes // 16, 1 << 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Writer:
    """A running pod, and where it can write on this machine."""

    pod: PodId
    name: str
    project: str
    pod_uuid: str
    main: tuple[int, int] | None
    directories: Mapping[str, str]
    """Each with a description: `its scratch`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """A pod that filled the disk."""

    writer: Writer
    bytes: int
    where: str

    @property
    def words(self) -> str:
        return f"it filled the disk: {_size(self.bytes)} written to {self.where}"

    @property
    def reason(self) -> str:
        return f"{EVICTED}{self.words}"


class DiskWatch:
    """Checks the disk and evicts the pod that fills it."""

    def __init__(
        self,
        reserve: Reserve,
        writers: Callable[[], Sequence[Writer]],
        stop: Callable[[PodId, str], None],
        note: Callable[[str, Mapping[str, object]], None],
    ) -> None:
        self._reserve, self._writers, self._stop, self._note = reserve, writers, stop, note
        self._not_before = float("-inf")
        self._was_low = False
        self._sent: dict[PodId, int] = {}
        """What each pod had sent to disks when space became low."""

    def check(self) -> Eviction | None:
        """Check once; returns the eviction, if there was one."""
        reserve = self._reserve
        if not reserve.is_low:
            self._recover()
            return None
        if not self._was_low:
            self._was_low = True
            self._note("disk space is low", {"free_bytes": reserve.free_bytes, "reserve_bytes": reserve.bytes})
        evicted = self._evict() if time.monotonic() >= self._not_before or reserve.is_critical else None
        if reserve.is_critical and reserve.held_bytes:
            reserve.release()
            self._note("disk reserve released", {"free_bytes": reserve.free_bytes})
        return evicted

    def _evict(self) -> Eviction | None:
        reserve = self._reserve
        at_least = max(reserve.bytes // 16, 1 << 20)
        eviction = culprit(self._writers(), reserve.file, at_least=at_least, sent_before=self._sent)
        if eviction is None:
            return None
        writer = eviction.writer
        if reserve.is_critical:
            _freeze(writer)  # or it would take what is given back before its stop notice can be written
            reserve.shrink()
        fields = {"pod": writer.pod, "workload": writer.name, "project": writer.project}
        self._note("pod evicted", {**fields, "reason": eviction.words})
        self._stop(writer.pod, eviction.reason)
        self._not_before = time.monotonic() + SETTLE_S
        return eviction

    def _recover(self) -> None:
        reserve = self._reserve
        self._sent.clear()
        reserve.grow()
        if reserve.bytes and reserve.held_bytes < reserve.bytes and reserve.free_bytes >= 2 * reserve.bytes:
            is_held = reserve.hold()
            if is_held and self._was_low:
                self._was_low = False
                self._note("disk space recovered", {"free_bytes": reserve.free_bytes, "reserve_bytes": reserve.bytes})
        elif reserve.held_bytes >= reserve.bytes:
            self._was_low = False


def culprit(
    writers: Sequence[Writer], file: Path, *, at_least: int, sent_before: dict[PodId, int] | None = None
) -> Eviction | None:
    """The pod that has written most lately to the disk of a file; None: no pod has written much.

    Where there are too many files to look at, what a pod has sent to disks since `sent_before` counts, which is filled
    for the next time.
    """
    device = os.stat(file.parent).st_dev
    since, end = time.time() - LATELY_S, time.monotonic() + MEASURE_S
    processes, before = process_table.ProcessList(excluded=(os.getpid(),)), {} if sent_before is None else sent_before
    processes_by_pod = {writer.pod: list(_pod_processes(writer, processes)) for writer in writers}
    for pod, pids in processes_by_pod.items():
        before.setdefault(pod, _bytes_sent(pids))
    found = []
    for place, writer in enumerate(sorted(writers, key=lambda each: each.pod)):
        now, pids = time.monotonic(), processes_by_pod[writer.pod]
        # A share for each; what one does not need is for those after it.
        measurement = _Measurement(device=device, since=since, until=now + max(0.0, end - now) / (len(writers) - place))
        used = {words: measurement.lately(directory) for directory, words in writer.directories.items()}
        used["deleted files that it keeps open"] = _removed(pids, device)
        where, _ = max(used.items(), key=lambda each: each[1], default=("", 0))
        sent = _bytes_sent(pids)
        total = sum(used.values())
        if measurement.is_cut_off and sent - before[writer.pod] > total:
            total, where = sent - before[writer.pod], "more files than can be looked at"
        if total >= at_least:
            found.append((total, sent, Eviction(writer=writer, bytes=total, where=where)))
    # Pods that share a directory have written the same to it: then the one that has sent more to the disk.
    return max(found, key=lambda each: each[:2])[2] if found else None


@dataclass(slots=True, kw_only=True)
class _Measurement:
    """One measurement of the directories of a pod."""

    device: int
    since: float
    until: float
    entries: int = 0
    is_cut_off: bool = False
    seen: set[int] = field(default_factory=set)

    def lately(self, directory: str) -> int:
        """Bytes of files in a tree that were changed lately; links are not followed, and the time is bounded."""
        total, directories = 0, [directory]
        while directories:
            with suppress(OSError), os.scandir(directories.pop()) as found:
                for entry in found:
                    self.entries += 1
                    if self.entries > ENTRIES_MAX or time.monotonic() > self.until:
                        self.is_cut_off = True
                        return total
                    with suppress(OSError):
                        about = entry.stat(follow_symlinks=False)
                        if about.st_dev != self.device or about.st_ino in self.seen:
                            continue
                        if stat.S_ISDIR(about.st_mode):
                            directories.append(entry.path)
                        elif about.st_ctime >= self.since:
                            self.seen.add(about.st_ino)
                            total += about.st_blocks * BLOCK
        return total


def _pod_processes(writer: Writer, processes: process_table.ProcessList) -> dict[int, int]:
    return processes.pod_processes(writer.pod_uuid, dict([writer.main] if writer.main else []))


def _removed(pids: Iterable[int], device: int) -> int:
    """Bytes of deleted files that these processes hold open."""
    found: dict[int, int] = {}
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    about = os.stat(f"/proc/{pid}/fd/{name}")
                    if stat.S_ISREG(about.st_mode) and about.st_dev == device and about.st_nlink == 0:
                        found[about.st_ino] = about.st_blocks * BLOCK
    return sum(found.values())


def _freeze(writer: Writer) -> None:
    for pid, started in _pod_processes(writer, process_table.ProcessList(excluded=(os.getpid(),))).items():
        process_table.send(pid, signal.SIGSTOP, only_if=partial(process_table.is_alive, started=started))


def _bytes_sent(pids: Iterable[int]) -> int:
    """What these processes have sent to any disk, as counted by the kernel."""
    return sum(counted[1] for pid in pids if (counted := process_table.disk_bytes(pid)) is not None)


def _size(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size // 2**20} MiB"

"""The ring of past cycles: snapshots of the latest 200 cycles in which something had changed, as files.

A decision that surprises can then be planned again after the fact, with `fairpool plan`. A snapshot holds what the
scheduler reads and nothing else: no command, argument or environment. A thread of its own writes the files and uses at
most a twentieth of one CPU; a cycle for which it has no time is left out, and the numbers show the gap.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fairpool.model.ids import Instant, PoolName
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import to_bytes

log = logging.getLogger("fairpool.cluster")

CYCLES_MAX = 200
BYTES_MAX = 256 * 1024 * 1024
PENDING_MAX = 8
"""Snapshots that wait to be written; when there are more, the oldest is left out."""
SHARE = 20
"""After writing for a second, the thread pauses for this many."""
SUFFIX = ".snapshot"


@dataclass(frozen=True, slots=True)
class KeptCycle:
    """A file of the ring."""

    number: int
    taken_at: Instant
    pool: PoolName
    path: Path
    size_bytes: int


class CycleRing:
    """Past cycles in one directory, which has no other use."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._number = max((each.number for each in self.kept()), default=0)
        self._last: dict[PoolName, Snapshot] = {}
        self._pending: deque[tuple[int, PoolName, Snapshot]] = deque(maxlen=PENDING_MAX)
        self._wake = threading.Event()
        self._is_stopping = False
        self._is_failing = False
        self._thread = threading.Thread(target=self._run, name="cycle-ring", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """Write what is pending, and end."""
        self._is_stopping = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def offer(self, pool: PoolName, snapshot: Snapshot) -> None:
        """Called by the loop; costs next to nothing."""
        self._number += 1
        self._pending.append((self._number, pool, snapshot))
        self._wake.set()

    def kept(self) -> list[KeptCycle]:
        """The cycles that are kept, the oldest first."""
        return sorted(self._files(), key=lambda each: each.number)

    def read(self, number: int) -> bytes | None:
        """The snapshot of a cycle, as the bytes of a file; None: it is not kept, or not any more."""
        found = next((each for each in self._files() if each.number == number), None)
        try:
            return found.path.read_bytes() if found is not None else None
        except OSError:
            return None

    # --- the thread ---

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            while self._pending:
                began = time.monotonic()
                self._write(*self._pending.popleft())
                spent_s = time.monotonic() - began
                if not self._is_stopping:
                    time.sleep(min(SHARE * spent_s, 60.0))
            if self._is_stopping:
                return

    def _write(self, number: int, pool: PoolName, snapshot: Snapshot) -> None:
        before = self._last.get(pool)
        if before is not None and replace(before, now=snapshot.now) == snapshot:
            return
        self._last[pool] = snapshot
        path = self._directory / f"{number:012}.{snapshot.now}.{pool}{SUFFIX}"
        try:
            _write_whole(path, to_bytes(snapshot))
            self._drop_oldest()
            self._is_failing = False
        except OSError as error:
            if not self._is_failing:
                log.warning("past cycles are not kept: %s cannot be written (%s)", self._directory, error.strerror)
            self._is_failing = True

    def _drop_oldest(self) -> None:
        kept = self.kept()
        size = sum(each.size_bytes for each in kept)
        while kept and (len(kept) > CYCLES_MAX or size > BYTES_MAX):
            oldest = kept.pop(0)
            size -= oldest.size_bytes
            oldest.path.unlink(missing_ok=True)

    def _files(self) -> Iterator[KeptCycle]:
        try:
            names = os.listdir(self._directory)
        except OSError:
            return
        for name in names:
            number, _, rest = name.removesuffix(SUFFIX).partition(".")
            taken_at, _, pool = rest.partition(".")
            if name.endswith(SUFFIX) and number.isdigit() and taken_at.isdigit():
                path = self._directory / name
                with suppress(OSError):  # dropped meanwhile
                    size = path.stat().st_size
                    yield KeptCycle(int(number), Instant(int(taken_at)), PoolName(pool), path, size)


def _write_whole(path: Path, data: bytes) -> None:
    """So that a file of the ring is never there in part. It need not survive a power cut."""
    beside = path.with_suffix(".part")
    try:
        beside.write_bytes(data)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)

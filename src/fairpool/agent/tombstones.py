"""Tombstones: pods that are over and must not start again, in files for each boot of the machine.

Needed only within a boot: an order for another one is void in any case. And not for ever: only a very old copy of the
ledger would order a pod that ended thousands of pods ago. So a full file is renamed and replaces the older one; the two
together always contain at least as many of the latest pods as fit into one.

Several processes may append, each under the engine's token lock, and each reads what the others wrote.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from fairpool.agent.durable import write_all
from fairpool.model.ids import PodId

KEPT = 10_000
"""Pods in a file: at least so many of the latest are known, and at most twice as many."""
OLDER = ".older"


class Tombstones:
    """Which pods are over, and why."""

    def __init__(self, directory: Path, boot_id: str, kept: int = KEPT) -> None:
        directory.mkdir(exist_ok=True)
        self._path, self._older = directory / boot_id, directory / f"{boot_id}{OLDER}"
        for old in directory.iterdir():
            if old not in (self._path, self._older):
                old.unlink()
        self._kept = kept
        self._words: dict[str, str] = {}
        self._words_before: dict[str, str] = {}
        self._fd = -1
        self._begin()

    def words(self, pod: PodId) -> str | None:
        """Why a pod is over, if it is."""
        self._catch_up()
        return self._words.get(pod) or self._words_before.get(pod)

    def add(self, words: str, *pods: PodId) -> None:
        self._catch_up()
        new = [pod for pod in pods if pod not in self._words and pod not in self._words_before]
        if new:
            # Begins with a line break, so that a line cut off by a crash or a full disk damages only itself.
            write_all(self._fd, "".join(f"\n{json.dumps([pod, words])}\n" for pod in new).encode())
            self._catch_up()
            if len(self._words) >= self._kept:
                self._path.replace(self._older)
                self._begin()

    def close(self) -> None:
        os.close(self._fd)

    def _begin(self) -> None:
        """Read both files from their beginning."""
        if self._fd >= 0:
            os.close(self._fd)
        self._words_before = _read(self._older.read_bytes()) if self._older.exists() else {}
        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fstat(self._fd).st_ino
        self._words, self._read_bytes = {}, 0
        self._read_on()

    def _catch_up(self) -> None:
        try:
            now = os.stat(self._path)
        except FileNotFoundError:
            self._begin()
            return
        if now.st_ino != self._file:
            self._begin()  # another process began another file
        elif now.st_size != self._read_bytes:
            self._read_on()

    def _read_on(self) -> None:
        data = os.pread(self._fd, os.fstat(self._fd).st_size - self._read_bytes, self._read_bytes)
        whole = data[: data.rfind(b"\n") + 1]
        self._words |= _read(whole)
        self._read_bytes += len(whole)


def _read(data: bytes) -> dict[str, str]:
    found = {}
    for line in data.splitlines():
        with suppress(ValueError, TypeError):
            pod, words = json.loads(line)
            found[pod] = sys.intern(words)  # nearly all are the same
    return found

"""Lives that are over and must not start any more, in one file for each boot of the machine.

Needed only within a boot: an order for another one is void in any case. Several processes may append, each under the
lock of whoever gives orders, and each reads what the others wrote.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from fairpool.model.ids import PodId


class Tombstones:
    """Which lives are over, and in a few words why."""

    def __init__(self, folder: Path, boot_id: str) -> None:
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            if old.name != boot_id:
                old.unlink()
        self._fd = os.open(folder / boot_id, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._read_bytes = 0
        self._words: dict[str, str] = {}

    def words(self, pod: PodId) -> str | None:
        """Why a life is over, if it is."""
        if os.fstat(self._fd).st_size != self._read_bytes:
            self._read_on()
        return self._words.get(pod)

    def add(self, pod: PodId, words: str) -> None:
        if self.words(pod) is None:
            # Begun with a line break, so that one that was cut off by a crash spoils only itself.
            os.write(self._fd, f"\n{json.dumps([pod, words])}\n".encode())
            self._read_on()

    def close(self) -> None:
        os.close(self._fd)

    def _read_on(self) -> None:
        data = os.pread(self._fd, os.fstat(self._fd).st_size - self._read_bytes, self._read_bytes)
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            with suppress(ValueError):
                pod, words = json.loads(line)
                self._words[pod] = words
        self._read_bytes += len(whole)

"""The thread that guards the disk: keeps a reserve for the server, and evicts the pod that fills it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fairpool.agent.disk_reserve import DiskWatch, Reserve
from fairpool.agent.supervisor import Supervisor

log = logging.getLogger("fairpool.disk")

CHECK_S = 0.5
"""A disk takes some seconds to write as much as is reserved."""


class DiskGuard:
    """Checks the disk until it is stopped. An error is logged once, and never ends it."""

    def __init__(self, file: Path, wanted_bytes: int, supervisor: Supervisor) -> None:
        self._reserve = Reserve(file, wanted_bytes)
        self._watch = DiskWatch(self._reserve, supervisor.writers, supervisor.evict, _note)
        self._stopping = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, name="disk", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """The reserve stays on the disk: pods write on, and the next start needs room."""
        self._stopping.set()
        if self._thread.is_alive():  # if the start-up failed before, it was never started
            self._thread.join(timeout_s)

    @property
    def words(self) -> str:
        """A warning if the reserve is smaller than requested."""
        return self._reserve.words

    @property
    def status(self) -> dict[str, Any]:
        """For `fairpool status`."""
        try:
            free, held = self._reserve.free_bytes, self._reserve.held_bytes
        except OSError:
            free, held = 0, 0
        return {"free_bytes": free, "held_bytes": held, "reserve_bytes": self._reserve.bytes, "words": self.words}

    def _run(self) -> None:
        self._try(self._begin)
        while not self._stopping.wait(CHECK_S):
            self._try(self._watch.check)

    def _begin(self) -> None:
        if words := self._reserve.measure():
            log.warning("disk reserve is smaller than requested", extra={"fields": {"words": words}})
        self._reserve.hold(self._stopping.is_set)

    def _try(self, step: Any) -> None:
        try:
            step()
            self._error = ""
        except Exception as error:
            if str(error) != self._error:
                log.exception("the disk check failed; it will be retried")
            self._error = str(error)


def _note(event: str, fields: Mapping[str, object]) -> None:
    log.warning(event, extra={"fields": dict(fields)})

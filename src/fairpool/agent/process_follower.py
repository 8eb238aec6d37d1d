"""Follows the processes of a pod whose shim was killed, for the replacement shim, which is not their parent.

Imports next to nothing, because it is part of every shim.
"""

from __future__ import annotations

import os
import select
import time

from fairpool.agent import main_process, process_table
from fairpool.agent.cgroup import Cgroup

CHECK_AGAIN_S, CHECK_S = 0.1, 2.0
"""Between two readings of the process table: when nothing was found, and while the found processes are followed."""
FOLLOWED_MAX = 64
"""Processes whose end is reported by a pidfd; of more, the process table is read."""


class ProcessFollower:
    """Finds the pod's processes, and is woken when one of them ends."""

    def __init__(self, poll: select.poll, pod_uuid: str, group: Cgroup | None) -> None:
        self.pod_uuid, self._group, self._poll = pod_uuid, group, poll
        self._processes: dict[int, int] = {}
        """Those found last, with when each began."""
        self._followed: dict[int, int] = {}
        self._times_empty = 0
        self.check_at = 0.0

    def add(self, pid: int, started: int) -> None:
        self._processes[pid] = started

    def find(self) -> dict[int, int]:
        """The living processes of the pod, each with when it began."""
        known = dict(self._processes)
        for pid in self._group.members() if self._group is not None else ():
            known[pid] = process_table.start_time(pid) or 0
        main = main_process.recorded(".")
        self._processes = process_table.pod_processes(self.pod_uuid, known, main[3] if main is not None else None)
        return self._processes

    def are_gone(self) -> bool:
        """Whether no process of the pod is left; called when `check_at` has come."""
        left = self.find()
        for pid, started in left.items():
            self._follow(pid, started)
        # Twice in a row: between a fork and its exec a process does not have its environment yet.
        self._times_empty = 0 if left else self._times_empty + 1
        self.check_at = time.monotonic() + (CHECK_S if left else CHECK_AGAIN_S)
        return self._times_empty >= 2

    def handles(self, fd: int) -> bool:
        """Whether this is a descriptor of a followed process, which has ended then."""
        if fd not in self._followed:
            return False
        self._poll.unregister(fd)
        os.close(fd)
        del self._followed[fd]
        if not self._followed:
            self.check_at = 0.0
        return True

    def _follow(self, pid: int, started: int) -> None:
        if pid in self._followed.values() or len(self._followed) >= FOLLOWED_MAX:
            return
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return
        if not process_table.is_alive(pid, started):
            os.close(handle)
            return
        self._followed[handle] = pid
        self._poll.register(handle, select.POLLIN)

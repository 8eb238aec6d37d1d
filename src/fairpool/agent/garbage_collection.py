"""Garbage collection in the state directory: forgotten pods, old logs, old checkpoints, and the trash.

A job may leave a million files, or directories a million deep, and removing a single file may take milliseconds on a
busy disk. So the loop's thread only renames: what pods leave into the trash, their directories with the output into the
logs. All else is removed in a thread of its own, or after a crash by that of the next server.
"""

from __future__ import annotations

import os
import re
import threading
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from contextlib import suppress

from fairpool.agent.file_tree import (
    BLOCK,
    remove_files,
    remove_tree,
    rmdir_if_empty,
    size_of_tree,
    unchanged_s,
    unlink_if_there,
)
from fairpool.agent.job_reports import STORED, store_reports
from fairpool.agent.log_segments import INDEX, SEGMENT
from fairpool.agent.pod_directory import directory_name
from fairpool.agent.state_directory import StateDirectory, workload_name
from fairpool.model.ids import PodId
from fairpool.model.observation import StartOrder

LOGS_KEPT = 1000
"""Forgotten pods whose output can still be read; the oldest go first."""
LOGS_KEPT_BYTES = 2 << 30
"""And what it may take up together: a pod that writes much leaves 48 MiB."""
CHECKPOINTS_KEPT_S = 30 * 24 * 3600
"""Checkpoints are safe for so long after the last was saved, also while the workload waits and has no pod here."""
CHECKPOINTS_KEPT_BYTES = 20 << 30
"""What older checkpoints, of workloads without a pod here, may take up together; beyond it the oldest go."""
PRUNE_EVERY = 500
"""Pods forgotten between two prunings of old output: to look through all of it costs as much as forgetting dozens."""
PRUNE_EVERY_BYTES = 256 << 20
"""Or the output they had written."""
CLAIM = "shim."
"""How the names of links begin by which shims claim a pod."""
POD_NAME = re.compile("(.+)-[0-9]+-[0-9]+")
CLOSE_TIMEOUT_S = 5.0
DAY_S = 24 * 3600


class GarbageCollector:
    """Removes what is no longer needed."""

    def __init__(self, state: StateDirectory) -> None:
        self._state = state
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_asked = False
        """There is something to do since the thread began its present round."""
        self._untidied: deque[str] = deque()
        """Directories in the logs that contain more than output."""
        self._pods_since, self._bytes_since = PRUNE_EVERY, 0
        """Forgotten since old logs were pruned, and their output; at first it is not known."""

    # --- forgotten pods

    def forget(self, pod: PodId) -> bool:
        """Move a pod's output and reports to the logs, and the rest to the trash; `collect` removes it.

        False: it cannot be forgotten yet, because a shim has come for it after all. The pod directory itself becomes
        that of its output. Claims stay in it: a shim that was requested and comes late may be in there already, would
        find no stop notice any more, and start the program.
        """
        state, name = self._state, directory_name(pod)
        directory = f"{state.pods}/{name}"
        with suppress(FileNotFoundError):
            found = os.listdir(directory)
            if not any(each.startswith(CLAIM) for each in found) and not _block_late_shims(directory):
                return False
            store_reports(state, pod)
            _move(directory, f"{state.logs}/{name}")
            self._untidied.append(f"{state.logs}/{name}")
        self._throw_away(f"{state.scratch}/{name}")
        return True

    def discard_output(self, orders: Sequence[StartOrder]) -> None:
        """Move the output of pods that are about to be forgotten, and of earlier pods of their workloads, to the trash.
        Before they are forgotten: after a crash in between, the order is given again. Raises OSError."""
        for order in orders:
            directory = self._state.pod_directory(order.pod)
            with suppress(FileNotFoundError):
                for name in os.listdir(directory):
                    if name.startswith((SEGMENT, INDEX)):
                        self._throw_away(f"{directory}/{name}")
        workloads = {workload_name(order.workload) for order in orders}
        for name in os.listdir(self._state.logs) if workloads else ():
            if (found := POD_NAME.fullmatch(name)) and found[1] in workloads:
                self._throw_away(f"{self._state.logs}/{name}")

    def remove_shared(self, order: StartOrder) -> None:
        """Remove what the pods of a workload shared, now that none of them is here; checkpoints stay."""
        run = f"{self._state.checkpoints}/{workload_name(order.workload)}"
        with suppress(OSError):  # it was never made
            if not order.together and order.pods > 1:
                for name in os.listdir(run):
                    rmdir_if_empty(f"{run}/{name}")
            if not os.listdir(run):
                self._throw_away(run)
        if not order.together and order.distributed is None:
            return
        prefix = f"{workload_name(order.workload)}."
        for place, remove in ((self._state.rendezvous_files, unlink_if_there), (self._state.gangs, remove_tree)):
            for name in os.listdir(place):  # of earlier runs too
                if name.startswith(prefix) and name[len(prefix) :].isdecimal():
                    remove(f"{place}/{name}")

    def _throw_away(self, path: str) -> None:
        with suppress(OSError):  # it was never made
            os.rename(path, self._state.trash / f"{os.path.basename(path)}.{time.time_ns()}")

    # --- in a thread

    def collect(self) -> None:
        """Begin to remove what can be removed, in a thread."""
        with self._guard:
            self._is_asked = True
            if self._thread is None:
                thread = threading.Thread(target=self._collect_all, name="garbage collection", daemon=True)
                thread.start()
                self._thread = thread

    def _collect_all(self) -> None:
        try:
            while self._begins_round():
                with suppress(OSError):  # what could not be removed is tried again the next time
                    self._collect_once()
        except BaseException:
            with self._guard:
                self._thread = None  # so that the next call begins again
            raise

    def _begins_round(self) -> bool:
        """Whether there is something to do; otherwise the thread is done, and at once no longer the collector's."""
        with self._guard:
            is_asked, self._is_asked = self._is_asked, False
            if not is_asked:
                self._thread = None
            return is_asked

    def _collect_once(self) -> None:
        while self._untidied:
            self._bytes_since += _tidy(self._untidied.popleft())
            self._pods_since += 1
        if self._pods_since >= PRUNE_EVERY or self._bytes_since >= PRUNE_EVERY_BYTES:
            self._pods_since = self._bytes_since = 0
            self.prune_logs()
        for entry in list(os.scandir(self._state.trash)):
            if entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            else:
                unlink_if_there(entry.path)

    def close(self) -> None:
        """Wait a little for what is being removed; the next start continues."""
        thread = self._thread
        if thread is not None:
            thread.join(CLOSE_TIMEOUT_S)

    # --- old output and checkpoints

    def prune_logs(self, kept: int = LOGS_KEPT, kept_bytes: int = LOGS_KEPT_BYTES) -> None:
        """Remove the output of pods that were forgotten longest ago."""
        with os.scandir(self._state.logs) as entries:
            found = sorted(((each.stat().st_mtime_ns, each.name) for each in entries), reverse=True)
        used_bytes = 0
        for number, (_, name) in enumerate(found):
            directory = f"{self._state.logs}/{name}"
            if number < kept and (used_bytes := used_bytes + _tidy(directory)) <= kept_bytes:
                continue
            if number > 0:  # the latest can always be read
                remove_files(directory)

    def prune_checkpoints_if_due(self) -> None:
        """Checkpoints may be hundreds of thousands of files: they are looked through once a day. Not in the thread: a
        pod that uses them could start meanwhile."""
        stamp = self._state.root / "pruned"
        if stamp.exists() and unchanged_s(stamp, DAY_S) < DAY_S:
            return
        stamp.touch()
        self.prune_checkpoints()

    def prune_checkpoints(self, kept_s: float = CHECKPOINTS_KEPT_S, kept_bytes: int = CHECKPOINTS_KEPT_BYTES) -> None:
        """Remove checkpoints that are old and beyond what may be kept, and rendezvous files that are not used.

        The agent does not know when a workload is deleted. One without a pod here may only be waiting, so both must be
        true: its checkpoints are old, and there are too many.
        """
        pods = sorted(path.name for path in self._state.pods.iterdir())
        found = [path for path in self._state.checkpoints.iterdir() if not _has_pod(path.name, pods)]
        used_bytes = 0
        for age_s, directory in sorted((unchanged_s(path, kept_s), path) for path in found):
            if age_s >= kept_s:
                used_bytes += size_of_tree(directory)
                if used_bytes > kept_bytes:
                    remove_tree(str(directory))
        for place, remove in ((self._state.rendezvous_files, unlink_if_there), (self._state.gangs, remove_tree)):
            for path in place.iterdir():
                if unchanged_s(path, DAY_S) >= DAY_S and not _has_pod(path.name.rpartition(".")[0], pods):
                    remove(str(path))


def _tidy(directory: str) -> int:
    """Remove from a forgotten pod's directory all but its output, its reports and the claims; returns their size."""
    bytes_kept = 0
    with suppress(OSError), os.scandir(directory) as entries:  # it was pruned meanwhile
        for entry in list(entries):
            is_output = entry.name.startswith((SEGMENT, INDEX)) or entry.name == STORED
            if is_output and entry.is_file(follow_symlinks=False):
                bytes_kept += entry.stat(follow_symlinks=False).st_blocks * BLOCK
            elif entry.is_dir(follow_symlinks=False):
                remove_tree(entry.path)
            elif not entry.name.startswith(CLAIM):
                unlink_if_there(entry.path)
    return bytes_kept


def _block_late_shims(directory: str) -> bool:
    """Claim the pod, so that a shim that was requested and comes late does not: it would find no stop notice any more,
    and start the program."""
    try:
        os.symlink("0.0.0", f"{directory}/{CLAIM}0")
    except FileExistsError:
        return False
    return True


def _move(directory: str, kept: str) -> None:
    try:
        os.rename(directory, kept)
    except OSError:  # an earlier server was killed halfway, and had made the target
        for name in sorted(os.listdir(directory)):
            os.replace(f"{directory}/{name}", f"{kept}/{name}")
        remove_files(directory)


def _has_pod(workload: str, pods: Sequence[str]) -> bool:
    """Whether one of these sorted directory names may be of a pod of this workload."""
    place = bisect_left(pods, f"{workload}-")
    return place < len(pods) and pods[place].startswith(f"{workload}-")

"""Kills pods from outside their shims: when a grace period is over, a directory is gone, or processes are orphaned.

A shim may be killed, stopped or outwitted by its own pod, so nothing here relies on one. The supervisor sets deadlines;
what is left of a pod by then is found in every way there is and killed. Used with the supervisor's lock held.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from fairpool.agent import leftover_processes, pod_directory, process_table, stop_notice
from fairpool.agent.cgroup import Cgroup, Limiter, names_of_groups
from fairpool.agent.durable import read_regular, replace_file
from fairpool.agent.leftover_processes import Process, ProcessSelector
from fairpool.agent.pod_registry import WatchedPod
from fairpool.agent.process_table import ProcessList
from fairpool.model.ids import PodId, WorkloadId, pod_id

SLACK_S = 2.0
"""How much longer than the grace period a shim has to end its pod and write the exit record; then the reaper does."""
KILL_TIMEOUT_S = 3.0
"""How long killed processes are waited for; one in uninterruptible disk sleep may take long."""
KILL_AGAIN_S = 5.0
COSTLY_READ_S, READ_SHARE = 0.02, 10
"""If reading all processes takes more CPU time than that, it is done for a tenth of the time at most."""
SELECTORS_MAX = 16 << 20
PREFIX_LENGTH = 18
"""The part of a pod's UUID that is the same for all of an installation: `xxxxxxxx-xxxx-xxxx`."""


class Reaper:
    """Deadlines of stopping pods, and processes of this installation that belong to no pod."""

    def __init__(
        self, namespace: uuid.UUID, pods: Path, limiter: Limiter, fork_server_pid: Callable[[], int | None]
    ) -> None:
        self._namespace, self._pods, self._limiter, self._fork_server_pid = namespace, pods, limiter, fork_server_pid
        self._deadlines: dict[PodId, float] = {}
        """When each stopping pod is killed, in seconds since boot."""
        self.orphans: dict[str, dict[int, int]] = {}
        """Processes of this installation that belong to no pod and could not be killed yet, by their `POD_UUID`."""
        self._read_at, self._read_s = float("-inf"), 0.0
        self._saved = b""

    def pod_uuid(self, pod: PodId) -> str:
        """Identifies the pod's processes; its prefix is that of this installation and of no other."""
        own = uuid.uuid5(self._namespace, pod)
        return str(uuid.UUID(bytes=self._namespace.bytes[:8] + own.bytes[8:]))

    # --- deadlines

    def set_deadline(self, pod: PodId, grace_s: float) -> None:
        """Kill it after this grace period; an earlier deadline stays."""
        at = stop_notice.now() + stop_notice.bounded(grace_s) + SLACK_S
        self._deadlines[pod] = min(at, self._deadlines.get(pod, at))

    def cancel(self, pod: PodId) -> None:
        self._deadlines.pop(pod, None)

    def overdue(self) -> list[PodId]:
        """Pods whose deadline has passed."""
        now = stop_notice.now()
        return sorted(pod for pod, at in self._deadlines.items() if at <= now)

    def next_deadline(self) -> float | None:
        return min(self._deadlines.values(), default=None)

    def retry_later(self, pod: PodId) -> None:
        self._deadlines[pod] = stop_notice.now() + KILL_AGAIN_S

    # --- killing

    def kill(self, pods: Sequence[WatchedPod], timeout_s: float = KILL_TIMEOUT_S) -> list[WatchedPod]:
        """Kill all that is left of these pods except their shims; returns those of which nothing is left.

        The others are tried again later.
        """
        selectors = [watched.selector() for watched in pods]
        left = leftover_processes.kill_leftovers(selectors, timeout_s, self._excluded())
        for watched, found in zip(pods, left, strict=True):
            if found:
                self.retry_later(watched.pod)
        return [watched for watched, found in zip(pods, left, strict=True) if not found]

    def kill_without_order(self, pod: PodId, directory: str) -> bool:
        """Kill what runs by an order that is unreadable by now; False: something is still alive."""
        files = pod_directory.read_files(directory)
        if files.shim is None and files.main is None:
            return True  # it has never run
        shim = (files.shim.pid, files.shim.started) if files.shim is not None else None
        selector = ProcessSelector(pod_uuid=self.pod_uuid(pod), shim=shim, main=files.main, namespace=files.namespace)
        self._kill_orphans([selector])
        return selector.pod_uuid not in self.orphans

    def without_processes(self, pods: Sequence[WatchedPod]) -> set[PodId] | None:
        """Those of these pods of which nothing is left, shims excepted. None: reading again would cost too much now."""
        if not pods:
            return set()
        since_s = time.monotonic() - self._read_at
        if self._read_s > COSTLY_READ_S and since_s < self._read_s * READ_SHARE:
            return None
        begun = time.thread_time()
        left = leftover_processes.find_leftovers([watched.selector() for watched in pods], self._excluded())
        self._read_at, self._read_s = time.monotonic(), time.thread_time() - begun
        return {watched.pod for watched, found in zip(pods, left, strict=True) if not found}

    # --- orphans

    def kill_orphans(self, pods: Collection[WatchedPod], *, saved: Sequence[ProcessSelector] = ()) -> None:
        """Kill what has one of our UUIDs, is in one of our groups or below one of our shims, and belongs to no pod that
        is alive. Leftovers of pods that are over are among it, and what the `saved` selectors find."""
        alive = {
            pod_uuid
            for watched in pods
            if not watched.is_over
            for pod_uuid in (watched.selector().pod_uuid, self.pod_uuid(watched.pod))
        }
        processes = ProcessList(self._excluded())
        found = {selector.pod_uuid: selector for selector in saved if selector.pod_uuid not in alive}
        for pod_uuid in (*processes.by_pod_uuid(), *names_of_groups(self._limiter)):
            if pod_uuid not in alive and pod_uuid not in found and self._is_ours(pod_uuid):
                found[pod_uuid] = ProcessSelector(pod_uuid=pod_uuid, group=self._group(pod_uuid))
        for shim, name in leftover_processes.orphaned_shims(processes, self._pods).items():
            pod_uuid = self.pod_uuid(pod_directory.pod_of(name))
            if pod_uuid not in alive:  # else its pod was lost, and is killed with it
                known = found.get(pod_uuid, ProcessSelector(pod_uuid=pod_uuid, group=self._group(pod_uuid)))
                found[pod_uuid] = replace(known, shim=shim)
        self.orphans = {}
        self._kill_orphans(list(found.values()))

    def has_earlier_orphan(self, workload: WorkloadId, index: int, incarnation: int) -> bool:
        """Whether an orphan of an earlier incarnation may still run."""
        earlier = (pod_id(workload, index, number) for number in range(incarnation))
        return bool(self.orphans) and any(self.pod_uuid(pod) in self.orphans for pod in earlier)

    def _kill_orphans(self, selectors: Sequence[ProcessSelector]) -> None:
        left = leftover_processes.kill_leftovers(selectors, KILL_TIMEOUT_S, self._excluded())
        for selector, found in zip(selectors, left, strict=True):
            if found:
                self.orphans[selector.pod_uuid] = found
                continue
            if selector.group is not None:
                selector.group.remove()
            if selector.shim is not None:
                kill_process(selector.shim)
            self.orphans.pop(selector.pod_uuid, None)

    # --- selectors on disk

    def save_selectors(self, file: Path, boot_id: str, pods: Collection[WatchedPod]) -> None:
        """Write down how pods are found, apart from their directories: one may be removed while no server runs."""
        rows = [_row(watched) for watched in pods if not watched.is_over and watched.main is not None]
        content = json.dumps({"boot_id": boot_id, "pods": rows}).encode()
        if content != self._saved:
            replace_file(file, content)
            self._saved = content

    def load_selectors(self, file: Path, boot_id: str) -> list[ProcessSelector]:
        """What was saved in this boot; of an unreadable file, nothing."""
        try:
            content = json.loads(read_regular(file, SELECTORS_MAX))
            rows = content["pods"] if content["boot_id"] == boot_id else []
            return [self._selector(*row) for row in rows if self._is_ours(row[0])]
        except (*pod_directory.UNREADABLE, IndexError):
            return []

    def _selector(self, pod_uuid: str, shim: Sequence[int], main: Sequence[int], namespace: int) -> ProcessSelector:
        return ProcessSelector(
            pod_uuid=pod_uuid,
            shim=(int(shim[0]), int(shim[1])),
            main=(int(main[0]), int(main[1])),
            # The kernel may reuse the inode as soon as the first process of the namespace has ended.
            namespace=int(namespace) if process_table.is_alive(int(main[0]), int(main[1])) else None,
            group=self._group(pod_uuid),
        )

    def _is_ours(self, pod_uuid: str) -> bool:
        return pod_uuid[:PREFIX_LENGTH] == str(self._namespace)[:PREFIX_LENGTH]

    def _group(self, pod_uuid: str) -> Cgroup | None:
        return Cgroup(self._limiter.to_json(), pod_uuid) if self._limiter.is_able else None

    def _excluded(self) -> set[int]:
        fork_server = self._fork_server_pid()
        return set() if fork_server is None else {fork_server}


def _row(watched: WatchedPod) -> tuple[str, Process, Process, int]:
    assert watched.main is not None
    return watched.selector().pod_uuid, watched.shim or (0, 0), watched.main, watched.namespace or 0


def kill_process(process: Process) -> None:
    """Kill this very process, if it is still alive."""
    process_table.kill_processes(dict([process]))

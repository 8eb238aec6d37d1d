"""Output of pods that are stopped, kept in files: their kubelet removes it with the pod.

A pod that is being deleted is followed until it ends, and the last part of what it wrote is kept here for as long as
its workload is. That of pods which end by themselves stays with their objects.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from fairpool.agent.file_tree import remove_tree
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.objects import FINALIZER, label_value, stored_order
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.streams import read_logs
from fairpool.model.ids import PodId, WorkloadId
from fairpool.model.observation import StartOrder

log = logging.getLogger("fairpool.kubernetes")

LINES = 20_000
BYTES = 1 << 20
"""What is kept of one pod: the end."""
FOLLOWED_BYTES = 64 << 20
"""A pod that writes more than this while it stops is not followed further."""
FILES = 1000
AT_ONCE = 64
"""Pods that are followed at the same time; the others wait, and may lose their output."""
PATIENCE_S = 120.0
"""After the grace period is over."""
PAUSE_S = 0.005
"""After each part, so that a pod that writes all the time takes little of our own time."""


class SavedOutput:
    """The output of pods, in one folder for each workload. For several threads."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._workload_of: dict[str, str] = {}
        """By pod, the oldest first."""
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for _, path in sorted((each.stat().st_mtime_ns, each) for each in root.glob("*/*")):
            self._workload_of[path.name] = path.parent.name

    def write(self, workload: WorkloadId, pod: PodId, content: bytes) -> None:
        """Lines with their times, as the API server has them."""
        folder, name = self._root / label_value(workload), label_value(pod)
        with self._lock:
            folder.mkdir(mode=0o700, exist_ok=True)
            partial = folder.parent / f".{name}"
            partial.write_bytes(content)
            os.replace(partial, folder / name)
            self._workload_of[name] = folder.name
            for oldest in list(self._workload_of)[: max(0, len(self._workload_of) - FILES)]:
                (self._root / self._workload_of.pop(oldest) / oldest).unlink(missing_ok=True)

    def read(self, pod: PodId) -> bytes | None:
        """None: nothing of this pod was kept."""
        name = label_value(pod)
        workload = self._workload_of.get(name)
        if workload is None:
            return None
        with suppress(OSError):
            return (self._root / workload / name).read_bytes()
        return None

    def forget(self, pod: PodId) -> None:
        """With that of all pods of its workload."""
        workload = self._workload_of.get(label_value(pod))
        if workload is not None:
            self._remove(workload)

    def forget_all_but(self, is_known: Callable[[WorkloadId], bool]) -> None:
        """Remove what belongs to other workloads."""
        for workload in set(self._workload_of.values()):
            if not is_known(WorkloadId(workload)):
                self._remove(workload)

    def _remove(self, workload: str) -> None:
        with self._lock:
            self._workload_of = {pod: of for pod, of in self._workload_of.items() if of != workload}
            remove_tree(str(self._root / workload))


class OutputCollection:
    """Looks at pods, and saves the output of those that are stopped. Lives in one event loop."""

    def __init__(self, client: KubernetesClient, saved: SavedOutput) -> None:
        self._client, self._saved = client, saved
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._following: dict[str, asyncio.Task[None]] = {}
        """By the uid of the pod, until its object is gone and its output is saved."""
        self._gone: set[str] = set()

    def took(self, pod: PodObject) -> None:
        metadata = pod.metadata
        if metadata.deletion_timestamp is None or metadata.uid in self._following or not _is_ours(pod):
            return
        order = stored_order(metadata.name, pod.spec.node_name or "", metadata.annotations)
        if order is not None:
            task = self._loop.create_task(self._collect(order, pod))
            self._following[metadata.uid] = task
            task.add_done_callback(lambda _: self._ended(metadata.uid))

    def removed(self, uid: str) -> None:
        """Its output is still read: the connection outlives the object."""
        task = self._following.get(uid)
        if task is not None and task.done():
            del self._following[uid]
        elif task is not None:
            self._gone.add(uid)

    def listed(self, uids: Collection[str], resource_version: str) -> None:
        for uid in [uid for uid in self._following if uid not in uids]:
            self.removed(uid)

    async def close(self) -> None:
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, uid: str) -> None:
        if uid in self._gone:
            self._gone.discard(uid)
            self._following.pop(uid, None)

    async def _collect(self, order: StartOrder, pod: PodObject) -> None:
        content = bytearray()
        grace_s = pod.metadata.deletion_grace_period_seconds or 0
        try:
            async with self._slots, asyncio.timeout(grace_s + PATIENCE_S):
                await self._follow(pod.metadata.namespace, pod.metadata.name, content)
        except (KubernetesError, OSError, TimeoutError) as error:
            log.debug("the output of pod %s was not read to its end: %s", order.pod, error)
        if content:
            try:
                await asyncio.to_thread(self._saved.write, order.workload, order.pod, _end_of(bytes(content)))
            except OSError as error:
                log.warning("the output of pod %s cannot be kept: %s", order.pod, error)

    async def _follow(self, namespace: str, name: str, content: bytearray) -> None:
        read = 0
        parts = read_logs(self._client, name, namespace=namespace, follow=True, tail_lines=LINES, timestamps=True)
        async for part in parts:
            content += part
            read += len(part)
            if len(content) > 2 * BYTES:
                del content[:-BYTES]
            if read > FOLLOWED_BYTES:
                return
            await asyncio.sleep(PAUSE_S)


def _is_ours(pod: PodObject) -> bool:
    """A pod that has not been recorded as ended, and whose program has begun."""
    statuses = pod.status.container_statuses or ()
    state = statuses[0].state if statuses else None
    has_begun = state is not None and (state.running is not None or state.terminated is not None)
    return has_begun and FINALIZER in (pod.metadata.finalizers or ())


def _end_of(content: bytes) -> bytes:
    """The last part, from the beginning of a line."""
    if len(content) <= BYTES:
        return content
    return content[-BYTES:].partition(b"\n")[2]

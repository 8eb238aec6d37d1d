"""Sends uploaded folders to pods that wait for them, through the API server: nodes need no way to us.

A container of the pod waits (`pod_preparation`), and a second program in it unpacks the archive that it reads. If the
connection breaks, all of it is sent again. A folder goes only to pods of its own workload, in its project's namespace.
"""

from __future__ import annotations

import asyncio
import logging
import os
import tarfile
from collections.abc import Collection
from concurrent.futures import Future
from contextlib import aclosing
from pathlib import Path
from typing import Any

from fairpool.agent.pod_secrets import SecretsUnavailable
from fairpool.agent.uploads import Uploads
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.failures import EquipmentMissing, KubernetesError, NotFound
from fairpool.engines.kubernetes.objects import stored_order
from fairpool.engines.kubernetes.order_execution import EquipmentProvider
from fairpool.engines.kubernetes.pod_preparation import ARRIVAL_S, RECEIVE, UPLOAD
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.streams import ProgramStream, open_exec
from fairpool.model.observation import StartOrder

log = logging.getLogger("fairpool.kubernetes")

AT_ONCE = 4
RETRY_S, LONGEST_RETRY_S = 2.0, 15.0
PIECE_BYTES = 1 << 18
PIECE_S = 60.0
"""How long the network may take for one piece."""
SAID_MAX = 2000


class UploadDelivery:
    """Looks at pods, and sends what they wait for. Lives in one event loop."""

    def __init__(self, client: KubernetesClient, uploads: Uploads, equipment: EquipmentProvider) -> None:
        self._client, self._uploads, self._equipment = client, uploads, equipment
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._sending: dict[str, asyncio.Task[None]] = {}
        """By the uid of the pod."""

    def took(self, pod: PodObject) -> None:
        metadata = pod.metadata
        if metadata.uid in self._sending or metadata.deletion_timestamp is not None or not _waits(pod):
            return
        order = stored_order(metadata.name, pod.spec.node_name or "", metadata.annotations)
        if order is not None:
            task = self._loop.create_task(self._deliver(order, metadata.namespace, metadata.name))
            task.add_done_callback(_say_failure)
            self._sending[metadata.uid] = task

    def removed(self, uid: str) -> None:
        if (task := self._sending.pop(uid, None)) is not None:
            task.cancel()

    def listed(self, uids: Collection[str], resource_version: str) -> None:
        for uid in [uid for uid in self._sending if uid not in uids]:
            self.removed(uid)

    async def close(self) -> None:
        """The next one sends what was not sent."""
        tasks = list(self._sending.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _deliver(self, order: StartOrder, namespace: str, name: str) -> None:
        """As long as its container waits: an API server or a kubelet may be away for minutes."""
        end_s, delay_s, said = self._loop.time() + ARRIVAL_S, RETRY_S, ""
        while self._loop.time() < end_s:
            try:
                async with self._slots, asyncio.timeout(ARRIVAL_S):
                    await self._send(order, namespace, name)
                return
            except NotFound:
                return
            except (KubernetesError, EquipmentMissing, SecretsUnavailable, OSError, TimeoutError) as error:
                if str(error) != said:
                    what = "the folder of %s was not delivered to pod %s/%s: %s"
                    log.warning(what, order.name, namespace, name, error)
                said = str(error)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)

    async def _send(self, order: StartOrder, namespace: str, name: str) -> None:
        upload = await asyncio.to_thread(self._uploads.find, order.workload)
        if upload is None or not upload.is_complete or upload.project != order.project:
            raise FileNotFoundError("it is not here: it was uploaded to another replica, or removed")
        if (await self._equipment.prepare(order)).namespace != namespace:
            raise FileNotFoundError(f"{namespace} is not the namespace of project {order.project}")
        files = self._uploads.files_of(upload.id)
        entries = await asyncio.to_thread(_entries, files)
        command = ("python3", "-c", RECEIVE, str(len(entries)))
        stream = await open_exec(self._client, name, command, namespace=namespace, container=UPLOAD, has_input=True)
        async with aclosing(_Closing(stream)):
            await asyncio.to_thread(_write_archive, files, entries, _Pipe(stream, self._loop))
            await stream.close_input()
            said = b""
            while (found := await stream.receive()) is not None:
                said = (said + found[1])[-SAID_MAX:]
        if stream.end is None or stream.end.exit_code != 0:
            words = said.decode(errors="replace").strip() or (stream.end.message if stream.end else "")
            raise OSError(words or "the connection broke")


class _Closing:
    """For `aclosing`."""

    def __init__(self, stream: ProgramStream) -> None:
        self._stream = stream

    async def aclose(self) -> None:
        await self._stream.close()


class _Pipe:
    """A file whose contents go to a program, written by another thread than that of the connection."""

    def __init__(self, stream: ProgramStream, loop: asyncio.AbstractEventLoop) -> None:
        self._stream, self._loop = stream, loop

    def write(self, data: bytes) -> int:
        sent: Future[None] = asyncio.run_coroutine_threadsafe(self._stream.send(bytes(data)), self._loop)
        try:
            sent.result(PIECE_S)
        except TimeoutError:
            sent.cancel()
            raise
        return len(data)


def _say_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("an uploaded folder was not delivered", exc_info=error)


def _waits(pod: PodObject) -> bool:
    return any(
        each.name == UPLOAD and each.state is not None and each.state.running is not None
        for each in pod.status.init_container_statuses or ()
    )


def _entries(root: Path) -> list[str]:
    """Folders before what is in them; nothing else than files and folders is there."""
    found = []
    for folder, folders, files in os.walk(root):
        relative = os.path.relpath(folder, root)
        found += [os.path.normpath(os.path.join(relative, name)) for name in sorted((*folders, *files))]
    return found


def _write_archive(root: Path, entries: list[str], target: Any) -> None:
    with tarfile.open(fileobj=target, mode="w|gz", bufsize=PIECE_BYTES, format=tarfile.PAX_FORMAT) as archive:
        for name in entries:
            archive.add(root / name, arcname=name, recursive=False)

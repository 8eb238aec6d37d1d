"""Access to the pods of every cluster: of the cluster in this process directly, of the others through their tunnels."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor

from fairpool.control.pod_access import Answering, PodAccess, PodAccessError
from fairpool.control.tunnel import TunnelPodAccess, Tunnels
from fairpool.model.problem import Problem

log = logging.getLogger("fairpool.control")

HOLDERS_MAX = 10_000
FAILED = Problem("tunnel.failed", "the cluster failed to answer", "see the log of the cluster")


class ClusterPods:
    """Pod access by cluster."""

    def __init__(self, local: PodAccess | None = None) -> None:
        """`local`: access to the pods of the cluster in this process, if there is one."""
        self.tunnels = Tunnels()
        self.local_cluster = ""
        """Its id; empty while it is not known, and then all pods are taken for its own."""
        self.local_answers: Answering | None = None
        """Answers of the cluster in this process."""
        self._local = local
        self._thread = ThreadPoolExecutor(1, "questions")
        self._holders: dict[str, str] = {}

    def of(self, cluster: str) -> PodAccess:
        """Access to the pods of this cluster. Whether it is connected shows when it is used."""
        local = self._local if self.is_local(cluster) else None
        return local or TunnelPodAccess(self.tunnels, cluster)

    def is_local(self, cluster: str) -> bool:
        """Whether its pods are reached without a tunnel."""
        return self._local is not None and self.local_cluster in ("", cluster)

    async def reachable(self) -> list[str]:
        """The clusters that can be asked now. Raises `Unavailable`."""
        local = [] if self._local is None else [self.local_cluster]
        return [*local, *(each for each in await self.tunnels.clusters() if each not in local)]

    async def ask(self, cluster: str, question: bytes) -> AsyncGenerator[bytes]:
        """The answer of a cluster to a question, in pieces; raises `PodAccessError`."""
        if cluster != self.local_cluster or self.local_answers is None:
            async for piece in TunnelPodAccess(self.tunnels, cluster).ask(question):
                yield piece
            return
        answering = self.local_answers
        try:
            data = await asyncio.get_running_loop().run_in_executor(self._thread, answering.answer, question)
        except Exception as error:  # a bug: to the caller it is a cluster that cannot answer, as through a tunnel
            log.exception("could not answer a question")
            raise PodAccessError(FAILED) from error
        if isinstance(data, Problem):
            raise PodAccessError(data)
        yield data

    def close(self) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)

    def holder(self, upload_id: str) -> str | None:
        """The cluster that has an upload, if it was seen there."""
        return self._holders.get(upload_id)

    def note_holder(self, upload_id: str, cluster: str) -> None:
        if len(self._holders) >= HOLDERS_MAX:
            self._holders.clear()
        self._holders[upload_id] = cluster

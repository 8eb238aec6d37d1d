"""Watches of a cluster's nodes, pods and fencing token, which keep the cache up to date."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.fence import NAME as FENCE
from fairpool.engines.kubernetes.fence import ConfigMap, Fence
from fairpool.engines.kubernetes.node_reading import NodeObject
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.resources import CONFIG_MAPS, NODES, PODS
from fairpool.engines.kubernetes.watch import WatchBatch, WatchScope, changes
from fairpool.engines.port import EngineUnreachable

log = logging.getLogger("fairpool.kubernetes")

SYNC_S = 20.0
"""How long a call waits for the first lists of a large cluster."""
PROBE_S = 1.0
"""After a failure the API server is asked at most so often whether it responds."""
STALE_S = 15.0
"""Nothing is decided on what is known if it could not be watched for so long, even if the API server responds."""
RESTART_S = 1.0
"""Before a watch is begun anew that was ended by a bug."""


class ClusterWatch:
    """Three watches in the engine's event loop."""

    def __init__(
        self,
        client: KubernetesClient,
        cache: ClusterCache,
        fence: Fence,
        namespace: str,
        on_change: Callable[[], None],
        *,
        stale_s: float = STALE_S,
    ) -> None:
        self._stale_s = stale_s
        self._client, self._cache, self._fence, self._namespace = client, cache, fence, namespace
        self._on_change = on_change
        self._tasks: list[asyncio.Task[None]] = []
        self._listed: set[str] = set()
        self._is_listed = asyncio.Event()
        self._failures: dict[str, tuple[float, KubernetesError]] = {}
        """Of watches of which nothing was heard since the first failure: when that was, and the latest one."""
        self._fence_problem: EngineUnreachable | None = None
        self._probed_at = 0.0

    async def start(self) -> None:
        """List everything anew, and follow it from there. Returns at once: see `ready`."""
        await self.stop()
        self._listed, self._is_listed, self._failures = set(), asyncio.Event(), {}
        self._tasks = [
            asyncio.create_task(self._run("nodes", self._watch_nodes)),
            asyncio.create_task(self._run("pods", self._watch_pods)),
            asyncio.create_task(self._run("token", self._watch_token)),
        ]

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        self._tasks = []

    async def ready(self) -> None:
        """Returns when everything was listed and the API server responds; otherwise raises `EngineUnreachable`."""
        if not self._is_listed.is_set():
            try:
                await asyncio.wait_for(self._is_listed.wait(), SYNC_S)
            except TimeoutError:
                why = next((error for _, error in self._failures.values()), None)
                raise EngineUnreachable(str(why or "the Kubernetes API server is slow to list nodes and pods")) from why
        if self._fence_problem is not None:
            raise self._fence_problem
        now = asyncio.get_running_loop().time()
        if self._failures and now - self._probed_at > PROBE_S:
            await self._probe()
            self._probed_at = now
        self._check_age(now)

    @property
    def problems(self) -> dict[str, str]:
        """Why nodes, pods or the token cannot be watched now."""
        return {name: str(error) for name, (_, error) in list(self._failures.items())}

    def _check_age(self, now: float) -> None:
        for name, (since, error) in self._failures.items():
            if now - since > self._stale_s:
                what = f"{name} cannot be watched for {now - since:.0f} s, and nothing is decided on old data"
                raise EngineUnreachable(f"{what}: {error}") from error

    async def _probe(self) -> None:
        """Whether the API server responds: then a watch that was cut off is about to be resumed."""
        try:
            await self._client.raw("GET", "/version")
        except KubernetesError as error:
            raise EngineUnreachable(str(error)) from error

    async def _run(self, name: str, watch: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await watch()
            except Exception as error:  # a bug: what was not taken in is listed again
                log.exception("the watch of %s failed", name)
                self._failed(name, KubernetesError(f"{type(error).__name__} {error}".rstrip()))
            await asyncio.sleep(RESTART_S)

    async def _watch_nodes(self) -> None:
        watched = changes(self._client, NODES, NodeObject, on_failure=lambda error: self._failed("nodes", error))
        async with aclosing(watched) as batches:
            async for batch in batches:
                latest = {each.object.metadata.name: each for each in batch.events}  # one may be created again at once
                changed = [each.object for each in latest.values() if not each.is_deleted]
                deleted = [name for name, each in latest.items() if each.is_deleted]
                self._heard("nodes", batch, self._cache.take_nodes(changed, deleted, is_complete=batch.is_complete))

    async def _watch_pods(self) -> None:
        watched = changes(self._client, PODS, PodObject, on_failure=lambda error: self._failed("pods", error))
        async with aclosing(watched) as batches:
            async for batch in batches:
                self._heard("pods", batch, self._take_pods(batch))

    def _take_pods(self, batch: WatchBatch[PodObject]) -> bool:
        if batch.is_complete:
            if batch.is_restored:
                log.warning("the data of the Kubernetes API server was restored from a backup: everything is read anew")
            pods = [each.object for each in batch.events]
            return self._cache.take_pods(pods, complete_at=batch.resource_version, is_restored=batch.is_restored)
        has_changed = False
        for pod, is_deleted in batch.events:
            identity = pod.metadata.namespace, pod.metadata.name, pod.metadata.uid
            has_changed |= self._cache.remove(*identity) if is_deleted else self._cache.take_pod(pod)
        return has_changed

    async def _watch_token(self) -> None:
        scope = WatchScope(namespace=self._namespace, fields=f"metadata.name={FENCE}")
        watched = changes(
            self._client, CONFIG_MAPS, ConfigMap, scope, on_failure=lambda error: self._failed("token", error)
        )
        async with aclosing(watched) as batches:
            async for batch in batches:
                before = self._fence.highest
                self._fence.is_missing |= batch.is_complete and not batch.events
                for found, is_deleted in batch.events:
                    self._fence.is_missing = is_deleted
                    if not is_deleted:
                        self._take_token(found)
                self._heard("token", batch, self._fence.highest != before)

    def _take_token(self, found: ConfigMap) -> None:
        try:
            self._fence.heard(found)
            self._fence_problem = None
        except EngineUnreachable as problem:
            self._fence_problem = problem

    def _heard(
        self,
        name: str,
        batch: WatchBatch[PodObject] | WatchBatch[NodeObject] | WatchBatch[ConfigMap],
        has_changed: bool,
    ) -> None:
        self._failures.pop(name, None)
        if batch.is_complete:
            self._listed.add(name)
            if len(self._listed) == len(self._tasks):
                self._is_listed.set()
        if has_changed:
            self._on_change()

    def _failed(self, name: str, error: KubernetesError) -> None:
        since, before = self._failures.get(name, (asyncio.get_running_loop().time(), None))
        if str(before) != str(error):
            log.warning("%s cannot be watched: %s", name, error)
        self._failures[name] = since, error
        self._on_change()

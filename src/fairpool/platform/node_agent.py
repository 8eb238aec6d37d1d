"""The process of `fairpool node-agent`: what Fairpool does on each node of a Kubernetes cluster.

It renews the Lease of its node, so that the cluster's loop can tell a node that is cut off from one whose kubelet has
stopped; measures what pods use (`node_sampling.py`); and kills the pods of Fairpool on its node when it is cut off
itself (`agent/lease_fence.py`). Killing is done by a thread of its own, which waits for nothing but the clock. What it
needs for that is in a file, so that an agent that is killed while the node is cut off goes on when its kubelet starts
it again.

Nothing that a pod says or writes is read here: pods are known from the API server, processes by their control groups.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from socket import socket
from typing import Any

import msgspec

from fairpool.agent import process_table
from fairpool.agent.durable import read_regular, replace_file
from fairpool.agent.kubernetes_cgroups import kill_pods
from fairpool.agent.kubernetes_meter import ROOT
from fairpool.agent.lease_fence import LeaseFence
from fairpool.api.exposition import LookedUp, ProcessFigure, encoded, process_registry, registry_text
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.failures import ApiUnreachable, KubernetesError, Refused
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.node_leases import AGENT_LABEL, lease_name
from fairpool.engines.kubernetes.objects import POD
from fairpool.engines.kubernetes.resources import LEASES, PODS, Object, ObjectMetadata
from fairpool.engines.kubernetes.watch import WatchScope, changes
from fairpool.platform.health_server import health_server
from fairpool.platform.leader_election import steady_s
from fairpool.platform.node_sampling import MeasuredPods, NodeSampling, SampleTarget
from fairpool.platform.server_process import on_signals, run_server

log = logging.getLogger("fairpool.node")

CALL_S = 5.0
"""How long one request may take."""
LOOK_S = 1.0
"""Between two looks at the clock of the fence."""
HEARD_S = 120.0
"""A watch of which nothing was heard for so long is broken: the API server sends something every minute."""
FIRST_S = 1.0
"""Between two attempts to renew the lease for the first time."""
STATE_MAX = 1 << 20
SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAgentOptions:
    """What an administrator chooses for the agents of a cluster."""

    server: ApiServer
    namespace: str
    node: str
    renew_s: float
    fence_after_s: float
    state: Path
    """Where it keeps what it has to know after it was killed."""
    samples: SampleTarget | None = None
    """None: nothing is measured."""
    cgroups: str = ROOT
    """Where the control groups of the node are mounted."""
    owner: tuple[str, str] = ("", "")
    """Name and uid of the pod that it runs in: the lease is removed with it."""


class NetworkOfPod(msgspec.Struct, rename="camel", gc=False):
    """Whose network a pod has."""

    host_network: bool | None = None


class PodOfNode(msgspec.Struct, gc=False):
    """A pod of ours on this node."""

    metadata: ObjectMetadata = msgspec.field(default_factory=ObjectMetadata)
    spec: NetworkOfPod = msgspec.field(default_factory=NetworkOfPod)


class NodeAgent:
    """One agent."""

    def __init__(self, options: NodeAgentOptions, health: socket) -> None:
        self._options, self._health = options, health
        self._state = FenceFile(options.state / "fence.json")
        self._fence = self._state.read(options.fence_after_s)
        self._sharing_network: frozenset[str] = frozenset()
        self._lock = threading.Lock()
        self._heard_s = float("-inf")
        """When the watch of pods was heard last."""
        self._error = "the lease is not renewed yet"
        self._is_listed, self._stopping, self._ended = asyncio.Event(), asyncio.Event(), threading.Event()

    def run(self, on_ready: Callable[[], None]) -> None:
        """Until a signal comes. `on_ready` is called when the lease was renewed for the first time."""
        run_server(self._serve(on_ready))

    async def _serve(self, on_ready: Callable[[], None]) -> None:
        guard = threading.Thread(target=self._guard, name="fence", daemon=True)
        guard.start()
        samples = self._options.samples
        sampling = NodeSampling(samples, self._measured_pods, self._options.cgroups) if samples is not None else None
        if sampling is not None:
            sampling.start()
        registry = process_registry("node-agent")
        registry.register(LookedUp(self._figures))

        async def series(packs: bool) -> bytes:
            return encoded([registry_text(registry)], packs=packs)

        async with AsyncExitStack() as stack:
            stack.enter_context(on_signals(self._stopping.set))
            await stack.enter_async_context(health_server(self._health, lambda: self._error, series))
            calls = KubernetesClient(self._options.server, timeout_s=CALL_S, attempts=1)
            client = await stack.enter_async_context(calls)
            for work in (self._follow_pods(client), self._keep_lease(client, on_ready)):
                stack.callback(asyncio.create_task(work).cancel)
            await self._stopping.wait()
        self._ended.set()
        if sampling is not None:
            sampling.close()

    # --- the lease

    async def _keep_lease(self, client: KubernetesClient, on_ready: Callable[[], None]) -> None:
        """Renew it as long as our pods are known: an agent that does not know them could not end them."""
        is_announced = False
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_listed.wait(), CALL_S)
        while True:
            sent_at_s = steady_s()
            try:
                await self._renew(client, sent_at_s)
                if not is_announced and not self._error:
                    is_announced = True
                    on_ready()
            except KubernetesError as error:
                self._note_answer(error, sent_at_s)
                self._failed(error)
            except Exception as error:  # a bug: without another attempt, the pods here would be killed
                log.exception("the lease is not renewed")
                self._failed(KubernetesError(f"{type(error).__name__} {error}".rstrip()))
            await asyncio.to_thread(self._state.write, self._fence)
            await asyncio.sleep(self._options.renew_s if is_announced else min(self._options.renew_s, FIRST_S))

    async def _renew(self, client: KubernetesClient, sent_at_s: float) -> None:
        options = self._options
        name = lease_name(options.node)
        if sent_at_s - self._heard_s > HEARD_S:
            self._failed(KubernetesError("the pods of this node cannot be watched"))
            await client.raw("GET", "/version")  # whether the API server answers at all
            self._change(lambda fence: fence.refused(sent_at_s))
            return
        await client.apply(LEASES, name, lease_manifest(options), Object, namespace=options.namespace)
        self._change(lambda fence: fence.renewed(sent_at_s))
        if self._error:
            log.info("the lease is renewed", extra={"fields": {"lease": name}})
        self._error = ""

    def _note_answer(self, error: KubernetesError, sent_at_s: float) -> None:
        """Whatever was asked: an API server that refuses, such as a token that is not valid any more, is there."""
        if isinstance(error, Refused) and error.status < SERVER_ERROR:
            self._change(lambda fence: fence.refused(sent_at_s))

    def _failed(self, error: KubernetesError) -> None:
        if str(error) != self._error:
            log.warning("the lease is not renewed: %s", error)
        self._error = str(error)

    # --- our pods here

    async def _follow_pods(self, client: KubernetesClient) -> None:
        while True:
            try:
                await self._watch_pods(client)
            except Exception:  # a bug: everything is listed again
                log.exception("the pods of this node cannot be watched")
                self._heard_s = float("-inf")
            await asyncio.sleep(FIRST_S)

    async def _watch_pods(self, client: KubernetesClient) -> None:
        scope = WatchScope(labels=f"{MANAGED_BY}={FAIRPOOL},{POD}", fields=f"spec.nodeName={self._options.node}")
        watched = changes(client, PODS, PodOfNode, scope, on_failure=self._unheard)
        async with aclosing(watched) as batches:
            async for batch in batches:
                self._heard_s = steady_s()
                self._is_listed.set()
                known = set() if batch.is_complete else set(self._fence.pods)
                for pod, is_deleted in batch.events:
                    (known.discard if is_deleted else known.add)(pod.metadata.uid)
                    if pod.spec.host_network:
                        self._sharing_network |= {pod.metadata.uid}
                self._sharing_network &= known
                if known != self._fence.pods:
                    self._change(partial(LeaseFence.listed, pods=frozenset(known)))
                    await asyncio.to_thread(self._state.write, self._fence)

    def _unheard(self, error: KubernetesError) -> None:
        if not isinstance(error, ApiUnreachable):  # otherwise the lease says so
            self._heard_s = float("-inf")
            log.warning("the pods of this node cannot be watched: %s", error)

    def _measured_pods(self) -> MeasuredPods:
        """Called by the thread that measures."""
        return MeasuredPods(self._fence.pods, self._sharing_network)

    # --- the fence

    def _guard(self) -> None:
        """In a thread of its own: it waits neither for the API server nor for a disk."""
        while not self._ended.wait(LOOK_S):
            try:
                self._end_fenced()
            except Exception:  # the next look may succeed, and without one pods could run twice
                log.exception("the pods of this node could not be ended")

    def _end_fenced(self) -> None:
        before = self._fence.fenced
        fenced = self._change(lambda fence: fence.look(steady_s())).fenced
        if fenced - before:
            fields = {"pods": len(fenced - before), "after_s": self._options.fence_after_s}
            log.error("cut off from the API server: the pods of this node are killed", extra={"fields": fields})
        if fenced and (killed := kill_pods(fenced)):
            log.warning("processes killed", extra={"fields": killed})

    def _change(self, change: Callable[[LeaseFence], LeaseFence]) -> LeaseFence:
        with self._lock:
            self._fence = change(self._fence)
            return self._fence

    def _figures(self) -> Iterator[ProcessFigure]:
        fence = self._fence
        yield ProcessFigure("fairpool_node_pods", "Pods of Fairpool that are bound to this node", len(fence.pods))
        yield ProcessFigure("fairpool_node_lease_failing", "Whether the lease is not renewed", int(bool(self._error)))
        yield ProcessFigure("fairpool_node_fenced", "Pods that were killed after a cut", len(fence.fenced))


class FenceFile:
    """What an agent that is killed while its node is cut off has to know afterwards. Worth nothing after a reboot."""

    def __init__(self, path: Path) -> None:
        self._path, self._boot_id = path, process_table.boot_id()
        self._written = LeaseFence()

    def read(self, fence_after_s: float) -> LeaseFence:
        """What was kept; nothing, if there is none or it cannot be read."""
        found = LeaseFence(fence_after_s=fence_after_s)
        try:
            kept = json.loads(read_regular(self._path, STATE_MAX))
            if kept["boot_id"] != self._boot_id:
                return found
            answered_at_s = None if kept["answered_at_s"] is None else float(kept["answered_at_s"])
            pods, fenced = frozenset(map(str, kept["pods"])), frozenset(map(str, kept["fenced"]))
        except FileNotFoundError:
            return found
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be used: %s", self._path, error)
            return found
        return replace(found, answered_at_s=answered_at_s, pods=pods, fenced=fenced)

    def write(self, fence: LeaseFence) -> None:
        """On a thread. It is complete for as long as the machine runs."""
        if fence == self._written:
            return
        kept = {"answered_at_s": fence.answered_at_s, "pods": sorted(fence.pods), "fenced": sorted(fence.fenced)}
        try:
            replace_file(self._path, json.dumps({"boot_id": self._boot_id, **kept}).encode())
            self._written = fence
        except OSError as error:
            log.warning("%s cannot be written: %s", self._path, error)


def lease_manifest(options: NodeAgentOptions) -> dict[str, Any]:
    """The lease of this agent, renewed now. It lasts as long as the agent waits before it kills pods."""
    name, uid = options.owner
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    return {
        "apiVersion": LEASES.api_version,
        "kind": "Lease",
        "metadata": {
            "name": lease_name(options.node),
            "labels": {MANAGED_BY: FAIRPOOL, AGENT_LABEL: "true"},
            **({"ownerReferences": [owner]} if uid else {}),
        },
        "spec": {
            "holderIdentity": options.node,
            "leaseDurationSeconds": math.ceil(options.fence_after_s),
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        },
    }

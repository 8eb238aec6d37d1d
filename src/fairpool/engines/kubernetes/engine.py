"""The engine on Kubernetes: pods on the nodes of a cluster, through its API server.

All work with the API server happens in one event loop in a thread of its own. Watches keep a cache of nodes and pods up
to date, so that a cycle in which nothing happened costs no call. The first call with a new token shows it to the
cluster and lists everything anew: whatever an earlier loop created until then is observed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from fairpool.agent.uploads import Uploads
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.cluster_watch import ClusterWatch
from fairpool.engines.kubernetes.credentials import ApiServer
from fairpool.engines.kubernetes.ended_pods import EndedPods
from fairpool.engines.kubernetes.failures import KubernetesError
from fairpool.engines.kubernetes.fence import Fence
from fairpool.engines.kubernetes.node_lease_poll import NodeLeasePoll
from fairpool.engines.kubernetes.node_leases import GONE_AFTER_S
from fairpool.engines.kubernetes.node_samples import UNKNOWN, NodeMeasure, NodeSamples
from fairpool.engines.kubernetes.order_execution import EquipmentProvider, OrderExecution
from fairpool.engines.kubernetes.pod_output import OutputCollection, SavedOutput
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.engines.kubernetes.project_namespaces import NamespacesOnly
from fairpool.engines.kubernetes.reservations import GpuReservations
from fairpool.engines.kubernetes.upload_delivery import UploadDelivery
from fairpool.engines.port import EngineUnreachable
from fairpool.model.ids import Instant, PodId, Token, WorkloadId
from fairpool.model.node import SIMULATED_LABEL
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    ObservedNode,
    ObservedPod,
    Order,
    OrderResult,
    PodState,
)
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample, Sample

T = TypeVar("T")

log = logging.getLogger("fairpool.kubernetes")

CALL_S = 120.0
"""Longer than any call may take; what is not done by then has gone wrong in a way that nothing provides for."""
ATTEMPTS = 2
"""The loop tries again by itself, and has other things to do."""
CLOSE_S = 10.0
OUTPUTS_S = 2.0
CLEANING_S = 1.0
"""Between two attempts to remove what must not exist."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The object of a pod."""

    namespace: str
    name: str
    uid: str


class KubernetesEngine:
    """Runs pods on a Kubernetes cluster."""

    def __init__(
        self,
        server: ApiServer,
        *,
        namespace: str,
        settings: PodSettings | None = None,
        equipment: Callable[[KubernetesClient], EquipmentProvider] = NamespacesOnly,
        keeps_output: Callable[[WorkloadId], bool] = lambda workload: True,
        uploads: Uploads | None = None,
        output: SavedOutput | None = None,
        calls_at_once: int = 32,
        node_gone_after_s: float = GONE_AFTER_S,
    ) -> None:
        """`namespace`: where the engine keeps its own objects. `equipment` makes what provides the other objects that
        pods need; it is called in the engine's event loop, and run there while this engine leads. `keeps_output`:
        whether pods of this workload that have ended are kept for their output; called in the event loop. `uploads`:
        folders that pods wait for. `output`: where that of pods which are stopped is kept. `node_gone_after_s`: without
        a renewal of its agent's lease, a silent node is gone."""
        self._server, self._namespace, self._calls_at_once = server, namespace, calls_at_once
        self._settings = settings or PodSettings()
        self._make_equipment, self._keeps_output = equipment, keeps_output
        self._uploads, self._output = uploads, output
        self._node_gone_after_s = node_gone_after_s
        self.node_samples = NodeSamples()
        """What agents on nodes have measured."""
        self._woken = threading.Event()
        self._token: Token | None = None
        self._observed = Observation(at=Instant(0))
        self._changed: set[PodId] = set()
        self._cleaning: asyncio.Task[None] | None = None
        self._outputs_at = 0.0
        self._loop = _new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="kubernetes", daemon=True)
        self._thread.start()
        self._call(self._open())

    # --- the port ---

    def observe(self, token: Token) -> Observation:
        """All nodes and pods of the cluster."""
        return self._call(self._observe(token))

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        """Carry these out, many at the same time."""
        return self._call(self._carry_out(orders, token))

    def wait(self, timeout_s: float) -> None:
        """Sleep until a watch has reported something, `wake` was called, or the time is over."""
        self._woken.wait(timeout_s)
        self._woken.clear()

    def wake(self) -> None:
        """From any thread."""
        self._woken.set()

    def sample(self) -> Sample:
        """Nodes with their devices, and pods that run, with what their agents have measured. Devices are not measured.

        TODO: figures of GPUs; worth doing where agents can tell which device a pod was given.
        """
        observed, now_s = self._observed, time.monotonic()
        uids = self._call(self._uids_of_running())
        self.node_samples.forget_all_but(frozenset(observed.nodes))
        running: dict[str, list[ObservedPod]] = {}
        for pod in observed.pods.values():
            if pod.state is PodState.RUNNING:
                running.setdefault(pod.order.node, []).append(pod)
        nodes = [
            _sampled(node, running.get(name, ()), self.node_samples.of(name, now_s), uids)
            for name, node in observed.nodes.items()
            if node.silent_since is None and not node.gone
        ]
        return Sample(at=_now(), nodes=tuple(nodes))

    def close(self) -> None:
        """Release everything; pods keep running."""
        if self._loop.is_closed():
            return
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(CLOSE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._loop.close()

    # --- for access to pods ---

    def place(self, pod: PodId) -> PodPlace | None:
        """The object of a pod, also of one that has ended and is kept for its output."""
        return self._call(self._place(pod))

    def known_place(self, pod: PodId) -> PodPlace | None:
        """The same, for callers in the engine's event loop."""
        known = self._cache.find(pod)
        return PodPlace(known.namespace, known.name, known.uid) if known is not None else None

    def watch_problems(self) -> dict[str, str]:
        """Why nodes, pods or the token cannot be watched now. From any thread."""
        return self._watch.problems

    # --- in the event loop ---

    async def _open(self) -> None:
        self._client = KubernetesClient(self._server, calls_at_once=self._calls_at_once, attempts=ATTEMPTS)
        self._signer = PodSigner()
        self._cache = ClusterCache(self._settings, self._signer, _report_impostor)
        self._fence = Fence(self._client, self._namespace)
        self._ended = EndedPods(self._client, self._namespace)
        self._watch = ClusterWatch(self._client, self._cache, self._fence, self._namespace, self.wake)
        self._agents = NodeLeasePoll(self._client, self._namespace, self._node_gone_after_s, self._loop.time, self.wake)
        self._following: asyncio.Task[None] | None = None
        self._reservations = GpuReservations(self._client, self._cache, self._settings, self._signer, self.wake)
        self._equipment = self._make_equipment(self._client)
        self._keeping: asyncio.Task[None] | None = None
        self._orders = OrderExecution(
            self._client,
            self._cache,
            self._ended,
            self._equipment,
            self._reservations,
            self._settings,
            self._signer,
        )
        self._followers: list[UploadDelivery | OutputCollection] = []
        if self._uploads is not None:
            self._followers.append(UploadDelivery(self._client, self._uploads, self._equipment))
        if self._output is not None:
            self._followers.append(OutputCollection(self._client, self._output))
        for each in self._followers:
            self._cache.follow(each)

    async def _close(self) -> None:
        for task in (self._cleaning, self._keeping, self._following):
            if task is not None:
                task.cancel()
        await self._reservations.close()
        await self._watch.stop()
        for each in self._followers:
            await each.close()
        await self._client.close()

    async def _observe(self, token: Token) -> Observation:
        await self._lead(token)
        nodes, pods, changed = self._cache.refresh()
        if self._cache.give_up(self._agents.gone(self._cache.silent)):
            self._changed |= changed
            nodes, pods, changed = self._cache.refresh()
        last = self._observed
        self._changed |= changed
        if self._changed or last.nodes is not nodes or last.token != token or not last.number:
            self._observed = Observation(
                at=_now(),
                nodes=nodes,
                pods=pods,
                token=token,
                number=last.number + 1,
                changed_pods=frozenset(self._changed),
            )
            self._changed.clear()
        if self._cache.has_leftovers or self._has_outputs_in_vain():
            self._clean_up()
        self._reservations.keep_up()
        return self._observed

    async def _carry_out(self, orders: Sequence[Order], token: Token) -> list[OrderResult]:
        await self._lead(token)
        results = await self._orders.carry_out(orders, token) if orders else []
        if self._output is not None:
            for order in orders:
                if isinstance(order, ForgetOrder) and order.with_output:
                    self._output.forget(order.pod)
        return results

    async def _uids_of_running(self) -> dict[PodId, str]:
        running = (pod for pod, seen in self._observed.pods.items() if seen.state is PodState.RUNNING)
        return {pod: known.uid for pod in running if (known := self._cache.find(pod)) is not None}

    async def _place(self, pod: PodId) -> PodPlace | None:
        return self.known_place(pod)

    async def _lead(self, token: Token) -> None:
        """Act for the loop with this token, unless there is a newer one."""
        self._fence.check(token)
        if self._token is None or token > self._token:
            await self._fence.claim(token)
            await self._signer.load(self._client, self._namespace)
            await self._ended.load()
            self._cache.take_over(token)
            await self._watch.start()
            self._token = token
        if self._keeping is None or self._keeping.done():
            self._keeping = asyncio.create_task(self._equipment.run(self._fence.confirm))
        if self._following is None or self._following.done():
            self._following = asyncio.create_task(self._agents.run())
        await self._watch.ready()
        self._fence.check(token)
        if self._fence.is_missing:
            await self._fence.claim(token)

    def _has_outputs_in_vain(self) -> bool:
        """Whether workloads are gone whose pods were kept for their output; from time to time."""
        if self._loop.time() < self._outputs_at:
            return False
        self._outputs_at = self._loop.time() + OUTPUTS_S
        if self._output is not None:
            self._output.forget_all_but(self._keeps_output)
        return bool(self._cache.kept_in_vain(self._keeps_output))

    def _clean_up(self) -> None:
        """Remove pods that must not exist, beside everything else. What is left after that is tried again."""
        if self._cleaning is None or self._cleaning.done():
            self._cleaning = self._loop.create_task(self._cleaned())

    async def _cleaned(self) -> None:
        with suppress(KubernetesError):
            await self._orders.clean_up(self._keeps_output)
        await asyncio.sleep(CLEANING_S)
        if self._cache.has_leftovers:
            self.wake()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run it in the event loop, and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(CALL_S)
        except KubernetesError as error:
            raise EngineUnreachable(str(error)) from error
        except TimeoutError:
            future.cancel()
            raise EngineUnreachable(f"no result of the Kubernetes API server within {CALL_S:.0f} s") from None


def _report_impostor(pod: PodObject) -> None:
    log.warning(
        "pod %s/%s has labels of Fairpool, but not its signature: it is treated as a pod of others. "
        "It was created or changed by another account, or the key in the secret was replaced",
        pod.metadata.namespace,
        pod.metadata.name,
    )


def _sampled(
    observed: ObservedNode, running: Sequence[ObservedPod], measured: NodeMeasure, uids: Mapping[PodId, str]
) -> NodeSample:
    """What the agent says of other pods than those that run there is not used."""
    pods = tuple(
        PodSample(
            pod=pod.order.pod,
            devices=tuple(DeviceUse(index=index) for index in pod.order.devices),
            **msgspec.structs.asdict(measured.pods.get(uids.get(pod.order.pod, ""), UNKNOWN)),
        )
        for pod in running
    )
    node = observed.node
    devices = tuple(DeviceSample(index=index) for index in range(node.gpus))
    return NodeSample(
        node=node.name,
        is_simulated=SIMULATED_LABEL in node.labels,
        devices=devices,
        pods=pods,
        **msgspec.structs.asdict(measured.node),
    )


def _new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop  # not available on every system; TLS costs half as much
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)

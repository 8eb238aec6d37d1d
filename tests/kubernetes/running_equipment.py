"""The objects beside pods, kept by a running `ClusterEquipment` in a thread of its own, as in a cluster's program."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from fairpool.agent.pod_secrets import SecretLookup, SecretSource
from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.equipment import ClusterEquipment
from fairpool.engines.kubernetes.equipment_plan import Declared, EquipmentSettings, SeenIdentity
from fairpool.engines.kubernetes.fence import Fence
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.manifests import ObjectKey
from fairpool.engines.kubernetes.resources import ApiResource
from fairpool.engines.port import Fenced
from fairpool.model.ids import Instant, NodeName, QueueId, Token, WorkloadId
from fairpool.model.node import DEFAULT_POOL
from fairpool.model.organization import NodeOverrides, Organization, Queue
from fairpool.model.spec import WorkloadSpec
from tests.kubernetes.control_plane import ControlPlane

T = TypeVar("T")
LIMIT_S = 60.0


async def only_loop() -> None:
    """No other loop leads."""


class RunningEquipment:
    """One that runs, with the calls that the threads of a program would make."""

    def __init__(self, equipment: ClusterEquipment, loop: asyncio.AbstractEventLoop) -> None:
        self.equipment, self._loop = equipment, loop
        self.refusals = 0
        """How often it was about to write and heard that another loop leads."""

    def declare(
        self,
        projects: Mapping[str, int],
        *workloads: WorkloadSpec,
        ended: frozenset[WorkloadId] = frozenset(),
        nodes: Mapping[str, NodeOverrides] | None = None,
    ) -> None:
        """`projects`: when each was created."""
        queues = tuple(Queue(id=QueueId(name), created_at=Instant(at)) for name, at in projects.items())
        overrides = {NodeName(name): each for name, each in (nodes or {}).items()}
        organization = Organization(queues={DEFAULT_POOL: queues}, node_overrides=overrides)
        specs = {each.id: each for each in workloads}
        self.equipment.declare(Declared(workloads=specs, organization=organization, ended=ended))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Nothing happens in it, as if its process were stopped."""
        over = threading.Event()
        self._loop.call_soon_threadsafe(over.wait)
        try:
            yield
        finally:
            over.set()

    def seen(self, resource: ApiResource, namespace: str, name: str) -> SeenIdentity:
        """An object as it knows it."""
        return self.equipment._mirror.seen[ObjectKey(resource, namespace, name)]

    async def confirm(self, fence: Fence) -> None:
        try:
            await fence.confirm()
        except Fenced:
            self.refusals += 1
            raise

    def call(self, made: Coroutine[Any, Any, T]) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(made, self._loop)
        return future.result(LIMIT_S)


@contextmanager
def running_equipment(
    control_plane: ControlPlane,
    settings: EquipmentSettings | None = None,
    source: SecretSource | None = None,
    *,
    token: int = 1,
    fence: str = "",
) -> Iterator[RunningEquipment]:
    """Nothing is declared yet. `fence`: the namespace in which loops show their tokens; empty: there is only one."""
    ready: Future[RunningEquipment] = Future()
    kubeconfig = str(control_plane.kubeconfig())

    async def serve() -> None:
        async with KubernetesClient(find_api_server(kubeconfig)) as client:
            equipment = ClusterEquipment(client, settings, SecretLookup(source))
            own = Fence(client, fence)
            if fence:
                await own.claim(Token(token))
            ready.set_result(running := RunningEquipment(equipment, asyncio.get_running_loop()))
            await equipment.run(partial(running.confirm, own) if fence else only_loop)

    loop = asyncio.new_event_loop()
    task = loop.create_task(serve())

    def run() -> None:
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)

    thread = threading.Thread(target=run, name="equipment")
    thread.start()
    try:
        yield ready.result(LIMIT_S)
    finally:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        loop.close()

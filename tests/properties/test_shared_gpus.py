"""No GPU is over-committed, in whatever order things happen to reservations, pods, loops and the API server.

A world has one node, whose device plugin chooses GPUs by dice, and two loops that act at the same time, as by mistake.
What they are told and what they send is late, by any amount. Loops are killed, reservations are deleted by hand and
evicted by the node. The loops are those of the product; the API server and the scheduler are small ones.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpool.engines.kubernetes.cluster_cache import ClusterCache
from fairpool.engines.kubernetes.failures import AlreadyExists, Conflict, KubernetesError, NotFound
from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.node_reading import NodeObject
from fairpool.engines.kubernetes.objects import FINALIZER, pod_manifest
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_settings import GPU_RESOURCE, PodSettings
from fairpool.engines.kubernetes.pod_signature import PodSigner
from fairpool.engines.kubernetes.reservations import GpuReservations
from fairpool.engines.kubernetes.resources import PODS
from fairpool.engines.kubernetes.shares import Ready
from fairpool.model.ids import NodeName, PodId, Token
from fairpool.model.observation import StartOrder
from fairpool.model.workload import GpuKind, PodShape, gpu_portion, whole_gpus
from tests.contracts.harness import start_order

GPUS = 3
NODE = NodeName("n1")
BOOT = "boot-1"
SETTINGS = PodSettings(reservation_image="example/shell:1", unenforced_shares=True)
SIGNER = PodSigner(b"k" * 32)
STEPS = 250
CALM_STEPS = 400
LATE_S = 60.0
"""A call that takes longer has failed."""
DEVICES = tuple(f"GPU-00000000-0000-4000-8000-00000000000{index}" for index in range(GPUS))

Raw = dict[str, Any]


@settings(max_examples=15)
@given(st.randoms(use_true_random=False), st.booleans())
def test_no_gpu_is_over_committed(dice: Random, with_losses: bool) -> None:
    check_world(dice, with_losses)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 120, 20))
def test_no_gpu_is_over_committed_in_many_worlds(first: int) -> None:
    for seed in range(first, first + 20):
        check_world(Random(seed), with_losses=bool(seed % 2))


def check_world(dice: Random, with_losses: bool) -> None:
    world = World(dice, with_losses=with_losses)
    try:
        for _ in range(STEPS):
            world.step()
        world.come_to_rest()
    finally:
        world.close()


# --- the API server and the node


@dataclass
class Call:
    """A call that is on its way: its effect, and the way back."""

    effect: Callable[[], Any]
    answer: asyncio.Future[Any]
    sent_at_s: float
    result: Any = None
    is_done: bool = False


@dataclass
class Server:
    """Pods as an API server keeps them."""

    pods: dict[str, Raw] = field(default_factory=dict)
    version: int = 0
    uids: int = 0
    followers: list[list[tuple[Raw, bool]]] = field(default_factory=list)
    """For each watch, events that it has not delivered yet."""

    def create(self, body: Raw) -> Raw:
        name = body["metadata"]["name"]
        if name in self.pods:
            raise AlreadyExists("create", 409, "AlreadyExists", name)
        self.uids += 1
        pod = copy.deepcopy(body)
        pod["metadata"] |= {"uid": f"uid-{self.uids}"}
        pod["status"] = {"phase": "Pending"}
        self.pods[name] = pod
        return self.changed(name)

    def changed(self, name: str, *, is_deleted: bool = False) -> Raw:
        self.version += 1
        pod = self.pods[name]
        pod["metadata"]["resourceVersion"] = str(self.version)
        seen = copy.deepcopy(pod)
        if is_deleted:
            del self.pods[name]
        for each in self.followers:
            each.append((seen, is_deleted))
        return seen

    def found(self, name: str, uid: str = "", version: str = "") -> Raw:
        pod = self.pods.get(name)
        if pod is None:
            raise NotFound("get", 404, "NotFound", name)
        metadata = pod["metadata"]
        if (uid and metadata["uid"] != uid) or (version and metadata["resourceVersion"] != version):
            raise Conflict("delete", 409, "Conflict", name)
        return pod

    def patch(self, name: str, body: Raw) -> Raw:
        pod, wanted = self.found(name, body["metadata"]["uid"]), body["metadata"]
        annotations = pod["metadata"]["annotations"] | wanted.get("annotations", {})
        pod["metadata"]["annotations"] = {key: value for key, value in annotations.items() if value is not None}
        for each in wanted.get("$deleteFromPrimitiveList/finalizers", ()):
            pod["metadata"]["finalizers"] = [one for one in pod["metadata"]["finalizers"] if one != each]
        return self.changed(name, is_deleted=self._is_over(pod))

    def delete(self, name: str, uid: str, version: str, grace_s: int) -> None:
        pod = self.found(name, uid, version)
        metadata = pod["metadata"]
        before = metadata.get("deletionGracePeriodSeconds", grace_s)
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
        metadata["deletionGracePeriodSeconds"] = min(grace_s, before)
        self.changed(name, is_deleted=self._is_over(pod))

    def _is_over(self, pod: Raw) -> bool:
        metadata = pod["metadata"]
        return metadata.get("deletionGracePeriodSeconds") == 0 and not metadata["finalizers"]


class LateClient:
    """The client of one loop. Each call is carried out when the world says so, and answered after that."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_dead = False

    async def create(self, resource: object, body: Raw, answer: object = None, **_: Any) -> Any:
        if resource is not PODS:
            return None
        return _read(await self._call(lambda: self._world.server.create(body)))

    async def get(self, resource: object, name: str, answer: object, **_: Any) -> Any:
        if resource is not PODS:
            return None
        return _read(await self._call(lambda: copy.deepcopy(self._world.server.found(name))))

    async def patch(self, resource: object, name: str, body: Raw, answer: object = None, **_: Any) -> Any:
        return _read(await self._call(lambda: self._world.server.patch(name, body)))

    async def delete(
        self, resource: object, name: str, *, uid: str = "", resource_version: str = "", grace_s: int = 0, **_: Any
    ) -> None:
        await self._call(lambda: self._world.server.delete(name, uid, resource_version, grace_s))

    async def _call(self, effect: Callable[[], Any]) -> Any:
        call = Call(effect, asyncio.get_running_loop().create_future(), self._world.now_s)
        self._world.calls.append(call)
        return await call.answer


@dataclass
class Replica:
    """One loop: what it knows, and what it is doing."""

    cache: ClusterCache
    reservations: GpuReservations
    client: LateClient
    events: list[tuple[Raw, bool]]
    starting: dict[PodId, asyncio.Task[None]] = field(default_factory=dict)


class WorldLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock the world sets."""

    now_s = 1000.0

    def time(self) -> float:
        return self.now_s


class World:
    """Everything, with dice."""

    def __init__(self, dice: Random, *, with_losses: bool) -> None:
        self.dice, self.with_losses = dice, with_losses
        self.server, self.calls = Server(), list[Call]()
        self.loop = WorldLoop()
        self.held: dict[str, str] = {}
        """By GPU, the name of the pod to which the device plugin gave it."""
        self.orders: dict[PodId, StartOrder] = {}
        """Of pods that the scheduler believes to hold their seats."""
        self.stopped: set[PodId] = set()
        self.count = 0
        self.replicas = [self.replica(), self.replica()]

    @property
    def now_s(self) -> float:
        return self.loop.now_s

    def replica(self) -> Replica:
        return self.loop.run_until_complete(self._replica())

    async def _replica(self) -> Replica:
        events: list[tuple[Raw, bool]] = []
        self.server.followers.append(events)
        cache, client = ClusterCache(SETTINGS, SIGNER), LateClient(self)
        made = Replica(cache, GpuReservations(client, cache, SETTINGS, SIGNER), client, events)  # type: ignore[arg-type]
        cache.take_nodes([_node()], [], is_complete=True)
        cache.take_pods([_read(pod) for pod in self.server.pods.values()], complete_at=str(self.server.version))
        cache.refresh()
        return made

    def close(self) -> None:
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.run()
        self.loop.close()

    # --- what happens

    def step(self) -> None:
        happens: list[Callable[[], None]] = [
            *[self.carry_out] * 20,
            *[self.deliver] * 12,
            *[self.admit] * 8,
            *[self.send] * 8,
            *[self.keep_up] * 4,
            *[self.order_share] * 4,
            self.order_whole,
            self.end,
            self.stop,
            self.time_passes,
            self.crash,
            self.delete_by_hand,
            *([self.lose] * 2 if self.with_losses else []),
        ]
        self.dice.choice(happens)()
        self.check()

    def come_to_rest(self) -> None:
        """Nothing new happens: everything ends, and no reservation is left."""
        for pod in list(self.orders):
            self.stopped.add(pod)
        for _ in range(CALM_STEPS):
            for each in (self.carry_out, self.carry_out, self.deliver, self.deliver, self.admit, self.end, self.stop):
                each()
            self.keep_up()
            self._wait(0.5)
            self.check()
            if not self.server.pods and not self.orders:
                return
        raise AssertionError(f"left: {sorted(self.server.pods)}, {sorted(self.orders)}")

    def run(self) -> None:
        """Until no task can go on."""
        for _ in range(30):
            self.loop.call_soon(self.loop.stop)
            self.loop.run_forever()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self.run()
        return task

    # --- the network

    def deliver(self) -> None:
        replica = self.dice.choice(self.replicas)
        self._hear(replica, 1)

    def _hear(self, replica: Replica, count: int) -> None:
        for pod, is_deleted in replica.events[:count]:
            read = _read(pod)
            if is_deleted:
                replica.cache.remove(read.metadata.namespace, read.metadata.name, read.metadata.uid)
            else:
                replica.cache.take_pod(read)
        del replica.events[:count]
        replica.cache.refresh()
        self.run()

    def carry_out(self) -> None:
        """One call goes a step on: it has its effect, or its answer arrives."""
        if self.calls:
            self._go_on(self.dice.choice(self.calls))

    def _go_on(self, call: Call) -> None:
        if not call.is_done:
            call.is_done = True
            try:
                call.result = call.effect()
            except KubernetesError as error:
                call.result = error
            return
        self.calls.remove(call)
        if call.answer.cancelled():
            return
        if isinstance(call.result, KubernetesError):
            call.answer.set_exception(call.result)
        else:
            call.answer.set_result(call.result)
        self.run()

    # --- the node

    def admit(self) -> None:
        waiting = [pod for pod in self.server.pods.values() if pod["status"]["phase"] == "Pending"]
        if not waiting:
            return
        pod = self.dice.choice(waiting)
        name = pod["metadata"]["name"]
        if "deletionTimestamp" in pod["metadata"]:
            pod["status"] = {"phase": "Failed"}
            self.server.changed(name)
            return
        free = [gpu for gpu in DEVICES if gpu not in self.held]
        wanted = _gpus_of(pod)
        if len(free) < wanted:
            pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
            self.server.changed(name)
            return
        given = self.dice.sample(free, wanted)
        self.held |= dict.fromkeys(given, name)
        pod["status"] = {"phase": "Running"}
        if _is_reservation(pod):
            report = {"terminated": {"exitCode": 0, "message": given[0]}}
            pod["status"]["initContainerStatuses"] = [{"name": "report", "state": report}]
        self.server.changed(name)

    def end(self) -> None:
        """A pod that was told to stop has ended, or one ends by itself."""
        running = [pod for pod in self.server.pods.values() if pod["status"]["phase"] == "Running"]
        ending = [pod for pod in running if not _is_reservation(pod) or self._is_short(pod)]
        if ending:
            self._end(self.dice.choice(ending))
            return
        over = [pod for pod in self.server.pods.values() if pod["status"]["phase"] == "Failed"]
        for pod in over:
            if "deletionTimestamp" in pod["metadata"] and self.dice.random() < 0.5:
                metadata = pod["metadata"]
                self.server.delete(metadata["name"], metadata["uid"], "", 0)
                return

    def _end(self, pod: Raw) -> None:
        name = pod["metadata"]["name"]
        pod["status"]["phase"] = "Failed"
        self.held = {gpu: holder for gpu, holder in self.held.items() if holder != name}
        self.server.changed(name)

    def _is_short(self, pod: Raw) -> bool:
        return bool(pod["metadata"].get("deletionGracePeriodSeconds", 3600) <= 1)

    def lose(self) -> None:
        """The node evicts a reservation. What is under way before that is known cannot be kept from its GPU, so that
        first everything arrives."""
        self._settle()
        reservations = [pod for pod in self.server.pods.values() if _is_reservation(pod)]
        running = [pod for pod in reservations if pod["status"]["phase"] == "Running"]
        if not running or self.calls or any(pod["status"]["phase"] == "Pending" for pod in self.server.pods.values()):
            return
        self._end(self.dice.choice(running))
        for replica in self.replicas:
            self._hear(replica, len(replica.events))

    def _settle(self) -> None:
        for _ in range(20):
            while self.calls:
                self._go_on(self.calls[0])
            self.admit()
            for replica in self.replicas:
                self._hear(replica, len(replica.events))

    def delete_by_hand(self) -> None:
        reservations = [pod for pod in self.server.pods.values() if _is_reservation(pod)]
        if reservations:
            metadata = self.dice.choice(reservations)["metadata"]
            self.server.delete(metadata["name"], metadata["uid"], "", 3600)

    def time_passes(self) -> None:
        self._wait(self.dice.choice((0.3, 2.0, 20.0, 50.0)))

    def _wait(self, seconds: float) -> None:
        self.loop.now_s += seconds
        for call in [call for call in self.calls if call.sent_at_s + LATE_S < self.now_s]:
            self.calls.remove(call)
            call.answer.cancel()
        self.run()

    # --- the scheduler

    def order_share(self) -> None:
        self.count += 1
        seat, milli = self.dice.randrange(GPUS), self.dice.choice((250, 500, 500, 1000 - 250))
        used = sum(_milli(order) for order in self.orders.values() if seat in order.devices)
        if used + milli <= 1000:
            self._add(start_order(f"share-{self.count}", **_place(seat), shape=PodShape(gpu=gpu_portion(milli))))

    def order_whole(self) -> None:
        self.count += 1
        seat = self.dice.randrange(GPUS)
        if not any(seat in order.devices for order in self.orders.values()):
            self._add(start_order(f"whole-{self.count}", **_place(seat), shape=PodShape(gpu=whole_gpus(1))))

    def _add(self, order: StartOrder) -> None:
        self.orders[order.pod] = order

    def send(self) -> None:
        """A loop is told to start a pod that it has not started, as far as the ledger says."""
        owed = [order for order in self.orders.values() if order.pod not in self.stopped and not self._object(order)]
        replica = self.dice.choice(self.replicas)
        owed = [order for order in owed if not self._is_being_started(order.pod)]
        if owed:
            order = self.dice.choice(owed)
            replica.starting[order.pod] = self.start(self._start(replica, order))

    async def _start(self, replica: Replica, order: StartOrder) -> None:
        """As `order_execution` does."""
        try:
            answer = await replica.reservations.prepare(order)
            if not isinstance(answer, Ready):
                return
            body = pod_manifest(order, Token(1), "team", SETTINGS, shared_gpus=answer.gpus)
            assert isinstance(body, dict), body
            replica.cache.take_pod(await replica.client.create(PODS, SIGNER.signed(body), PodObject))
        except KubernetesError:
            return

    def stop(self) -> None:
        """A pod is stopped; one that was not started never will be."""
        pods = [pod for pod in self.orders if not self._is_being_started(pod)]
        if not pods:
            return
        order = self.orders[self.dice.choice(sorted(self.stopped & set(pods)) or pods)]
        self.stopped.add(order.pod)
        pod = self._object(order)
        if pod is None:
            for replica in self.replicas:
                replica.reservations.withdraw(order.pod)
            del self.orders[order.pod]
        elif pod["status"]["phase"] == "Failed":
            self._forget(order, pod)
        else:
            self.server.delete(pod["metadata"]["name"], pod["metadata"]["uid"], "", 1)

    def _forget(self, order: StartOrder, pod: Raw) -> None:
        metadata = pod["metadata"]
        self.server.delete(metadata["name"], metadata["uid"], "", 0)
        if metadata["name"] in self.server.pods:
            body = {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}
            self.server.patch(metadata["name"], {"metadata": body})
        del self.orders[order.pod]

    def _object(self, order: StartOrder) -> Raw | None:
        found = (pod for pod in self.server.pods.values() if pod["metadata"]["labels"].get("release") == order.name)
        return next(found, None)

    def _is_being_started(self, pod: PodId) -> bool:
        tasks = [replica.starting.get(pod) for replica in self.replicas]
        return any(task is not None and not task.done() for task in tasks)

    def keep_up(self) -> None:
        replica = self.dice.choice(self.replicas)
        self.start(self._keep_up(replica))

    async def _keep_up(self, replica: Replica) -> None:
        replica.reservations.keep_up()

    def crash(self) -> None:
        """A loop is killed, and another one starts. Calls that it has sent may still have their effect."""
        number = self.dice.randrange(len(self.replicas))
        replica = self.replicas[number]
        if any(not task.done() for task in replica.starting.values()):
            return  # of these pods the scheduler would not know whether they were started
        self.server.followers = [each for each in self.server.followers if each is not replica.events]
        self.replicas[number] = self.replica()

    # --- what must hold

    def check(self) -> None:
        running = [pod for pod in self.server.pods.values() if pod["status"]["phase"] == "Running"]
        names = {pod["metadata"]["name"]: pod for pod in running}
        for gpu in DEVICES:
            sharing = [pod for pod in running if pod["metadata"]["annotations"].get("fairpool.io/shared-gpus") == gpu]
            milli = sum(_milli(self._order(pod)) for pod in sharing)
            assert milli <= 1000, f"{gpu} has {milli} of 1000"
            holder = names.get(self.held.get(gpu, ""))
            if sharing and not self.with_losses:
                assert holder is not None, f"{gpu} is not reserved"
            if sharing and holder is not None:
                assert _is_reservation(holder), f"{gpu} is shared, and {holder['metadata']['name']} has it whole"

    def _order(self, pod: Raw) -> StartOrder:
        return next(order for order in self.orders.values() if order.name == pod["metadata"]["labels"]["release"])


def _place(seat: int) -> dict[str, Any]:
    return {"node": NODE, "boot_id": BOOT, "devices": (seat,)}


def _milli(order: StartOrder) -> int:
    return 1000 if order.shape.gpu.kind is GpuKind.WHOLE else order.shape.gpu.portion_milli


def _is_reservation(pod: Raw) -> bool:
    return bool(pod["metadata"]["namespace"] == RESERVATION_NAMESPACE)


def _gpus_of(pod: Raw) -> int:
    return int(pod["spec"]["containers"][0]["resources"].get("limits", {}).get(GPU_RESOURCE, 0))


def _read(pod: Any) -> PodObject:
    return msgspec.convert(pod, PodObject)


def _node() -> NodeObject:
    amounts = {"cpu": "64", "memory": "1Ti", "pods": "100", GPU_RESOURCE: str(GPUS)}
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"bootID": BOOT},
    }
    return msgspec.convert({"metadata": {"name": NODE, "uid": "node"}, "status": status}, NodeObject)

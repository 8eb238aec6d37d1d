"""Parts of GPUs on real kubelets, with real containers and a device plugin that has GPUs to offer."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import pod_name
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.model.ids import Token
from fairpool.model.observation import OrderStatus, PodState, StartOrder, StopOrder
from fairpool.model.spec import Program
from fairpool.model.workload import GpuRequest, PodShape, gpu_portion, whole_gpus
from tests.contracts.harness import start_order
from tests.contracts.kubernetes_harness import open_engine
from tests.kubernetes.device_ids import device_ids
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.nodes import Cluster
from tests.needs import kubernetes_program

pytestmark = pytest.mark.slow

TOKEN = Token(1)
TIMEOUT_S = 120
SETTINGS = PodSettings(reservation_image=BUSYBOX, unenforced_shares=True)
PROGRAM = Program(
    image=BUSYBOX,
    command=("/bin/sh", "-c", 'echo "$NVIDIA_VISIBLE_DEVICES"; trap "exit 0" TERM; while :; do sleep 0.2; done'),
)
PATH = f"/api/v1/namespaces/{RESERVATION_NAMESPACE}/pods"


class RealShares:
    """An engine that runs pods on the first node."""

    def __init__(self, cluster: Cluster, engine: KubernetesEngine) -> None:
        self.admin, self.engine = cluster.plane.admin, engine
        self.kubeconfig, self.node = str(cluster.plane.kubeconfig()), cluster.nodes[0].name
        self.gpus = device_ids(self.node, cluster.nodes[0].gpus)
        self.orders: list[StartOrder] = []

    def order(self, name: str, gpu: GpuRequest, *seats: int) -> StartOrder:
        boot_id = self.admin.get(f"/api/v1/nodes/{self.node}")["status"]["nodeInfo"]["bootID"]
        shape = PodShape(gpu=gpu, cpu_milli=10, memory_bytes=8 << 20)
        return replace(
            start_order(name, node=self.node, boot_id=boot_id, devices=seats, shape=shape), program=PROGRAM, grace_s=2
        )

    def start(self, *orders: StartOrder) -> None:
        self.orders += orders
        left = list(orders)

        def are_created() -> bool:
            answers = self.engine.carry_out(left, TOKEN)
            assert all(each.status is not OrderStatus.REFUSED for each in answers), answers
            later = [order for order, each in zip(left, answers, strict=True) if each.status is not OrderStatus.DONE]
            left[:] = later
            return not later

        self.until(are_created, "all are created")
        self.until(lambda: all(self.state(each) is PodState.RUNNING for each in orders), "all run")

    def stop(self, *orders: StartOrder) -> None:
        stops = [StopOrder(pod=each.pod, node=each.node, grace_s=2, reason="") for each in orders]
        self.engine.carry_out(stops, TOKEN)
        self.until(lambda: all(self.state(each) in (None, PodState.EXITED) for each in orders), "all have ended")

    def state(self, order: StartOrder) -> PodState | None:
        found = self.engine.observe(TOKEN).pods.get(order.pod)
        return found.state if found is not None else None

    def until(self, holds: Callable[[], object], what: str) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not holds():
            assert time.monotonic() < end, f"not so after {TIMEOUT_S} s: {what}"
            self.engine.observe(TOKEN)
            self.engine.wait(0.2)

    def seen_by(self, order: StartOrder) -> tuple[str, ...]:
        """The GPUs that a container really sees."""
        path = f"/api/v1/namespaces/runai-{order.project}/pods/{pod_name(order)}/log"
        self.until(lambda: str(self.admin.get(path)).strip(), f"{order.name} has written")
        return tuple(str(self.admin.get(path)).strip().split(","))

    def reserved(self) -> dict[str, str]:
        """The GPU that each reservation has reported, by the name of its pod."""
        return {
            pod["metadata"]["name"]: pod["status"]["initContainerStatuses"][0]["state"]["terminated"]["message"]
            for pod in self.admin.get(PATH)["items"]
            if "terminated" in pod.get("status", {}).get("initContainerStatuses", [{}])[0].get("state", {})
        }

    def held_by(self, name: str) -> str:
        """The GPU of the container that holds it."""
        self.until(lambda: self.admin.get(f"{PATH}/{name}")["status"]["phase"] == "Running", f"{name} runs")
        done = self.inside(name, "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def inside(self, name: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command in the container that holds the GPU."""
        command = (kubernetes_program("kubectl"), "--kubeconfig", self.kubeconfig, "exec", "-n", RESERVATION_NAMESPACE)
        return subprocess.run(
            [*command, name, "-c", "hold", "--", *words], capture_output=True, text=True, check=False, timeout=60
        )


@pytest.fixture
def shares(cluster: Cluster) -> Iterator[RealShares]:
    engine = open_engine(cluster.plane, "engine-of-shares", settings=SETTINGS)
    made = RealShares(cluster, engine)
    try:
        yield made
        made.stop(*made.orders)
        made.until(lambda: not made.admin.get(PATH)["items"], "no reservation is left")
    finally:
        engine.close()


def test_sixteen_halves_at_once_land_two_on_each_gpu(shares: RealShares) -> None:
    halves = [shares.order(f"half-{number}", gpu_portion(500), number // 2) for number in range(16)]
    shares.start(*halves)
    seen = [shares.seen_by(each) for each in halves]
    assert sorted(seen) == sorted((gpu,) for gpu in shares.gpus * 2)
    assert seen[::2] == seen[1::2]
    reserved = shares.reserved()
    assert sorted(reserved.values()) == sorted(shares.gpus)
    assert {name: shares.held_by(name) for name in reserved} == reserved


def test_the_gpus_of_parts_are_free_for_whole_ones_when_the_last_part_has_ended(shares: RealShares) -> None:
    halves = [shares.order(f"part-{seat}", gpu_portion(500), seat) for seat in range(3)]
    whole = shares.order("whole", whole_gpus(5), 3, 4, 5, 6, 7)
    shares.start(*halves, whole)
    given = {*shares.seen_by(whole), *(gpu for each in halves for gpu in shares.seen_by(each))}
    assert given == set(shares.gpus)
    shares.stop(*halves)
    more = shares.order("more", whole_gpus(3), 0, 1, 2)
    shares.start(more)
    assert {*shares.seen_by(more), *shares.seen_by(whole)} == set(shares.gpus)


def test_a_reservation_whose_container_is_killed_keeps_its_gpu(shares: RealShares) -> None:
    half = shares.order("half-of-killed", gpu_portion(500), 0)
    shares.start(half)
    [(name, gpu)] = shares.reserved().items()
    assert shares.held_by(name) == gpu
    shares.inside(name, "sh", "-c", "kill -9 -1")
    rest = shares.order("all-others", whole_gpus(7), *range(1, 8))
    shares.start(rest)
    assert {*shares.seen_by(rest), gpu} == set(shares.gpus)
    assert shares.reserved() == {name: gpu}


def test_a_gpu_whose_reservation_is_deleted_by_hand_is_reserved_again(shares: RealShares) -> None:
    half = shares.order("half-of-deleted", gpu_portion(500), 0)
    shares.start(half)
    [(name, gpu)] = shares.reserved().items()
    before = shares.admin.get(f"{PATH}/{name}")["metadata"]["uid"]
    shares.admin.delete(f"{PATH}/{name}")
    time.sleep(2)
    assert shares.held_by(name) == gpu  # its grace period has begun, and it does not care

    def is_found_again() -> bool:
        pods = shares.admin.get(PATH)["items"]
        return all(pod["metadata"]["uid"] != before for pod in pods) and list(shares.reserved().values()) == [gpu]

    shares.until(is_found_again, "the same GPU is reserved, and no other")
    rest = shares.order("all-but-one", whole_gpus(7), *range(1, 8))
    shares.start(rest)
    assert {*shares.seen_by(rest), gpu} == set(shares.gpus)

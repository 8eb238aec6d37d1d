"""Parts of GPUs on a real API server: which pods are given which GPU, and how long it stays reserved."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import FINALIZER, SHARED_GPUS
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.port import Fenced
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.ids import PodId, Token
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    Order,
    OrderResult,
    OrderStatus,
    PodState,
    StartOrder,
    StopOrder,
)
from fairpool.model.workload import PodShape, gpu_portion, whole_gpus
from tests.contracts.harness import start_order
from tests.contracts.kubernetes_harness import open_engine, remove_everything
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, node

SETTINGS = PodSettings(reservation_image="example/shell:1", unenforced_shares=True)
TIMEOUT_S = 30
IGNORES_S = 3600.0
"""A reservation ignores SIGTERM."""
NODE = "shared-1"
PATH = f"/api/v1/namespaces/{RESERVATION_NAMESPACE}/pods"
ONE, TWO = Token(1), Token(2)


class SharedNode:
    """A node of four GPUs, and engines that run pods on it."""

    def __init__(self, plane: ControlPlane, kubelet: FakeKubelet) -> None:
        self.plane, self.kubelet = plane, kubelet
        self.namespace = f"engine-{secrets.token_hex(3)}"
        self.engine = self.open()
        kubelet.behaviour = lambda pod: Behaviour(stop_s=IGNORES_S if is_reservation(pod) else 0)

    def open(self, settings: PodSettings = SETTINGS) -> KubernetesEngine:
        return open_engine(self.plane, self.namespace, settings=settings)

    def restart(self) -> None:
        self.engine.close()
        self.engine = self.open()

    def share(self, name: str, *seats: int, milli: int = 500) -> StartOrder:
        shape = PodShape(gpu=gpu_portion(milli, len(seats)), cpu_milli=100)
        return start_order(name, node=NODE, boot_id=self.boot_id, devices=seats, shape=shape)

    def whole(self, name: str, *seats: int) -> StartOrder:
        shape = PodShape(gpu=whole_gpus(len(seats)), cpu_milli=100)
        return start_order(name, node=NODE, boot_id=self.boot_id, devices=seats, shape=shape)

    @property
    def boot_id(self) -> str:
        return str(self.plane.admin.get(f"/api/v1/nodes/{NODE}")["status"]["nodeInfo"]["bootID"])

    def send(self, *orders: Order, token: Token = ONE) -> list[OrderResult]:
        return list(self.engine.carry_out(orders, token))

    def start(self, *orders: StartOrder, token: Token = ONE) -> None:
        """As the loop does: what is answered with LATER is sent again."""
        left: Sequence[StartOrder] = orders
        end = time.monotonic() + TIMEOUT_S
        while left:
            answers = self.send(*left, token=token)
            assert all(each.status in (OrderStatus.DONE, OrderStatus.LATER) for each in answers), answers
            left = [order for order, each in zip(left, answers, strict=True) if each.status is OrderStatus.LATER]
            assert time.monotonic() < end, answers
            self.engine.observe(token)
        names = {order.pod for order in orders}
        self.until(lambda seen: all(is_running(seen, pod) for pod in names), f"{names} run", token)

    def stop(self, *orders: StartOrder, token: Token = ONE) -> None:
        pods = [order.pod for order in orders]
        self.send(*(StopOrder(pod=pod, node=None, grace_s=1, reason="") for pod in pods), token=token)
        self.until(lambda seen: not any(is_alive(seen, pod) for pod in pods), f"{pods} have ended", token)

    def until(self, holds: Callable[[Observation], bool], what: str, token: Token = ONE) -> None:
        end = time.monotonic() + TIMEOUT_S
        while not holds(self.engine.observe(token)):
            assert time.monotonic() < end, f"not so after {TIMEOUT_S} s: {what}"
            self.engine.wait(0.05)

    def until_reserved(self, count: int, token: Token = ONE) -> None:
        self.until(lambda _: len(self.reservations()) == count, f"{count} reservations", token)

    def reservations(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.admin.get(PATH)["items"]
        return found

    def reserved(self) -> dict[str, str]:
        """The GPU of each reservation, by its seat."""
        return {
            each["metadata"]["labels"]["fairpool.io/reservation"]: ",".join(
                self.kubelet.devices(RESERVATION_NAMESPACE, each["metadata"]["name"])
            )
            for each in self.reservations()
        }

    def pods(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.plane.admin.get("/api/v1/namespaces/runai-vision/pods")["items"]
        return found

    def gpus(self) -> dict[str, str]:
        """The GPUs that each pod with parts of GPUs sees, by the name of its workload."""
        return {
            each["metadata"]["labels"]["release"]: variable(each, "NVIDIA_VISIBLE_DEVICES")
            for each in self.pods()
            if SHARED_GPUS in each["metadata"]["annotations"]
        }


@pytest.fixture
def shared(control_plane: ControlPlane) -> Iterator[SharedNode]:
    with ExitStack() as stack:
        control_plane.admin.create("/api/v1/nodes", node(NODE, gpus=4))
        stack.callback(remove_everything, control_plane)
        made = SharedNode(control_plane, stack.enter_context(FakeKubelet(control_plane)))
        stack.callback(lambda: made.engine.close())
        yield made


def test_a_part_of_a_gpu_is_of_a_device_that_is_reserved_for_it(shared: SharedNode) -> None:
    shared.start(shared.share("half", 2))
    assert shared.gpus() == {"half": shared.reserved()["2"]}
    [pod] = shared.pods()
    assert "nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"].get("limits", {})
    assert variable(pod, "GPU_PORTION") == "0.5"
    assert variable(pod, "RUNAI_NUM_OF_GPUS") == "0.5"
    assert variable(pod, "FAIRPOOL_GPU_MEMORY_MIB") == str(81559 // 2)
    [reservation] = shared.reservations()
    assert reservation["spec"]["nodeName"] == NODE
    assert reservation["spec"]["priority"] == 1_000_000_000
    assert reservation["metadata"]["finalizers"] == [FINALIZER]


def test_sixteen_halves_at_once_land_two_on_each_device(control_plane: ControlPlane) -> None:
    with ExitStack() as stack:
        control_plane.admin.create("/api/v1/nodes", node(NODE, gpus=8))
        stack.callback(remove_everything, control_plane)
        shared = SharedNode(control_plane, stack.enter_context(FakeKubelet(control_plane)))
        stack.callback(lambda: shared.engine.close())
        orders = [shared.share(f"half-{number}", number // 2) for number in range(16)]
        shared.start(*orders)
        reserved, gpus = shared.reserved(), shared.gpus()
        assert len(reserved) == len(set(reserved.values())) == 8
        assert gpus == {f"half-{number}": reserved[str(number // 2)] for number in range(16)}
        shared.stop(*orders)
        shared.until_reserved(0)


def test_a_reservation_ends_with_the_last_pod_of_its_seat(shared: SharedNode) -> None:
    first, second = shared.share("first", 0), shared.share("second", 0)
    shared.start(first, second)
    shared.stop(first)
    before = shared.reserved()
    shared.until(lambda seen: not is_alive(seen, first.pod), "the first has ended")
    time.sleep(0.5)
    shared.engine.observe(ONE)
    assert shared.reserved() == before != {}
    shared.stop(second)
    shared.until_reserved(0)


def test_whole_gpus_and_parts_are_never_of_the_same_device(shared: SharedNode) -> None:
    shared.start(shared.share("half", 1), shared.whole("three", 0, 2, 3))
    [name] = [each["metadata"]["name"] for each in shared.pods() if each["metadata"]["labels"]["release"] == "three"]
    whole = shared.kubelet.devices("runai-vision", name)
    assert len({*whole, shared.gpus()["half"]}) == 4


def test_reservations_are_not_taken_for_foreign_use(shared: SharedNode) -> None:
    shared.start(shared.share("half", 1))
    seen = shared.engine.observe(ONE).nodes[NODE]  # type: ignore[index]
    assert (seen.node.gpus, seen.node.gpus_withheld, seen.message) == (4, (), "")


def test_a_pod_elsewhere_with_the_label_of_a_reservation_is_foreign(shared: SharedNode, namespace: str) -> None:
    limits = {"nvidia.com/gpu": "3"}
    container = {"name": "a", "image": "example/a:1", "resources": {"limits": limits}}
    labels = {"app.kubernetes.io/managed-by": "fairpool", "fairpool.io/reservation": "0"}
    body = {"metadata": {"name": "pretender", "labels": labels}, "spec": {"nodeName": NODE, "containers": [container]}}
    path = f"/api/v1/namespaces/{namespace}/pods"
    shared.plane.admin.create(path, body)
    shared.until(lambda seen: len(seen.nodes[NODE].node.gpus_withheld) == 3, "its GPUs are withheld")  # type: ignore[index]


def test_a_whole_gpu_waits_until_the_reservation_of_its_seat_is_gone(shared: SharedNode) -> None:
    halves = [shared.share(f"half-{seat}", seat) for seat in range(4)]
    shared.start(*halves)
    assert shared.send(shared.whole("all", 0, 1, 2, 3))[0].status is OrderStatus.LATER
    shared.stop(*halves)
    shared.start(shared.whole("all", 0, 1, 2, 3))


def test_several_parts_of_one_pod_are_of_different_devices(shared: SharedNode) -> None:
    shared.start(shared.share("both", 3, 1))
    reserved = shared.reserved()
    assert shared.gpus() == {"both": f"{reserved['3']},{reserved['1']}"}


def test_an_engine_that_has_just_started_knows_what_is_shared(shared: SharedNode) -> None:
    first, second = shared.share("first", 0), shared.share("second", 0)
    shared.start(first)
    before = shared.reserved()
    shared.restart()
    shared.start(second)
    assert shared.reserved() == before
    assert set(shared.gpus().values()) == set(before.values())
    shared.restart()
    shared.stop(first, second)
    shared.until_reserved(0)


def test_a_reservation_deleted_by_hand_holds_its_device_until_the_last_pod_has_ended(shared: SharedNode) -> None:
    half = shared.share("half", 0)
    shared.start(half)
    [reservation] = shared.reservations()
    shared.plane.admin.delete(f"{PATH}/{reservation['metadata']['name']}")
    time.sleep(0.5)
    answers = shared.send(shared.share("other", 0), shared.whole("whole", 1))
    assert [each.status for each in answers] == [OrderStatus.REFUSED, OrderStatus.DONE]
    assert shared.reserved() == {"0": shared.gpus()["half"]}
    shared.stop(half)
    shared.until_reserved(0)


def test_a_device_whose_reservation_was_lost_is_found_again(shared: SharedNode) -> None:
    half, more = shared.share("half", 2), shared.share("more", 2)
    shared.start(shared.share("one", 0), shared.share("two", 1), half)
    lost = shared.gpus()["half"]
    shared.stop(shared.share("one", 0), shared.share("two", 1))
    shared.until_reserved(1)  # so that the device plugin has others to offer first
    [reservation] = shared.reservations()
    shared.kubelet.exit(RESERVATION_NAMESPACE, reservation["metadata"]["name"], 1)
    found = [each["metadata"]["uid"] for each in shared.reservations()]
    shared.until(lambda _: found != [each["metadata"]["uid"] for each in shared.reservations()], "it is dropped")
    shared.until(lambda _: list(shared.reserved().values()) == [lost], "it is reserved again, and nothing else is")
    shared.start(more, shared.whole("whole", 0))
    assert shared.gpus()["more"] == lost
    [whole] = [each["metadata"]["name"] for each in shared.pods() if each["metadata"]["labels"]["release"] == "whole"]
    assert lost not in shared.kubelet.devices("runai-vision", whole)


def test_no_pod_gets_a_gpu_of_a_node_on_which_a_lost_device_was_taken_by_another(
    shared: SharedNode, namespace: str
) -> None:
    half = shared.share("half", 2)
    shared.start(half)
    [reservation] = shared.reservations()
    shared.engine.close()
    shared.kubelet.exit(RESERVATION_NAMESPACE, reservation["metadata"]["name"], 1)
    path = f"/api/v1/namespaces/{namespace}/pods"
    container = {"name": "a", "image": "example/a:1", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    time.sleep(0.5)
    shared.plane.admin.create(path, {"metadata": {"name": "b"}, "spec": {"nodeName": NODE, "containers": [container]}})
    time.sleep(0.5)
    shared.plane.admin.delete(f"{path}/b", grace_s=0)
    container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    shared.plane.admin.create(path, {"metadata": {"name": "c"}, "spec": {"nodeName": NODE, "containers": [container]}})
    until(lambda: shared.kubelet.devices(namespace, "c"))
    assert shared.kubelet.devices(namespace, "c") == (shared.gpus()["half"],)
    shared.engine = shared.open()
    order = shared.share("other", 0)

    def is_refused(_: Observation) -> bool:
        [answer] = shared.send(order)
        assert answer.status in (OrderStatus.LATER, OrderStatus.REFUSED), answer
        return answer.status is OrderStatus.REFUSED

    shared.until(is_refused, "it is refused")
    assert shared.gpus() == {"half": shared.gpus()["half"]}


def test_a_device_that_is_offered_several_times_is_shared_once(shared: SharedNode) -> None:
    shared.kubelet.message = lambda pod, devices: "GPU-00000000-0000-4000-8000-000000000000"
    orders = shared.share("first", 0), shared.share("second", 1)
    answers = shared.send(*orders)
    end = time.monotonic() + TIMEOUT_S
    while any(each.status is OrderStatus.LATER for each in answers):
        assert time.monotonic() < end, answers
        answers = shared.send(*orders)
    [refused] = [each for each in answers if each.status is not OrderStatus.DONE]
    assert "time-slicing" in refused.message


@pytest.mark.parametrize("message", ["", "all", "GPU-1", "GPU-00000000-0000-4000-8000-00000000000g", "x" * 4096])
def test_what_is_not_one_device_is_not_believed(shared: SharedNode, message: str) -> None:
    shared.kubelet.message = lambda pod, devices: message
    [answer] = shared.send(shared.share("half", 0))
    assert (answer.status, shared.pods()) == (OrderStatus.LATER, [])


def test_a_node_without_a_free_device_refuses(shared: SharedNode, namespace: str) -> None:
    container = {"name": "a", "image": "example/a:1", "resources": {"limits": {"nvidia.com/gpu": "4"}}}
    order = shared.share("half", 0)
    shared.engine.observe(ONE)
    path = f"/api/v1/namespaces/{namespace}/pods"
    shared.plane.admin.create(path, {"metadata": {"name": "b"}, "spec": {"nodeName": NODE, "containers": [container]}})
    until(lambda: shared.kubelet.devices(namespace, "b"))
    end = time.monotonic() + TIMEOUT_S
    while (answer := shared.send(order)[0]).status is OrderStatus.LATER and "in use by" not in answer.message:
        assert time.monotonic() < end, answer
    assert answer.status is OrderStatus.REFUSED or "in use by other pods" in answer.message
    assert shared.pods() == []


def test_a_loop_that_takes_over_uses_the_reservations_of_the_one_before(shared: SharedNode) -> None:
    """The older loop is still there. Two that act at the same time are in `tests/properties/test_shared_gpus.py`."""
    halves = [shared.share(f"half-{number}", number // 2) for number in range(8)]
    shared.start(*halves[::2])
    older, shared.engine = shared.engine, shared.open()
    try:
        shared.start(*halves[1::2], token=TWO)
        reserved = shared.reserved()
        assert len(reserved) == len(set(reserved.values())) == 4
        assert shared.gpus() == {f"half-{number}": reserved[str(number // 2)] for number in range(8)}
        with pytest.raises(Fenced):
            older.carry_out([shared.share("late", 0)], ONE)
        shared.stop(*halves, token=TWO)
        shared.until_reserved(0, token=TWO)
    finally:
        older.close()


def test_parts_of_gpus_are_refused_where_nothing_enforces_them(shared: SharedNode) -> None:
    shared.engine.close()
    shared.engine = shared.open(PodSettings(reservation_image="example/shell:1"))
    [answer] = shared.send(shared.share("half", 0))
    assert answer.status is OrderStatus.REFUSED
    assert "enforcement library" in answer.message


def test_a_stopped_order_leaves_no_reservation(shared: SharedNode) -> None:
    shared.kubelet.message = lambda pod, devices: ""
    half = shared.share("half", 0)
    [answer] = shared.send(half)
    assert answer.status is OrderStatus.LATER
    shared.until_reserved(1)
    shared.send(StopOrder(pod=half.pod, node=half.node, grace_s=1, reason=""))
    shared.until_reserved(0)


def test_after_a_reboot_everything_is_reserved_anew(shared: SharedNode) -> None:
    before = shared.share("before", 0)
    shared.start(before)
    shared.kubelet.reboot(NODE)
    boot_id = shared.boot_id
    shared.until(lambda seen: seen.nodes[NODE].boot_id == boot_id, "it has rebooted")  # type: ignore[index]
    shared.send(ForgetOrder(pod=before.pod, node=before.node))
    shared.start(shared.share("after", 0), shared.whole("whole", 1, 2, 3))
    assert shared.gpus()["after"] == shared.reserved()["0"]
    [reservation] = shared.reservations()
    assert reservation["metadata"]["annotations"]["fairpool.io/boot"] == boot_id


def test_the_reservations_of_a_node_that_was_deleted_go_with_it(shared: SharedNode) -> None:
    half = shared.share("half", 0)
    shared.start(half)
    shared.plane.admin.delete(f"/api/v1/nodes/{NODE}")
    shared.until(lambda seen: NODE not in seen.nodes or seen.nodes[NODE].gone, "the node is gone")  # type: ignore[index]
    shared.send(ForgetOrder(pod=half.pod, node=half.node))
    shared.until_reserved(0)


def is_reservation(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["namespace"] == RESERVATION_NAMESPACE)


def is_running(seen: Observation, pod: PodId) -> bool:
    return pod in seen.pods and seen.pods[pod].state is PodState.RUNNING


def is_alive(seen: Observation, pod: PodId) -> bool:
    return pod in seen.pods and seen.pods[pod].state is not PodState.EXITED


def variable(pod: dict[str, Any], name: str) -> str:
    [found] = [each["value"] for each in pod["spec"]["containers"][0]["env"] if each["name"] == name]
    return str(found)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)

"""The engine on a real API server with fake nodes: what only Kubernetes can do to it. The contract that it shares with
all engines is in `tests/contracts/test_engine.py`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from fairpool.engines.kubernetes.client import KubernetesClient
from fairpool.engines.kubernetes.ended_pods import EndedPods
from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.failures import ApiUnreachable
from fairpool.engines.kubernetes.fence import NAME as FENCE
from fairpool.engines.kubernetes.fence import Fence
from fairpool.engines.kubernetes.http import Http, HttpAnswer
from fairpool.engines.kubernetes.kubeconfig import find_api_server
from fairpool.engines.kubernetes.node_leases import AGENT_LABEL, lease_name
from fairpool.engines.kubernetes.objects import FINALIZER, KEPT, ORDER, TOKEN, pod_name
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.port import EngineUnreachable, Fenced
from fairpool.engines.simulated.behaviour import Behaviour
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import NodeName, PodId, Token
from fairpool.model.observation import ForgetOrder, Observation, OrderStatus, PodState, StartOrder, StopOrder
from fairpool.model.spec import Program, PullPolicy, SecretVariable, SecurityContext, Volume
from fairpool.model.workload import PodShape, whole_gpus
from tests.contracts.harness import NODE, start_order
from tests.contracts.kubernetes_harness import KubernetesHarness, open_engine
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import node as fake_node
from tests.monitoring import until

pytestmark = pytest.mark.slow

ONE, TWO = Token(1), Token(2)
PODS = "/api/v1/namespaces/runai-vision/pods"


@pytest.fixture
def harness(control_plane: ControlPlane) -> Iterator[KubernetesHarness]:
    with KubernetesHarness.on(control_plane, reopened=False) as made:
        yield made


@pytest.fixture
def engine(harness: KubernetesHarness, control_plane: ControlPlane) -> Iterator[KubernetesEngine]:
    with control_plane.namespace("engine") as namespace:
        made = open_engine(control_plane, namespace)
        try:
            yield made
        finally:
            made.close()


def sees(engine: KubernetesEngine, holds: Any, what: str, token: Token = ONE) -> Observation:
    """The first observation of which it holds."""
    found: Observation = until(lambda: next((each for each in [engine.observe(token)] if holds(each)), None), what)
    return found


def runs(engine: KubernetesEngine, pod: PodId, token: Token = ONE) -> Observation:
    return sees(
        engine,
        lambda seen: pod in seen.pods and seen.pods[pod].state is PodState.RUNNING,
        f"{pod} runs",
        token,
    )


def start(engine: KubernetesEngine, *orders: StartOrder, token: Token = ONE) -> None:
    assert {each.message or each.status for each in engine.carry_out(orders, token)} == {OrderStatus.DONE}
    for order in orders:
        runs(engine, order.pod, token)


def path_of(order: StartOrder) -> str:
    return f"{PODS}/{pod_name(order)}"


# --- fences: where an API server cannot refuse, the newer loop removes what the older one made


def test_a_replaced_engine_hears_of_it_and_is_fenced(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order(run_s=None)
    start(engine, order)
    newer = open_engine(control_plane, engine._namespace)
    try:
        runs(newer, order.pod, TWO)  # what the older one started is observed by the newer one
        until(lambda: _is_fenced(engine), "the older one is fenced")
        with pytest.raises(Fenced):
            engine.carry_out([harness.order("late")], ONE)
    finally:
        newer.close()


def test_what_a_replaced_loop_makes_before_it_hears_of_it_does_not_outlive_the_next_turn(
    engine: KubernetesEngine,
    harness: KubernetesHarness,
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Two live loops, of which the older one has lost the word about the newer one and goes on."""
    before, late = harness.order("before"), harness.order("late", device=1)
    start(engine, before)
    newer = open_engine(control_plane, engine._namespace)
    try:
        runs(newer, before.pod, TWO)
        monkeypatch.setattr(engine._fence, "check", lambda token: None)  # of this engine only
        stop = threading.Event()

        def go_on() -> None:
            while not stop.is_set():
                engine.carry_out([late], ONE)
                engine.observe(ONE)
                time.sleep(0.05)

        older = threading.Thread(target=go_on)
        older.start()
        try:
            until(lambda: control_plane.admin.find(path_of(late)) is not None, "the older one has made a pod")
            for _ in range(40):
                assert late.pod not in newer.observe(TWO).pods
                newer.wait(0.1)
        finally:
            stop.set()
            older.join()
        sees(newer, lambda seen: control_plane.admin.find(path_of(late)) is None, "the pod is removed", TWO)
        assert newer.observe(TWO).pods[before.pod].state is PodState.RUNNING
    finally:
        newer.close()


def test_a_pod_that_a_replaced_loop_made_is_adopted_if_the_newer_loop_orders_it_too(
    engine: KubernetesEngine,
    harness: KubernetesHarness,
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The older loop recorded it before it was replaced, and so it is in the ledger of the newer one: it runs once."""
    order = harness.order()
    engine.observe(ONE)
    newer = open_engine(control_plane, engine._namespace)
    try:
        newer.observe(TWO)
        monkeypatch.setattr(engine._fence, "check", lambda token: None)
        engine.carry_out([order], ONE)
        uid = control_plane.admin.get(path_of(order))["metadata"]["uid"]
        assert [each.status for each in newer.carry_out([order], TWO)] == [OrderStatus.DONE]
        runs(newer, order.pod, TWO)
        time.sleep(1)
        runs(newer, order.pod, TWO)
        assert control_plane.admin.get(path_of(order))["metadata"]["uid"] == uid
    finally:
        newer.close()


def test_a_token_that_was_deleted_by_hand_is_written_again(
    engine: KubernetesEngine, control_plane: ControlPlane, harness: KubernetesHarness
) -> None:
    engine.observe(TWO)
    path = f"/api/v1/namespaces/{engine._namespace}/configmaps/{FENCE}"
    control_plane.admin.delete(path)
    sees(engine, lambda _seen: control_plane.admin.find(path) is not None, "it is there again", TWO)
    older = open_engine(control_plane, engine._namespace)
    try:
        with pytest.raises(Fenced):
            older.observe(ONE)
    finally:
        older.close()


def test_a_damaged_token_is_not_taken_for_none(
    engine: KubernetesEngine, control_plane: ControlPlane, harness: KubernetesHarness
) -> None:
    engine.observe(TWO)
    path = f"/api/v1/namespaces/{engine._namespace}/configmaps/{FENCE}"
    control_plane.admin.patch(path, {"data": {"token": "x"}})
    newer = open_engine(control_plane, engine._namespace)
    try:
        with pytest.raises(EngineUnreachable, match="damaged"):
            newer.observe(ONE)
    finally:
        newer.close()


def test_tokens_that_are_shown_at_the_same_time_leave_the_highest(control_plane: ControlPlane, namespace: str) -> None:
    async def race() -> tuple[Fence, list[Any]]:
        async with KubernetesClient(find_api_server(str(control_plane.kubeconfig()))) as client:
            fences = [Fence(client, namespace) for _ in range(8)]
            claims = (fence.claim(Token(number)) for number, fence in enumerate(fences, 1))
            results = await asyncio.gather(*claims, return_exceptions=True)
            last = Fence(client, namespace)
            with pytest.raises(Fenced):
                await last.claim(Token(7))
            return last, results

    last, results = asyncio.run(race())
    assert last.highest == 8
    assert results[-1] is None
    assert all(each is None or isinstance(each, Fenced) for each in results)


# --- nodes and pods of others


def test_what_others_use_is_subtracted_and_their_gpus_are_withheld(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane, namespace: str
) -> None:
    start(engine, harness.order("ours", device=7))
    empty = engine.observe(ONE).nodes[NODE].node
    needs = {"limits": {"nvidia.com/gpu": "2"}, "requests": {"cpu": "3", "memory": "1Gi"}}
    content = {
        "metadata": {"name": "foreign"},
        "spec": {"nodeName": NODE, "containers": [{"name": "a", "image": "a", "resources": needs}]},
    }
    control_plane.admin.create(f"/api/v1/namespaces/{namespace}/pods", content)
    seen = sees(engine, lambda seen: seen.nodes[NODE].node.gpus_withheld, "GPUs are withheld").nodes[NODE].node
    assert seen.gpus_withheld == (5, 6)
    assert (seen.cpu_milli, seen.memory_bytes) == (empty.cpu_milli - 3000, empty.memory_bytes - (1 << 30))
    (answer,) = engine.carry_out([harness.order("unlucky", device=6)], ONE)
    assert answer.status is OrderStatus.LATER
    harness.kubelet.exit(namespace, "foreign", 0)
    assert sees(engine, lambda seen: not seen.nodes[NODE].node.gpus_withheld, "free again").nodes[NODE].node == empty


def test_a_deleted_node_is_gone_with_its_pods(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order()
    start(engine, order)
    control_plane.admin.delete(f"/api/v1/nodes/{NODE}")
    seen = sees(engine, lambda seen: seen.nodes.get(NODE) is None or seen.nodes[NODE].gone, "the node is gone")
    assert order.pod not in seen.pods
    sees(engine, lambda seen: control_plane.admin.find(path_of(order)) is None, "its pod is removed")
    assert engine.carry_out([order], ONE)[0].status is OrderStatus.REFUSED
    (answer,) = engine.carry_out([StopOrder(pod=order.pod, node=order.node, grace_s=1, reason="")], ONE)
    assert answer.status is OrderStatus.DONE


def test_a_node_that_is_out_of_service_is_gone(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order()
    start(engine, order)
    harness.kubelet.silence(NODE)
    sees(engine, lambda seen: seen.nodes[NODE].silent_since is not None, "the node is silent")
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    control_plane.admin.patch(f"/api/v1/nodes/{NODE}", {"spec": {"taints": [taint]}})
    seen = sees(engine, lambda seen: seen.nodes[NODE].gone, "the node is gone")
    assert order.pod not in seen.pods
    sees(engine, lambda seen: control_plane.admin.find(path_of(order)) is None, "its pod is removed")
    harness.kubelet.end_silence(NODE)


def test_a_node_that_is_cut_off_is_gone_when_its_agent_has_ended_its_pods(
    harness: KubernetesHarness, control_plane: ControlPlane, namespace: str
) -> None:
    """Decision 62, with a time of 5 s instead of 300; the agent itself is in `test_node_agent.py`."""
    leases, name = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", lease_name(NODE)

    def renewed() -> dict[str, Any]:
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {"spec": {"holderIdentity": NODE, "leaseDurationSeconds": 4, "renewTime": at}}

    engine = open_engine(control_plane, namespace, node_gone_after_s=5.0)
    try:
        order = harness.order()
        start(engine, order)
        control_plane.admin.create(leases, {"metadata": {"name": name, "labels": {AGENT_LABEL: "true"}}, **renewed()})
        harness.kubelet.silence(NODE)
        began = time.monotonic()
        while time.monotonic() < began + 1:  # while it renews, the node is only silent
            control_plane.admin.patch(f"{leases}/{name}", renewed())
            assert not engine.observe(ONE).nodes[NODE].gone
        seen = sees(engine, lambda seen: seen.nodes[NODE].gone, "the node is gone")
        assert time.monotonic() - began >= 5
        assert order.pod not in seen.pods
        sees(engine, lambda seen: control_plane.admin.find(path_of(order)) is None, "its pod is removed")
        harness.kubelet.end_silence(NODE)
        sees(engine, lambda seen: not seen.nodes[NODE].gone, "it is back")
    finally:
        engine.close()


# --- what people do by hand


def test_a_pod_that_was_deleted_by_hand_is_seen_to_have_been_stopped(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order()
    start(engine, order)
    control_plane.admin.delete(path_of(order), grace_s=1)
    seen = sees(engine, lambda seen: seen.pods[order.pod].state is PodState.EXITED, "it has ended")
    assert seen.pods[order.pod].after_notice
    assert engine.carry_out([ForgetOrder(pod=order.pod, node=NODE)], ONE)[0].status is OrderStatus.DONE
    until(lambda: control_plane.admin.find(path_of(order)) is None, "the object is gone")


def test_an_edited_order_changes_nothing_and_the_next_engine_counts_the_pod_as_foreign(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order()
    start(engine, order)
    before = engine.observe(ONE)
    control_plane.admin.patch(path_of(order), {"metadata": {"annotations": {ORDER: '{"pod": "other-0-0"}'}}})
    control_plane.admin.patch(path_of(order), {"metadata": {"labels": {TOKEN: "99999999999999999999999999"}}})
    time.sleep(0.5)
    assert engine.observe(ONE).pods[order.pod] is before.pods[order.pod]
    newer = open_engine(control_plane, engine._namespace)
    try:
        seen = newer.observe(TWO)
        assert order.pod not in seen.pods
        assert len(seen.nodes[NODE].node.gpus_withheld) == 1
        # A stop order is not for pods of others; they are deleted by those who edited them.
        (answer,) = newer.carry_out([StopOrder(pod=order.pod, node=None, grace_s=1, reason="")], TWO)
        assert answer.status is OrderStatus.DONE
        assert "deletionTimestamp" not in control_plane.admin.get(path_of(order))["metadata"]
        control_plane.admin.delete(path_of(order), grace_s=1)
        sees(newer, lambda seen: not seen.nodes[NODE].node.gpus_withheld, "it has ended", TWO)
    finally:
        newer.close()


def test_a_pod_of_the_same_name_is_ours_only_if_it_has_our_id(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    start(engine, harness.order("first"))
    order = harness.order("taken", device=1)
    content = {"metadata": {"name": pod_name(order)}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
    control_plane.admin.create(PODS, content)
    (answer,) = engine.carry_out([order], ONE)
    assert answer.status is OrderStatus.LATER
    assert "did not create" in answer.message
    assert order.pod not in engine.observe(ONE).pods
    control_plane.admin.delete(path_of(order), grace_s=0)
    start(engine, order)


def test_a_pod_that_was_created_unnoticed_is_found_by_the_next_order(
    engine: KubernetesEngine, harness: KubernetesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer of the API server is lost: the pod exists, and the engine does not know."""
    order = harness.order()
    monkeypatch.setattr(engine._cache, "find", lambda pod: None)
    assert [each.status for each in engine.carry_out([order], ONE)] == [OrderStatus.DONE]
    assert [each.status for each in engine.carry_out([order], ONE)] == [OrderStatus.DONE]
    monkeypatch.undo()
    assert list(runs(engine, order.pod).pods) == [order.pod]


# --- output


def test_pods_that_ended_by_themselves_are_kept_for_their_output(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    orders = [harness.order("a", index, device=index, run_s=0) for index in range(2)]
    engine.carry_out(orders, ONE)
    ended = {order.pod for order in orders}
    sees(
        engine,
        lambda seen: all(pod in seen.pods and seen.pods[pod].state is PodState.EXITED for pod in ended),
        "both have ended",
    )
    first, second = orders
    assert engine.carry_out([ForgetOrder(pod=first.pod, node=NODE)], ONE)[0].status is OrderStatus.DONE
    found = control_plane.admin.get(path_of(first))["metadata"]
    assert found["labels"][KEPT] == "true"
    assert FINALIZER not in found.get("finalizers", ())
    assert set(engine.observe(ONE).pods) == {second.pod}
    place = engine.place(first.pod)
    assert place is not None
    assert place.name == found["name"]
    assert (
        engine.carry_out([ForgetOrder(pod=second.pod, node=NODE, with_output=True)], ONE)[0].status is OrderStatus.DONE
    )
    for order in orders:
        until(lambda order=order: control_plane.admin.find(path_of(order)) is None, "the objects are gone")  # type: ignore[misc]


def test_the_latest_pods_that_are_over_are_remembered(control_plane: ControlPlane, namespace: str) -> None:
    async def record() -> tuple[EndedPods, int]:
        async with KubernetesClient(find_api_server(str(control_plane.kubeconfig()))) as client:
            ended = EndedPods(client, namespace, count=3, each=4)
            for number in range(20):
                await ended.add([PodId(f"a-{number}-0"), PodId("not a label: ä")])
            await ended.add([PodId(f"b-{number}-0") for number in range(10)])
            again = EndedPods(client, namespace, count=3, each=4)
            await again.load()
            assert all((PodId(f"b-{n}-0") in again) == (PodId(f"b-{n}-0") in ended) for n in range(10))
            return again, len(control_plane.admin.get(f"/api/v1/namespaces/{namespace}/configmaps")["items"])

    again, objects = asyncio.run(record())
    assert all(PodId(f"b-{number}-0") in again for number in range(2, 10))
    assert PodId("a-0-0") not in again
    assert objects <= 3 + 1  # and that of the root certificate


# --- trouble with the API server


def test_an_api_server_that_is_away_is_said_and_nothing_is_lost(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order, other = harness.order(), harness.order("other", device=1)
    start(engine, order)
    control_plane.api_server.kill()
    try:
        until(lambda: _is_unreachable(engine), "the engine says so")
        try:
            answers = engine.carry_out([other], ONE)
            assert {each.status for each in answers} <= {OrderStatus.LATER, OrderStatus.UNKNOWN}
        except EngineUnreachable:
            pass
    finally:
        control_plane.api_server.start()
    until(lambda: not _is_unreachable(engine), "it is back")
    assert engine.observe(ONE).pods[order.pod].state is PodState.RUNNING
    start(engine, other)
    assert len(control_plane.admin.get(PODS)["items"]) == 2


Trouble = Callable[[Any], Awaitable[HttpAnswer]]


@pytest.fixture
def on_create(monkeypatch: pytest.MonkeyPatch) -> Callable[[Trouble | None], list[str]]:
    """Puts something between the engine and the API server whenever a pod is created, and counts these calls."""

    def install(trouble: Trouble | None) -> list[str]:
        sent: list[str] = []

        async def call(self: Http, name: str, method: str, target: str, *rest: Any) -> HttpAnswer:
            if method != "POST" or "/pods" not in target or trouble is None:
                return await send(self, name, method, target, *rest)
            sent.append(target)
            return await trouble(send(self, name, method, target, *rest))

        monkeypatch.setattr(Http, "call", call)
        return sent

    send = Http.call
    return install


async def overloaded(call: Any) -> HttpAnswer:
    call.close()
    return HttpAnswer(429, b'{"reason": "TooManyRequests", "message": "later"}', 1.0)


async def broken_after_it_was_done(call: Any) -> HttpAnswer:
    await call
    return HttpAnswer(500, b'{"reason": "InternalError", "message": "broken"}', None)


async def cut_off_after_it_was_done(call: Any) -> HttpAnswer:
    await call
    raise ApiUnreachable("create pods", "the connection was lost")


@pytest.mark.parametrize("trouble", [broken_after_it_was_done, cut_off_after_it_was_done])
def test_an_answer_that_was_lost_leaves_it_unknown_and_the_pod_runs_once(
    trouble: Trouble, engine: KubernetesEngine, harness: KubernetesHarness, on_create: Any, control_plane: ControlPlane
) -> None:
    order = harness.order()
    engine.observe(ONE)
    on_create(trouble)
    assert [each.status for each in engine.carry_out([order], ONE)] == [OrderStatus.UNKNOWN]
    on_create(None)
    runs(engine, order.pod)
    assert [each.status for each in engine.carry_out([order], ONE)] == [OrderStatus.DONE]
    assert len(control_plane.admin.get(PODS)["items"]) == 1


def test_an_overloaded_api_server_is_not_asked_again_for_the_same_group_at_once(
    engine: KubernetesEngine, harness: KubernetesHarness, on_create: Any
) -> None:
    order = harness.order()
    engine.observe(ONE)
    sent = on_create(overloaded)
    assert [each.status for each in engine.carry_out([order], ONE)] == [OrderStatus.LATER]
    assert sent
    sent.clear()
    (answer,) = engine.carry_out([order], ONE)
    assert (answer.status, sent) == (OrderStatus.LATER, [])
    assert "overloaded" in answer.message
    on_create(None)
    until(lambda: engine.carry_out([order], ONE)[0].status is OrderStatus.DONE, "it is started after a while")
    runs(engine, order.pod)


def test_a_cycle_with_nothing_new_costs_no_call(
    engine: KubernetesEngine, harness: KubernetesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    start(engine, harness.order())
    time.sleep(1)
    first = engine.observe(ONE)
    calls: list[Any] = []
    call = Http.call

    async def counted(self: Http, *arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return await call(self, *arguments, **options)

    monkeypatch.setattr(Http, "call", counted)
    for _ in range(100):
        assert engine.observe(ONE) is first
        assert not engine.carry_out([], ONE)
        engine.wait(0.001)
    assert calls == []


def test_changes_that_do_not_matter_make_no_new_observation(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order()
    start(engine, order)
    time.sleep(1)
    first = engine.observe(ONE)
    control_plane.admin.patch(f"/api/v1/nodes/{NODE}", {"metadata": {"annotations": {"a": "b"}}})
    control_plane.admin.patch(path_of(order), {"metadata": {"annotations": {"a": "b"}}})
    time.sleep(0.5)
    assert engine.observe(ONE) is first


# --- many, and everything


def test_a_hundred_pods_are_started_and_stopped_at_once(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    boot_id = harness.order().boot_id
    orders = [
        replace(start_order("many", index, boot_id=boot_id, devices=()), shape=PodShape(cpu_milli=10))
        for index in range(100)
    ]
    harness.behaviours.update({order.pod: Behaviour() for order in orders})
    began = time.monotonic()
    start(engine, *orders)
    stops = [StopOrder(pod=order.pod, node=None, grace_s=1, reason="") for order in orders]
    absent = [StopOrder(pod=PodId(f"never-{number}-0"), node=None, grace_s=1, reason="") for number in range(100)]
    assert {each.status for each in engine.carry_out([*stops, *absent], ONE)} == {OrderStatus.DONE}
    sees(engine, lambda seen: all(each.state is PodState.EXITED for each in seen.pods.values()), "all have ended")
    forgets = [ForgetOrder(pod=order.pod, node=None) for order in orders]
    assert {each.status for each in engine.carry_out(forgets, ONE)} == {OrderStatus.DONE}
    until(lambda: not control_plane.admin.get(PODS)["items"], "all are gone")
    assert {each.status for each in engine.carry_out(orders[:50], ONE)} == {OrderStatus.REFUSED}
    assert time.monotonic() - began < 60


def test_the_api_server_accepts_everything_that_a_program_may_ask_for(
    harness: KubernetesHarness, control_plane: ControlPlane, namespace: str
) -> None:
    settings = PodSettings(privileges=frozenset(Privilege), host_paths=("/raid",))
    engine = open_engine(control_plane, namespace, settings=settings)
    program = Program(
        image="example/program:1",
        command=("sh", "-c"),
        arguments=("sleep 1 $(date)",),
        environment=(("A", "b\nc"), ("_B", "$(A)")),
        working_dir="/work",
        volumes=(
            Volume(target="/claim", claim="data"),
            Volume(target="/files", files=(("a.txt", "b"),)),
            Volume(target="/secret", secret="My Secret"),
            Volume(target="/scratch", empty=True),
            Volume(target="/host", source="/raid/x"),
        ),
        tty=True,
        stdin=True,
        cpu_limit_milli=2000,
        memory_limit_bytes=1 << 30,
        shm_bytes=1 << 20,
        ports=(80, 8080),
        pull_policy=PullPolicy.ALWAYS,
        security=SecurityContext(uid=5, gid=6, groups=(7, 8), capabilities=("SYS_ADMIN",), host_ipc=True),
        secrets=(SecretVariable(name="KEY", credential="login", key="password"),),
    )
    shape = PodShape(gpu=whole_gpus(1), cpu_milli=1000, memory_bytes=1 << 29, labels=(("team", "a.b"),))
    order = replace(harness.order("a"), program=program, shape=shape, pods=2, together=True)
    try:
        engine.observe(ONE)
        start(engine, order)
    finally:
        engine.close()
    assert control_plane.admin.get(path_of(order))["spec"]["hostname"] == "a-0"


def test_a_sample_has_every_node_that_responds_with_its_devices_and_pods(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    order = harness.order(device=3)
    start(engine, order)
    control_plane.admin.create("/api/v1/nodes", fake_node("n2", gpus=0))
    sees(engine, lambda seen: NodeName("n2") in seen.nodes, "the second node is seen")
    first, second = sorted(engine.sample().nodes, key=lambda each: each.node)
    assert [device.index for device in first.devices] == list(range(8))
    assert [(pod.pod, [use.index for use in pod.devices]) for pod in first.pods] == [(order.pod, [3])]
    assert (second.devices, second.pods) == ((), ())
    assert first.devices[3].utilization is None

    uid, now = control_plane.admin.get(path_of(order))["metadata"]["uid"], time.monotonic()
    said = b'{"node": {"memory_bytes": %d}, "pods": {"%s": {"cpu_cores": %d}, "another": {"cpu_cores": 9}}}'
    engine.node_samples.take(NodeName("n2"), said % (7, uid.encode(), 5), now)
    first, second = sorted(engine.sample().nodes, key=lambda each: each.node)
    assert (first.pods[0].cpu_cores, first.memory_bytes) == (None, None), "another node's agent knows nothing about it"
    assert (second.pods, second.memory_bytes) == ((), 7)
    engine.node_samples.take(NODE, said % (8, uid.encode(), 2), now)
    first, _ = sorted(engine.sample().nodes, key=lambda each: each.node)
    assert ([pod.cpu_cores for pod in first.pods], first.memory_bytes) == ([2.0], 8)


def _is_fenced(engine: KubernetesEngine) -> bool:
    try:
        engine.observe(ONE)
    except Fenced:
        return True
    return False


def _is_unreachable(engine: KubernetesEngine) -> bool:
    try:
        engine.observe(ONE)
    except EngineUnreachable:
        return True
    return False


def test_a_restored_etcd_is_recovered_from_without_a_restart(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    before, late = harness.order("before", run_s=None), harness.order("late", device=1, run_s=None)
    start(engine, before)
    with control_plane.restored():
        until(lambda: _answers(engine), "the engine goes on after etcd was away")
        start(engine, late)
        path = f"/api/v1/namespaces/{engine._namespace}"
        for number in range(300):  # the versions after the restored ones are not soon reached again
            control_plane.admin.patch(path, {"metadata": {"annotations": {"number": str(number)}}})
    until(lambda: _answers(engine), "the engine goes on")
    sees(engine, lambda seen: late.pod not in seen.pods, "what was made after the backup is gone")
    assert engine.observe(ONE).pods[before.pod].state is PodState.RUNNING
    after = harness.order("after", device=2, run_s=None)
    until(lambda: engine.carry_out([after], ONE)[0].status is OrderStatus.DONE, "orders are carried out")
    sees(engine, lambda seen: after.pod in seen.pods, "what changes is seen again")


def _answers(engine: KubernetesEngine) -> bool:
    try:
        engine.observe(ONE)
    except EngineUnreachable:
        return False
    return not engine.watch_problems()

"""The contract of `fairpool.engines.port`, sentence by sentence, for every engine there is."""

from __future__ import annotations

import ast
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

import fairpool.engines
from fairpool.engines.port import Fenced
from fairpool.model.ids import PodId, Token
from fairpool.model.observation import (
    ForgetOrder,
    Observation,
    ObservedPod,
    Order,
    OrderResult,
    OrderStatus,
    PodState,
    StartOrder,
    StopOrder,
)
from tests.containers import BUSYBOX, Containers, Docker, Podman, running_docker, running_podman
from tests.contracts.harness import CalmNetworkHarness, Harness, ReopenedHarness, SimulatedHarness
from tests.contracts.kubernetes_harness import KubernetesHarness
from tests.contracts.local_harness import LocalHarness
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.control_plane import control_plane as running_control_plane

ONE, TWO = Token(1), Token(2)
ENGINES_FOLDER = Path(fairpool.engines.__file__).parent
LONG_S = 60
"""Longer than any test lasts."""


REAL = pytest.mark.slow
ENGINES = [
    "simulated",
    "simulated, reopened for every call",
    "simulated, behind a calm network",
    pytest.param("local", marks=REAL),
    pytest.param("local, reopened for every call", marks=REAL),
    pytest.param("local, in containers of podman", marks=REAL),
    pytest.param("local, in containers of docker", marks=REAL),
    pytest.param("kubernetes", marks=REAL),
    pytest.param("kubernetes, reopened for every call", marks=REAL),
]


def test_every_engine_is_in_this_suite() -> None:
    """An engine is a class below `engines/` that carries out orders: give it a harness, and add it to `ENGINES`."""
    found = set()
    for file in sorted(ENGINES_FOLDER.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and any(getattr(each, "name", "") == "carry_out" for each in node.body):
                found.add(node.name)
    assert found == {"Engine", "SimulatedEngine", "LocalEngine", "KubernetesEngine", "OrderExecution"}


@pytest.fixture(params=ENGINES)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    match request.param:
        case "simulated":
            yield SimulatedHarness()
        case "simulated, reopened for every call":
            yield ReopenedHarness(tmp_path)
        case "simulated, behind a calm network":
            yield CalmNetworkHarness()
        case "local, in containers of podman" | "local, in containers of docker":
            tool: Containers = request.getfixturevalue(request.param.split()[-1])
            yield from local_harness(LocalHarness(tmp_path / "machine", runtime=tool.program, image=BUSYBOX))
            tool.wait_until_empty()
        case "kubernetes" | "kubernetes, reopened for every call":
            plane: ControlPlane = request.getfixturevalue("control_plane")
            with KubernetesHarness.on(plane, reopened=request.param != "kubernetes") as opened:
                yield opened
        case name:
            yield from local_harness(LocalHarness(tmp_path, reopened=name != "local"))


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with running_control_plane(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with running_podman(tmp_path_factory.mktemp("podman")) as podman:
        yield podman


@pytest.fixture(scope="module")
def docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Docker]:
    with running_docker(tmp_path_factory.mktemp("docker")) as docker:
        yield docker


def local_harness(harness: LocalHarness) -> Iterator[Harness]:
    try:
        yield harness
        harness.machine.clean_up()
    finally:
        harness.machine.kill_what_is_left()


# --- observe looks after it was called, and returns the very same object as last time if nothing has changed since


def test_observe_shows_what_was_done_before_it_was_called(harness: Harness) -> None:
    order = harness.order(run_s=LONG_S)
    assert harness.order().pod not in look(harness).pods
    assert send(harness, order).status is OrderStatus.DONE
    assert look(harness).pods[order.pod].order == order


def test_observe_returns_the_same_object_if_nothing_has_changed(harness: Harness) -> None:
    start(harness, harness.order(run_s=LONG_S))
    first = look(harness)
    harness.pass_time(1)
    again = look(harness)
    assert (again.nodes, again.pods, again.token) == (first.nodes, first.pods, first.token)
    assert again is first or not harness.keeps_objects


def test_an_observation_does_not_change_after_it_was_made(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    before = look(harness)
    send(harness, stop(order))
    harness.pass_time(1)
    assert look(harness) is not before
    assert before.pods[order.pod].state is PodState.RUNNING


def test_a_pod_that_did_not_change_keeps_its_sight(harness: Harness) -> None:
    order = start(harness, harness.order("a", run_s=LONG_S))
    before = look(harness).pods[order.pod]
    start(harness, harness.order("b", device=1, run_s=LONG_S))
    after = look(harness).pods[order.pod]
    assert after == before
    assert after is before or not harness.keeps_objects


def test_the_changed_pods_of_an_observation_are_those_that_differ_from_the_one_before(harness: Harness) -> None:
    first, second = harness.order("a", run_s=2), harness.order("b", device=1, run_s=LONG_S)
    observations = [look(harness)]
    for act in (
        lambda: start(harness, first),
        lambda: start(harness, second),
        lambda: harness.pass_time(5),
        lambda: send(harness, ForgetOrder(pod=first.pod, node=first.node)),
    ):
        act()
        observations.append(look(harness))
    for before, after in pairwise(observations):
        pods = before.pods.keys() | after.pods.keys()
        different = {pod for pod in pods if before.pods.get(pod) != after.pods.get(pod)}
        is_next = after.number == before.number + 1
        assert not is_next or (after.changed_pods is not None and different <= after.changed_pods)
    if harness.keeps_objects:
        assert all(each.changed_pods is not None for each in observations[1:])
        assert observations[4].changed_pods == frozenset({first.pod})
        assert first.pod not in observations[4].pods


def test_a_pod_is_seen_running_and_then_exited_with_its_code(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=5, exit_code=7))
    running = seen(harness, order.pod)
    assert running is not None
    assert (running.state, running.exit_code) == (PodState.RUNNING, None)
    assert running.running_since is not None
    harness.pass_time(5)
    exited = seen(harness, order.pod)
    assert exited is not None
    assert (exited.state, exited.exit_code) == (PodState.EXITED, 7)
    assert exited.running_since == running.running_since


def test_an_exited_pod_is_seen_until_it_is_forgotten(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=0))
    harness.pass_time(5)
    assert state(harness, order.pod) is PodState.EXITED
    assert send(harness, ForgetOrder(pod=order.pod, node=order.node)).status is OrderStatus.DONE
    assert seen(harness, order.pod) is None


def test_a_wait_ends_when_it_is_woken_before_or_meanwhile(harness: Harness) -> None:
    if not harness.keeps_objects:
        pytest.skip("each call has an engine of its own")
    began = time.monotonic()
    harness.engine.wake()
    harness.engine.wait(LONG_S)
    waking = threading.Timer(0.05, harness.engine.wake)
    waking.start()
    harness.engine.wait(LONG_S)
    waking.join()
    assert time.monotonic() - began < LONG_S


def test_a_wait_ends_with_its_time_and_changes_nothing(harness: Harness) -> None:
    before = harness.engine.observe(ONE)
    harness.engine.wait(0)
    harness.engine.wait(0.01)
    if harness.keeps_objects:
        assert harness.engine.observe(ONE) is before


def test_the_nodes_are_seen_with_their_boot(harness: Harness) -> None:
    observed = look(harness).nodes[harness.node]
    assert observed.node.name == harness.node
    assert observed.boot_id == harness.order().boot_id
    assert observed.silent_since is None


# --- an order is carried out at most once, however often it is given


def test_a_pod_is_started_once_however_often_it_is_ordered(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    first = seen(harness, order.pod)
    harness.pass_time(1)
    assert [answer.status for answer in send_all(harness, order, order)] == [OrderStatus.DONE, OrderStatus.DONE]
    assert seen(harness, order.pod) == first


def test_a_pod_that_runs_and_is_ordered_again_exits_when_it_would_have(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=4))
    harness.pass_time(1)
    send(harness, order)
    harness.pass_time(3)
    assert state(harness, order.pod) is PodState.EXITED


def test_the_grace_period_of_a_pod_runs_once(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S, stop_s=LONG_S))
    assert send(harness, stop(order, grace_s=2)).status is OrderStatus.DONE
    harness.pass_time(1)
    assert send(harness, stop(order, grace_s=LONG_S)).status is OrderStatus.DONE
    harness.pass_time(1.5)
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_a_second_stop_may_make_the_grace_shorter(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S, stop_s=LONG_S))
    assert send(harness, stop(order, grace_s=LONG_S)).status is OrderStatus.DONE
    harness.pass_time(1)
    assert state(harness, order.pod) is PodState.RUNNING
    assert send(harness, stop(order, grace_s=0)).status is OrderStatus.DONE
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_stopping_what_has_ended_is_done_and_changes_nothing(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=0, exit_code=3))
    harness.pass_time(1)
    before = seen(harness, order.pod)
    assert send(harness, stop(order)).status is OrderStatus.DONE
    assert seen(harness, order.pod) == before


def test_forgetting_twice_is_done_twice(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=0))
    harness.pass_time(1)
    forget = ForgetOrder(pod=order.pod, node=None)
    assert [send(harness, forget).status, send(harness, forget).status] == [OrderStatus.DONE, OrderStatus.DONE]


def test_what_still_runs_is_not_forgotten(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    assert send(harness, ForgetOrder(pod=order.pod, node=order.node)).status is OrderStatus.LATER
    assert state(harness, order.pod) is PodState.RUNNING


def test_every_order_is_answered_in_turn(harness: Harness) -> None:
    start(harness, harness.order("ends", run_s=LONG_S))
    orders: list[Order] = [
        harness.order("b", device=1, run_s=LONG_S),
        stop(harness.order("ends")),
        harness.order("c", device=2, run_s=LONG_S),
        ForgetOrder(pod=harness.order("never-seen").pod, node=None),
    ]
    answers = send_all(harness, *orders)
    assert [answer.pod for answer in answers] == [order.pod for order in orders]
    assert {answer.status for answer in answers} == {OrderStatus.DONE}


def test_no_orders_have_no_answers(harness: Harness) -> None:
    assert list(send_all(harness)) == []


# --- a pod that was stopped or has ended is never started (again), nor is one whose order names another boot


def test_a_pod_that_was_stopped_before_it_was_ordered_never_starts(harness: Harness) -> None:
    order = harness.order(run_s=LONG_S)
    assert send(harness, stop(order)).status is OrderStatus.DONE
    assert send(harness, order).status is OrderStatus.REFUSED
    harness.pass_time(1)
    assert seen(harness, order.pod) is None


@pytest.mark.parametrize("node_is_named", [True, False])
def test_a_stop_finds_its_pod_whether_or_not_the_node_is_named(node_is_named: bool, harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    reported = StopOrder(pod=order.pod, node=order.node if node_is_named else None, grace_s=1, reason="test")
    assert send(harness, reported).status is OrderStatus.DONE
    harness.pass_time(2)
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_a_pod_that_has_ended_does_not_run_again(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=0))
    harness.pass_time(1)
    before = seen(harness, order.pod)
    assert send(harness, order).status in (OrderStatus.DONE, OrderStatus.REFUSED)
    harness.pass_time(1)
    assert seen(harness, order.pod) == before


def test_a_pod_that_was_stopped_does_not_run_again(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    send(harness, stop(order))
    harness.pass_time(1)
    send(harness, order)
    harness.pass_time(1)
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_a_forgotten_pod_does_not_run_again(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=0))
    harness.pass_time(1)
    send(harness, ForgetOrder(pod=order.pod, node=order.node))
    assert send(harness, order).status is OrderStatus.REFUSED
    harness.pass_time(1)
    assert seen(harness, order.pod) is None


def test_the_replacement_of_a_pod_is_another_pod_and_starts(harness: Harness) -> None:
    first = start(harness, harness.order(run_s=0, exit_code=1))
    harness.pass_time(1)
    second = start(harness, harness.order(incarnation=1, run_s=LONG_S))
    assert state(harness, first.pod) is PodState.EXITED
    assert state(harness, second.pod) is PodState.RUNNING


def test_an_order_for_an_earlier_boot_is_refused_and_never_starts(harness: Harness) -> None:
    order = harness.order(run_s=LONG_S)
    harness.reboot()
    assert send(harness, order).status is OrderStatus.REFUSED
    harness.pass_time(1)
    assert seen(harness, order.pod) is None


def test_an_order_for_a_device_that_is_not_there_is_refused_and_never_starts(harness: Harness) -> None:
    order = replace(harness.order(run_s=LONG_S), devices=(99,))
    assert send(harness, order).status is OrderStatus.REFUSED
    harness.pass_time(1)
    assert seen(harness, order.pod) is None


def test_what_ran_before_a_reboot_is_gone_and_the_boot_is_another(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    harness.reboot()
    observation = look(harness)
    assert order.pod not in observation.pods
    assert observation.nodes[harness.node].boot_id != order.boot_id
    assert send(harness, order).status is OrderStatus.REFUSED
    assert start(harness, harness.order(incarnation=1, run_s=LONG_S)).boot_id != order.boot_id


# --- after a stop was answered with DONE the pod is absent or exited, or within its grace period


def test_a_pod_that_obeys_exits_before_its_grace_period_is_over(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S, stop_s=0))
    assert send(harness, stop(order, grace_s=LONG_S)).status is OrderStatus.DONE
    harness.pass_time(1)
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_a_pod_that_does_not_obey_is_killed_after_its_grace_period(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S, stop_s=LONG_S))
    assert send(harness, stop(order, grace_s=4)).status is OrderStatus.DONE
    assert state(harness, order.pod) is PodState.RUNNING
    harness.pass_time(4.5)
    exited = seen(harness, order.pod)
    assert exited is None or (exited.state is PodState.EXITED and exited.exit_code not in (0, None))


def test_a_pod_without_grace_period_exits_at_once(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S, stop_s=LONG_S))
    assert send(harness, stop(order, grace_s=0)).status is OrderStatus.DONE
    assert state(harness, order.pod) in (PodState.EXITED, None)


def test_a_pod_that_finishes_within_its_grace_period_has_its_own_exit_code(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=3, exit_code=0, stop_s=LONG_S))
    send(harness, stop(order, grace_s=LONG_S))
    harness.pass_time(3)
    exited = seen(harness, order.pod)
    assert exited is None or exited.exit_code == 0


def test_an_exited_pod_shows_whether_it_had_been_stopped_before(harness: Harness) -> None:
    reported = start(harness, harness.order("reported", run_s=LONG_S))
    ended = start(harness, harness.order("ended", device=1, run_s=0))
    harness.pass_time(1)
    send_all(harness, stop(reported), stop(ended))
    harness.pass_time(2)
    observed_pods = look(harness).pods
    assert reported.pod not in observed_pods or observed_pods[reported.pod].after_notice
    assert not observed_pods[ended.pod].after_notice


# --- once a token has been shown, orders with a lower one raise Outranked and do nothing


def test_a_lower_token_is_fenced_and_nothing_is_done(harness: Harness) -> None:
    order = harness.order(run_s=LONG_S)
    harness.engine.observe(TWO)
    with pytest.raises(Fenced):
        harness.engine.carry_out([order], ONE)
    harness.pass_time(1)
    assert order.pod not in harness.engine.observe(TWO).pods


def test_a_lower_token_may_not_even_observe(harness: Harness) -> None:
    harness.engine.observe(TWO)
    with pytest.raises(Fenced) as reported:
        harness.engine.observe(ONE)
    assert reported.value.highest == TWO


def test_a_token_is_shown_with_orders_too(harness: Harness) -> None:
    harness.engine.carry_out([], TWO)
    with pytest.raises(Fenced):
        harness.engine.carry_out([harness.order()], ONE)


def test_a_loop_that_was_fenced_cannot_stop_anything(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    harness.engine.observe(TWO)
    with pytest.raises(Fenced):
        harness.engine.carry_out([stop(order)], ONE)
    harness.pass_time(1)
    assert harness.engine.observe(TWO).pods[order.pod].state is PodState.RUNNING


def test_the_observation_says_which_token_is_obeyed(harness: Harness) -> None:
    assert harness.engine.observe(ONE).token == ONE
    assert harness.engine.observe(TWO).token == TWO


# --- a node that cannot be reached


def test_of_a_silent_node_is_seen_that_it_is_silent_and_nothing_else(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    harness.silence()
    observation = look(harness)
    assert observation.nodes[harness.node].silent_since is not None
    assert order.pod not in observation.pods


def test_orders_to_a_silent_node_have_no_answer(harness: Harness) -> None:
    running = start(harness, harness.order("a", run_s=LONG_S))
    waiting = harness.order("b", device=1, run_s=LONG_S)
    harness.silence()
    orders = (waiting, running, stop(running), ForgetOrder(pod=running.pod, node=running.node))
    assert {answer.status for answer in send_all(harness, *orders)} == {OrderStatus.UNKNOWN}


def test_pods_run_on_while_their_node_is_silent_for_a_moment(harness: Harness) -> None:
    order = start(harness, harness.order(run_s=LONG_S))
    before = seen(harness, order.pod)
    harness.silence()
    harness.pass_time(1)
    harness.end_silence()
    assert look(harness).nodes[harness.node].silent_since is None
    assert seen(harness, order.pod) == before


# --- words of these tests


# --- every engine measures: nodes that respond, all their devices, pods that run; nothing is 0 that was not measured


def test_a_sample_shows_what_runs_and_changes_nothing_that_is_observed(harness: Harness) -> None:
    if not harness.measures:
        pytest.skip("it measures nothing yet")
    harness.engine.sample()
    order = start(harness, harness.order("a", device=1, run_s=LONG_S))
    start(harness, harness.order("b", device=2, run_s=0))
    harness.pass_time(1)
    before = look(harness)
    (node,) = harness.engine.sample().nodes
    assert (node.node, node.is_simulated) == (harness.node, True)
    assert [device.index for device in node.devices] == list(range(8))
    (first,) = node.pods
    assert (first.pod, first.cpu_cores, first.read_bytes_s, first.sent_bytes_s) == (order.pod, None, None, None)
    assert [(use.index, use.utilization) for use in first.devices] == [(1, None)]
    assert first.memory_bytes is not None
    assert (node.devices[1].utilization, node.devices[2].utilization, node.devices[2].memory_bytes) == (None, 0, 0)
    harness.pass_time(1)
    (node,) = harness.engine.sample().nodes
    if harness.keeps_objects:  # one that was restarted measures anew
        (use,) = node.pods[0].devices
        assert node.pods[0].cpu_cores is not None
        assert use.utilization is not None
        assert 0 <= use.utilization <= 100
        assert node.devices[1].utilization == pytest.approx(use.utilization)
        assert node.devices[1].memory_bytes == use.memory_bytes
        assert look(harness) is before
    assert (look(harness).nodes, look(harness).pods) == (before.nodes, before.pods)


def test_a_node_that_does_not_respond_is_not_in_a_sample(harness: Harness) -> None:
    harness.silence()
    assert harness.engine.sample().nodes == ()
    harness.end_silence()
    assert [node.node for node in harness.engine.sample().nodes] == [harness.node]


def look(harness: Harness) -> Observation:
    return harness.engine.observe(ONE)


def send(harness: Harness, order: Order) -> OrderResult:
    (answer,) = send_all(harness, order)
    return answer


def send_all(harness: Harness, *orders: Order) -> list[OrderResult]:
    return list(harness.engine.carry_out(orders, ONE))


def start(harness: Harness, order: StartOrder) -> StartOrder:
    """Start it, and see it run or, if it is as short as that, exited."""
    assert send(harness, order).status is OrderStatus.DONE
    assert state(harness, order.pod) is not None
    return order


def stop(order: StartOrder, grace_s: int = 1) -> StopOrder:
    return StopOrder(pod=order.pod, node=order.node, grace_s=grace_s, reason="test")


def seen(harness: Harness, pod: PodId) -> ObservedPod | None:
    return look(harness).pods.get(pod)


def state(harness: Harness, pod: PodId) -> PodState | None:
    observed = seen(harness, pod)
    return observed.state if observed is not None else None

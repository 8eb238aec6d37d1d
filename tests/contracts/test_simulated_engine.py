"""What is special to the simulated engine: timelines, kept work, fencing, invariants, the state file."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from pathlib import Path
from random import Random

import pytest

from fairpool.engines.port import EngineUnreachable
from fairpool.engines.simulated.behaviour import Behaviour, BehaviourOf, same_behaviour
from fairpool.engines.simulated.clock import VirtualClock
from fairpool.engines.simulated.invariants import InvariantChecker
from fairpool.engines.simulated.simulated_node import FENCE_S, GONE_S, SimulatedNode
from fairpool.engines.simulated.state_file import StateFile
from fairpool.engines.simulated.timeline import PodTimeline, observed
from fairpool.engines.simulated.traces import Trace, read_trace
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, QueueId, Token
from fairpool.model.node import Taint, TaintEffect
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
from fairpool.model.plain import decode, encode
from fairpool.model.spec import Arrangement
from fairpool.model.workload import (
    NO_GPU,
    GpuKind,
    GpuRequest,
    NodeSelectorOperator,
    NodeSelectorRequirement,
    PodAffinityTerm,
    PodShape,
    Toleration,
    WorkloadKind,
    gpu_memory,
    gpu_portion,
    whole_gpus,
)
from tests.contracts.harness import GIB, NODE, START, machine, start_order
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.faults import Faults
from tests.fault_injection.faulty_engine import FaultyEngine
from tests.fault_injection.random_workloads import arrivals, random_behaviour
from tests.fault_injection.skewed_clock import SkewedClock

ONE = Token(1)


# --- times


def test_a_pod_takes_the_time_of_its_behaviour() -> None:
    world = World(Behaviour(pull_s=10, start_s=2, run_s=30, exit_code=4))
    order = world.start("a")
    assert world.states(order, at_s=(0, 11.9, 12, 41.9, 42)) == ["starting", "starting", "running", "running", "exited"]
    exited = world.look().pods[order.pod]
    assert (exited.exit_code, exited.running_since) == (4, START + 12_000)


def test_an_image_that_cannot_be_pulled_keeps_a_pod_from_starting_until_it_can() -> None:
    message = "ErrImagePull: no such image"
    world = World(Behaviour(pull_s=3, pull_error=message, pull_error_s=60, start_s=1, run_s=5))
    order = world.start("a")
    words = [world.at(seconds).pods[order.pod].message for seconds in (2, 3, 62, 63)]
    assert words == ["", message, message, ""]
    assert world.states(order, at_s=(63.9, 64, 69)) == ["starting", "running", "exited"]


def test_a_pod_that_never_gets_its_image_leaves_when_it_is_stopped() -> None:
    world = World(Behaviour(pull_error="ErrImagePull: no such image"))
    order = world.start("a")
    world.pass_time(10_000)
    assert world.look().pods[order.pod].state is PodState.STARTING
    world.stop(order, grace_s=30)
    assert world.look().pods[order.pod].message == "stopped before it ran: test"


@pytest.mark.parametrize("seed", range(4))
def test_observing_often_and_observing_once_show_the_same(seed: int) -> None:
    often, seldom = World(random_behaviour(seed), gpus=64), World(random_behaviour(seed), gpus=64)
    for each in (often, seldom):
        for number in range(40):
            each.start(f"w{number}", device=number)
    for _ in range(40):
        often.pass_time(100)
        often.look()
    seldom.pass_time(4000)
    assert often.look().pods == seldom.look().pods


def test_a_clock_that_is_set_back_undoes_nothing() -> None:
    clock = SkewedClock(START)
    engine = FaultableEngine(clock.wall, [machine()], same_behaviour(Behaviour(run_s=60)))
    order = start_order("a")
    engine.carry_out([order], ONE)
    clock.advance(100)
    before = engine.observe(ONE)
    clock.jump(-90)
    assert engine.observe(ONE) is before
    assert clock.wall.now() == START + 10_000


# --- work


@pytest.mark.parametrize(
    ("checkpoint_s", "left_s"),
    [
        pytest.param(0, 75, id="all work is kept"),
        pytest.param(10, 80, id="whole pieces are kept"),
        pytest.param(None, 100, id="nothing is kept"),
    ],
)
def test_a_pod_that_was_stopped_goes_on_where_it_was(checkpoint_s: float | None, left_s: float) -> None:
    world = World(Behaviour(run_s=100, checkpoint_s=checkpoint_s))
    first = world.start("a")
    world.pass_time(25)
    world.stop(first, grace_s=30)
    second = world.start("a", incarnation=1)
    assert world.states(second, at_s=(25 + left_s - 0.1, 25 + left_s)) == ["running", "exited"]


def test_work_is_kept_over_replacements_and_lost_nodes() -> None:
    world = World(Behaviour(run_s=100))
    world.start("a")
    world.pass_time(30)
    world.engine.reboot(NODE, down_s=10)
    world.pass_time(10)
    second = world.start("a", incarnation=1)
    world.pass_time(30)
    world.engine.crash(second.pod)
    third = world.start("a", incarnation=2)
    assert world.states(third, at_s=(109.9, 110)) == ["running", "exited"]


def test_who_comes_back_after_finishing_begins_anew() -> None:
    world = World(Behaviour(run_s=10))
    world.start("a")
    world.pass_time(10)
    second = world.start("a", incarnation=1)
    assert world.states(second, at_s=(19.9, 20)) == ["running", "exited"]


def test_behaviours_from_a_seed_are_the_same_in_every_process() -> None:
    # Written down once: salted hashes would give other numbers each time.
    first, again = random_behaviour(7)(start_order("a")), random_behaviour(7)(start_order("a", incarnation=1))
    assert first.run_s == again.run_s == 5457.734
    assert random_behaviour(7)(start_order("b")).run_s != first.run_s


# --- nodes


def test_a_node_that_is_silent_for_long_stops_its_pods_itself() -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.silence(NODE)
    world.pass_time(FENCE_S - 0.1)
    assert world.engine.alive() == [order.pod]
    world.pass_time(0.1)
    assert world.engine.alive() == []
    assert order.pod not in world.look().pods, "it cannot be observed yet"
    world.pass_time(60)
    world.engine.end_silence(NODE)
    observed = world.look().pods[order.pod]
    assert (observed.state, observed.message, observed.exit_code) == (PodState.EXITED, "fenced", 137)


def test_a_silent_node_is_called_gone_after_it_has_stopped_its_pods_until_it_answers() -> None:
    world = World(Behaviour())
    world.start("a")
    world.engine.silence(NODE)
    assert [world.at(seconds).nodes[NODE].gone for seconds in (FENCE_S, GONE_S - 0.1, GONE_S)] == [False, False, True]
    assert world.engine.alive() == []
    world.engine.end_silence(NODE)
    assert not world.look().nodes[NODE].gone


@pytest.mark.parametrize("until_s", [100, FENCE_S])
def test_a_node_that_answers_in_time_has_not_stopped_its_pods(until_s: int) -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.silence(NODE, Instant(START + until_s * SECOND_MS))
    world.pass_time(until_s - 0.1)
    assert world.look().nodes[NODE].silent_since == START
    world.pass_time(0.1)
    assert world.look().nodes[NODE].silent_since is None
    assert world.look().pods[order.pod].state is PodState.RUNNING


def test_what_ended_while_its_node_was_silent_is_seen_afterwards() -> None:
    world = World(Behaviour(run_s=50, exit_code=3))
    order = world.start("a")
    world.engine.silence(NODE, Instant(START + 100 * SECOND_MS))
    assert order.pod not in world.at(99).pods
    assert world.at(100).pods[order.pod].exit_code == 3


def test_a_rebooting_node_is_silent_and_still_has_its_old_boot_id() -> None:
    world = World(Behaviour())
    world.start("a")
    world.engine.reboot(NODE, down_s=30)
    down = world.look().nodes[NODE]
    assert (down.boot_id, down.silent_since) == (f"{NODE}/1", START)
    back = world.at(30).nodes[NODE]
    assert (back.boot_id, back.silent_since) == (f"{NODE}/2", None)


def test_a_node_that_leaves_takes_its_pods_with_it_and_returns_as_another_machine() -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.remove_node(NODE)
    assert (world.look().nodes, world.look().pods) == ({}, {})
    assert world.send(StopOrder(pod=order.pod, node=NODE, grace_s=0, reason="test")).status is OrderStatus.DONE
    assert world.send(start_order("b")).status is OrderStatus.REFUSED
    world.engine.add_node(machine())
    assert world.look().nodes[NODE].boot_id == f"{NODE}/2"
    assert world.send(order).status is OrderStatus.REFUSED


def test_a_node_may_get_labels_and_taints_while_pods_run() -> None:
    world = World(Behaviour())
    order = world.start("a")
    before = world.look()
    changed = replace(machine(), cordoned=True, labels={"zone": "b"}, taints=(Taint("drain"),))
    world.engine.replace_node(changed)
    after = world.look()
    assert after.nodes[NODE].node == changed
    assert after.pods is before.pods
    assert after.pods[order.pod].state is PodState.RUNNING


def test_a_pod_that_is_lost_leaves_no_trace_and_does_not_start_again() -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.lose(order.pod)
    assert order.pod not in world.look().pods
    assert world.send(order) == OrderResult(order.pod, OrderStatus.REFUSED, "this pod has ended")


# --- what changes and what stays the same object


def test_only_what_has_changed_is_another_object() -> None:
    world = World(always_by_name({"short": Behaviour(run_s=5)}))
    world.start("long", device=0)
    world.start("short", device=1)
    before = world.look()
    assert world.at(4) is before
    after = world.at(5)
    assert after is not before
    assert after.nodes is before.nodes
    assert [pod for pod in after.pods if after.pods[pod] is not before.pods[pod]] == ["short-0-0"]


@pytest.mark.slow
def test_observing_a_large_cluster_costs_what_has_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [machine(f"n{number}") for number in range(1000)]
    clock = VirtualClock(START)
    engine = FaultableEngine(clock, nodes, always_by_name({"w5-3": Behaviour(run_s=50)}))
    engine.carry_out(
        [
            start_order(f"w{number}-{device}", node=f"n{number}", boot_id=f"n{number}/1", devices=(device,))
            for number in range(1000)
            for device in range(8)
        ],
        ONE,
    )
    first = engine.observe(ONE)
    drawn: list[PodId] = []

    def drawing(timeline: PodTimeline, at: Instant) -> ObservedPod:
        drawn.append(timeline.order.pod)
        return observed(timeline, at)

    monkeypatch.setattr("fairpool.engines.simulated.machines.observed", drawing)
    clock.advance(49)
    assert engine.observe(ONE) is first
    clock.advance(1)
    assert engine.observe(ONE).pods[PodId("w5-3-0-0")].state is PodState.EXITED
    assert drawn == ["w5-3-0-0"]


# --- invariants


def use(*requests: GpuRequest | PodShape, devices: tuple[int, ...] = (0,)) -> list[StartOrder]:
    shapes = [each if isinstance(each, PodShape) else PodShape(gpu=each) for each in requests]
    return [
        start_order(f"w{number}", shape=shape, devices=devices if shape.gpu.devices else ())
        for number, shape in enumerate(shapes)
    ]


@pytest.mark.parametrize(
    "orders",
    [
        pytest.param(use(gpu_portion(500), gpu_portion(500)), id="two halves"),
        pytest.param(use(gpu_memory(30_000), gpu_memory(20_000), gpu_portion(375)), id="memory and a portion, exactly"),
        pytest.param(use(gpu_memory(26_667), gpu_memory(26_667), gpu_memory(26_666)), id="memory is not rounded"),
        pytest.param(use(PodShape(cpu_milli=32_000), PodShape(cpu_milli=32_000)), id="all cores"),
        pytest.param(use(whole_gpus(2), devices=(0, 1)), id="two devices"),
    ],
)
def test_what_fits_is_no_violation(orders: list[StartOrder]) -> None:
    world = World(Behaviour())
    world.engine.carry_out(orders, ONE)
    assert world.engine.violations == []


@pytest.mark.parametrize(
    ("orders", "violation"),
    [
        pytest.param(
            use(whole_gpus(1), whole_gpus(1)),
            "device 0 of n1 is over-committed: w0-0-0, w1-0-0 together",
            id="two whole pods on one device",
        ),
        pytest.param(
            use(gpu_portion(500), gpu_portion(501)),
            "device 0 of n1 is over-committed: w0-0-0, w1-0-0 together",
            id="portions of more than a device",
        ),
        pytest.param(
            use(gpu_portion(1), whole_gpus(1)),
            "device 0 of n1 is over-committed: w0-0-0, w1-0-0 together",
            id="a whole pod on a shared device",
        ),
        pytest.param(
            use(gpu_memory(50_000), gpu_memory(30_001)),
            "device 0 of n1 is over-committed: w0-0-0, w1-0-0 together",
            id="more memory than a device has",
        ),
        pytest.param(
            use(PodShape(cpu_milli=64_000), PodShape(cpu_milli=1)),
            "CPU of n1 is over-committed: w0-0-0, w1-0-0 together",
            id="too many cores",
        ),
        pytest.param(
            use(PodShape(memory_bytes=513 * GIB)),
            "memory of n1 is over-committed: w0-0-0 together",
            id="too much memory",
        ),
        pytest.param(
            use(PodShape(extended=(("disks", 1),))),
            "disks of n1 is over-committed: w0-0-0 together",
            id="nothing of it",
        ),
        pytest.param(
            use(GpuRequest(mig=(("nvidia.com/mig-1g.10gb", 1),))),
            "nvidia.com/mig-1g.10gb of n1 is over-committed: w0-0-0 together",
            id="no such MIG instance",
        ),
        pytest.param(
            use(whole_gpus(2), devices=(0,)),
            "w0-0-0 asks for 2 devices and was given [0]",
            id="fewer devices than asked for",
        ),
        pytest.param(
            [start_order("a"), start_order("a", incarnation=1, devices=(1,))],
            "a-0-1 runs at the same time as a-0-0",
            id="two pods of one index",
        ),
        pytest.param(
            [start_order("a"), start_order("a", node="n2", boot_id="n2/1")],
            "a-0-0 was ordered to n1, and then to n2",
            id="one pod on two nodes",
        ),
    ],
)
def test_the_invariant_checker_finds(orders: list[StartOrder], violation: str) -> None:
    world = World(Behaviour())
    world.engine.carry_out(orders, ONE)
    assert world.engine.violations == [violation]


def test_what_a_pod_held_is_free_when_it_has_ended_and_not_before() -> None:
    world = World(Behaviour(stop_s=10))
    first = world.start("a")
    world.stop(first, grace_s=30)
    world.pass_time(9.9)
    world.start("b")
    assert len(world.engine.violations) == 1
    world.pass_time(0.1)
    world.engine.crash(PodId("b-0-0"))
    world.start("a", incarnation=1)
    assert len(world.engine.violations) == 1


def test_a_fenced_node_holds_nothing() -> None:
    world = World(Behaviour())
    world.engine.add_node(machine("n2"))
    world.start("a")
    world.engine.silence(NODE)
    world.pass_time(FENCE_S)
    world.send(start_order("a", incarnation=1, node="n2", boot_id="n2/1"))
    assert world.engine.violations == []


def test_the_invariant_checker_trusts_not_even_the_engine() -> None:
    checker = InvariantChecker()
    checker.acted(Token(3))
    checker.acted(Token(2))
    order = start_order("a")
    checker.started(order, machine())
    checker.ended(order.pod)
    checker.started(order, machine())
    assert checker.violations == [
        "an order with token 2 was obeyed after token 3 had been shown",
        "a-0-0 was started twice",
    ]


# --- the state file


def test_a_reopened_engine_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    first = FaultableEngine(clock, [machine()], random_behaviour(1), StateFile(tmp_path / "state"))
    first.carry_out([start_order("a"), start_order("b", devices=(1,))], ONE)
    clock.advance(3600)
    reopened = FaultableEngine(clock, [machine()], same_behaviour(Behaviour()), StateFile(tmp_path / "state"))
    assert reopened.observe(ONE).pods == first.observe(ONE).pods
    assert reopened.alive() == first.alive()


def test_violations_outlive_the_process(tmp_path: Path) -> None:
    first = FaultableEngine(VirtualClock(START), [machine()], state_file=StateFile(tmp_path / "state"))
    first.carry_out([start_order("a"), start_order("b")], ONE)
    assert len(first.violations) == 1
    reopened = FaultableEngine(VirtualClock(START), [], state_file=StateFile(tmp_path / "state"))
    assert reopened.violations == first.violations


@pytest.mark.parametrize("seed", range(6))
def test_an_engine_that_dies_between_any_two_calls_does_what_the_other_does(seed: int, tmp_path: Path) -> None:
    clock = VirtualClock(START)
    nodes = [machine("n1"), machine("n2")]
    steady = FaultableEngine(clock, nodes, random_behaviour(seed))

    def reopened() -> FaultableEngine:
        return FaultableEngine(clock, nodes, random_behaviour(seed), StateFile(tmp_path / "state"))

    dice = Random(seed)
    for step in range(20):
        act = some_act(dice, step, steady)
        assert act(steady) == act(reopened()), f"step {step}"
        clock.advance(dice.choice((0, 1, 30, 300)))
        mine, other = steady.observe(ONE), reopened().observe(ONE)
        assert (mine.nodes, mine.pods, mine.token) == (other.nodes, other.pods, other.token), f"step {step}"
    assert steady.violations == reopened().violations
    assert steady._done_ms == reopened()._done_ms


Act = Callable[[FaultableEngine], object]


def some_act(dice: Random, step: int, engine: FaultableEngine) -> Act:
    """Something to do to an engine, chosen by the dice and by what there is."""
    name = NodeName(dice.choice(("n1", "n2")))
    if name not in engine.nodes:
        return lambda each: each.add_node(machine(name))
    order = start_order(
        f"w{dice.randrange(6)}", 0, step, node=name, boot_id=engine.host(name).boot_id, devices=(dice.randrange(8),)
    )
    known = sorted(engine.observe(ONE).pods) or [order.pod]
    pod = dice.choice(known)
    until = Instant(engine.observe(ONE).at + dice.choice((10, 200, 400)) * SECOND_MS)
    acts: list[Act] = [
        *[lambda each: each.carry_out([order], ONE)] * 6,
        *[lambda each: each.carry_out([StopOrder(pod=pod, node=None, grace_s=20, reason="test")], ONE)] * 2,
        *[lambda each: each.carry_out([ForgetOrder(pod=pod, node=None)], ONE)] * 2,
        lambda each: each.silence(name, until),
        lambda each: each.silence(name),
        lambda each: each.end_silence(name),
        lambda each: each.reboot(name, 45),
        lambda each: each.remove_node(name),
        lambda each: each.lose(pod),
    ]
    return dice.choice(acts)


def test_a_state_file_that_cannot_be_written_means_unreachable_and_is_written_later(
    tmp_path: Path,
) -> None:
    state_file = StateFile(tmp_path / "state")
    engine = FaultableEngine(VirtualClock(START), [machine()], state_file=state_file)
    state_file._database.execute("PRAGMA query_only = ON")
    with pytest.raises(EngineUnreachable):
        engine.carry_out([start_order("a")], ONE)
    state_file._database.execute("PRAGMA query_only = OFF")
    assert engine.carry_out([start_order("a")], ONE) == [OrderResult(PodId("a-0-0"), OrderStatus.DONE)]
    reopened = FaultableEngine(VirtualClock(START), state_file=StateFile(tmp_path / "state"))
    assert list(reopened.observe(ONE).pods) == ["a-0-0"]


@pytest.mark.slow
def test_pods_run_on_after_the_process_was_killed(tmp_path: Path) -> None:
    program = f"""
import os, signal
from tests.contracts.test_simulated_engine import *
state_file = StateFile({str(tmp_path / "j")!r})
engine = FaultableEngine(VirtualClock(START), [machine()], same_behaviour(Behaviour(run_s=60)), state_file)
assert engine.carry_out([start_order("a")], Token(5))[0].status is OrderStatus.DONE
os.kill(os.getpid(), signal.SIGKILL)
"""
    killed = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[2], check=False)
    assert killed.returncode == -signal.SIGKILL
    clock = VirtualClock(Instant(START + 59_000))
    engine = FaultableEngine(clock, [machine()], state_file=StateFile(tmp_path / "j"))
    assert engine.observe(Token(5)).pods[PodId("a-0-0")].state is PodState.RUNNING
    clock.advance(1)
    assert engine.observe(Token(5)).pods[PodId("a-0-0")].state is PodState.EXITED


def test_everything_an_order_or_a_node_can_hold_comes_back_from_the_state_file() -> None:
    shape = PodShape(
        gpu=GpuRequest(mig=(("mig-1g", 2),)),
        extended=(("disks", 1),),
        node_rules=((NodeSelectorRequirement("zone", NodeSelectorOperator.IN, ("a", "b")),),),
        tolerations=(Toleration("drain", effect=TaintEffect.NO_EXECUTE), Toleration()),
        labels=(("app", "x"),),
        near=(PodAffinityTerm("rack", (("app", "x"),)),),
    )
    timeline = PodTimeline(number=1, order=start_order("a", shape=shape), behaviour=Behaviour(), accepted_at=START)
    assert decode(PodTimeline, encode(timeline)) == timeline
    node = replace(machine(), labels={"a": "b"}, taints=(Taint("x"),), gpus_withheld=(3,), mig_instances={"mig-1g": 7})
    host = SimulatedNode(number=1, node=node, silent_since=START)
    assert decode(SimulatedNode, encode(host)) == host


# --- faults


def test_seeds_choose_which_faults_there_are() -> None:
    swarms = [Faults.swarm(seed) for seed in range(50)]
    assert swarms == [Faults.swarm(seed) for seed in range(50)]
    for rate in [field.name for field in fields(Faults)]:
        values = [getattr(faults, rate) for faults in swarms]
        assert 5 < values.count(0) < 45, f"{rate} is (almost) always or never there"
        assert all(0 <= value <= 1 for value in values)


@pytest.mark.parametrize(
    ("faults", "reply", "runs"),
    [
        pytest.param(Faults(order_lost=1), OrderStatus.UNKNOWN, False, id="order lost"),
        pytest.param(Faults(answer_lost=1), OrderStatus.UNKNOWN, True, id="answer lost"),
        pytest.param(Faults(order_late=1), OrderStatus.UNKNOWN, False, id="order late"),
        pytest.param(Faults(order_twice=1), OrderStatus.DONE, True, id="order twice"),
        pytest.param(Faults(put_off=1), OrderStatus.LATER, False, id="put off"),
        pytest.param(Faults(refused=1), OrderStatus.REFUSED, False, id="refused"),
        pytest.param(Faults(away_before=1), None, False, id="away before"),
        pytest.param(Faults(away_after=1), None, True, id="away after"),
    ],
)
def test_an_order_meets_its_fault(faults: Faults, reply: OrderStatus | None, runs: bool) -> None:
    world = World(Behaviour())
    faulty = FaultyEngine(world.engine, faults, Random(1), world.clock)
    try:
        (answer,) = faulty.carry_out([start_order("a")], ONE)
        assert answer.status is reply
    except EngineUnreachable:
        assert reply is None
    assert bool(world.look().pods) is runs


def test_an_image_may_not_be_there_for_some_minutes() -> None:
    world = World(Behaviour(start_s=1))
    faulty = FaultyEngine(world.engine, Faults(pull_error=1), Random(1), world.clock)
    order = start_order("a", devices=(1,))
    faulty.carry_out([order], ONE)
    held_up = faulty.observe(ONE).pods[order.pod]
    assert (held_up.state, held_up.message[:12]) == (PodState.STARTING, "ErrImagePull")
    world.pass_time(301)
    assert faulty.observe(ONE).pods[order.pod].state is PodState.RUNNING


def test_a_slow_answer_takes_time() -> None:
    world = World(Behaviour())
    FaultyEngine(world.engine, Faults(slow_answer=1), Random(1), world.clock).observe(ONE)
    assert START < world.clock.now() <= START + 20_000


def test_a_late_order_arrives_within_half_a_minute_or_is_dropped_after_a_minute() -> None:
    for wait_s, arrives in ((30, True), (61, False)):
        world = World(Behaviour())
        faulty = FaultyEngine(world.engine, Faults(order_late=1), Random(1), world.clock)
        faulty.carry_out([start_order("a")], ONE)
        faulty.calm()
        world.pass_time(wait_s)
        assert bool(faulty.observe(ONE).pods) is arrives


def test_a_late_order_of_a_loop_that_was_replaced_does_nothing() -> None:
    world = World(Behaviour())
    faulty = FaultyEngine(world.engine, Faults(order_late=1), Random(1), world.clock)
    faulty.carry_out([start_order("a")], ONE)
    world.engine.observe(Token(2))
    world.pass_time(30)
    assert faulty.observe(Token(2)).pods == {}


def test_refused_is_for_good_even_if_an_earlier_copy_is_still_on_its_way() -> None:
    world = World(Behaviour())
    late = FaultyEngine(world.engine, Faults(order_late=1), Random(1), world.clock)
    late.carry_out([start_order("a")], ONE)
    late._faults = Faults(refused=1)
    assert late.carry_out([start_order("a")], ONE)[0].status is OrderStatus.REFUSED
    world.pass_time(30)
    assert late.observe(ONE).pods == {}


@pytest.mark.parametrize("seed", range(8))
def test_the_same_seed_makes_the_same_faults_and_calm_ends_it(seed: int) -> None:
    histories = [history(seed) for _ in range(2)]
    assert histories[0] == histories[1]


def history(seed: int) -> list[object]:
    """A caller who repeats every start until it is answered, on an engine with all the faults of a seed."""
    clock = VirtualClock(START)
    nodes = [machine(f"n{number}") for number in range(4)]
    engine = FaultableEngine(clock, nodes, random_behaviour(seed))
    faulty = FaultyEngine(engine, Faults.swarm(seed), Random(seed), clock)
    reported: list[object] = []
    for round_ in range(30):
        if round_ == 20:
            faulty.calm()
        clock.advance(60)
        reported.append(asked(lambda: faulty.observe(ONE)))
        reported.append(asked(lambda: faulty.carry_out(list(starts(engine)), ONE)))
    clock.advance(1800)
    faulty.observe(ONE)
    clock.advance(600)
    observation = faulty.observe(ONE)
    assert sorted(observation.nodes) == ["n0", "n1", "n2", "n3"]
    assert not any(observed.silent_since for observed in observation.nodes.values())
    assert {answer.status for answer in faulty.carry_out(list(starts(engine)), ONE)} <= {
        OrderStatus.DONE,
        OrderStatus.REFUSED,
    }
    assert engine.violations == []
    return reported


def starts(engine: FaultableEngine) -> Iterable[Order]:
    for name in engine.nodes:
        for device in range(4):
            yield start_order(f"{name}-{device}", node=name, boot_id=engine.host(name).boot_id, devices=(device,))


def asked(question: Callable[[], object]) -> object:
    try:
        answer = question()
    except EngineUnreachable as away:
        return str(away)
    return (answer.nodes, answer.pods) if isinstance(answer, Observation) else answer


@pytest.mark.parametrize(
    "rate", ["pod_crash", "pod_loss", "node_reboot", "node_short_silence", "node_long_silence", "node_removal"]
)
def test_random_faults_are_applied(rate: str) -> None:
    world = World(Behaviour())
    faulty = FaultyEngine(world.engine, Faults(**{rate: 10}), Random(1), world.clock)
    order = world.start("a")
    before = faulty.observe(ONE)
    world.pass_time(360)
    after = faulty.observe(ONE)
    assert after is not before, rate
    assert after.pods.get(order.pod) != before.pods[order.pod], rate


# --- traces


def test_arrivals_from_a_seed_are_of_every_kind() -> None:
    projects = [QueueId("vision"), QueueId("speech")]
    listed = arrivals(3, projects, 70, start=START)
    assert listed == arrivals(3, projects, 70, start=START)
    assert listed != arrivals(4, projects, 70, start=START)
    assert [each.at for each in listed] == sorted(each.at for each in listed)
    specs = [each.spec for each in listed]
    assert len({spec.id for spec in specs}) == 70
    assert {spec.project for spec in specs} == set(projects)
    assert {spec.kind for spec in specs[:7]} == set(WorkloadKind)
    assert {spec.arrangement for spec in specs[:7]} == set(Arrangement)
    assert any(spec.is_elastic for spec in specs)
    assert any(spec.leader for spec in specs)
    assert any(spec.kind is WorkloadKind.BUILD and spec.preemptible for spec in specs)
    assert {spec.template.shape.gpu.kind for spec in specs} == set(GpuKind) - {GpuKind.MIG}
    for optional in ("priority", "deadline_s", "ttl_s", "retries"):
        assert len({getattr(spec, optional) for spec in specs}) > 2, optional


def test_a_table_of_jobs_becomes_arrivals_and_behaviours() -> None:
    table = "job,project,submit_s,gpus,duration_s,kind\nb,x,60,0.5,10,\na,y,0,16,3600,train\nc,x,60,0,5,build\n"
    trace = read_trace(table.splitlines(), START)
    assert isinstance(trace, Trace)
    assert [(each.at - START, each.spec.id, each.spec.pods) for each in trace.arrivals] == [
        (0, "a", 2),
        (60_000, "b", 1),
        (60_000, "c", 1),
    ]
    requests = [each.spec.template.shape.gpu for each in trace.arrivals]
    assert requests == [whole_gpus(8), gpu_portion(500), NO_GPU]
    assert trace.behaviour_of(start_order("a")).run_s == 3600


def test_all_that_is_wrong_with_a_table_is_said_at_once() -> None:
    table = "job,project,submit_s,gpus,duration_s\na,x,0,1,10\na,x,0,1,10\nb,x,soon,1,10\nc,x,0,2.5,10\nd,x,0,1,-1\n"
    problems = read_trace(table.splitlines(), START)
    assert isinstance(problems, tuple)
    assert [problem.code for problem in problems] == [
        "trace.twice",
        "trace.line",
        "gpu.fraction_of_many",
        "trace.time",
    ]


# --- words of these tests


# --- nodes that are taken away, lost records, stopped shims


def test_a_node_that_is_taken_away_is_not_seen_and_its_pods_are() -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.withdraw_node(NODE)
    seen = world.look()
    assert (list(seen.nodes), seen.pods[order.pod].state) == ([], PodState.RUNNING)
    assert world.engine.nodes == []
    later = start_order("b", boot_id=order.boot_id, devices=(1,))
    assert world.send(later).status is OrderStatus.REFUSED
    world.stop(order, grace_s=0)
    assert world.look().pods[order.pod].state is PodState.EXITED


def test_a_node_that_is_offered_again_is_in_the_same_boot() -> None:
    world = World(Behaviour())
    before = world.look().nodes[NODE]
    world.engine.withdraw_node(NODE)
    world.engine.offer_node(NODE)
    assert world.look().nodes[NODE] == before


def test_a_pod_whose_record_is_lost_runs_unseen_and_is_found_later() -> None:
    world = World(Behaviour(run_s=600))
    order = world.start("a")
    world.engine.lose_record(order.pod, Instant(START + 100 * SECOND_MS))
    assert order.pod not in world.at(99).pods
    assert world.engine.alive() == [order.pod]
    assert world.states(order, at_s=(100, 600)) == ["running", "exited"]


@pytest.mark.parametrize("how", ["start", "stop", "forget", "look"])
def test_a_pod_whose_record_is_lost_is_found_by_any_order(how: str) -> None:
    world = World(Behaviour(stop_s=20))
    order = world.start("a")
    world.engine.lose_record(order.pod, Instant(START + 1000 * SECOND_MS))
    match how:
        case "start":
            assert world.send(order).status is OrderStatus.DONE
        case "stop":
            world.stop(order, grace_s=30)
        case "forget":
            assert world.send(ForgetOrder(pod=order.pod, node=order.node)).status is OrderStatus.LATER
        case _:
            world.engine.find_all()
    assert world.look().pods[order.pod].state is PodState.RUNNING, "once, and until it has left"
    assert not world.engine.violations


def test_a_pod_that_exits_unseen_is_never_observed_again() -> None:
    world = World(Behaviour(run_s=10))
    order = world.start("a")
    world.engine.lose_record(order.pod, Instant(START + 100 * SECOND_MS))
    assert order.pod not in world.at(200).pods
    assert world.engine.alive() == []
    assert world.send(order).status is OrderStatus.REFUSED, "it was started once"


def test_an_engine_does_not_lose_a_pod_that_it_has_stopped() -> None:
    world = World(Behaviour(stop_s=20))
    order = world.start("a")
    world.stop(order, grace_s=30)
    world.engine.lose_record(order.pod, Instant(START + 1000 * SECOND_MS))
    assert world.states(order, at_s=(19, 20)) == ["running", "exited"]


def test_a_pod_whose_shim_is_stopped_tells_of_its_end_when_the_shim_goes_on() -> None:
    world = World(Behaviour(run_s=10))
    order = world.start("a")
    world.engine.stop_shim(order.pod, Instant(START + 100 * SECOND_MS))
    assert world.states(order, at_s=(10, 99, 100)) == ["running", "running", "exited"]


def test_a_pod_whose_shim_is_stopped_is_killed_when_its_grace_is_over() -> None:
    world = World(Behaviour())
    order = world.start("a")
    world.engine.stop_shim(order.pod, Instant(START + 100 * SECOND_MS))
    world.stop(order, grace_s=30)
    assert world.states(order, at_s=(29, 30)) == ["running", "exited"]
    assert world.look().pods[order.pod].exit_code == 137


def test_a_pod_whose_shim_goes_on_in_time_leaves_by_itself() -> None:
    world = World(Behaviour(stop_s=5))
    order = world.start("a")
    world.engine.stop_shim(order.pod, Instant(START + 10 * SECOND_MS))
    world.stop(order, grace_s=30)
    assert world.states(order, at_s=(14, 15)) == ["running", "exited"]
    assert world.look().pods[order.pod].exit_code == 143


def test_a_state_file_keeps_removed_nodes_lost_records_and_stopped_shims(tmp_path: Path) -> None:
    clock, path = VirtualClock(START), tmp_path / "state"
    first = FaultableEngine(clock, [machine()], same_behaviour(Behaviour()), StateFile(path))
    unseen, deaf = start_order("a"), start_order("b", devices=(1,))
    first.carry_out([unseen, deaf], ONE)
    first.lose_record(unseen.pod, Instant(START + 100 * SECOND_MS))
    first.stop_shim(deaf.pod, Instant(START + 100 * SECOND_MS))
    first.withdraw_node(NODE)
    again = FaultableEngine(clock, [machine()], same_behaviour(Behaviour()), StateFile(path))
    assert (list(again.observe(ONE).nodes), list(again.observe(ONE).pods)) == ([], [deaf.pod])
    again.carry_out([StopOrder(pod=deaf.pod, node=NODE, grace_s=50, reason="test")], ONE)
    clock.advance(49)
    assert again.observe(ONE).pods[deaf.pod].state is PodState.RUNNING
    assert sorted(again.alive()) == [unseen.pod, deaf.pod]


@pytest.mark.parametrize("deaf", [0.0, 0.5])
def test_pods_that_ignore_a_stop_behave_as_before_in_all_else(deaf: float) -> None:
    orders = [start_order(f"w{number}") for number in range(60)]
    heard, mixed = (
        [random_behaviour(7)(each) for each in orders],
        [random_behaviour(7, ignores_stop=deaf)(each) for each in orders],
    )
    assert [replace(each, stop_s=0) for each in heard] == [replace(each, stop_s=0) for each in mixed]
    assert any(each.stop_s > 3600 for each in mixed) == (deaf > 0)


class World:
    """A clock, an engine with one node, and the words to use them."""

    def __init__(self, behaviour: Behaviour | BehaviourOf, gpus: int = 8) -> None:
        self.clock = VirtualClock(START)
        behaviour_of = same_behaviour(behaviour) if isinstance(behaviour, Behaviour) else behaviour
        self.engine = FaultableEngine(self.clock, [machine(gpus=gpus)], behaviour_of)

    def start(self, workload: str, incarnation: int = 0, device: int = 0) -> StartOrder:
        boot_id = self.engine.host(NODE).boot_id
        order = start_order(workload, 0, incarnation, boot_id=boot_id, devices=(device,))
        assert self.send(order).status is OrderStatus.DONE
        return order

    def stop(self, order: StartOrder, grace_s: int) -> None:
        reported = StopOrder(pod=order.pod, node=order.node, grace_s=grace_s, reason="test")
        assert self.send(reported).status is OrderStatus.DONE

    def send(self, order: Order) -> OrderResult:
        (answer,) = self.engine.carry_out([order], ONE)
        return answer

    def look(self) -> Observation:
        return self.engine.observe(ONE)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def at(self, seconds: float) -> Observation:
        """What is seen so long after the start."""
        self.clock.set(Instant(START + round(seconds * SECOND_MS)))
        return self.look()

    def states(self, order: StartOrder, at_s: Iterable[float]) -> list[str]:
        observed_pods = [self.at(seconds).pods[order.pod] for seconds in at_s]
        return [observed.state.value for observed in observed_pods]


def always_by_name(behaviours: dict[str, Behaviour]) -> BehaviourOf:
    return lambda order: behaviours.get(order.workload, Behaviour())

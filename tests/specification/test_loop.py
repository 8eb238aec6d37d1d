"""The loop as a whole, on an engine and a control plane that behave: what one turn after the other comes to."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import replace

import pytest

from fairpool.api.clusters import ControlPlaneUnreachable, PullAnswer, PushAnswer, PushReport
from fairpool.cluster.control_link import ControlLink
from fairpool.cluster.history import EventKind
from fairpool.cluster.ledger import LeaseHeld, Ledger, LedgerContents
from fairpool.cluster.loop import Loop
from fairpool.cluster.report_queue import Offered
from fairpool.engines.simulated.behaviour import Behaviour, BehaviourOf, same_behaviour
from fairpool.model.ids import Instant, NodeName, PoolName, QueueId, Revision, Token, WorkloadId
from fairpool.model.node import DEFAULT_POOL, Node, NodePool
from fairpool.model.observation import ForgetOrder, Order, OrderResult, StartOrder, StopOrder
from fairpool.model.organization import Organization, Queue, gpu_entitlement
from fairpool.model.spec import Arrangement, PodTemplate, WorkloadSpec
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import PodShape, WorkloadKind, gpu_portion, whole_gpus
from fairpool.simulation.control_driver import ControlDriver
from tests.fault_injection.faultable_engine import FaultableEngine
from tests.fault_injection.skewed_clock import SkewedClock
from tests.ledgers import STORES, NewPlace, new_place, sqlite_connection

OTHER = PoolName("other")


@pytest.fixture(params=STORES)
def place(request: pytest.FixtureRequest) -> NewPlace:
    """Where new ledgers are."""
    return new_place(request.param)


class Wire:
    """The way to the control plane, which can be cut in one direction."""

    def __init__(self, control: ControlDriver) -> None:
        self.control = control
        self.cut = False
        self.is_silent = False
        """It answers nothing at all."""

    def pull(self, after: Revision, wait_s: float) -> PullAnswer:
        if self.is_silent:
            raise ControlPlaneUnreachable("silent")
        return self.control.pull(after)

    def push(self, report: PushReport) -> PushAnswer:
        if self.cut:
            raise ControlPlaneUnreachable("cut")
        return self.control.push(report)


class Cluster:
    """Nodes of 8 GPUs, one project with quota for all of it, and time that passes by hand."""

    def __init__(self, behaviour_of: BehaviourOf | None = None, **pools: str) -> None:
        self.clock = SkewedClock(Instant(1_000_000))
        self.nodes = {name: _node(name, pool) for name, pool in (pools or {"n1": ""}).items()}
        self.engine = FaultableEngine(self.clock, self.nodes.values(), behaviour_of or same_behaviour(Behaviour()))
        self.control = ControlDriver(self.clock.now)
        queue = Queue(id=QueueId("p"), gpu=gpu_entitlement(64_000))
        declared = (NodePool(), *(NodePool(name=OTHER, label_key="pool", label_value="other") for _ in [1] if pools))
        self.control.declare(Organization(queues={pool.name: (queue,) for pool in declared}, pools=declared))
        self.wire = Wire(self.control)
        self.ledger = Ledger(None)
        self.loop = self.new_loop()

    def new_loop(self) -> Loop:
        return Loop(
            self.ledger, self.engine, ControlLink(self.wire, "c"), self.clock.wall.now, steady_ms=self.clock.now
        )

    def submit(self, name: str, gpus: int = 1, **more: object) -> None:
        template = PodTemplate(shape=PodShape(gpu=whole_gpus(gpus), cpu_milli=500, memory_bytes=4096))
        spec = WorkloadSpec(
            id=WorkloadId(name), name=name, project=QueueId("p"), created_at=self.clock.now(), template=template
        )
        refused = self.control.submit(replace(spec, **more))  # type: ignore[arg-type]
        assert refused is None, refused

    def run(self, seconds: int) -> int:
        """Let time pass second by second; the answer: how many turns did something."""
        turns = 0
        for _ in range(seconds):
            for _ in range(30):
                if not self.loop.run_cycle():
                    break
                turns += 1
            else:
                raise AssertionError("the loop does not come to rest")
            self.clock.advance(1)
        return turns

    def phase(self, name: str) -> WorkloadPhase | None:
        report = self.control.workload(WorkloadId(name))
        return report.phase if report is not None else None

    def alive(self) -> list[str]:
        return sorted(self.engine.alive())


def _node(name: str, pool: str) -> Node:
    labels = {"pool": pool} if pool else {}
    return Node(
        name=NodeName(name), cpu_milli=64_000, memory_bytes=1 << 38, gpus=8, gpu_memory_mib=32_510, labels=labels
    )


def _runs(seconds: float, exit_code: int = 0) -> Callable[..., Behaviour]:
    return same_behaviour(Behaviour(run_s=seconds, exit_code=exit_code))


def test_what_was_resumed_in_time_is_not_cleared_away() -> None:
    """It failed, its time to live ran out while it could not be reported, and a user resumed it meanwhile."""
    cluster = Cluster(_runs(5, exit_code=1))
    cluster.submit("a", retries=0, ttl_s=10)
    cluster.run(9)
    assert cluster.phase("a") is WorkloadPhase.FAILED
    cluster.wire.cut = True
    cluster.run(20)
    cluster.control.resume(WorkloadId("a"))
    cluster.run(2)
    cluster.wire.cut = False
    cluster.run(90)
    events = [event.kind for event in cluster.control.events()]
    assert events.count("halted") == 2, "it failed, was resumed, and failed again, before it was cleared away"


def test_the_end_of_a_pod_is_not_forgotten_before_it_is_reported() -> None:
    """The ledger is lost just after: the work must not be done again."""
    cluster = Cluster(_runs(5))
    cluster.submit("a")
    cluster.run(3)
    cluster.wire.cut = True
    cluster.run(10)
    cluster.ledger = Ledger(None)
    cluster.loop = cluster.new_loop()
    cluster.wire.cut = False
    cluster.run(90)
    assert cluster.phase("a") is WorkloadPhase.COMPLETED
    assert [event.pod for event in cluster.control.events() if event.kind == "bound"] == ["a-0-0"]


def test_a_ledger_that_is_rebuilt_decides_nothing_before_the_control_plane_was_heard(place: NewPlace) -> None:
    """Neither about what runs nor about what could start: it does not know what is declared."""
    cluster = Cluster(_runs(3000))
    cluster.submit("a", gpus=8)
    cluster.submit("waits", gpus=1)
    cluster.run(3)
    assert cluster.alive() == ["a-0-0"]
    token = cluster.loop.token
    cluster.wire.is_silent = cluster.wire.cut = True
    with closing(Ledger(place())) as cluster.ledger:
        cluster.loop = cluster.new_loop()
        cluster.run(120)
        assert cluster.alive() == ["a-0-0"]
        assert cluster.ledger.load() == LedgerContents(), "nothing was recorded"
        assert cluster.loop.token > token, "loops of before are fenced off all the same"
        cluster.wire.is_silent = cluster.wire.cut = False
        cluster.run(120)
        assert cluster.alive() == ["a-0-0"], "it was adopted, not started again"
        assert cluster.phase("a") is WorkloadPhase.RUNNING
        assert cluster.phase("waits") is WorkloadPhase.PENDING
        assert not cluster.engine.violations


def test_a_change_that_was_undone_before_it_could_be_reported_lets_the_loop_rest() -> None:
    cluster = Cluster()
    cluster.submit("a")
    cluster.run(3)
    cluster.wire.cut = True
    cluster.engine.silence(NodeName("n1"))
    cluster.run(3)
    cluster.engine.end_silence(NodeName("n1"))
    cluster.run(3)
    cluster.wire.cut = False
    cluster.run(120)
    assert cluster.run(60) == 0


def test_a_ledger_from_an_older_copy_is_not_believed() -> None:
    """What it holds is over, what runs it does not know: all is read back instead."""
    cluster = Cluster(_runs(3000))
    cluster.submit("old")
    cluster.run(3)
    copy = sqlite_connection(cluster.ledger).serialize()
    cluster.control.delete(WorkloadId("old"))
    cluster.submit("new")
    cluster.run(30)
    assert cluster.alive() == ["new-0-0"]
    sqlite_connection(cluster.ledger).deserialize(copy)
    cluster.loop = cluster.new_loop()
    cluster.run(60)
    assert cluster.alive() == ["new-0-0"]
    assert cluster.phase("new") is WorkloadPhase.RUNNING
    assert not cluster.engine.violations


def test_a_gang_whose_nodes_part_into_two_pools_runs_on() -> None:
    cluster = Cluster(n1="", n2="")
    cluster.submit("a", gpus=8, pods=2)
    cluster.run(3)
    before = cluster.alive()
    cluster.engine.replace_node(_node("n2", "other"))
    cluster.run(300)
    assert cluster.alive() == before == ["a-0-0", "a-1-0"]


def test_a_gang_of_which_a_part_is_moved_in_another_pool_restarts_as_a_whole() -> None:
    cluster = Cluster(n1="", n2="", n3="other")
    cluster.submit("gang", gpus=5, pods=2)
    cluster.submit("small", gpus=3, kind=WorkloadKind.BUILD, pools=(OTHER,))
    cluster.run(3)
    cluster.engine.replace_node(_node("n2", "other"))
    cluster.run(3)
    assert cluster.alive() == ["gang-0-0", "gang-1-0", "small-0-0"]
    cluster.submit("large", gpus=8, pools=(OTHER,))
    cluster.run(60)
    assert "large-0-0" in cluster.alive()
    assert "gang-0-0" not in cluster.alive(), "it went on beside a pod that has begun anew"


def test_every_replica_tries_the_next_pool() -> None:
    cluster = Cluster(n1="", n2="other")
    cluster.submit("full", gpus=8)
    cluster.run(3)
    more = {"pods": 3, "arrangement": Arrangement.REPLICAS, "kind": WorkloadKind.INFERENCE}
    cluster.submit("a", gpus=2, pools=(DEFAULT_POOL, OTHER), **more)
    cluster.run(30)
    assert cluster.phase("a") is WorkloadPhase.RUNNING


def test_a_pool_that_does_not_exist_is_said_to_be_missing() -> None:
    for cluster in (Cluster(), Cluster(n1="", n2="other")):
        cluster.submit("a", pools=(PoolName("nosuch"),))
        cluster.run(5)
        report = cluster.control.workload(WorkloadId("a"))
        assert report is not None
        assert report.phase is WorkloadPhase.PENDING
        assert "node pool nosuch does not exist" in report.detail


def test_a_clock_that_is_set_back_delays_nothing() -> None:
    cluster = Cluster(_runs(5, exit_code=1))
    cluster.submit("a", retries=3)
    cluster.run(8)
    cluster.clock.jump(-3600)
    cluster.run(60)
    assert cluster.loop.cache.pods[WorkloadId("a")][-1].incarnation >= 2, "it was tried again, and has failed again"


def test_reports_that_are_not_acknowledged_are_an_error_until_they_are() -> None:
    cluster = Cluster()
    cluster.wire.cut = True
    cluster.submit("a")
    cluster.run(2)
    assert cluster.loop.link_error == "cut"
    assert cluster.alive() == ["a-0-0"], "scheduling goes on"
    cluster.wire.cut = False
    cluster.run(5)
    assert cluster.loop.link_error == ""


def test_what_nodes_have_in_use_follows_from_the_reported_pods() -> None:
    cluster = Cluster()
    cluster.submit("a")
    cluster.run(2)
    cluster.submit("b", gpus=2)
    cluster.run(30)
    (node,) = cluster.control.nodes()
    pods = [pod for report in cluster.control.workloads() for pod in report.pods]
    assert {pod.node for pod in pods} == {node.name}
    assert (sum(pod.gpus_milli for pod in pods), len(pods)) == (3000, 2)
    assert (sum(pod.cpu_milli for pod in pods), sum(pod.memory_bytes for pod in pods)) == (1000, 8192)
    assert sum(report.gpus_milli for report in cluster.control.workloads()) == 3000


class SlowEngine(FaultableEngine):
    """Each call with orders takes so long."""

    takes_s = 0.0

    def __init__(self, clock: SkewedClock, nodes: Iterable[Node]) -> None:
        super().__init__(clock, nodes, same_behaviour(Behaviour()))
        self.skewed = clock
        self.calls: list[list[type[Order]]] = []

    def carry_out(self, orders: Sequence[Order], token: Token) -> Sequence[OrderResult]:
        self.calls.append([type(each) for each in orders])
        self.skewed.advance(self.takes_s)
        return super().carry_out(orders, token)


def test_orders_are_sent_for_a_second_at_a_time_and_stops_overtake_starts() -> None:
    cluster = Cluster(None, **{f"n{number}": "" for number in range(50)})
    engine = cluster.engine = SlowEngine(cluster.clock, cluster.nodes.values())
    cluster.loop = cluster.new_loop()
    cluster.control.set_quota(QueueId("p"), 400_000)
    cluster.submit("first")
    cluster.run(2)
    engine.calls.clear()
    engine.takes_s = 0.6
    cluster.submit("many", pods=350, arrangement=Arrangement.SWEEP)
    cluster.loop.run_cycle()
    assert [len(call) for call in engine.calls] == [100, 100], "after 1.2 s it stops"
    with pytest.raises(LeaseHeld):
        cluster.ledger.acquire("another", Instant(cluster.clock.now() + 14_000))
    cluster.control.delete(WorkloadId("first"))
    for _ in range(20):
        cluster.loop.run_cycle()
    assert engine.calls[2][0] is StopOrder
    assert len(cluster.alive()) == 350
    assert sum(call.count(StartOrder) for call in engine.calls) == 350, "none was sent twice"
    assert not engine.violations


def test_pods_that_wait_to_start_go_before_those_to_be_forgotten_which_are_not_left_out_either() -> None:
    cluster = Cluster(None, **{f"n{number}": "" for number in range(100)})
    engine = cluster.engine = SlowEngine(cluster.clock, cluster.nodes.values())
    cluster.loop = cluster.new_loop()
    cluster.control.set_quota(QueueId("p"), 800_000)
    cluster.submit("done", pods=50, arrangement=Arrangement.SWEEP)
    cluster.run(2)
    for pod in list(engine.alive()):
        engine.crash(pod, exit_code=0)
    cluster.submit("many", pods=700, arrangement=Arrangement.SWEEP)
    engine.calls.clear()
    engine.takes_s = 0.6
    for _ in range(20):
        cluster.loop.run_cycle()
    forgotten = [call.count(ForgetOrder) for call in engine.calls]
    first = next(number for number, each in enumerate(forgotten) if each)
    assert engine.calls[first] == [ForgetOrder] * 20, "a few in a cycle that has no time for all"
    assert any(StartOrder in call for call in engine.calls[first:]), "while others still wait to start"
    assert sum(forgotten) == 50
    assert len(cluster.alive()) == 700


class HeldLink(ControlLink):
    """A link whose reports stay where they are until the test sends them."""

    def report(self, now: Instant, token: Token, offered: Offered) -> None:
        self.state.reports.offer(offered)


def test_an_acknowledgement_of_an_earlier_report_does_not_count_for_one_that_was_not_offered_yet() -> None:
    """The answer arrives while the report with the end of the pod is delayed, because another pod was just started."""
    cluster = Cluster(_runs(3))
    link = HeldLink(cluster.wire, "c")
    cluster.loop = Loop(Ledger(None), cluster.engine, link, cluster.clock.now, report_delay_ms=1500)

    def pods_seen() -> list[str]:
        return sorted(cluster.engine.observe(cluster.loop.token).pods)

    cluster.submit("a")
    cluster.run(3)
    assert link.state.reports.has_more, "the report that it runs is on its way"
    cluster.submit("b")
    cluster.clock.advance(0.5)
    cluster.loop.run_cycle()
    link.send(cluster.clock.now(), cluster.loop.token)
    for _ in range(5):
        cluster.loop.run_cycle()
    assert "a-0-0" in pods_seen(), "its end is not known to the control plane"
    for _ in range(5):
        cluster.run(1)
        link.send(cluster.clock.now(), cluster.loop.token)
    assert cluster.phase("a") is WorkloadPhase.COMPLETED
    assert "a-0-0" not in pods_seen()


def test_after_a_plan_that_is_final_it_is_not_planned_again() -> None:
    """One job of two fits: it starts, and the other waits with a reason, all from one plan."""
    cluster = Cluster()
    cluster.run(1)
    planned = _count_plans(cluster)
    cluster.submit("a", gpus=5)
    cluster.submit("b", gpus=5)
    cluster.run(3)
    assert [cluster.phase(name) for name in "ab"] == [WorkloadPhase.RUNNING, WorkloadPhase.PENDING]
    assert len(planned) == 1
    assert all(plan.is_final for plan in cluster.loop.cache.plans.values())


def test_after_a_plan_that_may_make_another_decision_possible_it_is_planned_again() -> None:
    """Two fractions of a GPU: where they are is known exactly only once they are placed."""
    cluster = Cluster()
    cluster.run(1)
    planned = _count_plans(cluster)
    half = PodTemplate(shape=PodShape(gpu=gpu_portion(500), cpu_milli=500, memory_bytes=4096))
    cluster.submit("a", template=half)
    cluster.run(3)
    assert cluster.phase("a") is WorkloadPhase.RUNNING
    assert len(planned) == 2


def _count_plans(cluster: Cluster) -> list[PoolName]:
    """The pools that are planned from now on, by another loop on the same ledger."""
    planned: list[PoolName] = []
    cluster.loop.release()
    link, now = ControlLink(cluster.wire, "c"), cluster.clock.wall.now
    cluster.loop = Loop(cluster.ledger, cluster.engine, link, now, on_snapshot=lambda pool, _: planned.append(pool))
    cluster.run(1)
    planned.clear()
    return planned


def test_garbage_is_collected_between_cycles_only() -> None:
    cluster = Cluster()
    seen: list[bool] = []
    cluster.loop.release()
    link, clock = ControlLink(cluster.wire, "c"), cluster.clock.wall.now
    cluster.loop = Loop(cluster.ledger, cluster.engine, link, clock, on_step=lambda _: seen.append(gc.isenabled()))
    cluster.submit("a")
    cluster.run(2)
    assert cluster.phase("a") is WorkloadPhase.RUNNING
    assert seen
    assert not any(seen)
    assert gc.isenabled()


def test_garbage_is_collected_after_a_cycle_that_failed() -> None:
    cluster = Cluster()
    cluster.loop.release()

    def fail(step: str) -> None:
        raise RuntimeError(step)

    cluster.loop = Loop(
        cluster.ledger, cluster.engine, ControlLink(cluster.wire, "c"), cluster.clock.wall.now, on_step=fail
    )
    with pytest.raises(RuntimeError):
        cluster.loop.run_cycle()
    assert gc.isenabled()


@pytest.mark.parametrize("jump_s", [3600, -3600])
def test_usage_is_the_time_that_passed_also_if_the_clock_is_set_meanwhile(jump_s: int) -> None:
    cluster = Cluster(_runs(20))
    cluster.submit("a")
    cluster.run(5)
    cluster.clock.jump(jump_s)
    cluster.run(30)
    (ended,) = [each for _, each in cluster.ledger.events(0, 1000) if each.kind is EventKind.ENDED]
    assert ended.usage is not None
    assert ended.usage.bound_at is not None
    assert 20_000 <= ended.at - ended.usage.bound_at <= 21_000

"""Leaving, as the loop sees to it: quota that comes back in time, deletes by force, nodes that are taken away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.engines.simulated.behaviour import Behaviour, same_behaviour
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId, QueueId, Token, WorkloadId
from fairpool.model.node import DEFAULT_POOL, NodePool
from fairpool.model.observation import Observation, PodState
from fairpool.model.organization import GraceRules, Organization, Queue, gpu_entitlement
from fairpool.model.spec import RestartPolicy
from fairpool.model.status import WorkloadPhase
from tests.fault_injection.random_workloads import NEVER_S
from tests.specification.test_loop import Cluster

HOUR_S = 3600
DEAF = same_behaviour(Behaviour(stop_s=NEVER_S))
"""Does not listen: it leaves when it is killed."""
OWNER, BORROWER = QueueId("owner"), QueueId("borrower")
SLACK_S = 5


class Shared(Cluster):
    """Eight GPUs, all of them the owner's by quota, with pods that do not listen."""

    def __init__(self, graces: GraceRules | None = None) -> None:
        super().__init__(DEAF)
        queues = (Queue(id=OWNER, gpu=gpu_entitlement(8000)), Queue(id=BORROWER, gpu=gpu_entitlement(0)))
        rules = graces or GraceRules()
        self.control.declare(Organization(queues={DEFAULT_POOL: queues}, pools=(NodePool(),), graces=rules))

    def seconds_until_running(self, name: str, most_s: int) -> int:
        for second in range(most_s):
            if self.phase(name) is WorkloadPhase.RUNNING:
                return second
            self.run(1)
        raise AssertionError(f"{name} does not run after {most_s} s: {self.control.workload(WorkloadId(name))}")


def borrowed(grace_s: int, graces: GraceRules | None = None) -> Shared:
    cluster = Shared(graces)
    cluster.submit("borrower", gpus=8, project=BORROWER, grace_s=grace_s)
    cluster.run(3)
    assert cluster.phase("borrower") is WorkloadPhase.RUNNING
    return cluster


@pytest.mark.parametrize("grace_s", [HOUR_S, 315_360_000])
def test_the_owner_of_a_quota_has_it_back_within_the_eviction_grace_from_a_pod_that_does_not_listen(
    grace_s: int,
) -> None:
    cluster = borrowed(grace_s)
    cluster.submit("mine", gpus=8, project=OWNER)
    assert cluster.seconds_until_running("mine", HOUR_S) <= 60 + SLACK_S
    assert not cluster.engine.violations


def test_the_eviction_grace_is_the_administrators_choice() -> None:
    cluster = borrowed(HOUR_S, GraceRules(eviction_s=10))
    cluster.submit("mine", gpus=8, project=OWNER)
    assert cluster.seconds_until_running("mine", HOUR_S) <= 10 + SLACK_S


def test_the_owner_has_it_back_from_a_pod_whose_shim_is_stopped() -> None:
    cluster = borrowed(1)
    cluster.engine.stop_shim(PodId("borrower-0-0"), Instant(cluster.clock.now() + HOUR_S * SECOND_MS))
    cluster.submit("mine", gpus=8, project=OWNER)
    assert cluster.seconds_until_running("mine", HOUR_S) <= 1 + SLACK_S


def test_the_owner_has_it_back_from_a_pod_that_the_engine_has_lost_sight_of() -> None:
    cluster = borrowed(HOUR_S)
    cluster.engine.lose_record(PodId("borrower-0-0"), Instant(cluster.clock.now() + HOUR_S * SECOND_MS))
    cluster.submit("mine", gpus=8, project=OWNER)
    assert cluster.seconds_until_running("mine", HOUR_S) <= 60 + SLACK_S
    assert not cluster.engine.violations


def test_it_is_said_how_long_an_evicted_pod_has() -> None:
    cluster = borrowed(HOUR_S)
    cluster.submit("mine", gpus=8, project=OWNER)
    cluster.run(3)
    report = cluster.control.workload(WorkloadId("borrower"))
    assert report is not None
    assert report.detail.endswith("; it has at most 60 s to stop")
    (reported,) = [event.detail for event in cluster.control.events() if event.kind == "releasing"]
    assert reported == report.detail


@pytest.mark.parametrize("how", ["suspend", "delete"])
def test_one_that_leaves_in_its_own_time_has_less_of_it_once_its_gpus_are_owed(how: str) -> None:
    cluster = borrowed(HOUR_S)
    getattr(cluster.control, how)(WorkloadId("borrower"))
    cluster.run(150)
    assert cluster.alive() == ["borrower-0-0"], "its GPUs are not needed, and it has its grace period"
    cluster.submit("mine", gpus=8, project=OWNER)
    assert cluster.seconds_until_running("mine", HOUR_S) <= 60 + SLACK_S
    reported = [event.detail for event in cluster.control.events() if event.kind == "releasing"]
    assert [each.split("; ")[-1] for each in reported] == [
        "it has at most 3600 s to stop",
        "it has at most 60 s to stop",
    ]
    assert "its place is reserved for another project" in reported[-1]


def test_one_that_leaves_in_its_own_time_keeps_it_while_only_its_own_project_waits() -> None:
    cluster = borrowed(HOUR_S)
    cluster.control.suspend(WorkloadId("borrower"))
    cluster.submit("next", gpus=8, project=BORROWER)
    cluster.run(150)
    assert cluster.alive() == ["borrower-0-0"]


def test_a_loop_that_dies_does_not_begin_the_grace_anew() -> None:
    cluster = borrowed(HOUR_S)
    cluster.submit("mine", gpus=8, project=OWNER)
    for second in range(60 + SLACK_S):
        cluster.loop = cluster.new_loop() if second % 7 == 0 else cluster.loop
        cluster.run(1)
    assert "mine-0-0" in cluster.alive()


# --- by force ----------------------------------------------------------------------------------------------------


def test_a_forced_delete_ends_at_once() -> None:
    cluster = borrowed(HOUR_S)
    cluster.control.delete(WorkloadId("borrower"), force=True)
    cluster.run(2)
    assert cluster.alive() == []
    reported = [event.detail for event in cluster.control.events() if event.kind == "releasing"]
    assert reported == ["killed without notice"]


def test_a_forced_delete_ends_what_is_being_deleted_already_also_through_another_loop() -> None:
    cluster = borrowed(HOUR_S)
    cluster.control.delete(WorkloadId("borrower"))
    cluster.run(60)
    assert cluster.alive() == ["borrower-0-0"]
    cluster.control.delete(WorkloadId("borrower"), force=True)
    cluster.loop = cluster.new_loop()
    cluster.run(2)
    assert cluster.alive() == []
    cluster.run(10)
    assert cluster.control.spec(WorkloadId("borrower")) is None, "it is gone for good"


def test_a_grace_that_was_declared_before_there_was_a_bound_is_cut_when_it_is_used() -> None:
    cluster = borrowed(315_360_000)
    cluster.control.suspend(WorkloadId("borrower"))
    cluster.run(3)
    (record,) = cluster.loop.cache.pods[WorkloadId("borrower")]
    assert record.grace_s == HOUR_S


# --- nodes that are taken away -----------------------------------------------------------------------------------


def test_a_pod_on_a_removed_node_is_stopped_before_its_replacement_starts() -> None:
    cluster = Cluster(DEAF, n1="", n2="")
    cluster.submit("a", gpus=8, grace_s=30)
    cluster.run(3)
    (timeline,) = [each for each in map(cluster.engine.timeline, cluster.engine.alive()) if each is not None]
    cluster.engine.withdraw_node(timeline.order.node)
    cluster.run(20)
    assert cluster.alive() == ["a-0-0"], "it has its grace period, and no pod starts beside it"
    cluster.run(20)
    assert cluster.alive() == ["a-0-1"]
    assert not cluster.engine.violations
    ended = [event for event in cluster.control.events() if event.kind == "ended"]
    assert [(event.cause, event.outcome) for event in ended] == [("node-lost", "lost")]


def test_a_pod_that_is_found_again_on_a_node_that_is_not_offered_is_stopped() -> None:
    """The ledger was lost, and the engine started with other nodes: the pod is taken over only to be stopped."""
    cluster = Cluster(DEAF, n1="", n2="")
    cluster.submit("a", gpus=8, grace_s=30)
    cluster.run(3)
    (timeline,) = [each for each in map(cluster.engine.timeline, cluster.engine.alive()) if each is not None]
    cluster.engine.withdraw_node(timeline.order.node)
    cluster.ledger = type(cluster.ledger)(None)
    cluster.loop = cluster.new_loop()
    cluster.run(60)
    assert len(cluster.alive()) == 1
    assert cluster.alive() != ["a-0-0"]
    assert not cluster.engine.violations


def test_a_pod_that_is_not_seen_for_a_while_is_never_run_twice() -> None:
    cluster = Cluster(DEAF)
    cluster.submit("a", grace_s=30)
    cluster.run(3)
    cluster.engine.lose_record(PodId("a-0-0"), Instant(cluster.clock.now() + HOUR_S * SECOND_MS))
    cluster.run(2)
    (first, *_) = cluster.loop.cache.pods[WorkloadId("a")]
    assert (first.phase.value, first.cause) == ("releasing", "vanished")
    cluster.run(120)
    assert cluster.alive() == ["a-0-1"]
    assert not cluster.engine.violations


def test_a_node_that_is_offered_again_takes_new_work() -> None:
    cluster = Cluster(same_behaviour(Behaviour()))
    cluster.submit("a", gpus=8)
    cluster.run(3)
    cluster.engine.withdraw_node(NodeName("n1"))
    cluster.run(10)
    assert cluster.alive() == []
    cluster.engine.offer_node(NodeName("n1"))
    cluster.run(10)
    assert cluster.alive() == ["a-0-1"]


def test_one_that_is_over_and_runs_all_the_same_keeps_its_gpus_until_it_has_left() -> None:
    """An engine was deceived: it showed the exit of a pod whose process still runs."""
    cluster = Cluster(DEAF)
    cluster.submit("a", gpus=8, grace_s=30, restart=RestartPolicy.NEVER)
    cluster.run(3)
    honest = cluster.engine.observe

    def deceived(token: Token) -> Observation:
        seen, pod = honest(token), PodId("a-0-0")
        exited = replace(seen.pods[pod], state=PodState.EXITED, exit_code=0)
        return replace(seen, pods={pod: exited})

    cluster.engine.observe = deceived  # type: ignore[method-assign]
    cluster.wire.cut = True  # what was not reported is not forgotten
    cluster.loop.run_cycle()
    assert cluster.loop.cache.pods[WorkloadId("a")][0].is_over
    cluster.engine.observe = honest  # type: ignore[method-assign]
    cluster.wire.cut = False
    cluster.submit("b", gpus=8)
    cluster.run(20)
    assert cluster.alive() == ["a-0-0"], "it was told to stop, and has its grace"
    cluster.run(20)
    assert cluster.alive() == ["b-0-0"]
    assert not cluster.engine.violations

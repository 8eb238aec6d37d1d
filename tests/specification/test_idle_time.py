"""GPUs that are held and not used: what counts as idle, and when a workload is warned and stopped for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fairpool.cluster.expand import ExpandInput, expand
from fairpool.cluster.idle_time import (
    GAP_MS,
    PodIdleTimes,
    idle_limit_s,
    is_idle,
    notice_ms,
    warned_from_ms,
    warning_words,
)
from fairpool.cluster.idle_work import idle_work
from fairpool.cluster.ledger import LedgerContents
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.model.ids import NodeName, PodId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import Organization, ProjectRules
from fairpool.model.pod_record import Cause, PodRecord
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample, Sample
from fairpool.model.status import WorkloadPhase
from fairpool.model.workload import GpuRequest, PodShape, WorkloadKind
from tests.pod_records import at, record, spec, state

STEP_MS = 10_000
GPU = PodShape(gpu=GpuRequest(devices=1))
RULES = ProjectRules(interactive_idle_s=60, interactive_preemptible_idle_s=30, training_idle_s=1800)


def sample(*utilization: float | None, device: float | None = None, is_simulated: bool = False) -> Sample:
    """One pod with so many GPUs."""
    uses = tuple(DeviceUse(index=index, utilization=each) for index, each in enumerate(utilization))
    devices = tuple(DeviceSample(index=index, utilization=device) for index in range(len(utilization)))
    pods = (PodSample(pod=PodId("a-0-0"), devices=uses),)
    node = NodeSample(node=NodeName("n1"), devices=devices, pods=pods, is_simulated=is_simulated)
    return Sample(at=at(0), nodes=(node,))


def measured(*samples: Sample, step_ms: int = STEP_MS) -> PodIdleTimes:
    idle = PodIdleTimes()
    for number, each in enumerate(samples):
        idle = idle.after(each, 1_000_000 + number * step_ms)
    return idle


def running(name: str = "a-0-0") -> PodRecord:
    return replace(record(name), shape=GPU, phase=PodPhase.RUNNING)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (sample(0.0), True),
        (sample(0.1), False),  # it has computed
        (sample(0.1, is_simulated=True), True),  # as a program does that sleeps
        (sample(1.0), False),
        (sample(0.0, 3.0), False),
        (sample(None), False),
        (sample(None, device=0.0), True),  # shared with others, none of which uses it
        (sample(None, device=7.0), False),
        (sample(0.0, device=90.0), True),  # used by others
        (sample(), False),
    ],
)
def test_what_a_sample_shows(found: Sample, expected: bool) -> None:
    (node,) = found.nodes
    assert is_idle(node.pods[0], node) is expected


def test_idle_time_goes_on_from_sample_to_sample_and_begins_anew_after_use_and_after_a_gap() -> None:
    pods = [running()]
    assert measured(*[sample(0.0)] * 7).idle_ms(pods) == 6 * STEP_MS
    assert measured(*[sample(0.0)] * 7, sample(40.0), sample(0.0)).idle_ms(pods) == 0
    assert measured(*[sample(0.0)] * 7, sample(None), sample(0.0)).idle_ms(pods) == 0
    assert measured(*[sample(0.0)] * 7, Sample(at=at(0)), sample(0.0)).idle_ms(pods) == 0
    assert measured(*[sample(0.0)] * 7, step_ms=GAP_MS + 1).idle_ms(pods) == 0


def test_a_workload_is_idle_if_all_pods_that_hold_gpus_run_and_are_idle() -> None:
    idle = PodIdleTimes(100_000, {PodId("a-0-0"): 10_000, PodId("a-1-0"): 40_000})
    pods = [running(), running("a-1-0")]
    assert idle.idle_ms(pods) == 60_000
    assert idle.idle_ms([*pods, running("a-2-0")]) == 0, "nothing is known of one"
    starting = replace(record("a-2-0"), shape=GPU, phase=PodPhase.BOUND)
    assert idle.idle_ms([*pods, starting]) == 0
    without = replace(record("a-2-0"), shape=PodShape(), phase=PodPhase.RUNNING)
    assert idle.idle_ms([*pods, without]) == 60_000, "it has no GPU"
    assert idle.idle_ms([without]) == 0


def test_each_kind_of_work_has_its_own_limit() -> None:
    build = spec(WorkloadKind.BUILD)
    assert idle_limit_s(build, RULES) == 60
    assert idle_limit_s(replace(build, preemptible=True), RULES) == 30
    assert idle_limit_s(spec(), RULES) == 1800
    assert idle_limit_s(spec(WorkloadKind.INFERENCE), RULES) is None
    assert idle_limit_s(spec(), ProjectRules()) is None
    assert [warned_from_ms(each) for each in (1800, 60, 86_400, 20)] == [1_350_000, 45_000, 85_500_000, 5000]
    assert warning_words(1800, 1_350_000) == (
        "its GPUs have been idle for 22m30s; it is stopped in 7m30s unless it uses them"
    )
    assert "idle for 2h; it is stopped in 7m30s" in warning_words(1800, 7_200_000), "the limit was set just now"


def test_at_the_limit_and_not_before_it_is_stopped_and_can_be_resumed() -> None:
    given = ExpandInput(spec=spec(), state=state(), pods=(running(),), rules=RULES)
    assert expand(replace(given, idle_ms=1_799_999), at(9)).state.halt is None
    stopped = expand(replace(given, idle_ms=1_800_000), at(9))
    assert stopped.state.halt is not None
    assert (stopped.state.halt.phase, stopped.state.halt.cause) == (WorkloadPhase.STOPPED, Cause.IDLE_LIMIT)
    assert "idle for 30m, the limit for training jobs in project" in stopped.state.halt.detail
    assert stopped.pods[0].phase is PodPhase.RELEASING
    again = expand(replace(given, spec=replace(spec(), run=1), state=stopped.state, pods=stopped.pods), at(10))
    assert again.state.halt is None


def test_none_is_stopped_before_it_was_warned_whenever_the_limit_was_set() -> None:
    workload = spec()
    organization = Organization(rules={workload.project: RULES})
    pods = (replace(running(), workload=workload.id),)
    cache = LedgerCache(LedgerContents(specs=(workload,), states=(state(),), pods=pods, organization=organization))
    notice, since = notice_ms(1800), {PodId("a-0-0"): 0}

    def found(at_ms: int, warned: dict[WorkloadId, int]) -> tuple[bool, bool]:
        work = idle_work(cache, PodIdleTimes(at_ms, since), warned)
        return workload.id in work.over, workload.id in work.unwarned

    assert found(1_349_999, {}) == (False, False)
    assert found(1_350_000, {}) == (False, True)
    assert found(7_200_000, {}) == (False, True), "the limit was set just now"
    assert found(7_200_000 + notice - STEP_MS - 1, {workload.id: 7_200_000}) == (False, False)
    assert found(7_200_000 + notice, {workload.id: 7_200_000}) == (True, False)
    assert found(1_800_000, {workload.id: 1_350_000}) == (True, False)

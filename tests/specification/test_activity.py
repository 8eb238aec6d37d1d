"""When workloads were last seen to compute: what is not known is not idle."""

from __future__ import annotations

from fairpool.control.activity import GAP_S, Activity
from fairpool.metrics.totals import PodHolding
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample, Sample
from fairpool.model.workload import WorkloadKind

START_S = 1_800_000_000
POD, NODE = PodId("a-0-0"), NodeName("n1")
HOLDING = PodHolding(pod=POD, workload="a", project="p", department="d", kind=WorkloadKind.TRAIN, node=NODE)


def sample(at_s: int, part: float | None, device: float | None) -> Sample:
    uses = (DeviceUse(index=0, utilization=part),)
    devices = (DeviceSample(index=0, utilization=device),)
    node = NodeSample(node=NODE, devices=devices, pods=(PodSample(pod=POD, devices=uses),))
    return Sample(at=Instant(at_s * SECOND_MS), nodes=(node,))


def idle_since(*samples: tuple[int, float | None, float | None]) -> float | None:
    """Of the workload, after samples at so many seconds: of its part of the GPU, and of the whole GPU."""
    found = Activity()
    for after_s, part, device in samples:
        found.note("c", sample(START_S + after_s, part, device), [HOLDING])
    since = found.of("c", START_S + samples[-1][0]).idle_since.get("a")
    return None if since is None else since - START_S


def test_idle_time_begins_with_the_first_sample_without_use_and_anew_after_a_gap() -> None:
    assert idle_since((0, 0.0, 0.0), (10, 0.0, 0.0)) == 0
    assert idle_since((0, 0.0, 0.0), (10, 40.0, 40.0)) is None
    assert idle_since((0, 0.0, 0.0), (10, 40.0, 40.0), (20, 0.0, 0.0)) == 20
    late = int(GAP_S) + 1
    assert idle_since((0, 0.0, 0.0), (late, 0.0, 0.0)) == late


def test_a_part_that_was_not_measured_is_idle_only_with_its_gpu() -> None:
    assert idle_since((0, None, 0.0)) == 0
    assert idle_since((0, None, 100.0)) is None
    assert idle_since((0, None, None)) is None
    assert idle_since((0, 0.0, 100.0)) == 0, "others use the rest"

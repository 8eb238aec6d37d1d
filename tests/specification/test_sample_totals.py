"""Samples of devices and pods are added up to workloads, projects, departments, node pools and the cluster."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fairpool.control.sample_intake import LATE_S
from fairpool.metrics.catalogue import DeviceColumn, NodeColumn, PlaceColumn, QueueColumn, SampleColumn, WorkColumn
from fairpool.metrics.idle_time import IdleTimes
from fairpool.metrics.resolution import FINE, MINUTES
from fairpool.metrics.totals import ClusterFacts, NodeFacts, PodHolding, QueueFacts, Waiting, group_samples
from fairpool.model.ids import Instant, NodeName, PodId
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample, Sample
from fairpool.model.workload import WorkloadKind

GIB = 1 << 30


def node(name: str, pool: str = "a", **more: Any) -> NodeFacts:
    facts = {"gpus": 2, "gpu_memory_mib": 8 * 1024, "cpu_milli": 10_000, "memory_bytes": 100 * GIB}
    return NodeFacts(name=NodeName(name), pool=pool, **(facts | more))


def held(workload: str, on: str, gpus_milli: int, *devices: int, kind: WorkloadKind = WorkloadKind.TRAIN) -> PodHolding:
    return PodHolding(
        pod=PodId(f"{workload}@{on}"),
        workload=workload,
        project="team",
        department="science",
        kind=kind,
        node=NodeName(on),
        devices=devices,
        gpus_milli=gpus_milli,
        cpu_milli=2000,
        memory_bytes=GIB,
    )


def use(workload: str, on: str, *utilization: float | None) -> PodSample:
    devices = tuple(DeviceUse(index=at, utilization=each) for at, each in enumerate(utilization))
    return PodSample(pod=PodId(f"{workload}@{on}"), devices=devices)


class Totals:
    """Everything that follows from a sample."""

    def __init__(self, *measured: NodeSample, **facts: Any) -> None:
        sample = Sample(at=Instant(0), nodes=measured)
        self.found = {
            (each.group.removeprefix("c/"), subject): row
            for each in group_samples(sample, ClusterFacts(cluster="c", **facts))
            for subject, row in zip(each.subjects, each.values, strict=True)
        }

    def __call__(self, group: str, subject: str, column: SampleColumn) -> float | None:
        value = float(self.found[group, subject][column - 1])
        return None if math.isnan(value) else value

    def organization(self, subject: str, column: SampleColumn) -> float | None:
        group = next(group for group, name in self.found if name == subject and group.startswith("organization"))
        return self(group, subject, column)


def test_utilization_of_a_project_is_weighted_with_what_its_pods_hold() -> None:
    there = NodeSample(
        node=NodeName("n1"),
        devices=(DeviceSample(index=0, utilization=100.0), DeviceSample(index=1, utilization=20.0)),
        pods=(use("whole", "n1", 100.0), use("half", "n1", 20.0)),
    )
    holdings = [held("whole", "n1", 1000, 0), held("half", "n1", 500, 1, kind=WorkloadKind.BUILD)]
    totals = Totals(there, nodes=[node("n1")], holdings=holdings)
    assert totals.organization("project/team", QueueColumn.GPU_UTILIZATION) == pytest.approx((100 + 10) / 1.5)
    assert totals.organization("department/science/a", QueueColumn.GPU_UTILIZATION_BUILD) == pytest.approx(20)
    assert totals.organization("cluster", PlaceColumn.GPU_UTILIZATION) == pytest.approx(60), "of all its GPUs"
    assert totals("node/n1", "gpu/1", DeviceColumn.ALLOCATED) == 0.5
    assert [totals.organization("pool/a", band) for band in (PlaceColumn.BAND_0_25, PlaceColumn.BAND_75_100)] == [1, 1]


@pytest.mark.parametrize(
    ("gpus_milli", "utilization", "measured", "used"),
    [
        pytest.param(2000, (100.0, 50.0), 2.0, 1.5, id="whole GPUs"),
        pytest.param(500, (50.0,), 0.5, 0.5, id="half a GPU that computes for half of the time is used up"),
        pytest.param(500, (90.0,), 0.5, 0.5, id="no more is used than is held"),
        pytest.param(2000, (80.0, None), 1.0, 0.8, id="a device that was not measured is neither used nor idle"),
        pytest.param(1000, (), 0.0, 0.0, id="nothing was measured"),
    ],
)
def test_gpus_that_are_used_are_a_part_of_those_that_are_held(
    gpus_milli: int, utilization: tuple[float | None, ...], measured: float, used: float
) -> None:
    there = NodeSample(node=NodeName("n1"), pods=(use("w", "n1", *utilization),))
    totals = Totals(there, nodes=[node("n1")], holdings=[held("w", "n1", gpus_milli, *range(len(utilization)))])
    (group,) = {group for group, name in totals.found if name == "w"}
    assert totals(group, "w", WorkColumn.GPUS_MEASURED) == pytest.approx(measured)
    assert totals(group, "w", WorkColumn.GPUS_USED) == pytest.approx(used)


def test_what_was_not_measured_is_no_zero() -> None:
    silent = NodeSample(node=NodeName("n2"), devices=(DeviceSample(index=0), DeviceSample(index=1, utilization=40.0)))
    totals = Totals(silent, nodes=[node("n1"), node("n2")], holdings=[held("w", "n1", 1000, 0)])
    assert totals("node/n1", "node", NodeColumn.CPU_CORES) is None
    assert totals("node/n1", "node", NodeColumn.GPUS_ALLOCATED) == 1, "what is held is known without a sample"
    assert totals("node/n2", "node", NodeColumn.GPU_UTILIZATION) == 40
    assert totals("node/n2", "gpu/0", DeviceColumn.UTILIZATION) is None
    assert totals.organization("project/team", QueueColumn.GPU_UTILIZATION) is None
    assert totals.organization("cluster", PlaceColumn.CPU_UTILIZATION) is None


def test_a_workload_counts_once_in_all_and_once_in_each_node_pool() -> None:
    holdings = [held("w", "n1", 1000, 0), held("w", "n2", 1000, 0), held("v", "n2", 1000, 1)]
    waiting = [Waiting(project="team", department="science", pool="b", gpus_milli=3000, since_s=90.0)]
    totals = Totals(nodes=[node("n1"), node("n2", "b")], holdings=holdings, waiting=waiting)
    running = [totals.organization(each, PlaceColumn.RUNNING) for each in ("cluster", "pool/a", "pool/b")]
    assert running == [2, 1, 2]
    assert [totals.organization(f"project/team{each}", QueueColumn.RUNNING) for each in ("", "/a", "/b")] == [2, 1, 2]
    assert totals.organization("pool/b", PlaceColumn.PENDING_GPUS) == 3
    assert totals.organization("pool/a", PlaceColumn.PENDING) == 0
    assert totals.organization("cluster", PlaceColumn.WAIT_S) == 90
    group = next(group for group, subject in totals.found if subject == "w")
    assert totals(group, "w", WorkColumn.PODS) == 2
    assert totals(group, "w", WorkColumn.GPU_MEMORY_BYTES_ALLOCATED) == 16 * GIB


def test_quotas_are_added_up_and_one_that_is_unlimited_makes_the_sum_so() -> None:
    queues = [
        QueueFacts(pool="a", project="team", department="science", gpu_quota_milli=2000, cpu_quota_milli=4000),
        QueueFacts(pool="b", project="team", department="science", gpu_quota_milli=1500, fair_share_milli=3000),
        QueueFacts(pool="a", department="science", gpu_quota_milli=9000),
    ]
    totals = Totals(nodes=[node("n1")], queues=queues)
    assert totals.organization("project/team", QueueColumn.GPU_QUOTA) == 3.5
    assert totals.organization("project/team", QueueColumn.CPU_CORES_QUOTA) is None
    assert totals.organization("project/team/a", QueueColumn.CPU_CORES_QUOTA) == 4
    assert totals.organization("project/team/b", QueueColumn.GPU_FAIR_SHARE) == 3
    assert totals.organization("project/team/a", QueueColumn.GPU_FAIR_SHARE) is None, "not reported yet"
    assert totals.organization("department/science", QueueColumn.GPU_QUOTA) == 9
    assert totals.organization("cluster", PlaceColumn.GPU_QUOTA) == 3.5, "of its projects, not of departments beside"
    assert totals.organization("project/team", QueueColumn.GPUS_ALLOCATED) == 0


def test_who_lends_and_borrows_is_the_rule_of_shares() -> None:
    """4 GPUs, quotas 3 and 1, nothing unassigned: b holds 2 of a's quota; its department lends nothing to itself."""
    queues = [
        QueueFacts(pool="a", project="a", department="d", gpu_quota_milli=3000, gpu_limit_milli=4000),
        QueueFacts(pool="a", project="b", department="d", gpu_quota_milli=1000),
    ]
    holdings = [held("wa", "n1", 1000, 0), held("wb", "n2", 3000, 0, 1)]
    owned = [replace(each, project=name, department="d") for each, name in zip(holdings, "ab", strict=True)]
    totals = Totals(nodes=[node("n1"), node("n2")], queues=queues, holdings=owned)

    def of(subject: str) -> list[float | None]:
        columns = (QueueColumn.GPUS_OVER_QUOTA, QueueColumn.GPUS_LENT, QueueColumn.GPUS_FROM_UNASSIGNED)
        return [totals.organization(subject, each) for each in columns]

    assert of("project/a") == of("project/a/a") == [0, 2, 0]
    assert of("project/b") == [2, 0, 0]
    assert of("department/d") == [0, 0, 0]
    assert totals.organization("project/a", QueueColumn.GPU_LIMIT) == 4
    assert totals.organization("project/b", QueueColumn.GPU_LIMIT) is None
    assert totals.organization("cluster", PlaceColumn.GPUS_OVER_QUOTA) == 2
    free = (PlaceColumn.FREE_GPUS, PlaceColumn.LARGEST_FREE_GPUS, PlaceColumn.READY_GPUS)
    assert [totals.organization("cluster", each) for each in free] == [1, 1, 4]


def idle_time(*utilization: float | None, gap: int = 0) -> float:
    """Of a device after these samples; `gap`: samples that are missing before the last one."""
    times, idle = IdleTimes(), math.nan
    for number, each in enumerate(utilization):
        values = np.full((1, len(DeviceColumn)), np.nan, np.float32)
        values[0, DeviceColumn.UTILIZATION - 1] = math.nan if each is None else each
        late = gap if number == len(utilization) - 1 else 0
        times.add("c/node/n1", ["gpu/0"], values, 1_000_000 + (number + late) * FINE.step_s)
        idle = float(values[0, DeviceColumn.IDLE_S - 1])
    return idle


@pytest.mark.parametrize(
    ("utilization", "gap", "idle_s"),
    [
        pytest.param([0.0] * 31, 0, 310, id="each sample is of ten seconds"),
        pytest.param([0.0] * 36 + [1.0], 0, 0, id="used now"),
        pytest.param([1.0] + [0.0] * 32, 0, 320, id="used before"),
        pytest.param([0.0] * 20 + [None] + [0.0] * 15, 0, 150, id="not measured is not idle"),
        pytest.param([0.0] * 20 + [None], 0, None, id="not measured now"),
        pytest.param([0.0] * 20, 1, 210, id="one sample came too late"),
        pytest.param([0.0] * 20, 2, 10, id="two samples are missing"),
    ],
)
def test_how_long_a_device_has_done_nothing(utilization: list[float | None], gap: int, idle_s: int | None) -> None:
    found = idle_time(*utilization, gap=gap)
    assert math.isnan(found) if idle_s is None else found == idle_s


def test_late_samples_find_what_their_blocks_are_made_of() -> None:
    assert LATE_S + MINUTES.block_s <= FINE.kept_s

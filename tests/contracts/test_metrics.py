"""Metrics and telemetry: what was measured is what is answered, to those who may see it."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from fairpool.api.clusters import NodeReport, PodReport
from fairpool.api.devices import DevicePage
from fairpool.api.nodes import NodePage
from fairpool.api.overview import OverviewFigures
from fairpool.api.samples import DeviceSampleWire, DeviceUseWire, NodeSampleWire, PodSampleWire, SamplesReport
from fairpool.api.workloads import WorkloadPage
from fairpool.control import metric_types
from fairpool.control.moments import instant, iso
from fairpool.control.sample_intake import sampled
from fairpool.control.sample_store import SampleStore
from fairpool.control.store.unavailable import FAILING, Unavailable
from fairpool.model.ids import Instant, NodeName, PodId, PoolName
from fairpool.model.lifecycle import PodPhase
from tests.control.control_plane import START, ControlPlane, codes, control_plane, expect, gone

pytestmark = pytest.mark.slow

GIB = 1 << 30
SAMPLES = 60
PATIENCE_S = 60.0
FIRST = 5_000
"""Of a clock that begins within a slot: the slot of a sample is the one that it was taken in."""


def machine(name: str, pool: str) -> NodeReport:
    return NodeReport(
        name=NodeName(name),
        pool=PoolName(pool),
        gpus=4,
        gpu_memory_mib=16 * 1024,
        cpu_milli=32_000,
        memory_bytes=128 * GIB,
    )


@dataclass
class World:
    """A cluster of two nodes with two workloads, and what its nodes measured every 10 s for ten minutes."""

    control: ControlPlane
    one: str
    other: str
    waiting: str

    def sample(self, number: int, at: Instant) -> SamplesReport:
        """The first device of n1 is used more and more, the second not at all; n2 falls silent in the middle."""
        mine = PodSampleWire(
            pod=PodId(f"{self.one}-0-0"),
            cpu_cores=2.0,
            memory_bytes=GIB,
            progress_percent=float(number),
            devices=(
                DeviceUseWire(index=0, utilization=float(number), memory_bytes=4 * GIB),
                DeviceUseWire(index=1, utilization=0.0),
            ),
        )
        first = NodeSampleWire(
            node=NodeName("n1"),
            cpu_cores=8.0,
            memory_bytes=32 * GIB,
            devices=(
                DeviceSampleWire(index=0, utilization=float(number), memory_bytes=4 * GIB),
                *(DeviceSampleWire(index=index, utilization=0.0, memory_bytes=0) for index in (1, 2, 3)),
            ),
            pods=(mine,),
        )
        second = NodeSampleWire(node=NodeName("n2"), devices=(DeviceSampleWire(index=0, utilization=80.0),))
        return SamplesReport(at=at, nodes=(first, second) if number < SAMPLES // 2 else (first,))

    def get(self, path: str, *, by: str = "admin", status: int = 200, **query: Any) -> Any:
        return expect(self.control.call("GET", path, by=by, params=query), status)

    def metrics(self, path: str, *types: str, by: str = "admin", status: int = 200, **query: Any) -> Any:
        """Of the ten minutes."""
        asked = {"metricType": types, "start": iso(START), "end": iso(START + SAMPLES * 10_000), **query}
        return self.get(path, by=by, status=status, **asked)

    def series(self, path: str, kind: str, **query: Any) -> Any:
        """Seconds since the start, and value."""
        (found,) = self.metrics(path, kind, **query)["measurements"]
        return points(found)

    def telemetry(self, path: str, kind: str, **query: Any) -> Any:
        found = self.get(f"{path}/telemetry", telemetryType=kind, **query)
        assert found["type"] == kind
        values = {
            tuple(group["value"] for group in each.get("groups", ())): float(each["value"]) for each in found["values"]
        }
        return values.get((), values) if not query.get("groupBy") else values


def points(measurement: Any) -> list[tuple[int, float]]:
    return [
        ((instant(each["timestamp"]) or 0) // 1000 - START // 1000, float(each["value"]))
        for each in measurement["values"]
    ]


def kept(store: SampleStore, number: int) -> None:
    end = time.monotonic() + PATIENCE_S
    while store.written < number:
        assert time.monotonic() < end, store.problem
        time.sleep(0.01)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with control_plane() as control:
        expect(control.call("POST", "/api/v1/node-pools", {"name": "fast", "labelKey": "k", "labelValue": "fast"}), 201)
        control.project("team-a", 2)
        pools = [
            {
                "nodePool": {"name": "fast"},
                "gpu": {"deserved": 1},
                "cpu": {"deserved": 4000},
                "memory": {"deserved": 8000},
            }
        ]
        expect(control.call("POST", "/api/v1/org-unit/projects", {"name": "team-b", "resources": pools}), 201)
        control.researcher("ann", "team-a")
        control.push(control.report(whole=True, nodes=(machine("n1", "default"), machine("n2", "fast"))))
        world = World(
            control,
            *(
                control.train(name, project)["id"]
                for name, project in (("t1", "team-a"), ("t2", "team-b"), ("t3", "team-a"))
            ),
        )
        held = [(world.one, "n1", (0, 1), 2000), (world.other, "n2", (0,), 500)]
        control.push(control.report(workloads=tuple(_runs(control, *each) for each in held)))
        plane = control.app.state.plane
        assert control.http.portal is not None
        control.clock.turn(FIRST / 1000)
        for number in range(SAMPLES):
            answer = control.http.portal.call(sampled, plane, control.cluster, world.sample(number, control.clock.now))
            assert answer.is_kept
            if number % 20 == 19:  # fewer than the queue takes
                kept(plane.samples, number + 1)
            control.clock.turn(10)
        yield world


def _runs(control: ControlPlane, workload: str, node: str, devices: tuple[int, ...], gpus_milli: int) -> Any:
    report = control.runs(workload, node=node, gpus_milli=gpus_milli)
    pod = PodReport(
        id=PodId(f"{workload}-0-0"),
        index=0,
        incarnation=0,
        phase=PodPhase.RUNNING,
        node=NodeName(node),
        devices=devices,
        gpus_milli=gpus_milli,
        cpu_milli=3000,
        memory_bytes=6 * GIB,
    )
    return report.model_copy(update={"pods": (pod,)})


CLUSTER = "/api/v1/clusters/{}/metrics"


def test_a_series_is_the_average_of_what_was_measured_and_a_gap_is_no_point(world: World) -> None:
    node = "/api/v1/nodes/n1/metrics"
    assert world.series(node, "GPU_UTILIZATION", numberOfSamples=60) == [
        (10 * number, pytest.approx(number / 4, abs=0.01)) for number in range(SAMPLES)
    ]
    assert world.series(node, "GPU_UTILIZATION") == [
        (30 * number, pytest.approx((3 * number + 1) / 4, abs=0.01)) for number in range(20)
    ]
    silent = world.series("/api/v1/nodes/n2/metrics", "GPU_UTILIZATION")
    assert silent == [(30 * number, pytest.approx(80)) for number in range(10)]
    assert world.series("/api/v1/nodes/n2/metrics", "CPU_USAGE_CORES") == []
    answer = world.metrics(node, "CPU_USAGE_CORES", "CPU_UTILIZATION")
    assert answer["timestamp"] == iso(world.control.clock.now)
    assert answer["pointSeconds"] == 30
    assert [points(each)[0][1] for each in answer["measurements"]] == [8, 25]


def test_devices_of_a_node_have_series_of_their_own(world: World) -> None:
    names = ("GPU_UTILIZATION_PER_GPU", "GPU_ALLOCATION_PER_GPU", "GPU_MEMORY_UTILIZATION_PER_GPU")
    found = world.metrics("/api/v1/nodes/n1/metrics", *names, numberOfSamples=1)["measurements"]
    values = {(each["type"], each["labels"]["gpu"]): points(each)[0][1] for each in found}
    assert [values["GPU_UTILIZATION_PER_GPU", str(gpu)] for gpu in range(4)] == [pytest.approx(29.5), 0, 0, 0]
    assert [values["GPU_ALLOCATION_PER_GPU", str(gpu)] for gpu in range(4)] == [1, 1, 0, 0]
    assert [values["GPU_MEMORY_UTILIZATION_PER_GPU", str(gpu)] for gpu in range(4)] == [25, 0, 0, 0]
    idle = world.metrics("/api/v1/nodes/n1/metrics", "GPU_IDLE_TIME_SECONDS_PER_GPU", numberOfSamples=60)
    first, second, *_ = map(points, idle["measurements"])
    assert first[:2] == [(0, 10), (10, 0)], "at 0 % in the first sample, then in use"
    assert second == [(10 * number, 10 * (number + 1)) for number in range(SAMPLES)]


def test_clusters_and_node_pools_add_up_their_nodes(world: World) -> None:
    path = CLUSTER.format(world.control.cluster)
    names = ("TOTAL_GPU_NODES", "TOTAL_GPU", "ALLOCATED_GPU", "UNALLOCATED_GPU", "WORKLOADS_COUNT", "GPU_QUOTA")
    found = {each["type"]: points(each) for each in world.metrics(path, *names, numberOfSamples=1)["measurements"]}
    assert {name: values[0][1] for name, values in found.items()} == {
        "TOTAL_GPU_NODES": 2,
        "TOTAL_GPU": 8,
        "ALLOCATED_GPU": 2.5,
        "UNALLOCATED_GPU": 5.5,
        "WORKLOADS_COUNT": 3,
        "GPU_QUOTA": 3,
    }
    first = f"/api/v1/clusters/{world.control.cluster}/nodepools/fast/metrics"
    assert world.series(first, "TOTAL_GPU", numberOfSamples=1) == [(0, 4)]
    assert world.series(path, "GPU_UTILIZATION", nodepoolName="fast", numberOfSamples=1) == [(0, 80)]
    bands = world.metrics(path, "GPU_UTILIZATION_DISTRIBUTION", nodepoolName="default", numberOfSamples=60)[
        "measurements"
    ]
    assert [each["labels"] for each in bands] == [{"utilization": band} for band in metric_types.BANDS]
    at = [[points(each)[number][1] for each in bands] for number in (0, 30, 59)]
    assert at == [[4, 0, 0, 0], [3, 1, 0, 0], [3, 0, 1, 0]]


def test_a_cluster_is_grouped_by_what_the_caller_may_see(world: World) -> None:
    path = CLUSTER.format(world.control.cluster)

    def grouped(kind: str, by: str = "admin", **query: Any) -> dict[str, float]:
        found = world.metrics(path, kind, by=by, numberOfSamples=1, **query)["measurements"]
        return {each["groups"][0]["value"]: points(each)[0][1] for each in found if each["values"]}

    assert grouped("ALLOCATED_GPU", groupBy="Nodepool") == {"default": 2, "fast": 0.5}
    assert grouped("ALLOCATED_GPU", groupBy="node pool", nodepoolName="fast") == {"fast": 0.5}
    everything = grouped("ALLOCATED_GPU", groupBy="Project")
    assert {"team-a": 2, "team-b": 0.5}.items() <= everything.items()
    assert grouped("ALLOCATED_GPU", by="ann", groupBy="Project") == {"team-a": 2}
    assert grouped("ALLOCATED_GPU", groupBy="Department")["default"] == 2.5
    assert grouped("GPU_UTILIZATION", groupBy="Category") == {"Train": pytest.approx(29.5 / 2, abs=0.01)}
    answer = world.control.call(
        "GET",
        path,
        params={"metricType": "TOTAL_GPU", "start": iso(START), "end": iso(START + 1000), "groupBy": "Project"},
    )
    assert (answer.status_code, codes(answer)) == (422, ["metric.not_grouped"])


def test_projects_and_departments_have_quota_and_allocation(world: World) -> None:
    names = tuple(metric_types.OWNER)
    path = "/api/v1/org-unit/projects/team-b/metrics"
    found = {each["type"]: points(each) for each in world.metrics(path, *names, numberOfSamples=1)["measurements"]}
    assert {name: value[0][1] for name, value in found.items() if value} == {
        "GPU_QUOTA": 1,
        "CPU_QUOTA_MILLICORES": 4000,
        "CPU_MEMORY_QUOTA_MB": pytest.approx(8000 * 1.048576, rel=1e-3),
        "GPU_ALLOCATION": 0.5,
        "CPU_ALLOCATION_MILLICORES": 3000,
        "CPU_MEMORY_ALLOCATION_MB": pytest.approx(6 * GIB / 1e6, rel=1e-3),
        "GPU_ALLOCATION_IN_QUOTA": 0.5,
        "RUNNING_WORKLOADS_COUNT": 1,
        **dict.fromkeys(("GPU_ALLOCATION_OVER_QUOTA", "GPU_LENT", "GPU_BORROWED", "GPU_FROM_UNASSIGNED"), 0),
        **dict.fromkeys(("GPU_PENDING", "PENDING_WORKLOADS_COUNT"), 0),
    }
    assert world.series(path, "GPU_ALLOCATION", nodepoolName="default") == [], "it has nothing there"
    above = "/api/v1/org-unit/departments/default/metrics"
    assert world.series(above, "GPU_ALLOCATION", numberOfSamples=1) == [(0, 2.5)]
    mine = "/api/v1/org-unit/projects/team-a/metrics"
    assert world.series(mine, "GPU_MEMORY_UTILIZATION", numberOfSamples=1) == [(0, 12.5)]
    assert world.series(mine, "CPU_QUOTA_MILLICORES") == [], "unlimited is no number"


def test_workloads_and_pods_have_series(world: World) -> None:
    path = f"/api/v1/workloads/{world.one}"
    names = tuple(metric_types.WORKLOAD)
    found = {
        each["type"]: points(each)
        for each in world.metrics(f"{path}/metrics", *names, numberOfSamples=1)["measurements"]
    }
    assert {name: value[0][1] for name, value in found.items() if value} == {
        "GPU_UTILIZATION": pytest.approx(29.5 / 2, abs=0.01),
        "GPU_MEMORY_USAGE_BYTES": 4 * GIB,
        "GPU_MEMORY_REQUEST_BYTES": 32 * GIB,
        "GPU_ALLOCATION": 2,
        "CPU_USAGE_CORES": 2,
        "CPU_REQUEST_CORES": 3,
        "CPU_MEMORY_USAGE_BYTES": GIB,
        "CPU_MEMORY_REQUEST_BYTES": 6 * GIB,
        "POD_COUNT": 1,
        "RUNNING_POD_COUNT": 1,
        "PROGRESS_PERCENT": pytest.approx(29.5),
    }
    pod = f"{path}/pods/{world.one}-0-0/metrics"
    found = world.metrics(pod, "GPU_UTILIZATION_PER_GPU", "CPU_USAGE_CORES", numberOfSamples=1)["measurements"]
    assert [(each.get("labels"), points(each)) for each in found] == [
        ({"gpu": "0"}, [(0, pytest.approx(29.5))]),
        ({"gpu": "1"}, [(0, 0)]),
        (None, [(0, 2)]),
    ]
    assert world.metrics(f"{path}/pods/nothing/metrics", "CPU_USAGE_CORES", status=404)


def test_what_another_project_measures_is_not_shown(world: World) -> None:
    assert world.metrics(f"/api/v1/workloads/{world.one}/metrics", "POD_COUNT", by="ann")
    hidden = (
        f"/api/v1/workloads/{world.other}/metrics",
        f"/api/v1/workloads/{world.other}/pods/{world.other}-0-0/metrics",
        "/api/v1/org-unit/projects/team-b/metrics",
    )
    for path in hidden:
        assert world.metrics(path, "GPU_UTILIZATION" if "workloads" in path else "GPU_QUOTA", by="ann", status=404)
    workloads, projects = "/api/v1/workloads", "/api/v1/org-unit/projects"
    assert world.telemetry(workloads, "WORKLOADS_COUNT", groupBy="ProjectId", by="ann") == {("team-a",): 2}
    assert world.telemetry(projects, "GPU_ALLOCATION", groupBy="ProjectId", by="ann") == {("team-a",): 2}
    older = f"/v1/k8s/clusters/{world.control.cluster}"
    assert [each["metadata"]["projectName"] for each in world.get(f"{older}/projects/metrics", by="ann")["data"]] == [
        "team-a"
    ]
    below = world.get(f"{older}/metrics", by="ann")["current"]["projectResources"]
    assert {each["projectName"] for each in below} == {"team-a"}


def test_what_is_not_measured_is_refused_by_name(world: World) -> None:
    query = {"metricType": "GPU_SM_ACTIVITY_PER_GPU,NONSENSE", "start": iso(START), "end": iso(START + 1000)}
    answer = world.control.call("GET", "/api/v1/nodes/n1/metrics", params=query)
    assert (answer.status_code, codes(answer)) == (422, ["metric.not_measured", "metric.unknown"])
    assert "GPU_UTILIZATION_PER_GPU" in answer.json()["problems"][0]["fix"]
    for wrong, code in (
        ({"end": iso(START)}, "metric.range"),
        ({"end": "tomorrow"}, "request.not_a_date"),
        ({"numberOfSamples": 0}, "request.wrong_value"),
        ({"numberOfSamples": 1001}, "request.wrong_value"),
    ):
        asked = {"metricType": "CPU_UTILIZATION", "start": iso(START), "end": iso(START + 1000), **wrong}
        assert codes(world.control.call("GET", "/api/v1/nodes/n1/metrics", params=asked)) == [code]


def test_more_points_than_an_answer_can_have_are_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fairpool.control.metric_query.POINTS_MAX", 11)
    asked = {"metricType": "CPU_USAGE_CORES", "start": iso(START), "end": iso(START + 120_000)}
    path = "/api/v1/nodes/n1/metrics"
    expect(world.control.call("GET", path, params={**asked, "numberOfSamples": 6}), 200)
    refusal = world.control.call("GET", path, params={**asked, "numberOfSamples": 12})
    assert (refusal.status_code, codes(refusal)) == (422, ["metric.too_many"])
    older = f"/v1/k8s/clusters/{world.control.cluster}/metrics"
    refusal = world.control.call("GET", older, params={"start": iso(START), "end": iso(START + 60_000)})
    assert (refusal.status_code, codes(refusal)) == (422, ["metric.too_many"])


def test_a_table_on_request(world: World) -> None:
    path = "/api/v1/nodes/n1/metrics"
    query = {"metricType": "CPU_USAGE_CORES", "start": iso(START), "end": iso(START + 60_000), "numberOfSamples": 2}
    for how in ({"headers": {"Accept": "text/csv"}}, {"params": query | {"fileType": "csv"}}):
        answer = world.control.call("GET", path, **({"params": query} | how))
        assert answer.headers["content-type"].startswith("text/csv")
        rows = list(csv.DictReader(io.StringIO(answer.text)))
        assert [(row["type"], row["timestamp"], row["value"]) for row in rows] == [
            ("CPU_USAGE_CORES", iso(START), "8"),
            ("CPU_USAGE_CORES", iso(START + 30_000), "8"),
        ]


def test_figures_of_nodes_now(world: World) -> None:
    nodes = "/api/v1/nodes"
    expected = {
        "READY_GPU_NODES": 2,
        "READY_GPUS": 8,
        "TOTAL_GPU_NODES": 2,
        "TOTAL_GPUS": 8,
        "FREE_GPUS": 5,
        "ALLOCATED_GPUS": 2.5,
        "FULLY_FREE_GPU_NODES": 0,
        "TOTAL_CPU_CORES": 64,
        "ALLOCATED_CPU_CORES": 6,
        "TOTAL_CPU_MEMORY_BYTES": 256 * GIB,
        "ALLOCATED_CPU_MEMORY_BYTES": 12 * GIB,
        "TOTAL_GPU_MEMORY_BYTES": 128 * GIB,
        "USED_CPU_CORES": 8,
        "USED_CPU_MEMORY_BYTES": 32 * GIB,
        "USED_GPU_MEMORY_BYTES": 4 * GIB,
        "IDLE_ALLOCATED_GPUS": 1,
    }
    assert {kind: world.telemetry(nodes, kind) for kind in expected} == expected
    assert world.telemetry(nodes, "ALLOCATED_GPUS", groupBy="Nodepool") == {("default",): 2, ("fast",): 0.5}
    assert world.telemetry(nodes, "ALLOCATED_GPUS", groupBy="Node,ClusterId") == {
        ("n1", world.control.cluster): 2,
        ("n2", world.control.cluster): 0.5,
    }
    assert world.telemetry(nodes, "TOTAL_GPUS", nodepoolName="fast") == 4
    assert world.telemetry(nodes, "IDLE_ALLOCATED_GPUS", nodepoolName="fast") == {}, "no sample is not idle"
    assert world.get(f"{nodes}/telemetry", telemetryType="NVLINK", status=422)


def test_shares_over_time_are_one_call(world: World) -> None:
    """team-a (quota 2) holds 2 of the default pool, team-b (quota 1) holds 0.5 of the other one."""
    names = [
        *("GPU_QUOTA", "GPU_ALLOCATION_IN_QUOTA", "GPU_ALLOCATION_OVER_QUOTA", "GPU_LENT", "GPU_BORROWED"),
        *("GPU_FROM_UNASSIGNED", "GPU_PENDING", "RUNNING_WORKLOADS_COUNT", "PENDING_WORKLOADS_COUNT", "GPU_LIMIT"),
    ]
    path = CLUSTER.format(world.control.cluster)
    found = world.metrics(path, *names, groupBy="Project", numberOfSamples=1)["measurements"]
    values = {(each["groups"][0]["value"], each["type"]): points(each)[0][1] for each in found if each["values"]}
    assert [values["team-a", name] for name in names[:9]] == [2, 2, 0, 0, 0, 0, 1, 1, 1]
    assert [values["team-b", name] for name in names[:9]] == [1, 0.5, 0, 0, 0, 0, 0, 1, 0]
    assert ("team-a", "GPU_LIMIT") not in values, "unlimited is no number"
    (own,) = world.metrics("/api/v1/org-unit/projects/team-a/metrics", "GPU_ALLOCATION_IN_QUOTA", by="ann")[
        "measurements"
    ]
    assert points(own)[0] == (0, 2)


def test_free_and_pending_gpus_over_time(world: World) -> None:
    names = [
        *("READY_GPU_NODES", "READY_GPU", "FREE_GPU", "LARGEST_FREE_GPU_BLOCK", "ALLOCATED_GPU_OVER_QUOTA"),
        *("RUNNING_WORKLOADS_COUNT", "PENDING_WORKLOADS_COUNT", "PENDING_GPU"),
    ]
    path = CLUSTER.format(world.control.cluster)
    found = world.metrics(path, *names, numberOfSamples=1)["measurements"]
    assert [points(each)[0][1] for each in found] == [2, 8, 5, 3, 0, 2, 1, 1]
    pool = world.metrics(path, *names[:4], numberOfSamples=1, nodepoolName="default")["measurements"]
    assert [points(each)[0][1] for each in pool] == [1, 4, 2, 2]


def test_the_figures_of_the_overview_agree_with_the_lists(world: World) -> None:
    found = world.get("/api/v1/overview/figures")
    OverviewFigures.model_validate(found)
    assert (found["asOf"], found["measuredAt"]) == (iso(world.control.clock.now), iso(START + (SAMPLES - 1) * 10_000))
    assert (found["nodes"], found["gpus"], found["readyGpus"], found["allocatedGpus"]) == (2, 8, 8, 2.5)
    assert (found["freeGpus"], found["largestFreeBlock"], found["measuredGpus"]) == (5, 3, 4)
    assert found["gpuUtilization"] == pytest.approx((SAMPLES - 1) / 4, abs=0.01), "of the node that was measured"
    assert found["idleAllocatedGpus"] == world.telemetry("/api/v1/nodes", "IDLE_ALLOCATED_GPUS") == 1
    for by in ("admin", "ann"):
        mine = world.get("/api/v1/overview/figures", by=by)
        for phase, number in mine["workloads"].items():
            listed = world.get("/api/v1/workloads/count", by=by, filterBy=f"phase=={phase}")
            assert listed["count"] == number
        waiting = world.get("/api/v1/workloads/waiting", by=by)
        assert mine["pending"] == waiting["count"]
        assert {each["type"] for each in waiting["workloads"]} == {"Training"}
    pool = world.get("/api/v1/overview/figures", nodepoolName="fast")
    assert (pool["nodes"], pool["allocatedGpus"], pool["running"], "gpuUtilization" in pool) == (1, 0.5, 1, False)


def test_devices_have_their_utilization(world: World) -> None:
    found = world.get("/api/v1/devices")
    DevicePage.model_validate(found)
    n1, n2 = found["nodes"]
    assert n1["utilization"] == [SAMPLES - 1, 0, 0, 0]
    assert n1["idle"] == [1, 2, 3]
    assert "utilization" not in n2


def test_lists_say_what_was_last_measured(world: World) -> None:
    found = world.get("/api/v1/workloads", measured="true")
    WorkloadPage.model_validate(found)
    by_id = {each["id"]: each.get("measured") for each in found["workloads"]}
    last = SAMPLES - 1
    assert by_id[world.one] == {
        "at": iso(START + last * 10_000),
        "gpuUtilization": last / 2,
        "gpuMemoryBytes": 4 * GIB,
        "gpuMemoryAllocatedBytes": 32 * GIB,
        "cpuCores": 2,
        "memoryBytes": GIB,
        "progressPercent": last,
        "simulated": False,
    }
    assert by_id[world.other] is None, "its node is silent: no figure, and no 0"
    assert by_id[world.waiting] is None
    assert all("measured" not in each for each in world.get("/api/v1/workloads")["workloads"])
    busy = world.get("/api/v1/overview", measured="true")
    assert busy["asOf"] == iso(world.control.clock.now)
    assert {each["id"]: each.get("measured") for each in busy["workloads"]}[world.one] == by_id[world.one]
    nodes = {each["name"]: each.get("measured") for each in busy["nodes"]}
    assert nodes["n2"] is None
    assert (nodes["n1"]["gpuUtilization"], nodes["n1"]["cpuCores"]) == (last / 4, 8)
    (n1, _) = world.get("/api/v1/nodes", measured="devices")["nodes"]
    NodePage.model_validate({"nodes": [n1]})
    devices = n1["measured"]["devices"]
    assert [each["utilization"] for each in devices] == [last, 0, 0, 0]
    assert [each["idleSeconds"] for each in devices] == [0, *[SAMPLES * 10] * 3]
    assert all("temperatureCelsius" not in each for each in devices)


def test_what_was_last_measured_of_a_workload_and_its_pods(world: World) -> None:
    path = f"/api/v1/workloads/{world.one}/measured"
    found = world.get(path, by="ann")
    assert found["asOf"] == iso(world.control.clock.now)
    (pod,) = found["pods"]
    assert (pod["name"], pod["node"], pod["cpuCores"]) == ("t1-0-0", "n1", 2)
    assert pod["devices"] == [
        {"index": 0, "utilization": SAMPLES - 1, "memoryBytes": 4 * GIB},
        {"index": 1, "utilization": 0},
    ]
    silent = world.get(f"/api/v1/workloads/{world.other}/measured")
    assert ("total" in silent, silent["pods"]) == (False, [])
    assert world.get(f"/api/v1/workloads/{world.other}/measured", by="ann", status=404)


def test_figures_of_projects_departments_and_workloads_now(world: World) -> None:
    projects, departments, workloads = "/api/v1/org-unit/projects", "/api/v1/org-unit/departments", "/api/v1/workloads"
    by = {"groupBy": "ProjectId"}
    assert {("team-a",): 2, ("team-b",): 0.5}.items() <= world.telemetry(projects, "GPU_ALLOCATION", **by).items()
    assert {("team-a",): 2, ("team-b",): 1}.items() <= world.telemetry(projects, "GPU_QUOTA", **by).items()
    assert {("team-a",): -1, ("team-b",): 4000}.items() <= world.telemetry(projects, "CPU_QUOTA", **by).items()
    assert world.telemetry(projects, "CPU_ALLOCATION", nodepoolId="fast") == 3000
    assert world.telemetry(projects, "GPU_ALLOCATION_NON_PREEMPTIBLE") == 0
    assert (
        world.telemetry(departments, "GPU_ALLOCATION", groupBy="DepartmentId,Nodepool").items()
        >= {
            ("default", "default"): 2,
            ("default", "fast"): 0.5,
        }.items()
    )
    assert world.telemetry(workloads, "WORKLOADS_COUNT") == 3
    assert world.telemetry(workloads, "WORKLOADS_COUNT", groupBy="Phase") == {("Creating",): 1, ("Running",): 2}
    assert world.telemetry(workloads, "WORKLOADS_COUNT", filterByPhases="Running") == 2
    assert world.telemetry(workloads, "GPU_ALLOCATION", groupBy="CurrentNodepools,Category") == {
        ("", "Train"): 0,
        ("default", "Train"): 2,
        ("fast", "Train"): 0.5,
    }
    assert world.telemetry(workloads, "WORKLOADS_COUNT", nodepoolName="fast") == 1
    waits = world.telemetry(workloads, "PENDING_TIME_DISTRIBUTION")
    assert {key: value for key, value in waits.items() if value} == {("10m-1h",): 1}
    assert len(waits) == 6


def test_figures_in_older_words(world: World) -> None:
    cluster = f"/v1/k8s/clusters/{world.control.cluster}"
    found = world.get(f"{cluster}/metrics", start=iso(START), end=iso(START + 600_000), numberOfSamples=2)
    assert found["metadata"]["clusterId"] == world.control.cluster
    default, fast = found["current"]["resources"]
    assert (default["nodepoolName"], default["gpu"]["allocated"], fast["gpu"]["allocated"]) == ("default", 2, 0.5)
    assert default["gpu"]["utilization"] == pytest.approx(59 / 400)
    assert [each["timestamp"] for each in found["timeRange"]["resources"]] == [iso(START), iso(START + 300_000)]
    assert found["timeRange"]["resources"][0]["numberOfPendingWorkloads"] == 1
    project = world.get(f"{cluster}/projects/team-b/metrics")
    assert project["current"]["resources"][1]["cpu"] == {"quota": 4, "allocated": 3}
    assert "timeRange" not in project
    department = world.get(f"{cluster}/departments/default/metrics")
    assert {each["projectName"] for each in department["current"]["projectResources"]} >= {"team-a", "team-b"}
    assert world.get(f"{cluster}/departments/metrics")["data"]
    assert world.get(f"{cluster}/metrics", start=iso(START), status=400)


def test_without_samples_only_what_needs_them_is_refused(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> Any:
        raise Unavailable(FAILING)

    monkeypatch.setattr(world.control.app.state.plane.samples, "_read", away)
    path = "/api/v1/nodes/n1/metrics"
    answer = world.control.call(
        "GET", path, params={"metricType": "CPU_USAGE_CORES", "start": iso(START), "end": iso(START + 1000)}
    )
    assert (answer.status_code, codes(answer)) == (503, ["metrics.unavailable"])
    assert world.telemetry("/api/v1/nodes", "ALLOCATED_GPUS") == 2.5
    assert world.get("/api/v1/nodes/telemetry", telemetryType="USED_CPU_CORES", status=503)
    cluster = f"/v1/k8s/clusters/{world.control.cluster}/metrics"
    found = world.get(cluster, start=iso(START), end=iso(START + 1000), status=207)
    assert found["current"]["resources"][0]["gpu"]["allocated"] == 2
    assert "timeRange" not in found
    assert found["problems"][0]["code"] == "metrics.unavailable"


def test_lists_are_whole_without_samples(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: Any) -> None:
        raise Unavailable(FAILING, "the disk is gone")

    monkeypatch.setattr(world.control.app.state.plane.samples, "latest", away)
    for path, name, count in (("workloads", "workloads", 3), ("nodes", "nodes", 2), ("overview", "workloads", 2)):
        found = world.get(f"/api/v1/{path}", measured="true", status=207)
        assert [each["code"] for each in found["problems"]] == ["metrics.unavailable"], path
        assert len(found[name]) == count
    assert len(world.get("/api/v1/devices", status=207)["nodes"]) == 2
    assert "gpuUtilization" not in world.get("/api/v1/overview/figures", status=207)
    refused = world.control.call("GET", f"/api/v1/workloads/{world.one}/measured")
    assert (refused.status_code, codes(refused)) == (503, ["metrics.unavailable"])


def test_samples_of_a_deleted_workload_stay(world: World) -> None:
    control = world.control
    expect(control.call("DELETE", f"/api/v1/workloads/{world.waiting}"), 202)
    control.push(control.report(gone=(gone(world.waiting),)))
    assert world.telemetry("/api/v1/workloads", "WORKLOADS_COUNT") == 2
    assert world.metrics(f"/api/v1/workloads/{world.waiting}/metrics", "POD_COUNT")["measurements"][0]["values"] == []


def test_a_device_that_was_just_given_to_a_pod_is_not_idle_however_long_it_was_free() -> None:
    with control_plane() as control:
        control.project("team-a", 4)
        workload = control.train("t1")["id"]
        control.push(control.report(whole=True, nodes=(machine("n1", "default"),)))
        store: SampleStore = control.app.state.plane.samples

        def unused(seconds: int) -> None:
            for _ in range(seconds // 10):
                control.clock.turn(10)
                devices = tuple(DeviceSampleWire(index=index, utilization=0.0) for index in (0, 1))
                report = SamplesReport(
                    at=control.clock.now, nodes=(NodeSampleWire(node=NodeName("n1"), devices=devices),)
                )
                assert control.http.portal is not None
                number = store.written
                assert control.http.portal.call(sampled, control.app.state.plane, control.cluster, report).is_kept
                kept(store, number + 1)

        def idle() -> tuple[int, list[int]]:
            """How many that are held, as the overview and the telemetry say; and which, also free ones."""
            figures = expect(control.call("GET", "/api/v1/overview/figures"), 200)
            asked = {"telemetryType": "IDLE_ALLOCATED_GPUS"}
            (now,) = expect(control.call("GET", "/api/v1/nodes/telemetry", params=asked), 200)["values"]
            assert float(now["value"]) == figures["idleAllocatedGpus"]
            (node,) = expect(control.call("GET", "/api/v1/devices"), 200)["nodes"]
            return figures["idleAllocatedGpus"], node["idle"]

        unused(400)
        assert idle() == (0, [0, 1])
        control.push(control.report(workloads=(_runs(control, workload, "n1", (0,), 1000),)))
        assert idle() == (0, [1]), "the next sample has not come yet"
        unused(300)
        assert idle() == (0, [1])
        control.push(control.report(workloads=(_runs(control, workload, "n1", (0,), 900),)))
        unused(10)
        assert idle() == (1, [0, 1]), "another report about the same pod changes nothing"

"""What Prometheus gets: the documented names with the right values, to those who may see them."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fairpool.api.clusters import NodeReport, PodReport
from fairpool.api.samples import DeviceSampleWire, DeviceUseWire, NodeSampleWire, PodSampleWire, SamplesReport
from fairpool.control import scrape, scrape_facts
from fairpool.control.sample_intake import sampled
from fairpool.control.scrape_names import NOT_EXPORTED, TABLES, ScrapeSubject
from fairpool.control.scrape_series import UNLIMITED
from fairpool.control.store.unavailable import FAILING, Unavailable
from fairpool.model.ids import NodeName, PodId, PoolName
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import PRODUCT_LABEL
from tests.contracts.test_metrics import GIB, kept
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

pytestmark = pytest.mark.slow

Found = dict[str, list[tuple[dict[str, str], float]]]


@dataclass
class World:
    """Two nodes, one silent; a workload with a GPU and a half, one that waits within quota, one of another project."""

    control: ControlPlane
    running: str
    waiting: str
    other: str

    def scraped(self, by: str = "admin", collect: Sequence[str] = ()) -> Found:
        answer = self.control.call("GET", "/metrics", by=by, params={"collect[]": collect})
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        found: Found = {}
        for family in text_string_to_metric_families(answer.text):
            for each in family.samples:
                found.setdefault(each.name, []).append((each.labels, each.value))
        return found


def value(found: Found, name: str, **labels: str) -> float:
    (only,) = [amount for each, amount in found[name] if labels.items() <= each.items()]
    return only


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with control_plane() as control:
        control.project("team-a", 4)
        control.project("team-b", 1)
        control.researcher("ann", "team-a")
        has: Any = {"gpus": 2, "gpu_memory_mib": 16 * 1024, "cpu_milli": 32_000, "memory_bytes": 128 * GIB}
        nodes = (
            NodeReport(name=NodeName("n1"), pool=PoolName("default"), labels={PRODUCT_LABEL: 'V"100'}, **has),
            NodeReport(name=NodeName("n2"), pool=PoolName("default"), silent_since=control.clock.now, **has),
        )
        control.push(control.report(whole=True, nodes=nodes))
        running, waiting = (control.train(name)["id"] for name in ("t1", "t2"))
        world = World(control, running, waiting, control.train("secret", "team-b")["id"])
        control.clock.turn(100)
        pod = PodReport(
            id=PodId(f"{world.running}-0-0"),
            index=0,
            incarnation=0,
            phase=PodPhase.RUNNING,
            node=NodeName("n1"),
            devices=(0, 1),
            gpus_milli=1500,
            cpu_milli=3000,
            memory_bytes=6 * GIB,
            started_at=control.clock.now,
        )
        report = control.runs(world.running, gpus_milli=1500).model_copy(update={"pods": (pod,)})
        control.push(control.report(workloads=(report,)))
        for number, utilization in enumerate((50.0, 0.0)):
            control.clock.turn(10)
            _sample(world, utilization)
            kept(control.app.state.plane.samples, number + 1)
        yield world


def _sample(world: World, utilization: float) -> None:
    used = (DeviceUseWire(index=0, utilization=utilization, memory_bytes=4 * GIB),)
    pod = PodSampleWire(pod=PodId(f"{world.running}-0-0"), cpu_cores=2.0, memory_bytes=GIB, devices=used)
    devices = tuple(
        DeviceSampleWire(index=index, utilization=utilization if index == 0 else 0.0, memory_bytes=0, errors=index)
        for index in (0, 1)
    )
    node = NodeSampleWire(node=NodeName("n1"), cpu_cores=8.0, memory_bytes=32 * GIB, devices=devices, pods=(pod,))
    control = world.control
    report = SamplesReport(at=control.clock.now, nodes=(node,))
    assert control.http.portal is not None
    assert control.http.portal.call(sampled, control.app.state.plane, control.cluster, report).is_kept


def test_series_have_the_values_of_the_lists_and_of_the_latest_sample(world: World) -> None:
    found, here = world.scraped(), world.control.cluster
    job = {"clusterId": here, "job_uuid": world.running}
    for name, expected in (
        ("runai_job_allocated_gpus", 1.5),
        ("runai_allocated_gpu_count_per_workload", 1.5),
        ("runai_job_requested_gpus", 1),
        ("runai_job_gpu_utilization", 0),
        ("runai_job_used_gpu_memory_bytes", 4 * GIB),
        ("runai_running_job_cpu_used_cores", 2),
        ("runai_running_job_memory_requested_bytes", 6 * GIB),
        ("runai_job_total_runtime", 20),
        ("runai_job_total_wait_time", 100),
        ("runai_gpu_idle_seconds_per_workload", 0),
        ("runai_last_gpu_utilization_time_per_workload", world.control.clock.now / 1000 - 10),
    ):
        assert value(found, name, **job) == expected, name
    info = {"user": "test@run.ai", "status": "Running", "node": "n1", "project": "team-a", "job_type": "Train"}
    assert value(found, "runai_job_status_with_info", job_name="t1", **info) == 1
    assert value(found, "runai_job_total_wait_time", job_uuid=world.waiting) == 120
    pod = {"pod_namespace": "runai-team-a", "pod_name": "t1-0-0", "gpu": "0", "node": "n1"}
    assert value(found, "runai_gpu_utilization_with_pod_info", **pod) == 0
    assert "runai_gpu_utilization_non_fractional_jobs" not in found  # it holds three quarters of each


def test_nodes_gpus_and_projects_have_theirs(world: World) -> None:
    found = world.scraped()
    assert value(found, "fairpool_node_unknown", node="n2") == 1
    assert value(found, "fairpool_node_ready", node="n1") == 1
    assert value(found, "runai_gpu_count_per_node", node="n1", modelName='V"100', ready="true") == 2
    assert value(found, "runai_node_memory_utilization", node="n1") == 0.25
    assert "n2" not in {labels["node"] for labels, _ in found["runai_node_memory_utilization"]}
    assert value(found, "runai_gpu_last_active_time", node="n1", gpu="0") == world.control.clock.now / 1000 - 10
    assert {labels["gpu"] for labels, _ in found["runai_gpu_last_active_time"]} == {"0"}
    assert value(found, "runai_gpu_is_running_fractional_job", node="n1", gpu="1") == 1
    assert value(found, "fairpool_gpu_uncorrected_errors", node="n1", gpu="1") == 1
    assert value(found, "runai_project_guaranteed_gpus", project="team-a") == 4
    assert value(found, "runai_project_info", project="team-a", gpu_guaranteed_quota="4", cpu_quota=UNLIMITED) == 1
    assert value(found, "fairpool_project_workloads", project="team-a", phase="Pending") == 0
    assert value(found, "fairpool_project_workloads", project="team-a", phase="Creating") == 1
    assert value(found, "fairpool_project_longest_wait_in_quota_seconds", project="team-a") == 120
    assert value(found, "fairpool_nodepool_gpus_ready", nodepool="default") == 2
    assert value(found, "runai_cluster_cpu_utilization") == 0.25


def test_the_process_tells_of_itself(world: World) -> None:
    found = world.scraped()
    assert value(found, "fairpool_build_info", program="control") == 1
    assert value(found, "fairpool_samples_written_total") == 2
    assert value(found, "fairpool_database_failing") == 0
    assert value(found, "fairpool_database_seconds_count", kind="write") > 0
    assert found["process_resident_memory_bytes"][0][1] > 0


def test_each_sees_what_they_may_see_and_others_nothing(world: World) -> None:
    mine = world.scraped("ann")
    assert {labels["project"] for labels, _ in mine["runai_job_requested_gpus"]} == {"team-a"}
    assert {labels["project"] for labels, _ in mine["runai_project_guaranteed_gpus"]} == {"team-a"}
    text = world.control.call("GET", "/metrics", by="ann").text
    assert "secret" not in text
    assert "team-b" not in text
    assert value(mine, "fairpool_node_ready", node="n1") == 1
    control = world.control
    control.researcher("without-role")
    assert control.call("GET", "/metrics", by="without-role").status_code == 403
    assert control.call("GET", "/metrics", by="").status_code == 401
    link = {"Authorization": f"Bearer {control.cluster_token}"}
    assert control.call("GET", "/metrics", by="", headers=link).status_code == 403


def test_a_scrape_can_be_narrowed_and_is_compressed(world: World) -> None:
    found = world.scraped(collect=["nodes", "process"])
    assert "fairpool_node_ready" in found
    assert "fairpool_build_info" in found
    assert not found.keys() & {"runai_job_requested_gpus", "runai_gpu_is_allocated", "fairpool_project_workloads"}
    assert codes(world.control.call("GET", "/metrics", params={"collect[]": "cats"})) == ["metric.unknown"]
    plain = world.control.call("GET", "/metrics", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert world.control.call("GET", "/metrics").headers["content-encoding"] == "gzip"


def test_every_name_is_one_that_is_listed(world: World) -> None:
    names = {name for words in TABLES.values() for name in words}
    found = {name for name in world.scraped() if name.startswith("runai_")}
    assert found <= names
    missing = {name for name in names - world.scraped().keys() if name.startswith("runai_")}
    assert missing == {
        "runai_cpu_limits_per_active_workload",  # no limits are set
        "runai_gpu_utilization_non_fractional_jobs",
        "runai_job_requested_gpu_memory",
        "runai_memory_limits_per_active_workload",
        "runai_requested_gpu_memory_mb_per_workload",
        "runai_running_job_cpu_limit_cores",
        "runai_running_job_memory_limit_bytes",
    }


def test_series_go_with_the_workload_and_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    control = world.control
    done = control.train("done", "team-a")["id"]
    control.push(control.report(workloads=(control.completed(done),)))
    assert value(world.scraped(), "runai_job_requested_gpus", job_uuid=done) == 1
    with monkeypatch.context() as patch:
        patch.setattr(scrape_facts, "WORKLOADS_MAX", 2)
        found = world.scraped()
        assert len(found["runai_job_requested_gpus"]) == 2
        assert value(found, "fairpool_workloads_left_out") == 2
        assert value(found, "runai_job_requested_gpus", job_uuid=world.running) == 1  # what holds GPUs comes first
    control.clock.turn(scrape_facts.ENDED_S + 1)
    assert done not in {labels["job_uuid"] for labels, _ in world.scraped()["runai_job_requested_gpus"]}
    expect(control.call("DELETE", f"/api/v1/workloads/{done}"), 202)


def test_without_a_database_the_process_still_tells_of_itself(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = world.control.app.state.plane

    async def away(*_: Any) -> Any:
        raise Unavailable(FAILING, "gone")

    monkeypatch.setattr(type(plane), "read_apart", away)
    assert world.control.http.portal is not None
    body = world.control.http.portal.call(_everything, plane)
    assert b"fairpool_build_info" in gzip.decompress(body)
    assert world.control.call("GET", "/metrics", params={"collect[]": "nodes"}).status_code == 503


def test_a_scrape_does_not_wait_for_a_disk_of_samples_that_hangs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plane = world.control.app.state.plane

    async def hangs(*_: Any) -> Any:
        await asyncio.sleep(3600)

    monkeypatch.setattr(plane.samples, "latest_slots", hangs)
    monkeypatch.setattr(scrape, "SAMPLES_S", 0.05)
    assert "runai_project_guaranteed_gpus" in world.control.call("GET", "/metrics").text


async def _everything(plane: Any) -> bytes:
    return await scrape.scrape(plane, scrape.EVERYTHING, list(ScrapeSubject), packs=True)


def test_the_reference_lists_every_name() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text()
    names = [*NOT_EXPORTED, *(name for words in TABLES.values() for name in words)]
    assert [name for name in names if f"| `{name}` |" not in page] == []

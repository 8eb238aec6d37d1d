"""Metrics and telemetry: figures of a cluster whose samples this test sends, so that each of them is known."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fairpool.api.cluster_client import ClusterClient
from fairpool.api.clusters import GoneReport, NodeReport, PodReport, PushReport, WorkloadReport
from fairpool.api.samples import DeviceSampleWire, DeviceUseWire, NodeSampleWire, PodSampleWire, SamplesReport
from fairpool.control.moments import iso
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.status import WorkloadPhase
from tests.client.original import Original

NODE, PROJECT = "metrics-node", "metrics-project"
GIB = 1 << 30
SAMPLES = 6


@dataclass
class Measured:
    """A cluster with one node and one running workload, of which a minute was measured."""

    cluster: str
    workload: str
    pod: str
    span: dict[str, Any]
    """Start, end and number of samples."""


def now() -> Instant:
    return Instant(time.time_ns() // 1_000_000)


@contextmanager
def measured(original: Original) -> Iterator[Measured]:
    made = original.platform.client._post("/api/v1/clusters", {"name": "metrics-1"})
    link = ClusterClient(original.platform.status["address"], made.token)
    resources = [{"nodePool": {"id": "default"}, "gpu": {"deserved": 3}, "cpu": {"deserved": 8000}}]
    body = {"name": PROJECT, "clusterId": made.uuid, "parentId": "default", "resources": resources}
    original.call("ProjectsApi.create_project", project_creation_request=body)
    link.push(PushReport(cluster="far", token=Token(1), number=1, after=0, whole=True, at=now(), nodes=(node(),)))
    submit = {"name": "metrics-job", "projectId": PROJECT, "spec": {"image": "quickstart", "compute": {"gpu": "2"}}}
    workload = original.platform.client._post("/api/v1/workloads/trainings", submit).id
    pod = f"{workload}-0-0"
    link.push(
        PushReport(cluster="far", token=Token(1), number=2, after=1, at=now(), workloads=(running(workload, pod),))
    )
    end = now() // 10_000 * 10_000
    for number in range(SAMPLES):
        link._call(
            "POST", "/api/v1/cluster/samples", content=sample(pod, number, Instant(end - 10_000 * (SAMPLES - number)))
        )
    span = {"start": iso(end - 10_000 * SAMPLES), "end": iso(end), "number_of_samples": 2}
    try:
        yield Measured(made.uuid, workload, pod, span)
    finally:
        original.call("TrainingsApi.delete_training", workload_id=workload)
        gone = (GoneReport(id=WorkloadId(workload), run=0),)
        link.push(PushReport(cluster="far", token=Token(1), number=3, after=2, at=now(), gone=gone))
        link.close()
        original.call("ProjectsApi.delete_project", project_id=PROJECT)
        original.until(
            lambda: original.call("ProjectsApi.count_projects", filter_by=[f"name=={PROJECT}"]) == {"count": 0},
            "the project is gone",
        )
        original.call("ClustersApi.delete_cluster", cluster_uuid=made.uuid)


def node() -> NodeReport:
    return NodeReport(
        name=NodeName(NODE),
        pool=PoolName("default"),
        gpus=4,
        gpu_memory_mib=16 * 1024,
        cpu_milli=16_000,
        memory_bytes=64 * GIB,
    )


def running(workload: str, pod: str) -> WorkloadReport:
    its = PodReport(
        id=PodId(pod),
        index=0,
        incarnation=0,
        phase=PodPhase.RUNNING,
        node=NodeName(NODE),
        devices=(0, 1),
        gpus_milli=2000,
        cpu_milli=4000,
        memory_bytes=8 * GIB,
    )
    return WorkloadReport(
        id=WorkloadId(workload),
        run=0,
        phase=WorkloadPhase.RUNNING,
        pool=PoolName("default"),
        gpus_milli=2000,
        pods=(its,),
        since=now(),
    )


def sample(pod: str, number: int, at: Instant) -> str:
    """The first GPU at 10 % more each time, the second at 50 %."""
    used = ((0, 10.0 * number, GIB), (1, 50.0, 3 * GIB))
    its = PodSampleWire(
        pod=PodId(pod),
        cpu_cores=2.0,
        memory_bytes=GIB,
        devices=tuple(DeviceUseWire(index=index, utilization=part, memory_bytes=size) for index, part, size in used),
    )
    there = NodeSampleWire(
        node=NodeName(NODE),
        cpu_cores=4.0,
        memory_bytes=16 * GIB,
        devices=tuple(DeviceSampleWire(index=index, utilization=part, memory_bytes=size) for index, part, size in used),
        pods=(its,),
    )
    return SamplesReport(at=at, nodes=(there,)).to_json()


def values(answer: Any) -> dict[tuple[str, str], list[float]]:
    """By type and GPU, or group."""
    return {
        (
            each["type"],
            (each.get("labels") or {}).get("gpu", "") or "".join(group["value"] for group in each.get("groups", ())),
        ): [float(point["value"]) for point in each["values"]]
        for each in answer["measurements"]
    }


def case_metrics(original: Original) -> None:
    with measured(original) as found:
        cluster, span = {"cluster_uuid": found.cluster}, found.span
        types = ["ALLOCATED_GPU", "TOTAL_GPU", "GPU_UTILIZATION"]

        def of_cluster(**more: Any) -> Any:
            return values(
                original.call("ClustersApi.get_cluster_metrics", metric_type=types, **cluster, **span, **more)
            )

        original.until(lambda: len(of_cluster()["TOTAL_GPU", ""]) == 2, "the samples are kept")
        expected = {("ALLOCATED_GPU", ""): [2, 2], ("TOTAL_GPU", ""): [4, 4], ("GPU_UTILIZATION", ""): [30, 45]}
        assert of_cluster() == expected
        assert of_cluster(group_by="Nodepool")["TOTAL_GPU", "default"] == [4, 4]
        pool = original.call(
            "NodePoolsApi.get_nodepool_metrics", nodepool_name="default", metric_type=types, **cluster, **span
        )
        assert values(pool) == expected
        asked = {"node_id": NODE, "metric_type": ["GPU_UTILIZATION_PER_GPU", "CPU_UTILIZATION"], **span}
        per_gpu = values(original.call("NodesApi.get_node_metrics", **asked))
        assert per_gpu == {
            ("GPU_UTILIZATION_PER_GPU", "0"): [10, 40],
            ("GPU_UTILIZATION_PER_GPU", "1"): [50, 50],
            ("GPU_UTILIZATION_PER_GPU", "2"): [],
            ("GPU_UTILIZATION_PER_GPU", "3"): [],
            ("CPU_UTILIZATION", ""): [25, 25],
        }
        why = original.refused(
            "NodesApi.get_node_metrics", 422, **(asked | {"metric_type": ["NVLINK_BANDWIDTH_TOTAL"]})
        )
        assert "NVLINK_BANDWIDTH_TOTAL is not measured here" in why
        owner = {"metric_type": ["GPU_QUOTA", "GPU_ALLOCATION", "CPU_ALLOCATION_MILLICORES"], **span}
        project = values(original.call("ProjectsApi.get_project_metrics", project_id=PROJECT, **owner))
        assert [each[0] for each in project.values()] == [3, 2, 4000]
        department = original.call("DepartmentsApi.get_department_metrics", department_id="default", **owner)
        mine = [
            each for each in department["measurements"] if (each.get("labels") or {}).get("clusterId") == found.cluster
        ]
        assert [each["values"][0]["value"] for each in mine] == ["3", "2", "4000"]
        work = {"metric_type": ["GPU_UTILIZATION", "GPU_MEMORY_USAGE_BYTES", "CPU_USAGE_CORES"], **span}
        workload = values(original.call("WorkloadsApi.get_workload_metrics", workload_id=found.workload, **work))
        assert [each[0] for each in workload.values()] == [30, 4 * GIB, 2]
        pod = {"workload_id": found.workload, "pod_id": found.pod}
        assert values(original.call("PodsApi.get_workload_pod_metrics", **pod, **work)) == workload
        _telemetry(original, found)
        _older(original, found)


def _telemetry(original: Original, found: Measured) -> None:
    here = {"cluster_id": found.cluster}

    def value(operation: str, kind: str, **more: Any) -> dict[tuple[str, ...], str]:
        answer = original.call(operation, telemetry_type=kind, **here, **more)
        assert answer["type"] == kind
        return {tuple(group["value"] for group in each.get("groups", ())): each["value"] for each in answer["values"]}

    assert value("NodesApi.get_node_telemetry", "TOTAL_GPUS") == {(): "4"}
    assert value("NodesApi.get_node_telemetry", "FREE_GPUS", group_by=["Nodepool", "ClusterId"]) == {
        ("default", found.cluster): "2"
    }
    assert value("NodesApi.get_node_telemetry", "USED_CPU_CORES") == {(): "4"}
    by_project = {"group_by": ["ProjectId"]}
    assert value("ProjectsApi.get_projects_telemetry", "GPU_QUOTA", **by_project) == {(PROJECT,): "3"}
    assert value("ProjectsApi.get_projects_telemetry", "CPU_ALLOCATION") == {(): "4000"}
    departments = value("DepartmentsApi.get_departments_telemetry", "GPU_ALLOCATION", group_by=["DepartmentId"])
    assert departments[("default",)] == "2"
    counted = {"group_by": ["ProjectId", "Phase"], "filter_by_phases": ["Running"]}
    workloads = value("WorkloadsApi.get_workloads_telemetry", "WORKLOADS_COUNT", **counted)
    assert workloads == {(PROJECT, "Running"): "1"}


def _older(original: Original, found: Measured) -> None:
    place = {"cluster_uuid": found.cluster, **found.span}
    cluster = original.call("ClustersApi.get_cluster_metrics_0", **place)
    (pool,) = cluster["current"]["resources"]
    assert (cluster["metadata"]["clusterName"], pool["gpu"]["allocated"], pool["gpu"]["quota"]) == ("metrics-1", 2, 3)
    assert [each["gpu"]["utilization"] for each in cluster["timeRange"]["resources"]] == [0.3, 0.45]
    project = original.call("ProjectsApi.get_project_metrics_0", project_id=PROJECT, **place)
    assert project["current"]["resources"][0]["cpu"] == {"quota": 8, "allocated": 4}
    listed = original.call("ProjectsApi.get_projects_metrics", **place)["data"]
    assert [each["metadata"] for each in listed] == [project["metadata"]]
    number = str(project["metadata"]["departmentId"])
    department = original.call("DepartmentsApi.get_department_metrics_0", department_id=number, **place)
    assert [each["projectName"] for each in department["current"]["projectResources"]] == [PROJECT]
    everything = original.call("DepartmentsApi.get_departments_metrics", **place)["data"]
    assert department["metadata"] in [each["metadata"] for each in everything]

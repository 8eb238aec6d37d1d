"""One rule for priority, preemptibility and GPU charge: what people are shown is what the scheduler does."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from fairpool.api import workload_spec as wire
from fairpool.api.organization import ProjectRequest
from fairpool.cluster.rollup import gpus_held_milli
from fairpool.cluster.snapshot_builder import snapshot_part
from fairpool.cluster.workload_state import WorkloadState
from fairpool.control import admission, declarations, items
from fairpool.control.admission import KIND_OF_SUBMIT, AdmissionContext
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Node
from fairpool.model.pod_record import PodRecord
from fairpool.model.precedence import PRIORITY_CLASSES, KindRule, gpus_charged_milli, precedence
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import WorkloadSpec
from fairpool.model.workload import GpuRequest, PodShape, WorkloadKind, gpu_memory, gpu_portion, whole_gpus
from fairpool.scheduler.charge import Charges
from fairpool.scheduler.columns import Columns
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.prepared import prepare
from fairpool.scheduler.snapshot import Snapshot

TRAIN, BUILD, INFERENCE = WorkloadKind.TRAIN, WorkloadKind.BUILD, WorkloadKind.INFERENCE
SUBMITS: tuple[type[wire.SubmitAny], ...] = (
    wire.SubmitWorkspace,
    wire.SubmitTraining,
    wire.SubmitDistributed,
    wire.SubmitInference,
)


@pytest.mark.parametrize(
    ("kind", "priority", "preemptible", "expected"),
    [
        pytest.param(TRAIN, None, None, KindRule(50, True), id="a training is preemptible"),
        pytest.param(TRAIN, 100, None, KindRule(100, False), id="a training of class build is not"),
        pytest.param(TRAIN, 100, True, KindRule(100, True), id="unless it says so"),
        pytest.param(TRAIN, None, False, KindRule(50, False), id="a training may say that it is not"),
        pytest.param(TRAIN, 75, None, KindRule(75, True), id="interactive-preemptible is a preemptible class"),
        pytest.param(BUILD, None, None, KindRule(100, False), id="a workspace is not preemptible"),
        pytest.param(BUILD, None, True, KindRule(75, True), id="a preemptible workspace ranks between the two"),
        pytest.param(BUILD, 50, None, KindRule(50, True), id="a workspace of class train is preemptible"),
        pytest.param(BUILD, 50, False, KindRule(50, False), id="unless it says that it is not"),
        pytest.param(INFERENCE, None, None, KindRule(125, False), id="inference is not preemptible"),
        pytest.param(INFERENCE, None, True, KindRule(125, True), id="preemptible inference keeps its rank"),
    ],
)
def test_kind_class_and_explicit_preemptibility_give_rank_and_preemptibility(
    kind: WorkloadKind, priority: int | None, preemptible: bool | None, expected: KindRule
) -> None:
    assert precedence(kind, priority, preemptible) == expected


@pytest.mark.parametrize(
    ("submit", "priority_class", "preemptibility"),
    list(product(SUBMITS, (None, *PRIORITY_CLASSES), (None, "preemptible", "non-preemptible"))),
)
def test_what_the_api_shows_is_what_the_scheduler_does(
    submit: type[wire.SubmitAny], priority_class: str | None, preemptibility: str | None
) -> None:
    said = {"priorityClass": priority_class, "preemptibility": preemptibility}
    body, spec = _admitted(submit, {"gpu": "1"}, **said)
    shown = _shown(body, spec)
    columns = _columns(spec)
    assert shown["preemptible"] is not columns.is_non_preemptible(0)
    assert shown["priority"] == columns.rules[0].priority
    assert PRIORITY_CLASSES[shown["priorityClassName"]] == shown["priority"]
    assert priority_class in (None, shown["priorityClassName"])
    assert preemptibility in (None, "preemptible" if shown["preemptible"] else "non-preemptible")


@pytest.mark.parametrize(
    "compute",
    [
        pytest.param({"gpu": "2"}, id="whole"),
        pytest.param({"gpu": "0.5"}, id="part"),
        pytest.param({"gpuPortionRequest": 0.25, "gpuDevicesRequest": 3}, id="part of several"),
        pytest.param({"migProfile": "1g.5gb"}, id="1g"),
        pytest.param({"migProfile": "3g.20gb", "gpuDevicesRequest": 2}, id="two of 3g"),
        pytest.param({}, id="none"),
    ],
)
def test_what_is_asked_for_what_is_charged_and_what_is_held_are_one_figure(compute: dict[str, Any]) -> None:
    body, spec = _admitted(wire.SubmitTraining, compute)
    shape = spec.template.shape
    asked = _shown(body, spec)["workloadRequestedResources"]["gpu"]["request"]
    charges = Charges([_node()], Policy.product())
    record = _pod(spec, PodPhase.RUNNING)
    assert asked * WHOLE_GPU_MILLI == charges.waiting_milli(shape) == charges.placed_milli(shape, 40_000)
    assert asked * WHOLE_GPU_MILLI == gpus_held_milli(record, {})


def test_a_request_by_memory_is_charged_by_the_size_of_the_device() -> None:
    request = gpu_memory(10_000)
    charges = Charges([_node()], Policy.product())
    assert gpus_charged_milli(request, 40_000) == charges.waiting_milli(PodShape(gpu=request)) == 250
    assert gpus_charged_milli(request) == WHOLE_GPU_MILLI


@pytest.mark.parametrize(
    ("request_", "milli"),
    [
        (whole_gpus(3), 3000),
        (gpu_portion(500), 500),
        (GpuRequest(mig=(("nvidia.com/mig-1g.5gb", 1),)), 142),
        (GpuRequest(mig=(("nvidia.com/mig-1g.5gb", 7),)), 1000),
        (GpuRequest(mig=(("nvidia.com/mig-3g.20gb", 2),)), 857),
    ],
)
def test_gpu_charge(request_: GpuRequest, milli: int) -> None:
    assert gpus_charged_milli(request_) == milli


def _shown(body: wire.SubmitAny, spec: WorkloadSpec) -> dict[str, Any]:
    values = {"kind": "Training", "department": "default", "cluster": "c", "submitted_by": "ann", "revision": 1}
    row = SimpleNamespace(**declarations.new_row(spec, items.declaration(body, spec), **values))
    return items.workload_item(row, items.declaration(body, spec), None)


def _admitted(kind: type[wire.SubmitAny], compute: dict[str, Any], **said: Any) -> tuple[Any, WorkloadSpec]:
    spec = {"image": "python", "compute": compute, **{name: value for name, value in said.items() if value is not None}}
    if kind is wire.SubmitInference:
        spec["servingPort"] = {"container": 8000}
    if kind is wire.SubmitDistributed:
        spec["numWorkers"] = 2
    body: Any = kind.model_validate({"name": "w", "projectId": "p", "spec": spec})
    context = AdmissionContext(project=ProjectRequest(name="p"), pools=frozenset())
    made = admission.admit(body, context, workload_id=WorkloadId("w"), name="w", now=Instant(0))
    assert isinstance(made, WorkloadSpec), made
    assert KIND_OF_SUBMIT[kind]
    return body, made


def _pod(spec: WorkloadSpec, phase: PodPhase = PodPhase.WAITING) -> PodRecord:
    record = PodRecord(
        id=PodId("w-0-0"),
        workload=spec.id,
        index=0,
        incarnation=0,
        group=GroupId("w"),
        shape=spec.template.shape,
        since=Instant(0),
        created_at=Instant(0),
    )
    return record if phase is PodPhase.WAITING else record.move(PodPhase.BOUND, Instant(0), node=NodeName("n1"))


def _columns(spec: WorkloadSpec) -> Columns:
    rows = snapshot_part(spec, WorkloadState(workload=spec.id), [_pod(spec)], Instant(0))
    return prepare(Snapshot(now=Instant(0), nodes=(_node(),), groups=rows.groups, pods=rows.pods)).columns


def _node() -> Node:
    return Node(name=NodeName("n1"), cpu_milli=1000, memory_bytes=1 << 30, gpus=8, gpu_memory_mib=40_000)

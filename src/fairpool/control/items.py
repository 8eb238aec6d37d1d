"""Workloads and pods as the API shows them: the declaration and the last report in one item. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from fairpool.api import pod_spec, workload_spec
from fairpool.api import workloads as wire
from fairpool.api.clusters import EventReport, PodReport, WorkloadReport
from fairpool.api.wire import compact
from fairpool.control import admission
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.resource_request import requested_gpus_milli
from fairpool.model.ids import place_of
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.pod_record import Cause
from fairpool.model.precedence import class_name, precedence
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WaitReason, WorkloadPhase, classic_word
from fairpool.model.workload import GpuKind, WorkloadKind

DESIRED = {
    DesiredState.RUN: wire.DesiredPhase.RUNNING,
    DesiredState.STOP: wire.DesiredPhase.STOPPED,
    DesiredState.DELETE: wire.DesiredPhase.DELETED,
}
UNSHOWN = frozenset({"modelKind", "addresses", "retries", "suspensions"})
"""Facts that an item is made from and that are not in it."""
REPORTS_MAX, REPORT_LENGTH_MAX = 64, 200
"""Reported values that are shown, and characters of each; a job may report anything."""
NOTHING: Mapping[str, Any] = {}
SUSPENSIONS_KEPT = 20
CLOCKS_DIFFER_MS = 5_000
"""Assumed clock skew between a cluster and the control plane, for names beside events."""
FINISHED = frozenset({WorkloadPhase.COMPLETED, WorkloadPhase.FAILED})


def facts(
    submit: workload_spec.SubmitAny,
    spec: WorkloadSpec,
    *,
    department: str,
    cluster: str,
    submitted_by: str,
    pod_host: str = "",
) -> dict[str, Any]:
    """Fields that change only with the declaration."""
    stated = facts_of_spec(
        spec,
        admission.KIND_OF_SUBMIT[type(submit)],
        department=department,
        cluster=cluster,
        submitted_by=submitted_by,
        source=submit.source,
        labels=submit.spec.labels,
    )
    if pod_host:
        stated["addresses"] = [f"http://{pod_host}:{port}" for port in asked_ports(submit)]
    framework = submit.spec.distributed_framework if isinstance(submit, workload_spec.SubmitDistributed) else None
    return {**stated, "distributedFramework": framework} if framework else stated


def facts_of_spec(
    spec: WorkloadSpec,
    kind: workload_spec.Kind,
    *,
    department: str,
    cluster: str,
    submitted_by: str,
    source: workload_spec.Source,
    labels: Mapping[str, str],
) -> dict[str, Any]:
    """Fields that follow from the declaration alone."""
    gpu = spec.template.shape.gpu
    rule = precedence(spec.kind, spec.priority, spec.preemptible)
    requested = {
        "gpu": requested_gpus_milli(spec) / WHOLE_GPU_MILLI,
        "cpu": spec.template.shape.cpu_milli * spec.pods / 1000,
        "memoryBytes": spec.template.shape.memory_bytes * spec.pods,
    }
    if gpu.kind is GpuKind.MEMORY:
        requested["gpuMemoryMib"] = gpu.memory_mib * gpu.devices * spec.pods
    return {
        "id": spec.id,
        "name": spec.name,
        "type": kind.value,
        "projectId": spec.project,
        "projectName": spec.project,
        "departmentId": department,
        "departmentName": department,
        "clusterId": cluster,
        "submittedBy": submitted_by,
        "labels": dict(labels),
        "createdAt": iso(spec.created_at),
        "requestedPods": spec.pods,
        "workloadRequestedResources": requested,
        "images": [spec.template.program.image] if spec.template.program.image else [],
        "preemptible": rule.preemptible,
        "priorityClassName": class_name(rule.priority),
        "priority": rule.priority,
        "source": source.value,
        "modelKind": spec.kind.value,
        "retries": spec.restart_rule.retries,
        "addresses": [],
    }


def asked_ports(submit: workload_spec.SubmitAny) -> list[int]:
    """Ports of its pods that need an address, each once."""
    asked = [each.container for each in submit.spec.ports if each.service_type is not pod_spec.ServiceType.CLUSTER_IP]
    asked += [each.container for each in submit.spec.exposed_urls]
    if isinstance(submit, workload_spec.SubmitInference) and submit.spec.serving_port is not None:
        asked.append(submit.spec.serving_port.container)
    return list(dict.fromkeys(asked))


def state(
    known: dict[str, Any],
    want: DesiredState,
    report: WorkloadReport | None,
    revision: int,
    *,
    gone: bool = False,
    held: WorkloadReport | None = None,
) -> dict[str, Any]:
    """An item: its facts and its state. `held`: what its pods hold, if this run has no report yet."""
    held = report or held
    kind = WorkloadKind(known["modelKind"])
    phase = report.phase if report is not None else WorkloadPhase.CREATING
    shown_phase: str = phase.value
    if gone:
        shown_phase = wire.Phase.DELETED.value
    elif want is DesiredState.DELETE:
        phase = WorkloadPhase.DELETING
        shown_phase = phase.value
    reason = report.reason if report is not None else None
    live = [pod for pod in report.pods if pod.phase is not PodPhase.ENDED] if report is not None else []
    running = sum(pod.phase is PodPhase.RUNNING for pod in live)
    item = {
        **{name: value for name, value in known.items() if name not in UNSHOWN},
        "phase": shown_phase,
        "reason": reason.value if reason is not None else "",
        "phaseMessage": _message(known, want, report),
        "classicStatus": "Deleted" if gone else classic_word(phase, reason, kind),
        "desiredPhase": DESIRED[want].value,
        "phaseSince": iso_or_none(report.since if report is not None else None),
        "startedAt": iso_or_none(started_at(report)),
        "completedAt": iso_or_none(completed_at(report)),
        "runningPods": running,
        "pendingPods": len(live) - running,
        "failedTries": report.failures if report is not None else 0,
        "retriesLeft": _retries_left(known, report),
        "nextTryAt": iso_or_none(report.next_try_at if report is not None and not gone else None),
        "suspendedBy": suspended_by(known) if want is DesiredState.STOP and not gone else None,
        "allocatedResources": _held(held) if held is not None and not gone else {"gpu": 0.0},
        "currentNodes": sorted({pod.node for pod in live if pod.node and pod.phase in HOLDS_DEVICES}),
        "currentNodePools": [report.pool] if report is not None and report.pool else [],
        "urls": known.get("addresses", []) if running and want is DesiredState.RUN and not gone else [],
        "revision": revision,
    }
    return {name: value for name, value in item.items() if value is not None}


def without_taken(item: dict[str, Any], taken: Collection[str]) -> dict[str, Any]:
    """An item without addresses that another workload has: on one machine a port belongs to one of them."""
    shared = [url for url in item["urls"] if url in taken]
    if not shared:
        return item
    ports = ", ".join(url.rpartition(":")[2] for url in shared)
    words = f"port {ports} is used by another job; `runai logs {item['name']}` shows where this one listens"
    urls = [url for url in item["urls"] if url not in taken]
    return {**item, "urls": urls, "phaseMessage": item["phaseMessage"] or words}


def _message(known: Mapping[str, Any], want: DesiredState, report: WorkloadReport | None) -> str:
    by = suspended_by(known) if want is DesiredState.STOP else None
    if by is not None and (report is None or report.reason in (Cause.SUSPENDED, WaitReason.STOPPING)):
        return f"suspended by {by}"
    return report.detail if report is not None else ""


def _retries_left(known: Mapping[str, Any], report: WorkloadReport | None) -> int | None:
    retries = known.get("retries")
    return None if retries is None else max(0, int(retries) - (report.failures if report is not None else 0))


def suspended(known: dict[str, Any], by: str, at: int) -> dict[str, Any]:
    """The facts, with who suspended it and when."""
    return {**known, "suspensions": [*known.get("suspensions", []), [at, by]][-SUSPENSIONS_KEPT:]}


def suspended_by(known: Mapping[str, Any], at: int | None = None) -> str | None:
    """The user who suspended it last, or last before an instant of the cluster; None: not recorded any more."""
    earlier = [by for when, by in known.get("suspensions", []) if at is None or when <= at + CLOCKS_DIFFER_MS]
    return str(earlier[-1]) if earlier else None


def _held(report: WorkloadReport) -> dict[str, float]:
    return {
        "gpu": report.gpus_milli / WHOLE_GPU_MILLI,
        "cpu": report.cpu_milli / 1000,
        "memoryBytes": report.memory_bytes,
    }


def text(item: Mapping[str, Any]) -> str:
    """As JSON, as it is stored and sent."""
    return compact(item)


def detail(item: str, request: str) -> str:
    """Item and details of a workload; concatenated as JSON, because this is requested most often."""
    phase = item.partition('"phase":"')[2].partition('"')[0]
    return f'{item[:-1]},"actualPhase":"{phase}",{request[1:]}'


def details(submit: workload_spec.SubmitAny, spec: WorkloadSpec, submitted_by: str) -> str:
    """What only the details of a workload show."""
    asked = submit.spec.model_dump_json(by_alias=True, exclude_unset=True)
    return details_of(spec.id, submitted_by, submit.command_line, asked)


def details_of(workload: str, submitted_by: str, command_line: str, asked: str) -> str:
    """The same, with the specification as JSON."""
    shown = {"workloadId": workload, "createdBy": submitted_by, "commandLine": command_line}
    return f'{compact(shown)[:-1]},"spec":{asked}}}'


def started_at(report: WorkloadReport | None) -> int | None:
    """When the first of its pods began."""
    starts = [pod.started_at for pod in report.pods if pod.started_at is not None] if report is not None else []
    return min(starts, default=None)


def completed_at(report: WorkloadReport | None) -> int | None:
    return report.since if report is not None and report.phase in FINISHED else None


def event_item(workload_name: str, line: EventReport, known: Mapping[str, Any] = NOTHING) -> wire.EventItem:
    """One line of history."""
    place = place_of(line.workload, line.pod) if line.pod is not None else None
    return wire.EventItem(
        sequence=line.number,
        at=iso(line.at),
        kind=line.kind,
        pod=line.pod,
        pod_name=pod_name(workload_name, *place) if place is not None else line.pod,
        node=line.node,
        cause=line.cause,
        detail=line.detail or _who(known, line.cause, line.at),
        outcome=line.outcome.value if line.outcome else None,
        exit_code=line.exit_code,
    )


def _who(known: Mapping[str, Any], cause: str, at: int) -> str:
    by = suspended_by(known, at) if cause == Cause.SUSPENDED else None
    return f"suspended by {by}" if by is not None else ""


def pod_name(workload_name: str, index: int, incarnation: int) -> str:
    """The name of a pod: `hello-0-2`."""
    return f"{workload_name}-{index}-{incarnation}"


def pod_item(
    workload_name: str,
    report: PodReport,
    seen_at: int,
    since: int,
    current: bool,
    known: Mapping[str, Any] = NOTHING,
) -> wire.PodItem:
    """A pod as the API shows it."""
    return wire.PodItem(
        id=report.id,
        name=pod_name(workload_name, report.index, report.incarnation),
        index=report.index,
        incarnation=report.incarnation,
        phase=report.phase.value,
        node=report.node,
        devices=list(report.devices),
        cause=report.cause.value if report.cause else None,
        detail=report.detail or _who(known, report.cause or "", since),
        outcome=report.outcome.value if report.outcome else None,
        exit_code=report.exit_code,
        trouble=report.trouble,
        created_at=iso(seen_at),
        started_at=iso_or_none(report.started_at),
        since=iso(since),
        current=current,
    )


def with_reports(item: wire.PodItem, reports: Mapping[str, Any]) -> wire.PodItem:
    """A pod with the metrics and parameters that its job reported; invalid values are left out."""
    metrics = {name: float(value) for name, value in _reported(reports, "metrics") if _is_number(value)}
    shown = {
        "metrics": metrics,
        "parameters": {name: str(value)[:REPORT_LENGTH_MAX] for name, value in _reported(reports, "parameters")},
        "progress_percent": _progress_percent(metrics),
    }
    return item.model_copy(update=shown)


def _reported(reports: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    values = reports.get(kind)
    if not isinstance(values, dict):
        return []
    return [(str(name)[:REPORT_LENGTH_MAX], value) for name, value in list(values.items())[:REPORTS_MAX]]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # nor NaN


def _progress_percent(metrics: Mapping[str, float]) -> float | None:
    epoch, overall = metrics.get("epoch"), metrics.get("overall_epochs")
    if epoch is None or overall is None or overall <= 0:
        return None
    return round(100 * min(max(epoch / overall, 0.0), 1.0), 1)

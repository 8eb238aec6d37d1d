"""Workloads and pods as the API shows them, rendered from the rows of the database. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fairpool.api import pod_spec, workload_spec
from fairpool.api import workloads as wire
from fairpool.api.clusters import EventReport, PodReport, WaitReport, WorkloadReport
from fairpool.api.declarations import WorkloadWire
from fairpool.api.gateway_address import GatewayAddress
from fairpool.api.limits import TENANT_ID
from fairpool.api.submit_command import submit_command
from fairpool.api.waiting import WaitCause
from fairpool.api.wire import compact
from fairpool.api.workload_spec import Kind
from fairpool.control.external_ports import Pairs
from fairpool.control.moments import iso, iso_or_none
from fairpool.control.notification_events import NEAR_LIMIT
from fairpool.control.port_exposure import with_services
from fairpool.control.workload_columns import of_run
from fairpool.control.workload_documents import (
    WorkloadDeclaration,
    declaration_of,
    former_name,
    report_of,
    urls_in,
)
from fairpool.model.ids import place_of
from fairpool.model.lifecycle import HOLDS_DEVICES, PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.precedence import class_name, precedence
from fairpool.model.progress import part_done
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import RESTART_RULES, DesiredState, WorkloadSpec
from fairpool.model.status import WaitReason

DESIRED = {
    DesiredState.RUN.value: wire.DesiredPhase.RUNNING.value,
    DesiredState.STOP.value: wire.DesiredPhase.STOPPED.value,
    DesiredState.DELETE.value: wire.DesiredPhase.DELETED.value,
}
"""The desired state as the API spells it, by the word of the column."""
NO_ORIGINS: Mapping[str, str] = {}
REPORTS_MAX, REPORT_LENGTH_MAX = 64, 200
"""Reported values that are shown, and characters of each; a job may report anything."""


def declaration(
    submit: workload_spec.SubmitAny,
    spec: WorkloadSpec,
    *,
    pod_host: str = "",
    external_ports: Pairs = (),
    origins: Mapping[str, str] = NO_ORIGINS,
) -> WorkloadDeclaration:
    """What is stored of a request and the workload that was admitted for it."""
    spec = with_services(spec, submit, external_ports)
    framework = submit.spec.distributed_framework if isinstance(submit, workload_spec.SubmitDistributed) else None
    return WorkloadDeclaration(
        workload=WorkloadWire.of(spec),
        request=submit.spec.model_dump(mode="json", by_alias=True, exclude_unset=True),
        command_line=submit.command_line,
        source=submit.source,
        requested_name=submit.name or "",
        labels=dict(submit.spec.labels),
        framework=framework,
        addresses=addresses(submit, pod_host, external_ports),
        external_ports=external_ports,
        origins=tuple(origins.items()),
    )


def addresses(submit: workload_spec.SubmitAny, pod_host: str, external_ports: Pairs = ()) -> tuple[str, ...]:
    """Ports of its pods that need an address, each once: served by the gateway, or external."""
    served = [each.container for each in submit.spec.ports if each.service_type is pod_spec.ServiceType.INGRESS]
    served += [each.container for each in submit.spec.exposed_urls]
    if isinstance(submit, workload_spec.SubmitInference) and submit.spec.serving_port is not None:
        served.append(submit.spec.serving_port.container)
    external = [f"http://{pod_host}:{port}" for port, _ in external_ports if pod_host]
    found = [*map(str, served), *external]
    return tuple(dict.fromkeys(found))


def shown_urls(row: Any, gateway: GatewayAddress | None) -> list[str]:
    """The addresses that its pods have now, as users reach them."""
    found = urls_in(row.urls)
    base = f"{gateway.url}/{row.name}-" if gateway is not None else ""
    return [f"{base}{each}" if each.isdigit() else each for each in found if base or not each.isdigit()]


def workload_item(
    row: Any, declared: WorkloadDeclaration, last: WorkloadReport | None, gateway: GatewayAddress | None = None
) -> dict[str, Any]:
    """A workload in a list, from its row and its documents."""
    report = of_run(last, row.run)
    is_deleted = row.deleted_at is not None
    pods = report.pods if report is not None and not is_deleted else ()
    live = [pod for pod in pods if pod.phase is not PodPhase.ENDED]
    reason = report.reason if report is not None else None
    by = declared.suspended_by() if row.desired_state == DesiredState.STOP else None
    shown = {
        **_declared_fields(row, declared),
        **_moments(row, declared, report),
        "phase": row.phase,
        "k8sPhase": row.phase,
        "reason": reason.value if reason is not None else "",
        "phaseMessage": _message(by, report, declared.reported_problem),
        "classicStatus": row.status,
        "desiredPhase": DESIRED[row.desired_state],
        "phaseSince": iso_or_none(report.since if report is not None else None),
        "startedAt": iso_or_none(row.started_at),
        "completedAt": iso_or_none(row.completed_at),
        "runningPods": sum(pod.phase is PodPhase.RUNNING for pod in live),
        "pendingPods": sum(pod.phase is not PodPhase.RUNNING for pod in live),
        "failedTries": report.failures if report is not None else 0,
        "retriesLeft": _retries_left(declared.workload, report),
        "wait": _wait(report) if not is_deleted else None,
        "nextTryAt": iso_or_none(report.next_try_at if report is not None and not is_deleted else None),
        "suspendedBy": None if is_deleted else by,
        "allocatedResources": _held(last) if last is not None and not is_deleted else {"gpu": 0.0},
        "currentNodes": sorted({pod.node for pod in live if pod.node and pod.phase in HOLDS_DEVICES}),
        "currentNodePools": [report.pool] if report is not None and report.pool else [],
        "urls": shown_urls(row, gateway),
        "revision": row.revision,
    }
    known = {name: value for name, value in shown.items() if value is not None}
    return known | {"deletedAt": iso_or_none(row.deleted_at)}  # the original's client wants it, if only as null


def _moments(row: Any, declared: WorkloadDeclaration, report: WorkloadReport | None) -> dict[str, str]:
    """When its phase last changed, and when anything about it did, as far as it is known."""
    phase_at = row.deleted_at or (report.since if report is not None else row.created_at)
    latest = max(phase_at, row.created_at, *(when for when, _ in declared.suspensions))
    return {"phaseUpdatedAt": iso(phase_at), "k8sPhaseUpdatedAt": iso(phase_at), "updatedAt": iso(latest)}


CATEGORIES = {Kind.WORKSPACE: "Build", Kind.TRAINING: "Train", Kind.DISTRIBUTED: "Train", Kind.INFERENCE: "Deploy"}


def _declared_fields(row: Any, declared: WorkloadDeclaration) -> dict[str, Any]:
    workload = declared.workload
    shape = workload.template.shape
    rule = precedence(workload.kind, workload.priority, workload.preemptible)
    memory_bytes = shape.memory_bytes * workload.pods
    requested: dict[str, Any] = {
        "gpu": {"request": row.requested_gpus_milli / WHOLE_GPU_MILLI},
        "cpu": {"request": shape.cpu_milli * workload.pods / 1000},
        "cpuMemory": {"request": str(memory_bytes)},
        "memoryBytes": memory_bytes,
    }
    if shape.gpu.memory_mib:
        requested["gpuMemoryMib"] = shape.gpu.memory_mib * shape.gpu.devices * workload.pods
    project, department = former_name(row.project), former_name(row.department)
    return {
        "id": row.id,
        "tenantId": TENANT_ID,
        "name": row.name,
        "type": row.kind,
        "category": CATEGORIES[Kind(row.kind)],
        "namespace": f"runai-{project}",
        "conditions": [],
        "actionsSupport": {"delete": True, "suspend": True},
        "projectId": project,
        "projectName": project,
        "departmentId": department,
        "departmentName": department,
        "clusterId": row.cluster,
        "submittedBy": row.submitted_by,
        "labels": declared.labels,
        "createdAt": iso(row.created_at),
        "requestedPods": {"number": workload.pods},
        "workloadRequestedResources": requested,
        "images": [workload.template.program.image] if workload.template.program.image else [],
        "preemptible": rule.preemptible,
        "priorityClassName": class_name(rule.priority),
        "priority": rule.priority,
        "source": declared.source.value,
        "distributedFramework": declared.framework,
    }


def _message(suspended_by: str | None, report: WorkloadReport | None, problem: str) -> str:
    """`problem`: with its services or other objects beside pods."""
    if suspended_by is not None and (report is None or report.reason in (Cause.SUSPENDED, WaitReason.STOPPING)):
        return f"suspended by {suspended_by}"
    detail = report.detail if report is not None else ""
    return "; ".join(each for each in (detail, problem if problem not in detail else "") if each)


def _wait(report: WorkloadReport | None) -> dict[str, Any] | None:
    """Why the scheduler leaves it waiting."""
    if report is None or report.wait is None:
        return None
    return wait_cause(report.wait).model_dump(mode="json", by_alias=True)


def wait_cause(wait: WaitReport) -> WaitCause:
    """The reported cause as the API shows it."""
    return WaitCause(
        cause=wait.cause,
        pods_waiting=wait.waiting,
        pods_running=wait.running,
        failed_checks=list(wait.failed),
        details=wait.details,
    )


def _retries_left(workload: WorkloadWire, report: WorkloadReport | None) -> int | None:
    retries = RESTART_RULES[workload.kind].retries if workload.retries is None else workload.retries
    return None if retries is None else max(0, retries - (report.failures if report is not None else 0))


def _held(report: WorkloadReport) -> dict[str, float]:
    return {
        "gpu": report.gpus_milli / WHOLE_GPU_MILLI,
        "cpu": report.cpu_milli / 1000,
        "memoryBytes": report.memory_bytes,
    }


def item_text(row: Any, gateway: GatewayAddress | None = None) -> str:
    """A workload in a list, as JSON."""
    return compact(workload_item(row, declaration_of(row), report_of(row), gateway))


def detail_text(row: Any, gateway: GatewayAddress | None = None) -> str:
    """A workload with all its details, as JSON."""
    return _detail_text(row, declaration_of(row), report_of(row), gateway)


def new_detail_text(row: Any, declared: WorkloadDeclaration) -> str:
    """The same of one that was just declared: there is no need to read what was written a moment ago."""
    return _detail_text(row, declared, None, None)


def changed_detail_text(row: Any, declared: WorkloadDeclaration, gateway: GatewayAddress | None) -> str:
    """The same of one whose declaration would be another."""
    return _detail_text(row, declared, report_of(row), gateway)


def _detail_text(
    row: Any, declared: WorkloadDeclaration, last: WorkloadReport | None, gateway: GatewayAddress | None
) -> str:
    details = {
        "actualPhase": row.phase,
        "workloadId": row.id,
        "createdBy": row.submitted_by,
        "requestedName": declared.requested_name or row.name,
        "commandLine": declared.command_line
        or submit_command(row.kind, row.name, former_name(row.project), declared.request),
        "spec": shown_spec(declared.request),
    }
    if declared.changed_fields:
        details["changedFields"] = declared.changed_fields
    if declared.origins:
        details["valueOrigins"] = dict(declared.origins)
    return compact(workload_item(row, declared, last, gateway) | details)


def shown_spec(request: Mapping[str, Any]) -> dict[str, Any]:
    """The specification as it is answered: labels and annotations as lists, which the original's client reads."""
    lists = {
        name: [{"name": key, "value": value} for key, value in request[name].items()]
        for name in ("labels", "annotations")
        if isinstance(request.get(name), Mapping)
    }
    return {**request, **lists}


def accepted_text(detail: str, message: str) -> str:
    """The details of a workload that something is done to, with the outcome as the original's client reads it."""
    outcome = compact({"code": 202, "message": message})
    return f"{detail[:-1]},{outcome[1:]}"


def event_item(row: Any, line: EventReport, declared: WorkloadDeclaration | None = None) -> wire.EventItem:
    """One line of history."""
    workload_name = row.name
    place = place_of(line.workload, line.pod) if line.pod is not None else None
    detail = line.detail or _who(declared, line.cause, line.at)
    has_failed = line.outcome is not None and line.outcome is not Outcome.OK
    is_warning = has_failed or line.kind == NEAR_LIMIT
    return wire.EventItem(
        id=f"{row.cluster}/{line.number}",
        sequence=line.number,
        created_at=iso(line.at),
        type="Warning" if is_warning else "Normal",
        cluster_id=row.cluster,
        reason=line.cause or line.kind,
        message=detail or line.kind,
        at=iso(line.at),
        kind=line.kind,
        pod=line.pod,
        pod_name=pod_name(workload_name, *place) if place is not None else line.pod,
        node=line.node,
        cause=line.cause,
        detail=detail,
        outcome=line.outcome.value if line.outcome else None,
        exit_code=line.exit_code,
    )


def _who(declared: WorkloadDeclaration | None, cause: str, at: int) -> str:
    by = declared.suspended_by(at) if declared is not None and cause == Cause.SUSPENDED else None
    return f"suspended by {by}" if by is not None else ""


def pod_name(workload_name: str, index: int, incarnation: int) -> str:
    """The name of a pod: `hello-0-2`."""
    return f"{workload_name}-{index}-{incarnation}"


def pod_item(
    row: Any, report: PodReport, created_at: int, since: int, current: bool, declared: WorkloadDeclaration
) -> wire.PodItem:
    """A pod as the API shows it, of the workload with this row."""
    workload = declared.workload
    project = former_name(row.project)
    rule = precedence(workload.kind, workload.priority, workload.preemptible)
    container = wire.PodContainer(
        name=row.name, image=workload.template.program.image, started_at=iso_or_none(report.started_at)
    )
    return wire.PodItem(
        id=report.id,
        workload_id=row.id,
        workload_name=row.name,
        project_id=project,
        project_name=project,
        cluster_id=row.cluster,
        priority_class_name=class_name(rule.priority),
        containers=[container],
        k8s_phase=_kubernetes_phase(report),
        k8s_phase_updated_at=iso(since),
        updated_at=iso(since),
        completed_at=iso(since) if report.phase is PodPhase.ENDED else None,
        node_name=report.node,
        name=pod_name(row.name, report.index, report.incarnation),
        index=report.index,
        incarnation=report.incarnation,
        phase=report.phase.value,
        node=report.node,
        devices=list(report.devices),
        cause=report.cause.value if report.cause else None,
        detail=report.detail or _who(declared, report.cause or "", since),
        outcome=report.outcome.value if report.outcome else None,
        exit_code=report.exit_code,
        problem=report.start_failure,
        created_at=iso(created_at),
        started_at=iso_or_none(report.started_at),
        since=iso(since),
        current=current,
    )


def _kubernetes_phase(report: PodReport) -> str:
    """The phase in the words of Kubernetes."""
    match report.phase:
        case PodPhase.ENDED:
            return "Succeeded" if report.outcome is Outcome.OK else "Failed"
        case PodPhase.RUNNING | PodPhase.RELEASING:
            return "Running"
        case _:
            return "Pending"


def history_record(pod: wire.PodItem) -> wire.PodHistoryRecord:
    """A pod of the past or present as a record of the original's history."""
    ended = f" ({pod.cause or pod.outcome or 'ended'})" if pod.phase == PodPhase.ENDED.value else ""
    happened = wire.PodHistoryEvent(
        created_at=pod.created_at,
        type="Warning" if pod.k8s_phase == "Failed" else "Normal",
        cluster_id=pod.cluster_id,
        reason=pod.phase,
        message=f"pod {pod.name}: {pod.phase}{ended}",
    )
    return wire.PodHistoryRecord(
        meta=wire.PodHistoryMeta(creation_timestamp=pod.created_at), spec=wire.PodHistorySpec(event=happened)
    )


def with_reports(pod: wire.PodItem, reports: Mapping[str, Any]) -> wire.PodItem:
    """A pod with the metrics and parameters that its job reported; invalid values are left out."""
    metrics = {name: float(value) for name, value in _reported(reports, "metrics") if _is_number(value)}
    shown = {
        "metrics": metrics,
        "parameters": {name: str(value)[:REPORT_LENGTH_MAX] for name, value in _reported(reports, "parameters")},
        "progress_percent": _progress_percent(metrics),
    }
    return pod.model_copy(update=shown)


def _reported(reports: Mapping[str, Any], kind: str) -> list[tuple[str, Any]]:
    values = reports.get(kind)
    if not isinstance(values, dict):
        return []
    return [(str(name)[:REPORT_LENGTH_MAX], value) for name, value in list(values.items())[:REPORTS_MAX]]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300  # nor NaN


def _progress_percent(metrics: Mapping[str, float]) -> float | None:
    done = part_done(metrics)
    return None if done is None else round(100 * done, 1)

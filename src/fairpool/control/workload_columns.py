"""Columns of a workload that follow from its declaration and its last report. Pure."""

from __future__ import annotations

from typing import Any

from fairpool.api import workloads as wire
from fairpool.api.clusters import WorkloadReport
from fairpool.control.workload_documents import WorkloadDeclaration, text_of_urls
from fairpool.model.lifecycle import PodPhase
from fairpool.model.spec import DesiredState
from fairpool.model.status import WorkloadPhase, classic_word

FINISHED = frozenset({WorkloadPhase.COMPLETED, WorkloadPhase.FAILED})


def of_run(report: WorkloadReport | None, run: int) -> WorkloadReport | None:
    """A report if it is about this run: what was said about an earlier one is no longer so."""
    return report if report is not None and report.run >= run else None


def column_values(
    declaration: WorkloadDeclaration, last: WorkloadReport | None, *, is_deleted: bool = False
) -> dict[str, Any]:
    """Phase, status and figures, for lists. What the pods of an earlier run still hold counts."""
    workload = declaration.workload
    report = of_run(last, workload.run)
    phase = report.phase if report is not None else WorkloadPhase.CREATING
    if workload.desired_state is DesiredState.DELETE:
        phase = WorkloadPhase.DELETING
    reason = report.reason if report is not None else None
    deleted = wire.Phase.DELETED.value
    return {
        "phase": deleted if is_deleted else phase.value,
        "status": deleted if is_deleted else classic_word(phase, reason, workload.kind),
        "allocated_gpus_milli": 0 if last is None or is_deleted else last.gpus_milli,
        "running_pods": 0 if is_deleted else running_pods(report),
        "started_at": started_at(report),
        "completed_at": report.since if report is not None and report.phase in FINISHED else None,
    }


def running_pods(report: WorkloadReport | None) -> int:
    return sum(pod.phase is PodPhase.RUNNING for pod in report.pods) if report is not None else 0


def started_at(report: WorkloadReport | None) -> int | None:
    """When the first of its pods began."""
    starts = [pod.started_at for pod in report.pods if pod.started_at is not None] if report is not None else []
    return min(starts, default=None)


def has_addresses(declaration: WorkloadDeclaration, running: int) -> bool:
    """Whether its ports can be reached now."""
    return bool(declaration.reached_at()) and running > 0 and declaration.workload.desired_state is DesiredState.RUN


def urls(declaration: WorkloadDeclaration, now: dict[str, Any]) -> str | None:
    """The addresses that its running pods have, as the column holds them; `now` are its columns from now on."""
    return text_of_urls(declaration.reached_at()) if has_addresses(declaration, now["running_pods"]) else None

"""Which fields of a workload can be changed after it was submitted, and from when a change holds. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from fairpool.api import workload_spec as wire
from fairpool.api.clusters import WorkloadReport
from fairpool.api.problems import ProblemItem
from fairpool.model.lifecycle import PodPhase
from fairpool.model.precedence import precedence
from fairpool.model.spec import DesiredState, WorkloadSpec
from fairpool.model.status import WorkloadPhase

AT_ONCE = frozenset(
    {
        "labels",
        "annotations",
        "priorityClass",
        "preemptibility",
        "backoffLimit",
        "restartPolicy",
        "deadlineSeconds",
        "autoDeletionTimeAfterCompletionSeconds",
        "terminationGracePeriodSeconds",
        "completions",
        "parallelism",
        "autoscaling",
    }
)
"""Fields whose change holds for pods that run. All others are read when a pod is started."""
NEVER = {
    "after": "it depends on other jobs only until it has started",
    "array": "the runs of an array are numbered when it is submitted",
    "workdir": "the folder was uploaded with the job",
    "distributedFramework": "it decides how the pods find each other",
}
"""Fields that stay as they were submitted, and why. (Templates refuse a change of `template` themselves.)"""
PLACING = frozenset({"autoscaling", "completions", "parallelism", "preemptibility", "priorityClass"})
"""Fields of `AT_ONCE` that decide whether it can start."""
STARTED = frozenset({PodPhase.BOUND, PodPhase.RUNNING})


class ChangeWindow(Enum):
    """What a workload does when it is changed."""

    WAITING = "waiting"
    RUNNING = "running"
    STOPPED = "stopped"
    """Suspended, or failed: it starts anew when it is resumed."""
    COMPLETED = "completed"
    DELETING = "deleting"


def change_window(desired: DesiredState, report: WorkloadReport | None) -> ChangeWindow:
    """`report`: what its cluster reported last about its current run."""
    if desired is DesiredState.DELETE:
        return ChangeWindow.DELETING
    if report is not None and report.phase is WorkloadPhase.COMPLETED:
        return ChangeWindow.COMPLETED
    if desired is DesiredState.STOP:
        return ChangeWindow.STOPPED
    if report is not None and report.phase in (WorkloadPhase.FAILED, WorkloadPhase.STOPPED):
        return ChangeWindow.STOPPED
    has_started = report is not None and any(pod.phase in STARTED for pod in report.pods)
    return ChangeWindow.RUNNING if has_started else ChangeWindow.WAITING


@dataclass(frozen=True, slots=True)
class FieldChanges:
    """The fields of a workload that a request changes."""

    name: str
    kind: wire.Kind
    window: ChangeWindow
    fields: frozenset[str]

    @property
    def at_start(self) -> list[str]:
        """Those that are read when a pod is started."""
        return sorted(self.fields - AT_ONCE)

    @property
    def may_keep_it_from_starting(self) -> bool:
        return bool(self.fields - (AT_ONCE - PLACING))

    def problems(self, before: WorkloadSpec, after: WorkloadSpec) -> list[ProblemItem]:
        """Why they cannot be changed now."""
        found = [
            ProblemItem(
                code="workload.fixed",
                what=f"{each} cannot be changed: {why}",
                fix="submit another job",
                field=f"spec.{each}",
            )
            for each, why in NEVER.items()
            if each in self.fields
        ]
        if self.window is not ChangeWindow.RUNNING:
            return found
        fixed: Collection[str] = [] if self.kind is wire.Kind.INFERENCE else self.at_start
        found += [self._while_running(each) for each in fixed if each not in NEVER]
        if _is_preemptible(before) and not _is_preemptible(after):
            # It may hold more than its project's quota, which only preemptible work may.
            field = "preemptibility" if "preemptibility" in self.fields else "priorityClass"
            found.append(self._while_running(field, "so that it is no longer preemptible "))
        return found

    def _while_running(self, field: str, how: str = "") -> ProblemItem:
        return ProblemItem(
            code="workload.runs",
            what=f"{field} cannot be changed {how}while {self.name} runs",
            fix=f"suspend it first: runai suspend {self.name}; then update it, and runai resume {self.name}",
            field=f"spec.{field}",
        )

    def warnings(self) -> list[str]:
        """What a user has to know about a change that was made."""
        if not self.at_start or self.window is ChangeWindow.STOPPED:
            return []
        listed = ", ".join(self.at_start)
        if self.window is ChangeWindow.RUNNING:
            restart = f"runai suspend {self.name}, then runai resume {self.name}"
            return [f"pods that run keep the former {listed} until their next start; to restart them now: {restart}"]
        return [f"{listed}: a pod that has started in the meantime keeps the former value until its next start"]


def _is_preemptible(spec: WorkloadSpec) -> bool:
    return precedence(spec.kind, spec.priority, spec.preemptible).preemptible

"""What Kubernetes events say about workloads: why each one waits, and why pods and workloads were stopped.

The words are those of `runai why`. Called by the loop's thread, so it looks only at what has changed, and not in every
cycle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fairpool.api.clusters import WorkloadReport
from fairpool.cluster.history import Event, EventKind
from fairpool.engines.kubernetes.events import EventNote, workload_subject
from fairpool.model.ids import QueueId, WorkloadId
from fairpool.model.mentions import redacted
from fairpool.model.pod_record import EVICTIONS, Cause
from fairpool.model.spec import WorkloadSpec
from fairpool.model.status import WaitReason, WorkloadPhase

LOOK_S = 2.0
REPEAT_S = 1800.0
"""The API server forgets events after an hour; a workload may wait longer."""
WAITS: Mapping[object, str] = {
    WaitReason.QUEUED: "FailedScheduling",
    WaitReason.DEPENDENCY: "WaitingForWorkload",
    WaitReason.BACK_OFF: "BackOff",
    WaitReason.IMAGE: "ImagePullBackOff",
}
"""Reasons of events, as people know them from Kubernetes where it has the same."""
STOPS = {
    Cause.DELETED.value: "the workload was deleted",
    Cause.SUSPENDED.value: "the workload was suspended",
    Cause.FINISHED.value: "the workload is done",
}
"""What people want, in words; other causes bring their own."""
PHASES = frozenset(phase.value for phase in WorkloadPhase)
EVICTED = frozenset(cause.value for cause in EVICTIONS)


class WorkloadEvents:
    """Notes events of one cluster."""

    def __init__(
        self,
        note: Callable[[EventNote], None],
        namespace: Callable[[QueueId], str],
        steady: Callable[[], float],
    ) -> None:
        """`namespace`: where the events of a project go."""
        self._note, self._namespace, self._steady = note, namespace, steady
        self._looked_at = self._repeated_at = steady()
        self._waiting: dict[WorkloadId, WorkloadReport | None] = {}
        """Workloads that were waiting at the last look; None: for the first time, which may end at once."""

    def look(self, reports: Mapping[WorkloadId, WorkloadReport], specs: Mapping[WorkloadId, WorkloadSpec]) -> None:
        """Note why workloads wait, unless that was noted."""
        now_s = self._steady()
        if now_s < self._looked_at + LOOK_S:
            return
        self._looked_at = now_s
        if now_s >= self._repeated_at + REPEAT_S:
            self._repeated_at = now_s
            self._waiting = dict.fromkeys(self._waiting)
        before, self._waiting = self._waiting, {}
        for workload, report in reports.items():
            if report.phase is not WorkloadPhase.PENDING or report.reason not in WAITS:
                continue
            spec = specs.get(workload)
            is_new = workload not in before
            if spec is not None and not is_new and before[workload] is not report:
                self._note_wait(spec, report)
            self._waiting[workload] = None if is_new else report

    def take(self, event: Event, spec: WorkloadSpec | None) -> None:
        """Note why a pod is stopped, or that a workload is over."""
        if spec is None or event.kind not in (EventKind.RELEASING, EventKind.HALTED):
            return
        words = _readable(event.detail, spec.project)
        if event.kind is EventKind.RELEASING and event.pod is not None:
            message = "; ".join(filter(None, (STOPS.get(event.cause, ""), words))) or event.cause
            is_warning = event.cause not in EVICTED and event.cause not in STOPS
            self._note(EventNote(about=event.pod, reason=_word(event.cause), message=message, is_warning=is_warning))
        elif event.kind is EventKind.HALTED:
            phase, _, why = words.partition(": ")  # as the loop writes it
            is_warning = phase == WorkloadPhase.FAILED.value
            reason = phase if phase in PHASES else _word(event.cause)
            about = workload_subject(spec.id, spec.name, self._namespace(spec.project))
            message = why or STOPS.get(event.cause, event.cause)
            self._note(EventNote(about=about, reason=reason, message=message, is_warning=is_warning))

    def note_problem(self, spec: WorkloadSpec, words: str) -> None:
        """Note what is wrong with the services or other objects of a workload."""
        about = workload_subject(spec.id, spec.name, self._namespace(spec.project))
        self._note(EventNote(about=about, reason="FailedEquipment", message=words, is_warning=True))

    def _note_wait(self, spec: WorkloadSpec, report: WorkloadReport) -> None:
        about = workload_subject(spec.id, spec.name, self._namespace(spec.project))
        message = _readable(report.detail, spec.project)
        self._note(EventNote(about=about, reason=WAITS[report.reason], message=message, is_warning=True))


def _readable(text: str, project: QueueId) -> str:
    """For readers of the namespace of one project."""
    return redacted(text, lambda named: named == project)


def _word(cause: str) -> str:
    """A cause as the reason of an event: `NodeLost`."""
    return "".join(part.capitalize() for part in cause.split("-")) or "Stopped"

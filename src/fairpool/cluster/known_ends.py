"""What is known about the ends of running work: time limits, and the progress that jobs report."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from fairpool.cluster.expected_start import Expectations, KnownEnd, end_by_limit, end_by_progress
from fairpool.cluster.forecast import SpecOf
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.workload_end import limit_s, time_limits
from fairpool.cluster.workload_state import WorkloadState
from fairpool.model.ids import GroupId, Instant, PodId, QueueId, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import ProjectRules
from fairpool.model.progress import part_done
from fairpool.model.workload import PodGroup
from fairpool.scheduler.snapshot import Snapshot

READ_MAX: Final = 500
"""Jobs whose progress is read for one answer."""

Reports = Callable[[PodId], Mapping[str, Any]]
"""What a job reports about itself."""


class KnownEnds:
    """The ends of the work of one cluster. Every function may be called from any thread."""

    def __init__(
        self,
        spec_of: SpecOf,
        state_of: Callable[[WorkloadId], WorkloadState | None],
        rules_of: Callable[[QueueId], ProjectRules],
        reports: Reports,
    ) -> None:
        self._spec_of, self._state_of, self._rules_of, self._reports = spec_of, state_of, rules_of, reports

    def of(self, snapshot: Snapshot, now: Instant) -> Expectations:
        """Of the groups that run in a snapshot."""
        first: dict[GroupId, PodId] = {}
        for pod in snapshot.pods:
            if pod.phase is PodPhase.RUNNING:
                first[pod.group] = min(first.get(pod.group, pod.id), pod.id)
        ends = {}
        for number, group in enumerate(each for each in snapshot.groups if each.id in first):
            end = self._end(group, first[group.id] if number < READ_MAX else None, now)
            if end is not None:
                ends[group.id] = end
        return Expectations(ends, self._length_s)

    def _end(self, group: PodGroup, pod: PodId | None, now: Instant) -> KnownEnd | None:
        workload = workload_of(group.id)
        spec, state = self._spec_of(workload), self._state_of(workload)
        if spec is None or state is None:
            return None
        limits = [halt.at for halt in time_limits(spec, state, self._rules_of(spec.project))]
        limit = min(limits, default=None)
        metrics = self._reports(pod).get("metrics") if pod is not None else None
        done = part_done(metrics) if isinstance(metrics, Mapping) else None
        if done is not None and group.started_at is not None:
            end = end_by_progress(done, group.started_at, now, limit)
            if end is not None:
                return end
        return None if limit is None else end_by_limit(limit)

    def _length_s(self, group: GroupId) -> int | None:
        spec = self._spec_of(workload_of(group))
        return None if spec is None else limit_s(spec, self._rules_of(spec.project))

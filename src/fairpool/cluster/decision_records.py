"""Records of the decisions in a plan, one for each workload and kind. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from fairpool.cluster.history import EventKind
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.wait_report import queue_mention
from fairpool.model.decision_record import DecisionKind, DecisionRecord, QueueState
from fairpool.model.ids import GroupId, NodeName, PodId, QueueId, WorkloadId
from fairpool.model.quantity import UNLIMITED
from fairpool.scheduler.decision import Bind, Evict, Plan, Promise, QueueFigures, Withdraw
from fairpool.scheduler.policy import Pass

D = TypeVar("D", Bind, Evict, Promise, Withdraw)

Key = tuple[WorkloadId, EventKind]
"""The first event of this kind, of this workload, carries the decision."""
EVENTS: Mapping[DecisionKind, EventKind] = {
    DecisionKind.STARTED: EventKind.BOUND,
    DecisionKind.LENT: EventKind.BOUND,
    DecisionKind.PROMISED: EventKind.PROMISED,
    DecisionKind.TAKEN_BACK: EventKind.RELEASING,
    DecisionKind.PREEMPTED: EventKind.RELEASING,
    DecisionKind.MOVED: EventKind.RELEASING,
    DecisionKind.STOPPED: EventKind.RELEASING,
    DecisionKind.WITHDRAWN: EventKind.WITHDRAWN,
}


class DecisionRecords:
    """What one plan decides, as records."""

    def __init__(
        self,
        plan: Plan,
        project_of: Callable[[WorkloadId], QueueId],
        gpus_of: Callable[[WorkloadId, PodId, NodeName], int],
        name_of: Callable[[QueueId, GroupId | None], str | None],
    ) -> None:
        """`gpus_of`: GPUs of a pod on a node, in thousandths; `name_of`: a group as readers of a project see it."""
        self._plan, self._project_of, self._gpus_of, self._name_of = plan, project_of, gpus_of, name_of
        self._figures = {each.queue: each for each in plan.queues}

    def made(self) -> dict[Key, DecisionRecord]:
        """By the event that carries each."""
        found = [*self._starts(), *self._evictions(), *self._promises(), *self._withdrawals()]
        return {(workload, EVENTS[record.kind]): record for workload, record in found}

    def _starts(self) -> Iterable[tuple[WorkloadId, DecisionRecord]]:
        """What is bound first counts as within quota, as far as it reaches."""
        by_workload = _by_workload(self._plan.binds)
        gpus = {workload: self._gpus(workload, binds) for workload, binds in by_workload.items()}
        bound: Counter[QueueId] = Counter()
        for workload, amount in gpus.items():
            bound[self._project_of(workload)] += amount
        in_quota = {queue: amount - self._over(queue, amount) for queue, amount in bound.items()}
        for workload, binds in by_workload.items():
            queue = self._project_of(workload)
            owed = min(gpus[workload], in_quota[queue])
            in_quota[queue] -= owed
            lent = gpus[workload] - owed
            yield workload, self._record(DecisionKind.LENT if lent else DecisionKind.STARTED, workload, binds, lent)

    def _over(self, queue: QueueId, bound: int) -> int:
        """How much of what a queue gets is beyond its quota."""
        figures = self._figures.get(queue)
        if figures is None or figures.quota_milli == UNLIMITED:
            return 0
        return min(bound, max(figures.held_milli - figures.quota_milli, 0))

    def _evictions(self) -> Iterable[tuple[WorkloadId, DecisionRecord]]:
        for workload, evictions in _by_workload(self._plan.evictions).items():
            reason = evictions[0].reason
            project = self._project_of(workload)
            record = self._record(_kind(evictions[0]), workload, evictions)
            yield (
                workload,
                DecisionRecord(
                    kind=record.kind,
                    pods=record.pods,
                    gpus_milli=record.gpus_milli,
                    nodes=record.nodes,
                    project=record.project,
                    winner=self._name_of(project, reason.winner) or "",
                    wanted_milli=reason.wanted_milli,
                    taken=_state(reason.taken, project),
                    gaining=_state(reason.gaining, project),
                ),
            )

    def _promises(self) -> Iterable[tuple[WorkloadId, DecisionRecord]]:
        """Without those of pods that move, which are in their eviction."""
        moved = {each.pod for each in self._plan.evictions}
        new = [each for each in self._plan.promises if each.pod not in moved]
        for workload, promises in _by_workload(new).items():
            yield workload, self._record(DecisionKind.PROMISED, workload, promises)

    def _withdrawals(self) -> Iterable[tuple[WorkloadId, DecisionRecord]]:
        for workload, withdrawals in _by_workload(self._plan.withdrawals).items():
            yield workload, self._record(DecisionKind.WITHDRAWN, workload, withdrawals)

    def _record(
        self,
        kind: DecisionKind,
        workload: WorkloadId,
        decided: Sequence[Bind | Evict | Promise | Withdraw],
        lent_milli: int = 0,
    ) -> DecisionRecord:
        project = self._project_of(workload)
        return DecisionRecord(
            kind=kind,
            pods=len(decided),
            gpus_milli=self._gpus(workload, decided),
            lent_milli=lent_milli,
            nodes=tuple(sorted({each.node for each in decided})),
            project=_state(self._figures.get(project), project),
        )

    def _gpus(self, workload: WorkloadId, decided: Sequence[Bind | Evict | Promise | Withdraw]) -> int:
        return sum(self._gpus_of(workload, each.pod, each.node) for each in decided)


def _by_workload(decided: Iterable[D]) -> dict[WorkloadId, list[D]]:
    found: dict[WorkloadId, list[D]] = {}
    for each in decided:
        found.setdefault(workload_of(each.group), []).append(each)
    return found


def _kind(evict: Evict) -> DecisionKind:
    reason = evict.reason
    if reason.by is Pass.STALE:
        return DecisionKind.STOPPED
    if reason.moved_to is not None:
        return DecisionKind.MOVED
    return DecisionKind.TAKEN_BACK if reason.by is Pass.RECLAIM else DecisionKind.PREEMPTED


def _state(figures: QueueFigures | None, project: QueueId) -> QueueState | None:
    if figures is None:
        return None
    return QueueState(
        queue=queue_mention(figures.queue, project),
        quota_milli=figures.quota_milli,
        fair_share_milli=figures.fair_share_milli,
        held_milli=figures.held_milli,
    )

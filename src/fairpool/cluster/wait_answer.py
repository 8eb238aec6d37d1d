"""The answer to why a workload waits: verdict, checks, share, what would change it, expected start; of one snapshot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fairpool.api import waiting as wire
from fairpool.cluster.expected_start import Expectations, ExpectedStart, Undecided, expected_start
from fairpool.cluster.forecast import SpecOf
from fairpool.cluster.moment_text import moment_text
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.pool_shares import pool_shares
from fairpool.cluster.remedies import Effect, Remedy, RemedyKind, remedies
from fairpool.cluster.wait_report import wait_report
from fairpool.model.ids import GroupId, Instant, PoolName, QueueId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.organization import name_of_queue
from fairpool.model.precedence import gpus_charged_milli
from fairpool.model.quantity import UNLIMITED, WHOLE_GPU_MILLI, gpus_text
from fairpool.model.spec import WorkloadSpec
from fairpool.scheduler.checks import Checked, SchedulerCheck, checks
from fairpool.scheduler.decision import OverLimit, Plan, Resource, Verdict
from fairpool.scheduler.explain import explain, names_for
from fairpool.scheduler.snapshot import Snapshot

NOTHING_WAITS = "the scheduler has no waiting pods of it"


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """A pool, what was decided for it, and what is known about ends there."""

    snapshot: Snapshot
    plan: Plan
    known: Callable[[], Expectations]
    """Reads what running jobs report, so it is asked for only where it counts."""


def wait_answer(
    spec: WorkloadSpec,
    pools: Mapping[PoolName, PlannedPool],
    now: Instant,
    spec_of: SpecOf,
    *,
    with_changes: bool,
    has_time: Callable[[], bool] = lambda: True,
) -> wire.WorkloadWait:
    """Why a workload waits. What takes planning is answered as far as there is time for it."""
    for pool, planned in sorted(pools.items()):
        groups = sorted(each for each in planned.plan.verdicts if workload_of(each) == spec.id)
        if groups:
            return _Waiting(spec, pool, pools, groups, spec_of, now, has_time).answer(with_changes=with_changes)
    return wire.WorkloadWait(workload_id=spec.id, taken_at=moment_text(now), waits=False, message=NOTHING_WAITS)


class _Waiting:
    def __init__(
        self,
        spec: WorkloadSpec,
        pool: PoolName,
        pools: Mapping[PoolName, PlannedPool],
        groups: list[GroupId],
        spec_of: SpecOf,
        now: Instant,
        has_time: Callable[[], bool],
    ) -> None:
        self.spec, self.pool, self.pools, self.groups, self.spec_of = spec, pool, pools, groups, spec_of
        self.now, self.has_time = now, has_time
        self.planned = pools[pool]
        self.verdict: Verdict = self.planned.plan.verdicts[groups[0]]

    def answer(self, *, with_changes: bool) -> wire.WorkloadWait:
        report = wait_report(self.verdict, self.spec.project)
        estimated = self._estimated()  # first, while there is time
        return wire.WorkloadWait(
            workload_id=self.spec.id,
            taken_at=moment_text(self.now),
            planned_at=moment_text(self.planned.snapshot.now),
            waits=True,
            message=explain(self.verdict, called=names_for(self.spec.project)),
            node_pool=self.pool,
            groups_waiting=len(self.groups),
            cause=wire.WaitCause(
                cause=report.cause,
                pods_waiting=report.waiting,
                pods_running=report.running,
                failed_checks=list(report.failed),
                details=dict(report.details),
            ),
            checks=[self._check(each) for each in checks(self.verdict)],
            share=self._share(),
            changes=self._changes() if with_changes else [],
            **estimated,
        )

    def _check(self, checked: Checked) -> wire.WaitCheck:
        figures = {name: value for name, value in self._figures.get(checked.check, {}).items() if value is not None}
        return wire.WaitCheck.model_validate(
            {"check": checked.check.value, "state": checked.state.value, "figures": figures}
        )

    @cached_property
    def _figures(self) -> Mapping[SchedulerCheck, Mapping[str, float | None]]:
        """What each check compares, from the same snapshot and plan."""
        snapshot, group = self.planned.snapshot, self.groups[0]
        row = next(each for each in snapshot.groups if each.id == group)
        mine = [pod for pod in snapshot.pods if pod.group == group]
        waiting = [pod for pod in mine if pod.phase is PodPhase.WAITING]
        pool = pool_shares(snapshot, self.planned.plan)
        share = next((each for each in pool.projects if each.queue == self.spec.project), None)
        asked = _gpus(sum(gpus_charged_milli(pod.shape.gpu) for pod in waiting))
        capacity = pool.capacity_milli
        bounds: dict[str, float | None] = {"asked": asked}
        if share is not None:
            bounds |= {
                "held": _gpus(share.allocated_milli),
                "quota": _gpus(share.quota_milli),
                "limit": _gpus(share.limit_milli),
                "fairShare": _gpus(share.fair_share_milli),
            }
        return {
            SchedulerCheck.PODS: {
                "needed": float(sum(each.minimum for each in row.tree.all_pod_sets())),
                "exist": float(len(mine)),
            },
            SchedulerCheck.LIMITS: {name: bounds.get(name) for name in ("asked", "held", "limit")},
            SchedulerCheck.NODES: {"nodes": float(len(snapshot.nodes))},
            SchedulerCheck.CAPACITY: {"asked": asked, "capacity": _gpus(capacity)},
            SchedulerCheck.ROOM: {"asked": asked, "free": _gpus(pool.free_milli)},
            SchedulerCheck.RECLAIM: {name: bounds.get(name) for name in ("asked", "held", "quota", "fairShare")},
        }

    def _share(self) -> wire.WaitShare | None:
        mine = next((each for each in self.planned.plan.queues if each.queue == self.spec.project), None)
        if mine is None:
            return None
        return wire.WaitShare(
            quota=None if mine.quota_milli == UNLIMITED else mine.quota_milli / WHOLE_GPU_MILLI,
            fair_share=mine.fair_share_milli / WHOLE_GPU_MILLI,
            allocated=mine.held_milli / WHOLE_GPU_MILLI,
        )

    def _estimated(self) -> dict[str, Any]:
        """The expected start, and whether there is one."""
        try:
            found = self._expected()
        except Undecided:
            return {"estimate": "not-computed"}
        return {"estimate": "no-basis"} if found is None else {"estimate": "given", "expected_start": found}

    def _expected(self) -> wire.StartEstimate | None:
        if self.verdict.running:
            return None  # it has started, and waits to grow
        snapshot = self.planned.snapshot
        at_present = replace(snapshot, now=max(self.now, snapshot.now))  # nothing has changed since, but time
        found = expected_start(at_present, self.groups[0], self.planned.known(), self.has_time)
        return None if found is None else _estimate(found)

    def _changes(self) -> list[wire.WaitChange]:
        snapshots = {name: each.snapshot for name, each in self.pools.items()}
        found = remedies(self.pool, snapshots, self.groups[0], self.verdict, self.has_time)
        return [self._change(each) for each in found]

    def _change(self, remedy: Remedy) -> wire.WaitChange:
        counts = remedy.kind in (RemedyKind.FEWER_PODS, RemedyKind.RETURN_NODES)
        before, after = (
            None if each is None else float(each) if counts else each / WHOLE_GPU_MILLI
            for each in (remedy.before_milli, remedy.after_milli)
        )
        return wire.WaitChange.model_validate(
            {
                "kind": remedy.kind.value,
                "by": "administrator" if remedy.by_administrator else "user",
                "message": self._sentence(remedy),
                "subject": self._subject(remedy),
                "before": before,
                "after": after,
                "effect": remedy.effect.value,
                "victims": remedy.victims,
            }
        )

    def _subject(self, remedy: Remedy) -> str:
        if remedy.kind in (RemedyKind.STOP_OWN, RemedyKind.FEWER_GPUS, RemedyKind.FEWER_PODS, RemedyKind.PREEMPTIBLE):
            other = self.spec_of(workload_of(GroupId(remedy.subject)))
            return other.name if other is not None else remedy.subject
        return remedy.subject

    def _sentence(self, remedy: Remedy) -> str:
        """In words; of what is changed only names of its own project and of departments are in it."""
        words = self._words(remedy)
        return f"{words}: no gain" if remedy.effect is Effect.NONE else words

    def _words(self, remedy: Remedy) -> str:
        before, after = (self._amount(each) for each in (remedy.before_milli, remedy.after_milli))
        others = (remedy.before_milli or 1) - 1
        texts = {
            RemedyKind.STOP_OWN: f"stop {self._subject(remedy)}, which holds {before}",
            RemedyKind.FEWER_GPUS: f"request {after} per pod instead of {before}",
            RemedyKind.FEWER_PODS: f"request {remedy.after_milli} pods instead of {remedy.before_milli}",
            RemedyKind.PREEMPTIBLE: "submit it as preemptible",
            RemedyKind.OTHER_POOL: f"submit it to node pool {remedy.subject}",
            RemedyKind.RAISE_QUOTA: f"raise the quota of {_queue_words(remedy.subject)} from {before} to {after}",
            RemedyKind.RAISE_LIMIT: f"raise the limit of {_queue_words(remedy.subject)} from {before} to {after}",
            RemedyKind.RETURN_NODES: f"put node {remedy.subject}{f' and {others} more' if others else ''} "
            "back into service",
        }
        return texts[remedy.kind]

    def _amount(self, amount: int | None) -> str:
        why = self.verdict.why
        if amount is None:
            return ""
        if isinstance(why, OverLimit) and why.resource is Resource.MEMORY:
            return f"{amount / 10**9:.3g} GB"
        unit = "CPU" if isinstance(why, OverLimit) and why.resource is Resource.CPU else "GPU"
        return f"{gpus_text(amount)} {unit}" + ("" if 0 < amount <= WHOLE_GPU_MILLI else "s")


def _gpus(milli: int) -> float | None:
    return None if milli == UNLIMITED else milli / WHOLE_GPU_MILLI


def _queue_words(queue: str) -> str:
    name = name_of_queue(QueueId(queue))
    return f"project {name}" if name == queue else f"department {name}"


def _estimate(found: ExpectedStart) -> wire.StartEstimate:
    return wire.StartEstimate.model_validate(
        {
            "expected_at": moment_text(found.at),
            "earliest_at": None if found.earliest is None else moment_text(found.earliest),
            "latest_at": None if found.latest is None else moment_text(found.latest),
            "basis": [each.value for each in found.bases],
            "waits_for": len({workload_of(each) for each in found.waits_for}),
        }
    )

"""Answers to questions about what the scheduler would do, from the latest snapshots.

Called in a thread that is not the loop's: what is read here is immutable, and the loop waits for none of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial

from fairpool.api import questions as wire
from fairpool.api.shares import ClusterShares
from fairpool.api.waiting import WorkloadWait
from fairpool.cluster.cycle_ring import CycleRing
from fairpool.cluster.expected_start import Expectations
from fairpool.cluster.forecast import Forecast, SpecOf, sentence, would_start
from fairpool.cluster.known_ends import KnownEnds
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.cluster.moment_text import moment_text
from fairpool.cluster.pod_slots import workload_of
from fairpool.cluster.pool_shares import pool_shares
from fairpool.cluster.wait_answer import PlannedPool, wait_answer
from fairpool.model.ids import GroupId, Instant, PoolName, WorkloadId
from fairpool.model.mentions import ANOTHER_PROJECT, WORK_OF_ANOTHER, mention
from fairpool.model.problem import Problem
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import WorkloadSpec
from fairpool.model.spelling import unknown_name
from fairpool.replay.planned import Replay, counts, differing_outcomes, replay
from fairpool.replay.whatif import Changes, apply_changes
from fairpool.scheduler.decision import Plan, QueueFigures
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import to_bytes

TRIES_S = 3.0
"""How long changes and future ends are planned for one answer; the plan that is under way is finished."""
DRAFT_TRIES_S = 0.15
"""The same for work that is not submitted yet: a form asks again with every field that is filled in."""


class QuestionProblem(Exception):
    """The question cannot be answered; `problems` say why."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = problems


class Questions:
    """The answers of one cluster."""

    def __init__(
        self,
        live: LiveSnapshots,
        spec_of: SpecOf,
        clock: Callable[[], Instant],
        ring: CycleRing | None = None,
        ends: KnownEnds | None = None,
    ) -> None:
        """`spec_of` gives the declaration of a workload, from any thread. Without `ends` nothing is known about when
        running work ends."""
        self._live, self._spec_of, self._clock, self._ring, self._ends = live, spec_of, clock, ring, ends

    def answer(self, text: bytes) -> bytes | Problem:
        """The answer to a question as the control plane sends it."""
        question = wire.read_question(text)
        if isinstance(question, Problem):
            return question
        try:
            return self._answer(question)
        except QuestionProblem as error:
            first, *more = error.problems
            return first if not more else Problem(first.code, "; ".join(map(str, error.problems)), "")

    def _answer(self, question: wire.Question) -> bytes:
        match question:
            case wire.WouldStart():
                return self._would_start(question.workload.to_spec()).model_dump_json(by_alias=True).encode()
            case wire.SnapshotQuestion():
                return self._snapshot_file(question)
            case wire.WhatIf():
                return self._what_if(question).model_dump_json(by_alias=True).encode()
            case wire.PastCycles():
                return self._past_cycles().model_dump_json(by_alias=True).encode()
            case wire.WhyWaiting():
                return self._why_waiting(question).model_dump_json(by_alias=True).encode()
            case wire.SharesQuestion():
                return self._shares().model_dump_json(by_alias=True).encode()

    # --- would it start ---

    def _would_start(self, spec: WorkloadSpec) -> wire.StartForecast:
        now = self._clock()
        forecast = would_start(spec, self._snapshots(), now)
        if isinstance(forecast, Problem):
            return wire.StartForecast(outcome="waits", message=str(forecast))
        return wire.StartForecast(
            outcome=_outcome(forecast),
            message=sentence(forecast, spec),
            pool=forecast.pool,
            places=[
                wire.ForecastPlace(node=node, pods=pods)
                for node, pods in sorted((forecast.starting + forecast.promised).items())
            ],
            victims=[self._victim(spec, workload, pods) for workload, pods in sorted(forecast.victims.items())],
            wait=None if forecast.is_whole else self._would_wait(spec, forecast, now),
        )

    def _would_wait(self, spec: WorkloadSpec, forecast: Forecast, now: Instant) -> WorkloadWait:
        """Why it would wait, as if it had been submitted."""
        tried = PlannedPool(forecast.snapshot, forecast.plan, partial(self._expectations, forecast.snapshot, now))
        until = time.monotonic() + DRAFT_TRIES_S
        return wait_answer(
            spec,
            self._planned(now) | {forecast.pool: tried},
            now,
            lambda workload: spec if workload == spec.id else self._spec_of(workload),
            with_changes=True,
            has_time=lambda: time.monotonic() < until,
        )

    def _victim(self, spec: WorkloadSpec, workload: WorkloadId, pods: int) -> wire.ForecastVictim:
        """Named to readers who may see its project."""
        other = self._spec_of(workload)
        name, project = (workload, "") if other is None else (other.name, other.project)
        if project != spec.project:
            name = mention(project, name, WORK_OF_ANOTHER)
            project = mention(project, project, ANOTHER_PROJECT)
        return wire.ForecastVictim(workload=name, project=project, pods=pods)

    # --- why it waits ---

    def _why_waiting(self, question: wire.WhyWaiting) -> WorkloadWait:
        now = self._clock()
        spec = self._spec_of(question.workload)
        if spec is None:
            what = "the cluster does not have this workload yet, or not any more"
            raise QuestionProblem([Problem("workload.unknown_there", what, "try again in a few seconds")])
        until = time.monotonic() + TRIES_S
        return wait_answer(
            spec,
            self._planned(now),
            now,
            self._spec_of,
            with_changes=question.changes,
            has_time=lambda: time.monotonic() < until,
        )

    def _planned(self, now: Instant) -> dict[PoolName, PlannedPool]:
        return {
            pool: PlannedPool(snapshot, self._live.plan_of(pool, snapshot), partial(self._expectations, snapshot, now))
            for pool, snapshot in self._snapshots().items()
        }

    def _expectations(self, snapshot: Snapshot, now: Instant) -> Expectations:
        return Expectations() if self._ends is None else self._ends.of(snapshot, now)

    # --- shares ---

    def _shares(self) -> ClusterShares:
        found = self._snapshots()
        pools = [pool_shares(snapshot, self._live.plan_of(pool, snapshot)) for pool, snapshot in sorted(found.items())]
        return ClusterShares(
            taken_at=moment_text(self._clock()),
            planned_at=moment_text(max(each.now for each in found.values())),
            pools=pools,
        )

    # --- snapshots ---

    def _snapshot_file(self, question: wire.SnapshotQuestion) -> bytes:
        if question.cycle is None:
            return to_bytes(self._snapshot(question.pool))
        found = self._ring.read(question.cycle) if self._ring is not None else None
        if found is None:
            what = f"cycle {question.cycle} is not kept"
            raise QuestionProblem([Problem("cycle.unknown", what, "list the cycles that are")])
        return found

    def _past_cycles(self) -> wire.PastCyclePage:
        kept = self._ring.kept() if self._ring is not None else []
        return wire.PastCyclePage(
            cycles=[
                wire.PastCycle(
                    number=each.number,
                    node_pool=each.pool,
                    taken_at=moment_text(each.taken_at),
                    size_bytes=each.size_bytes,
                )
                for each in reversed(kept)
            ]
        )

    def _snapshots(self) -> Mapping[PoolName, Snapshot]:
        found = self._live.by_pool
        if not found:
            what = "the cluster has just started and has not looked at its nodes yet"
            raise QuestionProblem([Problem("cluster.starting", what, "try again in a few seconds")])
        return found

    def _snapshot(self, pool: str | None) -> Snapshot:
        found = self._snapshots()
        if pool is None and len(found) == 1:
            return next(iter(found.values()))
        if pool is None:
            what = f"the cluster has {len(found)} node pools: {', '.join(sorted(found))}"
            raise QuestionProblem([Problem("pool.not_named", what, "name one of them")])
        if pool not in found:
            raise QuestionProblem([unknown_name("node pool", pool, found)])
        return found[PoolName(pool)]

    # --- what if ---

    def _what_if(self, question: wire.WhatIf) -> wire.WhatIfAnswer:
        snapshot = self._snapshot(question.pool)
        changes = Changes(
            settings=question.settings,
            added_jobs=question.added_jobs,
            added_nodes=question.added_nodes,
            without_nodes=question.without_nodes,
            without_jobs=question.without_jobs,
            later=question.later,
        )
        after, done, problems = apply_changes(snapshot, changes)
        if problems:
            raise QuestionProblem(problems)
        before, then = _planned(snapshot), _planned(after)
        return wire.WhatIfAnswer(
            node_pool=snapshot.pool.name,
            taken_at=moment_text(snapshot.now),
            changes=done,
            original=_counts(before.plan),
            changed=_counts(then.plan),
            groups=[
                self._group(group, None if old is None else str(old), None if new is None else str(new), then)
                for group, old, new in differing_outcomes(before, then)
            ],
            queues=_queues(before, then),
        )

    def _group(self, group: GroupId, old: str | None, new: str | None, then: Replay) -> wire.GroupOutcomes:
        spec = self._spec_of(workload_of(group))
        project = spec.project if spec is not None else then.queue_of(group)
        name = spec.name if spec is not None else group
        return wire.GroupOutcomes(group=group, workload=name, project=project, original=old, changed=new)


def _planned(snapshot: Snapshot) -> Replay:
    planned = replay(snapshot)
    if isinstance(planned, Problem):
        raise QuestionProblem([planned])
    return planned


def _outcome(forecast: Forecast) -> wire.Outcome:
    if not forecast.is_whole and not forecast.starting:
        return "starts-after-preemption" if forecast.promised else "waits"
    return "starts-after-preemption" if forecast.promised else "starts"


def _counts(plan: Plan) -> wire.PlanCounts:
    found = counts(plan)
    return wire.PlanCounts(
        starting=found.starting, promised=found.promised, preempted=found.taken, waiting=found.waiting
    )


def _queues(before: Replay, then: Replay) -> list[wire.QueueOutcomes]:
    old, new = before.figures(), then.figures()
    return [
        wire.QueueOutcomes(
            queue=queue,
            original_fair_share=_gpus(old.get(queue), "fair_share_milli"),
            changed_fair_share=_gpus(new.get(queue), "fair_share_milli"),
            original_gpus=_gpus(old.get(queue), "held_milli"),
            changed_gpus=_gpus(new.get(queue), "held_milli"),
        )
        for queue in sorted({**old, **new})
    ]


def _gpus(figures: QueueFigures | None, field: str) -> float | None:
    return None if figures is None else float(getattr(figures, field)) / WHOLE_GPU_MILLI

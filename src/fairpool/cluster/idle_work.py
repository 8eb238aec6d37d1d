"""Workloads that leave their GPUs idle: those at the limit of their project, and those that are warned of it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fairpool.cluster.gates import should_run
from fairpool.cluster.history import Event, EventKind
from fairpool.cluster.idle_time import (
    SAMPLES_MS,
    PodIdleTimes,
    idle_limit_s,
    notice_ms,
    warned_from_ms,
    warning_words,
)
from fairpool.cluster.ledger_cache import LedgerCache
from fairpool.model.ids import SECOND_MS, Instant, WorkloadId
from fairpool.model.organization import ProjectRules
from fairpool.model.pod_record import Cause


@dataclass(slots=True)
class IdleWork:
    """Of all workloads that are meant to run."""

    over: set[WorkloadId] = field(default_factory=set)
    """At the limit, and warned in time."""
    near: set[WorkloadId] = field(default_factory=set)
    """Close to the limit, or at it."""
    unwarned: dict[WorkloadId, str] = field(default_factory=dict)
    """Those of them that were not warned, with the words of the warning."""

    def warnings(self, now: Instant) -> Mapping[WorkloadId, Event]:
        return {
            workload: Event(
                at=now,
                kind=EventKind.NEAR_LIMIT,
                workload=workload,
                cause=Cause.IDLE_LIMIT.value,
                detail=words,
            )
            for workload, words in sorted(self.unwarned.items())
        }


def idle_work(cache: LedgerCache, idle: PodIdleTimes, warned: Mapping[WorkloadId, int]) -> IdleWork:
    """Only pods that are idle are looked at, and only where their project has a limit. None is stopped that was not
    warned, whenever the limit was set. `warned`: when, by the clock of the idle times."""
    found = IdleWork()
    if not idle.since or not any(_has_limit(rules) for rules in cache.organization.rules.values()):
        return found
    for workload in {workload for workload in map(cache.workload_of.get, idle.since) if workload is not None}:
        spec = cache.specs.get(workload)
        state = cache.states.get(workload)
        if spec is None or state is None or not should_run(spec, state):
            continue
        limit_s = idle_limit_s(spec, cache.organization.rules.get(spec.project, ProjectRules()))
        idle_ms = idle.idle_ms(cache.pods.get(workload, ())) if limit_s is not None else 0
        if limit_s is None or idle_ms < max(1, warned_from_ms(limit_s)):
            continue
        found.near.add(workload)
        if workload not in warned:
            found.unwarned[workload] = warning_words(limit_s, idle_ms)
        elif idle_ms >= limit_s * SECOND_MS and idle.at_ms - warned[workload] >= notice_ms(limit_s) - SAMPLES_MS:
            found.over.add(workload)
    return found


def _has_limit(rules: ProjectRules) -> bool:
    return any((rules.interactive_idle_s, rules.interactive_preemptible_idle_s, rules.training_idle_s))

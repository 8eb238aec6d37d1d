"""Scheduling cycles: plan, apply the plan to the tasks, carry them over to the next cycle.

FORMAT.md 2.9, 3.1 and 3.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fairpool.scheduler.decision import Plan
from fairpool.scheduler.snapshot import Snapshot
from tests.conformance.case import Case
from tests.conformance.state import (
    ACTIVE,
    ALLOCATED,
    ClaimState,
    State,
    TaskState,
    all_tasks,
    claim_names,
    consumers_elsewhere,
)
from tests.conformance.world import STARTED_AGO_S, snapshot_of

Planner = Callable[[Snapshot], Plan]


@dataclass(frozen=True, slots=True)
class Operations:
    """What one cycle commits."""

    binds: int = 0
    evictions: int = 0
    pipelined: int = 0


@dataclass(frozen=True, slots=True)
class Cycle:
    """The outcome of one cycle: the state as its passes left it, and what is judged besides."""

    state: State
    operations: Operations
    started_ago_s: Mapping[str, int]
    """For every job that has a last start time, how long ago that is."""
    plan: Plan


def run_cycle(case: Case, state: State, planner: Planner) -> Cycle:
    """One cycle: what the planner decides, applied."""
    plan = planner(snapshot_of(case, state))
    after = apply(case, state, plan)
    started_ago_s = start_ages(case, state) | {str(group): 0 for group in plan.started}
    return Cycle(after, _count(state, after, plan), started_ago_s, plan)


def apply(case: Case, state: State, plan: Plan) -> State:
    """The state right after a plan, before anything is freed or started.

    A pod that is evicted and promised a place elsewhere has been moved; one that is bound and evicted in the same
    plan (the reference can do that) is leaving.
    """
    tasks = dict(state.tasks)
    for withdrawal in plan.withdrawals:
        tasks[withdrawal.pod] = TaskState("Pending")
    for bind in plan.binds:
        tasks[bind.pod] = TaskState("Binding", bind.node, bind.devices)
    for eviction in plan.evictions:
        tasks[eviction.pod] = TaskState("Releasing", eviction.node, tasks[eviction.pod].devices)
    for promise in plan.promises:
        tasks[promise.pod] = TaskState("Pipelined", promise.node, promise.devices)
    return State(tasks, _claims_after(case, state, tasks, plan))


def carry_over(case: Case, state: State) -> State:
    """The state that the next cycle begins with: evicted tasks are submitted again, unless their job is deleted."""
    deleted = {job["name"] for job in case.data["jobs"] if job.get("deleted")}
    tasks = {}
    for job, task in all_tasks(case):
        now = state.tasks[task["id"]]
        if now.status == "Binding":
            now = TaskState("Running", now.node, now.devices)
        elif now.status == "Pipelined" or (now.status == "Releasing" and job["name"] not in deleted):
            now = TaskState("Pending")
        tasks[task["id"]] = now
    return State(tasks, state.claims)


def start_ages(case: Case, state: State) -> dict[str, int]:
    """How long ago each job started that holds something at the beginning of a cycle."""
    return {job["name"]: STARTED_AGO_S for job, task in all_tasks(case) if state.tasks[task["id"]].status in ALLOCATED}


def _claims_after(case: Case, before: State, tasks: Mapping[str, TaskState], plan: Plan) -> dict[str, ClaimState]:
    """A claim is freed with its last consumer, and allocated by the first pod that is bound."""
    leaving = {str(eviction.pod) for eviction in plan.evictions}
    freed: set[str] = set()
    used: set[str] = set()
    for job, task in all_tasks(case):
        if task["id"] in leaving:
            freed.update(claim_names(job, task))
        elif tasks[task["id"]].status in ACTIVE - {"Pipelined"}:
            used.update(claim_names(job, task))
    used.update(name for name, others in consumers_elsewhere(case).items() if others)
    claims = {name: claim for name, claim in before.claims.items() if name in used or name not in freed}
    for bind in plan.binds:
        for name, devices in bind.claims:
            if name in used:
                claims[name] = ClaimState(bind.node, devices)
    return claims


def _count(before: State, after: State, plan: Plan) -> Operations:
    return Operations(
        binds=len(plan.binds),
        evictions=len(plan.evictions),
        pipelined=sum(
            1
            for name, now in after.tasks.items()
            if now.status == "Pipelined" and before.tasks[name].status != "Pipelined"
        ),
    )

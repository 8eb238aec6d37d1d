"""The preempt pass: within a queue, a waiting group evicts groups of strictly lower priority."""

from __future__ import annotations

from fairpool.scheduler import gate
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import Vector
from fairpool.scheduler.reclaim import is_moving, respects_runtimes
from fairpool.scheduler.runtime import may_be_victim
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.turns import take_turns
from fairpool.scheduler.victim_search import Solution
from fairpool.scheduler.victims import Candidates


def preempt(solver: Solver) -> list[Solution]:
    """For each waiting group, look for groups of lower priority in its own queue."""
    columns = solver.columns

    def search(group: int, need: Vector) -> Solution | None:
        if columns.is_non_preemptible(group) and gate.is_over_quota(columns.queues, columns.queue_of[group], need):
            return None
        if not _has_lower(solver, columns.queue_of[group], columns.rules[group].priority):
            return None
        return solver.solve(
            group, _candidates(solver, group), lambda each: respects_runtimes(solver, each, Pass.PREEMPT)
        )

    return take_turns(solver, Pass.PREEMPT, search)


def _has_lower(solver: Solver, queue: int, priority: int) -> bool:
    """Whether a queue has a group of lower priority that holds something, or has moved in this plan."""
    columns = solver.columns
    return any(each < priority for each in columns.running_priorities.get(queue, ())) or any(
        columns.queue_of[each] == queue and columns.rules[each].priority < priority
        for each in set(solver.trial.touched)
    )


def _candidates(solver: Solver, taker: int) -> Candidates:
    columns = solver.columns
    priority = columns.rules[taker].priority

    def may_give(group: int) -> bool:
        return (
            group != taker
            and columns.rules[group].priority < priority
            and not is_moving(solver.trial, group)
            and may_be_victim(columns, Pass.PREEMPT, taker, group)
        )

    bound = priority if columns.policy.priority_order else None
    return Candidates(may_give, leaves=(columns.queue_of[taker],), priority_below=bound)

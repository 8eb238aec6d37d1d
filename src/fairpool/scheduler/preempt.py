"""Priority inside one queue: a waiting group takes from groups of strictly lower priority."""

from __future__ import annotations

from fairpool.scheduler import gate
from fairpool.scheduler.allocate import place_next, waiting_groups
from fairpool.scheduler.chunk import is_ready
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.reclaim import is_moving, respects_runtimes
from fairpool.scheduler.runtime import may_be_victim
from fairpool.scheduler.solver import Scenario, Solver, asked
from fairpool.scheduler.victims import Candidates
from fairpool.scheduler.walk import Walk


def preempt(solver: Solver) -> list[Scenario]:
    """For each waiting group, look for groups of lower priority in its own queue."""
    board = solver.board
    accepted = []
    walk = Walk(solver.trial, waiting_groups(solver.placer, Pass.PREEMPT))
    solver.begin()
    while (group := walk.pop()) is not None:
        if board.policy.recheck_readiness and not is_ready(board, group):
            continue
        if board.policy.place_before_taking and place_next(solver.placer, group):
            continue
        need = asked(solver.placer, group)
        if board.is_firm(group) and gate.is_over_quota(board.queues, board.queue_of[group], need):
            continue
        found = solver.solve(
            group, _candidates(solver, group), lambda each: respects_runtimes(solver, each, Pass.PREEMPT)
        )
        if found:
            accepted.append(found)
    return accepted


def _candidates(solver: Solver, taker: int) -> Candidates:
    board = solver.board
    priority = board.rules[taker].priority

    def may_give(group: int) -> bool:
        return (
            group != taker
            and solver.may_be_taken(group)
            and board.rules[group].priority < priority
            and not is_moving(solver.trial, group)
            and may_be_victim(board, Pass.PREEMPT, taker, group)
        )

    bound = priority if board.policy.priority_order else None
    return Candidates(may_give, leaves=(board.queue_of[taker],), priority_below=bound)

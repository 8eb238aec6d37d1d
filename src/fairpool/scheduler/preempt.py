"""Priority inside one queue: a waiting group takes from groups of strictly lower priority."""

from __future__ import annotations

from functools import partial

from fairpool.scheduler import gate
from fairpool.scheduler.allocate import waiting_groups
from fairpool.scheduler.chunk import is_ready
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.reclaim import is_moving, respects_runtimes
from fairpool.scheduler.runtime import may_be_victim
from fairpool.scheduler.solver import Scenario, Solver, asked
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
        need = asked(solver.placer, group)
        if board.is_firm(group) and gate.is_over_quota(board.queues, board.queue_of[group], need):
            continue
        found = solver.solve(
            group, partial(_may_give, solver, group), lambda each: respects_runtimes(solver, each, Pass.PREEMPT)
        )
        if found:
            accepted.append(found)
    return accepted


def _may_give(solver: Solver, taker: int, group: int) -> bool:
    board = solver.board
    return (
        group != taker
        and board.queue_of[group] == board.queue_of[taker]
        and not board.is_firm(group)
        and board.rules[group].priority < board.rules[taker].priority
        and any(board.sets.active[each] for each in board.sets_of[group])
        and not is_moving(solver.trial, group)
        and may_be_victim(board, Pass.PREEMPT, taker, group)
    )

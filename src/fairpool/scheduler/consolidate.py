"""Make room by moving running pods together; nobody may lose."""

from __future__ import annotations

from fairpool.model.node import Placement
from fairpool.scheduler.allocate import place_next, waiting_groups
from fairpool.scheduler.chunk import is_ready
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import GPU
from fairpool.scheduler.solver import Scenario, Solver, asked
from fairpool.scheduler.victims import Candidates, VictimWalk
from fairpool.scheduler.walk import Walk


def consolidate(solver: Solver) -> list[Scenario]:
    """For each waiting group that may be preempted itself, look for moves that make it fit."""
    board = solver.board
    bound = board.policy.max_moved_groups
    if bound == 0 or (board.policy.consolidate_only_packed and board.gpu_placement is Placement.SPREAD):
        return []
    accepted = []
    walk = Walk(
        solver.trial,
        (group for group in waiting_groups(solver.placer, Pass.CONSOLIDATE) if not board.is_firm(group)),
    )
    solver.begin()
    while (group := walk.pop()) is not None:
        if board.policy.recheck_readiness and not is_ready(board, group):
            continue
        if board.policy.place_before_taking and place_next(solver.placer, group):
            continue
        if asked(solver.placer, group)[GPU] > solver.placer.free.milli():
            continue
        found = solver.solve(group, _movable(solver, group, bound), lambda each: _nobody_loses(solver, each))
        if found:
            accepted.append(found)
    return accepted


def _movable(solver: Solver, group: int, bound: int | None) -> Candidates:
    """Groups that may be moved: at most so many, the first in the order in which they give."""
    board = solver.board

    def may_move(other: int) -> bool:
        return other != group and solver.may_be_taken(other) and board.groups[other].movable

    if bound is None:
        return Candidates(may_move, are_lost=False)
    solver.givers.refresh()
    walk = VictimWalk(solver.trial, solver.givers, Candidates(may_move))
    chosen: set[int] = set()
    admitted = bound if board.policy.sort_before_bounding else bound + 1
    while len(chosen) < admitted and (given := walk.pop()) is not None:
        walk.take(*given)
        chosen.add(given[0])
    return Candidates(chosen.__contains__, are_lost=False)


def _nobody_loses(solver: Solver, scenario: Scenario) -> bool:
    return all(solver.trial.is_active(pod) for pod in scenario.victims)

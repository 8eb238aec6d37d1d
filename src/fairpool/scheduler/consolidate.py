"""Make room by moving running pods together; nobody may lose."""

from __future__ import annotations

from fairpool.model.node import Placement
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import GPU, Vector
from fairpool.scheduler.solver import Scenario, Solver
from fairpool.scheduler.taking import take_turns
from fairpool.scheduler.victims import Candidates, VictimWalk


def consolidate(solver: Solver) -> list[Scenario]:
    """For each waiting group that may be preempted itself, look for moves that make it fit."""
    board = solver.board
    bound = board.policy.max_moved_groups
    if bound == 0 or (board.policy.consolidate_only_packed and board.gpu_placement is Placement.SPREAD):
        return []

    def search(group: int, need: Vector) -> Scenario | None:
        if need[GPU] > solver.placer.free.milli_for_moves():
            return None
        return solver.solve(group, _movable(solver, group, bound), lambda each: _nobody_loses(solver, each))

    return take_turns(solver, Pass.CONSOLIDATE, search, lambda group: not board.is_non_preemptible(group))


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

"""The consolidate pass: make room by moving running pods; each of them gets another place."""

from __future__ import annotations

from fairpool.model.node import Placement
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import GPU, Vector
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.turns import take_turns
from fairpool.scheduler.victim_search import Solution
from fairpool.scheduler.victims import Candidates


def consolidate(solver: Solver) -> list[Solution]:
    """For each waiting group that may be preempted itself, look for moves that make it fit."""
    columns = solver.columns
    bound = columns.policy.max_moved_groups
    if bound == 0 or (columns.policy.consolidate_only_packed and columns.gpu_placement is Placement.SPREAD):
        return []

    def search(group: int, need: Vector) -> Solution | None:
        if need[GPU] > solver.placer.free.milli_for_moves():
            return None
        return solver.solve(group, _movable(solver, group, bound), lambda each: _all_keep_a_place(solver, each))

    return take_turns(solver, Pass.CONSOLIDATE, search, lambda group: not columns.is_non_preemptible(group))


def _movable(solver: Solver, group: int, bound: int | None) -> Candidates:
    """Groups that may be moved: at most so many, the first in the order in which they give."""
    columns = solver.columns
    holds_some = any(columns.sets.active[number] for number in columns.sets_of[group])

    def may_move(other: int) -> bool:
        return columns.groups[other].movable and not (holds_some and other == group)

    movable = Candidates(may_move, are_lost=False, are_common=not holds_some)
    if bound is None:
        return movable
    solver.refresh()
    line, place = solver.victim_lines(movable), 0
    chosen: set[int] = set()
    admitted = bound if columns.policy.sort_before_bounding else bound + 1
    while len(chosen) < admitted and (unit := line.unit(place)) is not None:
        place += 1
        chosen.add(unit.group)
    return Candidates(may_move, among=frozenset(chosen), are_lost=False)


def _all_keep_a_place(solver: Solver, solution: Solution) -> bool:
    return all(solver.trial.is_active(pod) for pod in solution.victims)

"""Make room by moving running pods together; nobody may lose."""

from __future__ import annotations

from fairpool.scheduler.allocate import waiting_groups
from fairpool.scheduler.board import COMING, NOWHERE, STAYING, Board
from fairpool.scheduler.charge import mig_milli
from fairpool.scheduler.chunk import is_ready
from fairpool.scheduler.queues import GPU
from fairpool.scheduler.solver import Scenario, Solver, asked
from fairpool.scheduler.victims import VictimWalk
from fairpool.scheduler.walk import Walk


def consolidate(solver: Solver) -> list[Scenario]:
    """For each waiting group that may be preempted itself, look for moves that make it fit."""
    board, trial = solver.board, solver.trial
    bound = board.policy.max_moved_groups
    if bound == 0:
        return []
    accepted = []
    walk = Walk(trial, (group for group in waiting_groups(solver.placer) if not board.is_firm(group)))
    while (group := walk.pop()) is not None:
        if board.policy.recheck_readiness and not is_ready(board, group):
            continue
        if asked(solver.placer, group)[GPU] > free_milli(board):
            continue
        movable = [each for each in range(len(board.groups)) if each != group and _may_move(solver, each)]
        found = solver.solve(group, _first(solver, movable, bound), lambda each: _nobody_loses(solver, each))
        if found:
            accepted.append(found)
    return accepted


def _may_move(solver: Solver, group: int) -> bool:
    board = solver.board
    return (
        board.queue_of[group] != NOWHERE
        and not board.is_firm(group)
        and board.groups[group].movable
        and any(board.sets.active[each] for each in board.sets_of[group])
    )


def _first(solver: Solver, groups: list[int], bound: int | None) -> list[int]:
    """The first so many groups in the order in which they give."""
    if bound is None or len(groups) <= bound:
        return groups
    if not solver.board.policy.sort_before_bounding:
        return groups[: bound + 1]
    walk = VictimWalk(solver.trial, groups)
    chosen: list[int] = []
    while len(chosen) < bound and (given := walk.pop()) is not None:
        group, unit = given
        walk.take(group, unit)
        if group not in chosen:
            chosen.append(group)
    return sorted(chosen)


def _nobody_loses(solver: Solver, scenario: Scenario) -> bool:
    return all(solver.trial.is_active(pod) for pod in scenario.victims)


def free_milli(board: Board) -> float:
    """GPUs that are idle or being released anywhere, parts of shared devices included."""
    nodes = board.nodes
    free = 0.0
    for node in range(len(nodes.rows)):
        free += 1000 * (nodes.gpus_idle[node] + nodes.gpus_releasing[node] + len(nodes.claim_free[node]))
        profiles = nodes.rows[node].mig_instances
        instances = ((name, nodes.other_idle[name][node] + nodes.other_releasing[name][node]) for name in profiles)
        free += mig_milli(instances, board.policy)
        mib = nodes.device_mib[node]
        for device in nodes.shared[node].values():
            used = device[STAYING] + device[COMING]
            if used:
                free += 1000 * (mib - used) / mib
    return free

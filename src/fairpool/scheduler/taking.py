"""The round that consolidate, reclaim and preempt make: every waiting group in its turn, each helped at most once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairpool.scheduler.allocate import place_next, waiting_groups
from fairpool.scheduler.chunk import chunk_need, is_ready, next_chunk
from fairpool.scheduler.equivalence import are_equivalent
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import Vector
from fairpool.scheduler.solver import Scenario, Solver
from fairpool.scheduler.walk import Walk

Search = Callable[[int, Vector], Scenario | None]
"""What a pass does for one group that asks for so much."""


def everybody(_: int) -> bool:
    return True


def take_turns(
    solver: Solver, by: Pass, search: Search, takes_part: Callable[[int], bool] = everybody
) -> list[Scenario]:
    """Search for each waiting group that finds no place without taking from others; returns what was accepted."""
    board, placer = solver.board, solver.placer
    walk = Walk(solver.trial, (group for group in waiting_groups(placer, by) if takes_part(group)))
    solver.begin()
    accepted = []
    alike = partial(are_equivalent, placer)
    while (group := walk.pop()) is not None:
        if board.policy.recheck_readiness and not is_ready(board, group):
            continue
        if board.policy.place_before_taking and place_next(placer, group):
            continue
        if group in placer.expired:
            continue
        found = search(group, chunk_need(board, next_chunk(solver.trial, group)))
        if found is not None:
            accepted.append(found)
        else:
            walk.pass_over(group, alike)
    return accepted

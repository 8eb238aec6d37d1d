"""Runs one search for victims for each waiting group."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from fairpool.scheduler.allocate import none_gains, place_next, waiting_groups
from fairpool.scheduler.chunk import chunk_need, is_ready, next_chunk
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import Vector
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.victim_search import Solution
from fairpool.scheduler.walk import Walk

Search = Callable[[int, Vector], Solution | None]
"""The search of a pass for one group that asks for so much."""


def every_group(_: int) -> bool:
    return True


def take_turns(
    solver: Solver, by: Pass, search: Search, takes_part: Callable[[int], bool] = every_group
) -> list[Solution]:
    """Search victims for each waiting group that finds no free place; returns the accepted solutions."""
    columns, placer = solver.columns, solver.placer
    solver.begin()
    if none_gains(placer, partial(_would_gain, solver, search), takes_part):
        return []
    classes = dict(placer.waiting.class_of())
    walk = Walk(solver.trial, filter(takes_part, waiting_groups(placer, by)), classes)
    accepted = []
    while (group := walk.pop()) is not None:
        if columns.policy.recheck_readiness and not is_ready(columns, group):
            continue
        if columns.policy.place_before_taking and place_next(placer, group):
            continue
        if group in placer.expired:
            continue
        found = search(group, chunk_need(columns, next_chunk(solver.trial, group)))
        if found is not None:
            accepted.append(found)
        else:
            walk.pass_over(group, classes)
    return accepted


def _would_gain(solver: Solver, search: Search, group: int) -> bool:
    """Whether the turn of a group changes something; what it changes is left to be undone."""
    columns, placer = solver.columns, solver.placer
    if columns.policy.recheck_readiness and not is_ready(columns, group):
        return False
    if columns.policy.place_before_taking and place_next(placer, group):
        return True
    if group in placer.expired:
        return False
    was_winner = group in placer.winners
    found = search(group, chunk_need(columns, next_chunk(solver.trial, group)))
    if found is not None and not was_winner:
        placer.winners.discard(group)
    return found is not None

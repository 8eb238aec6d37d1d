"""The reclaim pass: take quota back from borrowers, towards fair shares.

A queue may take when, with the group at hand, it stays within its fair share. Each unit it takes must be justified by
what its owner's side holds too much, and in the end no queue may be more saturated than those it took from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial

from fairpool.scheduler import gate
from fairpool.scheduler.columns import NOWHERE, REAL, RELEASING, Columns
from fairpool.scheduler.losses import Losses, unit_is_justified
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.queues import (
    GPU,
    NONE,
    RESOURCES,
    Holdings,
    QueueTable,
    Vector,
    diverging_ancestors,
    minus,
    plus,
    within,
)
from fairpool.scheduler.runtime import keeps_minimum, may_be_victim, protected_until
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.trial import Trial
from fairpool.scheduler.turns import take_turns
from fairpool.scheduler.victim_search import Solution
from fairpool.scheduler.victims import Candidates

Unit = tuple[int, Vector]
"""A leaf queue and what pods that are taken together hold there."""


def reclaim(solver: Solver) -> list[Solution]:
    """For each waiting group whose queue is owed more, look for groups of other queues to take from."""
    columns = solver.columns

    def search(group: int, need: Vector) -> Solution | None:
        if not may_reclaim(columns.queues, columns.queue_of[group], need, columns.is_non_preemptible(group)):
            return None
        if not could_be_enough(solver, group, need):
            return None
        return solver.solve(group, _candidates(solver, group), partial(_is_allowed, solver))

    return take_turns(solver, Pass.RECLAIM, search)


def could_be_enough(solver: Solver, group: int, need: Vector) -> bool:
    """Whether what is free and what may be taken at all add up to what is asked; if not, no search can succeed.

    From a queue that holds no more than it should nothing may be lost, whatever else is taken.
    """
    columns = solver.columns
    missing = need[GPU] - solver.placer.free.milli()
    queues, queue = columns.queues, columns.queue_of[group]
    for mine in queues.path[queue]:
        if missing < 1:  # thousandths are whole, but sums of parts may be rounded
            return True
        for side in queues.siblings(mine):
            if side != mine and unit_is_justified(queues, mine, side, need, queues.held, queues.held):
                missing -= queues.held[side][GPU] - queues.held_non_preemptible[side][GPU]
    return missing < 1


def may_reclaim(queues: QueueTable, queue: int, need: Vector, non_preemptible: bool) -> bool:
    """Whether a group may try: its queue stays within its fair share, and within its quota if it is not preemptible."""
    if not within(plus(queues.held[queue], need), queues.fair[queue]):
        return False
    return not non_preemptible or gate.is_within_quota(queues.held_non_preemptible[queue], need, queues.quota[queue])


def _candidates(solver: Solver, taker: int) -> Candidates:
    columns = solver.columns

    def may_give(group: int) -> bool:
        return not is_moving(solver.trial, group) and may_be_victim(columns, Pass.RECLAIM, taker, group)

    return Candidates(
        may_give,
        not_leaf=columns.queue_of[taker],
        are_common=not columns.queues.have_reclaim_runtimes,
        losses=Losses(solver.placer, taker),
    )


def _is_allowed(solver: Solver, solution: Solution) -> bool:
    columns = solver.columns
    lost = solution.victims
    if columns.policy.moves_in_reclaim_are_free:
        lost = [pod for pod in lost if not solver.trial.is_active(pod)]
    return respects_runtimes(solver, solution, Pass.RECLAIM) and is_justified(
        columns.queues,
        columns.queue_of[solution.group],
        solution.need,
        _units_in_turn(solver.trial, lost, solution.lost_from),
        before=solution.before,
        non_preemptible=columns.is_non_preemptible(solution.group),
        multiplier=columns.policy.saturation_multiplier,
    )


def _units_in_turn(trial: Trial, lost: Sequence[int], lost_from: dict[int, int]) -> list[Unit]:
    """What is lost, cut into units. First what this plan gave, where taking that back is no eviction: it must not
    justify that pods which ran before are lost with it.
    """
    columns = trial.columns
    if not columns.policy.withdraw_unstarted:
        return _units(columns, lost, lost_from)
    ran = [trial.started_as[pod][0] == REAL for pod in lost]
    return [
        unit
        for turn in (False, True)
        for unit in _units(columns, [pod for pod, was in zip(lost, ran, strict=True) if was is turn], lost_from)
    ]


def _units(columns: Columns, lost: Sequence[int], lost_from: dict[int, int]) -> list[Unit]:
    """Cut the losses of each group into units: pods beyond a minimum one by one, and the core of the group last."""
    by_group: dict[int, list[int]] = {}
    for pod in lost:
        by_group.setdefault(columns.group_of[pod], []).append(pod)
    single: list[Unit] = []
    cores: list[Unit] = []
    for group, pods in by_group.items():
        core: list[int] = []
        for number in columns.sets_of[group]:
            mine = [pod for pod in pods if columns.set_of[pod] == number]
            minimum = columns.sets.minimum[number]
            core += mine[:minimum]
            single += [_unit(columns, [pod], lost_from) for pod in mine[minimum:]]
        if core:
            cores.append(_unit(columns, core, lost_from))
    return single + cores


def _unit(columns: Columns, pods: Iterable[int], lost_from: dict[int, int]) -> Unit:
    amounts = NONE
    queue = NOWHERE
    for pod in pods:
        queue = columns.queue_of[columns.group_of[pod]]
        amounts = plus(amounts, columns.placed_need(pod, lost_from[pod]))
    return queue, amounts


def is_justified(
    queues: QueueTable,
    queue: int,
    need: Vector,
    units: Sequence[Unit],
    *,
    before: Holdings,
    non_preemptible: bool,
    multiplier: float = 1.0,
) -> bool:
    """Whether a group of this queue may take these units, given what queues held before."""
    left = dict(before.held)
    losses: dict[int, Vector] = {}
    for victim, amounts in units:
        mine, theirs = diverging_ancestors(queues, queue, victim)
        if not unit_is_justified(queues, mine, theirs, need, before.held, left):
            return False
        for level in queues.path[victim]:
            left[level] = minus(left[level], amounts)
            losses[level] = plus(losses.get(level, NONE), amounts)
    return all(
        _stays_less_saturated(queues, level, need, left, losses, max(multiplier, 1.0))
        and (not non_preemptible or gate.is_within_quota(before.held_non_preemptible[level], need, queues.quota[level]))
        for level in queues.path[queue]
    )


def _stays_less_saturated(
    queues: QueueTable,
    level: int,
    need: Vector,
    left: dict[int, Vector],
    losses: dict[int, Vector],
    multiplier: float,
) -> bool:
    for sibling in losses:
        if sibling == level or queues.parent[sibling] != queues.parent[level]:
            continue
        for resource in RESOURCES:
            if need[resource] <= 0 and losses[sibling][resource] <= 0:
                continue
            fair_here, fair_there = queues.fair[level][resource], queues.fair[sibling][resource]
            here = _saturation(left[level][resource] + need[resource], fair_here)
            there = _saturation(left[sibling][resource], fair_there)
            if here > 1 and fair_there > 0 and here * multiplier >= there:
                return False
    return True


def _saturation(held: float, fair: float) -> float:
    if fair == math.inf:
        return 0.0
    if not fair:
        return math.inf if held else 0.0
    return held / fair


def is_moving(trial: Trial, group: int) -> bool:
    """Whether pods of a group are moved already: what is moved for one group is not taken for another in one plan."""
    columns = trial.columns
    return any(
        columns.hold[pod] == RELEASING and columns.promise_node[pod] != NOWHERE
        for number in columns.sets_of[group]
        for pod in columns.sets.pods[number]
    )


def respects_runtimes(solver: Solver, solution: Solution, by: Pass) -> bool:
    """A protected elastic group gives surplus pods only."""
    columns = solver.columns
    counted: Iterable[int] = solution.considered
    if columns.policy.count_only_evicted:
        counted = [pod for pod in solution.victims if not solver.trial.is_active(pod)]
    by_group: dict[int, list[int]] = {}
    for pod in sorted(counted):
        by_group.setdefault(columns.group_of[pod], []).append(pod)
    return all(
        protected_until(columns, by, solution.group, group) is None or keeps_minimum(columns, pods)
        for group, pods in by_group.items()
    )

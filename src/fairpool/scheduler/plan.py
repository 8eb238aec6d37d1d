"""The whole story: a snapshot in, a plan out. No clock, no log, no I/O; same snapshot, same plan, to the byte."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.ids import PoolName
from fairpool.scheduler.allocate import allocate, start_what_can
from fairpool.scheduler.board import NOTHING, NOWHERE, Board
from fairpool.scheduler.cleaning import clean
from fairpool.scheduler.consolidate import consolidate
from fairpool.scheduler.decision import Plan, Verdict, WaitsForVictims
from fairpool.scheduler.fairshare import fair_shares
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.plan_result import Outcome
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.preempt import preempt
from fairpool.scheduler.queues import RESOURCES
from fairpool.scheduler.reclaim import reclaim
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.stale import end_stale
from fairpool.scheduler.trial import Trial


def plan(snapshot: Snapshot) -> Plan:
    """Decide for one node pool."""
    rows, problems = clean(snapshot)
    board = Board(rows)  # 1. rows into columns
    trial = Trial(board)
    share(trial)  # 2. what each queue may fairly hold now
    placer = Placer(trial)
    solver = Solver(placer)
    outcome = Outcome(placer, problems)
    for each in board.policy.passes:
        match each:
            case Pass.ALLOCATE:  # 3. place what hurts nobody, neediest queue first
                allocate(placer)
            case Pass.CONSOLIDATE:  # 4. make room by moving
                outcome.note(each, consolidate(solver))
            case Pass.RECLAIM:  # 5. take quota back from borrowers
                outcome.note(each, reclaim(solver))
            case Pass.PREEMPT:  # 6. priority within a queue
                outcome.note(each, preempt(solver))
            case Pass.STALE:  # 7. end gangs that lost a part
                outcome.note_stale(end_stale(trial))
    if board.policy.place_before_taking:  # 8. start what turns out to be free at once
        start_what_can(placer)
    return outcome.to_plan()  # 9. and say why the rest waits


def next_pool(wanted: Sequence[PoolName], current: PoolName, verdict: Verdict | None) -> PoolName:
    """Where a group tries next: on to the next pool of its list after a verdict without a promise, and round again.

    Each pool is planned by itself, so whoever plans them all moves groups along between cycles.
    """
    if current not in wanted:
        return wanted[0] if wanted else current
    if verdict is None or verdict.running or isinstance(verdict.why, WaitsForVictims):
        return current
    return wanted[(wanted.index(current) + 1) % len(wanted)]


def share(trial: Trial) -> None:
    """Fill in what queues ask for, and their fair shares."""
    board = trial.board
    queues = board.queues
    queues.request = [list(held) for held in queues.held]
    for pod, row in enumerate(board.pods):
        queue = board.queue_of[board.group_of[pod]]
        if queue == NOWHERE or board.hold[pod] != NOTHING or row.gated:
            continue
        need = board.waiting_need(pod)
        for level in queues.path[queue]:
            for resource in RESOURCES:
                queues.request[level][resource] += need[resource]
    fair_shares(queues, board.policy)

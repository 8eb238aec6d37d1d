"""The scheduling cycle: a snapshot in, a plan out. No clock, no log, no I/O; same snapshot, same plan, to the byte."""

from __future__ import annotations

from collections.abc import Sequence

from fairpool.model.ids import PoolName
from fairpool.scheduler.allocate import allocate, start_what_can
from fairpool.scheduler.consolidate import consolidate
from fairpool.scheduler.decision import Plan, Verdict, WaitsForVictims
from fairpool.scheduler.fairshare import fair_shares
from fairpool.scheduler.final_plan import is_final
from fairpool.scheduler.placement import Placer
from fairpool.scheduler.plan_builder import PlanBuilder
from fairpool.scheduler.policy import Pass
from fairpool.scheduler.preempt import preempt
from fairpool.scheduler.prepared import Prepared, prepare
from fairpool.scheduler.reclaim import reclaim
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.solver import Solver
from fairpool.scheduler.stale_gangs import end_stale
from fairpool.scheduler.trial import Trial


def plan(snapshot: Snapshot) -> Plan:
    """Decide for one node pool, from the rows alone."""
    return decide(prepare(snapshot))


def decide(prepared: Prepared) -> Plan:
    """Decide for one node pool. What is prepared stays as it is, and can be decided again or prepared from."""
    trial = Trial(prepared.columns)
    columns = trial.columns
    share(trial)  # what each queue may fairly hold now
    placer = Placer(trial)
    solver = Solver(placer)
    builder = PlanBuilder(placer, prepared.problems)
    allocated = trial.mark()
    for each in columns.policy.passes:
        match each:
            case Pass.ALLOCATE:  # place what fits, neediest queue first
                allocate(placer)
                allocated = trial.mark()
            case Pass.CONSOLIDATE:  # make room by moving
                builder.note(each, consolidate(solver))
            case Pass.RECLAIM:  # take quota back from borrowers
                builder.note(each, reclaim(solver))
            case Pass.PREEMPT:  # priority within a queue
                builder.note(each, preempt(solver))
            case Pass.STALE:  # end gangs that lost a part
                builder.note_stale(end_stale(trial))
    if columns.policy.place_before_taking:  # start what turns out to be free at once
        start_what_can(placer)
    return builder.to_plan(is_final(solver, allocated))  # with a verdict for each group that waits


def next_pool(wanted: Sequence[PoolName], current: PoolName, verdict: Verdict | None) -> PoolName:
    """Where a group tries next: on to the next pool of its list after a verdict without a promise, and round again.

    Each pool is planned by itself, so the caller, who plans them all, moves groups along between cycles.
    """
    if current not in wanted:
        return wanted[0] if wanted else current
    if verdict is None or verdict.running or isinstance(verdict.why, WaitsForVictims):
        return current
    return wanted[(wanted.index(current) + 1) % len(wanted)]


def share(trial: Trial) -> None:
    """Work out the fair shares of queues, from what they hold and ask for."""
    fair_shares(trial.columns.queues, trial.columns.policy)

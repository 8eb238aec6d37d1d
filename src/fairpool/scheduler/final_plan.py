"""Final plans: once such a plan is carried out, planning again at the same moment is known to change nothing.

The passes that take from others first try again to place every waiting group, with all that was allocated in place. So
if nothing moved after the allocate pass and no search for victims was begun, the next plan would begin where this one
ended and come to the same answers, provided that its rows say the same as the columns do now. That is not so for
shared devices, claims, affinity and minimum runtimes, where a row says more; such plans are never called final.
"""

from __future__ import annotations

from fairpool.scheduler.columns import NOWHERE, Columns
from fairpool.scheduler.policy import Pass, Policy
from fairpool.scheduler.runtime import has_minimum_runtimes
from fairpool.scheduler.solver import Solver


def is_final(solver: Solver, allocated: int) -> bool:
    """Whether it is known that nothing would change. `allocated` is the mark of the trial after the allocate pass."""
    placer, trial, columns = solver.placer, solver.trial, solver.columns
    return (
        trial.mark() == allocated
        and not solver.has_searched
        and _tries_all_again(columns.policy)
        and not (columns.promised_pods or trial.promised() or placer.withdrawn)
        and not trial.broken_groups()
        and not (columns.claims or columns.labelled_pods or columns.nominated_pods)
        and not has_minimum_runtimes(columns.queues, columns.policy)
        and _is_charged_as_asked(columns, {pod for pod, _ in trial.journal})
        and placer.free.is_exact()
    )


def _tries_all_again(policy: Policy) -> bool:
    """Whether groups that were not placed have another try before victims are searched for them."""
    return (
        policy.passes[:1] == (Pass.ALLOCATE,)
        and Pass.RECLAIM in policy.passes
        and policy.place_before_taking
        and policy.durable_promises
        and not policy.groups_per_queue
    )


def _is_charged_as_asked(columns: Columns, pods: set[int]) -> bool:
    """Whether pods that got a place are charged there what they asked for, so that fair shares stay as they are."""
    places = {(columns.shape_of[pod], columns.hold_node[pod]) for pod in pods if columns.hold_node[pod] != NOWHERE}
    kinds = {(shape, columns.nodes.device_mib[node]) for shape, node in places}
    return all(
        not columns.facts[shape].shared and columns.facts[shape].placed(mib) == columns.facts[shape].waiting
        for shape, mib in kinds
    )

"""Running one case and saying what differed. A case never ends the run: whatever it raises is its failure."""

from __future__ import annotations

import traceback
from dataclasses import dataclass

from tests.conformance import units
from tests.conformance.case import Case
from tests.conformance.cycle import Planner, carry_over, run_cycle, start_ages
from tests.conformance.match import differences, excess, hints
from tests.conformance.state import first_state


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case went."""

    case: Case
    differences: tuple[str, ...]
    hints: tuple[str, ...] = ()
    """What is odd without being wrong."""
    trace: str = ""
    """Where it came from, if it was an exception."""

    @property
    def passed(self) -> bool:
        return not self.differences


def judge(case: Case, planner: Planner) -> Outcome:
    """Run a case."""
    try:
        if case.is_unit:
            return Outcome(case, tuple(units.differences(case)))
        if case.data["runner"]["kind"] == "single_cycle":
            return _single_cycle(case, planner)
        return _multi_cycle(case, planner)
    except Exception as failure:
        what = f"{type(failure).__name__}: {failure}"
        return Outcome(case, (what,), trace=traceback.format_exc())


def _single_cycle(case: Case, planner: Planner) -> Outcome:
    cycle = run_cycle(case, first_state(case), planner)
    found = excess(case, cycle.operations) + differences(case, cycle.state, cycle.started_ago_s)
    problems = (f"the scheduler says: {problem}" for problem in cycle.plan.problems)
    return Outcome(case, tuple(found), (*problems, *hints(case, cycle.state)))


def _multi_cycle(case: Case, planner: Planner) -> Outcome:
    """Cycles until the state is expected to be reached, a look at it, and cycles that must leave it as it is."""
    runner = case.data["runner"]
    state = first_state(case)
    found = []
    for number in range(1, runner["cycles_before_match"] + 1):
        cycle = run_cycle(case, state, planner)
        found += [f"cycle {number}: {what}" for what in excess(case, cycle.operations)]
        state = carry_over(case, cycle.state)
    found += differences(case, state, start_ages(case, state))
    odd = hints(case, state)
    for number in range(1, runner["cycles_after_match"] + 1):
        cycle = run_cycle(case, state, planner)
        wrong = excess(case, cycle.operations) + differences(case, cycle.state, cycle.started_ago_s)
        found += [f"cycle {number} after the match: {what}" for what in wrong]
        state = carry_over(case, cycle.state)
    return Outcome(case, tuple(found), tuple(odd))

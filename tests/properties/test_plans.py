"""The laws over generated worlds, and what holds from one plan to the next."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Plan, Verdict, WaitsForVictims
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot
from tests import simulated_ledger
from tests.properties.laws import LAWS, Law
from tests.properties.snapshots import snapshots
from tests.scenario import SETTLES_WITHIN

Row = TypeVar("Row")

MANY = settings(max_examples=1500)
LATER_S = 24 * 3600


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@given(snapshot=snapshots())
def test_every_plan_keeps_the_law(law: Law, snapshot: Snapshot) -> None:
    law(snapshot, plan(snapshot))


@pytest.mark.slow
@MANY
@given(snapshot=snapshots())
def test_every_plan_keeps_all_laws(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    for law in LAWS:
        law(snapshot, decided)


@pytest.mark.slow
@settings(max_examples=300)
@given(snapshot=snapshots(most_groups=24))
def test_every_plan_keeps_all_laws_in_larger_worlds(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    for law in LAWS:
        law(snapshot, decided)


@given(snapshot=snapshots(), seed=st.integers(0, 2**16))
def test_the_same_rows_in_another_order_give_the_same_plan(snapshot: Snapshot, seed: int) -> None:
    assert plan(shuffled(snapshot, seed)) == plan(snapshot)


@pytest.mark.slow
@MANY
@given(snapshot=snapshots(most_groups=12), seed=st.integers(0, 2**16))
def test_the_same_rows_in_another_order_give_the_same_plan_often(snapshot: Snapshot, seed: int) -> None:
    assert plan(shuffled(snapshot, seed)) == plan(snapshot)


@given(snapshot=snapshots())
def test_planning_comes_to_rest(snapshot: Snapshot) -> None:
    assert cycles_until_rest(snapshot) <= SETTLES_WITHIN


@pytest.mark.slow
@MANY
@given(snapshot=snapshots(most_groups=12))
def test_planning_comes_to_rest_and_keeps_all_laws_on_the_way(snapshot: Snapshot) -> None:
    for _ in range(SETTLES_WITHIN):
        decided = plan(snapshot)
        for law in LAWS:
            law(snapshot, decided)
        if is_at_rest(snapshot, decided):
            return
        snapshot = simulated_ledger.apply(snapshot, decided)
    assert is_at_rest(snapshot, plan(snapshot)), f"no rest after {SETTLES_WITHIN} cycles: {plan(snapshot)}"


@given(snapshot=snapshots())
def test_time_alone_changes_nothing_before_quiet_until(snapshot: Snapshot) -> None:
    assert_quiet(snapshot)


@pytest.mark.slow
@MANY
@given(snapshot=snapshots())
def test_time_alone_changes_nothing_before_quiet_until_often(snapshot: Snapshot) -> None:
    assert_quiet(snapshot)


def shuffled(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same rows in another order."""
    dice = random.Random(seed)

    def mixed(rows: tuple[Row, ...]) -> tuple[Row, ...]:
        return tuple(dice.sample(rows, len(rows)))

    return replace(
        snapshot,
        nodes=mixed(snapshot.nodes),
        queues=mixed(snapshot.queues),
        groups=mixed(snapshot.groups),
        pods=mixed(snapshot.pods),
    )


def is_at_rest(snapshot: Snapshot, decided: Plan) -> bool:
    """Nothing to do, and nobody on the way out who would be back in the next cycle."""
    return decided.is_empty and not any(pod.phase is PodPhase.RELEASING for pod in snapshot.pods)


def cycles_until_rest(snapshot: Snapshot) -> int:
    """Cycles of planning and applying until there is nothing to do; one more than allowed if there is no end."""
    for cycle in range(SETTLES_WITHIN + 1):
        decided = plan(snapshot)
        if is_at_rest(snapshot, decided):
            return cycle
        snapshot = simulated_ledger.apply(snapshot, decided)
    return SETTLES_WITHIN + 1


def assert_quiet(snapshot: Snapshot) -> None:
    """Planning later, but before `quiet_until`, gives the same plan but for the date on new promises."""
    first = plan(snapshot)
    if first.quiet_until is not None:
        assert first.quiet_until > snapshot.now
    last = Instant(first.quiet_until - 1 if first.quiet_until else snapshot.now + LATER_S * SECOND_MS)
    for moment in (last, Instant((snapshot.now + last) // 2)):
        later = plan(replace(snapshot, now=moment))
        assert undated(later) == undated(first), f"{moment - snapshot.now} ms later"


def undated(decided: Plan) -> Plan:
    """A plan without the moments at which its new promises were made."""
    return replace(
        decided,
        promises=tuple(replace(each, since=Instant(0)) for each in decided.promises),
        verdicts={group: _undated(verdict) for group, verdict in decided.verdicts.items()},
    )


def _undated(verdict: Verdict) -> Verdict:
    if isinstance(verdict.why, WaitsForVictims):
        return replace(verdict, why=replace(verdict.why, since=Instant(0)))
    return verdict

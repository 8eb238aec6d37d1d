"""The laws over generated worlds, and what holds from one plan to the next.

Seeds make many worlds quickly, and what breaks is made small before it is shown; Hypothesis looks for the odd ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import TypeVar

import pytest
from hypothesis import given, settings

from fairpool.model.ids import SECOND_MS, Instant
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.decision import Plan, Verdict, WaitsForVictims
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests import simulated_ledger
from tests.oracle.worlds import FEATURES, PROFILES, world
from tests.properties.laws import LAWS, Law
from tests.properties.smaller import smallest
from tests.properties.snapshots import seeded, snapshots
from tests.scenario import SETTLES_WITHIN, World, picture

FEW = range(16)
MANY = [range(first, first + 200) for first in range(1000, 3000, 200)]
LARGE = [range(first, first + 25) for first in range(5000, 5200, 25)]
MANY_GROUPS = 20
LATER_S = 24 * 3600

Row = TypeVar("Row")
Check = Callable[[Snapshot], None]


# --- one plan ----------------------------------------------------------------------------------------------------


@cache
def decided_few() -> list[tuple[int, Snapshot, Plan]]:
    return [(seed, snapshot, plan(snapshot)) for seed in FEW for snapshot in [seeded(seed)]]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_every_plan_keeps_the_law(law: Law) -> None:
    for seed, snapshot, decided in decided_few():
        try:
            law(snapshot, decided)
        except AssertionError:
            for_seed(seed, lambda rows: law(rows, plan(rows)))
            raise


@pytest.mark.slow
@settings(max_examples=300)
@given(snapshot=snapshots())
def test_every_plan_keeps_all_laws(snapshot: Snapshot) -> None:
    keeps_all_laws(snapshot)


def keeps_all_laws(snapshot: Snapshot) -> None:
    decided = plan(snapshot)
    for law in LAWS:
        law(snapshot, decided)


# --- the same plan ---------------------------------------------------------------------------------------------


def test_the_same_rows_in_another_order_give_the_same_plan() -> None:
    for seed, snapshot, decided in decided_few():
        assert plan(shuffled(snapshot, seed)) == decided, f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MANY, ids=str)
def test_the_same_rows_in_another_order_give_the_same_plan_in_many_worlds(seeds: range) -> None:
    for seed in seeds:
        for_seed(seed, does_not_depend_on_the_order_of_rows, most_groups=12)


def does_not_depend_on_the_order_of_rows(snapshot: Snapshot) -> None:
    assert plan(shuffled(snapshot, len(snapshot.pods))) == plan(snapshot)


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


# --- plan after plan -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_planning_comes_to_rest(seed: int) -> None:
    for_seed(seed, comes_to_rest_lawfully)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MANY, ids=str)
def test_planning_comes_to_rest_and_keeps_all_laws_on_the_way(seeds: range) -> None:
    for seed in seeds:
        for_seed(seed, comes_to_rest_lawfully)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", LARGE, ids=str)
def test_larger_worlds_come_to_rest_and_keep_all_laws_on_the_way(seeds: range) -> None:
    for seed in seeds:
        for_seed(seed, comes_to_rest_lawfully, MANY_GROUPS)


def comes_to_rest_lawfully(snapshot: Snapshot, within: int = SETTLES_WITHIN) -> None:
    """Plan and apply until there is nothing left to do, and look at every plan on the way."""
    for _ in range(within):
        keeps_all_laws(snapshot)
        decided = plan(snapshot)
        if is_at_rest(snapshot, decided):
            return
        snapshot = simulated_ledger.apply(snapshot, decided)
    assert is_at_rest(snapshot, plan(snapshot)), f"no rest after {within} cycles"


def is_at_rest(snapshot: Snapshot, decided: Plan) -> bool:
    """Nothing to do, and no pod leaving that would be back in the next cycle."""
    return decided.is_empty and not any(pod.phase is PodPhase.RELEASING for pod in snapshot.pods)


# --- the worlds of the oracle: claims, MIG, affinity, topologies, gangs of unlike pods -----------------------------


@pytest.mark.parametrize("profile", PROFILES)
def test_worlds_of_the_oracle_keep_all_laws(profile: str) -> None:
    for feature in FEATURES:
        for seed in range(2):
            is_lawful(seed, profile, feature)


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("profile", PROFILES)
def test_many_worlds_of_the_oracle_keep_all_laws(profile: str, feature: str) -> None:
    for seed in range(3000, 3100 if feature == "unlike" else 3030):
        is_lawful(seed, profile, feature)


def is_lawful(seed: int, profile: str, feature: str) -> None:
    snapshot = world(seed, profile, feature, Policy.product())
    try:
        does_not_depend_on_the_order_of_rows(snapshot)
        is_quiet(snapshot)
        comes_to_rest_lawfully(snapshot, within=2 * SETTLES_WITHIN)
    except AssertionError as error:
        error.add_note(f"world({seed}, {profile!r}, {feature!r})")
        raise


# --- time --------------------------------------------------------------------------------------------------------


def test_time_alone_changes_nothing_before_quiet_until() -> None:
    for seed in FEW:
        for_seed(seed, is_quiet)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", MANY, ids=str)
def test_time_alone_changes_nothing_before_quiet_until_in_many_worlds(seeds: range) -> None:
    for seed in seeds:
        for_seed(seed, is_quiet)


def is_quiet(snapshot: Snapshot) -> None:
    """Planning later, but before `quiet_until`, gives the same plan but for the date on new promises."""
    first = plan(snapshot)
    if first.quiet_until is not None:
        assert first.quiet_until > snapshot.now
    last = Instant(first.quiet_until - 1 if first.quiet_until else snapshot.now + LATER_S * SECOND_MS)
    for moment in (last, Instant((snapshot.now + last) // 2)):
        later = plan(replace(snapshot, now=moment))
        assert undated(later) == undated(first), f"{moment - snapshot.now} ms later"


def undated(decided: Plan) -> Plan:
    """A plan without the moment at which it was made, which new promises carry."""
    return replace(
        decided,
        quiet_until=None,
        promises=tuple(replace(each, since=Instant(0)) for each in decided.promises),
        verdicts={group: _undated(verdict) for group, verdict in decided.verdicts.items()},
    )


def _undated(verdict: Verdict) -> Verdict:
    if isinstance(verdict.why, WaitsForVictims):
        verdict = replace(verdict, why=replace(verdict.why, since=Instant(0)))
    return replace(verdict, at=Instant(0))


# --- what to look at when it fails --------------------------------------------------------------------------------


def for_seed(seed: int, holds: Check, most_groups: int = 8) -> None:
    """Check the world of a seed; if it fails, fail with the smallest world that still does."""
    snapshot = seeded(seed, most_groups)
    if not _breaks(holds, snapshot):
        return
    small = smallest(snapshot, lambda rows: _breaks(holds, rows))
    world = World()
    world.snapshot = small
    try:
        holds(small)
    except Exception as error:
        error.add_note(f"seed {seed}, made smaller:\n{picture(world)}\n{small}")
        raise


def _breaks(holds: Check, snapshot: Snapshot) -> bool:
    try:
        holds(snapshot)
    except Exception:
        return True
    return False

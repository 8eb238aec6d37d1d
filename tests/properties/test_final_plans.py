"""Final plans: carried out and planned again, they change nothing, so the loop need not plan again."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fairpool.model.ids import Instant
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from tests.oracle.worlds import FEATURES, PROFILES, world
from tests.properties.snapshots import seeded
from tests.properties.test_prepared import carry_out


def outcome(decided: Plan) -> dict[str, object]:
    """What a plan says about the state it leaves."""
    return {
        "reasons": {group: replace(verdict, at=Instant(0)) for group, verdict in decided.verdicts.items()},
        "queues": decided.queues,
        "stale": decided.stale,
        "quiet_until": decided.quiet_until,
    }


def is_fixed_point(snapshot: Snapshot) -> bool:
    """Whether the plan binds pods and is called final; then planning again must change nothing."""
    decided = plan(snapshot)
    if not decided.is_final or not decided.binds:
        return False
    again = plan(carry_out(snapshot, random.Random()))
    assert again.is_empty
    assert outcome(again) == outcome(decided)
    return True


@pytest.mark.parametrize("feature", FEATURES)
def test_a_final_plan_is_followed_by_one_that_changes_nothing(feature: str) -> None:
    found = 0
    for profile in PROFILES:
        for seed in range(12):
            found += is_fixed_point(world(seed, profile, feature, Policy.product()))
    assert found, "or this tests nothing"


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("profile", PROFILES)
def test_a_final_plan_is_followed_by_one_that_changes_nothing_in_thousands_of_worlds(
    profile: str, feature: str
) -> None:
    for seed in range(100, 300):
        is_fixed_point(world(seed, profile, feature, Policy.product()))


def test_a_final_plan_is_followed_by_one_that_changes_nothing_with_everything_in_it() -> None:
    for seed in range(200):
        is_fixed_point(seeded(seed))


def test_some_plans_that_only_bind_pods_are_followed_by_one_that_does_more() -> None:
    """This is why only some plans are final."""
    for seed in range(60):
        for profile in PROFILES:
            snapshot = world(seed, profile, "unlike", Policy.product())
            decided = plan(snapshot)
            only_binds = decided.binds and not (decided.evictions or decided.promises or decided.withdrawals)
            if only_binds and not plan(carry_out(snapshot, random.Random())).is_empty:
                assert not decided.is_final
                return
    pytest.fail("none was found")

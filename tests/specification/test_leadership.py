"""Leader election, decided from what is seen of the lease: at most one replica acts, whatever the clocks say."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

import pytest

from fairpool.engines.kubernetes.leadership import ACTING_S, DURATION_S, RETRY_S, Leadership, LeaseRecord

THEIRS = LeaseRecord(holder="them", acquired_at="x", renewed_at="x", transitions=4)


def test_a_lease_that_does_not_exist_is_acquired() -> None:
    us = Leadership("us").look(None, 100.0)
    claim = us.claim(100.0, "noon")
    assert claim == LeaseRecord(holder="us", acquired_at="noon", renewed_at="noon", transitions=0)
    us = us.written(claim, 100.0, 100.5)
    assert us.leads(100.0 + ACTING_S - 0.1)
    assert not us.leads(100.0 + ACTING_S), "counted from when the request was sent"


def test_a_renewal_keeps_when_it_was_acquired_and_how_often_it_changed_hands() -> None:
    us = Leadership("us").look(None, 0.0)
    first = us.claim(0.0, "noon")
    assert first is not None
    us = us.written(first, 0.0, 0.1).look(first, 2.0)
    assert us.claim(2.0, "later") == replace(first, renewed_at="later")


def test_the_lease_of_another_is_taken_after_its_duration_by_our_clock_only() -> None:
    us = Leadership("us").look(THEIRS, 50.0)
    assert us.claim(50.0 + DURATION_S - 0.01, "noon") is None
    us = us.look(THEIRS, 60.0)  # seen again, unchanged: the time runs on
    taken = us.claim(50.0 + DURATION_S, "noon")
    assert taken == LeaseRecord(holder="us", acquired_at="noon", renewed_at="noon", transitions=5)


def test_a_renewal_that_is_seen_begins_the_time_again_whatever_time_is_written_in_it() -> None:
    us = Leadership("us").look(THEIRS, 50.0).look(replace(THEIRS, renewed_at="1970-01-01T00:00:00Z"), 64.0)
    assert us.claim(64.0 + DURATION_S - 0.01, "noon") is None


def test_a_lease_that_was_released_is_taken_at_once() -> None:
    us = Leadership("us").look(replace(THEIRS, holder="", duration_s=1), 50.0)
    claim = us.claim(50.0, "noon")
    assert claim is not None
    assert claim.transitions == 5


def test_a_leader_that_sees_another_stops_at_once_and_does_not_release_what_is_not_its_own() -> None:
    us = Leadership("us").written(LeaseRecord(holder="us"), 10.0, 10.0).look(THEIRS, 11.0)
    assert not us.leads(11.0)
    assert us.release() is None


def test_a_lease_that_was_deleted_by_hand_is_not_held_any_more() -> None:
    us = Leadership("us").written(LeaseRecord(holder="us"), 10.0, 10.0).look(None, 11.0)
    assert not us.leads(11.0)
    assert us.claim(11.0, "noon") is not None


def test_the_lease_of_another_that_was_deleted_by_hand_is_not_free_before_it_would_have_expired() -> None:
    us = Leadership("us").look(THEIRS, 50.0).look(None, 51.0)
    assert us.claim(51.0, "noon") is None, "the other one acts until it notices"
    us = us.look(None, 50.0 + DURATION_S)
    claim = us.claim(50.0 + DURATION_S, "noon")
    assert claim is not None
    assert claim.holder == "us"


def test_our_own_lease_from_before_a_restart_is_taken_at_once() -> None:
    us = Leadership("us").look(replace(THEIRS, holder="us"), 5.0)
    assert not us.leads(5.0), "it is not renewed yet"
    claim = us.claim(5.0, "noon")
    assert claim is not None
    assert claim.transitions == THEIRS.transitions


@dataclass
class Replica:
    """A replica with a clock of its own."""

    state: Leadership
    clock_s: float
    frozen_until: float = 0.0
    """Of the true time: it is stopped until then."""
    cut_until: float = 0.0
    """It cannot reach the API server until then."""


@pytest.mark.parametrize("seed", range(30))
def test_no_two_replicas_lead_at_one_moment(seed: int) -> None:
    """Replicas that are frozen and cut off at random; a request takes a while, and its answer may be lost."""
    dice = random.Random(seed)
    replicas = [Replica(Leadership(name), dice.uniform(-1e6, 1e6)) for name in ("a", "b", "c")]
    lease: LeaseRecord | None = None
    led = 0
    for tick in range(6000):
        now = tick * 0.1
        for each in replicas:
            moment = now + each.clock_s
            if dice.random() < 0.001:
                each.frozen_until = now + dice.uniform(0, 40)
            if dice.random() < 0.001:
                each.cut_until = now + dice.uniform(0, 40)
            if now < max(each.frozen_until, each.cut_until) or dice.random() > 0.1 / RETRY_S:
                continue
            each.state = each.state.look(lease, moment)
            claim = each.state.claim(moment, f"{tick}")
            if claim is None:
                continue
            lease = claim  # nothing was written between reading and writing: the precondition holds
            if dice.random() < 0.95:
                each.state = each.state.written(claim, moment, moment + 0.05)
        leading = [each for each in replicas if each.state.leads(now + each.clock_s) and now >= each.frozen_until]
        assert len(leading) <= 1, f"seed {seed}, {now:.1f} s: {[each.state for each in leading]}"
        led += len(leading)
    assert led > 3000, "and most of the time one does"

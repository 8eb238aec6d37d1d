"""Shortcuts change nothing: whole plans with and without them are equal."""

from __future__ import annotations

from typing import Any

import pytest

from fairpool.scheduler import allocate, batch, equivalence, eviction_simulation, losses, reclaim, solver, turns, walk
from fairpool.scheduler.decision import Plan
from fairpool.scheduler.gang_proposal import Proposal
from fairpool.scheduler.plan import plan
from fairpool.scheduler.policy import Policy
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.victim_line import VictimLines
from fairpool.scheduler.victim_search import Solution, VictimSearch
from fairpool.scheduler.victims import Candidates
from tests.oracle.worlds import FEATURES, PROFILES, world

POLICIES = {"product": Policy.product, "reference": Policy.reference}
FOUND = [
    *((seed, "gangs") for seed in (83, 162, 220, 483)),
    *((seed, "unlike") for seed in (211, 309, 455, 629)),
]
"""Crowded worlds in which a shortcut gave another plan: victims for equal pods all at once, or of a line taken over."""
KINDS = [(profile, feature) for profile in PROFILES for feature in FEATURES]


def plan_the_long_way(snapshot: Snapshot, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Groups one by one, every victim simulated, every search from the beginning."""
    with monkeypatch.context() as patch:
        patch.setattr(allocate, "serve_batches", lambda *_: False)
        patch.setattr(equivalence, "countable_shape", lambda *_: None)
        patch.setattr(VictimSearch, "go_on_from", lambda *_: None)
        patch.setattr(eviction_simulation.EvictionSimulation, "is_full_for", lambda *_: False)
        patch.setattr(equivalence, "equivalence_class", lambda *_: None)
        patch.setattr(reclaim, "could_be_enough", lambda *_: True)
        patch.setattr(losses.Losses, "could_do", lambda *_: True)
        patch.setattr(losses.Losses, "shield", lambda *_: None)
        patch.setattr(solver.Solver, "victim_lines", made_anew)
        patch.setattr(walk.Walk, "pass_over", lambda *_: None)
        patch.setattr(walk, "SIBLINGS_MIN", 1000)
        patch.setattr(allocate, "none_gains", lambda *_: False)
        patch.setattr(allocate, "has_equal_pods", lambda *_: False)
        patch.setattr(turns, "none_gains", lambda *_: False)
        patch.setattr(walk, "turns_that_matter", lambda *_: None)
        return plan(snapshot)


def made_anew(searching: solver.Solver, candidates: Candidates) -> VictimLines:
    """Lines that share nothing with those of the search before."""
    return VictimLines(searching.trial, searching.possible_victims, candidates)


def compare(seeds: range, profile: str, feature: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "GROUPS_MIN", 1)
    monkeypatch.setattr(allocate, "CLASS_SIZE_MIN", 1)
    monkeypatch.setattr(walk, "SIBLINGS_MIN", 2)
    for seed in seeds:
        snapshot = world(seed, profile, feature, POLICIES[policy]())
        assert plan(snapshot) == plan_the_long_way(snapshot, monkeypatch), (seed, profile, feature, policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("profile", "feature"), KINDS)
def test_shortcuts_change_nothing(profile: str, feature: str, policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compare(range(1000, 1005), profile, feature, policy, monkeypatch)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("seed", "feature"), FOUND)
def test_shortcuts_change_nothing_where_they_once_did(
    seed: int, feature: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(seed, seed + 1), "crowded", feature, policy, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("profile", "feature"), KINDS)
def test_shortcuts_change_nothing_in_thousands_of_worlds(
    profile: str, feature: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare(range(2000, 2060), profile, feature, policy, monkeypatch)


def test_the_shortcuts_are_really_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or the comparison would prove nothing."""
    accepted: list[Solution | None] = []
    taken_over: list[bool] = []
    bound: list[int] = []
    attempt_proposal, go_on_from, bind = VictimSearch.attempt_proposal, VictimSearch.go_on_from, batch._bind

    def count_proposals(search: VictimSearch, proposal: Proposal) -> Solution | None:
        accepted.append(attempt_proposal(search, proposal))
        return accepted[-1]

    def count_lines(search: VictimSearch, before: VictimSearch) -> None:
        go_on_from(search, before)
        taken_over.append(search.at > 0)

    def count_runs(*given: Any) -> None:
        bound.append(len(given[3]))
        bind(*given)

    monkeypatch.setattr(batch, "GROUPS_MIN", 1)
    monkeypatch.setattr(VictimSearch, "attempt_proposal", count_proposals)
    monkeypatch.setattr(VictimSearch, "go_on_from", count_lines)
    monkeypatch.setattr(batch, "_bind", count_runs)
    for profile, feature in KINDS:
        for seed in range(20):
            plan(world(seed, profile, feature, Policy.product()))
    assert sum(found is not None for found in accepted) > 10
    assert sum(taken_over) > 10
    assert sum(bound) > 10

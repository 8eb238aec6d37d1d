"""The same worlds with the control plane and the loop as two processes: killed, nothing is lost or done twice."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing

import pytest

from tests.fault_injection.faults import Faults
from tests.postgresql import is_chosen, of_sqlite
from tests.simulation.control_process import DATABASE
from tests.simulation.soak import run_seed_apart
from tests.simulation.two_process_world import TwoProcessWorld


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [(0, 1)] if is_chosen() else [(0, 1), (2, 3), (4, 5)])
def test_nothing_is_lost_or_run_twice_when_either_process_is_killed(seeds: tuple[int, ...]) -> None:
    counts = sum((run_seed_apart(seed) for seed in seeds), start=Counter[str]())
    assert counts["crashes"], "of the loop"
    assert counts["control plane crashes"]
    assert counts["workloads"]


@pytest.mark.slow
@of_sqlite
def test_a_submission_that_was_answered_and_is_not_there_any_more_is_found() -> None:
    world = TwoProcessWorld(2, Faults.none(), workloads=3)
    try:
        world.calm()
        world.run(hours=0.2)
        assert list(world.over_http.lost()) == []
        with closing(sqlite3.connect(world.folder / DATABASE)) as stored, stored:
            (name,) = stored.execute("DELETE FROM workloads RETURNING name").fetchone()
        assert any(f"{name} was submitted, and is not there" in what for what, _ in world.over_http.lost())
    finally:
        world.close()

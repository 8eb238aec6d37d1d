"""Nothing is lost, nothing is done twice, everything settles: seed by seed."""

from __future__ import annotations

import pytest

from tests.simulation.seeds import KEPT, seed_range
from tests.simulation.soak import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("first", seed_range(300, step=25))
def test_nothing_is_lost_or_run_twice_and_everything_settles(first: int) -> None:
    for seed in range(first, first + 25):
        run_seed(seed)


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    run_seed(seed)

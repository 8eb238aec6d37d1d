"""Nothing is lost, nothing is done twice, everything settles: seed by seed."""

from __future__ import annotations

import pytest

from fairpool.cluster import cycle as cycles
from fairpool.cluster.ledger_cache import EntryDraft
from fairpool.model.ids import WorkloadId
from tests.simulation.seeds import KEPT, seed_range
from tests.simulation.soak import run_seed


@pytest.mark.slow
@pytest.mark.parametrize("first", seed_range(150, step=25))
def test_nothing_is_lost_or_run_twice_and_everything_settles(first: int) -> None:
    for seed in range(first, first + 25):
        run_seed(seed)


@pytest.mark.parametrize("seed", KEPT)
def test_a_seed_that_once_failed_passes(seed: int) -> None:
    run_seed(seed)


@pytest.mark.parametrize("seed", range(5))
def test_orders_are_those_that_a_look_at_every_workload_finds(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    collect, compared = cycles._collect_orders, []

    def checked(draft: EntryDraft, inputs: cycles.CycleInput, concerned: set[WorkloadId]) -> None:
        for_orphans = list(draft.orders)
        collect(draft, inputs, concerned | draft.cache.awaiting_engine)
        expected, draft.orders = (draft.orders, draft.awaiting_engine), for_orphans
        collect(draft, inputs, concerned)
        assert (draft.orders, draft.awaiting_engine) == expected
        compared.extend(draft.orders)

    monkeypatch.setattr(cycles, "_collect_orders", checked)
    run_seed(seed)
    assert compared

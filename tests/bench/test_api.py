"""The benchmark of the control plane, at a small size: every case is answered, and a wrong answer is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import api
from bench._load import Ask, Load
from tests.postgresql import databases

SMALL = api.Size(workloads=20, projects=2, nodes=3)


@pytest.mark.slow
def test_each_case_is_measured_and_what_was_acknowledged_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "STREAMS", 3)
    monkeypatch.setattr(api, "CHURN_NODES", 4)
    lines = api.run(api.CASES, SMALL, 0.3, lambda line: None)
    assert [line.case for line in lines] == list(api.CASES)
    for line in lines:
        assert not line.faults, line.faults
        assert line.metrics["samples"] > 0
        assert line.metrics["errors"] == 0
    by_case = {line.case: line.metrics for line in lines}
    assert by_case["beside-churn"]["cycles"] > 0
    assert by_case["get"]["half_rate_samples"] > 0
    assert by_case["deleting"]["max_read_s"] > 0


@pytest.mark.slow
def test_it_measures_a_database_on_a_server_as_well(tmp_path: Path) -> None:
    lines = api.run(("empty", "submit"), SMALL, 0.3, lambda line: None, databases().url(tmp_path))
    assert [line.faults for line in lines] == [[], []]


@pytest.mark.slow
def test_what_was_lost_or_answered_wrongly_is_a_fault(tmp_path: Path) -> None:
    store = api.Store(tmp_path, SMALL)
    try:
        load = Load(store.address, 2)
        heard = load.at_full_speed(iter([Ask("get", store.address.request("GET", "/api/v1/workloads/absent"))]), 60)
        assert heard.faults
        assert heard.faults[0].startswith("get: answered 404, not 200")
        store.acknowledged += 1
        assert store.kill_and_count() == ["21 were acknowledged and 20 are there"]
    finally:
        store.server.kill()

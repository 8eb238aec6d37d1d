"""The benchmark of samples, at a small size: what it measures happens, and a missing sample is a fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import series
from bench.series import STATED_MB, SampleWriter, Size, gaps, main


@pytest.mark.slow
def test_samples_are_kept_and_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "REPEATS", 1)
    result = tmp_path / "series.jsonl"
    command = ["--nodes", "2", "--minutes", "11", "--sqlite", "--workloads", "640", "--json", str(result)]
    assert main(command) == 0
    hour, day, year, workloads = map(json.loads, result.read_text().splitlines())
    assert [each["case"] for each in (hour, day, year)] == ["hour, SQLite", "day, SQLite", "year, SQLite"]
    assert workloads["metrics"]["disk_mb"] < STATED_MB / 10_000 * 640 * 1.3, "rows and pages are larger for few"
    assert hour["metrics"]["times_real_time"] > 1
    assert (day["params"]["step_s"], year["params"]["step_s"]) == (60, 3600)


@pytest.mark.slow
def test_a_missing_sample_is_a_fault() -> None:
    with series._sqlite() as (database, _):
        SampleWriter(database, Size(nodes=1, samples=3)).run()
        assert gaps(database, Size(nodes=1, samples=3)) == []
        assert gaps(database, Size(nodes=1, samples=4))[0] == "node-0000: 3 of 4 samples"

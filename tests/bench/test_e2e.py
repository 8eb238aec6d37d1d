"""The benchmark from submitting to running, at a small size: every job runs and ends, and nothing is left running."""

from __future__ import annotations

import argparse

import pytest

from bench import e2e


@pytest.mark.slow
def test_simulated_pods_run_and_end() -> None:
    line = e2e.measured("simulated", 2, rate=20.0, seconds=0.5, burst=0)
    assert not line.faults, line.faults
    assert line.metrics["jobs"] == 10
    assert 0 < line.metrics["median_s"] <= line.metrics["p99_s"]


@pytest.mark.slow
def test_processes_run_and_end() -> None:
    line = e2e.measured("processes", 2, rate=0.0, seconds=0.0, burst=6)
    assert not line.faults, line.faults
    assert line.metrics["jobs"] == 6


def test_a_job_that_failed_or_is_missing_is_a_fault() -> None:
    watch = e2e.Watch()
    for name, phase in (("job-00000", "Completed"), ("job-00001", "Failed")):
        event = f'"verb":"observed","noun":"workload","object":{{"name":"{name}","phase":"{phase}"}}}}'
        watch.hear(f"id: 1\nevent: workload\ndata: {{{event}".encode(), 1.0)
    assert e2e._wrong(watch, 3) == ["2 of 3 jobs ended", "some ended as Failed"]
    assert watch.unseen == 2


def test_there_are_no_lines_for_what_has_no_room() -> None:
    options = argparse.Namespace(engine=["simulated"], size=[1], rate=[], burst=4000, only_burst=False)
    assert list(e2e.points(options)) == [("simulated", 1, 1.0, 0), ("simulated", 1, 10.0, 0)]

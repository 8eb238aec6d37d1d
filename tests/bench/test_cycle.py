"""Every case of the cycle benchmark, at a size that ends at once: its outcome is right, and a wrong one is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import cycle
from bench._audit import After, faults
from bench._cases import CASES, case_named
from bench._ledger import Ledger
from bench._report import FailedError, Line, exponent, watched
from bench._stopwatch import Point, measure, p99
from fairpool.model.lifecycle import PodPhase
from fairpool.scheduler.plan import plan

NAMES = [case.name for case in CASES]
SMALL = {"consolidate": 12, "topology": 16}
"""Nodes, where four are too few to mean anything."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_case_comes_out_as_expected(name: str) -> None:
    result = measure(Point(case=name, nodes=SMALL.get(name, 4), repeat=1, cycles=10))
    assert not result.faults
    assert result.metrics["median_s"] > 0
    assert result.metrics["peak_mib"] > 0


@pytest.mark.parametrize("name", NAMES)
def test_the_same_size_is_the_same_work(name: str) -> None:
    build = case_named(name).build
    assert build(12) == build(12)


def test_equal_shapes_are_one_object() -> None:
    pods = case_named("fill-mixed").build(12).pods
    assert len({id(pod.shape) for pod in pods}) == len({pod.shape for pod in pods})


def test_churn_starts_almost_full_and_keeps_its_jobs() -> None:
    snapshot = case_named("churn").build(10)
    assert all(pod.phase is PodPhase.RUNNING for pod in snapshot.pods)
    held = sum(After(snapshot, plan(snapshot)).held_milli().values())
    assert 75_900 <= held <= 76_000
    ledger = Ledger(snapshot)
    ledger.turn_over()
    arrived = [pod for pod in ledger.snapshot().pods if pod.phase is PodPhase.WAITING]
    assert arrived
    assert not ledger.faults(len(snapshot.groups), len(snapshot.pods))


def test_a_device_given_twice_is_a_fault() -> None:
    snapshot = case_named("fill-whole").build(1)
    right = plan(snapshot)
    assert not faults(After(snapshot, right))
    first = right.binds[0]
    wrong = replace(right, binds=tuple(replace(bind, devices=first.devices) for bind in right.binds))
    assert any("is used" in fault for fault in faults(After(snapshot, wrong)))


def test_a_broken_gang_is_a_fault() -> None:
    snapshot = case_named("gang").build(1)
    right = plan(snapshot)
    wrong = replace(right, binds=right.binds[1:])
    found = faults(After(snapshot, wrong))
    assert any("needs 4" in fault for fault in found)
    assert any("without a verdict" in fault for fault in found)


def test_an_eviction_too_many_is_a_fault() -> None:
    case = case_named("reclaim-gang")
    snapshot = case.build(4)
    right = plan(snapshot)
    assert not case.judge(After(snapshot, right))
    spare = replace(right.evictions[0], pod=snapshot.pods[0].id)
    assert case.judge(After(snapshot, replace(right, evictions=(*right.evictions, spare))))


def test_exponent_of_quadratic_work_is_two() -> None:
    lines = [Line("any", {}, size, {"median_s": 3e-6 * size**2}) for size in (100, 1000, 5000)]
    assert exponent(lines) == pytest.approx(2.0)
    assert exponent(lines[:1]) is None


def test_p99_is_a_sample_that_one_in_a_hundred_exceeds() -> None:
    assert p99([float(each) for each in range(1, 201)]) == 198.0
    assert p99([1.0]) == 1.0


@pytest.mark.slow
def test_the_command_writes_a_line_for_each_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "lines.jsonl"
    assert cycle.main(["--case", "fill-whole", "--size", "2", "1", "--repeat", "1", "--json", str(file)]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["params"]["nodes"] for line in lines] == [1, 2]
    assert all({"bench", "case", "params", "metrics", "host", "commit", "date"} <= line.keys() for line in lines)
    assert "exponent" not in lines[0]["metrics"]
    assert "exponent" in lines[1]["metrics"]
    assert "16 bound" in capsys.readouterr().out


@pytest.mark.slow
def test_what_takes_too_long_is_stopped_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert cycle.main(["--case", "fill-whole", "--size", "2", "4", "--limit", "0.000001"]) == 0
    output = capsys.readouterr().out
    assert output.count("over 1e-06 s") == 1


@pytest.mark.slow
def test_a_process_that_fails_is_a_fault_and_not_a_result() -> None:
    with pytest.raises(FailedError, match="StopIteration"):
        list(watched("bench._stopwatch", {"case": "no-such-case", "nodes": 1}, 10))

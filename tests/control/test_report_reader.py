"""Reports that are read from their text in slices."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fairpool.api import report_reader
from fairpool.api.clusters import EventReport, GoneReport, NodeReport, PodReport, PushReport, WorkloadReport
from fairpool.api.message import PREVIOUS, PROBLEMS_MAX, read_message
from fairpool.api.report_reader import read_report
from fairpool.api.samples import NODES_MAX, SamplesReport
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, QueueId, Token, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.status import WorkloadPhase


@pytest.fixture(autouse=True)
def _small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_reader, "SMALL_BYTES", 0)
    monkeypatch.setattr(report_reader, "SLICE_ROWS", 3)


def report() -> PushReport:
    workloads = tuple(
        WorkloadReport(
            id=WorkloadId(f"w{number}"),
            phase=WorkloadPhase.RUNNING,
            detail='needs "2, 3] }" é \u2028',
            pods=(PodReport(id=PodId(f"w{number}-0-0"), index=0, incarnation=0, phase=PodPhase.RUNNING),),
            since=Instant(5),
        )
        for number in range(10)
    )
    return PushReport(
        cluster="c",
        token=Token(1),
        number=2,
        after=1,
        whole=True,
        at=Instant(7),
        workloads=workloads,
        gone=(GoneReport(id=WorkloadId("x"), run=0),),
        nodes=(NodeReport(name=NodeName("n1"), pool=PoolName("default"), gpus=8),),
        nodes_gone=(NodeName("n2"), NodeName("n3")),
        queues_gone=((PoolName("default"), QueueId("team")),),
        events=tuple(EventReport(number=each, at=Instant(1), kind="k", workload=WorkloadId("w1")) for each in (1, 2)),
    )


def read_all(text: str | bytes, kind: type[Any] = PushReport) -> tuple[Any, int]:
    """What was read, and in how many slices."""
    reading = read_report(kind, text.encode() if isinstance(text, str) else text)
    pauses = 0
    while True:
        try:
            next(reading)
        except StopIteration as done:
            return done.value, pauses
        pauses += 1


@pytest.mark.parametrize("version", [PREVIOUS, PREVIOUS + 1])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_report_read_in_slices_is_the_same_report(version: int, indent: int | None) -> None:
    text = json.dumps(json.loads(report().to_json(version)), indent=indent)
    found, pauses = read_all(text)
    assert found == read_message(PushReport, text)
    assert found == report().model_copy(update={"version": version})
    assert pauses == 4 + 1 + 1 + 1 + 1 + 1


@pytest.mark.parametrize("lists", [{}, {"workloads": [], "nodes": []}])
def test_a_report_without_rows_is_read(lists: dict[str, Any]) -> None:
    text = json.dumps({"version": 3, "cluster": "c", "token": 1, "number": 1, "at": 7} | lists)
    assert read_all(text) == (read_message(PushReport, text), 0)


def test_a_row_that_is_wrong_is_named_by_its_place_in_the_whole_list() -> None:
    document = json.loads(report().to_json())
    document["workloads"][7]["phase"] = "Floating"
    found, _ = read_all(json.dumps(document))
    assert isinstance(found, list)
    assert found == read_message(PushReport, json.dumps(document))
    assert "PushReport.workloads.7.phase" in found[0].what


def test_a_field_that_is_wrong_is_named() -> None:
    document = json.loads(report().to_json()) | {"surprise": [1, 2], "number": 0}
    assert read_all(json.dumps(document))[0] == read_message(PushReport, json.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"workloads":[',
        '{"workloads":[1,]}',
        '{"workloads":[1 2]}',
        '{"cluster":"c",}',
        '{"cluster" "c"}',
        '{"workloads":[]} {}',
        "{1:2}x",
        b"\xff\xfe{}",
        pytest.param('{"workloads":[' + "[" * 100_000, id="deep"),
    ],
)
def test_what_is_not_json_is_refused(text: str | bytes) -> None:
    found, _ = read_all(text)
    assert isinstance(found, list)
    assert found[0].code in ("wire.not_json", "wire.wrong_value")


def samples(number: int, **more: Any) -> str:
    nodes = [{"node": f"n{each}", "pods": [{"pod": "p"}, {"pod": "q"}]} | more for each in range(number)]
    return json.dumps({"version": 3, "at": 7, "nodes": nodes})


def test_samples_are_read_in_slices_too() -> None:
    text = samples(10)
    assert read_all(text, SamplesReport) == (read_message(SamplesReport, text), 4)


def test_rows_beyond_the_bound_of_a_list_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_reader, "SLICE_ROWS", 10_000)
    found, _ = read_all(samples(NODES_MAX + 1), SamplesReport)
    assert [each.what for each in found] == [f"SamplesReport.nodes has more than {NODES_MAX} rows"]


@pytest.mark.parametrize("more", [{"pods": [{"pod": 1}] * 500}, {f"x{each}": 1 for each in range(500)}])
def test_a_message_with_many_errors_is_answered_with_some(more: dict[str, Any]) -> None:
    """The answer would otherwise be thirty times as long as the message."""
    found, _ = read_all(samples(3, **more), SamplesReport)
    assert 0 < len(found) <= PROBLEMS_MAX
    whole = read_message(SamplesReport, samples(100, **more))
    assert isinstance(whole, list)
    assert len(whole) <= PROBLEMS_MAX

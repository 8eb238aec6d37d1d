"""The benchmark of two control planes, at a small size: what it measures happens, and a lost event is a fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import planes
from bench.planes import STREAMS, Listener, Size, run
from tests.postgresql import databases

SMALL = Size(submits=2, clients=6, projects=2, rate=10.0, seconds=0.6)


@pytest.mark.slow
def test_pulls_are_woken_and_every_client_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "REST_S", 0.2)
    wake, *streams = run(SMALL, databases().url(tmp_path), lambda line: None)
    assert [line.faults for line in (wake, *streams)] == [[], [], []]
    assert (wake.case, wake.metrics["events"]) == ("wake", 2)
    assert [line.case for line in streams] == list(STREAMS)
    for line in streams:
        assert (line.size, line.metrics["events"]) == (3, 9)
        assert 0 < line.metrics["median_s"] <= line.metrics["p99_s"]


def event(revision: int, workload: str) -> bytes:
    data = f'{{"revision":{revision},"noun":"workload","id":"{workload}","verb":"created"}}'
    return f"id: {revision}\nevent: workload\ndata: {data}".encode()


def faults_of(*events: bytes) -> list[str]:
    listener = Listener(0, "mine")
    for each in events:
        listener.hear(each, 0.0)
    return listener.wrong({"a": "mine", "b": "mine", "c": "another's"})


def test_what_was_lost_repeated_or_not_to_be_seen_is_a_fault() -> None:
    assert faults_of(event(1, "a"), b": still here", b"id: 2", event(3, "b")) == []
    assert faults_of(event(1, "a")) == ["1 workloads missed"]
    assert faults_of(event(1, "a"), event(2, "b"), event(3, "c")) == ["1 workloads not its own"]
    assert faults_of(event(1, "a"), event(2, "b"), event(3, "b")) == ["1 workloads told twice"]
    assert faults_of(event(2, "b"), event(1, "a")) == ["revision 1 came after 2"]
    assert faults_of(event(1, "a"), event(2, "b"), b"id: 9\nevent: reset\ndata: {}") == ["the stream was reset"]

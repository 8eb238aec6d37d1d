"""The allocation benchmark: every way of asking the scheduler decides the same, and a wrong place is noticed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench import alloc
from bench._allocation import FGD, Point, Way, judged, measure, one_by_one, together
from bench._departures import departures
from bench._fgd import Cluster, Fgd, Typical
from bench._trace import LISTS, Ask, Place, arrivals, asks, nodes, snapshot, typical
from fairpool.model.lifecycle import PodPhase
from fairpool.model.node import Placement
from fairpool.scheduler.plan import plan
from fairpool.scheduler.snapshot import Snapshot

CAPACITY_MILLI = 6_212_000


@pytest.mark.parametrize("name", LISTS)
def test_every_list_is_there(name: str) -> None:
    listed = asks(name)
    assert len(listed) > 7000
    assert any(ask.models for ask in listed) == name.startswith("gpuspec")


def test_the_cluster_is_that_of_the_paper() -> None:
    assert len(nodes()) == 1213
    assert sum(node.gpus for node in nodes()) * 1000 == CAPACITY_MILLI
    assert sum(ask.gpu_milli for ask in asks("default")) == 6_086_800


def test_arrivals_follow_from_the_seed() -> None:
    listed = asks("default")
    first = arrivals(listed, 1_000_000, 42)
    assert first == arrivals(listed, 1_000_000, 42)
    assert first != arrivals(listed, 1_000_000, 43)
    assert len(first) == len(listed)


def few(strategy: Placement, seed: int = 42) -> tuple[list[Ask], Snapshot]:
    """Thirteen of the nodes, and more pods than they can take."""
    listed = asks("gpuspec33")
    arrived = arrivals(listed, CAPACITY_MILLI, seed)[:120]
    return arrived, replace(snapshot(arrived, strategy, typical(listed)), nodes=nodes()[::100])


def one_plan_each(rows: Snapshot) -> list[Place | None]:
    """A plan for every arrival, on what the plans before it made of the cluster; who does not fit is dropped."""
    running: list[int] = []
    places: list[Place | None] = []
    pods = list(rows.pods)
    for number, pod in enumerate(rows.pods):
        there = [*running, number]
        now = replace(rows, groups=tuple(rows.groups[each] for each in there), pods=tuple(pods[each] for each in there))
        binds = plan(now).binds
        places.append((binds[0].node, binds[0].devices) if binds else None)
        if binds:
            running.append(number)
            pods[number] = replace(pod, phase=PodPhase.RUNNING, node=binds[0].node, devices=binds[0].devices)
    return places


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Placement)
def test_one_by_one_and_together_decide_as_a_plan_for_each_arrival(strategy: Placement) -> None:
    _, rows = few(strategy)
    expected = one_plan_each(rows)
    alone, at_once = one_by_one(rows).places, together(rows).places
    assert None in expected
    assert at_once == alone
    # Which of two equal devices a pod is on may differ, where they are is the same.
    assert [place and place[0] for place in alone] == [place and place[0] for place in expected]


@pytest.mark.slow
def test_the_default_list_finds_room_until_almost_all_is_taken() -> None:
    result = measure(Point(name="default", seed=42, strategy=Placement.FRAGMENTATION, arrived=0.9))
    assert not result.faults
    assert result.metrics["pods"] == 8152
    assert result.metrics["unallocated_percent_at_95"] < 5.1
    assert result.metrics["first_refusal_at_percent"] > 94


@pytest.mark.slow
def test_pods_come_and_go() -> None:
    figures = departures("default", Placement.FRAGMENTATION, 120, 150)
    assert figures["pods"] == 150
    assert figures["refused"] < 15
    assert 5 < figures["mean_allocated_percent"] < 95


def test_a_pod_where_it_does_not_fit_is_noticed() -> None:
    listed = asks("default")
    arrived = [ask for ask in listed if ask.gpu_milli == 1000][:2]
    node = nodes()[0].name
    assert judged(listed, arrived, [(node, (0,)), (node, (1,))])["refused"] == 0
    with pytest.raises(AssertionError):
        judged(listed, arrived, [(node, (0,)), (node, (0,))])


def test_fgd_puts_the_first_pod_on_the_node_it_fragments_least() -> None:
    listed = asks("default")
    cluster = Cluster(nodes(), Typical(listed))
    ask = next(ask for ask in listed if ask.gpu_milli == 8000)
    idle = cluster.fragments_milli
    placed = Fgd(cluster).place(ask)
    assert placed is not None
    assert cluster.used_milli == 8000
    assert cluster.fragments_milli < idle


@pytest.mark.slow
def test_the_command_writes_a_line_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alloc, "watched", lambda module, point, limit_s: iter([{"event": "result"} | FIGURES]))
    file = tmp_path / "alloc.jsonl"
    assert alloc.main(["--seeds", "42-43", "--together", "--json", str(file)]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["params"]["strategy"], line["params"]["seed"]) for line in lines] == [
        ("fragmentation", 42),
        ("fragmentation", 43),
        (FGD, 42),
        (FGD, 43),
    ]
    assert lines[0]["params"]["way"] == Way.TOGETHER
    assert lines[0]["metrics"]["unallocated_percent_at_100"] == 4.5


FIGURES = {"metrics": {"unallocated_percent_at_100": 4.5}, "faults": [], "note": ""}

"""The fairness benchmark: no job is lost, the figures add up, and the static cases come out exactly."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import fair
from bench._curve import CASES, Point, case_named, faults, looped, measure, prepared
from bench._fair import pod_sizes
from bench._philly import HOUR_S, Job, Meter, alone, jobs, percentile, quotas, water_filled
from bench._shares import SHARES, Share, settled
from fairpool.model.ids import QueueId

A, B = QueueId("a"), QueueId("b")


def test_shares_by_weight_are_exact() -> None:
    assert settled(SHARES[0]).faults == []


def test_the_trace_is_complete() -> None:
    listed = jobs()
    assert len(listed) == 15264
    assert sum(job.gpus * job.duration_s for job in listed) // HOUR_S == 1_741_805
    assert [job.submit_s for job in listed] == sorted(job.submit_s for job in listed)


def test_quotas_are_those_of_the_reference() -> None:
    quota = quotas(jobs(), 800)
    assert sum(quota.values()) == 800
    assert min(quota.values()) == 8
    assert (quota[QueueId("7f04ca")], quota[QueueId("0e4a51")], quota[QueueId("ed69ec")]) == (157, 67, 11)


@pytest.mark.parametrize(
    ("want", "shares"),
    [
        ({A: 100, B: 100}, {A: 60, B: 20}),
        ({A: 10, B: 100}, {A: 10, B: 70}),
        ({A: 100, B: 0}, {A: 80}),
        ({A: 10, B: 5}, {A: 10, B: 5}),
    ],
)
def test_fair_shares_go_by_quota_up_to_what_is_wanted(want: dict[QueueId, int], shares: dict[QueueId, float]) -> None:
    assert water_filled(want, {A: 30, B: 10}, 80) == shares


def test_alone_a_queue_backfills_its_quota() -> None:
    listed = [Job(0, A, 0, 6, 100), Job(1, A, 10, 4, 100), Job(2, A, 20, 2, 50), Job(3, B, 0, 99, 7)]
    assert alone(listed, {A: 8, B: 1}) == [100, 190, 50, 7]


def test_a_meter_adds_up() -> None:
    one, two = Job(0, A, 0, 6, 100), Job(1, B, 10, 6, 50)
    meter = Meter([one, two], {A: 4, B: 4}, 8)
    meter.submitted(one, 0)
    meter.started(one, 0)
    meter.submitted(two, 10)
    meter.last_submit_s = 60
    meter.stopped(one, 30, 0)
    meter.started(two, 30)
    meter.ended(two, 80, 0)
    meter.started(one, 80)
    meter.ended(one, 160, 10)
    figures = meter.metrics([100, 50])
    assert figures["use_percent"] == pytest.approx(100 * 6 * 60 / (8 * 60))
    assert figures["fairness_error_percent"] == pytest.approx(100 * (2 + 4) / 16)
    assert figures["mean_jct_h"] * HOUR_S == pytest.approx((160 + 70) / 2)
    assert figures["mean_wait_h"] * HOUR_S == pytest.approx((50 + 20) / 2)
    assert (figures["preemptions"], figures["lost_gpu_hours"] * HOUR_S) == (1, 60)
    assert figures["mean_rho"] == pytest.approx((160 / 100 + 70 / 50) / 2)


def test_a_percentile_is_one_of_the_values() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0


@pytest.mark.parametrize(("gpus", "sizes"), [(1, [1]), (8, [8]), (16, [8, 8]), (20, [8, 8, 4])])
def test_large_jobs_are_gangs_of_whole_nodes(gpus: int, sizes: list[int]) -> None:
    assert pod_sizes(gpus) == sizes


@pytest.mark.slow
@pytest.mark.parametrize("share", SHARES, ids=lambda share: share.name)
def test_static_shares_are_exact(share: Share) -> None:
    result = settled(share)
    assert result.faults == []
    assert result.metrics["worst_error_gpus"] < 1


def test_a_wrong_share_is_noticed() -> None:
    right = SHARES[0]
    wrong = Share(right.name, right.about, right.queues, right.asks, {"a": 70, "b": 26})
    assert any("a holds 72, not 70" in fault for fault in settled(wrong).faults)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["strict", "levels", "guard-1d", "usage-7d"])
def test_every_job_ends_and_work_that_is_done_is_kept(name: str) -> None:
    """On a fifth of the nodes, so that few jobs contend."""
    simulation = prepared(case_named(name), Point(case=name, jobs=150, every_s=600, nodes=20))
    simulation.run()
    meter = simulation.meter
    assert set(meter.ended_s) == {job.number for job in meter.jobs}
    assert not any(meter.held.values())
    assert meter.preemptions > 0
    work = sum(job.duration_s * job.gpus for job in meter.jobs)
    held = sum(meter.ran_s[job.number] * job.gpus for job in meter.jobs)
    assert held - work == meter.lost_gpu_s
    assert 0 < meter.lost_gpu_s <= meter.preemptions * simulation.knobs.restart_s * 64


@pytest.mark.slow
def test_the_loop_agrees_with_the_scheduler_alone() -> None:
    """On a quarter of the nodes. Who is stopped may differ: the loop decides until nothing changes, not once."""
    point = Point(case="strict", jobs=200, nodes=24)
    bare, loop = prepared(case_named("strict"), point), looped(case_named("strict"), point)
    bare.run()
    loop.run()
    assert faults(loop) == []
    assert set(loop.meter.ended_s) == set(bare.meter.ended_s) == {job.number for job in bare.jobs}
    work = sum(job.duration_s * job.gpus for job in loop.jobs)
    for meter in (bare.meter, loop.meter):
        assert meter.preemptions > 0
        assert sum(meter.ran_s[job.number] * job.gpus for job in meter.jobs) == work + meter.lost_gpu_s
    assert loop.meter.lost_gpu_s == pytest.approx(bare.meter.lost_gpu_s, rel=0.5)
    taken_s = [sum(meter.ended_s[job.number] - job.submit_s for job in loop.jobs) for meter in (bare.meter, loop.meter)]
    assert taken_s[1] == pytest.approx(taken_s[0], rel=0.02)


@pytest.mark.slow
def test_with_room_for_all_the_loop_ends_every_job_in_the_same_second() -> None:
    point = Point(case="strict", jobs=60, every_s=600)
    bare, loop = prepared(case_named("strict"), point), looped(case_named("strict"), point)
    bare.run()
    loop.run()
    assert faults(loop) == []
    assert loop.meter.ended_s == bare.meter.ended_s
    assert loop.meter.ran_s == bare.meter.ran_s


def test_levels_cannot_go_through_the_loop(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        fair.main(["--through-loop", "--case", "levels"])
    assert "levels cannot go through the loop" in capsys.readouterr().err


@pytest.mark.slow
def test_a_point_is_measured_through_the_loop() -> None:
    result = measure(Point(case="strict", jobs=40, every_s=600, through_loop=True))
    assert result.faults == []
    assert result.metrics["jobs"] == 40
    assert result.metrics["cycles"] >= result.metrics["plans"] >= result.metrics["moments"] / 2


@pytest.mark.slow
def test_a_point_is_measured() -> None:
    result = measure(Point(case="strict", jobs=40, every_s=600))
    assert result.faults == []
    assert result.metrics["jobs"] == 40
    assert result.metrics["mean_jct_h"] > result.metrics["mean_wait_h"]


def test_names_are_unique() -> None:
    names = [each.name for each in (*SHARES, *CASES)]
    assert len(set(names)) == len(names)


@pytest.mark.slow
def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "fair.jsonl"
    assert fair.main(["--case", "weights", "strict", "--jobs", "30", "--every", "3600", "--json", str(file)]) == 0
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [(line["bench"], line["case"]) for line in lines] == [("fair", "weights"), ("fair", "strict")]
    assert lines[1]["metrics"]["fairness_error_percent"] == 0
    assert "every outcome is as expected" in capsys.readouterr().out

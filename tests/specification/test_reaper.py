"""Stop notices and their enforcement: grace periods by a clock that does not jump, UUIDs of pods, a timer."""

from __future__ import annotations

import json
import select
import time
import uuid
from pathlib import Path

import pytest

from fairpool.agent import stop_notice
from fairpool.agent.cgroup import Limiter
from fairpool.agent.reaper import SLACK_S, Reaper
from fairpool.agent.shim_watch import Timer
from fairpool.model.ids import PodId, WorkloadId

POD = PodId("train-0-0")


class Clock:
    """Seconds since boot, as a test sets them."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(stop_notice, "now", clock)
    return clock


@pytest.fixture
def reaper(tmp_path: Path) -> Reaper:
    return Reaper(uuid.UUID(int=1), tmp_path / "pods", Limiter("", "", 0, "none here"), lambda: None)


def reported(folder: Path) -> stop_notice.StopNotice:
    found = stop_notice.read(str(folder))
    assert found is not None
    return found


# --- the notice


def test_a_grace_period_runs_on_whichever_process_reads_the_notice_later(tmp_path: Path, clock: Clock) -> None:
    stop_notice.write(str(tmp_path), 30, "reclaimed")
    clock.now += 20
    assert (reported(tmp_path).remaining_s, reported(tmp_path).reason) == (10, "reclaimed")
    clock.now += 100
    assert reported(tmp_path).remaining_s == 0


def test_after_a_second_notice_a_grace_period_ends_earlier_or_as_before(tmp_path: Path, clock: Clock) -> None:
    stop_notice.write(str(tmp_path), 30, "first")
    clock.now += 25
    stop_notice.write(str(tmp_path), 10, "a shorter grace that would end later")
    assert (reported(tmp_path).remaining_s, reported(tmp_path).reason) == (5, "first")
    stop_notice.write(str(tmp_path), 1, "now")
    assert (reported(tmp_path).remaining_s, reported(tmp_path).reason) == (1, "now")


def test_the_time_of_day_does_not_count(tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_notice.write(str(tmp_path), 30, "test")
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert reported(tmp_path).remaining_s == 30


@pytest.mark.parametrize(
    ("content", "left_s"),
    [
        pytest.param({"grace_s": 30, "reason": ""}, 30, id="of an earlier version"),
        pytest.param({"grace_s": 30, "reason": "", "at_s": 1e18}, 30, id="from the future"),
        pytest.param({"grace_s": 30, "reason": "", "at_s": float("nan")}, 30, id="at no time"),
        pytest.param({"grace_s": -5, "reason": "", "at_s": 1000}, 0, id="less than none"),
        pytest.param({"grace_s": 1e300, "reason": "", "at_s": 1000}, stop_notice.GRACE_MAX_S, id="too long"),
        pytest.param({"grace_s": float("inf"), "reason": "", "at_s": 1000}, stop_notice.GRACE_MAX_S, id="endless"),
        pytest.param({"grace_s": float("nan"), "reason": "", "at_s": 1000}, stop_notice.GRACE_MAX_S, id="no number"),
    ],
)
def test_whatever_is_written_there_a_grace_is_bounded(
    tmp_path: Path, clock: Clock, content: dict[str, object], left_s: float
) -> None:
    (tmp_path / stop_notice.NAME).write_text(json.dumps(content))
    assert reported(tmp_path).remaining_s == left_s


# --- who enforces it


def test_a_pod_is_overdue_a_little_after_its_grace_period_and_never_later(reaper: Reaper, clock: Clock) -> None:
    reaper.set_deadline(POD, 30)
    reaper.set_deadline(POD, 60)
    assert reaper.next_deadline() == clock.now + 30 + SLACK_S
    clock.now += 10
    reaper.set_deadline(POD, 5)
    assert reaper.next_deadline() == clock.now + 5 + SLACK_S
    assert reaper.overdue() == []
    clock.now += 5 + SLACK_S
    assert reaper.overdue() == [POD]
    reaper.retry_later(POD)
    assert reaper.overdue() == []


def test_a_uuid_identifies_one_pod_and_its_installation(reaper: Reaper, tmp_path: Path) -> None:
    other = Reaper(uuid.uuid4(), tmp_path, Limiter("", "", 0, "none here"), lambda: None)
    marks = [reaper.pod_uuid(PodId(f"train-0-{number}")) for number in range(100)]
    assert len(set(marks)) == 100
    assert all(reaper._is_ours(mark) and not other._is_ours(mark) for mark in marks)
    assert [str(uuid.UUID(mark)) for mark in marks] == marks
    assert not reaper._is_ours("")


def test_a_pod_waits_for_orphans_of_its_earlier_incarnations_only(reaper: Reaper) -> None:
    reaper.orphans = {reaper.pod_uuid(PodId("train-1-2")): {4711: 1}}
    assert reaper.has_earlier_orphan(WorkloadId("train"), 1, 3)
    assert not reaper.has_earlier_orphan(WorkloadId("train"), 1, 2)
    assert not reaper.has_earlier_orphan(WorkloadId("train"), 0, 3)
    assert not reaper.has_earlier_orphan(WorkloadId("other"), 1, 3)


def test_selectors_of_another_boot_or_a_damaged_file_are_ignored(reaper: Reaper, tmp_path: Path) -> None:
    file = tmp_path / "processes.json"
    row = [reaper.pod_uuid(POD), [0, 0], [1, 1], 5]
    file.write_text(json.dumps({"boot_id": "b", "pods": [row]}))
    assert [traces.main for traces in reaper.load_selectors(file, "b")] == [(1, 1)]
    assert [traces.namespace for traces in reaper.load_selectors(file, "b")] == [None], "its first process is gone"
    assert reaper.load_selectors(file, "c") == []
    strange = [["not ours", *row[1:]]]
    for content in (
        "",
        "[]",
        '{"boot_id": "b"}',
        '{"boot_id": "b", "pods": [[]]}',
        json.dumps({"boot_id": "b", "pods": strange}),
    ):
        file.write_text(content)
        assert reaper.load_selectors(file, "b") == []


def test_a_timer_wakes_at_its_moment_and_not_without_one() -> None:
    timer = Timer()
    try:
        assert select.select([timer], [], [], 0)[0] == []
        timer.set(stop_notice.now() - 1)
        assert select.select([timer], [], [], 60)[0] == [timer]
        timer.set(stop_notice.now() + 10**9)
        assert select.select([timer], [], [], 0)[0] == []
        timer.set(stop_notice.now() - 1)
        timer.set(None)
        assert select.select([timer], [], [], 0)[0] == []
    finally:
        timer.close()

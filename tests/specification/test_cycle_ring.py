"""Past cycles on disk: which are kept, for how long, and what a disturbed directory does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from fairpool.cluster import cycle_ring
from fairpool.cluster.cycle_ring import CycleRing
from fairpool.cluster.live_snapshots import LiveSnapshots
from fairpool.model.ids import Instant, PoolName
from fairpool.replay.example import NOW, example_snapshot
from fairpool.scheduler.snapshot import Snapshot
from fairpool.scheduler.snapshot_file import Loaded, from_bytes

POOL = PoolName("default")


def numbered(number: int) -> Snapshot:
    """Snapshots that differ in more than the time."""
    snapshot = example_snapshot()
    first, *rest = snapshot.nodes
    return replace(snapshot, now=Instant(NOW + number), nodes=(replace(first, cpu_milli=1000 + number), *rest))


@contextmanager
def running(folder: Path) -> Iterator[CycleRing]:
    ring = CycleRing(folder)
    ring.start()
    try:
        yield ring
    finally:
        ring.stop(60)


def test_a_cycle_that_changed_is_kept_and_can_be_planned_again(tmp_path: Path) -> None:
    with running(tmp_path) as ring:
        ring.offer(POOL, numbered(1))
        ring.offer(POOL, replace(numbered(1), now=Instant(NOW + 9)))  # only time has passed
        ring.offer(POOL, numbered(2))
    assert [(each.number, each.taken_at, each.pool) for each in ring.kept()] == [
        (1, NOW + 1, POOL),
        (3, NOW + 2, POOL),
    ]
    data = ring.read(3)
    assert data is not None
    loaded = from_bytes(data)
    assert isinstance(loaded, Loaded)
    assert loaded.snapshot == numbered(2)
    assert ring.read(2) is None


def test_pools_are_compared_each_with_itself(tmp_path: Path) -> None:
    with running(tmp_path) as ring:
        for _ in range(2):
            ring.offer(PoolName("a"), numbered(1))
            ring.offer(PoolName("b"), numbered(2))
    assert [each.pool for each in ring.kept()] == ["a", "b"]


def test_the_oldest_are_dropped_and_numbers_go_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cycle_ring, "CYCLES_MAX", 3)
    for start in (0, 3):
        with running(tmp_path) as ring:
            for number in range(start, start + 3):
                ring.offer(POOL, numbered(number))
    ring = CycleRing(tmp_path)
    assert [each.number for each in ring.kept()] == [4, 5, 6]
    monkeypatch.setattr(cycle_ring, "BYTES_MAX", 1)
    with running(tmp_path) as ring:
        ring.offer(POOL, numbered(9))
    assert not ring.kept(), "a single file may be larger than all of them should be together"


def test_a_writer_that_cannot_keep_up_leaves_out_the_oldest(tmp_path: Path) -> None:
    ring = CycleRing(tmp_path)
    for number in range(50):
        ring.offer(POOL, numbered(number))
    ring.start()
    ring.stop(60)
    assert [each.number for each in ring.kept()] == list(range(43, 51))


def test_foreign_files_and_a_missing_directory_do_no_harm(tmp_path: Path) -> None:
    folder = tmp_path / "cycles"
    with running(folder) as ring:
        for name in ("notes.txt", "x.y.z.snapshot", "000000000001.snapshot", "..snapshot", "1.2.part"):
            (folder / name).write_text("not ours")
        ring.offer(POOL, numbered(1))
    assert [each.number for each in ring.kept()] == [1]
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
    assert ring.kept() == []
    assert ring.read(1) is None


def test_a_disk_that_cannot_be_written_is_reported_once_and_stops_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "cycles"
    with running(folder) as ring:
        folder.rmdir()
        folder.write_text("a file in its place")
        for number in range(3):
            ring.offer(POOL, numbered(number))
    assert len([each for each in caplog.records if "past cycles are not kept" in each.message]) == 1


def test_the_latest_snapshot_of_each_pool_is_handed_out_and_a_removed_pool_forgotten() -> None:
    seen: list[str] = []
    live = LiveSnapshots(lambda pool, snapshot: seen.append(pool))
    a, b = PoolName("a"), PoolName("b")
    live.note(a, numbered(1))
    live.note(b, numbered(1))
    before = live.by_pool
    live.note(a, numbered(2))
    assert (live.by_pool[a], live.by_pool[b]) == (numbered(2), numbered(1)), "the cycle is not over yet"
    assert before[a] == numbered(1), "what was handed out does not change"
    live.note(a, numbered(3))
    assert set(live.by_pool) == {a}
    assert seen == ["a", "b", "a", "a"]

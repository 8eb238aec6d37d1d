"""The store of samples: a disk that is slow, full or damaged keeps no one waiting, and what comes after it is kept."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import func, select, text

from fairpool.api.samples import NodeSampleWire, SamplesReport
from fairpool.control import sample_store
from fairpool.control.sample_intake import sampled
from fairpool.control.sample_store import WAITING_MAX, ClusterSample, SampleStore
from fairpool.control.store import series, series_blocks
from fairpool.control.store.database import Connection
from fairpool.control.store.series_database import PostgresSeries, SeriesDatabase, SqliteSeries
from fairpool.control.store.unavailable import FULL, Unavailable
from fairpool.metrics.catalogue import NODE_ITSELF, NodeColumn, node_group
from fairpool.metrics.resolution import ALL, FINE, HOUR_S, MINUTES
from fairpool.metrics.time_range import Curve, SeriesSubject, TimeRange
from fairpool.metrics.totals import ClusterFacts, NodeFacts
from fairpool.model import sample as model
from fairpool.model.ids import SECOND_MS, Instant, NodeName
from tests.control.cluster import Cluster
from tests.control.control_plane import ControlPlane, control_plane, expect, node
from tests.postgresql import databases, is_chosen, of_sqlite, series_of

pytestmark = pytest.mark.slow

T = TypeVar("T")
START_S = 1_800_000_000 // HOUR_S * HOUR_S
PATIENCE_S = 60.0
NODES = tuple(NodeName(f"n{number}") for number in range(4))
FACTS = ClusterFacts(cluster="c", nodes=[NodeFacts(name=each, pool="default") for each in NODES])


def sample(number: int) -> ClusterSample:
    """Every 10 s, each node uses as many cores as samples were before."""
    nodes = tuple(model.NodeSample(node=each, cpu_cores=float(number)) for each in NODES)
    return ClusterSample(model.Sample(at=Instant((START_S + 10 * number) * SECOND_MS), nodes=nodes), FACTS)


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


@contextmanager
def store(database: SeriesDatabase, now_s: int = START_S) -> Iterator[SampleStore]:
    found = SampleStore(lambda: database, lambda: now_s)
    try:
        yield found
    finally:
        found.close()


def cores(found: SampleStore, name: str = "n3", hours: int = 1) -> list[float]:
    """Of a node, at each of the samples."""
    span = TimeRange(START_S, START_S + hours * HOUR_S, FINE, 1)
    curve = Curve(SeriesSubject(node_group("c", name), NODE_ITSELF), {NodeColumn.CPU_CORES: 1.0})
    (points,) = asyncio.run(found.values(span, [curve])).points
    return [each.value for each in points]


class Slow:
    """A database whose disk does not answer for a while."""

    def __init__(self, behind: SeriesDatabase) -> None:
        self._behind = behind
        self.is_back = threading.Event()
        self.asked = threading.Event()

    def write(self, unit: Callable[[Connection], T]) -> T:
        self.asked.set()
        assert self.is_back.wait(PATIENCE_S)
        return self._behind.write(unit)

    def read(self, unit: Callable[[Connection], T]) -> T:
        return self._behind.read(unit)

    def close(self) -> None:
        self._behind.close()


def test_a_full_queue_drops_the_oldest_and_counts_them(tmp_path: Path) -> None:
    slow = Slow(series_of(tmp_path))
    with store(slow) as found:
        found.offer(sample(0))
        assert slow.asked.wait(PATIENCE_S)
        begun = time.monotonic()
        for number in range(1, WAITING_MAX + 10):
            found.offer(sample(number))
        assert time.monotonic() - begun < 1, "no one waits for the disk"
        assert found.dropped == 10
        slow.is_back.set()
        until(lambda: not found._waiting)
        assert cores(found) == [0.0, *(float(number) for number in range(10, WAITING_MAX + 10))]
        assert found.dropped == 10


def test_a_cluster_that_sends_too_much_drops_only_its_own(tmp_path: Path) -> None:
    slow = Slow(series_of(tmp_path))
    greedy = ClusterFacts(cluster="greedy", nodes=FACTS.nodes)
    with store(slow) as found:
        found.offer(sample(0))
        assert slow.asked.wait(PATIENCE_S)
        for number in range(3 * WAITING_MAX):
            found.offer(ClusterSample(sample(number).sample, greedy))
            if number < 5:
                found.offer(sample(number + 1))
        slow.is_back.set()
        until(lambda: not found._waiting)
        assert cores(found) == [float(number) for number in range(6)]
        assert found.dropped == 3 * WAITING_MAX + 6 - WAITING_MAX


def test_a_sample_that_cannot_be_written_stops_no_others(tmp_path: Path) -> None:
    slow = Slow(series_of(tmp_path))
    endless = ClusterFacts(cluster="c" * 2**20, nodes=[NodeFacts(name=NodeName("\ud800"), pool="default")])
    with store(slow) as found:
        found.offer(sample(0))
        assert slow.asked.wait(PATIENCE_S)
        found.offer(ClusterSample(sample(1).sample, endless))
        found.offer(sample(2))
        slow.is_back.set()
        until(lambda: not found._waiting)
        assert cores(found) == [0.0, 2.0]
        assert (found.written, found.dropped) == (2, 1)


def test_a_restart_in_the_middle_of_making_blocks_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the blocks are made; then another process goes on."""
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.01)
    database, number = series_of(tmp_path), 80
    rows = sample_store._rows([sample(each) for each in range(number)])
    database.write(lambda connection: series.add_ticks(connection, rows))
    now_s, made_s = START_S + HOUR_S + 60, START_S + HOUR_S
    due = database.write(lambda connection: series_blocks.due_blocks(connection, now_s))
    database.write(lambda connection: series_blocks.make_blocks(connection, due[: len(due) // 2]))
    database.close()
    with store(series_of(tmp_path), now_s) as found:
        before = [cores(found, each) for each in NODES]
        found.offer(sample(360))
        until(lambda: found._database.read(lambda connection: series.until(connection, MINUTES.step_s)) == made_s)
        assert (
            [cores(found, each) for each in NODES] == before == [[float(each) for each in range(number)]] * len(NODES)
        )
        left = found._database.read(
            lambda connection: connection.execute(select(func.count(series.ticks.c.grp))).scalar()
        )
        assert left == len(rows) // number, "the last sample is in no block yet"


def test_a_late_sample_is_in_the_blocks_that_were_made_without_it(tmp_path: Path) -> None:
    database, now_s = series_of(tmp_path), START_S + HOUR_S + 60
    late = 100
    rows = sample_store._rows([sample(each) for each in range(360) if each != late])
    database.write(lambda connection: series.add_ticks(connection, rows))

    def make() -> None:
        while due := database.write(lambda connection: series_blocks.due_blocks(connection, now_s)):
            database.write(lambda connection, due=due: series_blocks.make_blocks(connection, due))  # type: ignore[misc]

    make()
    database.write(lambda connection: series.add_ticks(connection, sample_store._rows([sample(late)])))
    make()
    with store(database, now_s) as found:
        assert cores(found) == [float(each) for each in range(360)]
        span = TimeRange(START_S, START_S + HOUR_S, MINUTES, 1)
        curve = Curve(SeriesSubject(node_group("c", "n1"), NODE_ITSELF), {NodeColumn.CPU_CORES: 1.0})
        (points,) = asyncio.run(found.values(span, [curve])).points
        assert [each.value for each in points] == [6 * minute + 2.5 for minute in range(60)]


def test_after_a_clock_was_ahead_for_a_while_blocks_are_made_of_what_comes(tmp_path: Path) -> None:
    database = series_of(tmp_path)

    def made(numbers: range, now_s: int) -> None:
        rows = sample_store._rows([sample(each) for each in numbers])
        database.write(lambda connection: series.add_ticks(connection, rows))
        while due := database.write(lambda connection: series_blocks.due_blocks(connection, now_s)):
            database.write(lambda connection, due=due: series_blocks.make_blocks(connection, due))  # type: ignore[misc]

    made(range(60), START_S + 600 + 60)
    made(range(1080, 1083), START_S + 30 * HOUR_S)  # three hours ahead, and then a day
    made(range(60, 1440), START_S + 4 * HOUR_S + 60)
    with store(database, START_S + 4 * HOUR_S + 60) as found:
        span = TimeRange(START_S, START_S + 4 * HOUR_S, MINUTES, 1)
        curve = Curve(SeriesSubject(node_group("c", "n1"), NODE_ITSELF), {NodeColumn.CPU_CORES: 1.0})
        (points,) = asyncio.run(found.values(span, [curve])).points
        assert [each.value for each in points] == [6 * minute + 2.5 for minute in range(240)]
        assert database.read(lambda connection: series.until(connection, MINUTES.step_s)) == START_S + 4 * HOUR_S


def test_two_control_planes_make_each_block_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: Counter[tuple[str, int, int]] = Counter()
    put = series.put_block

    def counted(connection: Connection, grp: str, resolution: Any, block: Any) -> None:
        made[grp, resolution.step_s, block.start_s] += 1
        put(connection, grp, resolution, block)

    monkeypatch.setattr(series, "put_block", counted)
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.01)
    url, now_s, made_s = databases().url(tmp_path), START_S + HOUR_S + 60, START_S + HOUR_S
    with store(PostgresSeries(url), now_s) as one, store(PostgresSeries(url), now_s) as other:
        rows = sample_store._rows([sample(each) for each in range(80)])
        one._database.write(lambda connection: series.add_ticks(connection, rows))
        for each, number in ((one, 360), (other, 361)):
            each.offer(sample(number))
        until(lambda: one._database.read(lambda connection: series.until(connection, MINUTES.step_s)) == made_s)
        assert cores(one, hours=2) == cores(other, hours=2) == [float(each) for each in (*range(80), 360, 361)]
    assert set(made.values()) == {1}
    assert Counter(step_s for _, step_s, _ in made) == {FINE.step_s: 10, MINUTES.step_s: 5}
    assert {step_s for _, step_s, _ in made} < {each.step_s for each in ALL}


# --- a control plane beside it -----------------------------------------------------------------------------------


def send(control: ControlPlane) -> bool:
    """A sample now, which the answer says is kept or not."""
    report = SamplesReport(at=control.clock.now, nodes=(NodeSampleWire(node=NodeName("n1"), cpu_cores=1.0),))
    control.clock.turn(10)
    assert control.http.portal is not None
    return control.http.portal.call(sampled, control.app.state.plane, control.cluster, report).is_kept


def writer_of(found: SampleStore) -> Any:
    database = found._database
    assert isinstance(database, SqliteSeries)
    assert database._writer is not None
    return database._writer._writing


@of_sqlite
def test_a_full_disk_stops_no_submit_and_samples_are_kept_again_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.05)
    with control_plane() as control:
        control.project("team-a")
        control.push(control.report(whole=True, nodes=(node("n1"),)))
        found: SampleStore = control.app.state.plane.samples
        assert send(control)
        until(lambda: found.written == 1)
        with found._database._writing:  # type: ignore[attr-defined]
            pages = writer_of(found).exec_driver_sql("PRAGMA page_count").scalar()
            writer_of(found).exec_driver_sql(f"PRAGMA max_page_count={pages}").close()
        sent = 1
        while found.problem is None:
            assert sent < 1000
            send(control)
            sent += 1
            time.sleep(0.005)
        assert found.problem.code == FULL
        assert not send(control)
        control.train("t1")
        with found._database._writing:  # type: ignore[attr-defined]
            writer_of(found).exec_driver_sql("PRAGMA max_page_count=1000000").close()
        until(lambda: found.problem is None and not found._waiting)
        assert found.written + found.dropped == sent + 1
        assert send(control)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A filesystem of its own, that is full soon."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a filesystem")
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512k", "none", folder], check=False).returncode:
        pytest.skip("this machine permits no mounts")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Someone else's file, until nothing more fits."""
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))


@of_sqlite
def test_a_filesystem_that_is_full_stops_neither_submits_nor_the_loop_and_an_operator_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.05)
    caplog.set_level("INFO", logger="fairpool.control")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "metrics.sqlite").symlink_to(tmp_path / "small" / "metrics.sqlite")
    with small_disk(tmp_path / "small") as small, control_plane(tmp_path / "data") as control:
        control.project("team-a", gpus=8)
        cluster, found = Cluster(control), control.app.state.plane.samples
        cluster.run(1)
        assert send(control)
        until(lambda: found.written == 1)
        fill(small / "other")
        sent = 1
        while found.problem is None:
            assert sent < 1000
            send(control)
            sent += 1
            time.sleep(0.005)
        assert (found.problem.code, not send(control)) == (FULL, True)
        made = control.train("t1", "team-a", compute={"gpuDevicesRequest": 8})
        cluster.run(5)
        assert cluster.phase(made) == "Running"
        assert "samples cannot be kept" in caplog.text
        (small / "other").unlink()
        until(lambda: found.problem is None and not found._waiting)
        assert send(control)
        until(lambda: found.written + found.dropped == sent + 2)
        assert "samples are kept again" in caplog.text


@pytest.mark.skipif(not is_chosen(), reason="about tables in PostgreSQL")
def test_tables_of_samples_that_are_locked_stop_neither_submits_nor_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a disk that is slow: nothing is written, and no one waits for it."""
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.05)
    with control_plane() as control:
        control.project("team-a", gpus=8)
        cluster, found = Cluster(control), control.app.state.plane.samples
        cluster.run(1)
        assert send(control)
        until(lambda: found.written == 1)
        locked, release = threading.Event(), threading.Event()

        def lock(connection: Connection) -> None:
            connection.execute(text("LOCK TABLE sample_ticks, sample_blocks IN ACCESS EXCLUSIVE MODE"))
            locked.set()
            assert release.wait(PATIENCE_S)

        with closing(series_of(control.app.state.plane.settings.data)) as other:
            thread = threading.Thread(target=other.write, args=(lock,))
            thread.start()
            assert locked.wait(PATIENCE_S)
            for _ in range(WAITING_MAX + 5):
                send(control)
            assert found.dropped
            assert found.written == 1
            made = control.train("t1", "team-a", compute={"gpuDevicesRequest": 8})
            cluster.run(5)
            assert cluster.phase(made) == "Running"
            release.set()
            thread.join()
        until(lambda: not found._waiting)
        assert send(control)


@of_sqlite
def test_damage_that_a_query_finds_is_put_aside_too(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    with store(SqliteSeries(path)) as found:
        found.offer(sample(0))
        until(lambda: found.written == 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(len(whole) - 4096))
    database = SqliteSeries(path)
    with pytest.raises(Unavailable):
        database.read(lambda connection: connection.execute(select(series.ticks)).all())
    assert path.with_name("metrics.sqlite.damaged").exists()
    with store(database) as found:
        found.offer(sample(1))
        until(lambda: found.written == 1)
        assert cores(found) == [1.0]


@of_sqlite
def test_a_damaged_file_is_put_aside_and_the_next_samples_begin_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sample_store, "PAUSE_S", 0.05)
    path = tmp_path / "metrics.sqlite"
    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.push(control.report(whole=True, nodes=(node("n1"),)))
        assert send(control)
        until(lambda: control.app.state.plane.samples.written == 1)
    for suffix in ("", "-wal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    path.write_bytes(b"this is no database, and was one once" * 400)
    with control_plane(tmp_path) as control:
        found = control.app.state.plane.samples
        send(control)
        until(lambda: found.problem is not None or found.written)
        expect(control.call("GET", "/api/v1/nodes/telemetry", params={"telemetryType": "TOTAL_GPUS"}), 200)
        control.train("t1")
        until(lambda: found.written == 1 and found.problem is None)
        assert path.with_name("metrics.sqlite.damaged").read_bytes().startswith(b"this is no database")
        query = {"telemetryType": "USED_CPU_CORES"}
        assert expect(control.call("GET", "/api/v1/nodes/telemetry", params=query), 200)["values"][0]["value"] == "1"

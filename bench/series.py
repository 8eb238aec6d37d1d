"""Samples of a large cluster, kept faster than they come: CPU for each, memory, size on disk, and range queries.

    python -m bench.series [--nodes N] [--minutes M] [--workloads N] [--sqlite | --postgresql]
                           [--database URL] [--json FILE]

`hour`: samples of N nodes with 8 GPUs, every 10 s, each GPU with a pod, are added up, packed, written and made into
blocks by the code of the control plane, one after the other without a pause. `day` and `year`: what was kept of one
node and of the organization is asked for. `workloads`: how much N workloads a day take after a year, and that what is
older goes. A slot that is missing makes the command fail.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import Connection, insert, text

from bench._report import Column, Line, Setting, Table, progress
from bench._server import end_in_good_order, resident_mib
from bench._stopwatch import p99
from fairpool.control.sample_store import ClusterSample, _curve_points, _rows
from fairpool.control.store import series
from fairpool.control.store.series import StoredBlock
from fairpool.control.store.series_blocks import due_blocks, make_blocks
from fairpool.control.store.series_database import PostgresSeries, SeriesDatabase, SqliteSeries
from fairpool.control.store.series_reader import SeriesReader
from fairpool.metrics.block import Block, Run, packed
from fairpool.metrics.catalogue import (
    BUCKETS,
    NODE_ITSELF,
    DeviceColumn,
    NodeColumn,
    PodDeviceColumn,
    QueueColumn,
    WorkColumn,
    device,
    node_group,
    owner_group,
    pod,
    pod_device,
    project,
)
from fairpool.metrics.resolution import ALL, DAY_S, FINE, HOUR_S, HOURS, MINUTES, Resolution
from fairpool.metrics.time_range import Curve, SeriesSubject, TimeRange
from fairpool.metrics.totals import ClusterFacts, NodeFacts, PodHolding, QueueFacts
from fairpool.model.ids import SECOND_MS, Instant, NodeName, PodId
from fairpool.model.sample import DeviceSample, DeviceUse, NodeSample, PodSample, Sample
from fairpool.model.workload import WorkloadKind
from tests.postgresql import PostgresServer

CLUSTER = "bench"
GPUS = 8
PROJECTS = 20
SEED = 1
START_S = 1_800_000_000 // DAY_S * DAY_S
AT_ONCE = 8
"""Blocks that are made in one transaction, as the control plane does."""
REPEATS = 20
GOALS_S = {"day": 0.05, "year": 0.3}
COLUMNS = (
    Column("CPU/sample", 12, "cpu_s_each", is_time=True),
    Column("x real time", 13, "times_real_time"),
    Column("longest", 10, "longest_s", is_time=True),
    Column("MiB early", 11, "early_mib"),
    Column("MiB end", 9, "end_mib"),
    Column("MB on disk", 12, "disk_mb"),
    Column("p50", 9, "median_s", is_time=True),
    Column("p99", 9, "p99_s", is_time=True),
    Column("CPU p50", 9, "cpu_median_s", is_time=True),
    Column("load", 6, "load_average"),
)


Opened = tuple[SeriesDatabase, Callable[[], int]]
"""A database, and how much it takes on disk."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    nodes: int = 1000
    samples: int = 360
    """Every 10 s."""
    workloads: int = 0
    """A day, for a year."""


def facts_of(size: Size) -> ClusterFacts:
    """Every GPU is held by a pod of a workload of its own."""
    names = [NodeName(f"node-{number:04d}") for number in range(size.nodes)]
    return ClusterFacts(
        cluster=CLUSTER,
        nodes=[
            NodeFacts(
                name=name, pool="default", gpus=GPUS, gpu_memory_mib=81_920, cpu_milli=128_000, memory_bytes=1 << 40
            )
            for name in names
        ],
        holdings=[
            PodHolding(
                pod=PodId(f"{name}-{index}-0-0"),
                workload=f"{name}-{index}",
                project=f"project-{(at + index) % PROJECTS}",
                department=f"department-{(at + index) % 4}",
                kind=WorkloadKind.TRAIN,
                node=name,
                devices=(index,),
                gpus_milli=1000,
                cpu_milli=8000,
                memory_bytes=1 << 35,
            )
            for at, name in enumerate(names)
            for index in range(GPUS)
        ],
        queues=[
            QueueFacts(pool="default", project=f"project-{at}", department=f"department-{at % 4}", gpu_quota_milli=1000)
            for at in range(PROJECTS)
        ],
    )


def sample_of(facts: ClusterFacts, number: int, random: np.random.Generator) -> ClusterSample:
    """What all nodes measured at one moment."""
    used = random.integers(0, 101, (len(facts.nodes), GPUS)).tolist()
    nodes = tuple(_measured(each.name, mine, number) for each, mine in zip(facts.nodes, used, strict=True))
    return ClusterSample(Sample(at=Instant((START_S + number * FINE.step_s) * SECOND_MS), nodes=nodes), facts)


def _measured(name: NodeName, used: Sequence[int], number: int) -> NodeSample:
    memory = (number % 60 + 1) << 30
    return NodeSample(
        node=name,
        cpu_cores=40.0 + number % 7,
        memory_bytes=memory * 8,
        devices=tuple(
            DeviceSample(
                index=at, utilization=float(part), memory_bytes=memory, power_watts=300.0, temperature_celsius=60.0
            )
            for at, part in enumerate(used)
        ),
        pods=tuple(
            PodSample(
                pod=PodId(f"{name}-{at}-0-0"),
                cpu_cores=5.0,
                memory_bytes=memory,
                devices=(DeviceUse(index=at, utilization=float(part), memory_bytes=memory),),
            )
            for at, part in enumerate(used)
        ),
    )


class SampleWriter:
    """Writes samples and makes blocks, and measures what that costs."""

    def __init__(self, database: SeriesDatabase, size: Size) -> None:
        self.database, self.size = database, size
        self.cpu_s = self.wall_s = self.longest_s = 0.0
        self.early_mib = 0.0

    def run(self) -> None:
        facts, random = facts_of(self.size), np.random.default_rng(SEED)
        for number in range(self.size.samples):
            sample = sample_of(facts, number, random)
            self._timed(partial(self._keep, sample))
            if number % FINE.slots == FINE.slots - 1 or number == self.size.samples - 1:
                self._make(START_S + (number + 1) * FINE.step_s + FINE.block_s)
            if number == max(1, self.size.samples // 5):
                self.early_mib = resident_mib(os.getpid())
            if number % 20 == 0:
                progress(f"sample {number} of {self.size.samples}")
        progress("")

    def _keep(self, sample: ClusterSample) -> None:
        rows = _rows([sample])
        self.database.write(lambda connection: series.add_ticks(connection, rows))

    def _make(self, now_s: int) -> None:
        while due := self.database.write(partial(due_blocks, now_s=now_s)):
            for first in range(0, len(due), AT_ONCE):
                part = due[first : first + AT_ONCE]
                self._timed(lambda part=part: self.database.write(partial(make_blocks, due=part)))  # type: ignore[misc]
        self._timed(lambda: self.database.write(partial(series.drop_old, now_s=now_s)))

    def _timed(self, step: Callable[[], object]) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        step()
        took = time.perf_counter() - wall
        self.cpu_s += time.process_time() - cpu
        self.wall_s += took
        self.longest_s = max(self.longest_s, took)

    def line(self, system: str, disk_bytes: int) -> Line:
        size = self.size
        line = Line(f"hour, {system}", {"nodes": size.nodes, "samples": size.samples, "gpus": GPUS}, size.nodes)
        line.metrics = {
            "cpu_s_each": self.cpu_s / size.samples,
            "times_real_time": size.samples * FINE.step_s / self.wall_s,
            "longest_s": self.longest_s,
            "early_mib": self.early_mib,
            "end_mib": resident_mib(os.getpid()),
            "disk_mb": disk_bytes / 1e6,
            "load_average": os.getloadavg()[0],
        }
        return line


def gaps(database: SeriesDatabase, size: Size) -> list[str]:
    """Slots that are missing of the first and the last node."""
    found = []
    for number in (0, size.nodes - 1):
        name = f"node-{number:04d}"
        span = TimeRange(START_S, START_S + size.samples * FINE.step_s, FINE, 1)
        curves = [
            Curve(SeriesSubject(node_group(CLUSTER, name), device(at)), {DeviceColumn.UTILIZATION: 1.0})
            for at in range(GPUS)
        ]
        points = database.read(lambda connection, span=span, curves=curves: _points(connection, span, curves))  # type: ignore[misc]
        found += [f"{name}: {len(each)} of {size.samples} samples" for each in points if len(each) != size.samples]
    return found


def _points(connection: Connection, span: TimeRange, curves: Sequence[Curve]) -> list[list[tuple[int, float]]]:
    return [list(each) for each in _curve_points(SeriesReader(connection), span, curves).points]


# --- range queries -----------------------------------------------------------------------------------------------

SUBJECTS = {
    node_group(CLUSTER, "filled"): ([NODE_ITSELF, *map(device, range(GPUS))], len(NodeColumn)),
    owner_group(CLUSTER, "filled"): ([project(f"project-{at}") for at in range(PROJECTS)], len(QueueColumn)),
}


def fill(database: SeriesDatabase, resolution: Resolution, start_s: int, end_s: int) -> None:
    """Blocks as if that time had been measured."""
    random = np.random.default_rng(SEED)

    def unit(connection: Connection) -> None:
        for grp, (names, columns) in SUBJECTS.items():
            for at_s in range(start_s, end_s, resolution.block_s):
                rows = random.random((len(names), columns + 1, resolution.slots)).astype(np.float32) * 100
                rows[:, 0] = 1.0
                block: Block = {name: Run(0, rows[at]) for at, name in enumerate(names)}
                series.put_block(connection, grp, resolution, StoredBlock(at_s, packed(block)))
        series.set_until(connection, resolution.step_s, end_s)

    database.write(unit)


def queried(database: SeriesDatabase, case: str, system: str, length_s: int, samples: int, end_s: int) -> Line:
    """The devices of a node, then all projects: what a page with charts asks."""
    span = TimeRange.chosen(end_s - length_s, end_s, samples, end_s)
    asked = [
        [Curve(SeriesSubject(grp, name), {1: 1.0, 2: 1.0}) for name in names] for grp, (names, _) in SUBJECTS.items()
    ]
    times, cpu_times, faults = [], [], []
    for number in range(2 * REPEATS):
        curves = asked[number % 2]
        begun, cpu = time.perf_counter(), time.process_time()
        points = database.read(lambda connection, curves=curves: _points(connection, span, curves))  # type: ignore[misc]
        times.append(time.perf_counter() - begun)
        cpu_times.append(time.process_time() - cpu)
        faults += [f"{case}: a series has no points" for each in points if not each]
    params = {"seconds": length_s, "samples": samples, "step_s": span.resolution.step_s}
    line = Line(f"{case}, {system}", params, max(len(each) for each in asked), faults=faults[:1])
    line.metrics = {
        "median_s": statistics.median(times),
        "p99_s": p99(times),
        "cpu_median_s": statistics.median(cpu_times),
        "cpu_max_s": max(cpu_times),
        "over_goal": sum(each > GOALS_S[case] for each in times),
        "load_average": os.getloadavg()[0],
    }
    return line


# --- many workloads ----------------------------------------------------------------------------------------------

RUN_S = 2 * HOUR_S
"""How long each workload runs."""
STATED_MB = 1500
"""What 10 000 workloads a day take at most, after a year. docs/reference/metrics.md says so."""
DISTINCT = 8
"""Blocks that are made up for each resolution; the others are copies of them, as large."""


def workload_block(resolution: Resolution, a_day: int, random: np.random.Generator) -> Block:
    """One of the groups that workloads are in, each with a pod on one GPU, as so many a day leave it."""
    number = max(1, round(a_day / BUCKETS * (resolution.block_s + RUN_S) / DAY_S))
    block: dict[str, Run] = {}
    for start_s in random.integers(1 - RUN_S, resolution.block_s, number).tolist():
        first = max(0, start_s) // resolution.step_s
        slots = max(1, -(-min(resolution.block_s, start_s + RUN_S) // resolution.step_s) - first)
        name = str(uuid.UUID(bytes=random.bytes(16)))
        values = np.ones((len(WorkColumn) + 1, slots), np.float32)
        measured = [column for column in WorkColumn if column < WorkColumn.GPUS_ALLOCATED]
        values[measured] = random.random((len(measured), slots), np.float32) * (1 << 30)
        block[name] = block[pod(name, f"{name}-0-0")] = Run(first, values)
        block[pod_device(name, f"{name}-0-0", 0)] = Run(first, values[: len(PodDeviceColumn) + 1])
    return block


def workloads_of_a_year(database: SeriesDatabase, system: str, disk: Callable[[], int], a_day: int) -> Line:
    """Written as if a year had gone by with so many workloads every day; then another day goes by."""
    random, before, size = np.random.default_rng(SEED), disk(), 0
    now_s = START_S + 1000 * DAY_S
    for resolution in ALL:
        made = [packed(workload_block(resolution, a_day, random)) for _ in range(DISTINCT)]
        starts = range(now_s - resolution.kept_s, now_s, resolution.block_s)
        for part in (starts[first : first + 16] for first in range(0, len(starts), 16)):
            database.write(partial(_copied, resolution=resolution, starts=part, made=made))
        size += round(len(starts) * BUCKETS * statistics.mean(map(len, made)))
    line = Line(f"workloads, {system}", {"a_day": a_day, "run_s": RUN_S}, a_day)
    line.metrics = {"disk_mb": (disk() - before) / 1e6, "blocks_mb": size / 1e6}
    for step_s in (each.step_s for each in ALL):
        database.write(partial(series.set_until, step_s=step_s, until_s=now_s + DAY_S))
    database.write(partial(series.drop_old, now_s=now_s + 2 * DAY_S))
    oldest = {each: database.read(partial(series.first_block, resolution=each)) for each in ALL}
    late = [each for each, at_s in oldest.items() if at_s is not None and at_s < now_s - each.kept_s]
    line.faults += [f"blocks of {each.step_s} s are kept too long" for each in late]
    if a_day <= 10_000 and line.metrics["disk_mb"] > STATED_MB:
        line.faults.append(f"{line.metrics['disk_mb']:.0f} MB are more than {STATED_MB}")
    return line


def _copied(connection: Connection, resolution: Resolution, starts: Sequence[int], made: Sequence[bytes]) -> None:
    rows = [
        {
            "grp": f"{CLUSTER}/workload/{group}",
            "step_s": resolution.step_s,
            "start_s": start_s,
            "data": made[group % DISTINCT],
        }
        for start_s in starts
        for group in range(BUCKETS)
    ]
    connection.execute(insert(series.blocks), rows)


# --- one system after the other ----------------------------------------------------------------------------------


def run(
    size: Size, database: SeriesDatabase, system: str, disk: Callable[[], int], say: Callable[[Line], None]
) -> list[Line]:
    writer = SampleWriter(database, size)
    writer.run()
    hour = writer.line(system, disk())
    hour.faults = gaps(database, size)
    if hour.metrics["cpu_s_each"] >= FINE.step_s:  # not by the clock: the machine may have other work
        hour.faults.append("samples come faster than one core keeps them")
    say(hour)
    end_s = START_S + 400 * DAY_S
    fill(database, HOURS, end_s - 366 * DAY_S, end_s)
    fill(database, MINUTES, end_s - 8 * DAY_S, end_s)
    lines = [hour]
    for case, length_s, samples in (("day", DAY_S, 288), ("year", 365 * DAY_S, 365)):
        lines.append(queried(database, case, system, length_s, samples, end_s))
        say(lines[-1])
    if size.workloads:
        lines.append(workloads_of_a_year(database, system, disk, size.workloads))
        say(lines[-1])
    return lines


@contextmanager
def _sqlite() -> Iterator[Opened]:
    with tempfile.TemporaryDirectory(prefix="bench-series-") as folder:
        database = SqliteSeries(Path(folder) / "metrics.sqlite")
        try:
            yield database, lambda: sum(each.stat().st_size for each in Path(folder).iterdir())
        finally:
            database.close()


@contextmanager
def _postgresql(url: str) -> Iterator[Opened]:
    with ExitStack() as stack:
        if not url:
            server = PostgresServer()
            stack.callback(server.close)
            server.start()
            url = server.url()
        database = PostgresSeries(url)
        stack.callback(database.close)
        total = text("SELECT sum(pg_total_relation_size(name::regclass)) FROM unnest(CAST(:names AS text[])) AS name")
        names = [each.name for each in (series.ticks, series.blocks, series.progress)]
        yield (
            database,
            lambda: int(database.read(lambda connection: connection.execute(total, {"names": names}).scalar_one())),
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.series", description=__doc__.split("\n")[0])
    parser.add_argument("--nodes", type=int, default=1000, metavar="N", help="of 8 GPUs (default 1000)")
    parser.add_argument("--minutes", type=int, default=60, metavar="M", help="of samples (default 60)")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("--sqlite", action="store_true", help="only on SQLite")
    only.add_argument("--postgresql", action="store_true", help="only on PostgreSQL")
    parser.add_argument(
        "--workloads", type=int, default=10_000, metavar="N", help="a day for a year (default 10000; 0: not measured)"
    )
    parser.add_argument("--database", default="", metavar="URL", help="empty (default: starts a PostgreSQL server)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write one JSON object a line")
    options = parser.parse_args(arguments)
    if options.nodes < 1 or not 1 <= options.minutes <= HOUR_S // 60:
        parser.error("at least one node, and between 1 and 60 minutes are needed")
    end_in_good_order()
    size = Size(options.nodes, options.minutes * 6, options.workloads)
    setting = Setting.here()
    print(setting)
    table = Table(COLUMNS, "size", 18)
    table.head()
    lines: list[Line] = []
    systems: dict[str, Callable[[], AbstractContextManager[Opened]]] = {}
    if not options.postgresql:
        systems["SQLite"] = _sqlite
    if not options.sqlite:
        systems["PostgreSQL"] = partial(_postgresql, options.database)
    for system, opened in systems.items():
        try:
            with opened() as (database, disk):
                lines += run(size, database, system, disk, lambda line: table.add(line, "; ".join(line.faults)))
        except pytest.skip.Exception as missing:
            print(f"not measured: {missing.msg}")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    if "PostgreSQL" in systems and not options.database:
        print(f"the PostgreSQL server used {ended.ru_utime + ended.ru_stime:.0f} s of CPU")
    if options.json:
        options.json.write_text("".join(f"{line.as_json('series', setting)}\n" for line in lines))
    faults = [fault for line in lines for fault in line.faults]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n".join(faults) or f"no sample is missing; {peak:.0f} MiB at most")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

"""Samples on their way to the disk and back, in threads of their own.

Samples that come are put into a short queue. One thread packs and writes them and makes blocks of older ones, a few at
a time. If the disk is full, slow or away, the queue fills up and the oldest samples are dropped: no one waits for it.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from fairpool.control.store import series
from fairpool.control.store.database import Connection
from fairpool.control.store.series import StoredTick
from fairpool.control.store.series_blocks import DueBlock, due_blocks, make_blocks
from fairpool.control.store.series_database import SeriesDatabase
from fairpool.control.store.series_reader import IsMeasured, LatestSample, LatestSlots, RecentSamples, SeriesReader
from fairpool.control.store.unavailable import BUSY, Unavailable
from fairpool.metrics import catalogue
from fairpool.metrics.block import of_sample, packed
from fairpool.metrics.catalogue import DeviceColumn
from fairpool.metrics.idle_time import GAP_S, IdleTimes
from fairpool.metrics.recent_use import amount, is_node_measured
from fairpool.metrics.resolution import FINE
from fairpool.metrics.time_range import Curve, Point, SeriesSubject, TimeRange
from fairpool.metrics.totals import ClusterFacts, group_samples
from fairpool.model.ids import SECOND_MS
from fairpool.model.problem import Problem
from fairpool.model.sample import Sample

log = logging.getLogger("fairpool.control")

T = TypeVar("T")

WAITING_MAX: Final = 60
"""Samples of clusters: ten minutes of one, a minute of ten."""
TOGETHER: Final = 8
"""Blocks that are made in one transaction."""
PAUSE_S: Final = 2.0
"""Between looks for blocks that are due, and before the next try after an error."""
TIDY_S: Final = 600.0
STOP_S: Final = 5.0
READERS: Final = 2
READ_S: Final = 20.0
"""How long an answer waits for a disk that is slow."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """What was measured in a cluster, and what was known of it at that moment."""

    sample: Sample
    facts: ClusterFacts
    when_written: Callable[[], None] = field(default=lambda: None, compare=False)
    """Called in the thread that writes."""

    @property
    def at_s(self) -> int:
        """Where its slot begins."""
        at_s = self.sample.at // SECOND_MS
        return at_s - at_s % FINE.step_s


class CurvePoints(NamedTuple):
    """What was read: the points of each curve."""

    points: list[list[Point]]
    unreadable: int
    """Blocks that are damaged, so that points may be missing."""


class SampleStore:
    """Keeps samples. `now_s` is the time by which blocks are due."""

    def __init__(self, connect: Callable[[], SeriesDatabase], now_s: Callable[[], int]) -> None:
        self._connect, self._now_s = connect, now_s
        self._opened: SeriesDatabase | None = None
        self._opening = threading.Lock()
        self._waiting: deque[ClusterSample] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="samples", daemon=True)
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="series")
        self._due: deque[DueBlock] = deque()
        self._look_at = self._tidy_at = 0.0
        self._idle = IdleTimes()
        self._idle_known: set[str] = set()
        """Clusters whose idle times go on from the samples that were kept before this process began."""
        self.problem: Problem | None = None
        """Why nothing is written just now."""
        self.dropped = 0
        """Samples of clusters that found no place in the queue."""
        self.written = 0

    def close(self) -> None:
        """What waits is written if that is quick."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join(STOP_S)
        self._readers.shutdown(wait=not self._thread.is_alive(), cancel_futures=True)
        if not self._thread.is_alive() and self._opened is not None:
            self._opened.close()

    def offer(self, sample: ClusterSample) -> None:
        """Never waits. With the first one the thread begins: a server without clusters needs none."""
        with self._changed:
            if self._thread.ident is None and not self._is_closed:
                self._thread.start()
            self._waiting.append(sample)
            while len(self._waiting) > WAITING_MAX:
                self._drop_one()
            self._changed.notify_all()

    def _drop_one(self) -> None:
        """The oldest of the cluster with most samples here: one that sends too many drops none of the others."""
        ((most, _),) = Counter(each.facts.cluster for each in self._waiting).most_common(1)
        del self._waiting[next(at for at, each in enumerate(self._waiting) if each.facts.cluster == most)]
        self.dropped += 1

    async def values(self, span: TimeRange, curves: Sequence[Curve]) -> CurvePoints:
        """What subjects did over a time, all read at one moment. Raises `Unavailable`."""
        return await self._read(lambda connection: _curve_points(SeriesReader(connection), span, curves))

    async def recent(self, prefix: str, seconds: int, use: Callable[[RecentSamples], T]) -> T:
        """What is found in the finest slots of the last seconds, of every subject of the groups whose names begin so;
        in a thread, because they may be many. Raises `Unavailable`."""
        slots = seconds // FINE.step_s + 1
        start_s = (self._now_s() // FINE.step_s + 1 - slots) * FINE.step_s
        return await self._read(lambda connection: use(SeriesReader(connection).recent(prefix, start_s, slots)))

    async def latest_slots(self, prefix: str, seconds: int) -> LatestSlots:
        """What was measured last, at most so long ago. Raises `Unavailable`."""
        since_s = self._now_s() - seconds
        return await self._read(lambda connection: SeriesReader(connection).latest_slots(prefix, since_s))

    @property
    def waiting(self) -> int:
        """Samples of clusters that are not written yet."""
        return len(self._waiting)

    async def latest(
        self, prefix: str, wanted: Mapping[str, Collection[str]], is_measured: IsMeasured, seconds: int
    ) -> dict[SeriesSubject, LatestSample]:
        """What was last measured of subjects, by the group that they are in, within the last seconds. Raises
        `Unavailable`."""
        since_s = (self._now_s() // FINE.step_s + 1) * FINE.step_s - seconds
        return await self._read(
            lambda connection: SeriesReader(connection).latest(prefix, wanted, is_measured, since_s)
        )

    def read(self, unit: Callable[[SeriesReader], T]) -> T:
        """Read something at one moment, in the calling thread. Raises `Unavailable`."""
        return self._database_read(lambda connection: unit(SeriesReader(connection)))

    async def _read(self, unit: Callable[[Connection], T]) -> T:
        reading = asyncio.get_running_loop().run_in_executor(self._readers, self._database_read, unit)
        try:
            return await asyncio.wait_for(reading, READ_S)
        except TimeoutError as error:
            raise Unavailable(BUSY, f"no answer within {READ_S:g} s") from error

    def _database_read(self, unit: Callable[[Connection], T]) -> T:
        return self._database.read(unit)

    @property
    def _database(self) -> SeriesDatabase:
        with self._opening:
            if self._opened is None:
                self._opened = self._connect()
            return self._opened

    # --- the thread ---

    def _run(self) -> None:
        while self._wait():
            try:
                self._turn()
            except Unavailable as error:
                self._note(error.described)
            except Exception:
                log.exception("samples could not be written; retrying in %g s", PAUSE_S)
            else:
                self._note(None)
                continue
            self._pause()
        self._write_rest()

    def _write_rest(self) -> None:
        with self._changed:
            rest = list(self._waiting)
        if not rest or self.problem is not None:
            return
        try:
            self._database.write(lambda connection: series.add_ticks(connection, self._rows(rest)))
        except Exception:
            log.exception("the last samples could not be written")

    def _wait(self) -> bool:
        """Until there is something to do; False: no more."""
        with self._changed:
            while not self._is_closed and not self._waiting and not self._due:
                left = self._look_at - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            return not self._is_closed

    def _pause(self) -> None:
        with self._changed:
            if not self._is_closed:
                self._changed.wait(PAUSE_S)

    def _turn(self) -> None:
        with self._changed:
            batch = list(self._waiting)
        if batch:
            self._write(batch)
            with self._changed:
                for each in batch:
                    if self._waiting and self._waiting[0] is each:
                        self._waiting.popleft()
        if self._due:
            part = [self._due.popleft() for _ in range(min(TOGETHER, len(self._due)))]
            self._database.write(lambda connection: make_blocks(connection, part))
        elif time.monotonic() >= self._look_at:
            self._due.extend(self._database.write(lambda connection: due_blocks(connection, self._now_s())))
            self._look_at = time.monotonic() + PAUSE_S
            if not self._due:
                self._tidy()

    def _rows(self, samples: Sequence[ClusterSample]) -> list[StoredTick]:
        for each in samples:
            if each.facts.cluster not in self._idle_known:
                self._learn_idle_times(each)
        return _rows(samples, self._idle)

    def _learn_idle_times(self, sample: ClusterSample) -> None:
        cluster = sample.facts.cluster
        wanted = {
            catalogue.node_group(cluster, each.name): [catalogue.device(index) for index in range(each.gpus)]
            for each in sample.facts.nodes
        }
        prefix, since_s = catalogue.nodes_prefix(cluster), sample.at_s - GAP_S
        found = self._database.read(
            lambda connection: SeriesReader(connection).latest(prefix, wanted, is_node_measured, since_s)
        )
        for subject, (at_s, row) in found.items():
            idle_s = amount(row, DeviceColumn.IDLE_S)
            if idle_s is not None:
                self._idle.learn(subject.group, subject.name, at_s, idle_s)
        self._idle_known.add(cluster)

    def _write(self, batch: Sequence[ClusterSample]) -> None:
        """One that cannot be written is dropped: it would keep those of all clusters waiting."""
        try:
            rows = self._rows(batch)
            self._database.write(lambda connection: series.add_ticks(connection, rows))
            self.written += len(batch)
            for each in batch:
                each.when_written()
        except Unavailable:
            raise
        except Exception:
            if len(batch) == 1:
                log.exception("a sample is dropped", extra={"fields": {"cluster": batch[0].facts.cluster}})
                self.dropped += 1
            else:
                for each in batch:
                    self._write([each])

    def _tidy(self) -> None:
        if time.monotonic() >= self._tidy_at:
            self._tidy_at = time.monotonic() + TIDY_S
            self._idle.forget_before(self._now_s() - FINE.block_s)
            self._database.write(lambda connection: series.drop_old(connection, self._now_s()))

    def _note(self, problem: Problem | None) -> None:
        """One line for each problem, until it is over."""
        if (problem and problem.code) != (self.problem and self.problem.code):
            if problem is not None:
                log.error("samples cannot be kept", extra={"fields": {"code": problem.code, "what": problem.what}})
            else:
                log.info("samples are kept again")
        self.problem = problem


def _rows(samples: Sequence[ClusterSample], idle: IdleTimes | None = None) -> list[StoredTick]:
    rows = {}
    for each in samples:
        slot = each.at_s % FINE.block_s // FINE.step_s
        for group, subjects, values in group_samples(each.sample, each.facts):
            if idle is not None:
                idle.add(group, subjects, values, each.at_s)
            rows[group, each.at_s] = StoredTick(group, each.at_s, packed(of_sample(slot, subjects, values)))
    return list(rows.values())


def _curve_points(reader: SeriesReader, span: TimeRange, curves: Sequence[Curve]) -> CurvePoints:
    """Group by group: the slots of a year of a thousand projects at once would be half a gigabyte."""
    by_group: dict[str, list[int]] = {}
    for number, each in enumerate(curves):
        by_group.setdefault(each.subject.group, []).append(number)
    points: list[list[Point]] = [[] for _ in curves]
    for grp, numbers in by_group.items():
        found = _group_points(reader, span, grp, [curves[number] for number in numbers])
        for number, its_points in zip(numbers, found, strict=True):
            points[number] = its_points
    return CurvePoints(points, reader.unreadable)


def _group_points(reader: SeriesReader, span: TimeRange, grp: str, curves: Sequence[Curve]) -> list[list[Point]]:
    before = span.look_back_slots if any(each.is_idle_time for each in curves) else 0
    start_s = span.first_s - before * span.resolution.step_s
    names = list(dict.fromkeys(each.subject.name for each in curves))
    slots = reader.values(grp, names, span.resolution, start_s, before + span.slots)
    found = dict(zip(names, slots, strict=True))
    used = {name: span.resampled(values[:, before:]) for name, values in found.items()}
    return [
        span.points(
            span.resampled(span.idle_times(found[each.subject.name])) if each.is_idle_time else used[each.subject.name],
            each,
        )
        for each in curves
    ]

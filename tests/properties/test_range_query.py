"""A range query is the average of the samples of its time: in every resolution, however far blocks are made."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpool.control.sample_store import _curve_points
from fairpool.control.store import series
from fairpool.control.store.series import StoredTick
from fairpool.control.store.series_blocks import due_blocks, make_blocks
from fairpool.control.store.series_database import SqliteSeries
from fairpool.control.store.series_reader import SeriesReader
from fairpool.metrics.block import of_sample, packed
from fairpool.metrics.resolution import ALL, DAY_S, FINE, HOUR_S
from fairpool.metrics.time_range import Curve, SeriesSubject, TimeRange

START = 1_800_000_000 // DAY_S * DAY_S
GROUP, NAME = "cluster/node/n1", "gpu/0"

Samples = dict[int, float]
"""By slot, in 10 s since the start."""


@contextmanager
def kept(samples: Samples) -> Iterator[SqliteSeries]:
    with tempfile.TemporaryDirectory() as folder:
        database = SqliteSeries(Path(folder) / "metrics.sqlite")
        try:
            database.write(lambda connection: series.add_ticks(connection, map(tick, samples.items())))
            yield database
        finally:
            database.close()


def tick(sample: tuple[int, float]) -> StoredTick:
    slot, value = sample
    block = of_sample(slot % FINE.slots, [NAME, "another"], np.array([[value, 1], [-1, -1]], np.float32))
    return StoredTick(GROUP, START + slot * FINE.step_s, packed(block))


def make(database: SqliteSeries, now_s: int, steps: int | None) -> None:
    """So many blocks at most; None: all that are due."""
    while due := database.write(lambda connection: due_blocks(connection, now_s)):
        database.write(partial(make_blocks, due=due[:steps]))
        if steps is not None:
            return


def answered(database: SqliteSeries, span: TimeRange) -> dict[int, float]:
    curve = Curve(SeriesSubject(GROUP, NAME), {1: 1.0, 2: 10.0}, 5.0)
    found = database.read(lambda connection: _curve_points(SeriesReader(connection), span, [curve]))
    assert found.unreadable == 0
    return dict(found.points[0])


def expected(samples: Samples, span: TimeRange) -> dict[int, float]:
    """The same from the samples alone."""
    points: dict[int, list[float]] = {}
    end_s = span.first_s + span.slots * span.resolution.step_s
    for slot, value in samples.items():
        at_s = START + slot * FINE.step_s
        if span.first_s <= at_s < end_s:
            points.setdefault((at_s - span.first_s) // span.point_s, []).append(value)
    return {
        max(span.start_s, span.first_s + number * span.point_s): 15.0 + sum(values) / len(values)
        for number, values in points.items()
    }


SLOTS = 3 * DAY_S // FINE.step_s
BURSTS = st.tuples(st.integers(0, SLOTS - 400), st.lists(st.floats(0, 100, width=32), min_size=1, max_size=40))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(BURSTS, min_size=1, max_size=6),
    st.sampled_from([0, 3, None]),
    st.integers(0, 3 * DAY_S),
    st.sampled_from([600, HOUR_S, 5 * HOUR_S, DAY_S, 3 * DAY_S]),
    st.integers(1, 400),
)
def test_a_range_query_is_the_average_of_its_samples(
    bursts: list[tuple[int, list[float]]], steps: int | None, start: int, length: int, count: int
) -> None:
    samples = {first + 3 * at: value for first, values in bursts for at, value in enumerate(values)}
    now_s = START + 3 * DAY_S + 60
    with kept(samples) as database:
        make(database, now_s, steps)
        for now in (now_s, START + start + length):  # long ago, or still in the finest resolution
            span = TimeRange.chosen(START + start, START + start + length, count, now)
            found = answered(database, span)
            assert found == pytest.approx(expected(samples, span), rel=1e-3, abs=1e-3)
            assert len(found) <= count


def test_every_resolution_answers_the_same_question() -> None:
    samples = {slot: float(slot % 7) for slot in range(0, DAY_S // FINE.step_s, 20)}
    now_s = START + 2 * DAY_S
    with kept(samples) as database:
        make(database, now_s, None)
        spans = [TimeRange(START, START + DAY_S, each, DAY_S // each.step_s // 24) for each in ALL]
        answers = [answered(database, span) for span in spans]
    assert len(answers[0]) == 24
    for each in answers[1:]:
        assert each == pytest.approx(answers[0], rel=1e-4)


def test_what_is_old_goes_when_coarser_blocks_are_made_and_not_before() -> None:
    now_s = START + 400 * DAY_S
    with kept(dict.fromkeys(range(0, 2 * DAY_S // FINE.step_s, 180), 50.0)) as database:
        database.write(lambda connection: series.drop_old(connection, START + 9 * DAY_S))
        assert database.read(lambda connection: series.ticks_of(connection, GROUP, 0, now_s)), "no block has them yet"
        make(database, START + 9 * DAY_S, None)
        database.write(lambda connection: series.drop_old(connection, START + 9 * DAY_S))
        left = [database.read(partial(series.first_block, resolution=each)) for each in ALL]
        assert [found is None for found in left] == [True, False, False]
        database.write(lambda connection: series.drop_old(connection, START + 11 * DAY_S))
        span = TimeRange.chosen(START, START + 2 * DAY_S, 48, START + 11 * DAY_S)
        assert answered(database, span) == pytest.approx({START + hour * HOUR_S: 65.0 for hour in range(48)})
        database.write(lambda connection: series.drop_old(connection, now_s))
        assert [database.read(partial(series.first_block, resolution=each)) for each in ALL] == [None, None, None]


def test_a_damaged_block_is_a_gap_and_is_told() -> None:
    with kept({0: 1.0, 60: 2.0}) as database:
        make(database, START + HOUR_S - 60, None)
        broken = series.blocks.update().where(series.blocks.c.start_s == START).values(data=b"nothing")
        database.write(lambda connection: connection.execute(broken))
        span = TimeRange.chosen(START, START + 1200, 2, START + 1800)
        curve = Curve(SeriesSubject(GROUP, NAME), {1: 1.0})
        found = database.read(lambda connection: _curve_points(SeriesReader(connection), span, [curve]))
    assert (found.points, found.unreadable) == ([[(START + 600, 2.0)]], 1)
    assert not math.isnan(found.points[0][0].value)

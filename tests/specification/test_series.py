"""Samples are packed, averaged and added up without losing or inventing anything."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpool.metrics.block import COVERAGE, NotABlock, Run, averaged, merged, of_sample, packed, unpacked
from fairpool.metrics.resolution import ALL, DAY_S, FINE, HOUR_S, HOURS, MINUTES, coarser, finer, resolution_for

NOW = 1_800_000_000


def sampled(slot: int, **values: list[float]) -> dict[str, Run]:
    rows = np.array(list(values.values()), np.float32)
    return dict(of_sample(slot, list(values), rows))


def same(one: Run, other: Run) -> bool:
    return one.first == other.first and np.array_equal(one.values, other.values, equal_nan=True)


@given(st.lists(st.tuples(st.integers(0, 59), st.sampled_from("abc"), st.floats(0, 2**40, width=32)), max_size=40))
def test_what_is_packed_is_unpacked(samples: list[tuple[int, str, float]]) -> None:
    block = merged(sampled(slot, **{name: [value, math.nan]}) for slot, name, value in samples)
    found = unpacked(packed(block))
    assert found.keys() == block.keys()
    assert all(same(found[name], block[name]) for name in block)
    for name in block:
        assert same(unpacked(packed(block), name)[name], block[name])
    latest = {(name, slot): value for slot, name, value in samples}
    for (name, slot), value in latest.items():
        run = block[name]
        assert run.values[1, slot - run.first] == np.float32(value)
        assert run.values[COVERAGE].sum() == len({at for each, at in latest if each == name})


@pytest.mark.parametrize(
    "damage", [b"", b"\x01", packed({})[:-3], b"\x02" + packed({})[1:], b"\x01\0\0\xff\xff\xff\xff"]
)
def test_what_is_not_a_block_is_refused(damage: bytes) -> None:
    with pytest.raises(NotABlock):
        unpacked(damage)


@given(st.lists(st.tuples(st.integers(0, 359), st.floats(0, 100, width=32)), min_size=1, max_size=60))
def test_an_average_counts_what_was_measured_and_nothing_else(samples: list[tuple[int, float]]) -> None:
    by_slot = dict(samples)
    blocks: dict[int, list[dict[str, Run]]] = {}
    for slot, value in by_slot.items():
        blocks.setdefault(slot // FINE.slots, []).append(sampled(slot % FINE.slots, gpu=[value]))
    minutes = averaged([(number * FINE.slots, merged(found)) for number, found in blocks.items()], 6)["gpu"]
    hour = averaged([(0, {"gpu": minutes})], 60)["gpu"]
    for minute in range(minutes.values.shape[1]):
        known = [
            by_slot[slot]
            for slot in range((minutes.first + minute) * 6, (minutes.first + minute + 1) * 6)
            if slot in by_slot
        ]
        assert minutes.values[COVERAGE, minute] == pytest.approx(len(known) / 6)
        assert math.isnan(minutes.values[1, minute]) == (not known)
        if known:
            assert minutes.values[1, minute] == pytest.approx(sum(known) / len(known), rel=1e-4, abs=1e-4)
    assert hour.values[1, 0] == pytest.approx(sum(by_slot.values()) / len(by_slot), rel=1e-3, abs=1e-3)
    assert hour.values[COVERAGE, 0] == pytest.approx(len(by_slot) / 360)


def test_a_question_is_answered_in_the_coarsest_resolution_that_has_enough() -> None:
    assert resolution_for(NOW - HOUR_S, NOW, 20, NOW) is MINUTES
    assert resolution_for(NOW - HOUR_S, NOW, 300, NOW) is FINE
    assert resolution_for(NOW - 600, NOW, 20, NOW) is FINE
    assert resolution_for(NOW - DAY_S, NOW, 20, NOW) is HOURS
    assert resolution_for(NOW - DAY_S, NOW, 25, NOW) is MINUTES
    assert resolution_for(NOW - DAY_S, NOW, 10_000, NOW) is MINUTES, "finer ones are not kept so long"
    assert resolution_for(NOW - 300 * DAY_S, NOW, 10_000, NOW) is HOURS
    assert resolution_for(NOW - 900 * DAY_S, NOW, 20, NOW) is HOURS


def test_each_resolution_is_kept_until_the_next_one_is_made() -> None:
    for each in ALL:
        assert each.block_s % each.step_s == 0
        following = coarser(each)
        assert following is None or (finer(following) is each and each.kept_s >= 2 * following.block_s)

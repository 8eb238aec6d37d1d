"""Instants in milliseconds and as ISO 8601."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairpool.control.moments import instant, iso

LAST = 253_402_300_799_999
"""The end of the year 9999."""


@given(st.integers(min_value=0, max_value=LAST))
@example(1_763_400_000_001)
@example(1_700_000_000_009)
@example(LAST)
def test_a_moment_is_read_as_it_was_written(moment: int) -> None:
    assert instant(iso(moment)) == moment


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("1970-01-01T00:00:00.001Z", 1),
        ("1970-01-01T01:00:00.001+01:00", 1),
        ("1970-01-01T01:00:00.001 01:00", 1),
        ("1970-01-01T00:00:00.0019Z", 1),
        ("1970-01-02", 86_400_000),
        ("soon", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("0001-01-01T00:00:00+00:01", None),
    ],
)
def test_other_forms_of_a_moment(text: str, moment: int | None) -> None:
    assert instant(text) == moment

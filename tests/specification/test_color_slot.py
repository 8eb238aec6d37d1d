"""Which of the twenty colours a project gets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpool.model.color_slot import SLOTS, color_slot, fnv_1a


@pytest.mark.parametrize(
    ("text", "found"), [("", 0x811C9DC5), ("a", 0xE40C292C), ("foobar", 0xBF9CF968)], ids=["empty", "a", "foobar"]
)
def test_the_hash_is_the_published_one(text: str, found: int) -> None:
    assert fnv_1a(text) == found


def test_a_slot_that_is_taken_is_passed_over_in_steps_of_seven() -> None:
    first = color_slot("a", ())
    assert first == 0xE40C292C % 20
    assert color_slot("a", {first}) == (first + 7) % 20
    assert color_slot("a", {first, (first + 7) % 20}) == (first + 14) % 20


@given(st.lists(st.text(max_size=63), unique=True, min_size=SLOTS + 1, max_size=SLOTS + 5))
def test_twenty_projects_have_twenty_colours_and_a_newcomer_recolours_none(names: list[str]) -> None:
    taken: list[int] = []
    for name in names:
        taken.append(color_slot(name, taken))
    assert len(set(taken[:SLOTS])) == SLOTS
    assert taken[SLOTS] == color_slot(names[SLOTS], ()), "when all are taken, the one that the name prefers"

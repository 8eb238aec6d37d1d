"""Rendered workloads are cached by revision, and no longer than there is room."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.control.rendered import RenderedCache
from fairpool.control.store import workload_lists
from fairpool.control.store import workloads as store
from fairpool.control.store.database import Connection
from tests.control.control_plane import ControlPlane, control_plane, expect


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


def read(control: ControlPlane, cache: RenderedCache) -> list[str]:
    def unit(connection: Connection) -> list[str]:
        return cache.items(connection, workload_lists.page(connection, workload_lists.Listing(sort_by="name")))

    found: list[str] = control.app.state.plane.database.read_now(unit)
    return found


def test_a_text_is_rendered_once_until_the_workload_changes(control: ControlPlane) -> None:
    first, second = (control.train(name)["id"] for name in ("first", "second"))
    cache = RenderedCache()
    before = read(control, cache)
    assert [text is again for text, again in zip(before, read(control, cache), strict=True)] == [True, True]
    control.push(control.report(workloads=(control.runs(first),)))
    expect(control.call("POST", f"/api/v1/workloads/{second}/suspend"), 202)
    now = read(control, cache)
    assert '"phase":"Running"' in now[0]
    assert '"desiredPhase":"Stopped"' in now[1]


def test_what_was_looked_up_is_rendered_as_it_was_then(control: ControlPlane) -> None:
    """Figures that were read in the same transaction agree with it, whatever changes before it is rendered."""
    first = control.train("first")["id"]
    control.push(control.report(workloads=(control.runs(first),)))
    cache, database = RenderedCache(), control.app.state.plane.database
    found = database.read_now(
        lambda connection: cache.looked_up(connection, workload_lists.page(connection, workload_lists.Listing()))
    )
    expect(control.call("POST", f"/api/v1/workloads/{first}/suspend"), 202)
    (text,) = cache.texts(found)
    assert '"desiredPhase":"Running"' in text


@pytest.mark.parametrize("most", [0, 1500])
def test_a_full_cache_answers_as_an_empty_one(control: ControlPlane, most: int) -> None:
    for number in range(5):
        control.train(f"t{number}")
    small, large = RenderedCache(most), RenderedCache()
    for _ in range(2):
        assert read(control, small) == read(control, large)
    kept: Any = small._items
    assert sum(map(len, kept.known.values())) == kept._characters <= most


def test_one_that_was_purged_meanwhile_is_left_out(control: ControlPlane) -> None:
    control.train("t1")
    plane = control.app.state.plane

    def unit(connection: Connection) -> list[str]:
        keys = workload_lists.page(connection, workload_lists.Listing())
        return RenderedCache().items(connection, [store.Key("absent", 1, 0), *keys])

    assert len(plane.database.read_now(unit)) == 1

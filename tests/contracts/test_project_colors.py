"""Colour slots of projects, as the server keeps them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.control.store.migrations import downgrade
from fairpool.model.color_slot import color_slot
from tests.control.control_plane import ControlPlane, control_plane, expect
from tests.postgresql import database_of

PROJECTS = "/api/v1/org-unit/projects"


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlPlane]:
    with control_plane(tmp_path) as control:
        yield control


def slots(control: ControlPlane) -> dict[str, int]:
    found = expect(control.call("GET", PROJECTS), 200)["projects"]
    return {each["name"]: each["colorSlot"] for each in found}


def test_projects_choose_in_order_of_creation_and_keep_their_slot(control: ControlPlane) -> None:
    taken: list[int] = []
    for number in range(12):
        made = control.project(f"team-{number}", 0)
        taken.append(color_slot(made["name"], taken))
        assert made["colorSlot"] == taken[-1]
    expect(control.call("PATCH", f"{PROJECTS}/team-3", {"description": "other"}), 200)
    assert expect(control.call("GET", f"{PROJECTS}/team-3"), 200)["colorSlot"] == taken[3]
    assert slots(control) == {f"team-{number}": slot for number, slot in enumerate(taken)}


def test_the_slot_of_a_deleted_project_is_free_after_a_month(control: ControlPlane) -> None:
    first = control.project("team-a", 0)["colorSlot"]
    same = next(f"x{number}" for number in range(1000) if color_slot(f"x{number}", ()) == first)
    expect(control.call("DELETE", f"{PROJECTS}/team-a"), 202)
    assert control.project(same, 0)["colorSlot"] == (first + 7) % 20
    assert control.project("team-a", 0)["colorSlot"] == first, "one of the same name has the same colour again"
    for name in (same, "team-a"):
        expect(control.call("DELETE", f"{PROJECTS}/{name}"), 202)
    control.clock.turn(30 * 86_400 + 1)
    control.sign_in("admin", "test@run.ai", "password")
    assert control.project(same, 0)["colorSlot"] == first


def test_projects_from_before_get_slots_in_order_of_creation(tmp_path: Path) -> None:
    names = [f"team-{number}" for number in range(8)]
    with control_plane(tmp_path) as control:
        for name in reversed(names):
            control.clock.turn(1)
            control.project(name, 0)
        before = slots(control)

    async def take_back() -> None:
        database = database_of(tmp_path)
        await database.open(lambda connection: downgrade(connection, "0032"))
        await database.close()

    asyncio.run(take_back())
    with control_plane(tmp_path) as control:
        assert slots(control) == before

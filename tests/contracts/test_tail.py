"""The tail of changes: the database is asked once for all who listen, and nobody misses anything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairpool.control.change_feed import Tail
from fairpool.control.store import changes
from fairpool.control.store.database import Connection, Database
from fairpool.control.store.migrations import upgrade
from fairpool.model.ids import Instant


class Desk:
    """A database that counts how often it is asked."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.asked = 0
        self.rings = 0

    async def read(self, unit: Callable[[Connection], Any]) -> Any:
        self.asked += 1
        return await self.database.read(unit)

    async def change(self, count: int = 1) -> None:
        def unit(connection: Connection) -> None:
            for _ in range(count):
                changes.record(connection, "project", "x", "updated", Instant(0), project="x")

        await self.database.write(unit)
        self.rings += 1

    async def heard(self, tail: Tail, revision: int, most: int = 500) -> list[int] | None:
        found = await tail.after(self.read, self.rings, revision, most)
        return None if found is None else [told.revision for told in found]


def with_desk(path: Path, story: Callable[[Desk], Any]) -> None:
    async def run() -> None:
        database = Database(path / "control.sqlite")
        await database.open(upgrade)
        try:
            await story(Desk(database))
        finally:
            await database.close()

    asyncio.run(run())


def test_many_listeners_are_one_question(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        tail = Tail()
        assert await desk.heard(tail, 1) == []
        await desk.change(3)
        asked = desk.asked
        for _ in range(200):
            assert await desk.heard(tail, 1) == [2, 3, 4]
        assert desk.asked == asked + 1

    with_desk(tmp_path, story)


def test_a_listener_goes_on_where_it_was(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        tail = Tail()
        await desk.heard(tail, 1)
        await desk.change(5)
        assert await desk.heard(tail, 1, most=2) == [2, 3]
        assert await desk.heard(tail, 3, most=2) == [4, 5]
        assert await desk.heard(tail, 6) == []

    with_desk(tmp_path, story)


def test_who_was_away_for_too_long_is_told_so(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        await desk.change(2)
        tail = Tail(kept=4)
        assert await desk.heard(tail, 1) is None, "it began after that"
        assert await desk.heard(tail, 3) == []
        for _ in range(6):
            await desk.change(2)
            await desk.heard(tail, 0)
        assert await desk.heard(tail, 3) is None, "it has forgotten since"
        assert await desk.heard(tail, 13) == [14, 15]

    with_desk(tmp_path, story)


def test_after_a_silence_it_begins_anew(tmp_path: Path) -> None:
    async def story(desk: Desk) -> None:
        tail = Tail(kept=4)
        await desk.heard(tail, 1)
        await desk.change(50)
        assert await desk.heard(tail, 1) is None
        assert await desk.heard(tail, 51) == []
        await desk.change()
        assert await desk.heard(tail, 51) == [52]

    with_desk(tmp_path, story)

"""The change-feed cache: the database is read once for all streams, and none misses a change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fairpool.control.change_feed import ChangeFeedCache, FeedText
from fairpool.control.rendered import RenderedCache
from fairpool.control.store import changes
from fairpool.control.store.database import Connection, Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.sqlite import Sqlite
from fairpool.model.ids import Instant


class Listener:
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

    async def heard(self, tail: ChangeFeedCache, revision: int, most: int = 500) -> list[int] | None:
        await tail.catch_up(self.read, self.rings)
        found = tail.after(revision, most)
        return None if found is None else [reported.revision for reported in found]


def with_feed(path: Path, scenario: Callable[[Listener], Any]) -> None:
    async def run() -> None:
        database = LocalDatabase(Sqlite(path / "control.sqlite"))
        await database.open(upgrade)
        try:
            await scenario(Listener(database))
        finally:
            await database.close()

    asyncio.run(run())


def test_many_listeners_are_one_question(tmp_path: Path) -> None:
    async def scenario(admin_socket: Listener) -> None:
        tail = ChangeFeedCache(RenderedCache())
        assert await admin_socket.heard(tail, 1) == []
        await admin_socket.change(3)
        asked = admin_socket.asked
        for _ in range(200):
            assert await admin_socket.heard(tail, 1) == [2, 3, 4]
        assert admin_socket.asked == asked + 1

    with_feed(tmp_path, scenario)


def test_a_listener_goes_on_where_it_was(tmp_path: Path) -> None:
    async def scenario(admin_socket: Listener) -> None:
        tail = ChangeFeedCache(RenderedCache())
        await admin_socket.heard(tail, 1)
        await admin_socket.change(5)
        assert await admin_socket.heard(tail, 1, most=2) == [2, 3]
        assert await admin_socket.heard(tail, 3, most=2) == [4, 5]
        assert await admin_socket.heard(tail, 6) == []

    with_feed(tmp_path, scenario)


def test_who_was_away_for_too_long_is_told_so(tmp_path: Path) -> None:
    async def scenario(admin_socket: Listener) -> None:
        await admin_socket.change(2)
        tail = ChangeFeedCache(RenderedCache(), kept=4)
        assert await admin_socket.heard(tail, 1) is None, "it began after that"
        assert await admin_socket.heard(tail, 3) == []
        for _ in range(6):
            await admin_socket.change(2)
            await admin_socket.heard(tail, 0)
        assert await admin_socket.heard(tail, 3) is None, "it has forgotten since"
        assert await admin_socket.heard(tail, 13) == [14, 15]

    with_feed(tmp_path, scenario)


def test_after_a_silence_it_begins_anew(tmp_path: Path) -> None:
    async def scenario(admin_socket: Listener) -> None:
        tail = ChangeFeedCache(RenderedCache(), kept=4)
        await admin_socket.heard(tail, 1)
        await admin_socket.change(50)
        assert await admin_socket.heard(tail, 1) is None
        assert await admin_socket.heard(tail, 51) == []
        await admin_socket.change()
        assert await admin_socket.heard(tail, 51) == [52]

    with_feed(tmp_path, scenario)


def test_what_is_sent_is_made_once_for_all_who_may_see_the_same(tmp_path: Path) -> None:
    made = 0

    def make() -> FeedText:
        nonlocal made
        made += 1
        return FeedText(b"text", made)

    async def scenario(admin_socket: Listener) -> None:
        tail = ChangeFeedCache(RenderedCache())
        await admin_socket.heard(tail, 1)
        for number in (1, 2):
            await admin_socket.change()
            await admin_socket.heard(tail, 1)
            shown = [tail.shown(view, 1, make) for view in ("a", "a", None)]
            assert shown[0] is shown[1]
            assert made == 2 * number
        tail.forget()
        assert tail.shown("a", 1, lambda: None) is None, "it is not known what they may see now"

    with_feed(tmp_path, scenario)

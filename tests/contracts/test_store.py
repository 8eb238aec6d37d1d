"""The database: one commit for many writers, each failing alone, and nothing acknowledged that is not on the disk."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, insert, select

from fairpool.control.store import changes
from fairpool.control.store.database import Database
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.tables import metadata, revision, users
from fairpool.model.ids import Instant
from tests.control.house import expect, house


def with_database(path: Path, story: Callable[[Database], Awaitable[None]]) -> None:
    async def run() -> None:
        database = Database(path / "control.sqlite")
        await database.open(upgrade)
        try:
            await story(database)
        finally:
            await database.close()

    asyncio.run(run())


def bump(connection: Connection) -> int:
    return changes.record(connection, "test", "x", "changed", Instant(0))


def test_no_update_is_lost_among_many_writers(tmp_path: Path) -> None:
    async def story(database: Database) -> None:
        numbers = await asyncio.gather(*(database.write(bump) for _ in range(400)))
        assert sorted(numbers) == list(range(2, 402))

    with_database(tmp_path, story)


def test_writers_share_a_commit(tmp_path: Path) -> None:
    commits = 0

    async def story(database: Database) -> None:
        def count() -> None:
            nonlocal commits
            commits += 1

        database.after_commit = count
        await asyncio.gather(*(database.write(bump) for _ in range(100)))

    with_database(tmp_path, story)
    assert commits <= 2


def test_a_unit_that_fails_undoes_itself_and_nobody_else(tmp_path: Path) -> None:
    def fails(connection: Connection) -> None:
        bump(connection)
        connection.execute(insert(users).values(id="only half a row"))

    async def story(database: Database) -> None:
        done = await asyncio.gather(
            database.write(bump), database.write(fails), database.write(bump), return_exceptions=True
        )
        assert (done[0], done[2]) == (2, 3)
        assert isinstance(done[1], Exception)
        assert await database.read(changes.current) == 3

    with_database(tmp_path, story)


def test_what_was_acknowledged_is_in_the_file_before_anybody_closes_it(tmp_path: Path) -> None:
    async def story(database: Database) -> None:
        await database.write(bump)
        other = sqlite3.connect(tmp_path / "control.sqlite")
        assert other.execute("SELECT value FROM revision").fetchone() == (2,)
        other.close()

    with_database(tmp_path, story)


def test_a_disk_that_fails_leaves_nobody_waiting(tmp_path: Path) -> None:
    async def story(database: Database) -> None:
        other = sqlite3.connect(tmp_path / "control.sqlite", isolation_level=None)
        assert database._writing is not None
        database._writing.exec_driver_sql("PRAGMA busy_timeout=10")
        other.execute("BEGIN IMMEDIATE")  # somebody else holds the file
        with pytest.raises(Exception, match="locked"):
            await database.write(bump)
        other.execute("ROLLBACK")
        assert await database.write(bump) == 2
        other.close()

    with_database(tmp_path, story)


def test_the_settings_that_durability_needs_are_on(tmp_path: Path) -> None:
    async def story(database: Database) -> None:
        def pragmas(connection: Connection) -> list[object]:
            names = ("journal_mode", "synchronous", "foreign_keys")
            return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

        assert await database.write(pragmas) == ["wal", 2, 1]

    with_database(tmp_path, story)


def test_a_database_of_the_first_release_is_brought_up_to_date_with_all_it_holds(tmp_path: Path) -> None:
    with house(tmp_path) as home:
        home.project("team-a")
        workload = home.train("t1")
    with sqlite3.connect(tmp_path / "control.sqlite") as older:
        older.execute("DROP TABLE preferences")
        older.execute("DROP INDEX ix_workloads_gone_at")
        older.execute("UPDATE alembic_version SET version_num = '0001'")
    with house(tmp_path) as home:
        assert expect(home.call("GET", f"/api/v1/workloads/{workload['id']}"), 200) == workload
        assert expect(home.call("PUT", "/v1/k8s/setting/department.use", {"value": False}), 200)["value"] is False


def test_the_migrations_lead_to_the_tables_the_code_knows(tmp_path: Path) -> None:
    async def story(database: Database) -> None:
        def difference(connection: Connection) -> list[object]:
            return list(compare_metadata(MigrationContext.configure(connection), metadata))

        assert await database.write(difference) == []
        rows = await database.read(lambda connection: connection.execute(select(revision)).all())
        assert len(rows) == 1

    with_database(tmp_path, story)

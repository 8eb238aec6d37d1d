"""The database: one commit for many writers, each failing alone, and nothing acknowledged that is not on the disk."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor, Future
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, bindparam, insert, inspect, select, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateIndex

from fairpool.control.store import changes
from fairpool.control.store import database as database_module
from fairpool.control.store.compiled import Compiled, CompiledIn
from fairpool.control.store.database import SLICE_S, UNITS_S, Closed, Database
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import downgrade, upgrade
from fairpool.control.store.tables import clusters, metadata, pods, revision, users, workloads
from fairpool.model.ids import Instant
from tests.control.control_plane import control_plane, expect
from tests.postgresql import database_of, of_sqlite


def with_database(
    path: Path, scenario: Callable[[Database], Awaitable[None]], prepare: Callable[[Connection], None] = upgrade
) -> None:
    async def run() -> None:
        database = database_of(path)
        await database.open(prepare)
        try:
            await scenario(database)
        finally:
            await database.close()

    asyncio.run(run())


def bump(connection: Connection) -> int:
    return changes.record(connection, "test", "x", "changed", Instant(0))


def test_no_update_is_lost_among_many_writers(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        numbers = await asyncio.gather(*(database.write(bump) for _ in range(400)))
        assert sorted(numbers) == list(range(2, 402))

    with_database(tmp_path, scenario)


def test_writers_share_a_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database_module, "UNITS_S", 3600.0)  # however slow the machine is
    commits = 0

    async def scenario(database: Database) -> None:
        def count() -> None:
            nonlocal commits
            commits += 1

        database.after_commit = count
        await asyncio.gather(*(database.write(bump) for _ in range(100)))

    with_database(tmp_path, scenario)
    assert commits <= 2


def test_a_unit_that_fails_undoes_itself_and_no_other(tmp_path: Path) -> None:
    def fails(connection: Connection) -> None:
        bump(connection)
        connection.execute(insert(users).values(id="only half a row"))

    async def scenario(database: Database) -> None:
        done = await asyncio.gather(
            database.write(bump), database.write(fails), database.write(bump), return_exceptions=True
        )
        assert (done[0], done[2]) == (2, 3)
        assert isinstance(done[1], Exception)
        assert await database.read(changes.current) == 3

    with_database(tmp_path, scenario)


@of_sqlite
def test_what_was_acknowledged_is_in_the_file_before_it_is_closed(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        await database.write(bump)
        other = sqlite3.connect(tmp_path / "control.sqlite")
        assert other.execute("SELECT value FROM revision").fetchone() == (2,)
        other.close()

    with_database(tmp_path, scenario)


@of_sqlite
def test_a_disk_that_fails_leaves_no_caller_waiting(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        other = sqlite3.connect(tmp_path / "control.sqlite", isolation_level=None)
        assert isinstance(database, LocalDatabase)
        assert database._writing is not None
        database._writing.exec_driver_sql("PRAGMA busy_timeout=10")
        other.execute("BEGIN IMMEDIATE")  # another process holds the file
        with pytest.raises(Exception, match="locked"):
            await database.write(bump)
        other.execute("ROLLBACK")
        assert await database.write(bump) == 2
        other.close()

    with_database(tmp_path, scenario)


@of_sqlite
def test_a_disk_that_fails_at_the_commit_leaves_no_caller_waiting_or_acknowledged(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        def never_true(connection: Connection) -> int:
            connection.exec_driver_sql("PRAGMA defer_foreign_keys=ON")
            connection.exec_driver_sql("INSERT INTO child VALUES (7)")  # of no parent: noticed when it is committed
            return bump(connection)

        def tables(connection: Connection) -> None:
            connection.exec_driver_sql("CREATE TABLE parent (id INTEGER PRIMARY KEY)")
            connection.exec_driver_sql("CREATE TABLE child (of REFERENCES parent(id))")

        called: list[str] = []

        def asks_for_a_call(connection: Connection) -> None:
            database.when_committed(lambda: called.append("too early"))

        await database.write(tables)
        together = [database.write(unit) for unit in (bump, never_true, asks_for_a_call)]
        first, *reported = await asyncio.gather(*together, return_exceptions=True)
        assert first == 2, "it had begun before the others came"
        assert all("FOREIGN KEY" in str(each) for each in reported), reported
        assert called == []
        assert await database.write(bump) == 3
        assert called == []

    with_database(tmp_path, scenario)


class AtOnce(Executor):
    """A disk that takes no time."""

    def submit(self, call: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        call(*arguments, **named)
        return Future()


@of_sqlite
def test_an_answer_waits_for_the_event_loop_no_more_often_than_it_must(tmp_path: Path) -> None:
    """Under load each time is the whole line of those who want something: once after the disk, once for its task."""

    async def scenario(database: Database) -> None:
        assert isinstance(database, LocalDatabase)
        database._disk = AtOnce()
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await asyncio.sleep(0)
        before = turns
        assert await database.write(bump) == 2
        assert turns - before <= 2
        counting.cancel()

    with_database(tmp_path, scenario)


def test_those_who_read_are_let_in_between_many_that_write(tmp_path: Path) -> None:
    """However many units have come: after a while they are committed, and others have their turn."""

    def long(connection: Connection) -> int:
        until = time.perf_counter() + UNITS_S / 4
        while time.perf_counter() < until:
            pass
        return bump(connection)

    async def scenario(database: Database) -> None:
        writing = asyncio.gather(*(database.write(long) for _ in range(16)))
        seen = set()
        while not writing.done():
            seen.add(await database.read(changes.current))
            await asyncio.sleep(0)
        assert sorted(await writing) == list(range(2, 18))
        assert len(seen) >= 4

    with_database(tmp_path, scenario)


@of_sqlite
def test_others_have_their_turn_while_the_units_of_one_commit_are_carried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit waits for the disk, so many units share one; the event loop is not theirs for so long."""
    monkeypatch.setattr(database_module, "UNITS_S", 3600.0)  # however slow the machine is

    def long(connection: Connection) -> int:
        until = time.perf_counter() + SLICE_S
        while time.perf_counter() < until:
            pass
        return bump(connection)

    async def scenario(database: Database) -> None:
        commits = 0

        def committed() -> None:
            nonlocal commits
            commits += 1

        database.after_commit = committed
        first = asyncio.ensure_future(database.write(bump))  # the others come while it is on its way to the disk
        await asyncio.sleep(0)
        rest = asyncio.gather(*(database.write(long) for _ in range(4)))
        turns_in: Counter[int] = Counter()
        while not rest.done():
            turns_in[commits] += 1
            assert await database.read(changes.current) in (1, 2, 6)
            await asyncio.sleep(0)
        assert await first == 2
        assert await rest == [3, 4, 5, 6]
        assert commits == 2
        assert turns_in[1] >= 4

    with_database(tmp_path, scenario)


def test_what_was_accepted_is_finished_before_it_closes(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        writing = [asyncio.ensure_future(database.write(bump)) for _ in range(300)]
        await asyncio.sleep(0)
        await database.close()
        await asyncio.sleep(0)
        assert [each.result() for each in writing] == list(range(2, 302))

    async def run() -> None:
        database = database_of(tmp_path)
        await database.open(upgrade)
        await scenario(database)

    asyncio.run(run())


def test_who_writes_after_it_has_closed_is_told_so(tmp_path: Path) -> None:
    async def scenario() -> None:
        database = database_of(tmp_path)
        await database.open(upgrade)
        await database.close()
        for _ in range(2):
            with pytest.raises(Closed):
                await asyncio.wait_for(database.write(bump), 5)

    asyncio.run(scenario())


@of_sqlite
def test_a_machine_without_room_for_a_thread_leaves_no_caller_waiting(tmp_path: Path) -> None:
    class NoThreads(Executor):
        def submit(self, *given: Any, **named: Any) -> Future[Any]:
            raise RuntimeError("can't start new thread")

    async def scenario(database: Database) -> None:
        assert isinstance(database, LocalDatabase)
        before = await database.write(bump)
        database._disk, usual = NoThreads(), database._disk
        for _ in range(2):
            with pytest.raises(RuntimeError, match="new thread"):
                await asyncio.wait_for(database.write(bump), 5)
        database._disk = usual
        assert await asyncio.wait_for(database.write(bump), 5) == before + 1, "and nothing of those was kept"

    with_database(tmp_path, scenario)


def test_a_unit_that_runs_out_of_something_fails_alone(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        empty: list[int] = []
        outcomes = await asyncio.wait_for(
            asyncio.gather(database.write(lambda _: next(iter(empty))), database.write(bump), return_exceptions=True), 5
        )
        assert isinstance(outcomes[0], RuntimeError)
        assert isinstance(outcomes[1], int)

    with_database(tmp_path, scenario)


@of_sqlite
def test_the_settings_that_durability_needs_are_on(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        def pragmas(connection: Connection) -> list[object]:
            names = ("journal_mode", "synchronous", "foreign_keys")
            return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

        assert await database.write(pragmas) == ["wal", 2, 1]

    with_database(tmp_path, scenario)


def test_a_database_of_the_first_release_is_brought_up_to_date_with_all_it_holds(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        workload = control.train("t1")

    async def take_back() -> None:
        database = database_of(tmp_path)
        await database.open(lambda connection: downgrade(connection, "0001"))
        await database.close()

    asyncio.run(take_back())

    async def older(database: Database) -> None:
        assert not await database.read(lambda connection: inspect(connection).has_table("preferences"))

    with_database(tmp_path, older, lambda connection: None)
    with control_plane(tmp_path) as control:
        assert expect(control.call("GET", f"/api/v1/workloads/{workload['id']}"), 200) == workload
        assert expect(control.call("PUT", "/v1/k8s/setting/department.use", {"value": False}), 200)["value"] is False


def test_the_migrations_lead_to_the_tables_the_code_knows(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        def difference(connection: Connection) -> list[object]:
            return list(compare_metadata(MigrationContext.configure(connection), metadata))

        assert await database.write(difference) == []
        rows = await database.read(lambda connection: connection.execute(select(revision)).all())
        assert len(rows) == 1

    with_database(tmp_path, scenario)


# --- statements that are compiled ------------------------------------------------------------------------------

POD = {
    "id": "w-0-0",
    "workload": "w",
    "pod_index": 0,
    "incarnation": 0,
    "phase": "waiting",
    "document": "{}",
    "created_at": 1,
    "since": 1,
}


def test_every_compiled_statement_is_also_one_for_postgresql() -> None:
    names = ("access", "audit", "changes", "clusters", "holdings", "organization", "preferences", "workloads")
    modules = [import_module(f"fairpool.control.store.{name}") for name in names]
    found = [each for module in modules for each in vars(module).values() if isinstance(each, Compiled)]
    postgres: Any = postgresql.dialect
    texts = [str(each.statement.compile(dialect=postgres())) for each in found]
    assert len(texts) > 40
    assert not [text for text in texts if "?" in text]


def test_a_compiled_statement_does_as_the_usual_one(tmp_path: Path) -> None:
    one = select(pods).where(pods.c.id == bindparam("id"))
    change = Compiled(update(pods).where(pods.c.id == bindparam("of")))

    async def scenario(database: Database) -> None:
        def unit(connection: Connection) -> None:
            Compiled(insert(pods)).run_all(connection, [POD, {**POD, "id": "w-1-0", "pod_index": 1}])
            change.run(connection, {"of": "w-0-0", "phase": "running"})
            change.run(connection, {"of": "w-0-0", "since": 7, "id": "w-0-1"})  # other columns, another text
            change.run(connection, {"of": "absent", "phase": "ended"})
            usual = connection.execute(one, {"id": "w-0-1"}).one()
            found = Compiled(one).one(connection, {"id": "w-0-1"})
            assert tuple(found) == tuple(usual)
            assert (found.phase, found.since) == ("running", 7)
            assert Compiled(one).one(connection, {"id": "w-0-0"}) is None
            assert Compiled(select(pods.c.id).order_by(pods.c.id)).column(connection) == ["w-0-1", "w-1-0"]

        await database.write(unit)

    with_database(tmp_path, scenario)


def test_a_compiled_statement_knows_booleans(tmp_path: Path) -> None:
    row = {"id": "c", "name": "c", "domain": "", "version": "", "created_at": 1, "revision": 1}
    row |= {"report_number": 0, "events_through": 0, "needs_resync": True}

    async def scenario(database: Database) -> None:
        def unit(connection: Connection) -> None:
            Compiled(insert(clusters)).run(connection, row)
            assert Compiled(select(clusters)).one(connection).needs_resync is True

        await database.write(unit)

    with_database(tmp_path, scenario)


@pytest.mark.parametrize("count", [0, 1, 2, 8, 9, 64, 600, 1100])
def test_some_of_many_are_found_whatever_their_number(count: int, tmp_path: Path) -> None:
    some = CompiledIn(lambda ids: select(pods.c.id).where(pods.c.id.in_(ids)))

    async def scenario(database: Database) -> None:
        def unit(connection: Connection) -> None:
            ids = [f"w-{number:04d}-0" for number in range(1200)]
            Compiled(insert(pods)).run_all(connection, [{**POD, "id": each} for each in ids])
            found = [row.id for row in some.rows(connection, ["absent", *ids[:count]])]
            assert sorted(found) == ids[:count]

        await database.write(unit)

    with_database(tmp_path, scenario)


def test_a_compiled_statement_is_undone_with_its_unit(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        def unit(connection: Connection) -> None:
            Compiled(insert(pods)).run(connection, POD)
            raise LookupError

        with pytest.raises(LookupError):
            await database.write(unit)
        assert await database.read(Compiled(select(pods)).rows) == []

    with_database(tmp_path, scenario)


@of_sqlite
@pytest.mark.parametrize("order", [("created_at",), ("name",), ("phase", "created_at"), ("phase", "name")])
def test_pages_are_chosen_in_an_index(order: tuple[str, ...], tmp_path: Path) -> None:
    """Long rows are not gone through to find out which of them are wanted, nor sorted."""
    *equal, by = (workloads.c[name] for name in order)
    query = select(workloads.c.report).where(workloads.c.deleted_at.is_(None), *(each == "x" for each in equal))
    text = str(query.order_by(by, workloads.c.id).compile(compile_kwargs={"literal_binds": True}))

    async def scenario(database: Database) -> None:
        def plan(connection: Connection) -> str:
            return " ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}"))

        steps = await database.read(plan)
        assert f"ix_workloads_existing_{'_'.join(order)}" in steps
        assert "TEMP B-TREE" not in steps

    with_database(tmp_path, scenario)


def test_partial_indexes_are_partial_in_postgresql_too() -> None:
    partial = [each for each in workloads.indexes if each.dialect_options["sqlite"]["where"] is not None]
    postgres: Any = postgresql.dialect
    assert len(partial) == 7
    for index in partial:
        where = str(index.dialect_options["sqlite"]["where"])
        assert str(CreateIndex(index).compile(dialect=postgres())).endswith(f"WHERE {where}")


# --- reads in another thread ---


def test_a_read_apart_keeps_no_other_read_waiting_and_sees_what_was_written(tmp_path: Path) -> None:
    async def scenario(database: Database) -> None:
        begun, go_on = threading.Event(), threading.Event()

        def long(connection: Connection) -> tuple[int, int, int]:
            before = changes.current(connection)
            begun.set()
            assert go_on.wait(60)
            return before, changes.current(connection), threading.get_ident()

        assert await database.write(bump) == 2
        reading = asyncio.ensure_future(database.read_apart(long))
        await asyncio.to_thread(begun.wait, 60)
        assert await database.write(bump) == 3
        assert await database.read(changes.current) == 3
        go_on.set()
        before, after, thread = await reading
        assert (before, after) == (2, 2)  # one moment, whatever is written meanwhile
        assert thread != threading.get_ident()
        assert await database.read_apart(changes.current) == 3

    with_database(tmp_path, scenario)


def test_what_a_read_apart_raises_reaches_its_caller_and_the_next_one_works(tmp_path: Path) -> None:
    def wrong(connection: Connection) -> int:
        changes.current(connection)
        raise LookupError("not there")

    async def scenario(database: Database) -> None:
        with pytest.raises(LookupError, match="not there"):
            await database.read_apart(wrong)
        assert await database.read_apart(changes.current) == 1

    with_database(tmp_path, scenario)


def test_a_closed_database_reads_nothing_apart(tmp_path: Path) -> None:
    async def scenario() -> None:
        database = database_of(tmp_path)
        await database.open(upgrade)
        await database.close()
        with pytest.raises(Closed):
            await database.read_apart(changes.current)

    asyncio.run(scenario())

"""PostgreSQL as the database: what its failures mean, two writers at once, commits whose answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from sqlalchemy import Connection, insert, select, text

from fairpool.control.store import changes, postgresql, postgresql_database, postgresql_writer
from fairpool.control.store.migrations import downgrade, known_versions, upgrade
from fairpool.control.store.postgresql import described
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.postgresql_errors import code_of
from fairpool.control.store.tables import users
from fairpool.control.store.unavailable import UNSURE, Unavailable
from fairpool.control.store.unfit import Unfit
from fairpool.model.ids import Instant
from tests.postgresql import HASTY, PostgresServer, databases
from tests.two_programs import Relay

pytestmark = pytest.mark.slow


def bump(connection: Connection) -> int:
    return changes.record(connection, "test", "x", "changed", Instant(0))


def with_databases(url: str, scenario: Callable[..., Awaitable[None]], count: int = 1) -> None:
    async def run() -> None:
        opened = [PostgresDatabase(url) for _ in range(count)]
        await asyncio.gather(*(each.open(upgrade) for each in opened))
        try:
            await scenario(*opened)
        finally:
            for each in opened:
                await each.close()

    asyncio.run(run())


@pytest.fixture
def url(tmp_path: Path) -> str:
    return databases().url(tmp_path)


def problem_at(url: str) -> Unavailable:
    async def run() -> Unavailable:
        database = PostgresDatabase(url)
        with pytest.raises(Unavailable) as found:
            await database.open(upgrade)
        await database.close()
        return found.value

    return asyncio.run(run())


# --- two processes ---


def test_revisions_of_two_writers_are_seen_in_the_order_of_their_numbers(url: str) -> None:
    async def scenario(one: PostgresDatabase, other: PostgresDatabase) -> None:
        writing = [database.write(bump) for _ in range(60) for database in (one, other)]
        seen: list[int] = []

        async def watch() -> None:
            while len(seen) < 120:
                found = await one.read(lambda connection: changes.after(connection, 1 + len(seen)))
                seen.extend(each.revision for each in found)

        numbers = (await asyncio.gather(watch(), *writing))[1:]
        assert sorted(map(int, filter(None, numbers))) == list(range(2, 122))
        assert seen == list(range(2, 122)), "none became visible after a later one"

    with_databases(url, scenario, 2)


def test_two_processes_that_start_at_once_make_the_tables_once() -> None:
    server = databases().server
    server.ask("DROP DATABASE IF EXISTS two_at_once")
    server.ask("CREATE DATABASE two_at_once")

    async def scenario(*opened: PostgresDatabase) -> None:
        assert [await each.write(bump) for each in opened] == [2, 3, 4]

    with_databases(server.url("two_at_once"), scenario, 3)


def test_tables_are_not_changed_under_a_process_of_an_older_version(made: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = known_versions()[-2]
    server = databases().server

    async def scenario(*older: PostgresDatabase) -> None:
        stepping_back = PostgresDatabase(made)
        await stepping_back.open(lambda connection: downgrade(connection, before))
        await stepping_back.close()
        monkeypatch.setattr(postgresql_database, "OLDER_WAIT_S", 0.3)
        newer = [PostgresDatabase(made) for _ in range(2)]
        refusals = await asyncio.gather(*(each.open(upgrade) for each in newer), return_exceptions=True)
        assert [getattr(each, "code", each) for each in refusals] == ["database.older_in_use"] * 2
        assert before in str(refusals[0])
        assert server.ask("SELECT version_num FROM alembic_version", "odd") == before
        monkeypatch.setattr(postgresql_database, "OLDER_WAIT_S", 30.0)
        newer = [PostgresDatabase(made) for _ in range(2)]
        opening = asyncio.gather(*(each.open(upgrade) for each in newer))
        await asyncio.sleep(0.1)
        assert not opening.done()
        for each in older:
            await each.close()
        await opening
        assert server.ask("SELECT version_num FROM alembic_version", "odd") == known_versions()[-1]
        for each in newer:
            await each.close()

    with_databases(made, scenario, 2)


def test_a_writer_that_waits_too_long_for_another_is_told_so(url: str) -> None:
    async def scenario(other: PostgresDatabase) -> None:
        impatient = PostgresDatabase(url, busy_s=0.2)
        await impatient.open(upgrade)
        holder = await asyncpg.connect(url)
        await holder.execute("BEGIN; SELECT 1 FROM revision FOR UPDATE")
        with pytest.raises(Unavailable) as found:
            await impatient.write(bump)
        assert found.value.code == "database.busy"
        waiting = asyncio.ensure_future(other.write(bump))
        assert await impatient.read(changes.current) == 1, "those who read do not wait"
        await holder.close()
        assert await waiting == 2
        assert await impatient.write(bump) == 3
        await impatient.close()

    with_databases(url, scenario)


# --- connections that break ---


async def _break_others(url: str) -> None:
    connection = await asyncpg.connect(url)
    mine = "pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    await connection.execute(f"SELECT pg_terminate_backend(pid) FROM {mine}")
    while await connection.fetchval(f"SELECT count(*) FROM {mine}"):
        await asyncio.sleep(0.01)
    await connection.close()


def test_connections_that_broke_while_they_were_idle_are_replaced_without_a_word(url: str) -> None:
    async def scenario(database: PostgresDatabase) -> None:
        await database.write(bump)
        assert await database.read(changes.current) == await database.read_apart(changes.current) == 2
        await _break_others(url)
        assert await database.read(changes.current) == await database.read_apart(changes.current) == 2
        assert await database.write(bump) == 3

    with_databases(url, scenario)


def test_a_server_that_stops_is_named_and_found_again() -> None:
    server = PostgresServer(HASTY)
    server.start()
    try:

        async def scenario(database: PostgresDatabase) -> None:
            await database.write(bump)
            await asyncio.to_thread(server.stop)
            for call in (database.write(bump), database.read(bump), database.read_apart(bump)):
                with pytest.raises(Unavailable) as found:
                    await call
                assert found.value.code == "database.unreachable"
                assert found.value.status == 503
            problem = await database.problem()
            assert problem is not None
            assert problem.code == "database.unreachable"
            await asyncio.to_thread(server.start)
            assert await database.write(bump) == 3
            assert await database.problem() is None
            assert await database.read(changes.current) == 3

        with_databases(server.url(), scenario)
    finally:
        server.close()


class LostAnswer:
    """A connection that breaks after, or before, the server has heard of the commit."""

    def __init__(self, raw: Any, *, heard: bool) -> None:
        self._raw, self._heard = raw, heard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    async def execute(self, statement: str, **options: Any) -> Any:
        if "COMMIT" not in statement:
            return await self._raw.execute(statement, **options)
        if self._heard:
            await self._raw.execute(statement, **options)
        self._raw.terminate()
        raise ConnectionResetError("the network is gone")


@pytest.mark.parametrize("heard", [True, False], ids=["heard", "not heard"])
def test_what_became_of_a_commit_without_an_answer_is_looked_up(url: str, heard: bool) -> None:
    async def scenario(database: PostgresDatabase) -> None:
        assert database._side is not None
        writer = database._side.writer
        await database.write(bump)
        assert writer._link is not None
        writer._link.raw = LostAnswer(writer._link.raw, heard=heard)
        if heard:
            assert await database.write(bump) == 3
        else:
            with pytest.raises(Unavailable) as found:
                await database.write(bump)
            assert found.value.code == "database.unreachable"
        assert await database.write(bump) == 3 + heard

    with_databases(url, scenario)


def test_after_another_server_took_over_a_commit_without_an_answer_is_not_known(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(database: PostgresDatabase) -> None:
        assert database._side is not None
        writer = database._side.writer
        await database.write(bump)
        assert writer._link is not None
        writer._link.raw = LostAnswer(writer._link.raw, heard=True)
        monkeypatch.setattr(
            "fairpool.control.store.postgresql_writer._MARK", "SELECT txid_current(), 'another timeline'"
        )
        undone = database.undone
        with pytest.raises(Unavailable) as found:
            await database.write(bump)
        assert found.value.code == UNSURE
        assert database.undone > undone, "what was cached is not believed any more"

    with_databases(url, scenario)


def test_a_unit_whose_connection_is_cut_is_not_half_saved(url: str) -> None:
    def cut(connection: Connection) -> None:
        bump(connection)
        connection.execute(text("SELECT pg_terminate_backend(pg_backend_pid())"))

    async def scenario(database: PostgresDatabase) -> None:
        outcomes = await asyncio.gather(database.write(bump), database.write(cut), return_exceptions=True)
        assert isinstance(outcomes[1], Unavailable)
        kept = 1 if isinstance(outcomes[0], Unavailable) else 2
        assert await database.read(changes.current) == kept

    with_databases(url, scenario)


def test_a_reader_that_is_cancelled_leaves_no_transaction_behind(url: str) -> None:
    async def scenario(database: PostgresDatabase) -> None:
        sleeping = asyncio.ensure_future(
            database.read(lambda connection: connection.execute(text("SELECT pg_sleep(3600)")).scalar())
        )
        state = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%pg_sleep(3%'"
        asking = await asyncpg.connect(url)
        while await asking.fetchval(f"{state} AND state = 'active' AND pid <> pg_backend_pid()") == 0:
            await asyncio.sleep(0.01)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
        assert await database.read(changes.current) == 1
        while await asking.fetchval(f"{state} AND state LIKE 'idle in%'"):
            await asyncio.sleep(0.01)
        await asking.close()

    with_databases(url, scenario)


# --- refusals ---


def test_refusals_have_a_name() -> None:
    server = databases().server
    assert problem_at(server.url("not_there")).code == "database.refused"
    nowhere = "postgresql://fairpool:open-sesame@127.0.0.1:1/fairpool"
    problem = problem_at(nowhere)
    assert problem.code == "database.unreachable"
    assert "open-sesame" not in str(problem)
    assert problem_at(server.url().replace("fairpool@", "unknown:open-sesame@")).code == "database.refused"


@pytest.fixture
def made() -> Iterator[str]:
    server = databases().server
    server.ask("DROP DATABASE IF EXISTS odd")
    server.ask("CREATE DATABASE odd")
    yield server.url("odd")
    server.ask("DROP DATABASE odd WITH (FORCE)")


def test_tables_of_another_program_are_not_touched(made: str) -> None:
    databases().server.ask("CREATE TABLE accounts (id INTEGER)", "odd")
    assert problem_at(made).code == "database.foreign"
    assert databases().server.ask("SELECT to_regclass('alembic_version')::text", "odd") is None


def test_tables_of_a_newer_release_are_not_touched(made: str) -> None:
    server = databases().server
    server.ask("CREATE TABLE alembic_version (version_num VARCHAR(32))", "odd")
    server.ask("INSERT INTO alembic_version VALUES ('9999')", "odd")
    problem = problem_at(made)
    assert problem.code == "database.newer"
    assert "9999" in str(problem)


def test_a_server_that_takes_no_changes_is_refused(made: str) -> None:
    databases().server.ask("ALTER DATABASE odd SET default_transaction_read_only = on", "postgres")
    assert problem_at(made).code == "database.standby"


def test_the_tables_can_be_taken_back_to_the_first_version_and_forth(made: str) -> None:
    async def scenario() -> None:
        for prepare in (upgrade, lambda connection: downgrade(connection, "0001"), upgrade):
            database = PostgresDatabase(made)
            await database.open(prepare)
            await database.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (asyncpg.DiskFullError("no space"), "disk.full"),
        (asyncpg.TooManyConnectionsError("sorry"), "database.connections"),
        (asyncpg.InvalidPasswordError("no"), "database.refused"),
        (asyncpg.ReadOnlySQLTransactionError("no"), "database.standby"),
        (asyncpg.CannotConnectNowError("starting"), "database.unreachable"),
        (asyncpg.LockNotAvailableError("lock"), "database.busy"),
        (asyncpg.InterfaceError("connection is closed"), "database.unreachable"),
        (TimeoutError(), "database.unreachable"),
        (ConnectionRefusedError(), "database.unreachable"),
        (asyncpg.UniqueViolationError("twice"), None),
        (LookupError(), None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_each_error_is_one_problem(error: Exception, code: str | None) -> None:
    assert code_of(error) == code


def test_a_value_without_room_is_told_from_a_bug(url: str) -> None:
    row = {"id": "u", "email": "x" * 300, "password_hash": "", "must_change": False, "first_password": False}

    async def scenario(database: PostgresDatabase) -> None:
        with pytest.raises(Unfit):
            await database.write(lambda connection: connection.execute(insert(users).values(created_at=1, **row)))
        with pytest.raises(Unfit):
            await database.read(lambda connection: connection.execute(select(users).where(users.c.id == "\0")).all())

    with_databases(url, scenario)


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("postgresql://u:secret@h:1/d", "postgresql://u@h:1/d"),
        ("postgresql://u@h1:1,h2:2/d?sslmode=require", "postgresql://u@h1:1,h2:2/d?sslmode=require"),
        (
            "postgresql://h/d?user=u&password=secret&sslmode=require",
            "postgresql://h/d?user=u&password=***&sslmode=require",
        ),
    ],
)
def test_passwords_are_not_shown(location: str, shown: str) -> None:
    assert described(location) == shown


def test_a_server_that_vanishes_is_given_up_soon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing answers and nothing ends, as on a dead cable: neither BEGIN nor ROLLBACK is waited for any longer."""
    monkeypatch.setattr(postgresql_writer, "ANSWER_S", 0.3)
    monkeypatch.setattr(postgresql, "CONNECT_S", 0.5)
    relay = Relay()
    url = databases().url(tmp_path)
    host, _, name = url.rpartition("/")
    relay.target = int(host.rpartition(":")[2])

    async def run() -> None:
        database = PostgresDatabase(f"postgresql://fairpool@127.0.0.1:{relay.port}/{name}", busy_s=0.3)
        await database.open(upgrade)
        await database.write(bump)
        relay.cut()
        async with asyncio.timeout(30):
            with pytest.raises(Unavailable):
                await database.write(bump)
        relay.mend()
        async with asyncio.timeout(30):
            while True:
                with suppress(Unavailable):
                    await database.write(bump)
                    break
        await database.close()

    try:
        asyncio.run(run())
    finally:
        relay.close()

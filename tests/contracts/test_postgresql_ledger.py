"""The ledger on a PostgreSQL server: another replica reads what the last one wrote, and only one writes.

What every ledger does is in `tests/specification/test_ledger.py`, which runs on both stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from fairpool.cluster import ledger_rows
from fairpool.cluster.ledger import LeaseLost, Ledger, LedgerEntry, LedgerProblem, LedgerUnavailable, LedgerUncertain
from fairpool.cluster.ledger_postgresql import PostgresLedger, described, schema_name
from fairpool.cluster.ledger_schema import VERSION
from fairpool.model.ids import Instant, Revision
from tests.ledgers import new_cluster, postgresql_place
from tests.postgresql import HASTY, PostgresServer, databases, free_port
from tests.specification.test_ledger import FULL_ENTRY, NOON, event, record

SECOND = Instant(NOON + 1000)


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    """One that can be stopped."""
    server = PostgresServer(HASTY)
    try:
        server.start()
        yield server
    finally:
        server.close()


def test_another_replica_finds_what_the_last_one_wrote_and_shuts_it_out() -> None:
    cluster = new_cluster()
    with closing(Ledger(postgresql_place(cluster))) as one, closing(Ledger(postgresql_place(cluster))) as other:
        first = one.acquire("cluster", NOON)
        one.record(FULL_ENTRY, first, NOON)
        second = other.acquire("cluster", SECOND)  # the same holder: who leads is decided elsewhere
        assert second > first
        assert other.load() == one.load()
        assert other.load().pods == FULL_ENTRY.pods
        assert other.events(0, 10) == [(1, event()), (2, FULL_ENTRY.events[1])]
        with pytest.raises(LeaseLost):
            one.record(LedgerEntry(pods=(record("late"),)), first, SECOND)
        other.record(LedgerEntry(cursor=Revision(42)), second, SECOND)
        assert one.load().cursor == 42


def test_clusters_in_one_database_do_not_see_each_other() -> None:
    here, there = new_cluster(), new_cluster()
    with closing(Ledger(postgresql_place(here))) as one, closing(Ledger(postgresql_place(there))) as other:
        one.record(FULL_ENTRY, one.acquire("cluster", NOON), NOON)
        assert other.is_new()
        assert other.load().pods == ()


def test_the_tables_have_a_column_for_every_field() -> None:
    cluster = new_cluster()
    with closing(Ledger(postgresql_place(cluster))) as ledger:
        ledger.store.begin_reading()
        for table in (ledger_rows.SPECS, ledger_rows.PODS, ledger_rows.STATES, ledger_rows.EVENTS):
            query = "SELECT column_name FROM information_schema.columns WHERE table_schema = ? AND table_name = ?"
            columns = {name for (name,) in ledger.store.rows(query, schema_name(cluster), table.name)}
            assert columns - {"number"} == set(table.columns), f"{table.name}: add a migration that both understand"


def test_a_newer_ledger_is_refused_also_when_it_was_migrated_beneath_us() -> None:
    cluster = new_cluster()
    with closing(Ledger(postgresql_place(cluster))) as ledger:
        token = ledger.acquire("cluster", NOON)
        newer = f"UPDATE {schema_name(cluster)}.ledger_version SET version = {VERSION + 1} RETURNING version"
        assert databases().server.ask(newer) == VERSION + 1
        with pytest.raises(LedgerProblem, match="written by a newer Fairpool"):
            ledger.record(FULL_ENTRY, token, NOON)
    with pytest.raises(LedgerProblem, match="run the newer Fairpool"):
        postgresql_place(cluster)


def test_a_server_that_restarts_takes_nothing_and_is_used_again(server: PostgresServer) -> None:
    with closing(Ledger(PostgresLedger(server.url(), "east"))) as ledger:
        token = ledger.acquire("cluster", NOON)
        ledger.record(FULL_ENTRY, token, NOON)
        server.stop()
        with pytest.raises(LedgerUnavailable, match="does not answer"):
            ledger.record(LedgerEntry(cursor=Revision(42)), token, SECOND)
        with pytest.raises(LedgerUnavailable):
            ledger.load()
        server.start()
        assert ledger.load().cursor == FULL_ENTRY.cursor
        ledger.record(LedgerEntry(cursor=Revision(42)), token, SECOND)
        assert ledger.load().cursor == 42


def test_a_connection_that_breaks_while_it_is_idle_is_replaced(server: PostgresServer) -> None:
    with closing(Ledger(PostgresLedger(server.url(), "east"))) as ledger:
        token = ledger.acquire("cluster", NOON)
        server.stop()
        server.start()
        ledger.record(FULL_ENTRY, token, NOON)
        assert ledger.load().cursor == FULL_ENTRY.cursor


def test_a_connection_that_breaks_in_a_commit_leaves_it_open_what_was_recorded(server: PostgresServer) -> None:
    def stop(step: str) -> None:
        if step == "before commit" and is_to_stop:
            server.stop()

    is_to_stop = False
    with closing(Ledger(PostgresLedger(server.url(), "east"), on_step=stop)) as ledger:
        token = ledger.acquire("cluster", NOON)
        is_to_stop = True
        with pytest.raises(LedgerUncertain, match="did not answer whether an entry was recorded"):
            ledger.record(FULL_ENTRY, token, NOON)
        is_to_stop = False
        server.start()
        assert ledger.load().pods == ()
        again = ledger.acquire("cluster", SECOND)
        ledger.record(FULL_ENTRY, again, SECOND)


def test_a_process_that_hangs_in_a_transaction_is_waited_for_and_not_for_ever() -> None:
    cluster = new_cluster()
    hasty = PostgresLedger(databases().server.url(), cluster, busy_s=0.2)
    with closing(Ledger(postgresql_place(cluster))) as one, closing(Ledger(hasty)) as other:
        token = other.acquire("cluster", NOON)
        one.store.begin()
        with pytest.raises(LedgerUnavailable, match="another process is using"):
            other.record(FULL_ENTRY, token, NOON)
        one.store.roll_back()
        other.record(FULL_ENTRY, token, NOON)


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("postgresql://fairpool@127.0.0.1:{port}/nothing", "does not answer"),
        ("{server}nothing", "cannot be used"),
    ],
)
def test_what_cannot_be_reached_is_named(location: str, says: str) -> None:
    where = location.format(port=free_port(), server=databases().server.url(""))
    with pytest.raises(LedgerUnavailable, match=says):
        PostgresLedger(where, "east")


def test_no_message_shows_a_password() -> None:
    shown = described("postgresql://user:pass@word@db/ledger?sslpassword=secret&sslmode=require")
    assert shown == "postgresql://user@db/ledger?sslpassword=***&sslmode=require"

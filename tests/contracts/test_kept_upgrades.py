"""Databases that earlier versions left behind become the same on SQLite and on PostgreSQL, and there is no way back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Boolean, Connection, MetaData, delete, insert

from fairpool.control.store.migrations import upgrade
from fairpool.control.store.postgresql_database import PostgresDatabase
from fairpool.control.store.unavailable import NEWER, Unavailable
from fairpool.platform.database_place import DatabasePlace
from fairpool.platform.database_work import differences, examine, migrate
from tests.control.control_plane import control_plane, expect
from tests.control.kept import DATA, keep_database
from tests.postgresql import databases, of_both

pytestmark = [pytest.mark.slow, of_both]

VERSIONS = sorted(path.stem.removeprefix("control-") for path in DATA.glob("control-*.sql"))


@pytest.fixture
def url() -> Iterator[str]:
    server = databases().server
    server.ask("DROP DATABASE IF EXISTS kept")
    server.ask("CREATE DATABASE kept")
    yield server.url("kept")
    server.ask("DROP DATABASE kept WITH (FORCE)")


def test_the_first_version_is_among_those_that_are_kept() -> None:
    assert VERSIONS[0] == "0001"


@pytest.mark.parametrize("version", VERSIONS)
def test_both_systems_make_the_same_of_a_kept_database(
    tmp_path: Path, url: str, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_database(tmp_path, version)
    keep_on_server(tmp_path / "control.sqlite", url, version)
    before = counts(tmp_path / "control.sqlite")
    file, server = DatabasePlace(file=tmp_path / "control.sqlite"), DatabasePlace(url)
    with monkeypatch.context() as patch:
        patch.setattr(time, "time_ns", lambda: 1_800_000_000 * 10**9)  # steps write when they were carried out
        assert migrate(file).found == migrate(server).found == version
    one, other = examine(file), examine(server)
    assert (one.findings, other.findings) == ([], [])
    assert differences(one, other) == []
    after = {each.table: each.rows for each in one.tables}
    for table in ("users", "projects", "departments", "clusters", "tokens", "audit", "access_rules"):
        assert after[table] == before[table], f"{table}: nothing is lost"
    with closing(sqlite3.connect(file.file)) as database, database:
        database.execute(
            "UPDATE users SET must_change = 0, first_password = 0"
        )  # the first version asked for another password
    with control_plane(tmp_path) as control:
        listed = expect(control.call("GET", "/api/v1/workloads"), 200)["workloads"]
        assert "first" in {each["name"] for each in listed}
        control.project("after-the-upgrade")
        control.train("more", "after-the-upgrade")


def keep_on_server(file: Path, url: str, version: str) -> None:
    """The rows of a kept file, in tables of the same version on a server."""

    def fill(connection: Connection) -> None:
        there = MetaData()
        there.reflect(connection)
        with closing(sqlite3.connect(file)) as kept:
            kept.row_factory = sqlite3.Row
            for table in there.sorted_tables:
                connection.execute(delete(table))
                booleans = {column.name for column in table.columns if isinstance(column.type, Boolean)}
                rows = [_row(row, booleans) for row in kept.execute(f'SELECT * FROM "{table.name}"')]
                if rows:
                    connection.execute(insert(table), rows)

    def prepare(connection: Connection) -> None:
        upgrade(connection, version)
        fill(connection)
        connection.commit()

    database = PostgresDatabase(url)
    database.open_now(prepare)
    database.close_now()


def _row(row: sqlite3.Row, booleans: set[str]) -> dict[str, Any]:
    return {name: bool(row[name]) if name in booleans else row[name] for name in row.keys()}  # noqa: SIM118  # of a Row


def counts(file: Path) -> dict[str, int]:
    with closing(sqlite3.connect(file)) as database:
        names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in names}


def test_a_control_plane_refuses_tables_of_a_newer_version_on_both_systems(tmp_path: Path, url: str) -> None:
    for place in (DatabasePlace(file=tmp_path / "control.sqlite"), DatabasePlace(url)):
        database = place.opened()
        database.open_now(upgrade)
        database.close_now()
    with closing(sqlite3.connect(tmp_path / "control.sqlite")) as file, file:
        file.execute("UPDATE alembic_version SET version_num = '9999'")
    databases().server.ask("UPDATE alembic_version SET version_num = '9999'", "kept")
    for place in (DatabasePlace(file=tmp_path / "control.sqlite"), DatabasePlace(url)):
        with pytest.raises(Unavailable) as refused:
            place.opened().open_now(upgrade)
        assert refused.value.code == NEWER
        assert "use the newer Fairpool, or restore a backup made before the upgrade" in refused.value.problem.fix

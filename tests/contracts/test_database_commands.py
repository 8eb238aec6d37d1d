"""`fairpool database`: a database is brought up to date, checked, compared, and copied from one system to the other."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fairpool.cli.failure import BUSY, DAMAGED, ERROR, FOREIGN, NEWER, UNUSABLE
from fairpool.cli.main import main
from fairpool.control.store import database_copy
from fairpool.control.store.condition import LEAP, copy_database
from fairpool.control.store.migrations import known_versions
from fairpool.control.store.postgresql import connect
from fairpool.platform.data_directory import CONTROL, DataDirectory
from fairpool.platform.directory_lock import locked
from tests.control.control_plane import control_plane, expect
from tests.control.kept import VERSION, keep_database
from tests.postgresql import Databases, databases, of_both

pytestmark = [pytest.mark.slow, of_both]

FILE = "control.sqlite"


def typed(*words: object, code: int = 0) -> Result:
    done = CliRunner().invoke(main, ["database", *map(str, words)], prog_name="fairpool", env={"FAIRPOOL_DATABASE": ""})
    assert done.exit_code == code, done.output
    return done


def rows_in(place: object) -> dict[str, tuple[int, str]]:
    found = json.loads(typed("check", "--json", place).stdout)
    assert found["findings"] == []
    return {each["name"]: (each["rows"], each["checksum"]) for each in found["tables"]}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory with everything that an earlier version had, brought up to date by the command."""
    folder = tmp_path_factory.mktemp("kept")
    keep_database(folder)
    planned = typed("migrate", "--plan", "--data", folder).stdout
    steps = len(known_versions()) - known_versions().index(VERSION) - 1
    assert f"version {VERSION}; {steps} steps would be" in planned
    assert "0008  Workloads as columns" in planned
    assert f"version {VERSION}" in typed("check", "--data", folder, code=ERROR).stderr, "nothing was changed"
    done = typed("migrate", "--data", folder).stdout
    assert f"to version {known_versions()[-1]}" in done
    assert (folder / f"{FILE}.{VERSION}-backup").exists()
    assert "is up to date" in typed("migrate", "--data", folder).stdout
    return folder


@pytest.fixture
def url() -> Iterator[str]:
    """A database on a server with empty tables."""
    yield from _made(f"TEMPLATE {Databases.TEMPLATE}")


@pytest.fixture
def without_tables() -> Iterator[str]:
    yield from _made()


def _made(how: str = "") -> Iterator[str]:
    server = databases().server
    server.ask("DROP DATABASE IF EXISTS copied")
    server.ask(f"CREATE DATABASE copied {how}")
    yield server.url("copied")
    server.ask("DROP DATABASE copied WITH (FORCE)")


# --- copy ---


def test_a_copy_to_postgresql_and_back_holds_the_same_rows(kept: Path, tmp_path: Path, url: str) -> None:
    said = typed("copy", kept, url)
    assert "rows and checksums of all" in said.stdout
    assert f"move {kept / FILE} elsewhere" in said.stderr
    assert rows_in(url) == rows_in(kept)
    typed("copy", url, tmp_path / "back.sqlite")
    assert rows_in(tmp_path / "back.sqlite") == rows_in(kept)
    assert "holds the same rows" in typed("check", kept, "--against", tmp_path / "back.sqlite").stdout
    assert (tmp_path / "back.sqlite").stat().st_mode & 0o077 == 0


def test_a_control_plane_works_on_with_what_was_copied(kept: Path, tmp_path: Path, url: str) -> None:
    typed("copy", kept, url)
    typed("copy", url, tmp_path / FILE)
    with control_plane(tmp_path) as control:
        names = {each["name"] for each in expect(control.call("GET", "/api/v1/workloads"), 200)["workloads"]}
        assert "first" in names
        control.project("after-the-copy")
    last = "SELECT setval(pg_get_serial_sequence('audit', 'id'), nextval(pg_get_serial_sequence('audit', 'id')))"
    assert databases().server.ask(last, "copied") == rows_in(url)["audit"][0] + 1, "no number is given out twice"


def test_a_target_with_rows_is_refused_unless_told(kept: Path, url: str) -> None:
    typed("copy", kept, url)
    databases().server.ask("UPDATE users SET email = 'ann@example.com'", "copied")
    assert "is not empty" in typed("copy", kept, url, code=ERROR).stderr
    differing = typed("check", kept, "--against", url, code=ERROR)
    assert "users: 1 rows in both, and their checksums differ" in differing.stderr
    typed("copy", "--overwrite", kept, url)
    assert rows_in(url) == rows_in(kept)


def test_a_target_of_an_older_version_is_refused_and_stays_so(kept: Path, tmp_path: Path) -> None:
    keep_database(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    assert f"version {VERSION}" in typed("copy", "--overwrite", kept, tmp_path / FILE, code=ERROR).stderr
    assert (tmp_path / FILE).read_bytes() == before


def test_a_control_plane_that_connects_during_a_copy_prevents_it(
    kept: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it wrote would not be in the copy."""
    typed("copy", kept, url)
    connected = iter((0, 1))
    monkeypatch.setattr("fairpool.control.store.read_only.PostgresReader.users", lambda _: next(connected))
    refused = typed("copy", url, tmp_path / "x.sqlite", code=BUSY)
    assert "there is 1 connection of control planes" in refused.stderr
    assert not (tmp_path / "x.sqlite").exists()


def test_a_copy_that_is_cut_off_changes_nothing(
    kept: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fairpool.control.store.table_contents.ROWS", 2)

    def cut(table: str, rows: int) -> None:
        if table == "workloads" and rows >= 4:
            raise RuntimeError("cut off")

    monkeypatch.setattr("fairpool.cli.database.RowProgress.__call__", lambda _, table, rows: cut(table, rows))
    for target in (url, tmp_path / "new.sqlite"):
        assert CliRunner().invoke(main, ["database", "copy", str(kept), str(target)]).exit_code != 0
    monkeypatch.undo()
    assert databases().server.ask("SELECT count(*) FROM departments", "copied") == 0
    assert not (tmp_path / "new.sqlite").exists()
    typed("copy", kept, url)


def test_a_row_that_the_target_does_not_keep_is_noticed(kept: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    as_it_is = database_copy._insert

    def bent(connection: object, batch: database_copy._Batch) -> None:
        rows = [("changed", *row[1:]) if batch.table.name == "departments" else row for row in batch.rows[:1]]
        as_it_is(connection, database_copy._Batch(batch.table, [*rows, *batch.rows[1:]]))  # type: ignore[arg-type]

    monkeypatch.setattr(database_copy, "_insert", bent)
    assert "departments has 2 rows of 2" in typed("copy", kept, url, code=ERROR).stderr
    assert databases().server.ask("SELECT count(*) FROM departments", "copied") == 0


def test_a_value_that_has_no_room_is_named_by_its_table(kept: Path, tmp_path: Path, url: str) -> None:
    copy_database(kept / FILE, tmp_path / "long.sqlite")
    with closing(sqlite3.connect(tmp_path / "long.sqlite")) as database, database:
        database.execute("UPDATE users SET email = ?", ("x" * 300,))
    assert "a row of users does not fit" in typed("copy", tmp_path / "long.sqlite", url, code=ERROR).stderr


def test_a_copy_of_what_goes_on_being_used_gets_new_revisions(kept: Path, tmp_path: Path, url: str) -> None:
    folder = tmp_path / "used"
    shutil.copytree(kept, folder)
    (folder / "program").write_text("control\n")
    with locked(DataDirectory(folder), CONTROL):
        assert "--online" in typed("copy", folder, url, code=BUSY).stderr
        typed("copy", "--online", folder, url)
        assert "already running" in typed("copy", "--overwrite", url, folder, code=BUSY).stderr
    assert databases().server.ask("SELECT value FROM revision", "copied") > LEAP
    assert databases().server.ask("SELECT min(revision) FROM workloads", "copied") > LEAP
    assert databases().server.ask("SELECT count(*) FROM changes", "copied") == 0
    differing = typed("check", folder, "--against", url, code=ERROR).stderr
    assert {line.partition(":")[0] for line in differing.splitlines()} >= {"changes", "revision", "workloads"}


def test_a_database_that_control_planes_use_is_not_written_to(kept: Path, url: str) -> None:
    typed("copy", kept, url)

    async def used() -> None:
        connection = await connect(url)
        try:
            for words in (("copy", "--overwrite", kept, url), ("renumber", url), ("copy", url, kept.parent / "x")):
                refused = await asyncio.to_thread(typed, *words, code=BUSY)
                assert "there is 1 connection of control planes" in refused.stderr
            assert "No problems found" in (await asyncio.to_thread(typed, "check", url)).stdout
        finally:
            await connection.close()

    asyncio.run(used())
    before = databases().server.ask("SELECT value FROM revision", "copied")
    assert "revisions go on from" in typed("renumber", url).stdout
    assert databases().server.ask("SELECT value FROM revision", "copied") >= before + LEAP


# --- check ---


@pytest.fixture(scope="module")
def audited(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with entries in the chain of the audit log."""
    folder = tmp_path_factory.mktemp("audited")
    copy_database(kept / FILE, folder / FILE)
    with control_plane(folder) as control:
        control.project("one-more")
    assert rows_in(folder)["audit"][0] > rows_in(kept)["audit"][0] + 1
    return folder / FILE


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE audit SET subject = 'eve' WHERE id = 21", "audit entry 21 was changed after it was written"),
        ("DELETE FROM audit WHERE id = 22", "audit entry 22 is missing"),
        ("UPDATE pods SET workload = 'nowhere' WHERE id IN (SELECT min(id) FROM pods)", "pods.workload refers to what"),
        ("UPDATE pods SET workload = '' WHERE id IN (SELECT min(id) FROM pods)", "''"),
        ("DELETE FROM departments WHERE name = 'default'", "projects.department refers to what is not in departments"),
        ("UPDATE revision SET value = 1", "the revisions are out of order: oldest 0"),
        ("UPDATE revision SET value = 2, declared = 2", "has revision"),
        ("UPDATE counters SET value = 0", "access_rules has number 1, and the last one that was given out is 0"),
        ("DELETE FROM revision", "revision must have one row, and has 0"),
    ],
)
def test_rows_that_do_not_agree_are_found(audited: Path, tmp_path: Path, statement: str, words: str) -> None:
    copy_database(audited, tmp_path / FILE)
    with closing(sqlite3.connect(tmp_path / FILE)) as database, database:
        database.execute(statement)
    assert words in typed("check", tmp_path, code=DAMAGED).stderr


# --- refusals ---


def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, without_tables: str) -> None:
    assert "there is no control database" in typed("check", tmp_path / "none.sqlite", code=ERROR).stderr
    assert "has no tables" in typed("check", without_tables, code=ERROR).stderr
    assert "no such file or directory" in typed("check", tmp_path / "no" / "x", code=ERROR).stderr
    assert "neither a PostgreSQL address nor a path" in typed("check", "mysql://x/y", code=UNUSABLE).stderr
    assert "DATABASE names no database" in typed("check", "postgresql://127.0.0.1", code=UNUSABLE).stderr
    secret = "postgresql://fairpool:open-sesame@127.0.0.1:1/fairpool"
    unreachable = typed("check", secret, code=ERROR)
    assert "warning: other users can read the password in DATABASE" in unreachable.stderr
    assert "open-sesame" not in unreachable.output
    with closing(sqlite3.connect(tmp_path / "foreign.sqlite")) as database, database:
        database.execute("CREATE TABLE notes (text)")
    assert "another program" in typed("check", tmp_path / "foreign.sqlite", code=FOREIGN).stderr
    databases().server.ask("CREATE TABLE notes (text TEXT)", "copied")
    assert "tables of another program" in typed("migrate", without_tables, code=FOREIGN).stderr


def test_a_database_of_a_newer_fairpool_is_refused_by_every_command(kept: Path, tmp_path: Path, url: str) -> None:
    newer = tmp_path / "newer.sqlite"
    copy_database(kept / FILE, newer)
    with closing(sqlite3.connect(newer)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    typed("copy", kept, url)
    databases().server.ask("UPDATE alembic_version SET version_num = '9999'", "copied")
    for place in (newer, url):
        for words in (("migrate", place), ("migrate", "--plan", place), ("check", place), ("renumber", place)):
            refused = typed(*words, code=NEWER).stderr
            assert "9999" in refused
            assert "use the newer Fairpool, or restore a backup" in refused
        typed("copy", place, tmp_path / "x.sqlite", code=NEWER)
        typed("copy", "--overwrite", kept, place, code=NEWER)


def test_an_empty_database_on_a_server_gets_its_tables(kept: Path, without_tables: str) -> None:
    assert "no tables; " in typed("migrate", without_tables).stdout
    assert "is up to date" in typed("migrate", without_tables).stdout
    assert rows_in(without_tables)["users"][0] == 0
    typed("copy", kept, without_tables)

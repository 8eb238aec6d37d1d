"""A database that version 0007 left behind: after the upgrade, the API answers as that version did."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DatabaseError

from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.sqlite import Sqlite, driver_of
from tests.control.control_plane import ControlPlane, control_plane, expect, gone
from tests.control.kept import as_far_as, in_todays_words, keep_database, kept_answers
from tests.postgresql import of_sqlite

pytestmark = [pytest.mark.slow, of_sqlite]

ANSWERS = kept_answers()
CHANGES_OF_TABLES = (sqlite3.SQLITE_CREATE_TABLE, sqlite3.SQLITE_ALTER_TABLE, sqlite3.SQLITE_CREATE_INDEX)


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlPlane]:
    keep_database(tmp_path)
    with control_plane(tmp_path, pod_host="127.0.0.1") as control:
        yield control


@pytest.mark.parametrize("path", [path for path in ANSWERS if path.startswith("/")])
def test_answers_are_those_of_the_version_that_wrote_it(control: ControlPlane, path: str) -> None:
    older = in_todays_words(ANSWERS[path])
    assert as_far_as(older, expect(control.call("GET", path), 200)) == older


def test_the_cluster_pulls_the_same_declarations(control: ControlPlane) -> None:
    assert json.loads(control.pull().to_json(2)) == ANSWERS["pull"]


def test_documents_have_the_names_of_this_version(control: ControlPlane, tmp_path: Path) -> None:
    def documents(table: str, column: str) -> list[Any]:
        with closing(sqlite3.connect(tmp_path / "control.sqlite")) as database:
            found = database.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL").fetchall()
        assert found
        return [json.loads(text) for (text,) in found]

    for document in documents("workloads", "declaration"):
        assert ("desired_state" in document["workload"], "want" in document["workload"]) == (True, False)
    pods = [pod for report in documents("workloads", "report") for pod in report["pods"]] + documents(
        "pods", "document"
    )
    assert all("start_failure" in pod and "trouble" not in pod for pod in pods)
    assert all("message" in node and "words" not in node for node in documents("nodes", "document"))


def test_work_goes_on_from_where_it_was(control: ControlPlane) -> None:
    listed = {each["name"]: each for each in expect(control.call("GET", "/api/v1/workloads"), 200)["workloads"]}
    resumed = expect(control.call("POST", f"/api/v1/workloads/{listed['paused']['id']}/resume"), 202)
    assert (resumed["phase"], resumed["desiredPhase"]) == ("Creating", "Running")
    expect(control.call("DELETE", f"/api/v1/workloads/{listed['first']['id']}"), 202)
    control.report_number = 1000
    control.push(control.report(gone=(gone(listed["first"]["id"]), gone(listed["leaving"]["id"]))))
    left = {each["name"] for each in expect(control.call("GET", "/api/v1/workloads"), 200)["workloads"]}
    assert left == listed.keys() - {"first", "leaving"}


def test_labels_and_addresses_are_found_by_filters(control: ControlPlane) -> None:
    def named(condition: str) -> list[str]:
        found = expect(control.call("GET", f"/api/v1/workloads?filterBy={condition}"), 200)["workloads"]
        return sorted(each["name"] for each in found)

    assert named("labels.team==serving") == ["model"]
    assert named("labels.team!=serving") == ["done", "first", "leaving", "paused", "second", "waiting"]
    assert named("status==Running") == ["first", "model", "paused", "second"]
    assert named("status=@end") == ["waiting"]


@pytest.mark.parametrize("last", [3, 40, 90])
def test_an_upgrade_that_is_cut_off_changes_nothing(tmp_path: Path, last: int) -> None:
    keep_database(tmp_path)
    path = tmp_path / "control.sqlite"
    before = _schema(path)

    def prepare(connection: Connection) -> None:
        left = iter(range(last))
        verdicts = {True: sqlite3.SQLITE_OK, False: sqlite3.SQLITE_DENY}
        driver_of(connection).set_authorizer(
            lambda action, *_: verdicts[action not in CHANGES_OF_TABLES or next(left, None) is not None]
        )
        upgrade(connection)

    cut_off = LocalDatabase(Sqlite(path))
    with pytest.raises(DatabaseError, match="not authorized"):
        cut_off.open_now(prepare)
    cut_off.close_now()
    assert _schema(path) == before


def _schema(path: Path) -> list[Any]:
    with closing(sqlite3.connect(path)) as database:
        version = database.execute("SELECT version_num FROM alembic_version").fetchall()
        return [*version, *database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()]

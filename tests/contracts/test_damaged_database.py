"""A control database that is damaged, full, read-only or locked: refused by name, never acknowledged, never a bug."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent import namespaces
from fairpool.control.store import condition
from fairpool.control.store.local_database import LocalDatabase
from tests.control.control_plane import ControlPlane, codes, control_plane
from tests.postgresql import of_sqlite
from tests.specification.test_archive import new_database

pytestmark = [pytest.mark.slow, of_sqlite]

PROJECTS, WORKLOADS = "/api/v1/org-unit/projects", "/api/v1/workloads"
PATIENCE_S = 120.0


def database_of(control: ControlPlane) -> LocalDatabase:
    database = control.app.state.plane.database
    assert isinstance(database, LocalDatabase)
    return database


def pragma(control: ControlPlane, text: str) -> None:
    """On both connections, between two requests."""
    for connection in (database_of(control)._writing, database_of(control)._reading):
        assert connection is not None
        connection.exec_driver_sql(f"PRAGMA {text}").close()


def create(control: ControlPlane, name: str) -> Any:
    return control.call("POST", PROJECTS, {"name": name, "resources": [{"gpu": {"deserved": 1}}]})


def refused_by_name(answer: Any, status: int, code: str) -> bool:
    return (answer.status_code, codes(answer)) == (status, [code]) and "report it" not in answer.text


@contextmanager
def zeroed(control: ControlPlane) -> Iterator[None]:
    """Every page but the first is gone, and what was read before is forgotten."""
    path: Path = control.app.state.plane.settings.data / "control.sqlite"
    pragma(control, "wal_checkpoint(TRUNCATE)")
    whole = path.read_bytes()
    page_bytes = int.from_bytes(whole[16:18], "big")
    with path.open("r+b") as file:
        file.seek(page_bytes)
        file.write(bytes(len(whole) - page_bytes))
    pragma(control, "shrink_memory")
    try:
        yield
    finally:
        with path.open("r+b") as file:
            file.write(whole)
        pragma(control, "shrink_memory")


def test_after_damage_was_seen_no_change_is_acknowledged(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.call("GET", WORKLOADS)  # the caller is known from now on
        with zeroed(control):
            assert refused_by_name(control.call("GET", WORKLOADS), 503, "database.damaged")
            assert refused_by_name(create(control, "team-b"), 503, "database.damaged")
        assert control.call("GET", WORKLOADS).status_code == 200, "what can be read is read"
        assert refused_by_name(create(control, "team-b"), 503, "database.damaged"), "until a start has checked the file"
    with control_plane(tmp_path) as control:
        assert create(control, "team-b").status_code == 201


def test_a_change_that_meets_damage_is_refused_with_all_that_came_with_it(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        with zeroed(control):
            assert refused_by_name(create(control, "team-b"), 503, "database.damaged")
            assert refused_by_name(create(control, "team-c"), 503, "database.damaged")


def test_text_that_is_none_is_damage(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        control.train("t1")
        with closing(sqlite3.connect(tmp_path / "control.sqlite")) as other, other:
            other.execute("UPDATE workloads SET declaration = CAST(x'c328ff' AS TEXT)")
        assert refused_by_name(control.call("GET", WORKLOADS), 503, "database.damaged")


def test_a_full_disk_is_called_so_and_over_when_there_is_room(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        pragma(control, "max_page_count = 1")  # as many as there are, and no more
        refusals = []
        for number in range(200):
            body = {"name": f"p-{number}", "description": "x" * 200, "resources": [{"gpu": {"deserved": 1}}]}
            answer = control.call("POST", PROJECTS, body)
            if answer.status_code != 201:
                refusals.append(answer)
        assert refusals
        assert all(refused_by_name(each, 507, "disk.full") for each in refusals)
        pragma(control, "max_page_count = 1000000")
        assert create(control, "team-b").status_code == 201
        shown = control.call("GET", f"{PROJECTS}?limit=500").json()
        assert len(shown["projects"]) == 2 + 200 - len(refusals), "each was acknowledged or is not there"


def test_a_database_that_became_read_only_is_called_so(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        pragma(control, "query_only = ON")
        assert refused_by_name(create(control, "team-b"), 503, "database.read_only")
        assert control.call("GET", PROJECTS).status_code == 200
        pragma(control, "query_only = OFF")
        assert create(control, "team-b").status_code == 201


def test_nothing_is_acknowledged_into_a_file_that_was_removed(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        (tmp_path / "control.sqlite").rename(tmp_path / "elsewhere")
        assert refused_by_name(create(control, "team-b"), 503, "database.moved")
        assert refused_by_name(create(control, "team-c"), 503, "database.moved")


# --- locks of others

HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute(sys.argv[2])
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def locked(path: Path, how: str = "BEGIN IMMEDIATE") -> Iterator[int]:
    """Another process holds the write lock; its number."""
    command = [sys.executable, "-c", HOLDER, str(path), how]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        try:
            yield other.pid
        finally:
            other.stdin.close()
            other.wait(PATIENCE_S)


@pytest.mark.parametrize("how", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
def test_a_foreign_lock_stops_no_reader_and_is_named_to_writers(tmp_path: Path, how: str) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        database_of(control)._busy_s = 1.0
        with locked(tmp_path / "control.sqlite", how) as pid:
            refusal: list[Any] = []
            writer = threading.Thread(target=lambda: refusal.append(create(control, "team-b")))
            writer.start()
            read = 0
            while writer.is_alive():
                assert control.call("GET", PROJECTS).status_code == 200
                read += 1
            writer.join()
            assert read > 1, "the event loop went on"
            (answer,) = refusal
            assert refused_by_name(answer, 503, "database.busy")
            assert f"(process {pid})" in answer.json()["problems"][0]["what"]
            assert answer.headers["retry-after"] == "1"
        assert create(control, "team-b").status_code == 201


def test_who_waits_for_a_lock_goes_on_when_it_is_given_back(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        database_of(control)._busy_s = PATIENCE_S
        answers: list[int] = []
        with locked(tmp_path / "control.sqlite"):
            writers = [
                threading.Thread(target=lambda name=f"p-{number}": answers.append(create(control, name).status_code))
                for number in range(4)
            ]
            for writer in writers:
                writer.start()
            while len(database_of(control)._queue) < 4:
                time.sleep(0.01)
        for writer in writers:
            writer.join()
        assert answers == [201] * 4


# --- before it is opened


@pytest.fixture
def database_file(tmp_path: Path) -> Path:
    path = tmp_path / "control.sqlite"
    path.write_bytes(new_database())
    with closing(sqlite3.connect(path)) as database:
        database.execute("VACUUM")  # every page is in use
        database.execute("PRAGMA journal_mode = DELETE")
    return path


def code_of(path: Path) -> str:
    problem = condition.problem_with_database(path)
    assert problem is not None
    assert problem.fix
    return problem.code


def test_a_sound_database_is_let_through(database_file: Path, tmp_path: Path) -> None:
    assert condition.problem_with_database(database_file) is None
    assert condition.problem_with_database(tmp_path / "none") is None


def test_every_zeroed_page_is_found(database_file: Path) -> None:
    whole = database_file.read_bytes()
    for page in range(0, len(whole), 4096):
        database_file.write_bytes(whole[:page] + bytes(4096) + whole[page + 4096 :])
        assert code_of(database_file) in ("database.damaged", "database.foreign"), page


def test_flipped_bytes_in_the_head_of_a_page_are_found(database_file: Path) -> None:
    whole = bytearray(database_file.read_bytes())
    for page in range(4096, len(whole), 4096):
        damaged = whole.copy()
        damaged[page : page + 8] = bytes(byte ^ 0xFF for byte in whole[page : page + 8])
        database_file.write_bytes(damaged)
        assert code_of(database_file) == "database.damaged", page


@pytest.mark.parametrize("left", [1, 50, 100, 4095, 4096, 12288, 20000])
def test_a_file_that_was_cut_is_found(database_file: Path, left: int) -> None:
    database_file.write_bytes(database_file.read_bytes()[:left])
    assert code_of(database_file) == "database.damaged"


def test_a_file_that_was_emptied_is_new_only_where_nothing_was_before(database_file: Path) -> None:
    database_file.write_bytes(b"")
    assert condition.problem_with_database(database_file) is None
    problem = condition.problem_with_database(database_file, may_be_new=False)
    assert problem is not None
    assert problem.code == "database.damaged"


def test_what_others_made_is_left_alone(database_file: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(other)) as database, database:
        database.execute("CREATE TABLE theirs (x)")
    assert code_of(other) == "database.foreign"
    with closing(sqlite3.connect(database_file)) as database, database:
        database.execute("PRAGMA application_id = 77")
    assert code_of(database_file) == "database.foreign"


def test_triggers_and_views_are_refused_by_name(database_file: Path) -> None:
    with closing(sqlite3.connect(database_file)) as database, database:
        database.execute("CREATE TRIGGER evil AFTER INSERT ON users BEGIN DELETE FROM tokens; END")
    problem = condition.problem_with_database(database_file)
    assert problem is not None
    assert (problem.code, "trigger 'evil'" in problem.what) == ("database.foreign", True)


def test_a_newer_one_is_left_alone(database_file: Path) -> None:
    with closing(sqlite3.connect(database_file)) as database, database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
    assert code_of(database_file) == "database.newer"


READ_ONLY = """
import sys
from pathlib import Path
from fairpool.agent import mounts, namespaces
from fairpool.control.store import condition
path = Path(sys.argv[1])
namespaces.enter(namespaces.CLONE_NEWNS)
mounts.mount("none", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
mounts.mount(str(path), str(path), "", mounts.MS_BIND)
mounts.mount("none", str(path), "", mounts.MS_BIND | mounts.MS_REMOUNT | mounts.MS_RDONLY)
problem = condition.problem_with_database(path)
print(problem.code if problem else "")
"""


def test_a_file_that_cannot_be_written_is_found(database_file: Path) -> None:
    if os.geteuid() != 0:
        database_file.chmod(0o400)
        assert code_of(database_file) == "database.read_only"
        return
    why = namespaces.permitted(namespaces.CLONE_NEWNS)
    if why:
        pytest.skip(f"this machine permits no mount namespaces: {why}")
    command = [sys.executable, "-c", READ_ONLY, str(database_file)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.stdout.strip() == "database.read_only", ran.stderr

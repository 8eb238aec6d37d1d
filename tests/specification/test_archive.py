"""A backup is whole or not there; a restore is done or not, whoever is killed or fails meanwhile, and loses nothing."""

from __future__ import annotations

import fcntl
import io
import json
import os
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.cli.compose import archive
from fairpool.cli.compose.premises import Premises, Unusable
from fairpool.control.store import condition
from fairpool.control.store.migrations import known_versions

WAL = "-wal"


def declare(path: Path, *rows: str, keep_journal: bool = False) -> None:
    """A database of the present version; with its latest row in the journal only, as a killed server leaves it."""
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE IF NOT EXISTS alembic_version (version_num)")
        database.execute("DELETE FROM alembic_version")
        database.execute("INSERT INTO alembic_version VALUES (?)", (known_versions()[-1],))
        database.execute("CREATE TABLE IF NOT EXISTS declared (name)")
        for table in ("revision (value, declared, oldest)", "changes (revision)", "workloads (item, revision)"):
            database.execute(f"CREATE TABLE IF NOT EXISTS {table}")
        database.execute("INSERT INTO revision SELECT 7, 7, 0 WHERE NOT EXISTS (SELECT * FROM revision)")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for row in rows:
            database.execute("INSERT INTO declared VALUES (?)", (row,))
            database.commit()
        kept = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", WAL)} if keep_journal else {}
    for suffix, content in kept.items():
        Path(f"{path}{suffix}").write_bytes(content)


def declared(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT name FROM declared ORDER BY rowid")]


def leaps(path: Path) -> int:
    """How often the count of a database has left everything behind that was counted before."""
    with closing(sqlite3.connect(path)) as database:
        ((value, oldest),) = database.execute("SELECT value, oldest FROM revision")
    assert oldest in (0, value)
    return int(value > condition.LEAP) + int(value > 2 * condition.LEAP + 7)


@pytest.fixture
def premises(tmp_path: Path) -> Premises:
    premises = Premises(tmp_path / "data")
    premises.prepare()
    premises.machine.mkdir(mode=0o700)
    (premises.machine / IMAGES_FILE).write_text("# of the backup\n")
    declare(premises.control, "kept")
    return premises


@pytest.fixture
def backup(premises: Premises, tmp_path: Path) -> Path:
    """One that knows of `kept`; then came `later`, a ledger and another table of images."""
    file = tmp_path / "backup"
    archive.make_backup(premises, file)
    declare(premises.control, "later", keep_journal=True)
    premises.ledger.write_bytes(b"ledger")
    (premises.machine / IMAGES_FILE).write_text("# edited since\n")
    return file


def asides(premises: Premises, name: str = "control.sqlite") -> list[Path]:
    found = premises.root.rglob(f"{name}.before-restore-*")
    return sorted(path for path in found if not path.name.endswith((WAL, "-shm")))


def test_what_was_there_is_kept_with_its_journal(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, copy: Path) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(condition, "copy_database", full)
    _, kept = archive.restore_backup(premises, backup)
    assert declared(premises.control) == ["kept"]
    assert declared(kept[0]) == ["kept", "later"], "what was acknowledged last lay in the journal"
    assert asides(premises) + asides(premises, "ledger.sqlite") + asides(premises, IMAGES_FILE) == kept
    assert kept[2].read_text() == "# edited since\n"
    assert (premises.machine / IMAGES_FILE).read_text() == "# of the backup\n"


def test_restores_of_one_second_keep_what_each_replaced(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(archive, "datetime", Stopped)
    _, first = archive.restore_backup(premises, backup)
    declare(premises.control, "again")
    _, second = archive.restore_backup(premises, backup)
    assert [declared(first[0]), declared(second[0])] == [["kept", "later"], ["kept", "again"]]


class Killed(BaseException):
    """Nobody catches it, as nobody catches the end of a process."""


def dying_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be killed when so many files have been moved."""
    steps = 0

    def until_killed(plain: Callable[[str, str], None]) -> Callable[[str, str], None]:
        def move(path: str, target: str) -> None:
            nonlocal steps
            if steps == step:
                raise Killed
            steps += 1
            plain(path, target)

        return move

    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, until_killed(getattr(os, name)))


def broken_disk(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes everything but the new database."""
    plain = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path == premises.restoring / "control.sqlite":
            raise OSError(5, "Input/output error")
        return plain(path, target)

    monkeypatch.setattr(Path, "replace", replace)


def is_as_it_was(premises: Premises) -> bool:
    return (
        declared(premises.control) == ["kept", "later"]
        and premises.ledger.read_bytes() == b"ledger"
        and (premises.machine / IMAGES_FILE).read_text() == "# edited since\n"
        and not premises.restoring.exists()
        and asides(premises) + asides(premises, "ledger.sqlite") + asides(premises, IMAGES_FILE) == []
    )


def test_a_restore_that_fails_leaves_everything_as_it_was(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as trouble:
        broken_disk(premises, trouble)
        with pytest.raises(Unusable, match="all is as it was: input/output error"):
            archive.restore_backup(premises, backup)
    assert is_as_it_was(premises)


@pytest.mark.parametrize("step", range(9))
def test_a_restore_that_is_killed_is_finished_by_the_next_start_or_never_was(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with monkeypatch.context() as fate:
        dying_at(step, fate)
        with pytest.raises(Killed) if step < 8 else nullcontext():  # it takes eight
            archive.restore_backup(premises, backup)
        was_begun = premises.restoring.exists() or step == 8
    archive.finish_restore(premises)
    assert archive.finish_restore(premises) == []
    if not was_begun:
        assert is_as_it_was(premises)
        return
    assert (declared(premises.control), leaps(premises.control)) == (["kept"], 1)
    assert [(declared(path), leaps(path)) for path in asides(premises)] == [(["kept", "later"], 0)]
    assert [path.read_text() for path in asides(premises, IMAGES_FILE)] == ["# edited since\n"]
    assert (premises.machine / IMAGES_FILE).read_text() == "# of the backup\n"
    assert not premises.ledger.exists()
    assert not premises.restoring.exists()


@pytest.mark.parametrize("end", [Killed(), sqlite3.OperationalError("disk I/O error")], ids=["killed", "refused"])
def test_a_restore_that_ends_while_the_count_leaps_never_was(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    def half(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE revision SET value = value + 1")
        raise end

    with monkeypatch.context() as fate:
        fate.setattr(condition, "leap_ahead", half)
        with pytest.raises((Killed, Unusable)):
            archive.restore_backup(premises, backup)
    assert archive.finish_restore(premises) == []
    assert is_as_it_was(premises)
    archive.restore_backup(premises, backup)
    assert (declared(premises.control), leaps(premises.control)) == (["kept"], 1)


@pytest.mark.parametrize("step", range(2, 8))
def test_what_was_cut_off_and_cannot_be_finished_is_undone_whole(
    premises: Premises, backup: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with monkeypatch.context() as fate:
        dying_at(step, fate)
        with pytest.raises(Killed):
            archive.restore_backup(premises, backup)
    with monkeypatch.context() as trouble:
        broken_disk(premises, trouble)
        with pytest.raises(Unusable, match="all is as it was"):
            archive.finish_restore(premises)
    assert is_as_it_was(premises)


def test_nothing_is_backed_up_in_the_middle_of_a_restore(premises: Premises, backup: Path, tmp_path: Path) -> None:
    premises.restoring.mkdir()
    (premises.restoring / "control.sqlite").touch()
    with pytest.raises(Unusable, match="was cut off"):
        archive.make_backup(premises, tmp_path / "other")


def test_what_the_killed_left_is_swept_out_and_what_is_in_use_is_not(premises: Premises) -> None:
    left, used = premises.root / ".restore-a", premises.root / ".restore-b"
    for folder in (left, used):
        folder.mkdir()
        (folder / "control.sqlite").write_bytes(b"x")
    handle = os.open(used, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    archive.sweep(premises.root, archive.RESTORE_PREFIX)
    os.close(handle)
    assert (left.exists(), used.exists()) == (False, True)


def test_a_backup_takes_no_room_in_the_data_folder(
    premises: Premises, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, places = condition.copy_database, []

    def watched(path: Path, copy: Path) -> None:
        places.append(copy)
        plain(path, copy)

    monkeypatch.setattr(condition, "copy_database", watched)
    (tmp_path / "elsewhere").mkdir()
    archive.make_backup(premises, tmp_path / "elsewhere" / "file")
    assert all((tmp_path / "elsewhere") in place.parents for place in places)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"], "and leaves nothing beside it"


def test_who_is_to_blame_for_a_backup_that_fails(premises: Premises, tmp_path: Path) -> None:
    with pytest.raises(Unusable, match="no backup can be written to") as target:
        archive.make_backup(premises, tmp_path / "none" / "file")
    assert "a folder with room" in target.value.problem.fix
    premises.control.write_bytes(b"no database " * 1000)
    with pytest.raises(Unusable, match=r"control\.sqlite cannot be copied"):
        archive.make_backup(premises, tmp_path / "file")


def test_an_empty_database_is_neither_kept_nor_put_back(premises: Premises, tmp_path: Path) -> None:
    empty = Premises(tmp_path / "empty")
    empty.prepare()
    empty.control.touch()
    with pytest.raises(Unusable, match="there is nothing to keep"):
        archive.make_backup(empty, tmp_path / "file")
    with pytest.raises(Unusable, match="is empty"):
        archive.restore_backup(premises, packed(tmp_path / "file", about_json=ABOUT, control_sqlite=b""))
    assert declared(premises.control) == ["kept"]


def packed(file: Path, **members: bytes) -> Path:
    with tarfile.open(file, "w:gz") as made:
        for name, content in members.items():
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return file


ABOUT = json.dumps({"format": archive.FORMAT, "at": 0}).encode()


@pytest.mark.parametrize(
    ("members", "words"),
    [
        pytest.param({"about_json": ABOUT}, r"there is no file control\.sqlite in it", id="no database"),
        pytest.param({"about_json": b"[]", "control_sqlite": b""}, "is no backup of Fairpool", id="another list"),
        pytest.param({"about_json": b'{"format": 1, "at": 1e99}'}, "is no backup of Fairpool", id="no time"),
        pytest.param({"about_json": ABOUT, "control_sqlite": b"x" * 9999}, "is damaged", id="a damaged database"),
    ],
)
def test_what_is_no_backup_is_refused_in_words(
    premises: Premises, tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    with pytest.raises(Unusable, match=words):
        archive.restore_backup(premises, packed(tmp_path / "file", **members))
    assert declared(premises.control) == ["kept"]


def test_a_backup_that_was_cut_short_is_refused_in_words(premises: Premises, backup: Path) -> None:
    whole = backup.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 12)):
        backup.write_bytes(whole[:length])
        with pytest.raises(Unusable):
            archive.restore_backup(premises, backup)
    assert declared(premises.control) == ["kept", "later"]

"""A backup is complete or absent; a restore is done or not, whatever is killed or fails meanwhile."""

from __future__ import annotations

import asyncio
import fcntl
import gzip
import io
import json
import os
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from contextlib import closing, nullcontext, suppress
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.images import FILE as IMAGES_FILE
from fairpool.control.store import condition
from fairpool.control.store.local_database import LocalDatabase
from fairpool.control.store.migrations import upgrade
from fairpool.control.store.sqlite import Sqlite
from fairpool.platform import backup as backup_module
from fairpool.platform import backup_archive, restore, work_directory
from fairpool.platform.data_directory import CLUSTER, CONTROL, DataDirectory, PlatformError

WAL = "-wal"
OF_THE_BACKUP = json.dumps({"chosen": ["2x4:A100-80GB"], "names": ["a100-1", "a100-2"], "had_gpus": False})


@cache
def new_database() -> bytes:
    """One of the present version in which nothing was declared yet."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "new.sqlite")

        async def make() -> None:
            database = LocalDatabase(Sqlite(path))
            await database.open(upgrade)
            await database.close()

        asyncio.run(make())
        return path.read_bytes()


def declare(path: Path, *rows: str, keep_journal: bool = False) -> None:
    """A database of the present version; with its latest row in the journal only, as a killed server leaves it."""
    if not path.exists():
        path.write_bytes(new_database())
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("UPDATE revision SET value = 7, declared = 7, oldest = 0 WHERE value < 7")
        database.commit()
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for row in rows:
            database.execute("INSERT INTO preferences VALUES (?, '', 0, '', 1)", (row,))
            database.commit()
        kept = {suffix: Path(f"{path}{suffix}").read_bytes() for suffix in ("", WAL)} if keep_journal else {}
    for suffix, content in kept.items():
        Path(f"{path}{suffix}").write_bytes(content)


def declared(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as database:
        return [name for (name,) in database.execute("SELECT key FROM preferences ORDER BY rowid")]


def leaps(path: Path) -> int:
    """How often the count of a database has left everything behind that was counted before."""
    with closing(sqlite3.connect(path)) as database:
        ((value, oldest),) = database.execute("SELECT value, oldest FROM revision")
    assert oldest in (0, value)
    return int(value > condition.LEAP) + int(value > 2 * condition.LEAP + 7)


@pytest.fixture
def data_directory(tmp_path: Path) -> DataDirectory:
    data_directory = DataDirectory(tmp_path / "data")
    data_directory.prepare()
    data_directory.machine.mkdir(mode=0o700)
    (data_directory.machine / IMAGES_FILE).write_text("# of the backup\n")
    data_directory.nodes.write_text(OF_THE_BACKUP)
    declare(data_directory.control, "kept")
    return data_directory


@pytest.fixture
def backup(data_directory: DataDirectory, tmp_path: Path) -> Path:
    """One that knows of `kept`; then came `later`, a ledger and another table of images."""
    file = tmp_path / "backup"
    backup_module.make_backup(data_directory, file)
    declare(data_directory.control, "later", keep_journal=True)
    data_directory.ledger.write_bytes(b"ledger")
    (data_directory.machine / IMAGES_FILE).write_text("# edited since\n")
    data_directory.nodes.write_text("since")
    return file


def asides(data_directory: DataDirectory, name: str = "control.sqlite") -> list[Path]:
    found = data_directory.root.rglob(f"{name}.before-restore-*")
    return sorted(path for path in found if not path.name.endswith((WAL, "-shm")))


def all_asides(data_directory: DataDirectory) -> list[Path]:
    names = ("control.sqlite", "ledger.sqlite", IMAGES_FILE, "nodes.json")
    return [path for name in names for path in asides(data_directory, name)]


def test_what_was_there_is_kept_with_its_journal(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, copy: Path) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(condition, "copy_database", full)
    _, kept = restore.restore_backup(data_directory, backup)
    assert declared(data_directory.control) == ["kept"]
    assert declared(kept[0]) == ["kept", "later"], "what was acknowledged last lay in the journal"
    assert all_asides(data_directory) == kept
    assert [path.read_text() for path in kept[2:]] == ["# edited since\n", "since"]
    assert (data_directory.machine / IMAGES_FILE).read_text() == "# of the backup\n"
    assert data_directory.nodes.read_text() == OF_THE_BACKUP


def test_restores_of_one_second_keep_what_each_replaced(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, tzinfo=UTC)

    monkeypatch.setattr(restore, "datetime", Stopped)
    _, first = restore.restore_backup(data_directory, backup)
    declare(data_directory.control, "again")
    _, second = restore.restore_backup(data_directory, backup)
    assert [declared(first[0]), declared(second[0])] == [["kept", "later"], ["kept", "again"]]


class Killed(BaseException):
    """Not caught, as the end of a process cannot be."""


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


def broken_disk(data_directory: DataDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes everything but the new database."""
    plain = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if path == data_directory.restoring / "control.sqlite":
            raise OSError(5, "Input/output error")
        return plain(path, target)

    monkeypatch.setattr(Path, "replace", replace)


def is_as_it_was(data_directory: DataDirectory) -> bool:
    return (
        declared(data_directory.control) == ["kept", "later"]
        and data_directory.ledger.read_bytes() == b"ledger"
        and (data_directory.machine / IMAGES_FILE).read_text() == "# edited since\n"
        and data_directory.nodes.read_text() == "since"
        and not data_directory.restoring.exists()
        and all_asides(data_directory) == []
    )


def test_a_restore_that_fails_leaves_everything_as_it_was(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as trouble:
        broken_disk(data_directory, trouble)
        with pytest.raises(PlatformError, match="is unchanged: input/output error"):
            restore.restore_backup(data_directory, backup)
    assert is_as_it_was(data_directory)


@pytest.mark.parametrize("step", range(11))
def test_a_restore_that_is_killed_is_finished_by_the_next_start_or_never_was(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with monkeypatch.context() as patch:
        dying_at(step, patch)
        with pytest.raises(Killed) if step < 10 else nullcontext():  # it takes ten
            restore.restore_backup(data_directory, backup)
        was_begun = data_directory.restoring.exists() or step == 10
    restore.finish_restore(data_directory)
    assert restore.finish_restore(data_directory) == []
    if not was_begun:
        assert is_as_it_was(data_directory)
        return
    assert (declared(data_directory.control), leaps(data_directory.control)) == (["kept"], 1)
    assert [(declared(path), leaps(path)) for path in asides(data_directory)] == [(["kept", "later"], 0)]
    assert [path.read_text() for path in asides(data_directory, IMAGES_FILE)] == ["# edited since\n"]
    assert (data_directory.machine / IMAGES_FILE).read_text() == "# of the backup\n"
    assert [path.read_text() for path in asides(data_directory, "nodes.json")] == ["since"]
    assert data_directory.nodes.read_text() == OF_THE_BACKUP
    assert not data_directory.ledger.exists()
    assert not data_directory.restoring.exists()


@pytest.mark.parametrize("end", [Killed(), sqlite3.OperationalError("disk I/O error")], ids=["killed", "refused"])
def test_a_restore_that_ends_while_the_count_leaps_never_was(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch, end: BaseException
) -> None:
    def half(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as database:
            database.execute("UPDATE revision SET value = value + 1")
        raise end

    with monkeypatch.context() as patch:
        patch.setattr(condition, "leap_ahead", half)
        with pytest.raises((Killed, PlatformError)):
            restore.restore_backup(data_directory, backup)
    assert restore.finish_restore(data_directory) == []
    assert is_as_it_was(data_directory)
    restore.restore_backup(data_directory, backup)
    assert (declared(data_directory.control), leaps(data_directory.control)) == (["kept"], 1)


@pytest.mark.parametrize("step", range(2, 10))
def test_what_was_cut_off_and_cannot_be_finished_is_undone_whole(
    data_directory: DataDirectory, backup: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with monkeypatch.context() as patch:
        dying_at(step, patch)
        with pytest.raises(Killed):
            restore.restore_backup(data_directory, backup)
    with monkeypatch.context() as trouble:
        broken_disk(data_directory, trouble)
        with pytest.raises(PlatformError, match="is unchanged"):
            restore.finish_restore(data_directory)
    assert is_as_it_was(data_directory)


def test_nothing_is_backed_up_in_the_middle_of_a_restore(
    data_directory: DataDirectory, backup: Path, tmp_path: Path
) -> None:
    data_directory.restoring.mkdir()
    (data_directory.restoring / "control.sqlite").touch()
    with pytest.raises(PlatformError, match="was interrupted"):
        backup_module.make_backup(data_directory, tmp_path / "other")


def test_what_the_killed_left_is_swept_out_and_what_is_in_use_is_not(data_directory: DataDirectory) -> None:
    left, used = data_directory.root / ".restore-a", data_directory.root / ".restore-b"
    for folder in (left, used):
        folder.mkdir()
        (folder / "control.sqlite").write_bytes(b"x")
    handle = os.open(used, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    work_directory.remove_abandoned(data_directory.root, work_directory.RESTORE_PREFIX)
    os.close(handle)
    assert (left.exists(), used.exists()) == (False, True)


def test_a_backup_takes_no_room_in_the_data_folder(
    data_directory: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, places = condition.copy_database, []

    def watched(path: Path, copy: Path) -> None:
        places.append(copy)
        plain(path, copy)

    monkeypatch.setattr(condition, "copy_database", watched)
    (tmp_path / "elsewhere").mkdir()
    backup_module.make_backup(data_directory, tmp_path / "elsewhere" / "file")
    assert all((tmp_path / "elsewhere") in place.parents for place in places)
    assert [path.name for path in (tmp_path / "elsewhere").iterdir()] == ["file"], "and leaves nothing beside it"


def test_who_is_to_blame_for_a_backup_that_fails(data_directory: DataDirectory, tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match="cannot write the backup to") as target:
        backup_module.make_backup(data_directory, tmp_path / "none" / "file")
    assert "with free space" in target.value.problem.fix
    data_directory.control.write_bytes(b"no database " * 1000)
    with pytest.raises(PlatformError, match=r"control\.sqlite cannot be copied"):
        backup_module.make_backup(data_directory, tmp_path / "file")


def test_an_empty_database_is_neither_kept_nor_put_back(data_directory: DataDirectory, tmp_path: Path) -> None:
    empty = DataDirectory(tmp_path / "empty")
    empty.prepare()
    empty.control.touch()
    with pytest.raises(PlatformError, match="there is nothing to back up"):
        backup_module.make_backup(empty, tmp_path / "file")
    with pytest.raises(PlatformError, match="is empty"):
        restore.restore_backup(data_directory, packed(tmp_path / "file", about_json=ABOUT, control_sqlite=b""))
    assert declared(data_directory.control) == ["kept"]


def packed(file: Path, **members: bytes) -> Path:
    with tarfile.open(file, "w:gz") as made:
        for name, content in members.items():
            member = tarfile.TarInfo(name.replace("_", "."))
            member.size = len(content)
            made.addfile(member, io.BytesIO(content))
    return file


ABOUT = json.dumps({"format": backup_archive.FORMAT, "at": 0}).encode()
DEEP = b"[" * 30_000 + b"]" * 30_000


@pytest.mark.parametrize(
    ("members", "words"),
    [
        pytest.param({"about_json": ABOUT}, r"control\.sqlite is missing", id="no database"),
        pytest.param({"about_json": b"[]", "control_sqlite": b""}, "is not a Fairpool backup", id="another list"),
        pytest.param(
            {"about_json": b'{"format": 1, "at": 1e99}', "control_sqlite": b""},
            "is not a Fairpool backup",
            id="no time",
        ),
        pytest.param({"about_json": DEEP, "control_sqlite": b""}, "its about.json cannot be read", id="deep"),
        pytest.param({"about_json": b" " * 70_000}, "is larger than 64 KiB", id="a huge about.json"),
        pytest.param({"about_json": ABOUT, "control_sqlite": b"x" * 9999}, "is damaged", id="a damaged database"),
        pytest.param({"about_json": b'{"format": 99}', "control_sqlite": b""}, "cannot read", id="newer"),
        pytest.param({"about_json": ABOUT, "other": b""}, "it contains a file 'other'", id="something else"),
        pytest.param({"../about_json": ABOUT}, r"it contains a file '../about.json'", id="above"),
        pytest.param({"/etc/passwd": b"x"}, r"it contains a file '/etc/passwd'", id="absolute"),
    ],
)
def test_what_is_no_backup_is_refused_in_words(
    data_directory: DataDirectory, tmp_path: Path, members: dict[str, bytes], words: str
) -> None:
    with pytest.raises(PlatformError, match=words):
        restore.restore_backup(data_directory, packed(tmp_path / "file", **members))
    assert declared(data_directory.control) == ["kept"]
    assert not list(data_directory.root.glob(".restor*"))


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.GNUTYPE_LONGNAME],
)
@pytest.mark.parametrize("name", ["about.json", "control.sqlite"])
def test_a_member_that_is_no_plain_file_is_refused(
    data_directory: DataDirectory, tmp_path: Path, kind: bytes, name: str
) -> None:
    file = tmp_path / "file"
    with tarfile.open(file, "w:gz") as made:
        if name != "about.json":
            about = tarfile.TarInfo("about.json")
            about.size = len(ABOUT)
            made.addfile(about, io.BytesIO(ABOUT))
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, "/etc/passwd"
        made.addfile(member)
    with pytest.raises(PlatformError, match=f"'{name}', which does not belong in a backup") as refused:
        restore.restore_backup(data_directory, file)
    assert refused.value.problem.code == "restore.foreign"
    assert declared(data_directory.control) == ["kept"]


def test_a_small_file_that_unpacks_to_a_huge_one_is_refused(
    data_directory: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_archive, "EXPANSION_FROM_BYTES", 1 << 20)
    bomb = packed(tmp_path / "file", about_json=ABOUT, control_sqlite=bytes(32 << 20))
    with pytest.raises(PlatformError, match="unpacks to more than 200 times its size"):
        restore.restore_backup(data_directory, bomb)
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 4 << 30  # the library would read all of it into memory
    with gzip.open(bomb, "wb") as made:
        made.write(header.tobuf())
        made.write(bytes(1 << 20))
    with pytest.raises(PlatformError, match="it contains a file 'pax'"):
        restore.restore_backup(data_directory, bomb)
    assert declared(data_directory.control) == ["kept"]


def test_what_is_no_file_at_all_is_not_waited_for(data_directory: DataDirectory, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero"), tmp_path / "none"):
        with pytest.raises(PlatformError, match="cannot restore"):
            restore.restore_backup(data_directory, path)


def tampered(tmp_path: Path, *statements: str) -> Path:
    """A backup whose database was tampered with."""
    path = tmp_path / "tampered.sqlite"
    path.write_bytes(new_database())
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        for statement in statements:
            database.execute(statement)
        database.execute("PRAGMA journal_mode = DELETE")
    return packed(tmp_path / "file", about_json=ABOUT, control_sqlite=path.read_bytes())


WRITABLE = "PRAGMA writable_schema = ON"


@pytest.mark.parametrize(
    ("statements", "words"),
    [
        pytest.param(
            ["CREATE TRIGGER evil AFTER DELETE ON changes BEGIN DELETE FROM users; END"], "evil", id="trigger"
        ),
        pytest.param(["CREATE VIEW all_tokens AS SELECT * FROM tokens"], "all_tokens", id="view"),
        pytest.param(["CREATE TABLE mine (x)"], "table 'mine'", id="table"),
        pytest.param(["CREATE INDEX mine ON users (email)"], "index 'mine'", id="index"),
        pytest.param(["CREATE VIRTUAL TABLE docs USING fts5(x)"], "'docs'", id="virtual table"),
        pytest.param(["DROP TABLE preferences"], "no table 'preferences'", id="missing table"),
        pytest.param(["ALTER TABLE users ADD COLUMN extra AS (email)"], "table 'users'", id="a generated column more"),
        pytest.param(
            [WRITABLE, "UPDATE sqlite_master SET sql = replace(sql, 'NOT NULL', '') WHERE name = 'tokens'"],
            "table 'tokens'",
            id="a text that was edited",
        ),
        pytest.param(
            [WRITABLE, "INSERT INTO sqlite_master VALUES ('table', 'x', 'users', 2, 'CREATE TABLE x (y)')"],
            "table 'x'|is damaged",
            id="two tables on one page",
        ),
        pytest.param(["PRAGMA application_id = 7"], "another program", id="application"),
    ],
)
def test_a_database_with_more_or_less_than_ours_is_refused(
    data_directory: DataDirectory, tmp_path: Path, statements: list[str], words: str
) -> None:
    with pytest.raises(PlatformError, match=words) as refused:
        restore.restore_backup(data_directory, tampered(tmp_path, *statements))
    assert refused.value.problem.code in ("restore.foreign", "restore.damaged")
    assert declared(data_directory.control) == ["kept"]
    assert all_asides(data_directory) == []


def test_an_untouched_database_is_ours(data_directory: DataDirectory, tmp_path: Path) -> None:
    restore.restore_backup(data_directory, tampered(tmp_path, "ANALYZE"))
    assert declared(data_directory.control) == []


def test_a_backup_with_nodes_that_cannot_be_read_is_refused(data_directory: DataDirectory, tmp_path: Path) -> None:
    for nodes in (b"{", b"[]", DEEP, b'{"chosen": ["x"], "names": [], "had_gpus": false}'):
        file = packed(tmp_path / "file", about_json=ABOUT, control_sqlite=new_database(), nodes_json=nodes)
        with pytest.raises(PlatformError, match=r"its nodes\.json cannot be read"):
            restore.restore_backup(data_directory, file)
    assert data_directory.nodes.read_text() == OF_THE_BACKUP


@pytest.mark.parametrize("now", [None, "{", '{"first": 5000, "projects": {"b": 5000}}'])
def test_the_users_of_projects_are_kept_and_come_back_where_they_are_lost(
    data_directory: DataDirectory, tmp_path: Path, now: str | None
) -> None:
    table = data_directory.machine / "users.json"
    table.write_text('{"first": 2000000000, "projects": {"a": 2000000000}}')
    backup_module.make_backup(data_directory, tmp_path / "backup")
    table.unlink()
    if now is not None:
        table.write_text(now)
    restore.restore_backup(data_directory, tmp_path / "backup")
    found = json.loads(table.read_text())["projects"]
    assert found == ({"b": 5000} if now and len(now) > 1 else {"a": 2000000000}), "what files belong to stays"
    assert len(asides(data_directory, "users.json")) == (now == "{")


def test_a_backup_with_users_that_cannot_be_is_refused(data_directory: DataDirectory, tmp_path: Path) -> None:
    (data_directory.machine / "users.json").write_text('{"projects": {"a": 0}}')
    backup_module.make_backup(data_directory, tmp_path / "backup")
    with pytest.raises(PlatformError, match=r"users\.json in it cannot be read"):
        restore.restore_backup(data_directory, tmp_path / "backup")


def test_a_backup_that_was_cut_short_is_refused_in_words(data_directory: DataDirectory, backup: Path) -> None:
    whole = backup.read_bytes()
    for length in range(0, len(whole), max(1, len(whole) // 12)):
        backup.write_bytes(whole[:length])
        with pytest.raises(PlatformError):
            restore.restore_backup(data_directory, backup)
    assert declared(data_directory.control) == ["kept", "later"]


# --- two programs


@pytest.fixture
def east(tmp_path: Path) -> DataDirectory:
    """The data directory of a cluster."""
    directory = DataDirectory(tmp_path / "east")
    directory.prepare()
    directory.claim(CLUSTER)
    directory.machine.mkdir(mode=0o700)
    (directory.machine / IMAGES_FILE).write_text("# of the backup\n")
    directory.nodes.write_text(OF_THE_BACKUP)
    directory.membership.write_text('{"installation": "a", "id": "1", "name": "east"}')
    directory.ledger.write_bytes(b"ledger")
    return directory


def test_a_backup_of_a_cluster_brings_its_nodes_back_and_leaves_its_ledger(east: DataDirectory, tmp_path: Path) -> None:
    file = tmp_path / "backup"
    backup_module.make_backup(east, file)
    (east.machine / IMAGES_FILE).write_text("# edited since\n")
    east.nodes.unlink()
    restore.restore_backup(east, file)
    assert east.nodes.read_text() == OF_THE_BACKUP
    assert (east.machine / IMAGES_FILE).read_text() == "# of the backup\n"
    assert east.ledger.read_bytes() == b"ledger"
    elsewhere = DataDirectory(tmp_path / "elsewhere")
    elsewhere.prepare()
    restore.restore_backup(elsewhere, file)
    assert (elsewhere.program, elsewhere.membership.read_bytes()) == (CLUSTER, east.membership.read_bytes())


def test_a_restore_of_a_cluster_that_was_cut_off_is_finished_by_the_next_start(
    east: DataDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "backup"
    backup_module.make_backup(east, file)
    replace, left = Path.replace, [0]

    def killed(path: Path, target: Path) -> Path:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return replace(path, target)

    for moves in range(5):
        east.nodes.write_text("since")
        left[0] = moves
        with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
            patched.setattr(Path, "replace", killed)
            restore.restore_backup(east, file)
        restore.finish_restore(east)
        assert east.nodes.read_text() == OF_THE_BACKUP
        assert east.program == CLUSTER
        assert not east.restoring.exists()


def test_a_backup_is_restored_only_to_the_program_that_it_was_made_of(
    east: DataDirectory, backup: Path, data_directory: DataDirectory, tmp_path: Path
) -> None:
    file = tmp_path / "of-a-cluster"
    backup_module.make_backup(east, file)
    with pytest.raises(PlatformError, match=r"is a backup of a cluster, and .* holds a whole platform"):
        restore.restore_backup(data_directory, file)
    with pytest.raises(PlatformError, match=r"is a backup of a whole platform, and .* holds a cluster"):
        restore.restore_backup(east, backup)
    east.membership.write_text('{"installation": "b", "id": "2", "name": "west"}')
    with pytest.raises(PlatformError, match=r"is a backup of cluster east, and .* belongs to west"):
        restore.restore_backup(east, file)


def test_a_backup_of_a_control_plane_makes_a_directory_that_of_a_control_plane(tmp_path: Path) -> None:
    control, elsewhere = DataDirectory(tmp_path / "control"), DataDirectory(tmp_path / "elsewhere")
    for each in (control, elsewhere):
        each.prepare()
    control.claim(CONTROL)
    declare(control.control, "kept")
    backup_module.make_backup(control, tmp_path / "backup")
    restore.restore_backup(elsewhere, tmp_path / "backup")
    assert elsewhere.program == CONTROL

"""What is wrong with a data folder, its database and its described machines is said before anything is started."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections import deque, namedtuple
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent.nvml import Gpu, Gpus, NoGpus, NvmlGpus
from fairpool.agent.state_directory import StateDirectory
from fairpool.cli.operation import _loop_health, _more
from fairpool.control.store import condition
from fairpool.model.problem import Problem
from fairpool.platform.address import Address, read_address
from fairpool.platform.data_directory import DataDirectory, PlatformError
from fairpool.platform.directory_lock import lock_holder, locked
from fairpool.platform.node_set import choose_nodes, described_nodes, nodes_summary, remember
from tests.fake_nvml import Device, FakeNvml

Usage = namedtuple("Usage", "total used free")


class TwoGpus(NoGpus):
    """A machine with real ones."""

    def devices(self) -> tuple[Gpu, ...]:
        return tuple(Gpu(index=index, uuid=f"GPU-{index}", name="NVIDIA L4", memory_mib=23034) for index in range(2))


# --- the folder


@pytest.mark.parametrize(
    ("number", "code"),
    [
        pytest.param(errno.ENOSPC, "data.full", id="full"),
        pytest.param(errno.EROFS, "data.read_only", id="read-only"),
        pytest.param(errno.EACCES, "data.read_only", id="not ours"),
        pytest.param(errno.ENOTDIR, "data.not_a_folder", id="below a file"),
        pytest.param(errno.EIO, "data.unusable", id="broken"),
    ],
)
def test_a_disk_that_does_not_take_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, code: str) -> None:
    def fail(data_directory: DataDirectory) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(DataDirectory, "_try_to_write", fail)
    with pytest.raises(PlatformError) as refusal:
        DataDirectory(tmp_path / "data").prepare()
    assert refusal.value.problem.code == code
    assert str(tmp_path / "data") in refusal.value.problem.what


def test_a_disk_that_is_almost_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 5 << 20))
    with pytest.raises(PlatformError, match="5 MiB free, 64 MiB needed"):
        DataDirectory(tmp_path / "data").prepare()


def test_only_one_uses_a_folder(tmp_path: Path) -> None:
    data_directory = DataDirectory(tmp_path)
    with locked(data_directory, "up") as reachable_at:
        reachable_at("http://127.0.0.1:1")
        holder = lock_holder(data_directory)
        assert holder is not None
        assert holder.address == "http://127.0.0.1:1"
        with pytest.raises(PlatformError, match="already running at http"), locked(data_directory, "up"):
            pass
    assert lock_holder(data_directory) is None


def test_a_folder_that_others_could_read_is_closed_to_them(tmp_path: Path) -> None:
    data_directory = DataDirectory(tmp_path / "data")
    for folder in (data_directory.root, data_directory.machine):
        folder.mkdir()
        folder.chmod(0o755)
    for file in (data_directory.control, data_directory.ledger, Path(f"{data_directory.control}-wal")):
        file.touch()
        file.chmod(0o644)
    assert (
        data_directory.prepare()
        == f"other users could read the data directory {data_directory.root}; its permissions are now restricted to you"
    )
    assert [
        path for path in (data_directory.root, *data_directory.root.rglob("*")) if path.stat().st_mode & 0o077
    ] == []
    assert data_directory.prepare() == ""
    data_directory.root.chmod(0o770)
    assert "other users could write to" in data_directory.prepare()


@pytest.mark.parametrize("name", ["", "machine", "machine/images.toml", "control.sqlite"])
def test_files_of_another_user_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    data_directory = DataDirectory(tmp_path / "data")
    data_directory.prepare()
    data_directory.machine.mkdir()
    for file in (data_directory.machine / "images.toml", data_directory.control):
        file.touch()
    plain = Path.stat

    def owned_by_another_user(path: Path, **options: Any) -> os.stat_result:
        found = plain(path, **options)
        return os.stat_result((*found[:4], 54321, *found[5:])) if path == data_directory.root / name else found

    monkeypatch.setattr(Path, "stat", owned_by_another_user)
    with pytest.raises(PlatformError, match="belongs to user 54321"):
        data_directory.prepare()
    with pytest.raises(PlatformError, match="belongs to user 54321"), locked(data_directory, "down"):
        pass


def test_the_agents_own_folders_are_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "machine").mkdir(mode=0o755)
    StateDirectory(tmp_path / "machine").prepare()
    folders = [path for path in (tmp_path / "machine").rglob("*") if path.is_dir()]
    assert [path for path in (tmp_path / "machine", *folders) if path.stat().st_mode & 0o077] == []


def test_a_folder_that_cannot_be_held_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object, **__: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(PlatformError, match="read-only file system"), locked(DataDirectory(tmp_path), "down"):
        pass


def test_a_clock_that_was_set_forward_makes_no_loop_stuck() -> None:
    loop = {"is_alive": True, "error": "", "cycles": 3, "last_cycle_at_ms": 0}
    assert _loop_health({**loop, "last_cycle_ago_s": 4.0}) == "healthy"
    assert _loop_health({**loop, "last_cycle_ago_s": 40.0}) == "stuck: no cycle for 40 s"


def test_a_log_that_is_followed_loses_nothing_when_it_is_rotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "fairpool.log"
    path.write_text("first\n")
    meanwhile = iter(["nothing", "rotation", "nothing", "rotation", "nothing"])

    def rest(_: float) -> None:
        event = next(meanwhile, "the end")
        if event == "rotation":
            with path.open("a") as old:
                old.write("last of the old\n")
            path.rename(tmp_path / "fairpool.log.1")
            path.write_text("first of the new\n")
        if event == "the end":
            raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", rest)
    shown: list[str] = []
    with pytest.raises(KeyboardInterrupt):
        deque(map(shown.append, _more(path, path.open())), maxlen=0)
    assert "".join(shown) == "first\n" + 2 * "last of the old\nfirst of the new\n"


# --- the database


def database(path: Path, *statements: str) -> Path:
    with closing(sqlite3.connect(path)) as connection, connection:
        for each in statements:
            connection.execute(each)
    return path


def at_version(path: Path, version: str) -> Path:
    return database(
        path, "CREATE TABLE alembic_version (version_num)", f"INSERT INTO alembic_version VALUES ({version!r})"
    )


def test_a_database_that_must_not_be_opened(tmp_path: Path) -> None:
    newer = condition.problem_with_database(at_version(tmp_path / "newer", "9999"))
    other = condition.problem_with_database(database(tmp_path / "other", "CREATE TABLE x (y)"))
    (tmp_path / "text").write_text("hello " * 1000)
    damaged = condition.problem_with_database(tmp_path / "text")
    codes = [each.code for each in (newer, other, damaged) if each is not None]
    assert codes == ["database.newer", "database.foreign", "database.damaged"]
    assert condition.problem_with_database(tmp_path / "none") is None


def test_an_older_database_is_kept_before_it_is_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(condition, "known_versions", lambda: ["0001", "0002"])
    older, current = at_version(tmp_path / "older", "0001"), at_version(tmp_path / "current", "0002")
    assert condition.problem_with_database(older) is None
    copy = condition.keep_if_older(older)
    assert copy == tmp_path / "older.0001-backup"
    assert condition.version_of(copy) == "0001"
    assert condition.keep_if_older(current) is None


# --- the address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        pytest.param("127.0.0.1:80", Address("127.0.0.1", 80), id="both"),
        pytest.param("9000", Address("127.0.0.1", 9000), id="a port"),
        pytest.param("0.0.0.0", Address("0.0.0.0", 8080), id="a host"),
        pytest.param(":9000", Address("127.0.0.1", 9000), id="a port, as some write it"),
        pytest.param("[::1]:9000", Address("::1", 9000), id="IPv6"),
        pytest.param("a:70000", None, id="too high"),
        pytest.param("a b:1", None, id="no host"),
    ],
)
def test_addresses(text: str, address: Address | None) -> None:
    found = read_address(text)
    assert isinstance(found, Problem) if address is None else found == address


# --- the machines


def test_machines_are_numbered_by_model() -> None:
    nodes = described_nodes(["1x8", "2x4:A100-40GB", "1x2:A100"], ["name=big,gpus=1,model=H200"])
    assert not isinstance(nodes, list)
    assert [(each.node.name, each.node.gpus, each.node.gpu_memory_mib) for each in nodes] == [
        ("dgx1-1", 8, 32510),
        ("a100-1", 4, 40960),
        ("a100-2", 4, 40960),
        ("a100-3", 2, 81920),
        ("big", 1, 144384),
    ]
    assert "simulated" in nodes_summary(nodes)


@pytest.mark.parametrize(
    ("model", "mib"),
    [
        ("V100-32GB", 32510),
        ("V100-16GB", 16160),
        ("A10", 23028),
        ("a10", 23028),
        ("A10-24GB", 23028),
        ("A10-12GB", 12288),
    ],
)
def test_a_simulated_gpu_has_the_memory_that_the_driver_shows(model: str, mib: int) -> None:
    """F-76."""
    nodes = described_nodes([f"1x1:{model}"], [])
    assert not isinstance(nodes, list)
    assert nodes[0].node.gpu_memory_mib == mib


def test_all_that_is_wrong_with_a_description_is_said_at_once() -> None:
    problems = described_nodes(["8", "0x8"], ["gpus=4", "name=x,gpus=many"])
    assert isinstance(problems, list)
    assert [each.code for each in problems] == [
        "nodes.unreadable",
        "nodes.too_many",
        "nodes.no_name",
        "nodes.unreadable",
    ]


@pytest.mark.parametrize(
    "gpus",
    [
        pytest.param(NoGpus("the driver does not answer (Driver/library version mismatch)"), id="driver"),
        pytest.param(NvmlGpus(FakeNvml(Device(is_lost=True))), id="device"),
    ],
)
def test_a_machine_whose_gpus_cannot_be_used_says_why_its_nodes_are_simulated(tmp_path: Path, gpus: Gpus) -> None:
    chosen = choose_nodes(tmp_path / "nodes.json", [], [], gpus)
    assert isinstance(chosen, tuple)
    assert chosen[0].nodes[0].is_simulated
    assert "the nodes are simulated instead (check `nvidia-smi`)" in chosen[0].warning
    asked_for = choose_nodes(tmp_path / "nodes.json", ["simulated"], [], gpus)
    assert isinstance(asked_for, tuple)
    assert asked_for[0].warning == ""


def test_real_gpus_that_are_gone_are_not_replaced_by_simulated_ones(tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    first = choose_nodes(file, [], [], TwoGpus())
    assert isinstance(first, tuple)
    assert not first[0].nodes[0].is_simulated
    remember(file, first[1])
    without = choose_nodes(file, [], [], NoGpus())
    assert isinstance(without, list)
    assert [each.code for each in without] == ["nodes.gpus_gone"]
    silent = choose_nodes(file, [], [], NoGpus("NVIDIA's driver does not answer"))
    assert isinstance(silent, list)
    assert "are not found now: NVIDIA's driver does not answer" in silent[0].what
    chosen = choose_nodes(file, ["simulated"], [], NoGpus())
    assert isinstance(chosen, tuple)
    assert "removed" in chosen[0].warning

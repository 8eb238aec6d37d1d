"""What is wrong with a data folder, its database and its described machines is said before anything is started."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from collections import namedtuple
from contextlib import closing
from pathlib import Path

import pytest

from fairpool.agent.nvml import Gpu, Gpus, NoGpus, NvmlGpus
from fairpool.cli.compose.address import Address, read_address
from fairpool.cli.compose.machines import choose_nodes, described_nodes, remember, summary
from fairpool.cli.compose.premises import Premises, Unusable, occupant, occupied
from fairpool.control.store import condition
from fairpool.model.problem import Problem
from tests.nvml_stand_in import Device, NvmlStandIn

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
    def fail(premises: Premises) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(Premises, "_try_to_write", fail)
    with pytest.raises(Unusable) as refusal:
        Premises(tmp_path / "data").prepare()
    assert refusal.value.problem.code == code
    assert str(tmp_path / "data") in refusal.value.problem.what


def test_a_disk_that_is_almost_full(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: Usage(1, 1, 5 << 20))
    with pytest.raises(Unusable, match="5 MiB are left"):
        Premises(tmp_path / "data").prepare()


def test_only_one_uses_a_folder(tmp_path: Path) -> None:
    premises = Premises(tmp_path)
    with occupied(premises, "up") as reachable_at:
        reachable_at("http://127.0.0.1:1")
        holder = occupant(premises)
        assert holder is not None
        assert holder.address == "http://127.0.0.1:1"
        with pytest.raises(Unusable, match="already up at http"), occupied(premises, "up"):
            pass
    assert occupant(premises) is None


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
    newer = condition.problem_with(at_version(tmp_path / "newer", "9999"))
    other = condition.problem_with(database(tmp_path / "other", "CREATE TABLE x (y)"))
    (tmp_path / "text").write_text("hello " * 1000)
    damaged = condition.problem_with(tmp_path / "text")
    codes = [each.code for each in (newer, other, damaged) if each is not None]
    assert codes == ["database.newer", "database.foreign", "database.damaged"]
    assert condition.problem_with(tmp_path / "none") is None


def test_an_older_database_is_kept_before_it_is_changed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(condition, "known_versions", lambda: ["0001", "0002"])
    older, current = at_version(tmp_path / "older", "0001"), at_version(tmp_path / "current", "0002")
    assert condition.problem_with(older) is None
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
    assert "simulated" in summary(nodes)


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
        pytest.param(NvmlGpus(NvmlStandIn(Device(is_lost=True))), id="device"),
    ],
)
def test_a_machine_whose_gpus_cannot_be_used_says_why_its_nodes_are_simulated(tmp_path: Path, gpus: Gpus) -> None:
    chosen = choose_nodes(tmp_path / "nodes.json", [], [], gpus)
    assert isinstance(chosen, tuple)
    assert chosen[0].nodes[0].is_simulated
    assert "so the nodes are simulated; see what `nvidia-smi` says" in chosen[0].warning
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
    assert "cannot be found now: NVIDIA's driver does not answer" in silent[0].what
    chosen = choose_nodes(file, ["simulated"], [], NoGpus())
    assert isinstance(chosen, tuple)
    assert "left" in chosen[0].warning

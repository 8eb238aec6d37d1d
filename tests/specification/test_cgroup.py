"""Limits by control groups of version 2, on a stand-in that keeps the kernel's rules about who may divide a group.

What the files do is the kernel's business; these tests are about which are written, where and in which order. Version 1
is tried for real in tests/end_to_end/test_local_engine.py, where the machine has it.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from fairpool.agent import cgroup
from fairpool.agent.cgroup import LEAF, Cgroup, find_limiter

PLAIN_FILES = ("cpu.max", "memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cgroup.procs")


class Groups:
    """Folders that behave like groups of version 2 below one that we were given."""

    def __init__(self, root: Path, own: str, *members: int) -> None:
        self.root, self.own = root, root / own
        self.make(self.own)
        (self.own / "cgroup.procs").write_text("".join(f"{pid}\n" for pid in members))

    def make(self, group: Path) -> None:
        """As mkdir does there: the files come by themselves, and controllers from the group above."""
        group.mkdir(parents=True, exist_ok=True)
        (group / "cgroup.controllers").write_text("cpu memory pids")
        for name in ("cgroup.procs", "cgroup.subtree_control"):
            (group / name).touch()

    def makedirs(self, folder: str, exist_ok: bool = False) -> None:
        self.make(Path(folder))

    def write(self, path: str, text: str) -> None:
        file, group = Path(path), Path(path).parent
        if file.name == "cgroup.subtree_control" and (group / "cgroup.procs").read_text():
            raise OSError(errno.EBUSY, "Device or resource busy")
        if file.name == "cgroup.procs":
            if (group / "cgroup.subtree_control").read_text():
                raise OSError(errno.EBUSY, "Device or resource busy")
            for other in self.root.rglob("cgroup.procs"):
                left = [line for line in other.read_text().split() if line != text]
                other.write_text("".join(f"{pid}\n" for pid in left))
            text = f"{file.read_text()}{text}\n"
        file.write_text(text)

    def members(self, group: Path) -> list[int]:
        return [int(pid) for pid in (group / "cgroup.procs").read_text().split()]


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Groups:
    return placed(Groups(tmp_path, "fairpool.service", os.getpid()), monkeypatch)


def placed(groups: Groups, monkeypatch: pytest.MonkeyPatch, *, delegated: bool = True) -> Groups:
    monkeypatch.setattr(cgroup, "_hierarchies", lambda: (str(groups.root), {}))
    monkeypatch.setattr(cgroup, "_own_group", lambda mounted, controller: str(groups.own))
    monkeypatch.setattr(cgroup, "_is_delegated", lambda group: delegated)
    monkeypatch.setattr(cgroup, "write_kernel_file", groups.write)
    monkeypatch.setattr(os, "makedirs", groups.makedirs)
    return groups


def test_a_service_moves_to_a_leaf_so_that_its_group_can_be_divided(groups: Groups) -> None:
    limiter = find_limiter("pods")
    assert limiter.missing == ""
    assert (limiter.version, limiter.cpu) == (2, str(groups.own / "pods"))
    assert groups.members(groups.own) == []
    assert groups.members(groups.own / LEAF) == [os.getpid()]
    assert (groups.own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_who_is_in_the_leaf_already_makes_groups_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = placed(Groups(tmp_path, f"fairpool.service/{LEAF}", os.getpid()), monkeypatch)
    groups.make(groups.own.parent)
    limiter = find_limiter("pods")
    assert (limiter.missing, limiter.cpu) == ("", str(groups.own.parent / "pods"))
    assert groups.members(groups.own) == [os.getpid()]


def test_a_group_that_others_are_in_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    groups = placed(Groups(tmp_path, "session.scope", os.getpid(), os.getppid()), monkeypatch)
    limiter = find_limiter("pods")
    assert f"process {os.getppid()}, " in limiter.missing
    assert "it also contains process" in limiter.missing
    assert groups.members(groups.own) == [os.getpid(), os.getppid()]


def test_a_group_that_systemd_keeps_for_itself_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = placed(Groups(tmp_path, "fairpool.service", os.getpid()), monkeypatch, delegated=False)
    assert f"set Delegate=yes and DelegateSubgroup={LEAF}" in find_limiter("pods").missing
    assert groups.members(groups.own) == [os.getpid()]


def test_a_limit_on_memory_holds_with_swap_and_for_all_processes_of_a_pod(groups: Groups) -> None:
    limiter = find_limiter("pods")
    pod = groups.own / "pods" / "a"
    groups.make(pod)
    for name in PLAIN_FILES:
        (pod / name).touch()
    Cgroup(limiter.to_json(), "a").make(1500, 1 << 30)
    assert {name: (pod / name).read_text() for name in PLAIN_FILES} == {
        "cpu.max": "150000 100000",
        "memory.max": str(1 << 30),
        "memory.swap.max": "0",
        "memory.oom.group": "1",
        "pids.max": str(cgroup.PROCESSES_MAX),
        "cgroup.procs": "",
    }
    os.unlink(pod / "memory.swap.max")  # a kernel that was started without it
    Cgroup(limiter.to_json(), "a").make(0, 1 << 20)
    assert not (pod / "memory.swap.max").exists()

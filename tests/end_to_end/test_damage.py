"""Disks that fill up and files that were cut: a machine starts with them or says what is wrong, and loses nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fairpool.agent import namespaces
from fairpool.agent.state_directory import UnknownInstallation
from fairpool.engines.local import LocalEngine
from fairpool.model.ids import Token
from tests.local_machine import Machine, a_machine

pytestmark = pytest.mark.slow


def error_of(machine: Machine) -> str:
    """Why it does not start; empty: it does."""
    try:
        engine = LocalEngine(machine.root, nodes=machine.nodes)
    except UnknownInstallation as error:
        return error.problem.what
    engine.observe(Token(2))
    engine.close()
    return ""


def test_a_machine_starts_whichever_of_its_files_was_cut_or_says_which_it_was(tmp_path: Path) -> None:
    with a_machine(tmp_path / "data") as machine:
        machine.forget(machine.run("gone", "echo", "hello").order.pod)
        machine.run("kept", "echo", "hello")
        files = [path for path in machine.root.rglob("*") if path.is_file() and path.name != "token"]
        shared = [path for path in files if machine.root / "pods" not in path.parents]
        assert {"installation", "images.toml", "trainer.py", "log.0"} <= {path.name for path in shared}
        named = set()
        for path in shared:
            whole = path.read_bytes()
            for damage in (b"", whole[: len(whole) // 2], b"\0" * 64, b"\xff" * 64):
                path.write_bytes(damage)
                words = error_of(machine)
                assert words == "" or str(path) in words
                named.update([path.name] if words else [])
                path.write_bytes(whole)
        assert named == {"installation"}


FULL = """
import json, os, sys
from pathlib import Path
from fairpool.agent import mounts, namespaces
from fairpool.platform import backup as backup_module, restore
from fairpool.platform.data_directory import DataDirectory, PlatformError
from tests.specification.test_archive import declare, declared

folder = Path(sys.argv[1])
namespaces.enter(namespaces.CLONE_NEWNS)
mounts.mount("none", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
mounts.mount("tmpfs", str(folder / "data"), "tmpfs", 0, "size=4m,mode=700")
data_directory = DataDirectory(folder / "data")
data_directory.machine.mkdir()
declare(data_directory.control, "kept")
backup_module.make_backup(data_directory, folder / "backup")
declare(data_directory.control, "later", keep_journal=True)
with open(data_directory.root / "filler", "wb", buffering=0) as filler:
    try:
        while filler.write(bytes(4096)):
            pass
    except OSError:
        pass
before = os.listdir(data_directory.root)
answers = []
backup_module.make_backup(data_directory, folder / "another")
try:
    restore.restore_backup(data_directory, folder / "backup")
except PlatformError as error:
    answers.append(error.problem.what)
new = [name for name in os.listdir(data_directory.root) if name not in before]
os.unlink(data_directory.root / "filler")
rows = declared(data_directory.control)
restore.restore_backup(data_directory, folder / "another")
print(json.dumps([answers, new, rows, declared(data_directory.control)]))
"""


def test_a_full_disk_takes_a_backup_and_no_restore(tmp_path: Path) -> None:
    why = namespaces.permitted(namespaces.CLONE_NEWNS)
    if why:
        pytest.skip(f"this machine permits no mount namespaces: {why}")
    (tmp_path / "data").mkdir()
    ran = subprocess.run([sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    answers, new, rows, restored = json.loads(ran.stdout)
    assert len(answers) == 1
    assert "no space left" in answers[0] or "disk is full" in answers[0]
    assert new in ([], ["control.sqlite-shm"]), "SQLite tried to read"
    assert rows == restored == ["kept", "later"]

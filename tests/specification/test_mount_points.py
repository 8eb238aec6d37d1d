"""Mount points in volumes that users have filled, and that they change while a pod starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fairpool.agent import namespaces

USER, GROUP = 65534, 5000
BIND = """
import ctypes, json, os, signal, sys, time
from fairpool.agent import mounts, namespaces
data, wanted = sys.argv[1], json.loads(sys.argv[2])
user = [65534, 65534] if os.geteuid() == 0 else None
groups = [5000] if user else []

def bind():
    inside = os.geteuid() != 0
    namespaces.enter(namespaces.CLONE_NEWNS)
    mounts.make_private()
    sources = [mounts.copy_mounts(os.open(each["source"], os.O_PATH | os.O_CLOEXEC)) for each in wanted]
    mounts.mount("tmpfs", f"{data}/pod", "tmpfs", 0, "mode=755,size=1m")
    mounts.bind_all(wanted, sources, f"{data}/staging", inside, is_isolated=True, user=user, groups=groups)
"""
ONCE = f"""{BIND}
try:
    bind()
    print("bound", sorted(os.listdir(wanted[-1]["target"])))
except OSError as error:
    print(error.strerror)
"""
RACE = f"""{BIND}
def exchange():
    libc, at_fdcwd = ctypes.CDLL(None), -100
    while True:
        libc.renameat2(at_fdcwd, f"{{data}}/claim/d".encode(), at_fdcwd, f"{{data}}/claim/l".encode(), 2)

other = os.fork()
if other == 0:
    exchange()
ends = []
for number in range(150):
    child = os.fork()
    if child == 0:
        try:
            bind()
        except OSError:
            os._exit(1)
        os._exit(0)
    ends.append(os.waitpid(child, 0)[1])
os.kill(other, signal.SIGKILL)
os.waitpid(other, 0)
print(len(ends))
"""


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    why = namespaces.permitted(namespaces.CLONE_NEWNS)
    if why:
        pytest.skip(f"this machine permits no mount namespaces: {why}")
    for folder in ("claim/d", "machine", "small", "pod", "staging"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "machine/kept").write_text("all of it\n")
    (tmp_path / "small/key").write_text("value\n")
    if os.geteuid() == 0:
        os.chown(tmp_path / "claim", USER, USER)
    return tmp_path


def _run(script: str, ground: Path, inner: str, source: str = "small", *, is_judged: bool = True) -> str:
    """A claim at /pvc, a directory of the machine at /data, and a volume whose mount point is in the claim."""
    pod = f"{ground}/pod"
    wanted = [
        {"source": f"{ground}/claim", "target": f"{pod}/pvc", "mode": "rw"},
        {"source": f"{ground}/machine", "target": f"{pod}/data", "mode": "rw", "is_judged": is_judged},
        {"source": f"{ground}/{source}", "target": f"{pod}/{inner}", "mode": "ro"},
    ]
    command = [sys.executable, "-c", script, str(ground), json.dumps(wanted)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.stderr == ""
    return ran.stdout.strip()


def _is_untouched(ground: Path) -> bool:
    kept = ground / "machine/kept"
    return os.listdir(ground / "machine") == ["kept"] and kept.read_text() == "all of it\n"


@pytest.mark.slow
@pytest.mark.parametrize("source", ["small", "small/key"], ids=["a directory", "a file"])
@pytest.mark.parametrize("name", ["new", "new/deeper", "kept"])
def test_a_link_in_a_claim_leads_to_no_mount_point_elsewhere(ground: Path, name: str, source: str) -> None:
    (ground / "claim/l").symlink_to(f"{ground}/pod/data")
    answer = _run(ONCE, ground, f"pvc/l/{name}", source)
    assert "/pvc/l is a symbolic link in a volume: nothing can be mounted there or below it" in answer
    assert _is_untouched(ground)


@pytest.mark.slow
def test_a_link_is_no_mount_point_itself(ground: Path) -> None:
    (ground / "claim/l").symlink_to(f"{ground}/pod/data/kept")
    assert "is a symbolic link in a volume" in _run(ONCE, ground, "pvc/l", "small/key")
    assert _is_untouched(ground)


@pytest.mark.slow
def test_a_link_to_an_open_descriptor_leads_nowhere(ground: Path) -> None:
    for number in range(3, 24):
        (ground / f"claim/f{number}").symlink_to(f"/proc/self/fd/{number}")
        (ground / f"claim/cwd{number}").symlink_to("/proc/self/cwd")
    for number in range(3, 12):
        for name in (f"f{number}", f"cwd{number}"):
            assert "is a symbolic link in a volume" in _run(ONCE, ground, f"pvc/{name}/made"), name
    assert _is_untouched(ground)
    assert os.listdir(ground / "small") == ["key"]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["small", "small/key"], ids=["a directory", "a file"])
@pytest.mark.parametrize("name", ["new", "kept"])
def test_a_directory_that_is_exchanged_for_a_link_meanwhile_changes_nothing(
    ground: Path, name: str, source: str
) -> None:
    (ground / "claim/l").symlink_to(f"{ground}/pod/data")
    assert _run(RACE, ground, f"pvc/d/{name}", source, is_judged=False) == "150"
    assert _is_untouched(ground)


@pytest.mark.slow
def test_a_mount_point_that_a_claim_lacks_is_created_as_the_pods_user(ground: Path) -> None:
    assert _run(ONCE, ground, "pvc/some/where") == "bound ['key']"
    made = ground / "claim/some/where"
    assert (made.is_dir(), list(made.iterdir())) == (True, [])
    expected = USER if os.geteuid() == 0 else os.geteuid()
    assert {made.stat().st_uid, made.parent.stat().st_uid} == {expected}


@pytest.mark.slow
def test_a_mount_point_is_created_in_a_claim_of_a_group_that_the_pods_user_is_in(ground: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can choose the user of a pod")
    os.chown(ground / "claim", USER + 1, GROUP)
    (ground / "claim").chmod(0o2770)
    assert _run(ONCE, ground, "pvc/some/where") == "bound ['key']"
    made = (ground / "claim/some/where").stat()
    assert (made.st_uid, made.st_gid) == (USER, GROUP)


@pytest.mark.slow
def test_a_mount_point_is_not_created_where_only_we_could(ground: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may create what the pod's user may not")
    os.chown(ground / "claim", 0, 0)
    assert "cannot be created (Permission denied): create it there first" in _run(ONCE, ground, "pvc/some/where")
    assert os.listdir(ground / "claim") == ["d"]


@pytest.mark.slow
def test_a_mount_point_in_a_directory_of_the_machine_must_exist(ground: Path) -> None:
    assert "in the volume around it: create it there first" in _run(ONCE, ground, "data/new")
    assert _is_untouched(ground)


@pytest.mark.slow
def test_links_of_the_machine_itself_are_followed(ground: Path) -> None:
    (ground / "link").symlink_to("pod")
    assert _run(ONCE, ground, "../link/pvc/d") == "bound ['key']"
    assert os.listdir(ground / "claim/d") == []

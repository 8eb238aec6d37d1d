"""A pod's own view of the machine, made in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fairpool.agent import namespaces

SCRIPT = """
import os, sys
from fairpool.agent import mounts, namespaces
data, has_call = sys.argv[1], sys.argv[2] == "True"
namespaces.enter(namespaces.CLONE_NEWNS)
mounts.mount("none", "/", "", mounts.MS_REC | mounts.MS_PRIVATE)
inner = f"{data}/source/in ner"
mounts.mount("tmpfs", inner, "tmpfs", 0, "size=1m")
open(f"{inner}/old", "w").close()
if not has_call:
    mounts._SYS_MOUNT_SETATTR = 9999
mounts.bind_mounts(
    [{"source": f"{data}/source", "target": f"{data}/target", "mode": "ro"}], f"{data}/staging", os.geteuid() != 0
)
for place in ("new", "in ner/new", "in ner/old"):
    try:
        open(f"{data}/target/{place}", "w").close()
        print("written:", place)
    except OSError as error:
        print(error.strerror)
open(f"{inner}/new", "w").close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("has_call", [True, False], ids=["in one call", "mount by mount"])
def test_a_read_only_volume_is_so_with_all_that_is_mounted_in_it(tmp_path: Path, has_call: bool) -> None:
    why = namespaces.permitted(namespaces.CLONE_NEWNS)
    if why:
        pytest.skip(f"this machine permits no mount namespaces: {why}")
    for folder in ("source/in ner", "target", "staging"):
        (tmp_path / folder).mkdir(parents=True)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(has_call)], capture_output=True, text=True, check=False
    )
    assert (ran.stdout.splitlines(), ran.stderr) == (["Read-only file system"] * 3, "")

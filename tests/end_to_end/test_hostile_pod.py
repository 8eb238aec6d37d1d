"""A hostile pod tries everything it can think of, under a server that is root and under one that is an ordinary user.

What is tried is in `tests/hostile_pod.py` (from inside) and `tests/hostile_world.py` (with what the machine does about
it). Where CI runs, both must run: there a skip is a failure.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile_pod import ATTEMPTS
from tests.local_machine import TIMEOUT_S
from tests.needs import skip_unless_ci
from tests.ordinary_user import run_as_ordinary_user

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
AROUND = [
    *("reports", "fork bomb", "log flood", "deep folders", "volumes", "commands beside it", "reading an exec process"),
    *("its own folder", "its shim", "projects", "a user of a directory", "the neighbour"),
]
USERS = ["root", "an ordinary user"]


@pytest.fixture(scope="module", params=USERS)
def outcome(request: pytest.FixtureRequest) -> Iterator[dict[str, str | None]]:
    """What each attempt got, by its name."""
    if request.param == "root" and os.geteuid() != 0:
        skip_unless_ci("pods under a server that is root: these tests do not run as root")
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    try:
        yield tried(request.param, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def tried(user: str, folder: Path) -> dict[str, str | None]:
    command = [sys.executable, "-m", "tests.hostile_world", str(folder)]
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "CI") if name in os.environ}
    if user == "root":
        environment = {**kept, "HOME": str(folder), "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=4 * TIMEOUT_S, check=False
        )
    else:
        ran = run_as_ordinary_user(command, folder, kept, 4 * TIMEOUT_S)
    lines = [line for line in ran.stdout.splitlines() if line.startswith("[")]
    found: dict[str, str | None] = dict(json.loads(line) for line in lines)
    if why := found.get("permitted"):
        skip_unless_ci(f"this machine does not let {user} isolate pods: {why}")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return found


@pytest.mark.parametrize("name", [*ATTEMPTS, *AROUND])
def test_a_hostile_pod_is_held(outcome: dict[str, str | None], name: str) -> None:
    assert outcome.get(name, "was not tried") is None

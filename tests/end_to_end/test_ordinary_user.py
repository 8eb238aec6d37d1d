"""The platform of an ordinary user: their own folder is mounted into their jobs, and can be written to."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from tests.ordinary_day import PATIENCE_S
from tests.ordinary_user import run_as_ordinary_user

pytestmark = pytest.mark.slow


def test_an_ordinary_user_runs_a_script_in_their_own_folder() -> None:
    """Decision 79: mounted where the caller owns it, copied where files are to be left out."""
    folder = Path(tempfile.mkdtemp(prefix="ordinary-"))
    try:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "CI") if name in os.environ}
        command = [sys.executable, "-m", "tests.ordinary_day", str(folder)]
        ran = run_as_ordinary_user(command, folder, kept, 8 * PATIENCE_S)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    said = {line: (code, out, err) for line, code, out, err in map(json.loads, ran.stdout.splitlines())}
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert all(code == 0 for code, _, _ in said.values()), said
    uid = said["logs mounted"][1].split()[3]
    assert said["logs mounted"][1] == f"from the folder {uid} /workdir\n"
    assert said["logs copied"][1] == f"from the folder {uid} /workdir\n"
    assert said["logs volume"][1] == "from the folder"
    assert said["logs gang"][1] == "gang-worker-0\n", "a launcher reaches its worker"
    assert said["result"][1] == "done", "the job wrote into the folder itself"
    mounted = next(err for line, (_, _, err) in said.items() if line.startswith("submit mounted"))
    copied = next(err for line, (_, _, err) in said.items() if line.startswith("submit copied"))
    assert "the job uses the folder itself" in mounted
    assert "the job uses the folder itself" not in copied
    assert ".env" in copied

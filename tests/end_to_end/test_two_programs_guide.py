"""Every shell command of `docs/guides/two-programs.md` runs, in order, as it stands there."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running_platform import Running

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "two-programs.md"
TIMEOUT_S = 900
PROGRAMS = ("control", "east", "west")


@pytest.mark.slow
def test_the_guide_to_two_programs_runs(tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL))
    for port in ("8080", "8081", "8082"):  # 8081 is a default that the page only names
        script = script.replace(f":{port}", f":{free_port()}")
    assert script.count("fairpool cluster") == 2
    health = re.search(r"http://(127\.0\.0\.1:\d+)/readyz", script)
    assert health is not None
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    environment = {
        **kept,
        "FAIRPOOL_CONFIG": str(tmp_path / "config"),
        "FAIRPOOL_HEALTH_LISTEN": health[1],
        "FAIRPOOL_DISK_RESERVE": "32MiB",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    (tmp_path / "here").mkdir()
    try:
        done = subprocess.run(
            ["bash", "-e", "-x", "-c", script],
            cwd=tmp_path / "here",
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"east +Connected", done.stdout), done.stdout
        assert re.search(r"hello +Succeeded", done.stdout), done.stdout
        assert "\nhello\n" in done.stdout, "the log of the job, through the tunnel"
    finally:
        for name in PROGRAMS:
            left = Running(tmp_path / "here" / name)
            left.command("down", *(() if name == "control" else ("--stop-pods",)))
            assert left.leftovers() == []


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])

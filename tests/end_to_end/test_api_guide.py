"""Every command of the guide to the API does what the guide says, with curl, against a served control plane."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from fairpool.control.settings import FIRST_PASSWORD
from tests.end_to_end.runai_server import Server, serving

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "api.md"

pytestmark = pytest.mark.slow


def _cluster(server: Server, over: threading.Event) -> None:
    """Lets everything run that is declared."""
    reported: set[str] = set()
    while not over.wait(0.1):
        for each in server.admin.all_workloads():
            if each.id not in reported and each.desired_phase == "Running":
                reported.add(each.id)
                server.runs(each.project_name, each.name)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_every_command_of_the_guide_works(tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    script = "set -eu\n" + "\n".join(f"echo; echo '== {number}'\n{block}" for number, block in enumerate(blocks))
    with serving(tmp_path) as server:
        over = threading.Event()
        cluster = threading.Thread(target=_cluster, args=(server, over))
        cluster.start()
        try:
            done = subprocess.run(
                ["bash", "-c", script],
                env={"PATH": "/usr/local/bin:/usr/bin:/bin", "FAIRPOOL": server.address, "PASSWORD": FIRST_PASSWORD},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        finally:
            over.set()
            cluster.join()
    assert done.returncode == 0, (done.stdout[-3000:], done.stderr)
    said = re.split(r"^== \d+$", done.stdout, flags=re.MULTILINE)[1:]
    assert '"username":"test@run.ai"' in said[0]
    assert '"tempPassword":' in said[1]
    assert '"phase":"running"' in said[2]
    assert '"name":"hello"' in said[3]
    assert '"field":"spec.compute.gpu"' in said[4]
    assert '"description":"language models"' in said[5]
    assert "event: workload" in said[6]
    assert '"succeeded":["' in said[7]
    assert '"choices":{"workloads=delete"' in said[8]
    assert said[9].count("\n") >= 4

"""`runai logs -f` while `fairpool cluster` or `fairpool control` is stopped or killed: no line is lost or repeated."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.end_to_end.test_two_programs_tunnel import COUNT, is_refused, running
from tests.running_platform import PATIENCE_S
from tests.two_programs import ClusterProcess, ControlProcess

pytestmark = pytest.mark.slow


class Follower:
    """`runai logs -f` in a process of its own."""

    def __init__(self, config: Path, *flags: str) -> None:
        command = [sys.executable, "-m", "fairpool.cli.runai.main", "logs", "job", "-f", "-p", "team-a", *flags]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FAIRPOOL_")}
        self._process = subprocess.Popen(
            command,
            env={**environment, "FAIRPOOL_CONFIG": str(config)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.text = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        while piece := os.read(self._process.stdout.fileno(), 65536):
            self.text += piece

    def until_more(self, lines: int) -> None:
        goal = self.text.count(b"\n") + lines
        end = time.monotonic() + PATIENCE_S
        while self.text.count(b"\n") < goal:
            assert time.monotonic() < end, self.text[-200:]
            assert self._process.poll() is None, self.ended()
            time.sleep(0.01)

    def ended(self) -> tuple[int, str]:
        """Its exit status, and what it said."""
        assert self._process.stderr is not None
        self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return self._process.returncode, self._process.stderr.read().decode()

    def numbers(self) -> list[int]:
        """Of all whole lines."""
        return [int(line) for line in self.text[: self.text.rindex(b"\n")].split(b"\n")]


def test_a_follower_goes_on_where_it_was_when_the_cluster_is_restarted_or_killed(
    control: ControlProcess, cluster: ClusterProcess, tmp_path: Path
) -> None:
    client = control.administrator()
    workload = running(client, COUNT)
    follower = Follower(tmp_path / "config")
    follower.until_more(50)
    cluster.down()
    cluster.up()
    follower.until_more(50)
    cluster.kill()
    cluster.up()
    follower.until_more(50)
    client.suspend(workload)
    code, said = follower.ended()
    assert code == 0, said
    assert follower.numbers() == list(range(len(follower.numbers()))), "every line once"


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_a_follower_goes_on_where_it_was_when_the_control_plane_is(
    how: str, control: ControlProcess, cluster: ClusterProcess, tmp_path: Path
) -> None:
    client = control.administrator()
    workload = running(client, COUNT)
    follower = Follower(tmp_path / "config")
    follower.until_more(50)
    if how == "killed":
        control.kill()
    else:
        control.down()
    control.up()
    client = control.administrator()
    cluster.until(lambda: not is_refused(client, workload), "the cluster is back")
    follower.until_more(50)
    client.suspend(workload)
    code, said = follower.ended()
    assert code == 0, said
    assert said.count("The connection to the server was lost") == 1
    assert follower.numbers() == list(range(len(follower.numbers()))), "what was written meanwhile is there, once"

"""Dry runs, live snapshots and forwarded ports, as typed against a real platform on this machine."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pod_programs import UPPERCASE_SERVER
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow


class User:
    """A signed-in user with a terminal."""

    def __init__(self, platform: Running, folder: Path) -> None:
        self.platform, self.folder = platform, folder
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_", "COLUMNS"))
        }
        own = {"FAIRPOOL_CONFIG": str(folder / "config"), "FAIRPOOL_SERVER": str(platform.status["address"])}
        self.environment = kept | own
        assert platform.client.projects()
        platform.sign_in(folder / "config")
        self.types("runai", "config", "project", "team-a")

    def begin(self, program: str, *arguments: str) -> subprocess.Popen[str]:
        module = {"runai": "fairpool.cli.runai.main", "fairpool": "fairpool.cli.main"}[program]
        return subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.folder,
        )

    def type(self, program: str, *arguments: str) -> tuple[int, str, str]:
        process = self.begin(program, *arguments)
        out, err = process.communicate(timeout=PATIENCE_S)
        return process.returncode, out, err

    def types(self, program: str, *arguments: str) -> str:
        code, out, err = self.type(program, *arguments)
        assert code == 0, (arguments, out, err)
        return out + err

    def runs(self, name: str, *command: str) -> str:
        self.types("runai", "submit", name, "-i", "python", "-g", "0.5", "--", *command)
        found = self.platform.client.find_workload("team-a", name)
        assert found is not None
        self.platform.until_phase(found.id, "Running")
        return found.id


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("live")
    platform = Running(folder / "data", nodes="2x2:V100-32GB")
    platform.up()
    try:
        yield User(platform, folder)
    finally:
        platform.clean_up()


def test_a_dry_run_predicts_the_place_where_the_job_then_runs(user: User) -> None:
    line = ("submit", "planned", "-i", "python", "-g", "2")
    end = time.monotonic() + PATIENCE_S
    while "It starts now on" not in (said := user.types("runai", *line, "--dry-run", "--", "sleep", "1000")):
        assert time.monotonic() < end, said  # the machine may be too busy to answer within a second
    (node,) = re.findall(r"It starts now on (\S+)\.", said)
    assert user.platform.client.find_workload("team-a", "planned") is None
    user.types("runai", *line, "--", "sleep", "1000")
    found = user.platform.client.find_workload("team-a", "planned")
    assert found is not None
    user.platform.until_phase(found.id, "Running")
    (pod,) = user.platform.client.pods(found.id)
    assert pod.node == node
    user.types("runai", "delete", "planned")


def test_the_live_snapshot_is_saved_planned_and_changed(user: User) -> None:
    workload = user.runs("seen", "sleep", "1000")
    said = user.types("fairpool", "snapshot", "--live", "now.snapshot")
    assert "Wrote now.snapshot" in said
    planned = json.loads(user.type("fairpool", "plan", "now.snapshot", "--json")[1])
    assert planned["pool"] == "default"
    code, _, err = user.type("fairpool", "snapshot", "--live", "now.snapshot")
    assert (code, "exists already" in err) == (2, True)
    for name in (workload, "seen", "team-a/seen"):
        compared = user.types("fairpool", "plan", "--live", "--add-node", "name=more,gpus=8", "--without-job", name)
        assert "1 node added: more, 8 GPUs each" in compared
        assert "job seen removed" in compared
        assert "\nseen\n  AS SAVED: stays on " in compared
        assert "\n  CHANGED: is not there\n" in compared
    assert "priority none → 80" in user.types("fairpool", "plan", "--live", "--set", "group.seen.priority=80")
    assert "seen" in user.types("fairpool", "plan", "--live", "--explain", "seen")
    code, _, err = user.type("fairpool", "plan", "--live", "--explain", "sene")
    assert (code, err) == (1, "there is no job 'sene' in the snapshot: did you mean seen?\n")
    assert re.search(r"^CYCLE +TIME +NODE POOL +BYTES", user.types("fairpool", "snapshot", "--cycles"), re.MULTILINE)
    newest = user.platform.client.past_cycles("local")[0].number
    user.types("fairpool", "snapshot", "--live", "past.snapshot", "--cycle", str(newest))
    assert "is valid" in user.types("fairpool", "plan", "past.snapshot", "--check")
    files = [*(user.folder / "data" / "cycles").iterdir(), user.folder / "now.snapshot"]
    assert all(b"sleep" not in each.read_bytes() for each in files), "no command is in a snapshot"
    user.types("runai", "delete", "seen")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("plan",), "name a FILE or pass --live", id="neither"),
        pytest.param(("plan", "x", "--live"), "name a FILE or pass --live", id="both"),
        pytest.param(("plan", "x", "--cluster", "a"), "need --live", id="a cluster of a file"),
        pytest.param(("plan", "--live", "--cluster", "nothing"), "nothing", id="an unknown cluster"),
        pytest.param(("snapshot", "--live", "y", "--node-pool", "nothing"), "no node pool", id="an unknown pool"),
        pytest.param(("snapshot", "--live", "y", "--cycle", "999999999"), "not kept", id="a cycle that is not kept"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(user: User, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = user.type("fairpool", *arguments)
    assert code != 0
    assert words in out + err


def test_a_local_port_leads_to_the_program_of_a_job(user: User) -> None:
    workload = user.runs("served", "python", "-c", UPPERCASE_SERVER)
    user.platform.until(lambda: user.platform.log(workload).endswith("\n"), "it listens")
    remote = int(user.platform.log(workload))
    process = user.begin("runai", "port-forward", "served", "--port", f"0:{remote}")
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        (local,) = re.findall(r"127\.0\.0\.1:(\d+) ", said)
        for number in range(3):
            data = b"%d" % number + b"abc" * 100_000
            with socket.create_connection(("127.0.0.1", int(local)), timeout=PATIENCE_S) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                got = b""
                while piece := connection.recv(65536):
                    got += piece
            assert got == data.upper()
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
    own = str(user.platform.status["address"]).rpartition(":")[2]
    with user.begin("runai", "port-forward", "served", "--port", f"0:{own}") as closed:
        try:
            assert closed.stderr is not None
            (local,) = re.findall(r"127\.0\.0\.1:(\d+) ", closed.stderr.readline())
            with socket.create_connection(("127.0.0.1", int(local)), timeout=PATIENCE_S) as connection:
                assert connection.recv(10) == b""
            assert "no process of the pod listens on port" in closed.stderr.readline()
        finally:
            closed.terminate()
    user.types("runai", "delete", "served")


def test_ports_that_cannot_be_forwarded_are_refused(user: User) -> None:
    for text in ("x", "1:2:3", "70000:1", "8080:0", "1:"):
        code, _, err = user.type("runai", "port-forward", "nothing", "--port", text)
        assert (code, "is not a pair of ports" in err) == (1, True), text

"""Pods on the real platform that must end: on nodes that left, with `down`, behind a stopped fork server."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairpool.agent import process_table
from fairpool.api import workload_spec as work
from fairpool.api.shell import Channel
from tests.local_machine import environment_of, is_running
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[Running]:
    running = Running(tmp_path / "data")
    try:
        yield running
    finally:
        running.clean_up()


def submit(platform: Running, name: str, program: str, grace_s: int = 30) -> str:
    """A training that is a line of Python; its id."""
    spec = {
        "image": "python",
        "command": "python",
        "args": f"-u -c '{program}'",
        "compute": {"gpu": "0.5"},
        "terminationGracePeriodSeconds": grace_s,
    }
    body = {"name": name, "projectId": "team-a", "spec": spec}
    return platform.client.submit(work.SubmitTraining.model_validate(body)).id


def test_a_job_on_a_node_that_left_is_ended_before_it_runs_elsewhere(platform: Running, tmp_path: Path) -> None:
    """It is deaf, so it does not leave by itself; the folder where it saves is never shared by two copies."""
    platform.up()
    program = (
        "import fcntl, os, signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        'place = os.environ["FAIRPOOL_CHECKPOINT_DIR"]; lock = open(place + "/lock", "a"); '
        'free = fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB); print("locked", flush=True); time.sleep(600)'
    )
    workload = submit(platform, "deaf", program, grace_s=2)
    platform.until_phase(workload, "Running")
    platform.until(lambda: "locked" in platform.log(workload), "it holds its lock")
    (before,) = marked(workload)
    platform.down()
    assert marked(workload) == [before], "pods run on"
    again = platform.up("--nodes", "2x4:A100-80GB")
    assert "dgx1-1 and dgx1-2 removed (pods there are stopped)" in again.stdout
    platform.until(lambda: len(platform.client.history(workload)) == 2, "it is replaced")
    platform.until(lambda: not Path(f"/proc/{before}").exists(), "the first one was ended")
    platform.until_phase(workload, "Running")
    platform.until(lambda: "locked" in platform.log(workload), "the second pod has the lock to itself")
    first, second = sorted(platform.client.history(workload), key=lambda pod: pod.incarnation)
    assert (first.outcome, first.cause) == ("lost", "node-lost")
    assert second.node in ("a100-1", "a100-2")
    assert len(marked(workload)) == 1
    platform.until(lambda: {each.name for each in platform.client.nodes()} == {"a100-1", "a100-2"}, "nodes are told")
    platform.client.delete_workload(workload)
    platform.until(lambda: not marked(workload), "nothing survives its deletion")


def test_what_is_deleted_while_its_node_is_leaving_is_gone(platform: Running) -> None:
    platform.up()
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    workload = submit(platform, "deaf", program, grace_s=4)
    platform.until_phase(workload, "Running")
    platform.down()
    platform.up("--nodes", "2x4:A100-80GB")
    platform.client.delete_workload(workload)
    platform.until(lambda: not marked(workload), "nothing survives")
    platform.until(lambda: not platform.client.workloads().workloads, "it is gone")


def test_down_ends_within_its_grace_and_says_what_it_did(platform: Running) -> None:
    platform.up()
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    stopper = 'import os, signal, time; os.kill(os.getppid(), signal.SIGSTOP); print("ready", flush=True); '
    workloads = [
        submit(platform, "deaf", deaf, grace_s=3600),
        submit(platform, "stopper", f"{stopper}{deaf}", grace_s=3600),
        submit(platform, "polite", "import time; time.sleep(600)", grace_s=3600),
    ]
    for workload in workloads:
        platform.until_phase(workload, "Running")
        platform.until(partial(marked, workload), "its process runs")
    assert "Stopped 3 pods (2 had to be killed)." in platform.down("--stop-pods", "--grace", "3")
    assert not [pid for workload in workloads for pid in marked(workload)]
    wrong = platform.command("down", "--grace", "3")
    assert (wrong.returncode, "--grace needs --stop-pods" in wrong.stderr) == (2, True)


def test_a_stopped_fork_server_is_said_and_replaced(platform: Running) -> None:
    platform.up()
    (fork_server,) = [
        pid for pid in process_table.descendants(platform.pid) if process_table.name(pid) == "fp:fork server"
    ]
    os.kill(fork_server, signal.SIGSTOP)
    workload = submit(platform, "late", "import time; time.sleep(600)")
    platform.until(lambda: f"process {fork_server}" in platform.status["loop"]["error"], "it is said what is wrong")
    platform.until_phase(workload, "Running")
    platform.until(lambda: platform.status["loop"]["error"] == "", "all is well")


def marked(workload: str) -> list[int]:
    """Living processes of a workload, by their environment."""
    wanted = f"JOB_UUID={workload}".encode()
    return [pid for pid in process_table.pids() if wanted in environment_of(pid) and is_running(pid)]


def test_a_command_of_any_length_is_run_or_refused_at_once(platform: Running) -> None:
    platform.up()
    workload = submit(platform, "long", "import time; time.sleep(600)")
    platform.until_phase(workload, "Running")
    assert said_by(platform, workload, "x" * 9_000) == (b"x" * 9_000 + b"\n", {"exitCode": 0, "words": ""})
    assert said_by(platform, workload, "ü" * 30_000)[1]["exitCode"] == 0
    output, end = said_by(platform, workload, "x" * 200_000)
    assert (output, end["exitCode"]) == (b"", None)
    assert "the command has 200004 bytes, and at most 65536 can be passed to a pod" in end["words"]


def said_by(platform: Running, workload: str, word: str) -> tuple[bytes, dict[str, Any]]:
    """What a command writes, and how it ends."""
    output = b""
    with platform.client.shell(workload, ["echo", word]) as shell:
        while (frame := shell.receive(PATIENCE_S)) is not None:
            if frame.channel is Channel.ENDED:
                return output, json.loads(frame.data)
            output += frame.data
    raise AssertionError("it says nothing of its end")


def test_down_reaches_a_server_that_was_stopped_by_a_signal(platform: Running) -> None:
    platform.up()
    os.kill(platform.pid, signal.SIGSTOP)
    assert "Fairpool is down" in platform.down()

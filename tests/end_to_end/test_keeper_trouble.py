"""What goes wrong around a keeper: visitors, full disks, damaged files, kills. The pod's end is kept all the same."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.agent import process_table
from fairpool.agent.visit import Attachment, Execution
from fairpool.model.ids import PodId
from tests.local_machine import PATIENCE_S, Machine, a_machine

pytestmark = pytest.mark.slow

ENDS_WHEN_TOLD = "echo ready; until [ -e {go} ]; do echo tick; sleep 0.05; done; exit 7"
"""Writes all the while, and ends with 7 when a file appears."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        yield machine


@pytest.fixture
def go(tmp_path: Path) -> Path:
    return tmp_path / "go"


def ends_when_told(machine: Machine, go: Path, **fields: object) -> PodId:
    pod = machine.up("a", "sh", "-c", ENDS_WHEN_TOLD.format(go=go), **fields)
    machine.until(lambda: "tick" in machine.log(pod), "it writes")
    return pod


def assert_its_end_is_kept(machine: Machine, pod: PodId, go: Path) -> None:
    """Its first keeper still keeps it: it writes on, and ends with its own code."""
    size = len(machine.log(pod))
    machine.until(lambda: len(machine.log(pod)) > size, "its log goes on")
    go.touch()
    sight = machine.until_exited(pod)
    assert (sight.exit_code, sight.words) == (7, "")
    assert not (machine.folder(pod) / "keeper.1").is_symlink()


# --- visitors who leave at any moment, and who talk nonsense


def test_a_visitor_that_left_before_its_command_ended_costs_nothing(machine: Machine, go: Path) -> None:
    pod = ends_when_told(machine, go)
    keeper = machine.keeper_pid(pod)
    run = machine.engine.supervisor.execute(pod, ["sleep", "987654"])
    assert isinstance(run, Execution)

    def of_the_visitor() -> list[int]:
        return [pid for pid in process_table.descendants(keeper) if b"987654" in command_line(pid)]

    machine.until(of_the_visitor, "the command runs")
    # Both happen while the keeper cannot look, so it hears of the command's end first.
    os.kill(keeper, signal.SIGSTOP)
    os.kill(of_the_visitor()[0], signal.SIGKILL)
    run.close()
    os.kill(keeper, signal.SIGCONT)
    assert_its_end_is_kept(machine, pod, go)


@pytest.mark.parametrize("tty", [True, False])
def test_a_visitor_that_attached_and_left_at_once_costs_nothing(machine: Machine, go: Path, tty: bool) -> None:
    pod = ends_when_told(machine, go, tty=tty, stdin=not tty)
    keeper = machine.keeper_pid(pod)
    os.kill(keeper, signal.SIGSTOP)
    for _ in range(3):
        line = machine.engine.supervisor.attach(pod)
        assert isinstance(line, Attachment)
        line.close()
    os.kill(keeper, signal.SIGCONT)
    assert_its_end_is_kept(machine, pod, go)


@pytest.mark.parametrize(
    "packets",
    [
        [b"hello"],
        [b"\xff\xfe"],
        [b"{}"],
        [b"[]"],
        [b'{"op": "dance"}'],
        [b'{"op": "exec"}'],
        [b'{"op": "attach"}', b"r\x01"],
        [b'{"op": "attach"}', b"r"],
        [b'{"op": "attach"}', b"?"],
    ],
    ids=repr,
)
def test_a_visitor_that_talks_nonsense_is_shown_out(machine: Machine, go: Path, packets: list[bytes]) -> None:
    pod = ends_when_told(machine, go, tty=True)
    line = knock(machine, pod)
    for packet in packets:
        line.send(packet)
    with_fds = knock(machine, pod)
    null = os.open(os.devnull, os.O_RDWR)
    rights = array.array("i", [null, null, null]).tobytes()
    with_fds.sendmsg([json.dumps({"op": "exec"}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(null)
    assert_its_end_is_kept(machine, pod, go)
    line.close()
    with_fds.close()


def test_a_command_beside_a_pod_is_under_the_pods_limits(machine: Machine, go: Path) -> None:
    if "limits" in machine.engine.supervisor.forbidden:
        pytest.skip(f"no limits here: {machine.engine.supervisor.forbidden['limits']}")
    pod = ends_when_told(machine, go, memory_limit_bytes=200 << 20)
    run = machine.engine.supervisor.execute(pod, ["cat", "/proc/self/cgroup"])
    assert isinstance(run, Execution)
    assert run.wait(PATIENCE_S) == 0
    assert machine.mark(pod).encode() in os.read(run.stdout, 65536)
    run.close()
    assert_its_end_is_kept(machine, pod, go)


def test_a_long_paste_into_a_terminal_arrives_whole(machine: Machine, go: Path) -> None:
    # Nobody reads at first, so not all of it has room; nothing more is typed afterwards.
    script = "stty raw -echo; echo ready; until [ -e {go} ]; do sleep 0.05; done; head -c 300000 | wc -c; exit 7"
    pod = machine.up("a", "sh", "-c", script.format(go=go), tty=True)
    machine.until(lambda: "ready" in machine.log(pod), "it is ready")
    line = machine.engine.supervisor.attach(pod)
    assert isinstance(line, Attachment)
    line.type(b"x" * 300_000)
    go.touch()
    assert machine.until_exited(pod).exit_code == 7
    assert "300000" in machine.log(pod)
    line.close()


def test_what_was_typed_before_the_end_of_input_arrives_whole(machine: Machine, go: Path) -> None:
    pod = machine.up("a", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; wc -c", stdin=True)
    line = machine.engine.supervisor.attach(pod)
    assert isinstance(line, Attachment)
    line.type(b"x" * 300_000)
    line.end_input()
    go.touch()
    assert machine.until_exited(pod).exit_code == 0
    assert "300000" in machine.log(pod)
    line.close()


def knock(machine: Machine, pod: PodId) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handle = os.open(machine.folder(pod), os.O_PATH)
    line.connect(f"/proc/self/fd/{handle}/door")
    os.close(handle)
    return line


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""

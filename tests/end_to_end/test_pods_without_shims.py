"""Pods without a working shim: stopped, killed, without directory or UUID. Each is killed, and none runs twice."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from fairpool.agent import launcher, process_table
from fairpool.agent.devices import simulated_node
from fairpool.model.ids import NodeName, PodId
from fairpool.model.observation import ForgetOrder, OrderStatus, PodState, StopOrder
from tests.local_machine import NODE, TOKEN, Machine, a_machine, is_running

pytestmark = pytest.mark.slow

DEAF = "trap '' TERM; echo deaf; while :; do sleep 1000; done"
LONG_S = str(10_000_000 + os.getpid())
"""How long daemons sleep; other test processes of this machine use other numbers."""
ERASED = """
import os, sys, time
def daemon():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execve("/bin/sh", ["sh", "-c", "trap '' TERM HUP; while :; do sleep LONG_S; done"], {})
        os._exit(0)
daemon()
print("ready", flush=True)
time.sleep(1000)
""".replace("LONG_S", LONG_S)
"""Leaves behind a process with another parent, another session and no environment."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        yield machine


def deaf(machine: Machine, name: str = "a", **fields: object) -> PodId:
    pod = machine.up(name, "sh", "-c", DEAF, **fields)
    machine.until(lambda: "deaf" in machine.log(pod), "it is deaf")
    return pod


@contextmanager
def kept_stopped(pid: int) -> Iterator[None]:
    """A process that goes on for a moment at most, however often it is continued."""
    assert pid > 1
    stopper = subprocess.Popen(["sh", "-c", f"while kill -STOP {pid}; do :; done"], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        stopper.kill()
        stopper.wait()


def daemons() -> list[int]:
    found = []
    for pid in process_table.pids():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if LONG_S.encode() in line and is_running(pid):
            found.append(pid)
    return found


def is_absent(machine: Machine, pod: PodId) -> bool:
    return pod not in machine.engine.observe(TOKEN).pods


# --- grace periods that cannot be prolonged


def test_a_pod_that_stops_its_shim_and_ignores_its_notice_is_ended_when_its_grace_is_over(machine: Machine) -> None:
    script = 'trap "" TERM; kill -STOP $PPID; echo deaf; while :; do sleep 1000; done'
    pod = machine.up("a", "bash", "-c", script, grace_s=1)
    machine.until(lambda: "deaf" in machine.log(pod), "it ignores its notice")
    machine.stop(pod, grace_s=1)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, True)
    assert machine.processes(pod) == []


def test_a_shim_that_is_stopped_again_and_again_is_done_without(machine: Machine) -> None:
    pod = deaf(machine)
    shim = machine.shim_pid(pod)
    with kept_stopped(shim):
        machine.stop(pod, grace_s=1)
        observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, True)
    assert machine.processes(pod) == []
    machine.until(lambda: process_table.start_time(shim) is None, "its shim is gone too")


def test_a_grace_runs_on_while_the_server_is_away(machine: Machine) -> None:
    pod = deaf(machine, grace_s=1000)
    with kept_stopped(machine.shim_pid(pod)):
        machine.stop(pod, grace_s=2)
        machine.reopen()
        machine.until_exited(pod)
    assert machine.processes(pod) == []


def test_a_pod_that_rewrites_its_notice_has_no_longer_than_it_was_ordered_with(machine: Machine) -> None:
    pod = deaf(machine, grace_s=1)
    with kept_stopped(machine.shim_pid(pod)):
        machine.stop(pod, grace_s=1)
        (machine.folder(pod) / "stop.json").write_text('{"grace_s": 1e300, "reason": "", "at_s": 1e300}')
        machine.reopen()
        machine.until_exited(pod)
    assert machine.processes(pod) == []


@pytest.mark.parametrize("grace_s", [25 * 24 * 3600, 315_360_000])
def test_a_shim_survives_a_very_long_grace(machine: Machine, grace_s: int) -> None:
    pod = deaf(machine, grace_s=grace_s)
    machine.stop(pod, grace_s=grace_s)
    machine.until(lambda: "SigPnd" in Path(f"/proc/{machine.shim_pid(pod)}/status").read_text(), "it has heard")
    machine.stop(pod, grace_s=1)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.message) == (137, "stopped: test, and killed after its grace period")
    assert not (machine.folder(pod) / "shim.err").exists()
    assert not (machine.folder(pod) / "shim.1").is_symlink()


# --- folders that are removed


def test_a_pod_whose_folder_is_removed_is_killed_before_its_replacement_starts(machine: Machine) -> None:
    """By another user of the machine: an isolated pod cannot reach it (test_hostile_pod.py)."""
    pod = deaf(machine)
    mark = str(machine.engine.supervisor._reaper.pod_uuid(pod))
    shutil.rmtree(machine.folder(pod))
    order = machine.order("a", "sleep", "1000", incarnation=1)

    def started() -> bool:
        (answer,) = machine.engine.carry_out([order], TOKEN)
        assert answer.status in (OrderStatus.LATER, OrderStatus.DONE), answer
        if answer.status is OrderStatus.DONE:
            assert process_table.pod_processes(mark, {}) == {}, "the first pod is gone by then"
        return answer.status is OrderStatus.DONE

    machine.until(started, "its replacement starts")
    assert is_absent(machine, pod)
    (again,) = machine.engine.carry_out([machine.order("a", "sleep", "1000")], TOKEN)
    assert again.status is OrderStatus.REFUSED, "a pod starts once"


@pytest.mark.parametrize("what", ["folder", "content"])
@pytest.mark.parametrize("when", ["while the server is up", "while it is down"])
@pytest.mark.parametrize("shim", ["lives", "was killed"])
def test_a_pod_without_its_folder_is_gone_only_when_its_processes_are(
    machine: Machine, what: str, when: str, shim: str
) -> None:
    pod = deaf(machine)
    mark = machine.mark(pod)
    machine.see(pod)
    if shim == "was killed":
        os.kill(machine.shim_pid(pod), signal.SIGKILL)
    if when == "while it is down":
        machine.engine.close()
        machine.engines.remove(machine.engine)
    if what == "folder":
        shutil.rmtree(machine.folder(pod))
    else:
        for path in machine.folder(pod).iterdir():
            path.unlink()
    if when == "while it is down":
        machine.reopen()
    else:
        machine.engine.supervisor._checked_at = float("-inf")  # as if half a minute had passed
    while not is_absent(machine, pod):
        machine.engine.wait(0.02)
    assert process_table.pod_processes(mark, {}) == {}


def test_a_process_without_its_uuid_ends_with_its_folder(machine: Machine) -> None:
    pod = machine.up("a", "python3", "-c", ERASED)
    machine.until(lambda: daemons() and "ready" in machine.log(pod), "a process without a mark runs")
    machine.see(pod)
    shutil.rmtree(machine.folder(pod))
    machine.until(lambda: is_absent(machine, pod), "it is gone")
    assert daemons() == []


def test_a_process_without_its_uuid_is_found_below_a_shim_without_folder_by_the_next_server(machine: Machine) -> None:
    pod = machine.up("a", "python3", "-c", ERASED)
    machine.until(lambda: daemons() and "ready" in machine.log(pod), "a process without a mark runs")
    machine.engine.close()
    machine.engines.remove(machine.engine)
    shutil.rmtree(machine.folder(pod))
    machine.reopen()
    assert is_absent(machine, pod)
    assert daemons() == []


def test_a_process_without_its_uuid_and_shim_is_found_by_its_namespace(machine: Machine) -> None:
    if why := machine.engine.supervisor.unavailable.get("isolation"):
        pytest.skip(f"this machine does not permit PID namespaces: {why}")
    pod = machine.up("a", "python3", "-c", ERASED)
    machine.until(lambda: daemons() and "ready" in machine.log(pod), "a process without a mark runs")
    machine.engine.supervisor._checked_at = float("-inf")
    machine.see(pod)
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    shutil.rmtree(machine.folder(pod))
    machine.until(lambda: is_absent(machine, pod), "it is gone")
    assert daemons() == []


def test_a_process_without_its_uuid_shim_and_folder_is_found_by_the_next_server(machine: Machine) -> None:
    pod = machine.up("a", "env", "-i", "sh", "-c", f"echo ready; while :; do sleep {LONG_S}; done")
    machine.until(lambda: daemons() and "ready" in machine.log(pod), "a process without a mark runs")
    machine.engine.supervisor._checked_at = float("-inf")  # as if half a minute had passed
    machine.see(pod)
    machine.engine.close()
    machine.engines.remove(machine.engine)
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    shutil.rmtree(machine.folder(pod))
    machine.reopen()
    assert is_absent(machine, pod)
    assert daemons() == []


def test_a_pod_that_says_itself_that_it_has_ended_is_not_forgotten_while_it_runs(machine: Machine) -> None:
    pod = deaf(machine)
    mark, shim = machine.mark(pod), machine.shim_pid(pod)
    os.kill(shim, signal.SIGKILL)
    (machine.folder(pod) / "exit.json").write_text('{"code": 0, "words": "", "after_notice": false}')
    machine.until_exited(pod)
    machine.engine.carry_out([ForgetOrder(pod=pod, node=NODE)], TOKEN)
    machine.until(lambda: not machine.folder(pod).exists(), "it is forgotten")
    assert process_table.pod_processes(mark, {}) == {}


def test_a_pod_does_not_start_beside_an_earlier_incarnation(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    later = machine.order("a", "sleep", "1000", incarnation=1)
    (answer,) = machine.engine.carry_out([later], TOKEN)
    assert (answer.status, answer.message) == (OrderStatus.LATER, "the previous instance of this pod has not ended yet")
    machine.stop(pod, grace_s=0)
    machine.start(later)


# --- nodes that are offered no more


@pytest.mark.parametrize("is_deaf", [False, True], ids=["leaves when told", "is deaf and stops its shim"])
def test_pods_on_a_node_that_is_offered_no_more_are_ended_before_it_is_gone(machine: Machine, is_deaf: bool) -> None:
    pod = deaf(machine, grace_s=1) if is_deaf else machine.up("a", "sleep", "1000", grace_s=1)
    mark, shim = machine.mark(pod), machine.shim_pid(pod)
    machine.engine.close()
    machine.engines.remove(machine.engine)
    machine.nodes = (simulated_node(NodeName("other")),)
    with kept_stopped(shim) if is_deaf else nullcontext():
        machine.reopen()
        while True:
            seen = machine.engine.observe(TOKEN)
            if pod not in seen.pods or seen.pods[pod].state is PodState.EXITED:
                break
            assert seen.nodes[NODE].silent_since is not None, "it takes no pods, and nothing on it counts as gone"
            machine.engine.wait(0.02)
    assert process_table.pod_processes(mark, {}) == {}
    assert seen.pods[pod].after_notice
    assert set(machine.engine.observe(TOKEN).nodes) == {"other"}


def test_a_pod_on_a_device_that_its_node_has_no_more_is_stopped(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000", devices=(6,))
    stays = machine.up("b", "sleep", "1000", devices=(1,))
    machine.nodes = (simulated_node(NODE, 4),)
    machine.reopen()
    observed = machine.until_exited(pod)
    assert (observed.after_notice, observed.message) == (True, f"stopped: node {NODE} no longer has GPU 6")
    assert machine.see(stays).state is PodState.RUNNING


# --- a fork server that does not answer


def test_a_stopped_fork_server_is_replaced_and_said_meanwhile(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launcher, "ANSWER_S", 3.0)
    monkeypatch.setattr(launcher, "SLOW_S", 0.5)
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGSTOP)
    pod = machine.start(machine.order("a", "sleep", "1000"))
    machine.until(lambda: machine.engine.supervisor.error, "it is said what is wrong")
    assert f"process {fork_server}" in machine.engine.supervisor.error
    machine.until(lambda: machine.see(pod).state is PodState.RUNNING, "another one starts it")
    assert machine.engine.supervisor.error == ""
    assert machine.engine.supervisor.fork_server_pid != fork_server
    assert process_table.start_time(fork_server) is None


def test_a_force_delete_needs_neither_shim_nor_fork_server(machine: Machine) -> None:
    pod = deaf(machine, grace_s=3600)
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    machine.stop(pod, grace_s=3600)
    os.kill(fork_server, signal.SIGSTOP)
    with kept_stopped(machine.shim_pid(pod)):
        (answer,) = machine.engine.carry_out([StopOrder(pod=pod, node=NODE, grace_s=0, reason="forced")], TOKEN)
    assert answer.status is OrderStatus.DONE, answer
    assert machine.processes(pod) == []


def test_a_stopped_fork_server_does_not_outlive_its_server(machine: Machine, tmp_path: Path) -> None:
    script = (
        "import os, signal, sys; from pathlib import Path; from fairpool.agent.supervisor import Supervisor; "
        "own = Supervisor(Path(sys.argv[1]), None); os.kill(own.fork_server_pid, signal.SIGSTOP); "
        "print(own.fork_server_pid, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "another")]
    fork_server = int(subprocess.run(command, check=False, capture_output=True, text=True).stdout)
    machine.until(lambda: not is_running(fork_server), "it has gone with its server")

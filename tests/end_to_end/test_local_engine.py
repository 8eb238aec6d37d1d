"""Real processes on this machine: they start once, are seen, are stopped whole, and nothing of them is left."""

from __future__ import annotations

import os
import pwd
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairpool.agent import pod_log, pod_start, process_table, supervisor
from fairpool.agent.bounded_call import BoundedCalls
from fairpool.agent.exec_client import AttachSession, ExecSession
from fairpool.agent.launch import LogRotation, plan_launch
from fairpool.agent.pod_log import LogChunk
from fairpool.model.ids import PodId
from fairpool.model.observation import ForgetOrder, OrderStatus, PodState, StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import SecurityContext, Volume
from fairpool.model.workload import NO_GPU, PodShape, gpu_memory, gpu_portion, whole_gpus
from tests.local_machine import NODE, TIMEOUT_S, TOKEN, Machine, a_machine, open_folder

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
HALF = PodShape(gpu=gpu_portion(500))


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        yield machine


# --- ends


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        pytest.param("exit 0", 0, "", id="ends well"),
        pytest.param("exit 7", 7, "", id="ends with a code"),
        pytest.param("kill -SEGV $$", 139, "killed by SIGSEGV", id="is killed by a signal"),
        pytest.param("kill -KILL $$", 137, "killed by SIGKILL", id="is killed from outside"),
    ],
)
def test_the_exit_status_is_kept(machine: Machine, command: str, code: int, words: str) -> None:
    observed = machine.run("a", "sh", "-c", command)
    assert (observed.exit_code, observed.message, observed.after_notice) == (code, words, False)
    assert observed.running_since is not None


def test_a_program_that_does_not_exist_says_so(machine: Machine) -> None:
    observed = machine.run("a", "nonesuch")
    assert (observed.exit_code, observed.running_since) == (127, None)
    assert observed.message == "ContainerCannotRun: nonesuch: command not found on its PATH"


def test_a_working_folder_that_does_not_exist_says_so(machine: Machine) -> None:
    observed = machine.run("a", "true", working_dir="relative/nowhere")
    assert observed.exit_code == 126
    assert "relative/nowhere" in observed.message


# --- a stopped pod leaves no process behind


DAEMON = "import os, time\nfor _ in range(2):\n    if os.fork(): os._exit(0)\n    os.setsid()\ntime.sleep(1000)"


def test_stopping_ends_what_it_forked(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "sleep 1000 & sleep 1000 & (sleep 1000 & wait) & wait")
    machine.until(lambda: len(machine.processes(pod)) >= 5, "all of them run")
    machine.stop(pod)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice, observed.message) == (143, True, "stopped: test")
    assert machine.processes(pod) == []


def test_stopping_ends_what_daemonised(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", f"python3 -I -S -c '{DAEMON}'; sleep 1000")
    machine.until(lambda: len(machine.processes(pod)) == 3, "the daemon runs beside sh and sleep")
    machine.stop(pod)
    machine.until_exited(pod)
    assert machine.processes(pod) == []


def test_a_daemon_does_not_outlive_its_program(machine: Machine) -> None:
    observed = machine.run("a", "sh", "-c", f"python3 -I -S -c '{DAEMON}'; exit 3")
    assert observed.exit_code == 3
    assert machine.processes(observed.order.pod) == []


def test_a_daemon_that_cleared_its_environment_is_found_all_the_same(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "env -i setsid sleep 1000 & env -i setsid sleep 1000 & sleep 1000")
    shim = machine.shim_pid(pod)
    machine.until(lambda: len(process_table.descendants(shim)) == 5, "all of them run, below its first process")
    below = process_table.descendants(shim)
    machine.stop(pod)
    machine.until_exited(pod)
    assert [pid for pid in below if process_table.start_time(pid) is not None] == []


def test_who_ignores_the_notice_is_killed_when_the_grace_is_over(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "trap '' TERM HUP INT; echo deaf; while true; do sleep 1000; done")
    machine.until(lambda: "deaf" in machine.log(pod), "it is deaf")
    machine.stop(pod, grace_s=1)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, True)
    assert observed.message == "stopped: test, and killed after its grace period"


RUNNERS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(8):
    if os.fork() == 0:
        while True:  # each child forks the next and exits: none is there for longer than a moment
            if os.fork():
                os._exit(0)
            time.sleep(0.001)
time.sleep(1000)
"""


def test_who_runs_away_by_forking_is_caught(machine: Machine) -> None:
    pod = machine.up("a", "python3", "-I", "-S", "-c", RUNNERS)
    machine.until(lambda: len(machine.processes(pod)) > 5, "they run")
    machine.stop(pod, grace_s=1)
    machine.until_exited(pod)
    assert machine.processes(pod) == []


def test_a_pod_stopped_before_its_shim_came_does_not_start(machine: Machine) -> None:
    order = machine.order("a", "sh", "-c", "touch ran; sleep 1000")
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGSTOP)
    machine.start(order)
    machine.stop(order.pod)
    assert machine.see(order.pod).state is PodState.EXITED
    os.kill(fork_server, signal.SIGCONT)
    machine.until((machine.folder(order.pod) / "exit.json").exists, "the shim came and left")
    observed = machine.see(order.pod)
    assert (observed.state, observed.after_notice, observed.message) == (
        PodState.EXITED,
        True,
        "stopped before it started",
    )
    assert not list(machine.root.glob("scratch/*/ran"))


# --- killed components


def test_a_pod_whose_shim_is_killed_runs_on_and_is_not_lost(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "while true; do echo tick; sleep 0.05; done")
    since = machine.see(pod).running_since
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    replacement = machine.folder(pod) / "shim.1"
    machine.until(lambda: machine.see(pod).message == "" and replacement.is_symlink(), "another shim takes over")
    observed = machine.see(pod)
    assert (observed.state, observed.running_since) == (PodState.RUNNING, since)
    size = len(machine.log(pod))
    machine.until(lambda: len(machine.log(pod)) > size + 20, "its log goes on")
    machine.stop(pod)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, True)
    assert "its supervising process was killed" in observed.message
    assert machine.processes(pod) == []


def test_a_pod_that_ends_after_its_shim_was_killed_counts_as_failed(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1")
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, False)
    assert observed.message == "its supervising process was killed, so its exit code is not known"


def test_a_killed_fork_server_is_replaced(machine: Machine) -> None:
    running = machine.up("a", "sleep", "1000")
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGKILL)
    machine.until(lambda: process_table.start_time(fork_server) is None, "it is gone")
    assert machine.run("b", "sh", "-c", "exit 4").exit_code == 4
    assert machine.see(running).state is PodState.RUNNING


def test_orders_lost_with_a_fork_server_are_carried_out_all_the_same(machine: Machine) -> None:
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGSTOP)
    order = machine.order("a", "sh", "-c", "exit 5")
    machine.start(order)
    os.kill(fork_server, signal.SIGKILL)
    assert machine.until_exited(order.pod).exit_code == 5


KILLED_ENGINE = """
import os, signal, sys
from pathlib import Path
from tests.local_machine import Machine, TOKEN

machine = Machine(Path(sys.argv[1]))
step = int(sys.argv[2])
if step == 0:  # between the written order and the request for a shim
    machine.engine.supervisor._observer.request_shims = lambda: os.kill(os.getpid(), signal.SIGKILL)
orders = [machine.order(f"w{i}", "sh", "-c", f"sleep {sys.argv[3]}; exit {10 + i}") for i in range(5)]
machine.engine.carry_out(orders, TOKEN)
if step == 2:
    for order in orders:
        machine.until(lambda: machine.see(order.pod).state != "starting", "it runs")
os.kill(os.getpid(), signal.SIGKILL)
"""


ORDERING_ENGINE = """
import sys, time
from pathlib import Path
from tests.local_machine import Machine, TOKEN

machine = Machine(Path(sys.argv[1]))
ran = sys.argv[2]
orders = [machine.order(f"w{n}", "sh", "-c", f"echo {n} >> {ran}; exit {n}") for n in range(12)]
for _ in range(1000):
    for order in orders:
        machine.engine.carry_out([order], TOKEN)
        machine.engine.observe(TOKEN)
    time.sleep(0.01)
"""


@pytest.mark.parametrize("step", [0, 1, 2])
def test_an_engine_that_is_killed_loses_nothing(tmp_path: Path, step: int) -> None:
    root = tmp_path / "data"
    command = [sys.executable, "-c", KILLED_ENGINE, str(root), str(step), "0.5"]
    killed = subprocess.run(command, cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    with a_machine(root) as machine:
        observed_pods = [machine.until_exited(PodId(f"w{number}-0-0")) for number in range(5)]
        assert [observed.exit_code for observed in observed_pods] == [10, 11, 12, 13, 14]
        assert all((machine.folder(observed.order.pod) / "shim.0").is_symlink() for observed in observed_pods)
        assert not any((machine.folder(observed.order.pod) / "shim.1").is_symlink() for observed in observed_pods)


@pytest.mark.parametrize("seed", range(6))
def test_whenever_an_engine_is_killed_each_pod_runs_once(tmp_path: Path, seed: int) -> None:
    root, ran = tmp_path / "data", tmp_path / "shared" / "ran"
    with a_machine(root) as machine:
        orders = [machine.order(f"w{n}", "sh", "-c", f"echo {n} >> {ran}; exit {n}") for n in range(12)]
        dice = Random(seed)
        for _ in range(4):
            killed = subprocess.Popen([sys.executable, "-c", ORDERING_ENGINE, str(root), str(ran)], cwd=ROOT)
            time.sleep(dice.uniform(0.1, 0.9))
            killed.kill()
            killed.wait()
        machine.reopen()
        machine.engine.carry_out(orders, TOKEN)
        observed_pods = [machine.until_exited(order.pod) for order in orders]
        assert [observed.exit_code for observed in observed_pods] == list(range(12))
        assert sorted(map(int, ran.read_text().split())) == list(range(12))


def test_pods_end_and_are_stopped_while_no_server_runs(tmp_path: Path) -> None:
    with a_machine(tmp_path / "data") as machine:
        ends = machine.up("ends", "sh", "-c", "sleep 0.3; exit 9")
        deaf = machine.up("deaf", "sh", "-c", "trap '' TERM; echo deaf; while true; do sleep 1000; done")
        machine.until(lambda: "deaf" in machine.log(deaf), "it is deaf")
        machine.stop(deaf, grace_s=1)
        machine.engines.remove(machine.engine)
        machine.engine.close()
        end = time.monotonic() + TIMEOUT_S
        while not all((machine.folder(pod) / "exit.json").exists() for pod in (ends, deaf)):
            assert time.monotonic() < end
            time.sleep(0.02)
        assert machine.processes(deaf) == []
        machine.reopen()
        assert machine.see(ends).exit_code == 9
        assert machine.see(deaf).exit_code == 137


# --- output


def test_output_and_errors_are_kept_in_order_of_coming(machine: Machine) -> None:
    observed = machine.run("a", "sh", "-c", "echo one; echo two >&2; printf three")
    assert machine.log(observed.order.pod) == "one\ntwo\nthree"


def test_the_log_is_rotated_and_read_on_by_offset(tmp_path: Path) -> None:
    with a_machine(tmp_path / "data", rotation=LogRotation(segment_bytes=4096, segments=3)) as machine:
        pod = machine.run("a", "sh", "-c", "i=0; while [ $i -lt 4000 ]; do echo line $i; i=$((i+1)); done").order.pod
        segments = sorted(machine.folder(pod).glob("log.*"))
        assert len(segments) == 3
        assert all(segment.stat().st_size <= 4096 for segment in segments)
        whole = sum(len(f"line {number}\n") for number in range(4000))
        chunk = machine.engine.supervisor.read_log(pod, offset=0)
        assert isinstance(chunk, LogChunk)
        assert chunk.offset > 0
        assert (chunk.next_offset, chunk.is_complete) == (whole, True)
        assert chunk.data.endswith(b"line 3998\nline 3999\n")


def test_the_log_can_be_followed_tailed_and_stamped(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "echo a; echo b; echo c; sleep 0.4; echo d")
    machine.until(lambda: "c\n" in machine.log(pod), "it has said three things")
    read = machine.engine.supervisor.read_log
    tail = read(pod, tail_lines=2)
    assert isinstance(tail, LogChunk)
    assert (tail.data, tail.is_complete) == (b"b\nc\n", False)
    at = time.time_ns() // 1_000_000 + 1
    machine.until_exited(pod)
    rest = read(pod, offset=tail.next_offset)
    assert isinstance(rest, LogChunk)
    assert (rest.data, rest.is_complete) == (b"d\n", True)
    since = read(pod, since_ms=at, timestamps=True)
    assert isinstance(since, LogChunk)
    assert re.fullmatch(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z d\n", since.data)


def test_the_log_outlives_the_pods_folder(machine: Machine) -> None:
    pod = machine.run("a", "echo", "for later").order.pod
    machine.forget(pod)
    assert not machine.folder(pod).exists()
    assert machine.log(pod) == "for later\n"


def test_output_that_cannot_be_removed_delays_forgetting_and_is_removed_later(machine: Machine) -> None:
    earlier = machine.run("a", "echo", "before").order.pod
    machine.forget(earlier)
    pod = machine.run("a", "echo", "now", incarnation=1).order.pod
    orders = [ForgetOrder(pod=pod, node=NODE, with_output=True)]
    logs = machine.engine.supervisor.state.logs
    away = logs.rename(logs.with_name("away"))
    (said,) = machine.engine.carry_out(orders, TOKEN)
    assert said.status is OrderStatus.LATER
    assert said.message.startswith("its output cannot be removed")
    away.rename(logs)
    (said,) = machine.engine.carry_out(orders, TOKEN)
    assert said.status is OrderStatus.DONE
    assert machine.log(pod) == ""
    assert not (logs / earlier).exists()


def test_a_log_that_is_moved_while_it_is_read_is_read_whole(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    pod = machine.run("a", "echo", "for later").order.pod

    def forgotten_first(directory: Path, **wanted: Any) -> LogChunk:
        if machine.folder(pod).exists():
            machine.forget(pod)
        return pod_log.read_log(directory, **wanted)

    monkeypatch.setattr(supervisor, "read_log", forgotten_first)
    assert machine.log(pod) == "for later\n"


def test_log_and_reports_can_be_read_at_every_moment_while_a_pod_is_forgotten(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is moved, linked or removed while others read, without the supervisor's lock."""
    report = '{"metrics": {"accuracy": 0.5}}'
    pod = machine.run("a", "sh", "-c", f"echo for later; echo '{report}' > ~/.fairpool-report.json").order.pod
    seen, steps = [], []

    def looked(name: str, act: Callable[..., None]) -> Callable[..., None]:
        def act_and_look(*arguments: Any, **options: Any) -> None:
            look()
            act(*arguments, **options)
            steps.append(name)
            look()

        return act_and_look

    def look() -> None:
        here = machine.engine.supervisor
        chunk, reports = here.read_log(pod), here.reports(pod)
        assert isinstance(chunk, LogChunk)
        seen.append((chunk.data, chunk.is_complete, reports.get("metrics")))
        assert isinstance(here.execute(pod, ["true"]), Problem)
        assert isinstance(here.attach(pod), Problem)

    for name in ("rename", "unlink", "rmdir", "symlink", "link"):
        monkeypatch.setattr(os, name, looked(name, getattr(os, name)))
    machine.forget(pod)
    machine.engine.supervisor._collector.close()
    assert steps.count("rename") >= 2
    assert [each for each in seen if each != (b"for later\n", True, {"accuracy": 0.5})] == []


def test_a_pod_that_was_never_here_has_no_log(machine: Machine) -> None:
    assert isinstance(machine.engine.supervisor.read_log(PodId("never-0-0")), Problem)


# --- images


def test_an_unknown_image_is_a_failed_pull_until_it_is_in_the_table(machine: Machine) -> None:
    pod = machine.start(machine.order("a", image="example.org/no/such:1"))
    observed = machine.see(pod)
    assert observed.state is PodState.STARTING
    assert observed.message.startswith('ErrImagePull: no alias for the image "example.org/no/such:1"')
    table = machine.root / "images.toml"
    table.write_text(table.read_text() + '\n[[image]]\nname = "no/such"\nentrypoint = ["sh", "-c", "exit 6"]\n')
    assert machine.until_exited(pod).exit_code == 6


@pytest.mark.parametrize(
    ("entrypoint", "command", "program", "says"),
    [
        pytest.param("", '"echo", "a"', {}, "a", id="a command alone is what starts"),
        pytest.param("", '"echo", "a"', {"arguments": ("echo", "b")}, "b", id="arguments replace all of it"),
        pytest.param('"echo", "a"', '"b"', {}, "a b", id="a command follows the entrypoint"),
        pytest.param('"echo", "a"', '"b"', {"arguments": ("c",)}, "a c", id="arguments are appended to the entrypoint"),
        pytest.param('"echo", "a"', '"b"', {"command": ("echo", "c")}, "c", id="one's own command replaces both"),
    ],
)
def test_what_an_image_starts(
    machine: Machine, entrypoint: str, command: str, program: dict[str, tuple[str, ...]], says: str
) -> None:
    table = machine.root / "images.toml"
    entry = f'\n[[image]]\nname = "mine"\nentrypoint = [{entrypoint}]\ncommand = [{command}]\n'
    table.write_text(table.read_text() + entry)
    own = dict(program)
    pod = machine.run("a", *own.pop("command", ()), image="mine", **own).order.pod
    assert machine.log(pod) == f"{says}\n"


def test_a_python_that_is_asked_for_by_name_is_started_once(machine: Machine) -> None:
    """`runai submit hello -i python -- python -c ...` once ran `python python -c ...`."""
    observed = machine.run("hello", image="python", arguments=("python", "-c", "print(1)"))
    assert (observed.exit_code, machine.log(observed.order.pod)) == (0, "1\n")


def test_a_plan_that_fails_when_the_table_was_edited_is_made_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods = [machine.start(machine.order(name, image="no/such", devices=())) for name in ("a", "b")]
    tried: list[str] = []

    def failing(order: StartOrder, *arguments: Any, **named: Any) -> Any:
        tried.append(order.pod)
        if tried.count(order.pod) == 1:
            raise PermissionError(13, "Permission denied")
        return plan_launch(order, *arguments, **named)

    monkeypatch.setattr(pod_start, "plan_launch", failing)
    table = machine.root / "images.toml"
    table.write_text(table.read_text() + '\n[[image]]\nname = "no/such"\nentrypoint = ["sh", "-c", "exit 6"]\n')
    assert [machine.until_exited(pod).exit_code for pod in pods] == [6, 6]
    assert sorted(tried) == sorted([*pods, *pods])


def test_a_pod_that_waits_for_its_image_can_be_stopped(machine: Machine) -> None:
    pod = machine.start(machine.order("a", image="no/such"))
    machine.stop(pod)
    assert machine.see(pod).state is PodState.EXITED


# --- environment and devices


def environment(machine: Machine, name: str, **fields: object) -> dict[str, str]:
    observed = machine.run(name, "env", **fields)
    assert observed.exit_code == 0, observed
    return dict(line.partition("=")[::2] for line in machine.log(observed.order.pod).splitlines())


def test_a_pod_knows_who_it_is(machine: Machine) -> None:
    found = environment(machine, "train1", index=2, pods=4, devices=(3,), shape=HALF)
    expected = {
        "JOB_NAME": "train1",
        "JOB_UUID": "train1",
        "POD_INDEX": "2",
        "POD_UUID": machine.mark(PodId("train1-2-0")),
        "NODE_NAME": "dgx1-1",
        "RUNAI_NUM_OF_GPUS": "0.5",
        "RUNAI_PROJECT": "team-a",
        "RUNAI_JOB_NAME": "train1",
        "CUDA_VISIBLE_DEVICES": "3",
        "NVIDIA_VISIBLE_DEVICES": "3",
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["FAIRPOOL_CHECKPOINT_DIR"] == "/run/fairpool/checkpoints"
    assert found["FAIRPOOL_REPORTER"].startswith("file:")
    assert "WORLD_SIZE" not in found, "runs of a sweep do not look for each other"


def test_a_pod_without_gpus_sees_none(machine: Machine) -> None:
    found = environment(machine, "cpu", devices=(), shape=PodShape(gpu=NO_GPU))
    assert (found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    assert found["RUNAI_NUM_OF_GPUS"] == "0"


def test_users_set_variables_but_not_the_identity_of_a_pod(machine: Machine) -> None:
    wanted = (("LEARNING_RATE", "0.1"), ("POD_UUID", "mine"), ("CUDA_VISIBLE_DEVICES", "0,1,2,3"))
    found = environment(machine, "a", environment=wanted)
    assert found["LEARNING_RATE"] == "0.1"
    assert found["POD_UUID"] == machine.mark(PodId("a-0-0"))
    assert found["CUDA_VISIBLE_DEVICES"] == "0"


def test_secrets_of_the_platform_stay_out_of_pods(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIRPOOL_TOKEN", "fp-0123456789")
    assert "fp-0123456789" not in environment(machine, "a").values()


def test_pods_of_a_distributed_run_find_each_other(machine: Machine) -> None:
    first, second = (environment(machine, "dist", index=index, pods=2, together=True) for index in (0, 1))
    assert (first["RANK"], second["RANK"]) == ("0", "1")
    assert (first["NODE_RANK"], second["NODE_RANK"], second["LOCAL_RANK"]) == ("0", "1", "0")
    assert first["WORLD_SIZE"] == second["WORLD_SIZE"] == "2"
    assert first["MASTER_ADDR"] == "127.0.0.1"
    assert first["MASTER_PORT"] == second["MASTER_PORT"]
    assert "FAIRPOOL_HOSTFILE" not in first, "only a launcher has one"


@pytest.mark.parametrize(
    ("shape", "devices", "shown"),
    [
        pytest.param(HALF, (0,), ["16255 MiB"], id="half of a V100"),
        pytest.param(PodShape(gpu=gpu_portion(300)), (5,), ["9753 MiB"], id="0.3 of a V100"),
        pytest.param(PodShape(gpu=gpu_memory(10_000)), (0,), ["10000 MiB"], id="an amount of memory"),
        pytest.param(PodShape(gpu=whole_gpus(2)), (1, 2), ["32510 MiB", "32510 MiB"], id="two whole ones"),
    ],
)
def test_nvidia_smi_shows_the_share(
    machine: Machine, shape: PodShape, devices: tuple[int, ...], shown: list[str]
) -> None:
    query = ("nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader")
    observed = machine.run("a", *query, shape=shape, devices=devices)
    assert machine.log(observed.order.pod).splitlines() == shown


def test_nvidia_smi_draws_its_table(machine: Machine) -> None:
    pod = machine.run("frac05", "nvidia-smi", shape=HALF).order.pod
    lines = machine.log(pod).splitlines()
    assert any(re.search(r"\|\s+0MiB / 16255MiB \|", line) for line in lines)
    assert any("simulated" in line for line in lines)
    assert {len(line) for line in lines if line.startswith(("|", "+"))} == {79}


# --- what the machine permits


def test_a_volume_is_seen_where_it_is_wanted_and_nothing_is_left_there(machine: Machine, tmp_path: Path) -> None:
    data = tmp_path / "set"
    data.mkdir()
    data.chmod(0o777)
    (data / "a.txt").write_text("hello\n")
    target = "/fairpool-test-dataset/deep"
    script = f"cat {target}/a.txt && echo new > {target}/b.txt"
    observed = machine.run("a", "sh", "-c", script, volumes=(Volume(source=str(data), target=target),))
    assert (observed.exit_code, machine.log(observed.order.pod)) == (0, "hello\n")
    assert (data / "b.txt").read_text() == "new\n"
    assert not Path("/fairpool-test-dataset").exists()


def test_a_read_only_volume_cannot_be_written(machine: Machine) -> None:
    volume = Volume(source=str(machine.shared), target="/mnt", read_only=True)
    observed = machine.run("a", "sh", "-c", "touch /mnt/x 2>/dev/null || exit 8", volumes=(volume,))
    assert observed.exit_code == 8


def test_pods_of_a_project_share_a_claim(machine: Machine) -> None:
    claim = (Volume(claim="test", target="/tmp/pvc1mount"),)
    assert machine.run("a", "sh", "-c", "echo shared > /tmp/pvc1mount/x", volumes=claim).exit_code == 0
    pod = machine.run("b", "cat", "/tmp/pvc1mount/x", volumes=claim).order.pod
    assert machine.log(pod) == "shared\n"
    assert not Path("/tmp/pvc1mount").exists()


def test_a_volume_that_does_not_exist_is_refused(machine: Machine) -> None:
    order = machine.order("a", "true", volumes=(Volume(source="/no/such/folder", target="/mnt"),))
    (answer,) = machine.engine.carry_out([order], TOKEN)
    assert answer.status is OrderStatus.REFUSED
    assert answer.message.startswith("/no/such/folder cannot be mounted at /mnt: it does not exist on dgx1-1")


def test_what_cannot_be_mounted_is_refused_and_not_ignored(machine: Machine) -> None:
    for what in ("mounts", "isolation"):
        machine.engine.supervisor._launcher.unavailable[what] = "Operation not permitted"
    order = machine.order("a", "true", volumes=(Volume(source="/usr", target="/mnt"),))
    (answer,) = machine.engine.carry_out([order], TOKEN)
    assert answer.status is OrderStatus.REFUSED
    assert "mount namespaces are not permitted on this machine (Operation not permitted)" in answer.message
    same = machine.run("b", "true", volumes=(Volume(source="/mnt", target="/mnt"),))
    assert same.exit_code == 0, "a path as it is on the machine needs no mount"


def test_a_pod_has_its_own_host_name_and_shared_memory(machine: Machine) -> None:
    pod = machine.run("frac05", "sh", "-c", "hostname; df -k /dev/shm | tail -1", shm_bytes=64 << 20).order.pod
    name, shm = machine.log(pod).splitlines()
    assert name == "frac05-0-0"
    assert shm.split()[1] == "65536"


def test_a_memory_limit_holds_or_is_said_not_to(machine: Machine) -> None:
    script = "x = bytearray(300 << 20)"
    pod = machine.start(machine.order("a", "python3", "-c", script, memory_limit_bytes=100 << 20))
    if "limits" in machine.engine.supervisor.unavailable:
        assert machine.until_exited(pod).exit_code == 0
        assert machine.log(pod).startswith("fairpool: CPU and memory limits are not enforced: ")
    else:
        observed = machine.until_exited(pod)
        assert (observed.exit_code, observed.message) == (137, "OOMKilled: it used more memory than its limit")


# --- exec and attach


def output_of(run: ExecSession) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(run.stdout, 65536)
        except OSError:  # a terminal whose other end was closed
            part = b""
        if not part:
            return b"".join(parts)
        parts.append(part)


def test_a_command_runs_beside_the_program_in_its_view(machine: Machine) -> None:
    (machine.shared / "file").write_text("seen\n")
    volumes = (Volume(source=str(machine.shared), target="/fairpool-test-view"),)
    pod = machine.up("a", "sleep", "1000", volumes=volumes, environment=(("COLOUR", "blue"),))
    script = 'cat /fairpool-test-view/file; echo "$COLOUR $JOB_NAME"; hostname; cat; echo oops >&2; exit 5'
    run = machine.engine.supervisor.execute(pod, ["sh", "-c", script])
    assert isinstance(run, ExecSession)
    os.write(run.stdin, b"typed\n")
    run.end_input()
    assert output_of(run) == b"seen\nblue a\na-0-0\ntyped\n"
    assert run.stderr is not None
    assert os.read(run.stderr, 100) == b"oops\n"
    assert run.wait(TIMEOUT_S) == 5
    run.close()


@pytest.fixture
def reachable(tmp_path: Path) -> Iterator[Machine]:
    """A machine whose shared folder other users can open."""
    with open_folder() as folder, a_machine(tmp_path / "data", shared=folder / "shared") as machine:
        yield machine


PERSON = SecurityContext(uid=4711, gid=4712, groups=(5000, 5001), directory_user=True)
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can choose the user of a pod")


def a_folder(machine: Machine, name: str, uid: int, gid: int) -> Path:
    folder = machine.shared / name
    folder.mkdir()
    os.chown(folder, uid, gid)
    folder.chmod(0o770)
    return folder


@AS_ROOT
def test_a_process_runs_with_uid_gid_and_groups_of_a_directory(reachable: Machine) -> None:
    """F-208: what it writes belongs to the person, in folders of the machine too."""
    machine, own, group = reachable, a_folder(reachable, "own", 4711, 4712), a_folder(reachable, "group", 4999, 5001)
    volumes = (
        Volume(claim="c", target="/pvc"),
        Volume(source=str(own), target="/pvc/new/own"),
        *(Volume(source=str(each), target=f"/{each.name}") for each in (own, group)),
    )
    script = (
        "id -G; id -u; touch /pvc/new/own/x /own/x /group/x /pvc/x $HOME/x && echo $LDAP_UID:$LDAP_GID; exec sleep 1000"
    )
    pod = machine.up("a", "sh", "-c", script, security=PERSON, volumes=volumes)
    machine.until(lambda: machine.log(pod).count("\n") == 3, "it has written")
    groups, uid, of_directory = machine.log(pod).splitlines()
    (claim,) = machine.engine.supervisor.state.claims.glob("*/c")
    project = claim.stat().st_gid
    assert (groups, uid, of_directory) == (f"4712 5000 5001 {project}", "4711", "4711:4712")
    for folder in (own, group):
        about = (folder / "x").stat()
        assert (about.st_uid, about.st_gid) == (4711, 4712)
    run = machine.engine.supervisor.execute(pod, ["sh", "-c", "id -G; id -u; grep NoNewPrivs /proc/self/status"])
    assert isinstance(run, ExecSession)
    assert output_of(run).decode().split() == [*groups.split(), "4711", "NoNewPrivs:", "1"], "a shell has the same"
    run.close()


@AS_ROOT
def test_a_directory_that_hangs_delays_only_the_pods_of_its_users(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, known = threading.Event(), pwd.getpwuid

    def slow(uid: int) -> pwd.struct_passwd:
        if uid == PERSON.uid:
            answers.wait(TIMEOUT_S)
        return known(uid)

    monkeypatch.setattr(pwd, "getpwuid", slow)
    monkeypatch.setattr(pod_start, "BoundedCalls", partial(BoundedCalls, 0.05))
    machine.reopen()
    order = machine.order("a", "sleep", "1000", security=PERSON)
    order = replace(order, program=replace(order.program, volumes=(), working_dir=""))
    (answer,) = machine.engine.carry_out([order], TOKEN)
    assert (answer.status, "do not answer" in answer.message) == (OrderStatus.LATER, True), answer.message
    answers.set()
    machine.until(lambda: machine.engine.carry_out([order], TOKEN)[0].status is OrderStatus.DONE, "it is accepted")


@AS_ROOT
def test_what_the_user_of_a_directory_may_not_open_is_not_mounted(reachable: Machine) -> None:
    """Even if root submitted it, over the local socket."""
    foreign = Volume(source=str(a_folder(reachable, "foreign", 4999, 4999)), target="/foreign")
    refused: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("foreign", {"volumes": (foreign,)}, "not readable for user 4711"),
        ("root", {"security": replace(PERSON, uid=0)}, "no user that a pod can run as"),
    )
    for name, fields, why in refused:
        order = reachable.order(name, "id", **{"security": PERSON, **fields})
        (answer,) = reachable.engine.carry_out([order], TOKEN)
        assert (answer.status, why in answer.message) == (OrderStatus.REFUSED, True), answer.message


def test_a_shell_has_a_terminal_that_can_be_resized(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    run = machine.engine.supervisor.execute(pod, ["sh"], tty=True, size=(30, 100))
    assert isinstance(run, ExecSession)
    os.write(run.stdin, b"stty size; tty\n")
    run.resize(40, 120)
    os.write(run.stdin, b"stty size; exit 3\n")
    text = output_of(run).decode()
    assert "40 120" in text
    assert "/dev/pts/" in text
    assert run.wait(TIMEOUT_S) == 3
    run.close()


def test_a_command_ends_when_its_client_disconnects_and_when_the_pod_ends(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    leaves, stays = (machine.engine.supervisor.execute(pod, ["sleep", "1000"]) for _ in range(2))
    assert isinstance(leaves, ExecSession)
    assert isinstance(stays, ExecSession)
    machine.until(lambda: len(machine.processes(pod)) == 3, "both run")
    leaves.close()
    machine.until(lambda: len(machine.processes(pod)) == 2, "the first is gone")
    machine.stop(pod)
    machine.until_exited(pod)
    assert machine.processes(pod) == []
    stays.close()


def test_a_command_that_does_not_exist_says_so(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    run = machine.engine.supervisor.execute(pod, ["nonesuch"])
    assert isinstance(run, ExecSession)
    assert run.wait(TIMEOUT_S) == 127
    run.close()


def test_a_pod_without_stdin_has_no_socket_until_a_client_asks_for_it(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "trap '' USR1; sleep 1000")
    assert not (machine.folder(pod) / "exec.sock").exists()
    for _ in range(2):
        run = machine.engine.supervisor.execute(pod, ["sh", "-c", "echo in; exit 5"])
        assert isinstance(run, ExecSession)
        assert output_of(run) == b"in\n"
        assert run.wait(TIMEOUT_S) == 5
        run.close()
    assert machine.see(pod).state is PodState.RUNNING


def test_what_prints_nothing_has_an_empty_log(machine: Machine) -> None:
    pod = machine.run("a", "true").order.pod
    assert machine.log(pod) == ""
    machine.forget(pod)


def test_exec_and_attach_need_a_running_pod(machine: Machine) -> None:
    pod = machine.run("a", "true").order.pod
    assert isinstance(machine.engine.supervisor.execute(pod, ["true"]), Problem)
    assert isinstance(machine.engine.supervisor.attach(PodId("never-0-0")), Problem)


def read_until(line: AttachSession, wanted: bytes) -> bytes:
    seen = b""
    end = time.monotonic() + TIMEOUT_S
    while wanted not in seen and time.monotonic() < end:
        seen += line.read(1.0) or b""
    assert wanted in seen, seen
    return seen


def test_an_attached_client_sees_earlier_output_and_types(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "echo ready; read line; echo got $line; read line; stty size; exit 4", tty=True)
    machine.until(lambda: "ready" in machine.log(pod), "it is ready")
    first = machine.engine.supervisor.attach(pod)
    assert isinstance(first, AttachSession)
    read_until(first, b"ready\r\n")
    first.write(b"hello\n")
    read_until(first, b"got hello")
    first.close()
    second = machine.engine.supervisor.attach(pod)
    assert isinstance(second, AttachSession)
    read_until(second, b"got hello")
    second.resize(33, 99)
    second.write(b"\n")
    read_until(second, b"33 99")
    assert machine.until_exited(pod).exit_code == 4
    second.close()


def test_a_program_reads_what_is_typed_without_a_terminal(machine: Machine) -> None:
    pod = machine.up("a", "cat", stdin=True)
    line = machine.engine.supervisor.attach(pod)
    assert isinstance(line, AttachSession)
    line.write(b"hello\n")
    read_until(line, b"hello\n")
    line.end_input()
    assert machine.until_exited(pod).exit_code == 0
    line.close()


# --- the sample trainer


QUICKSTART = "registry.example.org:5000/run-ai-demo/quickstart"


def test_the_quickstart_image_trains_and_reports(machine: Machine) -> None:
    arguments = ("--epochs", "2", "--steps", "5", "--step-seconds", "0")
    observed = machine.run("hyper1", image=QUICKSTART, arguments=arguments)
    assert observed.exit_code == 0
    log = machine.log(observed.order.pod)
    assert re.search(r"Epoch 2/2\n.*ETA: \d+:\d\d - loss: \d\.\d+ - acc: \d\.\d+", log)
    metrics = machine.engine.supervisor.reports(observed.order.pod)["metrics"]
    assert (metrics["epoch"], metrics["overall_epochs"]) == (2, 2)


def test_a_training_that_was_preempted_resumes_from_its_checkpoint(machine: Machine) -> None:
    settings = {"image": QUICKSTART, "arguments": ("--epochs", "4", "--steps", "10", "--step-seconds", "0.02")}
    first = machine.up("hyper1", **settings)
    machine.until(lambda: "Epoch 2/4" in machine.log(first), "it is in its second epoch")
    machine.stop(first, grace_s=20)
    left = machine.until_exited(first)
    assert (left.exit_code, left.after_notice) == (143, True)
    saved = re.search(r"saved a checkpoint after epoch (\d), step (\d+)", machine.log(first))
    assert saved is not None
    second = machine.run("hyper1", incarnation=1, **settings)
    assert second.exit_code == 0
    assert f"resuming from the checkpoint after epoch {saved[1]}, step {saved[2]}" in machine.log(second.order.pod)
    assert "Epoch 1/4" not in machine.log(second.order.pod)


def test_of_a_forgotten_workload_its_output_and_what_it_saved_are_left(machine: Machine) -> None:
    folders = {name: machine.root / name for name in ("checkpoints", "rendezvous", "pods", "logs")}
    save = "sh", "-c", 'echo kept; touch "$FAIRPOOL_CHECKPOINT_DIR/epoch-1"'
    saved = machine.run("saved", *save).order.pod
    gang = {"pods": 2, "together": True}
    first = machine.run("gang", "true", index=0, **gang).order.pod
    second = machine.up("gang", "sleep", "1000", index=1, **gang)
    machine.forget(saved)
    machine.forget(first)
    assert {path.name for path in folders["checkpoints"].iterdir()} == {"saved", "gang"}, "the second still uses it"
    assert len(list(folders["rendezvous"].iterdir())) == 1
    machine.stop(second)
    machine.until_exited(second)
    machine.forget(second)
    for index in range(2):
        machine.run("sweep", "true", index=index, pods=2)
    for index in range(2):
        machine.forget(machine.order("sweep", index=index).pod)
    assert [path.name for path in folders["checkpoints"].rglob("*")] == ["saved", "epoch-1"]
    assert list(folders["rendezvous"].iterdir()) == list(folders["pods"].iterdir()) == []
    assert machine.log(saved) == "kept\n"
    assert machine.run("gang", "sh", "-c", 'test -d "$FAIRPOOL_CHECKPOINT_DIR"', incarnation=1).exit_code == 0


def test_the_netapp_image_brings_its_script(machine: Machine) -> None:
    arguments = ("/netapp/scripts/run.py", "--dataset_dir=/mnt/mount_0/", "--num_devices=1", "--epochs=1", "--steps=2")
    # Not `/tmp:/tmp`, as in the documents: in this test it contains the data directory, which is refused.
    volumes = (Volume(source="/mnt", target="/mnt"),)
    observed = machine.run(
        "netapp1", "python", image="netapp/tensorflow-tfl-py3:20.01.0", arguments=arguments, volumes=volumes
    )
    assert observed.exit_code == 0, machine.log(observed.order.pod)
    assert "--dataset_dir=/mnt/mount_0/ --num_devices=1" in machine.log(observed.order.pod)


def test_the_reporter_needs_nothing_installed(machine: Machine) -> None:
    script = textwrap.dedent("""
        from runai.reporter import Reporter
        with Reporter() as reporter:
            reporter.reportMetric("accuracy", 0.87)
            reporter.reportParameter("optimizer_name", "adam")
    """)
    observed = machine.run("a", "python3", "-S", "-c", script)
    assert observed.exit_code == 0, machine.log(observed.order.pod)
    reports = machine.engine.supervisor.reports(observed.order.pod)
    assert (reports["metrics"], reports["parameters"]) == ({"accuracy": 0.87}, {"optimizer_name": "adam"})


def test_the_notebook_image_answers_on_its_port(machine: Machine) -> None:
    pod = machine.up("nb", image="jupyter/base-notebook", arguments=("--port=0",), environment=(("PATH", "/bin"),))
    machine.stop(pod, grace_s=0)
    assert machine.processes(pod) == []

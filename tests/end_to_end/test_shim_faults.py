"""What goes wrong around a shim: clients, full disks, damaged files, kills. The exit record is written all the same."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fairpool.agent import main_process, pod_directory, pod_stop, process_table, reaper
from fairpool.agent.exec_client import AttachSession, ExecSession
from fairpool.agent.pod_observer import PodObserver
from fairpool.engines.port import EngineUnreachable
from fairpool.model.ids import PodId
from fairpool.model.observation import OrderStatus, PodState, StopOrder
from fairpool.platform import background
from fairpool.platform.data_directory import DataDirectory
from tests.local_machine import NODE, TIMEOUT_S, TOKEN, Machine, a_machine, is_running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
ENDS_ON_SIGTERM = "echo ready; until [ -e {go} ]; do echo tick; sleep 0.05; done; exit 7"
"""Writes all the while, and ends with 7 when a file appears."""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with a_machine(tmp_path / "data") as machine:
        yield machine


@pytest.fixture
def go(tmp_path: Path) -> Path:
    return tmp_path / "shared" / "go"


def ends_on_sigterm(machine: Machine, go: Path, **fields: object) -> PodId:
    pod = machine.up("a", "sh", "-c", ENDS_ON_SIGTERM.format(go=go), **fields)
    machine.until(lambda: "tick" in machine.log(pod), "it writes")
    return pod


def assert_its_end_is_kept(machine: Machine, pod: PodId, go: Path) -> None:
    """Its first shim still keeps it: it writes on, and ends with its own code."""
    size = len(machine.log(pod))
    machine.until(lambda: len(machine.log(pod)) > size, "its log goes on")
    go.touch()
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.message) == (7, "")
    assert not (machine.folder(pod) / "shim.1").is_symlink()


# --- clients that leave at any moment, or send nonsense


def test_a_client_that_left_before_its_command_ended_costs_nothing(machine: Machine, go: Path) -> None:
    pod = ends_on_sigterm(machine, go)
    shim = machine.shim_pid(pod)
    run = machine.engine.supervisor.execute(pod, ["sleep", "987654"])
    assert isinstance(run, ExecSession)

    def of_the_exec_session() -> list[int]:
        return [pid for pid in process_table.descendants(shim) if b"987654" in command_line(pid)]

    machine.until(of_the_exec_session, "the command runs")
    # Both happen while the shim cannot look, so it hears of the command's end first.
    os.kill(shim, signal.SIGSTOP)
    os.kill(of_the_exec_session()[0], signal.SIGKILL)
    run.close()
    os.kill(shim, signal.SIGCONT)
    assert_its_end_is_kept(machine, pod, go)


@pytest.mark.parametrize("tty", [True, False])
def test_a_client_that_attached_and_left_at_once_costs_nothing(machine: Machine, go: Path, tty: bool) -> None:
    pod = ends_on_sigterm(machine, go, tty=tty, stdin=not tty)
    shim = machine.shim_pid(pod)
    os.kill(shim, signal.SIGSTOP)
    for _ in range(3):
        line = machine.engine.supervisor.attach(pod)
        assert isinstance(line, AttachSession)
        line.close()
    os.kill(shim, signal.SIGCONT)
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
def test_a_client_that_sends_nonsense_is_disconnected(machine: Machine, go: Path, packets: list[bytes]) -> None:
    pod = ends_on_sigterm(machine, go, tty=True)
    line = connect(machine, pod)
    for packet in packets:
        line.send(packet)
    with_fds = connect(machine, pod)
    null = os.open(os.devnull, os.O_RDWR)
    rights = array.array("i", [null, null, null]).tobytes()
    with_fds.sendmsg([json.dumps({"op": "exec"}).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])
    os.close(null)
    assert_its_end_is_kept(machine, pod, go)
    line.close()
    with_fds.close()


def test_a_command_beside_a_pod_is_under_the_pods_limits(machine: Machine, go: Path) -> None:
    if "limits" in machine.engine.supervisor.unavailable:
        pytest.skip(f"no limits here: {machine.engine.supervisor.unavailable['limits']}")
    pod = ends_on_sigterm(machine, go, memory_limit_bytes=200 << 20)
    run = machine.engine.supervisor.execute(pod, ["cat", "/proc/self/cgroup"])
    assert isinstance(run, ExecSession)
    assert run.wait(TIMEOUT_S) == 0
    assert machine.mark(pod).encode() in os.read(run.stdout, 65536)
    run.close()
    assert_its_end_is_kept(machine, pod, go)


def test_a_long_paste_into_a_terminal_arrives_whole(machine: Machine, go: Path) -> None:
    # The program does not read at first, so not all of it has room; nothing more is typed afterwards.
    script = "stty raw -echo; echo ready; until [ -e {go} ]; do sleep 0.05; done; head -c 300000 | wc -c; exit 7"
    pod = machine.up("a", "sh", "-c", script.format(go=go), tty=True)
    machine.until(lambda: "ready" in machine.log(pod), "it is ready")
    line = machine.engine.supervisor.attach(pod)
    assert isinstance(line, AttachSession)
    line.write(b"x" * 300_000)
    go.touch()
    assert machine.until_exited(pod).exit_code == 7
    assert "300000" in machine.log(pod)
    line.close()


def test_what_was_typed_before_the_end_of_input_arrives_whole(machine: Machine, go: Path) -> None:
    pod = machine.up("a", "sh", "-c", f"until [ -e {go} ]; do sleep 0.05; done; wc -c", stdin=True)
    line = machine.engine.supervisor.attach(pod)
    assert isinstance(line, AttachSession)
    line.write(b"x" * 300_000)
    line.end_input()
    go.touch()
    assert machine.until_exited(pod).exit_code == 0
    assert "300000" in machine.log(pod)
    line.close()


def connect(machine: Machine, pod: PodId) -> socket.socket:
    line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    handle = os.open(machine.folder(pod), os.O_PATH)
    line.connect(f"/proc/self/fd/{handle}/exec.sock")
    os.close(handle)
    return line


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


# --- a full disk

FULL = """
import os, sys
from pathlib import Path
from fairpool.agent.launch import LogRotation
from fairpool.model.observation import OrderStatus, StopOrder
from fairpool.model.spec import Volume
from tests.local_machine import NODE, TOKEN, a_machine

root = Path(sys.argv[1])
with a_machine(root / "data", rotation=LogRotation(segment_bytes=20_000, segments=2)) as machine:
    fill, go = root / "fill", Path(sys.argv[2]) / "go"

    def fill_up():
        with fill.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass

    many = f"until [ -e {go} ]; do sleep 0.05; done; head -c 60000 /dev/zero; exit 7"
    writes = machine.up("writes", "sh", "-c", many, volumes=(Volume(source=sys.argv[2], target=sys.argv[2]),))
    sleeps = machine.up("sleeps", "sleep", "1000", grace_s=1)
    ghosts = machine.processes(sleeps)
    fill_up()
    assert ghosts
    go.touch()
    large = machine.order("late", "sh", "-c", "exit 3", environment=(("A", "x" * 30_000),))
    (later,) = machine.engine.carry_out([large], TOKEN)
    assert later.status is OrderStatus.LATER, later
    assert "No space left" in later.message, later
    (told,) = machine.engine.carry_out([StopOrder(pod=sleeps, node=NODE, grace_s=1, reason="test")], TOKEN)
    assert told.status is OrderStatus.LATER, told
    assert "cannot be saved" in told.message, told
    machine.until(lambda: not machine.processes(sleeps), "it has left although its notice could not be written")
    machine.until(lambda: not machine.processes(writes), "it has ended")
    machine.engine.observe(TOKEN)
    assert not list(machine.folder(sleeps).glob("*.new"))
    fill.unlink()
    assert machine.until_exited(writes).exit_code == 7
    assert machine.until_exited(sleeps).exit_code == 143
    late = machine.until_exited(machine.start(large))
    assert late.exit_code == 3, late
print("all is well")
"""

NO_NAMES = """
import sys
from pathlib import Path
from fairpool.model.observation import OrderStatus
from tests.local_machine import TOKEN, a_machine

root = Path(sys.argv[1])
fill = root / "fill"
fill.mkdir()
with a_machine(root / "data") as machine:
    machine.engine.observe(TOKEN)
    for left in range(14):
        names = []
        try:
            while True:
                names.append(fill / f"{left}-{len(names)}")
                names[-1].touch()
        except OSError:
            names.pop()
        for name in names[:left]:
            name.unlink()
        order = machine.order(f"i{left}", "sh", "-c", "echo x; exit 5")
        (answer,) = machine.engine.carry_out([order], TOKEN)
        for _ in range(10):
            machine.engine.observe(TOKEN)
            machine.engine.wait(0.05)
        for name in names[left:]:
            name.unlink()
        if answer.status is OrderStatus.LATER:
            machine.start(order)
        sight = machine.until_exited(order.pod)
        cannot = sight.exit_code == 126 and "No space left" in sight.message
        assert cannot or (sight.exit_code, sight.message) == (5, ""), (left, sight)
        machine.forget(order.pod)
print("all is well")
"""


@pytest.mark.parametrize("fault", [FULL, NO_NAMES], ids=["no room", "room for a few files"])
def test_on_a_full_disk_pods_are_stopped_and_ends_are_kept(tmp_path: Path, fault: str) -> None:
    small = tmp_path / "small"
    small.mkdir()
    script = tmp_path / "full.py"
    script.write_text(fault)
    shell = 'mount -t tmpfs -o size=4m,nr_inodes=300 none "$1" && exec "$2" "$3" "$1" "$4"'
    (outside := tmp_path / "outside").mkdir()
    outside.chmod(0o777)
    command = ["unshare", "-m", "sh", "-c", shell, "sh", str(small), sys.executable, str(script), str(outside)]
    if subprocess.run(["unshare", "-m", "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("a small disk of one's own needs mount namespaces")
    done = subprocess.run(
        command, cwd=ROOT, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert done.stdout.strip() == "all is well", done.stderr


SHIM = """
import errno, sys
from fairpool.agent import main_process, shim, shim_launch

def no_room(*_):
    raise OSError(errno.ENOSPC, "no room")

if sys.argv[3] == "full":
    main_process.record = no_room
shim.prepare_signals()
shim.run_shim(sys.argv[2], 0, {**shim_launch.read_launch(sys.argv[1]), "limits": None})
"""


@pytest.mark.parametrize("disk", ["full", "with room"])
def test_an_isolated_pod_outlives_its_shim_once_it_is_recorded(machine: Machine, tmp_path: Path, disk: str) -> None:
    """A replacement would find neither its processes nor its output otherwise."""
    if "isolation" in machine.engine.supervisor.unavailable:
        pytest.skip(f"no isolation here: {machine.engine.supervisor.unavailable['isolation']}")
    seconds = f"{8_000_000 + os.getpid()}"
    pod = machine.up("a", "sleep", seconds)

    def programs() -> list[int]:
        sought = f"sleep\0{seconds}\0".encode()
        return [pid for pid in process_table.pids() if command_line(pid) == sought and is_running(pid)]

    (folder := tmp_path / "another").mkdir()
    command = [sys.executable, "-c", SHIM, str(machine.folder(pod)), str(folder), disk]
    with subprocess.Popen(command, cwd=ROOT) as shim:
        machine.until(lambda: len(programs()) == 2, "another shim has started the same")
        time.sleep(1)  # what is to be recorded is
        assert len(programs()) == 2
        shim.kill()
    main = main_process.recorded(str(folder))
    if disk == "full":
        assert main is None
        machine.until(lambda: len(programs()) == 1, "it has ended with its shim")
    else:
        assert main is not None
        time.sleep(0.2)
        assert len(programs()) == 2
        os.kill(main[0], signal.SIGKILL)


# --- damaged files


@pytest.mark.parametrize(
    "name", ["exit.json", "stop.json", "reports.json", "main", "main.1.x", "shim.0", "log.0", "log.x"]
)
def test_a_damaged_file_of_one_pod_harms_no_other(machine: Machine, go: Path, name: str) -> None:
    pod = ends_on_sigterm(machine, go)
    shim = machine.shim_pid(pod)
    path = machine.folder(pod) / name
    path.unlink(missing_ok=True)
    path.write_bytes(b"x\0\0\0")
    assert machine.see(pod).state is PodState.RUNNING
    machine.reopen()
    machine.see(pod)
    assert machine.run("b", "sh", "-c", "exit 3").exit_code == 3
    if name == "exit.json":
        assert_its_end_is_kept(machine, pod, go)
    machine.stop(pod, grace_s=0)
    machine.until_exited(pod)
    machine.until(lambda: not machine.processes(pod), "it is gone")
    machine.until(lambda: process_table.start_time(shim) is None, "its shim is gone")


@pytest.mark.parametrize("what", ["pipe", "endless"])
def test_a_pod_that_spoils_its_order_holds_up_no_other(machine: Machine, what: str) -> None:
    """Its order is read by the warm parent of all shims, which must not wait at a pipe, nor read for ever."""
    pod = machine.up("spoiler", "sleep", "600")
    order = machine.folder(pod) / "order.json"
    order.unlink()
    if what == "pipe":
        os.mkfifo(order)
    else:
        order.symlink_to("/dev/zero")
    os.kill(machine.shim_pid(pod), signal.SIGKILL)

    def has_replacement() -> bool:
        machine.see(pod)  # so that one is asked for
        return (machine.folder(pod) / "shim.1").is_symlink()

    machine.until(has_replacement, "a replacement has come")
    assert machine.run("another", "true").exit_code == 0


def test_a_pod_whose_order_was_damaged_is_ended(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    mark = machine.mark(pod)
    (machine.folder(pod) / "order.json").write_bytes(b'{"order": ')
    machine.reopen()
    assert pod not in machine.engine.observe(TOKEN).pods
    machine.until(lambda: not process_table.pod_processes(mark, {}), "its pod is unknown, so it is killed")


def test_an_order_its_shim_cannot_read_is_an_end(machine: Machine) -> None:
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGSTOP)
    pod = machine.start(machine.order("a", "sleep", "1000"))
    (machine.folder(pod) / "order.json").write_bytes(b'{"order": ')
    os.kill(fork_server, signal.SIGCONT)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.message) == (
        126,
        "ContainerCannotRun: order.json is damaged and cannot be read",
    )


def test_a_pod_whose_order_was_lost_with_the_power_is_forgotten(machine: Machine) -> None:
    lost, begun = machine.folder(PodId("lost-0-0")), machine.folder(PodId("begun-0-0"))
    for folder in (lost, begun):
        folder.mkdir()
        (folder / "order.json").touch()
    (lost / "log.0").write_text("said")
    (lost / "shim.0").symlink_to(f"{os.getpid()}.1.0")
    os.utime(lost, (1, 1))
    machine.reopen()
    machine.engine.observe(TOKEN)
    assert not lost.exists()
    assert machine.log(PodId("lost-0-0")) == "said"
    assert begun.exists(), "another process may be writing its order"


def test_a_pod_is_seen_to_run_although_its_shim_can_give_no_hint(machine: Machine) -> None:
    (machine.root / "hints").unlink()
    pod = machine.up("a", "sleep", "1000")
    assert machine.see(pod).state is PodState.RUNNING


def test_hints_that_mean_nothing_do_no_harm(machine: Machine) -> None:
    (machine.root / "hints").write_bytes(b"\xff\n\nno such pod\nhalf")
    assert machine.run("a", "sh", "-c", "exit 3").exit_code == 3


def test_a_fork_server_that_cannot_rehearse_makes_shims_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "data" / "warm-up").mkdir(parents=True)
    (tmp_path / "data" / "warm-up" / "pod").touch()
    with a_machine(tmp_path / "data") as machine:
        assert machine.run("a", "sh", "-c", "exit 3").exit_code == 3


def test_a_pod_does_not_start_in_its_shims_folder(machine: Machine) -> None:
    observed = machine.run("a", "sh", "-c", "echo x > ../exit.json; exit 7")
    assert observed.exit_code == 7
    assert machine.run("b", "sh", "-c", "exit 3").exit_code == 3
    machine.forget(observed.order.pod)
    assert [path.name for path in (machine.root / "scratch").iterdir() if path.is_dir()] == ["b-0-0"]


def test_a_damaged_token_is_said_in_words(machine: Machine) -> None:
    token = machine.root / "token"
    before = token.read_bytes() if token.exists() else b""
    token.write_bytes(b"\0\0\0\0")
    with pytest.raises(EngineUnreachable, match="is damaged"):
        machine.engine.observe(TOKEN)
    token.write_bytes(before)


def test_a_variable_that_cannot_be_is_an_end_with_words(machine: Machine) -> None:
    observed = machine.run("a", "true", environment=(("A=B", "1"),))
    assert observed.exit_code == 126
    assert observed.message.startswith("ContainerCannotRun: true: ")


# --- shims that are killed


def test_a_program_without_its_environment_is_not_lost_with_its_shim(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "sleep 876543 & exec env -i sh -c 'sleep 876543 & exec sleep 876543'")
    shim = machine.shim_pid(pod)

    def of_the_pod() -> list[int]:
        return [pid for pid in process_table.pids() if b"sleep\x00876543" in command_line(pid) and is_running(pid)]

    machine.until(lambda: len(of_the_pod()) == 3, "all of them run")
    ours = of_the_pod()
    os.kill(shim, signal.SIGKILL)
    machine.until(
        lambda: machine.see(pod).message == "" and (machine.folder(pod) / "shim.1").is_symlink(), "a replacement"
    )
    assert machine.see(pod).state is PodState.RUNNING
    assert machine.engine.supervisor.ours(ours) == set(ours)
    machine.stop(pod)
    observed = machine.until_exited(pod)
    assert (observed.exit_code, observed.after_notice) == (137, True)
    assert of_the_pod() == []


@pytest.mark.parametrize("earlier", [False, True], ids=["by a name", "by a link, as earlier versions said it"])
def test_a_replacement_shim_spares_a_process_that_reuses_the_programs_pid(machine: Machine, earlier: bool) -> None:
    innocent = subprocess.Popen(["sleep", "1000"])
    try:
        pod = machine.up("a", "sleep", "1000")
        os.kill(machine.shim_pid(pod), signal.SIGKILL)
        (main,) = machine.folder(pod).glob("main.*")
        main.unlink()
        if earlier:
            (machine.folder(pod) / "main").symlink_to(f"{innocent.pid}.1.0")
        else:
            (machine.folder(pod) / f"main.{innocent.pid}.1.0").touch()
        machine.until(
            lambda: machine.see(pod).message == "" and (machine.folder(pod) / "shim.1").is_symlink(), "a replacement"
        )
        machine.stop(pod, grace_s=0)
        machine.until_exited(pod)
        assert machine.processes(pod) == []
        assert innocent.poll() is None
    finally:
        innocent.kill()
        innocent.wait()


def test_a_replacement_shim_finds_a_program_that_an_earlier_version_recorded_as_a_link(machine: Machine) -> None:
    pod = machine.up("a", "env", "-i", "sleep", "765432")
    since = machine.see(pod).running_since
    (main,) = machine.folder(pod).glob("main.*")
    (machine.folder(pod) / "main").symlink_to(main.name.removeprefix("main."))
    main.unlink()
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    machine.until(
        lambda: machine.see(pod).message == "" and (machine.folder(pod) / "shim.1").is_symlink(), "a replacement"
    )
    assert (machine.see(pod).state, machine.see(pod).running_since) == (PodState.RUNNING, since)
    machine.stop(pod)
    machine.until_exited(pod)
    assert not [pid for pid in process_table.pids() if b"765432" in command_line(pid) and is_running(pid)]


def test_a_replacement_shim_serves_exec_and_attach(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")

    def replacement_has_come(generation: int) -> bool:
        return machine.see(pod).message == "" and (machine.folder(pod) / f"shim.{generation}").is_symlink()

    for generation in range(3):  # from the second on there is a socket already, and no listener
        run = machine.engine.supervisor.execute(pod, ["sh", "-c", "exit 5"])
        assert isinstance(run, ExecSession)
        assert run.wait(TIMEOUT_S) == 5
        run.close()
        os.kill(machine.shim_pid(pod, generation), signal.SIGKILL)
        machine.until(partial(replacement_has_come, generation + 1), "a replacement")


def test_shims_that_have_ended_are_collected(machine: Machine) -> None:
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    for number in range(3):
        machine.run(f"a{number}", "true")
    machine.until(
        lambda: not process_table.descendants(fork_server),
        "nothing is left below the fork server, not even a zombie",
    )


def test_a_pod_that_lost_many_shims_can_still_be_stopped(machine: Machine) -> None:
    pod = machine.up("a", "sleep", "1000")
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    for generation in range(1, 30):
        (machine.folder(pod) / f"shim.{generation}").symlink_to("0.0")
    machine.stop(pod)
    assert machine.until_exited(pod).exit_code == 137
    assert machine.processes(pod) == []


def test_a_pod_for_which_no_shim_can_be_had_is_ended_all_the_same(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "sleep 1000 & exec env -i sleep 1000")
    fork_server = machine.engine.supervisor.fork_server_pid
    assert fork_server is not None
    os.kill(fork_server, signal.SIGSTOP)
    os.kill(machine.shim_pid(pod), signal.SIGKILL)
    (answer,) = machine.engine.carry_out([StopOrder(pod=pod, node=NODE, grace_s=0, reason="test")], TOKEN)
    assert answer.status is OrderStatus.DONE, answer
    observed = machine.see(pod)
    assert (observed.state, observed.exit_code, observed.after_notice) == (PodState.EXITED, 137, True)
    assert machine.processes(pod) == []
    os.kill(fork_server, signal.SIGCONT)


def test_a_second_stop_without_grace_is_obeyed(machine: Machine) -> None:
    pod = machine.up("a", "sh", "-c", "trap '' TERM; echo deaf; while true; do sleep 1000; done")
    machine.until(lambda: "deaf" in machine.log(pod), "it is deaf")
    machine.stop(pod, grace_s=100_000)
    (answer,) = machine.engine.carry_out([StopOrder(pod=pod, node=NODE, grace_s=0, reason="now")], TOKEN)
    assert answer.status is OrderStatus.DONE, answer
    assert machine.see(pod).state is PodState.EXITED
    assert machine.processes(pod) == []


def test_down_ends_a_pod_whose_shim_is_stopped(tmp_path: Path) -> None:
    data_directory = DataDirectory(tmp_path)
    with a_machine(data_directory.machine) as machine:
        ends = machine.up("ends", "sleep", "1000", grace_s=60)
        stays = machine.up("stays", "sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 1000; done", grace_s=600)
        machine.until(lambda: "deaf" in machine.log(stays), "it is deaf")
        stopper = subprocess.Popen(["sh", "-c", f"while kill -STOP {machine.shim_pid(stays)}; do :; done"])
        try:
            assert background.stop_pods(data_directory, grace_s=1) == background.PodsStopped(ended=2, killed=1)
        finally:
            stopper.kill()
            stopper.wait()
        assert machine.until_exited(ends).exit_code == 143
        observed = machine.until_exited(stays)
        assert (observed.exit_code, observed.after_notice) == (137, True)


def test_down_says_which_pods_it_could_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_directory = DataDirectory(tmp_path)
    monkeypatch.setattr(background, "LAST_GRACE_S", 2.0)
    monkeypatch.setattr(pod_stop, "WITHOUT_GRACE_S", 0.2)
    monkeypatch.setattr(reaper, "KILL_TIMEOUT_S", 0.2)
    with a_machine(data_directory.machine) as machine:
        ends = machine.up("ends", "sleep", "1000", grace_s=0)
        stays = machine.up("stays", "sleep", "1000", grace_s=0)
        main = pod_directory.read_files(str(machine.folder(stays))).main
        assert main is not None
        first = main[0]  # which carries no mark

        def immortal() -> list[int]:
            """Looked up when they are killed: before its exec the program cannot be told from its shim."""
            return [*machine.processes(stays), first]

        with monkeypatch.context() as kernel:
            kernel.setattr(PodObserver, "signal_shim", lambda self, watched: None)
            kernel.setattr(
                process_table, "kill_processes", partial(kill_others, immortal, process_table.kill_processes)
            )
            assert background.stop_pods(data_directory) == background.PodsStopped(ended=1, killed=1, left=(stays,))
        assert machine.until_exited(ends).after_notice
        machine.stop(stays, grace_s=0)
        assert machine.until_exited(stays).after_notice


def kill_others(
    immortal: Callable[[], list[int]], really: Callable[[dict[int, int]], None], found: dict[int, int]
) -> None:
    """As with a process that waits for a disk which never answers."""
    spared = immortal()
    really({pid: started for pid, started in found.items() if pid not in spared})


# --- a copy of the data folder


def test_a_copy_of_the_data_folder_leaves_the_pods_of_the_original_alone(machine: Machine, tmp_path: Path) -> None:
    pod = machine.up("a", "sleep", "1000")
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-a", str(machine.root), str(copy)], check=True)
    with a_machine(copy) as other:
        assert other.engine.observe(TOKEN).pods == {}
        other.stop(pod, grace_s=0)
        mark = other.mark(other.up("b", "sleep", "1000"))
    assert machine.see(pod).state is PodState.RUNNING
    assert len(machine.processes(pod)) == 1
    assert mark != machine.mark(machine.up("b", "sleep", "1000"))

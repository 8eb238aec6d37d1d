"""`fairpool gpu` with a stub driver: what a program started by it gets, and what is shown meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fairpool.agent.fractions import library
from fairpool.agent.fractions.share_file import SharedDevice, encode_share
from tests.native.conftest import MIB, Built, uuid
from tools import native_build

pytestmark = pytest.mark.slow


class Command:
    """`fairpool gpu` on a machine with four cards of 10000 MiB."""

    def __init__(self, built: Built, folder: Path) -> None:
        self.puppet = str(built.folder / "puppet")
        self.shares = folder / "shares"
        variables = built.environment(STUB_STATE=str(folder / "cards"), STUB_DEVICES="0123")
        del variables["LD_PRELOAD"]
        self.environment = variables | {"FAIRPOOL_GPU_SHARES": str(self.shares), "COLUMNS": "250"}

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-m", "fairpool", "gpu", *words]
        return subprocess.Popen(command, env=self.environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)

    def done(self, *words: str, given: str = "") -> tuple[int, str, str]:
        process = self.start(*words)
        output, errors = process.communicate(given, timeout=60)
        return process.returncode, output, errors


@pytest.fixture
def command(builds: Callable[[str], Built], tmp_path: Path) -> Command:
    assert native_build.build(), "the library of the package could not be built"
    return Command(builds("gcc"), tmp_path)


def test_a_program_has_its_fraction_and_the_share_ends_with_it(command: Command) -> None:
    script = "open 0\ninfo\nalloc linear 2950\nalloc linear 2800\nnvml 0\n"
    code, output, errors = command.done("run", "--fraction", "0.3", "--device", "3", "--", command.puppet, given=script)
    lines = output.splitlines()
    assert (code, lines[0]) == (0, "0"), errors
    assert lines[1:4] == ["0 2900 3000", "2", "0"]
    assert "out of GPU memory: 2950 MiB asked for, 100 of the share's 3000 MiB are in use" in errors
    assert command.done("ps")[1] == "There are no shares of a GPU on this machine.\n"
    assert list(command.shares.glob("*.share")) == []


def test_ps_shows_what_each_process_of_a_share_uses(command: Command) -> None:
    process = command.start("run", "--memory", "2000", "--", command.puppet)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("open 0\nalloc linear 500\nalloc linear 5000\n")
    process.stdin.flush()
    assert [process.stdout.readline() for _ in range(3)] == ["0\n", "0\n", "2\n"]
    heading, row = command.done("top", "--count", "1")[1].splitlines()
    assert heading.split() == ["SHARE", "GPU", "FRACTION", "PID", "PROGRAM", "USED", "LIMIT", "PEAK", "REFUSED"]
    name, _, fraction, _, program, *figures = row.split()
    assert (name, fraction, program) == ("puppet", "-", "puppet")
    assert figures == ["600", "MiB", "2000", "MiB", "600", "MiB", "1"]
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_shares_of_a_gpu_are_never_more_than_it_and_a_killed_one_leaves_nothing(command: Command) -> None:
    first = command.start("run", "--fraction", "0.7", "--device", "0", "--", command.puppet)
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write("open 0\n")
    first.stdin.flush()
    assert first.stdout.readline() == "0\n"
    code, _, errors = command.done("run", "--fraction", "0.4", "--device", "0", "--", "true")
    assert code == 2
    assert "has 3000 of 10000 MiB left beside other shares, and 4000 MiB are asked for" in errors
    assert command.done("run", "--fraction", "0.3", "--device", "0", "--", "true")[0] == 0
    # The launcher is killed: the share stays for as long as its program runs.
    os.kill(first.pid, signal.SIGKILL)
    first.wait(timeout=30)
    assert command.done("run", "--fraction", "0.4", "--device", "0", "--", "true")[0] == 2
    first.communicate(timeout=30)  # the end of its input ends the program
    for _ in range(100):
        if command.done("run", "--fraction", "0.4", "--device", "0", "--", "true")[0] == 0:
            break
    else:
        pytest.fail("the share of a killed launcher stays")


def test_a_command_ends_with_the_code_of_its_program_and_passes_signals_on(command: Command) -> None:
    assert command.done("run", "--fraction", "0.5", "--", "sh", "-c", "exit 7")[0] == 7
    process = command.start("run", "--fraction", "0.5", "--", "sh", "-c", "trap 'exit 9' TERM; echo ready; read line")
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.terminate()
    assert process.wait(timeout=30) == 9
    process.communicate(timeout=30)


def test_what_is_ignored_by_nohup_is_ignored_by_the_program(command: Command) -> None:
    def asked(first: str) -> str:
        ours = [sys.executable, "-m", "fairpool", "gpu", "run", "--fraction", "0.5", "--"]
        line = ["sh", "-c", f'{first} exec "$@"', "sh", *ours, "grep", "SigIgn", "/proc/self/status"]
        return subprocess.run(line, env=command.environment, stdout=subprocess.PIPE, text=True, timeout=60).stdout

    hangup = 1 << (signal.SIGHUP - 1)
    assert int(asked("trap '' HUP;").split()[1], 16) & hangup
    assert not int(asked("").split()[1], 16) & hangup


def test_a_share_is_found_from_another_folder_and_its_end_is_no_result(command: Command) -> None:
    command.environment["FAIRPOOL_GPU_SHARES"] = os.path.relpath(command.shares)
    script = f"cd /; echo open 0 | {command.puppet}; rm -r {command.shares}; exit 5"
    assert command.done("run", "--fraction", "0.5", "--", "sh", "-c", script)[:2] == (5, "0\n")


def test_shares_whose_processes_have_ended_take_no_room(command: Command) -> None:
    first = command.start("run", "--fraction", "0.7", "--device", "0", "--", command.puppet)
    assert first.stdin is not None
    assert first.stdout is not None
    first.stdin.write("open 0\n")
    first.stdin.flush()
    assert first.stdout.readline() == "0\n"
    for card in range(3):  # all but the one of the running program
        left = SharedDevice(uuid=uuid(card), limit_bytes=9_999 * MIB)
        (command.shares / f"{card}.share").write_bytes(encode_share("left", [left]))
    code, _, errors = command.done("run", "--fraction", "0.5", "--", "true")
    assert code == 0, errors
    first.communicate(timeout=30)


def test_the_library_is_put_after_what_the_user_preloads(command: Command) -> None:
    command.environment["LD_PRELOAD"] = "libm.so.6"
    shown = command.done("run", "--fraction", "0.5", "--", "sh", "-c", "echo $LD_PRELOAD $CUDA_VISIBLE_DEVICES")[1]
    assert shown == f"libm.so.6:{library.LIBRARY} GPU-00000000-0000-0000-0000-000000000003\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--fraction", "1.5"], "1.5 is not a valid fraction of a GPU"),
        (["--fraction", "0.0001"], "with up to 3 decimals"),
        (["--fraction", "0.5", "--mode", "fair"], "--mode fair is not supported yet"),
        (["--fraction", "0.5", "--mode", "strict"], "--mode strict is not supported yet"),
        (["--fraction", "0.5", "--device", "9"], "--device 9: not found"),
        (["--memory", "20", "--fraction", "0.5"], "either --fraction or --memory"),
    ],
)
def test_what_cannot_be_done_is_refused_by_name(command: Command, words: list[str], said: str) -> None:
    code, _, errors = command.done("run", *words, "--", "true")
    assert code == 2
    assert said in errors


def test_a_program_that_would_run_without_the_library_is_refused(command: Command, tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", source, "-o", tmp_path / "static"], check=True, timeout=60)
    code, _, errors = command.done("run", "--fraction", "0.5", "--", str(tmp_path / "static"))
    assert code == 2
    assert "cannot be limited: it is statically linked" in errors


def test_check_shows_that_a_program_in_a_share_sees_its_part(command: Command) -> None:
    code, output, errors = command.done("check")
    assert (code, output.count("shares work.")) == (0, 4), errors
    asked = ("--", sys.executable, "-m", "fairpool", "gpu", "check")
    for device in ("0", "2"):
        inside = command.done("run", "--fraction", "0.3", "--device", device, *asked)[1]
        assert inside.endswith(": 3000 MiB of Stub.\n")
        assert inside.count("\n") == 1

"""`rntop` against a real SSH server on this machine, with an `nvidia-smi` of the test's own on the other side."""

from __future__ import annotations

import getpass
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.end_to_end.terminal import Terminal
from tests.needs import program

pytestmark = pytest.mark.slow

COMMAND = [sys.executable, "-m", "fairpool.cli.rntop.main"]
ESCAPE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
SMI = """#!/bin/sh
echo "$@" >> "$FOLDER/asked"
case "$MACHINE" in
  good) printf '0, GPU-a, 535.1, 90, 40960, 81920, NVIDIA A100\\n1, GPU-b, 535.1, 70, 20480, 81920, NVIDIA A100\\n';;
  idle) printf '0, GPU-c, 550.2, 0, 0, 16384, Tesla V100\\n';;
  hostile) printf '0, GPU-\\033]0;owned\\007, 1\\033[2J, 1, 1, 2, \\033[31mred\\033]52;c;ZXZpbA==\\007\\n';;
  loud) i=0; while [ $i -lt 5000 ]; do echo "$i, GPU, 1, 5, 5, 10, N"; i=$((i+1)); done;;
  long) head -c 3000000 /dev/zero | tr '\\0' 'x'; echo;;
  lying) printf '0, GPU, 1, 9e999, -5, nan, N\\n';;
  other) echo 'command not understood';;
  failing) echo 'NVIDIA-SMI has failed: no driver'; exit 9;;
  none) ;;
esac
"""


@dataclass
class Machines:
    """The server, and names under which ssh finds it."""

    config: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "TERM": "xterm", "PYTHONIOENCODING": "utf-8"}

    def shown(self, *words: str, until: str, rounds: int = 60) -> str:
        """What is printed in a pipe, up to the first table that has this in it."""
        command = [*COMMAND, "--ssh-config", str(self.config), "-i", "1", "--rounds", str(rounds), *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=self.environment, encoding="utf-8")
        assert process.stdout is not None
        text = ""
        for line in process.stdout:
            text = line if line.startswith("---") else text + line
            if line.startswith("\u2514") and text.count("\u2514") == 3 and re.search(until, text):
                break
        process.stdout.close()  # the reader has seen enough
        process.wait(120)
        assert re.search(until, text), text
        return text


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    sshd, ssh_keygen = program("sshd", "openssh-server"), program("ssh-keygen", "openssh-client")
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run([ssh_keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    (folder / "bin").mkdir()
    smi = folder / "bin" / "nvidia-smi"
    smi.write_text(SMI)
    smi.chmod(0o755)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        "PasswordAuthentication no\nKbdInteractiveAuthentication no\nUsePAM no\nStrictModes no\n"
        f"PermitRootLogin yes\nPidFile none\nAcceptEnv MACHINE\nSetEnv PATH={folder}/bin:/usr/bin:/bin "
        f"FOLDER={folder}\n"
    )
    key = (folder / "host.pub").read_text().split()
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
    cases = ("good", "idle", "hostile", "loud", "long", "lying", "other", "failing", "none")
    hosts = "".join(f"Host {name}\n  SetEnv MACHINE={name}\n" for name in cases)
    (folder / "ssh_config").write_text(
        f"{hosts}Host unknown-key\n  UserKnownHostsFile /dev/null\nHost closed\n  Port 1\nHost *\n"
        f"  HostName 127.0.0.1\n  Port {port}\n  IdentityFile {folder}/user\n  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {folder}/known_hosts\n  GlobalKnownHostsFile /dev/null\n"
    )
    server = subprocess.Popen([sshd, "-D", "-e", "-f", str(folder / "sshd_config")], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        yield Machines(folder / "ssh_config", folder)
    finally:
        server.terminate()
        server.wait(20)


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        assert server.poll() is None, "sshd did not start"
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError("sshd does not answer")


def test_machines_are_shown_with_their_sums_and_means(machines: Machines) -> None:
    text = machines.shown("good", "idle", "--gpu-name", "--gpu-uuid", until=r"good.*80%[\s\S]*idle.*0%")
    cluster = text.splitlines()[2]
    assert "GPU utilization:  40%  Used GPU memory: 61440 / 180224 MiB (34%)" in cluster
    assert re.search(r"good +driver 535\.1 +GPU utilization:  80% +Used GPU memory: 61440 / 163840 MiB \(38%\)", text)
    assert re.search(r"good +#1 +NVIDIA A100 +GPU-b +GPU utilization:  70%", text)
    assert re.search(r"idle +#0 +Tesla V100 +GPU-c +GPU utilization:   0% +Used GPU memory: 0 / 16384 MiB \(0%\)", text)


def test_only_the_query_is_asked(machines: Machines) -> None:
    """F-271."""
    machines.shown("good", until="80%")
    asked = set((machines.folder / "asked").read_text().splitlines())
    fields = "index,uuid,driver_version,utilization.gpu,memory.used,memory.total,name"
    assert asked == {f"--query-gpu={fields} --format=csv,noheader,nounits"}


def test_machines_that_cannot_be_reached_are_shown_beside_the_others(machines: Machines) -> None:
    text = machines.shown(
        "good", "closed", "unknown-key", until=r"80%[\s\S]*closed +unreachable[\s\S]*unknown-key +unreach"
    )
    assert re.search(r"closed +unreachable: ssh: connect to host 127.0.0.1 port 1: Connection refused", text)
    assert re.search(r"unknown-key +unreachable: Host key verification failed", text)
    assert "1 of 3 nodes" in text


@pytest.mark.parametrize(
    ("machine", "until"),
    [
        ("hostile", r"driver 1\\x1b\[2J"),
        ("lying", r"GPU utilization:   - +Used GPU memory: -"),
        ("other", "not the output of nvidia-smi: command not understood"),
        ("failing", "nvidia-smi failed: NVIDIA-SMI has failed: no driver"),
        ("none", "none +no GPU"),
        ("long", "not the output of nvidia-smi: xxx"),
    ],
)
def test_what_a_machine_sends_is_only_text(machines: Machines, machine: str, until: str) -> None:
    text = machines.shown(machine, "--gpu-name", "--gpu-uuid", until=until)
    assert "\x1b" not in text
    assert "\x07" not in text
    assert max(map(len, text.splitlines())) < 500


def test_a_machine_cannot_fill_the_screen_without_end(machines: Machines) -> None:
    text = machines.shown("loud", until="GPU utilization:   5%")
    assert text.count("loud ") == 257


def test_a_user_is_given_for_machines_without_one(machines: Machines) -> None:
    assert "80%" in machines.shown("-l", getpass.getuser(), "good", until="80%")
    said = machines.shown("-u", "no-such-user", "good", until="unreachable: no-such-user@127.0.0.1: Permission denied")
    assert "0 of 1 nodes" in said


def test_the_full_screen_comes_and_goes_and_no_connection_is_left(machines: Machines) -> None:
    """F-270."""
    command = [*COMMAND, "--ssh-config", str(machines.config), "-i", "1.25", "good"]
    environment = {**machines.environment, "COLUMNS": "100"}  # pytest's workers have one of their own
    with Terminal(command, environment, columns=100) as terminal:
        terminal.read_until("GPU utilization:  80%")
        terminal.read_until("#1  GPU utilization:  70%")  # the last row, so that all others were read
        terminal.read_until("\x1b[?1049h")
        terminal.read_until("\x1b[32mGPU utilization:  80%")
        terminal.read_until("\x1b[31mUsed GPU memory: 61440 / 163840 MiB (38%)")
        terminal.read_until("Ctrl-C to quit")
        terminal.interrupt()
    assert terminal.code == 130
    assert "\x1b[?1049l" in terminal.text
    for _ in range(900):
        left = subprocess.run(["pgrep", "-f", f"-F {machines.config}"], capture_output=True, check=False)
        loops = subprocess.run(["pgrep", "-f", "sleep 1.2[5]; done"], capture_output=True, check=False)
        if left.returncode == loops.returncode == 1:
            return
        time.sleep(0.1)
    raise AssertionError("ssh or the loop on the machine is still running")


def test_samples_are_appended_to_a_file(machines: Machines, tmp_path: Path) -> None:
    file = tmp_path / "samples.csv"
    for _ in range(2):
        machines.shown("good", "-o", str(file), "--output-every", "1", until="80%")
    lines = file.read_text().splitlines()
    assert lines[0] == "timestamp,node,index,utilization,memory_used,memory_total"
    assert lines.count(lines[0]) == 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ,good,0,90,40960,81920", lines[1])
    assert lines[-1].endswith(",good,1,70,20480,81920")


def test_this_machine_needs_no_ssh(machines: Machines) -> None:
    environment = {**machines.environment, "PATH": f"{machines.folder}/bin:{os.environ['PATH']}"}
    environment |= {"MACHINE": "idle", "FOLDER": str(machines.folder)}
    done = subprocess.run(
        [*COMMAND, "--local", "localhost", "--rounds", "4", "--gib"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=180,
    )
    assert "Used GPU memory: 0.0 / 16.0 GiB (0%)" in done.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "Missing argument 'HOST...'"),
        (["--colour", "a"], "No such option '--colour'"),
        (["--", "-oProxyCommand=touch /tmp/owned"], "is not a host"),
        (["a b"], "'a b' is not a host"),
        (["$(reboot)"], "is not a host"),
        (["-l", "-x", "a"], "'-x' is not a user name"),
        (["--local", "elsewhere"], "--local works only with the host localhost"),
        (["--libssh", "a"], "--libssh is not supported"),
        (["-i", "0", "a"], "0.0 is not in the range"),
    ],
)
def test_wrong_usage_is_answered_with_the_usage(words: list[str], said: str) -> None:
    done = subprocess.run([*COMMAND, *words], capture_output=True, text=True, check=False, timeout=180)
    assert done.returncode == 1
    assert done.stderr.startswith("Usage: rntop [OPTIONS] HOST...\n")
    assert said in done.stderr

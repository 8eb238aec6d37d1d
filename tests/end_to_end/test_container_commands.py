"""Commands typed against a platform whose jobs run in containers of podman: a slow image, a shell, and SSH."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from fairpool.api import workload_spec as work
from fairpool.model.container_rules import Privilege
from tests import needs
from tests.containers import BUSYBOX, Podman, running_podman, running_registry
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_live_on_one_machine import User
from tests.end_to_end.test_ports_on_one_machine import typed
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

PART, PAUSE_S = 4096, 0.2
"""Bytes of an image that a slow registry sends at a time, and the time between them."""
BASHRC = r"PS1='${debian_chroot:+($debian_chroot)}\u@\h:\w\$ '"
"""As images of Debian and Ubuntu have it in /etc/bash.bashrc."""
SSHD = """\
Port 2222
ListenAddress 127.0.0.1
HostKey /etc/ssh/host
AuthorizedKeysFile /keys/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PidFile none
Subsystem sftp internal-sftp
"""
PASSWD = "root:x:0:0:root:/root:/bin/bash\n"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with running_podman(tmp_path_factory.mktemp("podman")) as podman:
        yield podman


@pytest.fixture(scope="module")
def user(podman: Podman, tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("commands")
    platform = Running(folder / "data", nodes="1x4:V100-32GB")
    platform.up("--runtime", "podman", "--allow-privilege", "user")
    try:
        yield User(platform, folder)
    finally:
        platform.clean_up()
    podman.wait_until_empty()


@contextmanager
def slowed(address: str) -> Iterator[tuple[str, threading.Event]]:
    """A way to a server through which its answers come slowly, until the event is set; its address."""
    host, _, port = address.partition(":")
    is_fast = threading.Event()

    def serve() -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((host, int(port)))
                for pair in ((client, server, True), (server, client, False)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    def copy(source: socket.socket, target: socket.socket, is_request: bool) -> None:
        with suppress(OSError):
            while part := source.recv(PART):
                target.sendall(part)
                if not is_request:
                    is_fast.wait(PAUSE_S)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", is_fast
        finally:
            is_fast.set()
            listener.shutdown(socket.SHUT_RDWR)


def line_of(user: User, job: str) -> str:
    """The line of a job in the list."""
    lines = user.types("runai", "list", "jobs").splitlines()
    return next((line for line in lines if line.split()[:1] == [job]), "")


def test_a_job_whose_image_is_pulled_slowly_is_shown_as_creating_its_container(user: User, podman: Podman) -> None:
    """F-110."""
    with running_registry(podman.root) as fast, slowed(fast) as (slow, is_fast):
        podman.use_registry(fast)
        podman.make_image(f"{fast}/team/large:1", files={"data": os.urandom(1 << 20)})
        podman.run("push", f"{fast}/team/large:1")
        podman.run("rmi", f"{fast}/team/large:1")
        podman.use_registry(slow)
        user.types("runai", "submit", "large", "-i", f"{slow}/team/large:1", "--", "sleep", "1000")
        user.platform.until(lambda: "ContainerCreating" in line_of(user, "large"), "it is being created")
        described = user.types("runai", "describe", "job", "large")
        assert f"pulling image {slow}/team/large:1" in described
        assert "ContainerCreating" in line_of(user, "large"), "it takes a while"
        is_fast.set()
        user.platform.until(lambda: "Running" in line_of(user, "large"), "it runs")
    user.types("runai", "delete", "large")


def test_a_shell_in_a_job_has_the_prompt_of_its_image_and_its_user(user: User, podman: Podman) -> None:
    """F-119."""
    files: dict[str, str | bytes] = {"etc/passwd": PASSWD, "etc/bash.bashrc": BASHRC, "workload/.keep": ""}
    podman.make_image("localhost/workbench:1", ["USER root", "WORKDIR /workload"], files | program_files("bash"))
    security = {"uidGidSource": "fromTheImage"}
    spec = {"image": "localhost/workbench:1", "command": ["sleep", "1000"], "security": security}
    body = {"name": "bench", "projectId": "team-a", "spec": spec}
    made = user.platform.client.submit(work.SubmitWorkspace.model_validate(body))
    user.platform.until_phase(made.id, "Running")
    command = [sys.executable, "-m", "fairpool.cli.runai.main", "bash", "bench"]
    with Terminal(command, user.environment) as terminal:
        terminal.read_until("root@bench-0-0:/workload# ")
        terminal.write("cd /; echo $((6 * 7))\n")
        terminal.read_until("42\r\n")
        terminal.read_until("root@bench-0-0:/# ")
        terminal.write("exit 3\n")
    assert terminal.code == 3
    user.types("runai", "delete", "bench")


def test_ssh_and_sftp_work_through_a_forwarded_port(user: User, podman: Podman, tmp_path: Path) -> None:
    """F-151: what PyCharm and other editors do with a remote machine."""
    programs = [needs.program(name, "openssh-client") for name in ("ssh", "sftp", "ssh-keygen")]
    ssh, sftp, keygen = programs
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)], check=True)
    files: dict[str, str | bytes] = {
        "etc/passwd": PASSWD,
        "etc/ssh/host": (tmp_path / "host").read_bytes(),
        "etc/ssh/sshd_config": SSHD,
    }
    podman.make_image("localhost/remote:1", files=files | program_files("sshd", "openssh-server"))
    command = ("sh", "-c", "cd /home/pod && exec /bin/sshd -D -e -f /etc/ssh/sshd_config")
    user.types("runai", "configmap", "create", "keys", "--from-file", f"authorized_keys={tmp_path}/user.pub")
    flags = ("-i", "localhost/remote:1", "--interactive", "--configmap-volume", "name=keys,path=/keys")
    user.types("runai", "submit", "remote", *flags, "--", *command)
    user.platform.until(lambda: "Server listening" in user.type("runai", "logs", "remote")[1], "the server listens")
    uid = user.types("runai", "exec", "remote", "--", "id", "-u").strip()
    with typed(user, "port-forward", "remote", "--port", "0:2222") as forward:
        (port,) = forward.ports()
        key = (tmp_path / "host.pub").read_text().split()
        (tmp_path / "known").write_text(f"[127.0.0.1]:{port} {key[0]} {key[1]}\n")
        options = ["-F", "none", "-i", str(tmp_path / "user"), "-o", f"UserKnownHostsFile={tmp_path}/known"]
        options += ["-o", "BatchMode=yes", "-o", f"Port={port}"]

        def run(program: str, *words: str, text: str = "") -> str:
            line = [program, *options, *words]
            done = subprocess.run(line, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        assert run(ssh, f"{uid}@127.0.0.1", "hostname; id -u") == f"remote-0-0\n{uid}\n"
        (tmp_path / "code.py").write_text("print(42)\n" * 100_000)
        lines = f"put {tmp_path}/code.py /tmp/code.py\nget /tmp/code.py {tmp_path}/back.py\n"
        run(sftp, "-b", "-", f"{uid}@127.0.0.1", text=lines)
        assert (tmp_path / "back.py").read_bytes() == (tmp_path / "code.py").read_bytes()
        assert run(ssh, f"{uid}@127.0.0.1", "wc -l /tmp/code.py").split()[0] == "100000"
    user.types("runai", "delete", "remote")


def program_files(name: str, package: str = "") -> dict[str, str | bytes]:
    """A program of this machine and the libraries it needs, for an image."""
    path = needs.program(name, package or name)
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
    libraries = [word for word in listed.split() if word.startswith("/")]
    return {f"bin/{name}": Path(path).read_bytes(), **{each[1:]: Path(each).read_bytes() for each in libraries}}


def test_a_privilege_that_the_node_does_not_allow_is_refused_when_it_is_submitted(user: User) -> None:
    for more in ((), ("--dry-run",)):
        code, out, err = user.type("runai", "submit", "host", "-i", BUSYBOX, "--host-network", *more, "--", "true")
        assert code != 0, out
        assert f"--allow-privilege {Privilege.HOST_NETWORK.value}" in " ".join(err.split())
    code, out, err = user.type("runai", "submit-dist", "pytorch", "gang", "--workers", "1", "-i", BUSYBOX, "--", "true")
    assert code != 0, out
    assert "distributed run" in err
    assert user.platform.client.find_workload("team-a", "host") is None

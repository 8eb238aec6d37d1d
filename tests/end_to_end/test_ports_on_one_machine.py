"""Ports of jobs, as typed against a real platform: external ports, forwarded ports, replicas, a killed server."""

from __future__ import annotations

import re
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from fairpool.cli.runai.port_forward import CONNECTIONS_MAX
from tests.end_to_end.terminal import Terminal
from tests.end_to_end.test_live_on_one_machine import User
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

SAYS_WHO = """
import http.server, socket, sys
class Tool(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = socket.gethostname().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Tool).serve_forever()
"""
COUNTS = """
import http.server, sys
class Tool(http.server.BaseHTTPRequestHandler):
    connections = set()
    def setup(self):
        self.connections.add(self)
        super().setup()
    def finish(self):
        super().finish()
        self.connections.discard(self)
    def do_GET(self):
        body = str(len(self.connections)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Tool).serve_forever()
"""
"""A tool that answers with the number of its open connections."""
PORT = "8080"
TOOL = ("--", "python", "-c", SAYS_WHO, PORT)


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("ports")
    with socket.create_server(("127.0.0.1", 0)) as free:
        listen = f"127.0.0.1:{free.getsockname()[1]}"
    platform = Restarted(folder / "data", listen)
    platform.up()
    try:
        yield User(platform, folder)
    finally:
        platform.clean_up()


class Restarted(Running):
    """A platform that is found at the same address after a restart."""

    def __init__(self, folder: Path, listen: str) -> None:
        super().__init__(folder, nodes="2x2:V100-32GB")
        self._listen = listen

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return super().up("--listen", self._listen, *arguments)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def said_at(port: int | str, host: str = "127.0.0.1") -> str:
    """What answers there; empty: nothing does."""
    try:
        with urllib.request.urlopen(f"http://{host}:{port}/", timeout=PATIENCE_S) as answer:
            return str(answer.read().decode())
    except (urllib.error.URLError, ConnectionError, OSError):
        return ""


def submitted(user: User, name: str, *flags: str, tool: str = SAYS_WHO) -> str:
    user.types("runai", "submit", name, "-i", "python", *flags, "--", "python", "-c", tool, PORT)
    found = user.platform.client.find_workload("team-a", name)
    assert found is not None
    user.platform.until_phase(found.id, "Running")
    return found.id


@contextmanager
def typed(user: User, *arguments: str) -> Iterator[Said]:
    """A command that goes on, and what it says."""
    process = user.begin("runai", *arguments)
    try:
        yield Said(process)
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


class Said:
    """What a running command has written to standard error."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process, self.text = process, ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        with suppress(ValueError):  # it was closed
            for line in self.process.stderr:
                self.text += line

    def until(self, words: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while words not in self.text:
            assert time.monotonic() < end, f"waited in vain for {words!r}: {self.text}"
            time.sleep(0.05)

    def ports(self, count: int = 1) -> list[int]:
        end = time.monotonic() + PATIENCE_S
        while len(found := re.findall(r"Forwarding from \S+?:(\d+) ", self.text)) < count:
            assert time.monotonic() < end, self.text
            time.sleep(0.05)
        return [int(each) for each in found]


def test_a_node_port_answers_as_listed_survives_a_killed_server_and_is_given_back(user: User) -> None:
    external = free_port()
    workload = submitted(user, "web", "--service-type", "nodeport", "--port", f"{external}:{PORT}")
    assert f"http://127.0.0.1:{external}" in user.types("runai", "list", "-o", "wide")
    user.platform.until(lambda: said_at(external) == "web-0-0", "the port answers")
    assert said_at(PORT) != "web-0-0", "the pod's own port is in its own network"
    code, _, err = user.type(
        "runai", "submit", "b", "-i", "python", "-s", "nodeport", "--port", f"{external}:80", *TOOL
    )
    assert (code, f"external port {external} is taken: it belongs to the job web" in err) == (1, True), err
    user.platform.kill()
    user.platform.up()
    user.platform.until(lambda: said_at(external) == "web-0-0", "the port answers again")
    user.types("runai", "suspend", "web")
    user.platform.until(lambda: said_at(external) == "", "a suspended job does not answer")
    assert f":{external}" not in user.types("runai", "list", "-o", "wide")
    user.types("runai", "delete", "web")
    user.platform.until(lambda: user.platform.phase(workload) in ("Deleted", ""), "it is gone")
    user.platform.until(lambda: is_free(external), "the port is free")


def is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def test_a_port_of_another_program_is_refused(user: User) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        code, _, err = user.type("runai", "submit", "b", "-i", "python", "-s", "loadbalancer", "--port", f"{taken}:80")
    assert (code, "another program of the server's machine uses it" in err) == (1, True), err
    assert user.platform.client.find_workload("team-a", "b") is None


def test_replicas_that_listen_on_one_port_share_its_connections(user: User) -> None:
    external = free_port()
    flags = ("--inference", "--replicas", "2", "-s", "loadbalancer", "--port", f"{external}:{PORT}")
    workload = submitted(user, "model", *flags)
    pods = {"model-0-0", "model-1-0"}
    user.platform.until(lambda: {said_at(external), said_at(external)} == pods, "both answer, in turn")
    token = user.platform.owner_token()
    gateway = str(user.platform.status["gateway"]).rpartition(":")[2]
    request = urllib.request.Request(
        f"http://127.0.0.1:{gateway}/",
        headers={"Host": f"{workload}-{PORT}.localhost:{gateway}", "Authorization": f"Bearer {token}"},
    )
    answers = set()
    for _ in range(6):
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            answers.add(answer.read().decode())
    assert answers == pods
    user.types("runai", "delete", "model")


@pytest.mark.flag("--address", "--service-type")
def test_submit_forwards_ports_until_the_job_is_over(user: User) -> None:
    local = free_port()
    flags = (
        "-i",
        "python",
        "--service-type=portforward",
        "--port",
        f"{local}:{PORT}",
        "--address",
        "127.0.0.1,127.0.0.2",
    )
    with typed(user, "submit", "fwd", *flags, *TOOL) as command:
        for words in ("Waiting for pod to start running...", "Job started", f"service from localhost:{local}"):
            command.until(words)
        user.platform.until(lambda: said_at(local) == "fwd-0-0", "it is forwarded")
        assert said_at(local, "127.0.0.2") == "fwd-0-0", "at the other address too"
        user.types("runai", "suspend", "fwd")
        command.until("fwd does not run at the moment")
        assert said_at(local) == ""
        user.types("runai", "resume", "fwd")
        command.until("fwd runs; connections are forwarded.")
        user.platform.until(lambda: said_at(local) == "fwd-0-1", "the next pod answers at the same port")
        user.types("runai", "delete", "fwd")
        command.until("fwd is over; its ports are no longer forwarded.")
        assert command.process.wait(PATIENCE_S) == 1


@pytest.mark.flag("--jupyter")
def test_a_notebook_starts_with_a_token_and_its_port_is_forwarded(user: User) -> None:
    local = free_port()
    with typed(user, "submit", "nb", "--jupyter", "--port", f"{local}:8888") as command:
        command.until("Job started")
        user.platform.until(lambda: said_at(local) != "", "the notebook answers")
        token = re.search(r"^Jupyter notebook token: ([0-9a-f]{48})$", command.text, re.MULTILINE)
        assert token is not None, command.text
        assert user.types("runai", "exec", "nb", "--", "printenv", "JUPYTER_TOKEN") == f"{token[1]}\n"
        made = user.platform.client.find_workload("team-a", "nb")
        assert made is not None
        assert made.type == "Workspace"
    user.types("runai", "delete", "nb")


@contextmanager
def reset_at_the_end(port: int, count: int) -> Iterator[None]:
    """So many connections, which are not closed in order."""
    with ExitStack() as stack:
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE_S))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        yield


def test_connections_that_clients_reset_are_closed_in_the_pod_and_make_room_for_others(user: User) -> None:
    external = free_port()
    submitted(user, "count", "-s", "nodeport", "--port", f"{external}:{PORT}", tool=COUNTS)
    user.platform.until(lambda: said_at(external) == "1", "the port answers")
    with typed(user, "port-forward", "count", "--port", f"0:{PORT}") as forward:
        (local,) = forward.ports()
        with ExitStack() as opened:
            opened.enter_context(reset_at_the_end(external, 8))
            for count in range(8, CONNECTIONS_MAX + 1, 8):  # one after the other, as people open them
                opened.enter_context(reset_at_the_end(local, 8))
                there = str(8 + count + 1)
                user.platform.until(lambda there=there: said_at(external) == there, "all are open")  # type: ignore[misc]
            assert said_at(local) == "", "no more are forwarded"
        user.platform.until(lambda: said_at(external) == "1", "the pod has none of them")
        user.platform.until(lambda: said_at(local) == "1", "others are forwarded")
    user.types("runai", "delete", "count")


def test_what_is_open_says_so_when_the_server_is_killed_and_goes_on_or_ends_with_a_code(user: User) -> None:
    workload = submitted(user, "open", "--interactive", "--stdin", "--tty", "-s", "ingress", "--port", PORT)
    user.platform.until(lambda: user.platform.client.workload(workload).urls, "it has an address")
    shell = ("exec", "open", "--", "sh", "-c", "echo ready >&2; sleep 1000")
    several = ("--port", f"0:{PORT}", "--port", f"0:{PORT}")
    with (
        typed(user, "port-forward", "open", *several) as forward,
        typed(user, *shell) as bash,
        on_a_terminal(user, "bash", "open") as terminal,
        on_a_terminal(user, "attach", "open") as attached,
    ):
        ports = forward.ports(2)
        user.platform.until(lambda: {said_at(port) for port in ports} == {"open-0-0"}, "both are forwarded")
        bash.until("ready")
        terminal.read_until("$ ")
        user.platform.until(lambda: not attached.hears_ctrl_c, "it is attached")
        user.platform.kill()
        forward.until("The server does not answer")
        assert bash.process.wait(PATIENCE_S) == 255
        assert "connection" in bash.text.lower() or "server" in bash.text.lower(), bash.text
        for each in (terminal, attached):
            each.read_until("connection")
            user.platform.until(lambda it=each: it.hears_ctrl_c, "the terminal is as it was")  # type: ignore[misc]
        assert [said_at(port) for port in ports] == ["", ""]
        user.platform.up()
        forward.until("open runs; connections are forwarded.")
        user.platform.until(lambda: {said_at(port) for port in ports} == {"open-0-0"}, "they are forwarded again")
    assert (terminal.code, attached.code) == (255, 255)
    user.types("runai", "delete", "open")


def on_a_terminal(user: User, *arguments: str) -> Terminal:
    return Terminal([sys.executable, "-m", "fairpool.cli.runai.main", *arguments], user.environment)


def test_ctrl_c_on_a_terminal_ends_forwarding_and_the_job_runs_on(user: User) -> None:
    workload = submitted(user, "keyed")
    with on_a_terminal(user, "port-forward", "keyed", "--port", f"0:{PORT}") as terminal:
        terminal.read_until("Ctrl-C ends it.")
        (local,) = re.findall(rf"Forwarding from 127\.0\.0\.1:(\d+) -> {PORT} ", terminal.text)
        user.platform.until(lambda: said_at(local) == "keyed-0-0", "it is forwarded")
        terminal.interrupt()
    assert terminal.code == 130
    assert "Traceback" not in terminal.text
    assert said_at(local) == ""
    assert user.platform.phase(workload) == "Running"
    user.types("runai", "delete", "keyed")


def test_a_job_on_a_terminal_is_attached_to_left_and_attached_to_again(user: User) -> None:
    user.types("runai", "submit", "keys", "-i", "ubuntu", "--interactive", "--stdin", "--tty", "--", "sh")
    found = user.platform.client.find_workload("team-a", "keys")
    assert found is not None
    user.platform.until_phase(found.id, "Running")
    for number in (1, 2):
        with on_a_terminal(user, "attach", "keys") as terminal:
            user.platform.until(lambda it=terminal: not it.hears_ctrl_c, "it is attached")  # type: ignore[misc]
            terminal.write(f"echo $((20 + {number})); tty\r")
            terminal.read_until(f"\n{20 + number}\r")
            terminal.read_until("/dev/pts/")
            if number == 2:
                terminal.write("exit 6\r")
            else:
                terminal.kill()
        assert terminal.code == (6 if number == 2 else -9)
        assert number == 2 or user.platform.phase(found.id) == "Running", "who leaves does not end the job"
    user.types("runai", "delete", "keys")

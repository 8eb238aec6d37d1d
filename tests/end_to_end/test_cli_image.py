"""The image with the `runai` command, built with its script and used in a container with a network of its own: what a
user of Windows has. F-129, F-130."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.containers import Podman, running_podman
from tests.end_to_end.test_live_on_one_machine import User
from tests.python_image import python_archive
from tests.running_platform import PATIENCE_S, Running

pytestmark = pytest.mark.slow

BUILD = Path(__file__).parents[2] / "packaging" / "cli-image" / "build.sh"
BASE, IMAGE, NETWORK = "localhost/python:1", "localhost/runai:1", f"fairpool-cli-{os.getpid()}"
GATEWAY, SUBNET = f"10.231.{os.getpid() % 250}.1", f"10.231.{os.getpid() % 250}.0/24"
"""Of a private bridge, which no other machine reaches, and which tests in other processes do not share."""
SERVER_NAME = "fairpool.example"
PORT = "8080"
HELLO = "hello from the pod"
SAYS_HELLO = f"""
import http.server
class Tool(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{HELLO}")
http.server.ThreadingHTTPServer(("127.0.0.1", {PORT}), Tool).serve_forever()
"""
USER, PASSWORD = "ann@example.com", "correct horse"
END_FORWARDS = """
import os, signal
for each in filter(str.isdigit, os.listdir("/proc")):
    words = open(f"/proc/{each}/cmdline", "rb").read().split(b"\\0")
    if b"runai" in (os.path.basename(word) for word in words[:2]):
        os.kill(int(each), signal.SIGINT)
"""
EVERY_MODULE = """
import importlib, pkgutil, fairpool.cli.adm, fairpool.cli.runai
for package in (fairpool.cli.adm, fairpool.cli.runai):
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(each.name)
import fairpool.api.client, fairpool.api.tunnel, httpx2, rich, yaml
"""


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with running_podman(tmp_path_factory.mktemp("podman")) as podman:
        podman.run("import", "--change=CMD python3", str(python_archive(podman.root)), BASE)
        command = [str(BUILD), "--base", BASE, "--tag", IMAGE, "--python", sys.executable]
        built = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
        assert built.returncode == 0, built.stdout + built.stderr
        yield podman


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    folder = tmp_path_factory.mktemp("cli-image")
    platform = Running(folder / "data", nodes="1x2:V100-32GB")
    platform.up("--host-name", SERVER_NAME)
    try:
        user = User(platform, folder)
        add_researcher(platform)
        yield user
    finally:
        platform.clean_up()


def add_researcher(platform: Running) -> None:
    """A user of the project with a password."""

    def post(path: str, body: Mapping[str, object]) -> str:
        headers = {"Authorization": f"Bearer {platform.owner_token()}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{platform.status['address']}{path}", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return str(json.load(answer)["id"])

    subject = post("/api/v1/users", {"email": USER, "password": PASSWORD, "needToChangePassword": False})
    rule = {"subjectId": subject, "roleId": "researcher", "scopeType": "project", "scopeId": "team-a"}
    post("/api/v1/authorization/access-rules", rule)


@pytest.fixture(scope="module")
def laptop(podman: Podman, user: User) -> Iterator[Laptop]:
    """A container on a bridge of its own, from which the server is reached under its name."""
    podman.run("network", "create", "--subnet", SUBNET, "--gateway", GATEWAY, NETWORK)
    try:
        options = [f"--network={NETWORK}", f"--add-host={SERVER_NAME}:{GATEWAY}", "--init", "--name=laptop"]
        podman.run("run", "--detach", *options, IMAGE, "python3", "-c", "import time; time.sleep(100000)")
        wanted = f'{{{{(index .NetworkSettings.Networks "{NETWORK}").IPAddress}}}}'
        address = podman.run("inspect", "laptop", "--format", wanted)
        with relayed(str(user.platform.status["address"]).rpartition(":")[2]) as port:
            laptop = Laptop(podman, address)
            server = f"http://{SERVER_NAME}:{port}"
            laptop.types("runai", "login", "--server", server, "--user", USER, "--password-stdin", text=PASSWORD)
            laptop.types("runai", "config", "project", "team-a")
            yield laptop
    finally:
        podman.run("rm", "--force", "--time=0", "laptop", check=False)
        podman.run("network", "rm", "--force", NETWORK, check=False)
        subprocess.run(["ip", "link", "delete", bridge] if (bridge := bridge_of(GATEWAY)) else ["true"], check=False)


def bridge_of(address: str) -> str:
    """The interface with an address, if there is one."""
    listed = subprocess.run(["ip", "-o", "addr"], capture_output=True, text=True, check=True).stdout
    return next((line.split()[1] for line in listed.splitlines() if f" {address}/" in line), "")


@contextmanager
def relayed(port: str) -> Iterator[int]:
    """A port on the bridge that leads to one of this machine's loopback address."""

    def serve() -> None:
        with suppress(OSError):  # closed at the end
            while True:
                client, _ = listener.accept()
                server = socket.create_connection(("127.0.0.1", int(port)))
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    def copy(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while part := source.recv(65536):
                target.sendall(part)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)

    with socket.create_server((GATEWAY, 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        try:
            yield listener.getsockname()[1]
        finally:
            listener.shutdown(socket.SHUT_RDWR)


class Laptop:
    """Where a person types: in the container."""

    def __init__(self, podman: Podman, address: str) -> None:
        self._podman, self.address = podman, address

    def types(self, *words: str, text: str | None = None) -> str:
        return self._podman.run("exec", "--interactive", "laptop", *words, text=text)

    @contextmanager
    def forwarding(self, *words: str) -> Iterator[None]:
        """While a command in the container forwards a port; ended as the terminal that is closed would."""
        command = ["podman", "exec", "--interactive", "laptop", *words]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        late = threading.Timer(PATIENCE_S, process.kill)
        late.start()
        try:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line)
                if "localhost:" in line or "0.0.0.0:" in line or "Forwarding" in line:
                    break
            else:
                pytest.fail("".join(lines))
            late.cancel()
            yield
        finally:
            late.cancel()
            self._podman.run("exec", "laptop", "python3", "-c", END_FORWARDS, check=False)
            process.communicate(timeout=PATIENCE_S)

    def said(self, port: str) -> str:
        """What is answered at a port of the container, from outside of it."""
        try:
            with urllib.request.urlopen(f"http://{self.address}:{port}/", timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


def test_a_user_signs_in_and_lists_projects_in_the_container(laptop: Laptop) -> None:
    """F-129."""
    laptop.types("python3", "-c", EVERY_MODULE)
    assert "Usage: runai-adm " in laptop.types("runai-adm", "--help")
    assert "team-a" in laptop.types("runai", "list", "projects")
    assert USER in laptop.types("runai", "whoami")


@pytest.mark.flag("--address")
def test_a_forwarded_port_is_reached_from_outside_the_container(laptop: Laptop, user: User) -> None:
    """F-130."""
    user.runs("web", "python", "-c", SAYS_HELLO)
    with laptop.forwarding("runai", "port-forward", "web", "--port", f"8081:{PORT}"):
        assert laptop.said("8081") == "", "only the container itself reaches its loopback address"
    with laptop.forwarding("runai", "port-forward", "web", "--port", f"{PORT}:{PORT}", "--address", "0.0.0.0"):
        user.platform.until(lambda: laptop.said(PORT) == HELLO, "it is reached")
    user.types("runai", "delete", "web")
    submit = ("runai", "submit", "own", "-i", "python", "-g", "0.5", "--service-type=portforward")
    flags = ("--port", f"8082:{PORT}", "--address", "0.0.0.0", "--", "python", "-c", SAYS_HELLO)
    with laptop.forwarding(*submit, *flags):
        user.platform.until(lambda: laptop.said("8082") == HELLO, "it is reached")
    user.types("runai", "delete", "own")

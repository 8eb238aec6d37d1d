"""Web tools of real pods through the gateway, as a browser and as programs reach them."""

from __future__ import annotations

import http.client
import json
import re
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.workload_spec import SubmitTraining
from tests.end_to_end.test_two_programs import make_project
from tests.running_platform import PATIENCE_S, Running
from tests.two_programs import ClusterProcess, control_at

WEB = Path(__file__).parent / "web_tool.py"


class Person:
    """A user at a browser without scripts: follows redirects, keeps cookies by host name."""

    def __init__(self) -> None:
        self.cookies: dict[str, dict[str, str]] = {}

    def get(self, url: str, **headers: str) -> tuple[int, str, str]:
        """Status, body and final URL."""
        for _ in range(12):
            status, fields, body = self.request("GET", url, **headers)
            if status not in (302, 303, 307):
                return status, body, url
            url = urllib.parse.urljoin(url, fields["location"])
        raise AssertionError(f"too many redirects: {url}")

    def post(self, url: str, **form: str) -> tuple[int, str, str]:
        status, fields, body = self.request("POST", url, urllib.parse.urlencode(form))
        return self.get(urllib.parse.urljoin(url, fields["location"])) if status == 303 else (status, body, url)

    def request(self, method: str, url: str, form: str = "", **headers: str) -> tuple[int, dict[str, str], str]:
        parts = urllib.parse.urlsplit(url)
        # Names below localhost are this machine, whatever resolves names here.
        connection = http.client.HTTPConnection("127.0.0.1", parts.port or 80, timeout=PATIENCE_S)
        sent = {"Host": parts.netloc, "Accept": "text/html", "Cookie": self.cookie(url), **headers}
        if form:
            sent |= {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{parts.netloc}"}
        connection.request(method, f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}", form or None, sent)
        answer = connection.getresponse()
        jar = self.cookies.setdefault(parts.hostname or "", {})
        for each in answer.headers.get_all("Set-Cookie") or ():
            name, _, value = each.partition(";")[0].partition("=")
            jar[name] = value
        fields = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, fields, answer.read().decode(errors="replace")

    def cookie(self, url: str) -> str:
        jar = self.cookies.get(urllib.parse.urlsplit(url).hostname or "", {})
        return "; ".join(f"{name}={value}" for name, value in jar.items())

    def websocket(self, url: str, **headers: str) -> socket.socket:
        """An open one that echoes."""
        parts = urllib.parse.urlsplit(url)
        connection = socket.create_connection(("127.0.0.1", parts.port or 80), PATIENCE_S)
        lines = [
            "GET /echo HTTP/1.1",
            f"Host: {parts.netloc}",
            f"Cookie: {self.cookie(url)}",
            "Connection: Upgrade",
            "Upgrade: websocket",
            *(f"{name}: {value}" for name, value in headers.items()),
            "Sec-WebSocket-Version: 13",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        ]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += connection.recv(1000)
        assert head.startswith(b"HTTP/1.1 101 "), head
        return connection


def echoed(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(1000)


class Tools:
    """A platform with the first user's `runai`."""

    def __init__(self, folder: Path) -> None:
        self.config = folder / "config"
        self.platform = Running(folder / "data", config=self.config)
        self.port = free_port()
        self.up()

    def up(self) -> str:
        """Start it, or ask for a link where it runs; what is printed."""
        return self.platform.up("--gateway-listen", f"127.0.0.1:{self.port}").stdout

    def runai(self, *words: str) -> str:
        variables = {"FAIRPOOL_CONFIG": str(self.config), "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-m", "fairpool.cli.runai.main", *words]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def submit(self, name: str, project: str, port: int) -> str:
        """A job that serves; the URL that is shown."""
        program = ["python", "-c", WEB.read_text(encoding="utf-8"), str(port)]
        asked = ["-i", "python", "--interactive", "--service-type=ingress", "--port", str(port), "-p", project]
        self.runai("submit", name, *asked, "--", *program)
        return self.url(name, project)

    def url(self, name: str, project: str) -> str:
        found: list[str] = []

        def is_shown() -> bool:
            listed = json.loads(self.runai("list", "-p", project, "-o", "json"))
            found[:] = [url for each in listed if each["name"] == name for url in each.get("urls", ())]
            return bool(found)

        self.platform.until(is_shown, f"{name} has an address")
        return found[0]

    def link(self) -> str:
        """A one-time link, as the command prints it."""
        printed = self.up()
        found = re.search(r"http://\S+/sign-in\?code=\S+", printed)
        assert found is not None, printed
        return found[0]

    def researcher(self, name: str, project: str) -> str:
        """A user with a password; returns the id of their access rule."""
        body = {"email": name, "password": "correct horse", "needToChangePassword": False}
        user = self.api("POST", "/api/v1/users", body)
        rule = {"subjectId": user["id"], "roleId": "researcher", "scopeType": "project", "scopeId": project}
        return str(self.api("POST", "/api/v1/authorization/access-rules", rule)["id"])

    def api(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {self.platform.owner_token()}", "Content-Type": "application/json"}
        address = f"{self.platform.status['address']}{path}"
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(address, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            text = answer.read()
            return json.loads(text) if text else None


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    made = Tools(tmp_path_factory.mktemp("gateway"))
    try:
        yield made
    finally:
        made.platform.clean_up()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def opened(tools: Tools, person: Person, url: str) -> str:
    """The page of the tool, once its program listens; its URL."""
    seen: list[tuple[int, str, str]] = []

    def answers() -> bool:
        seen[:] = [person.get(url)]
        return seen[0][0] == 200

    tools.platform.until(answers, f"{url} answers; last: {seen}")
    assert "served by the pod" in seen[0][1]
    return seen[0][2]


pytestmark = pytest.mark.slow


@pytest.mark.flag("--service-type", "--port")
def test_the_url_in_the_list_opens_after_signing_in_and_survives_a_restart(tools: Tools) -> None:
    port = free_port()
    url = tools.submit("web", "demo", port)
    assert re.fullmatch(rf"http://localhost:\d+/web-{port}", url)
    person = Person()
    status, page, _ = person.get(url)
    assert status == 200
    assert "Sign in to Fairpool" in page
    person.get(tools.link())
    at = opened(tools, person, url)
    assert re.fullmatch(rf"http://[0-9a-f-]{{36}}-{port}\.localhost:\d+/", at)
    assert "fairpool_" not in person.get(f"{at}headers")[1]
    with person.websocket(at) as websocket:
        assert echoed(websocket, b"ping") == b"ping"
        tools.platform.down()
        assert websocket.recv(10) == b""
    tools.up()
    assert person.request("GET", at)[0] == 200, "the session and the address are the same"
    assert tools.url("web", "demo") == url
    with person.websocket(at) as websocket:
        assert echoed(websocket, b"ping") == b"ping"
        tools.platform.kill()
        with suppress(ConnectionResetError):
            assert websocket.recv(10) == b"", "it does not stay open without its server"
    tools.up()
    assert person.request("GET", at)[0] == 200, "the same after a kill"
    with person.websocket(at) as websocket:
        assert echoed(websocket, b"ping") == b"ping"
        tools.runai("suspend", "web", "-p", "demo")
        with suppress(ConnectionResetError):
            assert websocket.recv(10) == b"", "withdrawn before the pod stops"
    assert person.request("GET", at)[0] == 503
    assert tools.runai("list", "-p", "demo").count("http://") == 0


def test_a_tool_of_a_cluster_elsewhere_is_reached_through_its_tunnel(tmp_path: Path) -> None:
    gateway, port = free_port(), free_port()
    with control_at(tmp_path, "--gateway-listen", f"127.0.0.1:{gateway}") as control:
        place = (tmp_path / "east", control.address, control.token_file("east"), tmp_path / "config")
        cluster = ClusterProcess(*place)
        cluster.up()
        try:
            client = control.administrator()
            make_project(client, "team-a", "east")
            ports = [{"container": port, "serviceType": "Ingress"}]
            program = {"command": "python -u", "args": ["-c", WEB.read_text(encoding="utf-8"), str(port)]}
            spec = {"image": "python", "compute": {"gpu": "0.5"}, "ports": ports, **program}
            body = {"name": "far", "projectId": "team-a", "spec": spec}
            workload = client.submit(SubmitTraining.model_validate(body)).id
            control.until(lambda: client.workload(workload).urls, "it has an address")
            assert client.workload(workload).urls == [f"http://localhost:{gateway}/far-{port}"]
            person, at = Person(), f"http://{workload}-{port}.localhost:{gateway}/"
            token = {"Authorization": f"Bearer {control.owner_token()}", "Accept": "*/*"}
            control.until(lambda: person.request("GET", at, **token)[0] == 200, "the program listens")
            assert person.request("GET", at, **token)[2] == "served by the pod"
            with person.websocket(at, **token) as websocket:
                assert echoed(websocket, b"ping") == b"ping"
                cluster.kill()
                with suppress(ConnectionResetError):
                    assert websocket.recv(10) == b""
            status, _, answer = person.request("GET", at, **token)
            assert (status, "cluster" in answer) == (503, True), answer
            cluster.up()
            control.until(lambda: person.request("GET", at, **token)[0] == 200, "the same pod answers again")
        finally:
            cluster.clean_up()


def test_another_user_is_refused_and_a_removed_member_loses_the_open_socket(tools: Tools) -> None:
    tools.platform.client  # noqa: B018, creates team-a
    url = tools.submit("shared", "team-a", free_port())
    rule = tools.researcher("ann@example.com", "team-a")
    tools.researcher("bob@example.com", "demo")
    control = str(tools.platform.status["address"])
    ann, bob = Person(), Person()
    for person, name in ((ann, "ann@example.com"), (bob, "bob@example.com")):
        status, _, _ = person.post(f"{control}/sign-in", username=name, password="correct horse", next="/")
        assert (status, person.cookie(control) != "") == (200, True)
    at = opened(tools, ann, url)
    assert bob.get(url)[0] == 404
    assert bob.get(at)[0] == 404
    assert bob.request("GET", at, Cookie=ann.cookie(url))[0] in (302, 401), "cookies of another origin"
    token = tools.platform.owner_token()
    assert Person().request("GET", at, Authorization=f"Bearer {token}")[0] == 200
    assert Person().request("GET", at, Authorization="Bearer fpa_invented", Accept="*/*")[0] == 401
    with ann.websocket(at) as websocket:
        assert echoed(websocket, b"ping") == b"ping"
        tools.api("DELETE", f"/api/v1/authorization/access-rules/{rule}")
        begun = time.monotonic()
        with suppress(ConnectionResetError):
            assert websocket.recv(10) == b""
        assert time.monotonic() - begun < PATIENCE_S / 2
    assert ann.request("GET", at)[0] == 404

"""Tools of real pods in a real Chromium: signing in, a hostile page, and JupyterLab."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import needs
from tests.end_to_end.chromium import Page, browser_page
from tests.end_to_end.test_gateway_on_one_machine import Tools, free_port

pytestmark = pytest.mark.slow

INSTALL_S = 600.0
RUN_CELL = """(async () => {
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
  const made = await fetch('/api/kernels', {method: 'POST', headers: {'X-XSRFToken': xsrf}});
  const kernel = await made.json();
  return await new Promise((done) => {
    const socket = new WebSocket(`ws://${location.host}/api/kernels/${kernel.id}/channels`);
    const header = {msg_id: 'a', username: '', session: 'a', msg_type: 'execute_request', version: '5.3'};
    const content = {code: 'print(6 * 7)', silent: false, store_history: false, user_expressions: {}};
    const message = {header, content, parent_header: {}, metadata: {}, channel: 'shell', buffers: []};
    socket.onopen = () => socket.send(JSON.stringify(message));
    socket.onerror = () => done('the socket failed');
    socket.onmessage = (each) => {
      const got = JSON.parse(each.data);
      if (got.msg_type === 'stream') done(got.content.text);
    };
  });
})()"""
RUN_TERMINAL = """(async () => {
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
  const made = await fetch('/api/terminals', {method: 'POST', headers: {'X-XSRFToken': xsrf}});
  const terminal = await made.json();
  return await new Promise((done) => {
    const socket = new WebSocket(`ws://${location.host}/terminals/websocket/${terminal.name}`);
    let text = '';
    socket.onopen = () => socket.send(JSON.stringify(['stdin', 'echo $((6*7))-typed\\r']));
    socket.onerror = () => done('the socket failed');
    socket.onmessage = (each) => {
      const [kind, data] = JSON.parse(each.data);
      if (kind === 'stdout') text += data;
      if (text.includes('42-typed')) done('42-typed');
    };
  });
})()"""
UPLOAD = """(async () => {
  const xsrf = document.cookie.match(/_xsrf=([^;]*)/)[1];
  const body = JSON.stringify({type: 'file', format: 'text', content: 'x'.repeat(3000000)});
  const headers = {'X-XSRFToken': xsrf, 'Content-Type': 'application/json'};
  const put = await fetch('/api/contents/big.txt', {method: 'PUT', body, headers});
  const back = await (await fetch('/files/big.txt')).text();
  return [put.status, back.length];
})()"""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    with browser_tools(tmp_path_factory.mktemp("browser")) as made:
        yield made


@contextmanager
def browser_tools(folder: Path) -> Iterator[Tools]:
    """A platform with a researcher, where there is a browser."""
    needs.program("chromium", "chromium")
    made = Tools(folder)
    try:
        made.researcher("ann@example.com", "demo")
        yield made
    finally:
        made.platform.clean_up()


def sign_in(tools: Tools, page: Page, url: str) -> None:
    """As a person does who opens the URL of a tool: name, password, button."""
    page.open(url)
    page.until("document.querySelector('input[name=password]') !== null", "a form asks for the password")
    page.value(
        "document.querySelector('input[name=username]').value = 'ann@example.com';"
        "document.querySelector('input[name=password]').value = 'correct horse';"
        "document.querySelector('form button').click()"
    )


def test_a_person_signs_in_and_a_hostile_tool_reaches_no_other(tools: Tools) -> None:
    hostile = tools.submit("hostile", "demo", free_port())
    victim = tools.submit("victim", "demo", free_port())
    with browser_page() as page:
        sign_in(tools, page, victim)
        page.until("document.body.innerText.includes('served by the pod')", "the tool is open")
        other = str(page.value("location.origin"))
        page.open(hostile)
        page.until(
            f"location.origin !== {json.dumps(other)} && document.body.innerText.includes('served by the pod')",
            "the hostile tool is open, without another sign-in",
        )
        before = seen(page, other)
        assert page.value("document.cookie") == "", "no cookie of the platform is readable"
        target = json.dumps(f"{other}/stolen")
        attacks = {
            "read": f"fetch({target}, {{credentials: 'include'}}).then(() => 'read', () => 'refused')",
            "write": f"fetch({target}, {{method: 'POST', mode: 'no-cors', credentials: 'include', body: 'x'}})"
            ".then((answer) => answer.type, () => 'refused')",
            "socket": f"new Promise((done) => {{ const s = new WebSocket({target}.replace('http', 'ws'));"
            "s.onopen = () => done('open'); s.onerror = () => done('refused'); })",
            "frame": "new Promise((done) => { const f = document.createElement('iframe');"
            f"f.onload = () => done('loaded'); f.src = {target}; document.body.append(f); }})",
            "cookie": "(() => { document.cookie = 'fairpool_tool=x; domain=localhost'; return document.cookie; })()",
        }
        outcome = {name: page.value(script) for name, script in attacks.items()}
        assert outcome == {"read": "refused", "write": "opaque", "socket": "refused", "frame": "loaded", "cookie": ""}
        assert seen(page, other) == before, "nothing of it reached the other tool"


def seen(page: Page, origin: str) -> list[str]:
    """The requests that a tool received, read in its own page; then back."""
    here = str(page.value("location.href"))
    page.open(f"{origin}/seen")
    page.until(f"location.href === {json.dumps(origin + '/seen')} && document.readyState === 'complete'", "it is open")
    found = [line for line in page.text().split("\n") if "favicon" not in line]
    page.open(here)
    page.until(f"location.href === {json.dumps(here)} && document.readyState === 'complete'", "back")
    return found


def test_a_used_ticket_opens_nothing(tools: Tools) -> None:
    url = tools.submit("once", "demo", free_port())
    with browser_page() as page:
        sign_in(tools, page, url)
        page.until("document.body.innerText.includes('served by the pod')", "the tool is open")
        origin = str(page.value("location.origin"))
        page.open(f"{origin}/.fairpool/enter?ticket=fpt_used&path=/")
        page.until("document.body.innerText.includes('already used or is too old')", "it is refused")


def test_jupyterlab_runs_a_kernel_a_terminal_and_uploads(tools: Tools, tmp_path: Path) -> None:
    environment = tmp_path / "jupyter"
    install(environment, "JupyterLab", "jupyterlab>=4,<5")
    port = free_port()
    flags = ["--no-browser", "--allow-root", f"--port={port}", "--IdentityProvider.token=", "--ServerApp.root_dir=/tmp"]
    flags += ["--ServerApp.allow_remote_access=True", "--ServerApp.base_url=lab-base"]
    asked = ["-i", "python", "--interactive", "-g", "0.5", "--service-type=ingress", "--port", str(port), "-p", "demo"]
    program = [f"{environment}/bin/python", "-m", "jupyterlab", *flags]
    tools.runai("submit", "lab", *asked, "-v", f"{environment}:{environment}", "--", *program)
    url = tools.url("lab", "demo")
    with browser_page() as page:
        sign_in(tools, page, url)

        def is_there() -> bool:
            if page.value("document.querySelector('.jp-Launcher') !== null"):
                return True
            if "no process of the pod listens" in page.text().lower():
                page.open(url)
            return False

        tools.platform.until(is_there, f"JupyterLab is open; it shows {page.text()[:300]}")
        assert urllib.parse.urlsplit(str(page.value("location.href"))).path.startswith("/lab-base/lab")
        scripts = (RUN_CELL, RUN_TERMINAL, UPLOAD)
        cell, terminal, upload = (
            re.sub(r"('|host})/(?=api|files|terminals)", r"\1/lab-base/", each) for each in scripts
        )
        assert page.value(cell) == "42\n"
        assert page.value(terminal) == "42-typed"
        assert page.value(upload) == [201, 3_000_000]


def install(environment: Path, tool: str, *packages: str) -> None:
    """A tool from the package registry, where pods can see it."""
    pip = [f"{environment}/bin/python", "-m", "pip", "install", "--quiet", *packages]
    for command in ([sys.executable, "-m", "venv", str(environment)], pip):
        done = subprocess.run(command, capture_output=True, timeout=INSTALL_S, check=False)
        if done.returncode != 0:
            needs.skip_unless_ci(f"{tool} cannot be installed here: {done.stderr.decode()[-300:]}")
    for folder in (environment, *environment.parents[:2]):
        folder.chmod(0o755)

"""A real Prometheus, a real Alertmanager and a webhook for tests, each in a process or thread of its own."""

from __future__ import annotations

import json
import queue
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import needs
from tests.running_platform import PATIENCE_S


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def until(holds: Callable[[], Any], what: str) -> Any:
    """What it answers at last."""
    end = time.monotonic() + PATIENCE_S
    while not (found := holds()):
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.1)
    return found


class Prometheus:
    """One that runs."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}"

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What it finds now; an error of the query is an error here."""
        asked = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/query?{asked}", timeout=PATIENCE_S) as answer:
                found: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return found

    @property
    def is_ready(self) -> bool:
        return _answers(f"{self.address}/-/ready")


@contextmanager
def prometheus(configuration: Path) -> Iterator[Prometheus]:
    port = free_port()
    found = Prometheus(port)
    with _running(
        needs.program("prometheus", "prometheus"),
        f"--config.file={configuration}",
        f"--storage.tsdb.path={configuration.parent / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--rules.alert.resend-delay=1s",  # the first may come before the Alertmanager is known
        "--log.level=warn",
    ):
        until(lambda: found.is_ready, "Prometheus is ready")
        yield found


@contextmanager
def alertmanager(configuration: Path) -> Iterator[str]:
    """Its host and port."""
    port = free_port()
    with _running(
        needs.program("prometheus-alertmanager", "prometheus-alertmanager"),
        f"--config.file={configuration}",
        f"--storage.path={configuration.parent / 'alerts'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ):
        until(lambda: _answers(f"http://127.0.0.1:{port}/-/ready"), "Alertmanager is ready")
        yield f"127.0.0.1:{port}"


@contextmanager
def webhook() -> Iterator[tuple[str, queue.Queue[Any]]]:
    """Its URL, and what is sent to it."""
    received: queue.Queue[Any] = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", received
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def _running(*command: str) -> Iterator[None]:
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False

"""A real Chromium for tests, without a screen, over its debugging protocol."""

from __future__ import annotations

import base64
import itertools
import json
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from websockets.sync.client import ClientConnection, connect

from tests import needs
from tests.running_platform import PATIENCE_S

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--remote-debugging-port=0", "--window-size=1280,900", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--no-proxy-server"),
)


class Page:
    """A tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        for each in ("Page", "Runtime", "Network"):
            self.call(f"{each}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self._socket.recv(PATIENCE_S))
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)

    def value(self, script: str) -> Any:
        """Of an expression on the page; promises are waited for."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in done:
            return f"error: {done['exceptionDetails'].get('exception', {}).get('description', '')}"
        return done["result"].get("value")

    def until(self, script: str, what: str) -> Any:
        return wait(
            lambda: self.value(script), lambda: f"{what}; at {self.value('location.href')}: {self.text()[:500]}"
        )

    def text(self) -> str:
        return str(self.value("document.body ? document.body.innerText : ''"))

    def screenshot(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))


def wait(get: Callable[[], Any], what: Callable[[], str]) -> Any:
    end = time.monotonic() + PATIENCE_S
    while True:
        found = get()
        if found and not str(found).startswith("error:"):
            return found
        assert time.monotonic() < end, f"waited in vain until {what()}"
        time.sleep(0.1)


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of a browser with no history."""
    program = needs.program("chromium", "chromium")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        process = subprocess.Popen(
            [program, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            file = Path(folder) / "DevToolsActivePort"
            port = wait(lambda: file.exists() and file.read_text().split("\n")[0], lambda: "the browser listens")

            def tab() -> str:
                with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/json") as listed:
                    pages = [each for each in json.load(listed) if each["type"] == "page"]
                    return str(pages[0]["webSocketDebuggerUrl"]) if pages else ""
                return ""

            with connect(wait(tab, lambda: "there is a tab"), max_size=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(PATIENCE_S)

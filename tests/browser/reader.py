"""A person at a browser: Debian's Chromium, driven by Playwright, against the web UI of a real server.

Whatever a test does, the page must write no error to the console, send no request to another host and break no rule of
its content security policy; `Reader.check` says which of these happened.
"""

from __future__ import annotations

import base64
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import needs
from tests.running_platform import PATIENCE_S, Running

PATIENCE_MS = PATIENCE_S * 1000
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--enable-precise-memory-info"),
)
WIDE, NARROW = (1440, 900), (390, 844)
AXE = Path(__file__).parents[2] / "ui" / "node_modules" / "axe-core" / "axe.min.js"
SERIOUS = ("serious", "critical")
LOADING = "[data-state=loading], [data-chart=loading], [aria-busy=true]"
IS_FADING = "each => each.playState === 'running' && each.effect.getComputedTiming().iterations !== Infinity"
REFUSED = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
"""What Chromium itself writes about an answer of 400 and above. Whether it was right is for the test to say."""


class Reader:
    """One browser window."""

    def __init__(self, page: Any, address: str, expected: Sequence[int] = ()) -> None:
        self.page = page
        self.address = address
        self.faults: list[str] = []
        self._expected = {str(each) for each in expected}
        page.set_default_timeout(PATIENCE_MS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.faults.append(f"error of the page: {error}"))
        page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        refused, url = REFUSED.match(message.text), message.location.get("url", "")
        if refused is not None and refused[1] in self._expected:
            return
        if message.type == "error" or "Content Security Policy" in message.text:
            self.faults.append(f"console: {message.text} ({url})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self.faults.append(f"a request left the host: {request.url}")

    def expect(self, *statuses: int) -> None:
        """Answers with these statuses are right from here on."""
        self._expected.update(str(each) for each in statuses)

    def open(self, path: str) -> None:
        """A page, until its parts have loaded."""
        self.page.goto(self.address + path)
        self.settle()

    def settle(self) -> None:
        """Until nothing is loading or fading any more."""
        self.page.wait_for_selector("#page h1")
        self.until(f"document.querySelector('{LOADING}') === null", "it has loaded")
        self.until(f"!document.getAnimations().some({IS_FADING})", "nothing fades in or out")

    def text(self) -> str:
        return str(self.page.inner_text("body"))

    def until(self, condition: str, what: str) -> None:
        """Wait until an expression holds. Playwright's own way evaluates text in the page, which its policy forbids."""
        end = time.monotonic() + PATIENCE_S
        while not self.page.evaluate(condition):
            assert time.monotonic() < end, f"waited in vain until {what}; the page says:\n{self.text()}"
            time.sleep(0.03)

    def sees(self, words: str) -> None:
        """Wait until these words are on the page."""
        end = time.monotonic() + PATIENCE_S
        while words not in (text := self.text()):
            assert time.monotonic() < end, f"waited in vain for {words!r}; the page says:\n{text}"
            time.sleep(0.05)

    def press(self, name: str) -> None:
        """Press the button with this name."""
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def is_sideways(self) -> bool:
        """Whether the page scrolls sideways."""
        return bool(self.page.evaluate("document.documentElement.scrollWidth > innerWidth"))

    def violations(self) -> list[str]:
        """What axe calls serious or critical, with the first place where it is so."""
        self.page.evaluate(AXE.read_text(encoding="utf-8"))
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']}: {each['help']} ({each['nodes'][0]['html'][:200]})"
            for each in found["violations"]
            if each["impact"] in SERIOUS
        ]

    def picture(self, file: Path) -> None:
        """What is to be seen, as a small file."""
        session = self.page.context.new_cdp_session(self.page)
        answer = session.send("Page.captureScreenshot", {"format": "webp", "quality": 82})
        session.detach()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(base64.b64decode(answer["data"]))

    def check(self) -> None:
        assert not self.faults, self.faults


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Its windows have no history in common."""
    program = needs.program("chromium", "chromium")
    if not AXE.exists():
        needs.skip_unless_ci("ui/node_modules is not there (make ui)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        pytest.skip("playwright is not installed")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


def window(browser: Any, address: str, *, size: tuple[int, int] = WIDE, dark: bool = False) -> Reader:
    """A new window that is signed in as no user."""
    width, height = size
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        has_touch=width < 700,
        locale="en-GB",
        timezone_id="Europe/Berlin",
        reduced_motion="reduce",
        accept_downloads=True,
    )
    return Reader(context.new_page(), address)


def signed_in(browser: Any, platform: Running, **look: Any) -> Reader:
    """A window in which the owner of the platform is signed in, by the link that `fairpool up` prints."""
    done = platform.command("up", "--detach")
    link = re.search(r"(http://\S+)(/sign-in\?code=\S+)", done.stdout)
    assert link is not None, done.stdout + done.stderr
    reader = window(browser, link[1], **look)
    reader.page.goto(link[1] + link[2])
    reader.page.wait_for_selector("#page h1")
    return reader


def pictures_folder() -> Path | None:
    """Where pictures of pages are kept; none: they are not."""
    folder = os.environ.get("FAIRPOOL_PICTURES")
    return None if folder is None else Path(folder)

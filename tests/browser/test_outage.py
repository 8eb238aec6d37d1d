"""The server is killed under an open page: after fifteen seconds the page says that it is old and sends no changes;
when the server is back, it goes on by itself and shows what happened meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from tests.browser.reader import signed_in
from tests.running_platform import Running

pytestmark = pytest.mark.slow


def test_a_killed_server_and_its_return(browser: Any, platform: Running) -> None:
    job = platform.submit("before", "import time; time.sleep(600)")
    platform.until_phase(job, "Running")
    address = platform.status["address"]
    reader = signed_in(browser, platform)
    reader.open("/workloads")
    reader.page.get_by_role("link", name="before", exact=True).wait_for()
    reader.sees("Live")

    platform.kill()
    reader.page.get_by_role("alert").filter(has_text="Nothing was heard from the server").wait_for()
    assert reader.page.locator("main").get_attribute("data-live") == "stale"
    reader.sees("Stale since")
    reader.page.get_by_role("link", name="before", exact=True).wait_for()  # what was known is still shown
    assert reader.page.evaluate("document.querySelector('main').innerText.includes('before')")

    platform.command("up", "--detach", "--listen", address.removeprefix("http://"))
    reader.until("document.querySelector('main').dataset.live === 'live'", "the page is live again")
    after = platform.submit("after", "import time; time.sleep(600)")
    reader.page.get_by_role("link", name="after", exact=True).wait_for()
    platform.until_phase(after, "Running")
    assert [each for each in reader.faults if "ERR_" not in each and "Failed to load" not in each] == []
    reader.page.context.close()

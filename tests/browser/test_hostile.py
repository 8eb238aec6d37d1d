"""Hostile or unlucky: logs that would freeze a page, links that say nonsense, many tabs, and the end of a session."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api import workload_spec as work
from tests.browser.reader import Reader, signed_in
from tests.running_platform import Running

pytestmark = pytest.mark.slow

COLOURS = r'import sys; sys.stdout.write(("\x1b[31ma\x1b[32mb" * 4000 + "\n") * 300); sys.stdout.flush()'
ELEMENTS_MAX = 60_000
"""Without a bound, the lines on the screen alone are half a million."""
TABS = 8
"""A browser has six connections for a server without HTTP/2."""


@pytest.fixture
def person(browser: Any, platform: Running) -> Iterator[Reader]:
    found = signed_in(browser, platform)
    yield found
    found.page.context.close()


def submitted(platform: Running, name: str, program: str) -> str:
    spec = {"image": "python", "command": "python", "args": f"-c '{program}'", "compute": {"gpu": "0"}}
    body = {"name": name, "projectId": "team-a", "spec": spec}
    return platform.client.submit(work.SubmitTraining.model_validate(body)).id


def test_a_log_of_nothing_but_colours_does_not_freeze_the_page(person: Reader, platform: Running) -> None:
    job = submitted(platform, "colours", f"{COLOURS}; import time; time.sleep(600)")
    platform.until_phase(job, "Running")
    person.open(f"/workloads/{job}?tab=log")
    person.until("document.querySelector('[data-log-lines=\"300\"]') !== null", "the log is there")
    assert person.page.evaluate("document.querySelectorAll('*').length") < ELEMENTS_MAX
    person.page.get_by_label("Search the log").fill("a")
    person.sees("1 of 300")
    assert person.page.evaluate("document.querySelectorAll('*').length") < ELEMENTS_MAX
    person.check()


@pytest.mark.parametrize(
    "address",
    [
        '/submit?template={"a":1}&project=[1]&gpu={"b":2}&kind=5',
        '/workloads?q={"a":1}&f={"b":2}&sort=7&page=1e999&cols=[1]',
        "/decisions?period=__proto__",
        "/analytics?period=constructor&from=[1]&to=null",
        "/what-if?set=__proto__&add={}",
        "//evil.example/workloads",
    ],
)
def test_no_address_breaks_a_page(person: Reader, address: str) -> None:
    person.expect(400, 404, 422)
    person.open(address)
    person.open("/submit")  # nor the draft, which outlives the page
    assert "This could not be loaded" not in person.text()
    person.check()


def test_all_tabs_are_live_and_go_on_without_the_first(person: Reader, platform: Running) -> None:
    tabs = [Reader(person.page.context.new_page(), person.address) for _ in range(TABS)]
    for each in tabs:
        each.open("/workloads")
        each.until("document.querySelector('main').dataset.live === 'live'", "the tab is live")
    person.page.close()  # it read for all of them
    submitted(platform, "late", "import time; time.sleep(600)")
    for each in tabs:
        each.page.get_by_role("link", name="late", exact=True).wait_for()
        each.check()


def test_signing_out_deletes_what_was_to_be_deleted_and_leaves_no_draft(person: Reader, platform: Running) -> None:
    job = submitted(platform, "leaving", "import time; time.sleep(600)")
    platform.until_phase(job, "Running")
    person.expect(401)
    person.open("/submit")
    person.until("Object.keys(localStorage).some((key) => key.startsWith('fairpool.draft.'))", "there is a draft")
    person.open(f"/workloads/{job}")
    person.press("Delete")
    person.page.get_by_role("button", name="Undo", exact=True).wait_for()
    person.page.locator("header button").last.click()
    person.page.get_by_role("menuitem", name="Sign out", exact=True).click()
    person.page.wait_for_url("**/sign-in?**")
    kept = person.page.evaluate("Object.keys(localStorage)")
    assert [each for each in kept if each.startswith("fairpool.draft")] == []
    end = time.monotonic() + 30
    while (phase := platform.client.workload(job).phase) not in ("Deleting", "Deleted"):
        assert time.monotonic() < end, f"it is {phase}"
        time.sleep(0.1)


def test_a_session_that_was_ended_elsewhere_shows_nothing_any_longer(person: Reader, platform: Running) -> None:
    person.expect(401)
    person.open("/workloads")
    person.until("document.querySelector('main').dataset.live === 'live'", "the page is live")
    platform.client.end_other_sessions()
    person.page.wait_for_url("**/sign-in?**")

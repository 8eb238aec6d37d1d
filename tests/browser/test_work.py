"""A researcher's day in the browser: a job's log, a shell in it, a notebook, suspend and resume, delete and undo.
F-159, F-163, F-166."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api import workload_spec as work
from tests.browser.reader import Reader, signed_in
from tests.running_platform import Running

pytestmark = pytest.mark.slow

TALKS = 'echo "<b>first</b> line"; echo second line; n=0; while true; do n=$((n+1)); echo step $n; sleep 1; done'


@pytest.fixture(scope="module")
def person(browser: Any, platform: Running) -> Iterator[Reader]:
    found = signed_in(browser, platform)
    yield found
    found.page.context.close()


@pytest.fixture(scope="module")
def job(platform: Running) -> str:
    """A job that talks."""
    spec = {"image": "ubuntu", "command": "bash", "args": f"-c '{TALKS}'", "compute": {"gpu": "0.5"}}
    body = {"name": "talker", "projectId": "team-a", "spec": spec}
    found = platform.client.submit(work.SubmitTraining.model_validate(body)).id
    platform.until_phase(found, "Running")
    return found


def test_the_log_is_followed_searched_and_downloaded(person: Reader, job: str, tmp_path: Path) -> None:
    person.open(f"/workloads/{job}?tab=log")
    person.sees("<b>first</b> line")  # what a job prints is text
    person.sees("step 3")
    person.page.get_by_label("Search the log").fill("second line")
    person.sees("1 of 1")
    with person.page.expect_download() as started:
        person.page.get_by_role("link", name="Download").or_(person.page.get_by_role("button", name="Download")).click()
    file = tmp_path / "log"
    started.value.save_as(file)
    assert file.read_text(encoding="utf-8").startswith("<b>first</b> line\nsecond line\nstep 1\n")
    person.check()


def test_a_shell_in_the_browser(person: Reader, job: str) -> None:
    person.open(f"/workloads/{job}")
    person.page.get_by_role("link", name="Terminal", exact=True).click()
    screen = person.page.locator(".xterm-rows")
    screen.wait_for()
    person.until("/[$#] ?$/m.test(document.querySelector('.xterm-rows').innerText.trimEnd())", "the shell is ready")
    person.page.locator(".xterm-helper-textarea").focus()
    person.page.keyboard.type("echo $((6*7)) in $RUNAI_PROJECT; tput cols\n")
    person.until("document.querySelector('.xterm-rows').innerText.includes('42 in team-a')", "the shell answers")
    person.page.keyboard.type("exit\n")
    person.check()


def test_suspend_resume_and_a_deletion_that_is_taken_back(person: Reader, job: str, platform: Running) -> None:
    person.open(f"/workloads/{job}")
    person.press("Suspend")
    platform.until_phase(job, "Stopped")
    person.page.get_by_role("button", name="Resume", exact=True).first.click()
    platform.until_phase(job, "Running")
    person.open(f"/workloads/{job}")
    person.press("Delete")
    person.press("Undo")
    person.open("/workloads")  # leaving a page does at once what still waits for its eight seconds
    person.page.get_by_role("link", name="talker", exact=True).wait_for()
    assert platform.phase(job) == "Running"
    person.check()


def test_a_notebook_opens_through_the_gateway(person: Reader, platform: Running) -> None:
    """From the form to a page of the notebook server itself, in another tab."""
    person.expect(422)
    person.open("/submit?kind=workspace&project=team-a")
    person.page.get_by_label("Name", exact=True).fill("desk")
    person.press("Jupyter notebook")
    person.page.locator("[data-standing=starts]").first.wait_for()
    person.page.locator("main").get_by_role("button", name="Submit", exact=True).click()
    person.page.wait_for_url("**/workloads/*")
    connect = person.page.get_by_role("link", name="Connect", exact=False).first
    connect.wait_for()
    with person.page.context.expect_page() as opened:
        connect.click()
    notebook = opened.value
    notebook.wait_for_load_state("domcontentloaded")
    notebook.wait_for_url("**://*localhost:*/**")
    notebook.get_by_text("desk", exact=False).or_(notebook.get_by_text("Jupyter", exact=False)).first.wait_for()
    notebook.close()
    person.check()

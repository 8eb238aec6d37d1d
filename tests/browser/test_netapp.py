"""Sixteen GPUs and four teams, clicked: the NetApp validation in the web UI, from the projects to its end state.

Each job is submitted on the submit page after the previous one runs, as a person would; then every state is exact. What
the overview, the lists and the charts show is compared with what the scenario states. F-13, F-21, F-22, F-42, F-163,
F-165, F-166, F-167, F-179 to F-188, F-191 to F-194, F-197.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.reader import Reader, signed_in
from tests.running_platform import Running

pytestmark = pytest.mark.slow

FACTS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "specification" / "data" / "netapp.json").read_text())
QUICKSTART = "run-ai-demo/quickstart"
QUOTAS = {each["name"]: each["gpu_quota"] for each in FACTS["projects"]}
PHASES = {phase["id"]: phase for phase in FACTS["phases"]}
INTERACTIVE = ("a-1-1-jupyter", "b-1-g06", "b-2-g04", "c-1-g05", "c-2-g03", "c-3-g02")


@pytest.fixture(scope="module")
def person(browser: Any, platform: Running) -> Iterator[Reader]:
    """One person at one window, from the first project to the last chart."""
    found = signed_in(browser, platform)
    found.expect(422)  # a draft that is not complete yet is refused in a dry run
    yield found
    found.page.context.close()


def make_project(person: Reader, name: str, quota: int) -> None:
    person.open("/projects")
    person.press("New project")
    form = person.page.get_by_role("dialog")
    form.get_by_label("Name").fill(name)
    form.get_by_role("textbox", name="GPUs, default", exact=True).fill(str(quota))
    form.get_by_role("button", name="Create", exact=True).click()
    person.sees(f"quota {quota}")
    person.page.get_by_role("link", name=name, exact=True).first.wait_for()


def submit(person: Reader, name: str, project: str, gpus: float, *, is_interactive: bool) -> None:
    """On the submit page; it says what will happen before the job is submitted."""
    person.page.evaluate("localStorage.clear()")
    person.open(f"/submit?kind={'workspace' if is_interactive else 'training'}&project={project}")
    page = person.page
    page.get_by_label("Name", exact=True).fill(name)
    if name == "a-1-1-jupyter":
        person.press("Jupyter notebook")
    else:
        page.get_by_label("Image", exact=False).first.fill(QUICKSTART)
    if gpus < 1:
        page.get_by_text("Part of one", exact=True).click()
        page.get_by_role("textbox", name="Percent of one GPU").fill(f"{round(gpus * 100)}%")
    else:
        page.get_by_role("textbox", name="Whole GPUs").fill(str(int(gpus)))
    page.locator("[data-standing=starts], [data-standing=preempts], [data-standing=waits]").first.wait_for()
    page.locator("main").get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/workloads/*")


def states(platform: Running) -> dict[str, tuple[str, float]]:
    return {
        each.name: (str(each.phase), each.allocated_resources.gpu)
        for each in platform.client.all_workloads()
        if str(each.phase) not in ("Deleting", "Deleted")
    }


def held(platform: Running) -> dict[str, float]:
    found = dict.fromkeys(QUOTAS, 0.0)
    for each in platform.client.all_workloads():
        if each.project_id in found:
            found[each.project_id] += each.allocated_resources.gpu
    return {name: round(amount, 2) for name, amount in found.items()}


def tile(person: Reader, name: str) -> str:
    """What a tile of the overview says: it is a link that begins with its name."""
    return str(person.page.get_by_role("link", name=re.compile(f"^{name} ")).first.inner_text())


def test_the_validation_in_the_web_ui(person: Reader, platform: Running) -> None:
    for name, quota in QUOTAS.items():
        make_project(person, name, quota)
    assert "18 of 16" in person.text()  # with that of `demo`: told, not refused

    for action in PHASES["4.8"]["actions"]:
        submit_and_run(person, platform, action)
    assert held(platform) == {"team-a": 4, "team-b": 4, "team-c": 4, "team-d": 4}
    person.open("/")
    person.sees("Every GPU is in use")
    assert "16.00" in tile(person, "Allocated GPUs")
    assert "13" in tile(person, "Running")

    for action in PHASES["4.9"]["actions"]:
        submit_and_run(person, platform, action)
    assert held(platform) == {"team-a": 4, "team-b": 2, "team-c": 2, "team-d": 8}
    person.open("/")
    pending = person.page.locator("section[aria-label=Pending]")
    for name in ("b-4-gg", "c-4-gg"):
        pending.get_by_role("link", name=name, exact=True).wait_for()

    for action in PHASES["4.10a"]["actions"]:
        if "submit" in action:
            submit_of(person, action)
    delete_jobs_of_team_d(person)
    platform.until(
        lambda: held(platform) == {"team-a": 8, "team-b": 4, "team-c": 4, "team-d": 0}, "8 GPUs are shared 4 : 2 : 2"
    )
    overview_at_the_end(person)
    other_pages_at_the_end(person)
    person.check()


def submit_of(person: Reader, action: dict[str, Any]) -> None:
    name = action["submit"]
    submit(person, name, action["project"], float(action["gpus"]), is_interactive=name in INTERACTIVE)


def submit_and_run(person: Reader, platform: Running, action: dict[str, Any]) -> None:
    submit_of(person, action)
    platform.until(lambda: states(platform)[action["submit"]][0] == "Running", f"{action['submit']} runs")


def delete_jobs_of_team_d(person: Reader) -> None:
    """Several at once, in the list. The deletion can be taken back for eight seconds; then it is carried out."""
    person.open("/workloads?f=projectName==team-d")
    person.page.get_by_label("Select all rows of this page").check()
    person.page.get_by_role("toolbar").get_by_role("button", name="Delete").click()
    person.sees("Undo")


def overview_at_the_end(person: Reader) -> None:
    person.open("/")
    pending = person.page.locator("section[aria-label=Pending]")
    for name, project in (("b-5-gg", "team-b"), ("c-6-gg", "team-c")):
        row = pending.locator("tr", has=person.page.get_by_role("link", name=name, exact=True))
        row.wait_for()
        words = row.inner_text()
        assert project in words
        assert "2.00" in words
        assert re.search(r"\d\d:\d\d:\d\d", words), words
        assert "fair share" in words
    assert "14" in tile(person, "Running")
    assert "2" in tile(person, "Pending")
    assert "2 of 2 ready" in tile(person, "Nodes")
    running = person.page.locator("section[aria-label=Running]")
    headers = [each.strip() for each in running.locator("th").all_inner_texts()]
    assert headers == ["Job", "Project", "User", "Type", "Node", "GPUs", "Run time", "Progress", "Utilization"]
    shares = person.page.locator("section[aria-label='Fair share']")
    for name, figures in {
        "team-a": "8.00 of 4",
        "team-b": "4.00 of 2",
        "team-c": "4.00 of 2",
        "team-d": "0.00 of 8",
    }.items():
        assert figures in shares.inner_text().replace("\n", " "), name
    nodes = person.page.locator("section[aria-label=Nodes]").inner_text()
    assert nodes.count("8.00") == 2
    assert "test@run.ai" in running.inner_text()  # the job shows who submitted it


def other_pages_at_the_end(person: Reader) -> None:
    person.open("/projects")
    person.sees("4 over quota")
    person.open("/map")
    person.sees("16.00 of 16 allocated")
    person.open("/analytics?period=1h")
    person.press("GPU allocation by project: Details")
    person.page.get_by_role("menuitem", name="Data").click()
    table = person.page.locator("section[aria-label='GPU allocation by project'] table")
    headers = table.locator("th").all_inner_texts()
    assert set(QUOTAS) <= set(headers)
    person.open("/decisions")
    for name in ("b-4-gg", "c-4-gg"):
        person.page.get_by_role("link", name=name, exact=True).first.wait_for()

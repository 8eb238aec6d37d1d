"""Who sees what: a new user chooses a password, and a researcher of one project sees nothing of another. F-179."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api import access
from fairpool.api import organization as org
from fairpool.api import workload_spec as work
from tests.browser.reader import Reader, window
from tests.running_platform import Running

pytestmark = pytest.mark.slow

PASSWORD = "correct-Horse-7-battery"
PLACES = ("/", "/map", "/workloads", "/projects", "/analytics", "/decisions", "/consumption", "/assets", "/quota")


@pytest.fixture(scope="module")
def first_password(platform: Running) -> str:
    """Ann, a researcher of team-a; team-secret has a job of its own."""
    client = platform.client
    body = {"name": "team-secret", "resources": [{"gpu": {"deserved": 2}}]}
    client.create_project(org.ProjectRequest.model_validate(body))
    for name, project in (("own-job", "team-a"), ("hidden-job", "team-secret")):
        spec = {"image": "ubuntu", "command": "sleep", "args": "infinity", "compute": {"gpu": "1"}}
        submit = {"name": name, "projectId": project, "spec": spec}
        platform.until_phase(client.submit(work.SubmitTraining.model_validate(submit)).id, "Running")
    created = client.create_user(access.UserRequest.model_validate({"email": "ann@example.com"}))
    rule = {"subjectId": "ann@example.com", "roleId": "researcher", "scopeType": "project", "scopeId": "team-a"}
    client.create_access_rule(access.AccessRuleRequest.model_validate({"subjectType": "user", **rule}))
    return str(created.temp_password)


@pytest.fixture(scope="module")
def ann(browser: Any, platform: Running, first_password: str) -> Iterator[Reader]:
    """Signed in with the password that an administrator gave her, and then with one of her own."""
    found = window(browser, platform.status["address"])
    found.expect(401, 403)
    found.page.goto(found.address + "/workloads")
    found.page.wait_for_url("**/sign-in?**")
    found.page.get_by_label("E-mail or user name").fill("ann@example.com")
    found.page.get_by_label("Password").fill(first_password)
    found.page.get_by_role("button", name="Sign in", exact=True).click()
    dialog = found.page.get_by_role("dialog")
    dialog.get_by_label("Present password").or_(dialog.get_by_label("Current password")).fill(first_password)
    dialog.get_by_label("New password", exact=True).fill(PASSWORD)
    dialog.get_by_label("New password again", exact=True).or_(dialog.get_by_label("Repeat", exact=False)).fill(PASSWORD)
    dialog.get_by_role("button", name="Change password", exact=True).click()
    dialog.wait_for(state="detached")
    yield found
    found.page.context.close()


def test_the_sign_in_leads_to_the_page_that_was_asked_for(ann: Reader) -> None:
    assert ann.page.url.endswith("/workloads")
    ann.page.get_by_role("link", name="own-job", exact=True).wait_for()


def test_a_researcher_sees_nothing_of_other_projects(ann: Reader) -> None:
    for path in PLACES:
        ann.open(path)
        html = ann.page.content()
        assert "hidden-job" not in html, path
        assert "team-secret" not in html, path


def test_a_researcher_has_no_menu_of_administrators(ann: Reader) -> None:
    ann.open("/")
    menu = ann.page.get_by_role("navigation", name="Main navigation").inner_text()
    assert "Workloads" in menu
    for name in ("Access", "Settings", "Audit log", "Clusters"):
        assert name not in menu.splitlines()


def test_what_a_researcher_may_not_open_says_so(ann: Reader) -> None:
    ann.open("/audit")
    assert "hidden-job" not in ann.text()
    ann.page.locator("[data-state=error], [data-state=empty], [role=alert]").first.wait_for()
    ann.check()

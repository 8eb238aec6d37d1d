"""An administrator's first day in the web UI, from the check of the installation to a second cluster.

F-42, F-52, F-71, F-131, F-157, F-162, F-164, F-165, F-179, F-181 to F-186, F-191, F-192, F-194, F-195, F-197, F-198,
F-200, F-216, F-219, F-223, F-228, F-242, F-257, F-272.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairpool.api import access
from fairpool.api import workload_spec as work
from tests.browser.reader import Reader, signed_in, window
from tests.running_platform import PATIENCE_S, Running, fairpool

pytestmark = pytest.mark.slow

PASSWORD = "correct-Horse-7-battery"
KINDS = ("workspace", "training", "distributed", "sweep", "inference")
AREAS = {
    "Overview": "/",
    "Workloads": "/workloads",
    "Nodes": "/nodes",
    "Projects": "/projects",
    "Clusters": "/clusters",
    "Access": "/access",
}


@pytest.fixture(scope="module")
def admin(browser: Any, platform: Running) -> Iterator[Reader]:
    assert platform.client.projects()
    is_new = platform.client.all_workloads() == []
    found = signed_in(browser, platform)
    found.expect(422)  # a draft that is not complete yet is refused in a dry run,
    found.expect(503)  # shares of a cluster that has never connected
    found.expect(409)  # and so is one whose name is taken, perhaps by itself a moment ago
    if is_new:
        found.page.wait_for_url("**/welcome")  # once, by itself
        found.page.get_by_role("link", name="To the overview").click()
    yield found
    found.page.context.close()
    found.check()


@pytest.fixture(scope="module")
def waiting(platform: Running) -> None:
    """Two jobs hold all GPUs, and a third one waits."""
    for name, phase in (("left", "Running"), ("right", "Running"), ("late", "Pending")):
        spec = {"image": "ubuntu", "command": "sleep", "args": "infinity", "compute": {"gpu": "8"}}
        body = {"name": name, "projectId": "team-a", "spec": spec}
        platform.until_phase(platform.client.submit(work.SubmitTraining.model_validate(body)).id, phase)


def tile(admin: Reader, name: str) -> str:
    return str(admin.page.get_by_role("link", name=re.compile(f"^{name} ")).first.inner_text())


def headers(admin: Reader, card: str) -> list[str]:
    found = admin.page.locator(f"section[aria-label='{card}'] th").all_inner_texts()
    return [each.strip() for each in found]


def test_a_new_installation_is_checked_on_the_overview(admin: Reader) -> None:
    """F-181, F-182, F-192, F-197."""
    admin.open("/")
    assert "of 16" in tile(admin, "Allocated GPUs")
    assert "2 of 2 ready" in tile(admin, "Nodes")
    assert headers(admin, "Nodes") == ["Node", "Total GPUs", "Allocated", "Utilization"]
    nodes = admin.page.locator("section[aria-label=Nodes]").inner_text()
    assert "dgx1-1" in nodes
    assert "dgx1-2" in nodes


def test_every_area_is_in_the_menu(admin: Reader) -> None:
    """F-179."""
    admin.open("/")
    menu = admin.page.get_by_role("navigation", name="Main navigation")
    for name, path in AREAS.items():
        menu.get_by_role("link", name=name, exact=True).click()
        admin.page.wait_for_url(lambda url, path=path: url.removeprefix(admin.address).split("?")[0] == path)
        admin.settle()


def test_the_button_at_the_top_of_the_list_opens_the_form(admin: Reader) -> None:
    """F-162, F-165."""
    admin.open("/workloads")
    admin.page.locator("header").get_by_role("link", name="Submit", exact=True).click()
    admin.page.wait_for_url("**/submit**")
    admin.open("/submit?kind=workspace")
    for name in ("Jupyter notebook", "TensorBoard"):
        admin.page.get_by_role("button", name=name, exact=True).wait_for()


def submit(admin: Reader, kind: str, name: str) -> None:
    """With what the form has filled in, without a GPU."""
    admin.page.evaluate("localStorage.clear()")
    admin.open(f"/submit?kind={kind}&project=team-a")
    admin.page.get_by_label("Name", exact=True).fill(name)
    admin.page.get_by_label("Image", exact=False).first.fill("ubuntu")
    admin.page.get_by_label("Command", exact=False).first.fill("sleep infinity")
    admin.page.get_by_text("No GPU", exact=True).click()


def send(admin: Reader) -> None:
    admin.page.locator("[data-standing=starts]").first.wait_for()
    admin.page.locator("main").get_by_role("button", name="Submit", exact=True).click()
    admin.page.wait_for_url("**/workloads/*")


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_is_submitted_in_one_form(admin: Reader, platform: Running, kind: str) -> None:
    """F-71."""
    submit(admin, kind, f"one-{kind}")
    send(admin)
    found = platform.client.find_workload("team-a", f"one-{kind}")
    assert found is not None
    platform.until(lambda: platform.phase(found.id) in ("Running", "Completed"), f"{kind} runs")
    platform.client.delete_workload(found.id)


def test_a_template_that_was_saved_here_fills_the_form_and_a_command(
    admin: Reader, platform: Running, tmp_path: Path
) -> None:
    """F-157, F-164, F-223."""
    submit(admin, "workspace", "first")
    admin.press("Save as template")
    dialog = admin.page.get_by_role("dialog")
    dialog.get_by_label("Name of the template").fill("desk")
    dialog.get_by_role("button", name="Save", exact=True).click()
    dialog.wait_for(state="detached")

    admin.page.evaluate("localStorage.clear()")
    admin.open("/submit?kind=workspace&project=team-a")
    admin.page.get_by_label("Name", exact=True).fill("second")
    admin.page.get_by_role("combobox", name="Template").or_(
        admin.page.get_by_label("Template", exact=True)
    ).first.click()
    admin.page.get_by_role("option", name="desk", exact=True).click()
    admin.sees("ubuntu, from template desk")
    send(admin)
    found = platform.client.find_workload("team-a", "second")
    assert found is not None
    assert found.images == ["ubuntu"]

    platform.sign_in(tmp_path / "config")
    runai(tmp_path, platform, "submit", "third", "-p", "team-a", "--template", "desk", "--interactive")
    admin.open("/workloads?f=name==third")
    admin.page.get_by_role("link", name="third", exact=True).wait_for()
    for name in ("second", "third"):
        job = platform.client.find_workload("team-a", name)
        assert job is not None
        platform.client.delete_workload(job.id)


def test_a_workspace_keeps_its_image_data_resources_and_tool(admin: Reader, platform: Running, tmp_path: Path) -> None:
    """F-157: in one form, which opens again with all four."""
    client = platform.client
    client.create_asset("compute", {"meta": {"name": "half", "scope": "tenant"}, "spec": {"gpu": "0.5"}})
    folder = {"path": str(tmp_path), "mountPath": "/data"}
    client.create_asset("hostPath", {"meta": {"name": "folder", "scope": "tenant"}, "spec": folder})
    admin.page.evaluate("localStorage.clear()")
    admin.open("/submit?kind=workspace&project=team-a")
    admin.page.get_by_label("Name", exact=True).fill("studio")
    admin.press("Jupyter notebook")
    for label, choice in (("Compute resource", "half"), ("Data sources", "folder")):
        admin.page.get_by_label(label, exact=True).first.click()
        admin.page.get_by_role("option", name=choice, exact=True).click()
    admin.page.keyboard.press("Escape")
    send(admin)
    found = client.find_workload("team-a", "studio")
    assert found is not None
    spec = client.workload(found.id).spec
    assert spec["image"] == "jupyter/base-notebook"
    assert spec["compute"]["gpu"] == "0.5"
    assert [each["mountPath"] for each in spec["storage"]["hostPath"]] == ["/data"]
    assert [each["container"] for each in spec["ports"]] == [8888]

    admin.open(f"/submit?clone={found.id}")
    admin.until("document.querySelector('input[data-field=image]')?.value === 'jupyter/base-notebook'", "it is open")
    admin.sees(":/data")
    admin.sees("--port 8888")
    admin.sees("0.5 from compute resource half")
    client.delete_workload(found.id)


def runai(folder: Path, platform: Running, *arguments: str) -> None:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    own = {"FAIRPOOL_CONFIG": str(folder / "config"), "FAIRPOOL_SERVER": str(platform.status["address"])}
    done = subprocess.run(
        [sys.executable, "-m", "fairpool.cli.runai.main", *arguments],
        env=kept | own,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_user_is_given_a_project_and_then_sees_it(admin: Reader, browser: Any, platform: Running) -> None:
    """F-200, F-219: the user is created on one page, and let into the project in the project's own form."""
    admin.open("/access?tab=users")
    admin.press("New user")
    form = admin.page.get_by_role("dialog")
    form.get_by_label("E-mail").fill("ben@example.com")
    form.get_by_role("button", name="Create", exact=True).click()
    shown = admin.page.get_by_role("dialog", name="Password of ben@example.com")
    password = shown.locator("dd code").nth(1).inner_text()
    shown.get_by_role("button", name="I have kept it").click()
    assert "ben@example.com" in [each.email for each in platform.client.users()]
    rule = {"subjectId": "ben@example.com", "roleId": "researcher", "scopeType": "project", "scopeId": "demo"}
    platform.client.create_access_rule(access.AccessRuleRequest.model_validate({"subjectType": "user", **rule}))

    ben = window(browser, platform.status["address"])
    ben.expect(401, 403)
    sign_in(ben, "ben@example.com", password)
    ben.open("/projects")
    ben.page.get_by_role("link", name="demo", exact=True).first.wait_for()
    assert "team-a" not in ben.page.content()

    admin.open("/projects/team-a")
    admin.press("Edit")
    form = admin.page.get_by_role("dialog")
    form.get_by_role("tab", name="Access").click()
    form.get_by_label("User, group or application").first.fill("ben@example.com")
    admin.page.keyboard.press("Escape")
    form.get_by_role("button", name="Give access").click()
    form.get_by_role("cell", name="ben@example.com", exact=True).wait_for()
    ben.open("/projects")
    ben.page.get_by_role("link", name="team-a", exact=True).first.wait_for()
    ben.page.context.close()
    ben.check()


def test_a_department_that_is_created_here_is_what_the_api_has(admin: Reader, platform: Running) -> None:
    """F-200."""
    admin.open("/departments")
    admin.press("New department")
    form = admin.page.get_by_role("dialog")
    form.get_by_label("Name", exact=False).first.fill("research")
    form.get_by_role("button", name="Create", exact=True).click()
    platform.until(lambda: "research" in [each.name for each in platform.client.departments()], "it is there")
    platform.client.delete_department("research")
    admin.until("!document.querySelector('main').innerText.includes('research')", "the list has heard of its end")


def sign_in(person: Reader, name: str, password: str) -> None:
    """With a password that must be changed."""
    person.page.goto(person.address + "/")
    person.page.get_by_label("E-mail or user name").fill(name)
    person.page.get_by_label("Password").fill(password)
    person.page.get_by_role("button", name="Sign in", exact=True).click()
    dialog = person.page.get_by_role("dialog")
    dialog.get_by_label("Present password").or_(dialog.get_by_label("Current password")).fill(password)
    dialog.get_by_label("New password", exact=True).fill(PASSWORD)
    dialog.get_by_label("New password again", exact=True).or_(dialog.get_by_label("Repeat", exact=False)).fill(PASSWORD)
    dialog.get_by_role("button", name="Change password", exact=True).click()
    dialog.wait_for(state="detached")


@pytest.mark.usefixtures("waiting")
def test_work_that_waits_is_listed_with_a_wait_that_grows(admin: Reader, platform: Running) -> None:
    """F-42, F-183, F-184, F-185, F-186, F-191, F-257."""
    admin.open("/")
    pending = admin.page.locator("section[aria-label=Pending]")
    row = pending.locator("tr", has=admin.page.get_by_role("link", name="late", exact=True))
    row.wait_for()
    assert headers(admin, "Pending")[:6] == ["Workload", "Project", "User", "Type", "GPUs", "Wait time"]
    before = row.locator("td").nth(5).inner_text()
    assert re.fullmatch(r"\d\d:\d\d:\d\d", before)
    platform.until(lambda: row.locator("td").nth(5).inner_text() > before, "it has waited longer")
    assert "16.00" in tile(admin, "Allocated GPUs")
    assert re.search(r"\b2\b", tile(admin, "Running"))
    assert re.search(r"\b1\b", tile(admin, "Pending"))
    longest = admin.page.locator("section[aria-label='Longest running']")
    longest.get_by_role("link", name="left", exact=True).wait_for()
    measured = re.compile(r"GPU utilization\s+\d+\s*%")
    platform.until(lambda: measured.search(tile(admin, "GPU utilization")), "utilization was measured")
    platform.until(lambda: "0.00" in tile(admin, "Idle allocated"), "none was idle for five minutes")


@pytest.mark.usefixtures("waiting")
def test_everything_has_a_chart_over_time(admin: Reader, platform: Running) -> None:
    """F-52, F-194, F-195: jobs, deployments, projects, users, GPUs and clusters."""
    job = platform.client.find_workload("team-a", "left")
    assert job is not None
    serving = {"image": "ubuntu", "command": "sleep", "args": "infinity", "servingPort": {"container": 8000}}
    body = {"name": "model", "projectId": "team-a", "spec": serving}
    model = platform.client.submit(work.SubmitInference.model_validate(body)).id
    platform.until_phase(model, "Running")
    of_jobs = [f"/workloads/{each}?tab=metrics" for each in (job.id, model)]
    for path in (*of_jobs, "/projects/team-a", "/nodes/dgx1-1", "/consumption?user=test@run.ai"):
        admin.open(path)
        admin.page.locator("[data-chart=ready]").first.wait_for()
    platform.client.delete_workload(model)
    admin.open("/analytics?period=15m&kind=Training")
    admin.page.locator("[data-chart=ready]").first.wait_for()
    admin.sees("Utilization, interactive and training")
    admin.press("GPU allocation by project: Details")
    admin.page.get_by_role("menuitem", name="Data").click()
    table = admin.page.locator("section[aria-label='GPU allocation by project'] table")
    column = table.locator("th").all_inner_texts().index("team-a") + 1
    platform.until(lambda: is_rising(table, column), "allocation has risen from nothing to all GPUs")


def is_rising(table: Any, column: int) -> bool:
    shown = table.locator(f"td:nth-child({column})").all_inner_texts()
    known = [float(each) for each in shown if re.fullmatch(r"[\d.]+", each)]
    return bool(known) and min(known) < 8 and max(known) == 16


@pytest.mark.usefixtures("waiting")
def test_both_plans_are_compared_and_a_quota_is_applied(admin: Reader, platform: Running) -> None:
    admin.open("/what-if?set=project.team-a.quota=6")
    plans = admin.page.locator("section[aria-label='The two plans']")
    plans.wait_for()
    assert headers(admin, "The two plans") == ["In this plan", "As it is", "With the changes"]
    admin.page.get_by_role("button", name="Apply", exact=True).click()
    admin.page.get_by_role("dialog").get_by_role("button", name="Make 1 change").click()
    platform.until(lambda: platform.client.project("team-a").resources[0].gpu.deserved == 6, "the quota is 6")


def test_commands_are_configured_and_feedback_is_written(admin: Reader) -> None:
    """F-131, F-198, F-216, F-242."""
    admin.open("/command-line")
    admin.sees(f"runai login --server {admin.address}")
    admin.sees("runai-adm version")
    for name, file in (("macOS", "~/.zshrc"), ("Linux", "~/.bashrc")):
        admin.page.get_by_text(name, exact=True).click()
        admin.sees(f">> {file}")
        with admin.page.expect_download() as started:
            admin.page.get_by_role("link", name=f"Download for {name}").click()
        assert re.fullmatch(r"fairpool-.*-py3-none-any\.whl", started.value.suggested_filename)
    admin.sees("Support")
    admin.press("Write feedback")
    dialog = admin.page.get_by_role("dialog")
    dialog.get_by_label("What is wrong, missing or good?").fill("The map is good.")
    mail = dialog.get_by_role("link", name="Open in mail").get_attribute("href")
    assert mail is not None
    assert mail.startswith("mailto:")
    assert "The%20map%20is%20good." in mail
    admin.open("/settings")
    admin.sees("Researcher authentication")
    admin.sees("jwks_uri: ")


def test_a_second_cluster_joins_with_what_the_wizard_gives(admin: Reader, tmp_path: Path) -> None:
    """F-228, F-272: the downloaded file starts it, the page notices, and one cluster is chosen among two."""
    admin.open("/clusters")
    admin.press("New cluster")
    form = admin.page.get_by_role("dialog")
    form.get_by_label("Name", exact=False).first.fill("attic")
    form.get_by_role("button", name="Next", exact=True).click()
    form.get_by_role("combobox", name="GPUs").or_(form.get_by_label("GPUs", exact=True)).first.click()
    admin.page.get_by_role("option", name="Simulated", exact=True).click()
    form.get_by_label("Simulated nodes", exact=False).first.fill("1x2:V100-32GB")
    form.get_by_label("Data directory").fill(str(tmp_path / "attic"))
    form.get_by_label("Health address").fill("127.0.0.1:0")
    form.get_by_role("button", name="Create the cluster").click()
    form.get_by_text("Its token, shown once").wait_for()
    with admin.page.expect_download() as started:
        form.get_by_role("button", name="Download start-attic.sh").click()
    started.value.save_as(tmp_path / "start-attic.sh")
    form.get_by_role("button", name="I started it").click()
    form.get_by_text("Waiting for the cluster to connect").wait_for()
    try:
        start(tmp_path / "start-attic.sh")
        form.get_by_text("attic is connected.").wait_for()
        form.get_by_text("It has 1 node with 2 GPUs.").wait_for()
        form.get_by_role("button", name="Done", exact=True).click()
        admin.open("/")
        admin.press("Cluster")
        admin.page.get_by_role("menuitem", name=re.compile("^attic")).click()
        admin.until("document.querySelector('main').innerText.includes('of 2')", "the overview is of that cluster")
        assert "1 of 1 ready" in tile(admin, "Nodes")
    finally:
        fairpool("down", "--stop-pods", "--data", str(tmp_path / "attic"))


def test_the_wizard_gives_the_file_that_connects_a_kubernetes_cluster(admin: Reader, tmp_path: Path) -> None:
    """F-228."""
    admin.open("/clusters")
    admin.press("New cluster")
    form = admin.page.get_by_role("dialog")
    form.get_by_label("Name", exact=False).first.fill("cloud")
    form.get_by_role("button", name="Next", exact=True).click()
    form.get_by_text("In Kubernetes", exact=True).click()
    form.get_by_label("Image registry").fill("registry.example.com:5000")
    form.get_by_role("button", name="Create the cluster").click()
    form.get_by_text("kubectl apply -f runai-operator-cloud.yaml").wait_for()
    with admin.page.expect_download() as started:
        form.get_by_role("button", name="Download runai-operator-cloud.yaml").click()
    started.value.save_as(tmp_path / "runai-operator-cloud.yaml")
    documents = list(yaml.safe_load_all((tmp_path / "runai-operator-cloud.yaml").read_text(encoding="utf-8")))
    kinds = {each["kind"] for each in documents}
    assert {"Namespace", "ServiceAccount", "ClusterRole", "Secret", "StatefulSet"} <= kinds
    (secret,) = [each for each in documents if each["kind"] == "Secret"]
    assert secret["stringData"]["token"].startswith("fpc_")
    form.get_by_role("button", name="I applied it").click()
    form.get_by_text("Waiting for the cluster to connect").wait_for()
    form.get_by_role("button", name="Close", exact=True).last.click()


def start(script: Path) -> None:
    """As on the machine of the cluster, where `fairpool` is on the path."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FAIRPOOL_", "XDG_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    done = subprocess.run(
        ["sh", str(script)],
        cwd=script.parent,
        env={**kept, "PATH": path, "FAIRPOOL_DISK_RESERVE": "32MiB"},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

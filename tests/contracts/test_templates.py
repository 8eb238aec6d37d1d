"""Workload templates: stored, seen by those whose projects they are for, and applied to submits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.control.asset_requests import TEMPLATES, asset_body, remove_all, submit, two_teams
from tests.control.control_plane import ControlPlane, codes, expect


@pytest.fixture(scope="module")
def shared() -> Iterator[ControlPlane]:
    with two_teams() as control:
        yield control


@pytest.fixture
def control(shared: ControlPlane) -> Iterator[ControlPlane]:
    yield shared
    remove_all(shared, "workload-template")


def body(name: str = "batch_ops", *said: str, **more: Any) -> dict[str, Any]:
    return asset_body(name, more.pop("spec", {"image": "python"}), *said, **more)


def make(control: ControlPlane, *said: Any, **more: Any) -> Any:
    return expect(control.call("POST", TEMPLATES, body(*said, **more)), 201)


def test_a_template_is_made_read_replaced_and_deleted(control: ControlPlane) -> None:
    made = make(control, "batch_ops", "project", "team-a", meta={"description": "Nightly"}, required=["args"])
    assert made["meta"]["projectName"] == "team-a"
    assert made["meta"]["workloadSupportedTypes"] == dict.fromkeys(
        ("workspace", "training", "distributed", "inference"), True
    )
    where = f"{TEMPLATES}/{made['id']}"
    assert expect(control.call("GET", where), 200) == made
    stale = {"If-Match": f'"{made["revision"] - 1}"'}
    again = body("batch_ops", "project", "team-a", spec={"image": "pytorch"})
    assert control.call("PUT", where, again, headers=stale).status_code == 412
    assert expect(control.call("PUT", where, again), 200)["spec"] == {"image": "pytorch"}
    assert codes(control.call("PUT", where, body("batch_ops"))) == ["template.moved"]
    assert expect(control.call("GET", f"{TEMPLATES}/count"), 200) == {"count": 1}
    expect(control.call("DELETE", where), 204)
    assert control.call("GET", where).status_code == 404


def test_a_template_is_seen_in_its_scope_only(control: ControlPlane) -> None:
    for scope, scope_id in (("tenant", ""), ("department", "research"), ("project", "team-a"), ("cluster", "local")):
        make(control, f"of-{scope}", scope, scope_id)

    def seen(by: str) -> list[str]:
        return [each["meta"]["name"] for each in expect(control.call("GET", TEMPLATES, by=by), 200)["entries"]]

    assert seen("admin") == ["of-cluster", "of-department", "of-project", "of-tenant"]
    assert seen("ann") == ["of-cluster", "of-project", "of-tenant"]
    assert seen("ben") == ["of-cluster", "of-department", "of-tenant"]
    hidden = next(
        each for each in expect(control.call("GET", TEMPLATES), 200)["entries"] if each["meta"]["name"] == "of-project"
    )
    assert control.call("GET", f"{TEMPLATES}/{hidden['id']}", by="ben").status_code == 404
    assert submit(control, by="ben", project="team-b", spec={"template": "of-project"}) == ["template.unknown"]
    assert submit(control, by="ben", project="team-b", spec={"template": hidden["id"]}) == ["template.unknown"]


def test_a_researcher_cannot_write_templates(control: ControlPlane) -> None:
    made = make(control, "of-a", "project", "team-a")
    for scope, scope_id in (("tenant", ""), ("department", "research"), ("project", "team-a"), ("cluster", "local")):
        assert control.call("POST", TEMPLATES, body("x", scope, scope_id), by="ann").status_code == 403
    for method, said in (("PUT", body("of-a", "project", "team-a")), ("DELETE", None)):
        assert control.call(method, f"{TEMPLATES}/{made['id']}", said, by="ann").status_code == 403


def test_what_is_wrong_with_a_template_is_named(control: ControlPlane) -> None:
    make(control, "first", administrative=True)
    wrong = {
        "asset.no_scope": body(scope="project"),
        "asset.two_scopes": body(meta={"projectId": "team-a"}),
        "project.unknown": body(scope="project", scope_id="nowhere"),
        "department.unknown": body(scope="department", scope_id="nowhere"),
        "cluster.unknown": body(scope="cluster", scope_id="nowhere"),
        "template.exists": body("first"),
        "template.administrative": body("second", administrative=True),
        "template.no_field": body("third", required=["nothing"]),
        "request.wrong_value": body("a b"),
        "request.unknown_field": body("third", spec={"imagee": "i"}),
    }
    for code, said in wrong.items():
        assert codes(control.call("POST", TEMPLATES, said)) == [code]


def test_a_submit_is_filled_up_by_the_template_that_it_names(control: ControlPlane) -> None:
    made = make(control, "batch_ops", spec={"image": "python", "compute": {"gpu": "0.5"}, "args": ["a.py"]})
    for said in ({"spec": {"template": "batch_ops"}}, {"templateId": made["id"], "spec": {}}):
        found = submit(control, **said)
        assert (found["spec"]["image"], found["workloadRequestedResources"]["gpu"]["request"]) == ("python", 0.5)
        assert found["valueOrigins"] == dict.fromkeys(("image", "compute.gpu", "args"), "template batch_ops (tenant)")
    own = submit(control, spec={"template": "batch_ops", "compute": {"gpu": 2}})
    assert own["workloadRequestedResources"]["gpu"]["request"] == 2
    assert "compute.gpu" not in own["valueOrigins"]
    assert submit(control, spec={"template": "batch_op"}) == ["template.unknown"]
    assert submit(control, templateId="other", spec={"template": "batch_ops"}) == ["template.twice"]


def test_of_templates_with_one_name_the_narrowest_scope_has_it(control: ControlPlane) -> None:
    make(control, "same", spec={"image": "wide"})
    make(control, "same", "project", "team-a", spec={"image": "python"})
    assert submit(control, spec={"template": "same"})["images"] == ["python"]


def test_the_administrative_template_is_applied_to_every_submit(control: ControlPlane) -> None:
    make(control, "gpus", spec={"image": "python", "compute": {"gpu": 1}}, administrative=True, locked=["compute.gpu"])
    assert submit(control)["workloadRequestedResources"]["gpu"]["request"] == 1
    assert submit(control, "workspaces")["images"] == ["python"]
    assert submit(control, spec={"compute": {"gpu": 2}}) == ["template.locked"]
    classic = {"name": "c", "project": "team-a", "gpu": 2}
    assert codes(control.call("POST", "/researcher/api/v1/jobs", classic, by="ann")) == ["template.locked"]


def test_a_default_of_the_older_api_is_not_a_value_that_was_asked_for(control: ControlPlane) -> None:
    make(control, "shm", spec={"compute": {"largeShmRequest": True}}, administrative=True, locked=["compute"])
    job = {"name": "older", "project": "team-a", "image": "python"}
    expect(control.call("POST", "/researcher/api/v1/jobs", job, by="ann"), 202)
    said = {**job, "name": "other", "largeShm": False}
    assert codes(control.call("POST", "/researcher/api/v1/jobs", said, by="ann")) == ["template.locked"]


def test_a_template_is_for_the_kinds_that_have_its_fields(control: ControlPlane) -> None:
    make(control, "sweep", spec={"image": "python", "completions": 3, "parallelism": 2})
    assert submit(control, spec={"template": "sweep"})["requestedPods"]["number"] == 2
    assert submit(control, "workspaces", spec={"template": "sweep"}) == ["template.other_kind"]
    make(control, "admin-sweep", spec={"image": "python", "completions": 3}, administrative=True)
    assert submit(control, "workspaces", spec={"image": "python"}).get("valueOrigins") is None, (
        "not applied to other kinds"
    )


def test_a_required_field_that_is_empty_refuses_the_submit(control: ControlPlane) -> None:
    make(control, "batch_ops", spec={"image": "python"}, required=["compute.gpu"])
    assert submit(control, spec={"template": "batch_ops"}) == ["template.required"]
    assert submit(control, spec={"template": "batch_ops", "compute": {"gpu": 1}})["images"] == ["python"]


def test_a_running_model_keeps_to_locks_when_it_is_changed(control: ControlPlane) -> None:
    request = {"name": "model", "projectId": "team-a", "spec": {"image": "python", "servingPort": {"container": 80}}}
    made = expect(control.call("POST", "/api/v1/workloads/inferences", request, by="ann"), 202)
    make(control, "image", "department", "default", spec={"image": "python"}, administrative=True, locked=["image"])
    where = f"/api/v1/workloads/inferences/{made['id']}"
    assert codes(control.call("PATCH", where, {"spec": {"image": "other"}}, by="ann")) == ["template.locked"]
    assert codes(control.call("PATCH", where, {"spec": {"template": "image"}}, by="ann")) == ["template.changed"]
    expect(control.call("PATCH", where, {"spec": {"autoscaling": {"minReplicas": 2}}}, by="ann"), 202)
    emptied = expect(control.call("PATCH", where, {"spec": {"image": ""}}, by="ann"), 202)
    assert emptied["spec"]["image"] == "python", "a locked value that a change leaves out stays"


def test_templates_go_with_their_project(control: ControlPlane) -> None:
    control.project("team-c")
    make(control, "of-c", "project", "team-c")
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-c"), 202)
    control.project("team-c")
    assert expect(control.call("GET", TEMPLATES), 200)["entries"] == []

"""Programs written for the older API find their paths, their words and their lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.control.control_plane import ControlPlane, codes, control_plane, expect

JOBS = "/researcher/api/v1/jobs"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a", schedulingRules={"interactiveJobTimeLimitSeconds": 3600})
        yield control


def submit(control: ControlPlane, name: str = "hyper1", *, by: str = "admin", **more: Any) -> Any:
    return control.call("POST", JOBS, {"name": name, "project": "team-a", "image": "quickstart", **more}, by=by)


def test_a_job_is_submitted_listed_suspended_resumed_and_deleted(control: ControlPlane) -> None:
    made = expect(submit(control, gpu=0.5, environment=["EPOCHS=3"], volumes=["/raid:/data:ro"]), 202)
    assert (made["status"], made["type"], made["requestedGpus"]) == ("Pending", "Train", 0.5)
    control.push(control.report(workloads=(control.runs(made["id"], gpus_milli=500),)))
    (listed,) = expect(control.call("GET", f"{JOBS}/team-a"), 200)
    assert (listed["name"], listed["status"], listed["node"], listed["runningPods"]) == ("hyper1", "Running", "n1", 1)
    named = [{"name": "hyper1", "project": "team-a"}, {"name": "other", "project": "team-a"}]
    suspended = expect(control.call("POST", f"{JOBS}/suspend", named), 200)
    assert [(each["name"], each["ok"]) for each in suspended] == [("hyper1", True), ("other", False)]
    assert suspended[1]["error"]["status"] == 404
    assert expect(control.call("GET", f"/api/v1/workloads/{made['id']}"), 200)["desiredPhase"] == "Stopped"
    assert expect(control.call("POST", f"{JOBS}/resume", named[:1]), 200) == [{"name": "hyper1", "ok": True}]
    assert expect(control.call("DELETE", JOBS, named[:1]), 200) == [{"name": "hyper1", "ok": True}]
    assert expect(control.call("GET", f"{JOBS}/team-a"), 200)[0]["status"] == "Terminating"


def test_what_was_submitted_the_older_way_is_declared_as_it_was_meant(control: ControlPlane) -> None:
    new = {"claimName": "claim", "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi"}}
    body = {"name": "first", "projectId": "team-a", "spec": {"image": "i", "storage": {"pvc": [new]}}}
    expect(control.call("POST", "/api/v1/workloads/trainings", body), 202)
    made = expect(
        submit(
            control,
            "build1",
            interactive=True,
            command=["sleep"],
            args=["infinity"],
            gpuMemory="4G",
            cpu=2,
            memory="8Gi",
            largeShm=True,
            pvcs=["claim:/data"],
            preemptible=True,
        ),
        202,
    )
    spec = expect(control.call("GET", f"/api/v1/workloads/workspaces/{made['id']}"), 200)["spec"]
    assert (spec["command"], spec["args"], spec["preemptibility"]) == (["sleep"], ["infinity"], "preemptible")
    assert spec["compute"]["gpuMemoryRequest"] == "4G"
    assert spec["storage"]["pvc"] == [{"claimName": "claim", "path": "/data"}]
    assert expect(submit(control, "sweep", completions=3, parallelism=2), 202)["type"] == "Train"
    assert (
        expect(control.call("POST", JOBS, {"jobNamePrefix": "s", "project": "team-a", "image": "i"}), 202)["name"]
        == "s-0"
    )


def test_all_that_is_wrong_is_said_at_once_in_the_words_it_was_asked_in(control: ControlPlane) -> None:
    wrong = submit(
        control, "x", environment=["A=1", "B"], volumes=["data"], pvcs=["c"], interactive=True, completions=2
    )
    fields = [each["field"] for each in wrong.json()["problems"]]
    assert sorted(fields) == ["environment.1", "interactive", "pvcs.0", "volumes.0"]
    later = submit(control, "X", gpu=2.5, nodePools=["nowhere"])
    assert {each["field"] for each in later.json()["problems"]} == {"name", "gpu", "nodePools"}
    assert codes(submit(control, pvcs=["a\x7fb:/data"])) == ["request.wrong_value"]
    assert codes(submit(control, gpus=1)) == ["request.unknown_field"]


def test_a_researcher_sees_and_touches_only_their_own(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a")
    expect(control.call("POST", JOBS, {"name": "theirs", "project": "team-b", "image": "i"}), 202)
    assert control.call("GET", f"{JOBS}/team-b", by="ann").status_code == 404
    assert [each["name"] for each in expect(control.call("GET", "/researcher/api/v1/projects", by="ann"), 200)] == [
        "team-a"
    ]
    (outcome,) = expect(control.call("DELETE", JOBS, [{"name": "theirs", "project": "team-b"}], by="ann"), 200)
    assert (outcome["ok"], outcome["error"]["status"]) == (False, 404)
    assert control.call("POST", JOBS, {"name": "x", "project": "team-b", "image": "i"}, by="ann").status_code == 403
    assert expect(control.call("GET", "/v1/k8s/clusters/local/jobs", by="ann"), 200) == []


def test_projects_in_older_words(control: ControlPlane) -> None:
    assert expect(control.call("GET", "/researcher/api/v1/projects"), 200) == [
        {
            "name": "team-a",
            "departmentName": "default",
            "deservedGpus": 4.0,
            "interactiveJobTimeLimitSecs": 3600,
            "interactiveNodeAffinity": [],
            "trainNodeAffinity": [],
        }
    ]


def test_older_paths_lead_to_the_same_things(control: ControlPlane) -> None:
    base = f"/v1/k8s/clusters/{control.cluster}"
    assert expect(control.call("GET", "/v1/k8s/clusters"), 200) == expect(control.call("GET", "/api/v1/clusters"), 200)
    made = control.call("POST", f"{base}/projects", {"name": "p1", "resources": [{"gpu": {"deserved": 1}}]})
    assert expect(made, 201)["clusterId"] == control.cluster
    listed = expect(control.call("GET", f"{base}/projects"), 200)
    assert [(each["name"], each["deservedGpus"]) for each in listed] == [("p1", 1.0), ("team-a", 4.0)]
    assert expect(control.call("GET", f"{base}/projects/{listed[0]['id']}"), 200) == listed[0]
    stale = control.call("PUT", f"{base}/projects/p1", {"name": "p1"}, headers={"If-Match": '"0"'})
    assert stale.status_code == 412
    expect(control.call("PUT", f"{base}/projects/p1", {"name": "p1"}, headers={"If-Match": made.headers["ETag"]}), 200)
    expect(control.call("DELETE", f"{base}/projects/p1"), 202)
    assert control.call("GET", "/api/v1/org-unit/projects/p1").status_code == 404
    expect(control.call("POST", f"{base}/departments", {"name": "research"}), 201)
    assert expect(control.call("GET", "/api/v1/org-unit/departments/research"), 200)["name"] == "research"
    assert expect(control.call("GET", f"{base}/node-pools/default"), 200)["name"] == "default"
    assert codes(control.call("GET", "/v1/k8s/clusters/nowhere/projects")) == ["cluster.unknown"]
    assert expect(control.call("GET", "/v1/k8s/users/roles"), 200)[0]["id"] == 1


def test_a_user_made_the_older_way(control: ControlPlane) -> None:
    body = {"email": "ed@example.com", "password": "correct horse", "roles": ["editor", "admin"]}
    wrong = control.call("POST", "/v1/k8s/users", {**body, "permittedClusters": ["a"]})
    assert [each["field"] for each in wrong.json()["problems"]] == ["permittedClusters"]
    wrong = control.call("POST", "/v1/k8s/users", {**body, "roles": ["emperor"]})
    assert codes(wrong) == ["role.unknown"]
    made = control.call("POST", "/v1/k8s/users", {**body, "roles": ["admin"], "needToChangePassword": False})
    assert expect(made, 201)["roles"] == ["administrator"]
    control.sign_in("ed", "ed@example.com", "correct horse")
    assert control.call("GET", "/v1/k8s/users", by="ed").status_code == 200


def test_roles_of_users_groups_and_departments_in_older_words(control: ControlPlane) -> None:
    expect(control.call("POST", "/api/v1/users", {"email": "ada@example.com", "roles": ["viewer"]}), 201)
    assert expect(control.call("GET", "/v1/k8s/users/ada@example.com/roles"), 200) == ["viewer"]
    rules = "/api/v1/authorization/access-rules"
    team = {"subjectId": "team", "subjectType": "group", "roleId": "viewer", "scopeType": "tenant"}
    expect(control.call("POST", rules, team), 201)
    (group,) = expect(control.call("GET", "/v1/k8s/groups"), 200)
    assert group == {"userId": "team", "entityType": "group", "tenantId": 1, "roles": ["viewer"]}
    assert expect(control.call("GET", "/v1/k8s/groups/team"), 200) == group
    assert control.call("GET", "/v1/k8s/groups/missing").status_code == 404
    cluster = expect(control.call("GET", "/api/v1/clusters"), 200)[0]["uuid"]
    path = f"/v1/k8s/clusters/{cluster}/departments/default/access-control"
    for wanted in (["ada@example.com"], []):
        done = expect(control.call("PUT", path, {"departmentAdmins": wanted}), 200)
        assert done["departmentAdmins"] == wanted
        found = expect(control.call("GET", f"{rules}?scopeType=department&scopeId=default"), 200)["accessRules"]
        assert [each["subjectName"] for each in found] == wanted
    assert codes(control.call("PUT", path, {"departmentAdmins": ["missing@example.com"]})) == ["user.unknown"]
    other = {"departmentId": "other", "departmentAdmins": []}
    assert codes(control.call("PUT", path, other)) == ["department.unfit"]


def test_the_audit_log_in_older_words(control: ControlPlane) -> None:
    (login,) = expect(control.call("GET", "/v1/k8s/audit?action=Login"), 200)
    assert (login["action"], login["sourceType"], login["sourceName"]) == ("Login", "User", "test@run.ai")
    (made,) = expect(control.call("GET", "/v1/k8s/audit?entity_type=project&limit=1"), 200)
    assert (made["action"], made["entityName"], made["context"]["result"]) == ("Create", "team-a", "Succeeded")
    assert codes(control.call("GET", "/v1/k8s/audit?start=x")) == ["request.not_a_date"]


def test_a_job_that_is_being_deleted_can_be_deleted_by_force(control: ControlPlane) -> None:
    expect(submit(control, "slow"), 202)
    named = [{"name": "slow", "project": "team-a"}]
    expect(control.call("DELETE", JOBS, named), 200)
    (again,) = expect(control.call("DELETE", JOBS, named), 200)
    assert not again["ok"], "it has given its name up"
    assert expect(control.call("DELETE", f"{JOBS}?force=true", named), 200) == [{"name": "slow", "ok": True}]
    assert [each.grace_s for each in control.pull().workloads] == [0]

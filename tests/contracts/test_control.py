"""What the control plane promises to those who call it."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from fairpool.api.clusters import EventReport, PodReport, WorkloadReport
from fairpool.control import audit, endpoint
from fairpool.control import plane as plane_module
from fairpool.control import projects as projects_module
from fairpool.control.app import StartupFailed, create_app
from fairpool.control.filters import Filter, Operator
from fairpool.control.moments import iso
from fairpool.control.settings import Settings
from fairpool.control.store import workload_lists
from fairpool.model.ids import Instant, NodeName, PodId, PoolName, WorkloadId
from fairpool.model.lifecycle import PodPhase
from fairpool.model.pod_record import Cause, Outcome
from fairpool.model.spec import DesiredState
from fairpool.model.status import WorkloadPhase
from tests.control.control_plane import CHEAP, START, ControlPlane, codes, control_plane, expect, gone, node

WORKLOADS = "/api/v1/workloads"
TRAININGS = "/api/v1/workloads/trainings"
PROJECTS = "/api/v1/org-unit/projects"
DEPARTMENTS = "/api/v1/org-unit/departments"
NODE_POOLS = "/api/v1/node-pools"
AUTHORIZATION = "/api/v1/authorization"
RULES = f"{AUTHORIZATION}/access-rules"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        yield control


# --- sign-in ---


def test_a_changed_password_ends_other_sessions_and_keeps_this_one(control: ControlPlane) -> None:
    control.sign_in("elsewhere", "test@run.ai", "password")
    body = {"currentPassword": "password", "newPassword": "a better one"}
    expect(control.call("POST", "/api/v1/me/password", body), 204)
    assert control.call("GET", "/api/v1/me").status_code == 200
    assert control.call("GET", "/api/v1/me", by="elsewhere").status_code == 401
    assert not expect(control.call("GET", "/api/v1/me"), 200)["mustChangePassword"]
    control.sign_in("again", "test@run.ai", "a better one")


def test_nothing_listens_beyond_this_machine_before_the_first_password_is_changed(tmp_path: Path) -> None:
    with (
        pytest.raises(StartupFailed, match="initial password"),
        control_plane(tmp_path, host="0.0.0.0", first_password="password"),
    ):
        pass
    with control_plane(tmp_path) as control:
        body = {"currentPassword": "password", "newPassword": "a better one"}
        expect(control.call("POST", "/api/v1/me/password", body), 204)
    app = create_app(Settings(data=tmp_path, host="0.0.0.0"), hasher=CHEAP)
    with TestClient(app, base_url="http://192.0.2.7") as http:
        assert http.get("/api/v1/me").status_code == 401


def test_a_generated_first_password_may_be_used_from_elsewhere_and_must_be_changed(tmp_path: Path) -> None:
    generated = "k3Jx9QpLw2Vn8Rt5Yb1Z"
    settings = Settings(data=tmp_path, host="0.0.0.0", first_password=generated)
    with TestClient(create_app(settings, hasher=CHEAP), base_url="http://192.0.2.7") as http:
        body = {"grantType": "password", "username": "test@run.ai", "password": generated}
        signed_in = http.post("/api/v1/token", json=body)
        assert signed_in.status_code == 200, signed_in.text
        headers = {"Authorization": f"Bearer {signed_in.json()['accessToken']}"}
        assert http.get("/api/v1/me", headers=headers).json()["mustChangePassword"]
        assert http.get("/api/v1/clusters", headers=headers).status_code == 403
    with TestClient(create_app(settings, hasher=CHEAP), base_url="http://192.0.2.7"):
        pass  # it starts again with the same file


def test_wrong_passwords_are_slowed_down(control: ControlPlane) -> None:
    new = {"email": "ann@example.com", "password": "correct horse"}
    expect(control.call("POST", "/api/v1/users", new), 201)
    body = {"grantType": "password", "username": "ann@example.com", "password": "wrong"}
    for _ in range(3):
        assert codes(control.http.post("/api/v1/token", json=body)) == ["access.wrong_password"]
    slowed = control.http.post("/api/v1/token", json={**body, "password": "correct horse"})
    assert (slowed.status_code, slowed.headers["retry-after"]) == (429, "1")
    control.clock.turn(1)
    expect(control.http.post("/api/v1/token", json={**body, "password": "correct horse"}), 200)


def test_a_token_ends_when_it_is_revoked_when_its_time_is_up_and_when_its_user_goes(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    expect(control.call("POST", "/api/v1/me/logout", by="ann"), 204)
    assert codes(control.call("GET", "/api/v1/me", by="ann")) == ["access.not_signed_in"]
    control.sign_in("ann", "ann@example.com", "correct horse")
    control.clock.turn(36_001)
    assert control.call("GET", "/api/v1/me", by="ann").status_code == 401
    control.sign_in("admin", "test@run.ai", "password")
    control.sign_in("ann", "ann@example.com", "correct horse")
    expect(control.call("DELETE", "/api/v1/users/ann@example.com"), 204)
    assert control.call("GET", "/api/v1/me", by="ann").status_code == 401


def test_a_refresh_token_is_good_for_one_new_token(control: ControlPlane) -> None:
    body = {"grantType": "password", "username": "test@run.ai", "password": "password"}
    token = expect(control.http.post("/api/v1/token", json=body), 200)
    renew = {"grantType": "refresh_token", "refreshToken": token["refreshToken"]}
    fresh = expect(control.http.post("/api/v1/token", json=renew), 200)
    assert fresh["accessToken"] != token["accessToken"]
    assert control.http.post("/api/v1/token", json=renew).status_code == 401


def test_the_older_token_endpoint_speaks_rfc_6749(control: ControlPlane) -> None:
    path = "/auth/realms/runai/protocol/openid-connect/token"
    form = {"grant_type": "password", "username": "test@run.ai", "password": "password"}
    answer = expect(control.http.post(path, data=form), 200)
    assert answer["token_type"] == "bearer"
    assert answer["expires_in"] == 36000
    wrong = control.http.post(path, data={**form, "password": "no"})
    assert (wrong.status_code, wrong.json()["error"]) == (401, "invalid_grant")
    assert control.http.post(path, data={"grant_type": "magic"}).json()["error"] == "unsupported_grant_type"


def test_an_application_signs_in_with_its_secret(control: ControlPlane) -> None:
    app = expect(control.call("POST", "/api/v1/apps", {"name": "nightly", "roles": ["researcher"]}), 201)
    body = {"grantType": "client_credentials", "clientId": app["clientId"], "clientSecret": app["secret"]}
    control.tokens["app"] = expect(control.http.post("/api/v1/token", json=body), 200)["accessToken"]
    assert expect(control.call("GET", "/api/v1/me", by="app"), 200)["username"] == "nightly"
    control.train("from-app", by="app")
    expect(control.call("POST", f"/api/v1/apps/{app['id']}/secret"), 200)
    assert control.call("GET", "/api/v1/me", by="app").status_code == 401


def test_a_password_that_was_given_must_be_changed_before_anything_else(control: ControlPlane) -> None:
    made = expect(control.call("POST", "/api/v1/users", {"email": "bob@example.com", "roles": ["researcher"]}), 201)
    control.sign_in("bob", "bob@example.com", made["tempPassword"])
    assert codes(control.call("GET", WORKLOADS, by="bob")) == ["access.password_must_change"]
    body = {"currentPassword": made["tempPassword"], "newPassword": "mine alone"}
    expect(control.call("POST", "/api/v1/me/password", body, by="bob"), 204)
    expect(control.call("GET", WORKLOADS, by="bob"), 200)


def test_many_roles_are_given_and_taken_away_each_for_itself(control: ControlPlane) -> None:
    control.researcher("ann")
    control.researcher("ben")
    ann, ben = (
        {"subjectId": f"{name}@example.com", "roleId": "researcher", "scopeId": "team-a"} for name in ("ann", "ben")
    )
    made = expect(
        control.call("POST", f"{RULES}/batch-create", {"payload": [ann, {**ann, "scopeId": "x"}, ben, ann]}), 200
    )
    assert [(each["id"], each["code"]) for each in made["failed"]] == [("1", 422), ("3", 409)]
    assert control.call("GET", f"{PROJECTS}/team-a", by="ben").status_code == 200
    mine = expect(control.call("GET", "/api/v1/authorization/me/access-rules", by="ben"), 200)["accessRules"][
        "accessRules"
    ]
    assert [str(each["id"]) for each in mine] == made["succeeded"][1:]
    rules = expect(control.call("GET", RULES), 200)["accessRules"]
    admin = next(each["id"] for each in rules if each["role"] == "administrator")
    taken = expect(
        control.call("POST", f"{RULES}/batch", {"ids": [*made["succeeded"], admin, "no"], "action": "delete"}), 200
    )
    assert taken["succeeded"] == made["succeeded"]
    assert [each["code"] for each in taken["failed"]] == [409, 404]
    assert control.call("GET", f"{PROJECTS}/team-a", by="ben").status_code == 403
    entries = expect(control.call("GET", "/api/v1/audit/log?entityType=access-rule"), 200)["entries"]
    assert [each["action"] for each in entries] == ["delete", "delete", "create", "create"]


def test_the_same_rule_twice_is_refused(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    rule = {"subjectId": "ann@example.com", "roleId": "researcher", "scopeId": "team-a"}
    assert codes(control.call("POST", RULES, rule)) == ["access.rule_exists"]


def test_every_user_can_ask_where_they_may_do_what(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    grid = {
        each["resourceType"]: each
        for each in expect(control.call("GET", f"{AUTHORIZATION}/permissions", by="ann"), 200)
    }
    assert grid["trainings"] == {
        "resourceType": "trainings",
        "displayName": "Training",
        "groupId": "workload",
        "actions": ["create", "read", "update", "delete"],
    }
    assert grid["templates"]["actions"] == ["read"]
    asked = {"resourceType": "trainings", "action": "create"}
    where = expect(control.call("POST", f"{AUTHORIZATION}/permitted-scopes", asked, by="ann"), 200)
    assert where["create"] == {
        "system": False,
        "tenants": [],
        "clusters": [],
        "departments": [],
        "projects": ["team-a"],
    }
    assert expect(control.call("POST", f"{AUTHORIZATION}/permitted-scopes", asked), 200)["delete"]["tenants"] == ["1"]
    assert codes(control.call("POST", f"{AUTHORIZATION}/permitted-scopes", {})) == ["access.which_permission"]
    body = {"permission": "workload.submit"}
    where = expect(control.call("POST", f"{AUTHORIZATION}/permitted-scopes", body, by="ann"), 200)
    assert (where["tenant"], where["projects"]) == (False, ["team-a"])
    assert expect(control.call("POST", f"{AUTHORIZATION}/permitted-scopes", body), 200)["tenant"]
    wrong = control.call("POST", f"{AUTHORIZATION}/permitted-scopes", {"permission": "fly"})
    assert codes(wrong) == ["access.no_such_permission"]


def test_the_last_administrator_cannot_go(control: ControlPlane) -> None:
    assert codes(control.call("DELETE", "/api/v1/users/test@run.ai")) == ["access.last_administrator"]
    rule = expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"][0]
    answer = control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}")
    assert codes(answer) == ["access.last_administrator"]


# --- projects, access per project (F-18, F-212, F-213, F-214) ---


def test_a_project_with_everything_that_can_be_said_of_it(control: ControlPlane) -> None:
    body = {
        "name": "team-b",
        "description": "the b team",
        "nodeTypes": {"training": ["dgx-2"], "workspace": []},
        "schedulingRules": {"interactiveJobTimeLimitSeconds": 3600, "trainingJobTimeLimitSeconds": 7200},
        "resources": [{"gpu": {"deserved": 2.5, "overQuota": "low"}, "cpu": {"deserved": 8000}}],
    }
    made = expect(control.call("POST", PROJECTS, body), 201)
    held = {"allocated": {"gpu": 0.0}, "allocatedGpus": 0.0}
    assert made["status"] == {"namespace": "runai-team-b", "phase": "Ready", "quotaStatus": held}
    assert made["totalResources"]["gpuQuota"] == 2.5
    assert [each["name"] for each in expect(control.call("GET", PROJECTS), 200)["projects"]] == ["team-a", "team-b"]
    organization = control.pull().organization
    assert organization is not None
    queue = next(each for each in organization.queues[PoolName("default")] if each.id == "team-b")
    assert (queue.gpu.quota, queue.gpu.weight, queue.cpu.quota) == (2500, 1.0, 8000)
    rules = organization.to_organization().rules["team-b"]  # type: ignore[index]
    assert (rules.interactive_limit_s, rules.training_limit_s) == (3600, 7200)


def test_all_that_is_wrong_with_a_project_is_said_at_once(control: ControlPlane) -> None:
    body = {
        "name": "team-c",
        "parentId": "nowhere",
        "defaultNodePools": ["a100"],
        "enforceRunaiScheduler": False,
        "resources": [{"nodePool": {"id": "h100"}, "gpu": {"deserved": 0.12345}}],
    }
    answer = control.call("POST", PROJECTS, body)
    wrong = ["department.unknown", "gpu.quota", "pool.unknown", "pool.unknown", "project.scheduler"]
    assert sorted(codes(answer)) == wrong
    assert answer.json()["code"] == 422
    assert answer.json()["message"]


@pytest.mark.parametrize("name", ["Team", "a/b", "a b", "é", "-a", "a" * 58, "", "a'b", 'a"b', "a\x00", "1a", "a-"])
def test_names_that_are_none_are_refused(control: ControlPlane, name: str) -> None:
    assert control.call("POST", PROJECTS, {"name": name}).status_code == 422
    assert control.call("POST", "/api/v1/org-unit/departments", {"name": name}).status_code == 422


def test_two_people_who_edit_one_project_do_not_overwrite_each_other(control: ControlPlane) -> None:
    etag = control.call("GET", f"{PROJECTS}/team-a").headers["etag"]
    first = {"resources": [{"gpu": {"deserved": 6}}]}
    answer = control.call("PUT", f"{PROJECTS}/team-a/resources", first, headers={"If-Match": etag})
    assert expect(answer, 200)["totalResources"]["gpuQuota"] == 6
    late = control.call("PATCH", f"{PROJECTS}/team-a", {"description": "x"}, headers={"If-Match": etag})
    assert (late.status_code, codes(late)) == (412, ["request.changed_meanwhile"])
    fresh = answer.headers["etag"]
    expect(control.call("PATCH", f"{PROJECTS}/team-a", {"description": "x"}, headers={"If-Match": fresh}), 200)


def test_researchers_see_and_use_only_their_projects(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a")
    mine = control.train("mine", "team-a", by="ann")
    theirs = control.train("theirs", "team-b")
    listed = expect(control.call("GET", WORKLOADS, by="ann"), 200)["workloads"]
    assert [each["name"] for each in listed] == ["mine"]
    assert [each["name"] for each in expect(control.call("GET", PROJECTS, by="ann"), 200)["projects"]] == ["team-a"]
    assert control.call("GET", f"{PROJECTS}/team-b", by="ann").status_code == 404
    for path in ("", "/events", "/history", "/pods", "/logs"):
        assert control.call("GET", f"{WORKLOADS}/{theirs['id']}{path}", by="ann").status_code == 404
    assert control.call("DELETE", f"{WORKLOADS}/{theirs['id']}", by="ann").status_code == 404
    body = {"name": "x", "projectId": "team-b", "spec": {"image": "i"}}
    denied = control.call("POST", TRAININGS, body, by="ann")
    assert (denied.status_code, codes(denied)) == (403, ["access.denied"])
    nowhere = control.call("POST", TRAININGS, {**body, "projectId": "no-such"}, by="ann")
    assert nowhere.json() == denied.json()  # whether it exists is nothing to tell
    batch = {"ids": [mine["id"], theirs["id"]], "action": "delete"}
    done = expect(control.call("POST", f"{WORKLOADS}/batch", batch, by="ann"), 200)
    assert done["succeeded"] == [mine["id"]]
    assert [each["code"] for each in done["failed"]] == [404]


def test_a_role_that_is_taken_away_is_gone_at_once(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    expect(control.call("GET", WORKLOADS, by="ann"), 200)
    rules = expect(control.call("GET", "/api/v1/authorization/access-rules"), 200)["accessRules"]
    rule = next(each for each in rules if each["scopeId"] == "team-a")
    expect(control.call("DELETE", f"/api/v1/authorization/access-rules/{rule['id']}"), 204)
    assert control.call("GET", WORKLOADS, by="ann").status_code == 403


def test_a_project_without_work_is_deleted_at_once(control: ControlPlane) -> None:
    expect(control.call("DELETE", f"{PROJECTS}/team-a"), 202)
    assert control.call("GET", f"{PROJECTS}/team-a").status_code == 404


def test_a_project_with_work_asks_what_becomes_of_it(control: ControlPlane) -> None:
    control.train("t1")
    answer = control.call("DELETE", f"{PROJECTS}/team-a")
    assert (answer.status_code, codes(answer)) == (409, ["project.has_work"])
    assert set(answer.json()["choices"]) == {"workloads=delete", "workloads=move&to=<project>"}
    assert len(expect(control.call("GET", WORKLOADS), 200)["workloads"]) == 1


def test_work_of_a_deleted_project_leaves_first_and_then_the_project(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    workload = control.train("t1")
    expect(control.call("DELETE", f"{PROJECTS}/team-a?workloads=delete"), 202)
    assert expect(control.call("GET", f"{PROJECTS}/team-a"), 200)["status"]["phase"] == "Deleting"
    assert codes(control.call("POST", PROJECTS, {"name": "team-a"})) == ["project.exists"]
    refused = control.call("POST", TRAININGS, {"name": "t2", "projectId": "team-a", "spec": {"image": "i"}})
    assert codes(refused) == ["project.deleting"]
    control.push(control.report(whole=True, gone=(gone(workload["id"]),)))
    assert control.call("GET", f"{PROJECTS}/team-a").status_code == 404
    # A new project of the same name is not given to the users of the old one.
    control.project("team-a")
    assert control.call("GET", WORKLOADS, by="ann").status_code == 403


def test_work_of_a_deleted_project_can_move(control: ControlPlane) -> None:
    control.project("team-b")
    workload = control.train("t1")
    control.train("t1", "team-b")
    clash = control.call("DELETE", f"{PROJECTS}/team-a?workloads=move&to=team-b")
    assert (clash.status_code, codes(clash)) == (409, ["workload.exists"])
    assert codes(control.call("DELETE", f"{PROJECTS}/team-a?workloads=move")) == ["project.no_target"]
    control.project("team-c")
    expect(control.call("DELETE", f"{PROJECTS}/team-a?workloads=move&to=team-c"), 202)
    assert expect(control.call("GET", f"{WORKLOADS}/{workload['id']}"), 200)["projectName"] == "team-c"
    assert {each.id: each.project for each in control.pull().workloads}[workload["id"]] == "team-c"
    assert control.call("GET", f"{PROJECTS}/team-a").status_code == 404


# --- departments and pools ---


def test_a_department_with_projects_stays_and_warns(control: ControlPlane) -> None:
    body = {"name": "research", "resources": [{"gpu": {"deserved": 6}}]}
    expect(control.call("POST", "/api/v1/org-unit/departments", body), 201)
    control.project("p1", 4, parentId="research")
    control.project("p2", 4, parentId="research")
    shown = expect(control.call("GET", "/api/v1/org-unit/departments/research"), 200)
    too_much = "the quotas of the projects in department research add up to 8 GPUs in node pool default"
    assert shown["warnings"] == [f"{too_much}, more than its quota of 6"]
    assert codes(control.call("DELETE", "/api/v1/org-unit/departments/research")) == ["department.has_projects"]
    organization = control.pull().organization
    assert organization is not None
    queues = {each.id: each.parent for each in organization.queues[PoolName("default")]}
    assert queues["p1"] == "department/research"  # type: ignore[index]


def test_a_department_is_changed_in_part_and_as_a_whole(control: ControlPlane) -> None:
    expect(control.call("POST", DEPARTMENTS, {"name": "research", "resources": [{"gpu": {"deserved": 8}}]}), 201)
    expect(control.call("POST", NODE_POOLS, {"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}), 201)
    there = f"{DEPARTMENTS}/research"
    said = expect(control.call("PATCH", there, {"description": "models"}), 200)
    assert (said["description"], said["totalResources"]["gpuQuota"]) == ("models", 8)
    more = {"resources": [{"nodePool": {"id": "a100"}, "gpu": {"deserved": 2}}]}
    assert expect(control.call("PATCH", f"{there}/resources", more), 200)["totalResources"]["gpuQuota"] == 10
    answer = control.call("PUT", f"{there}/resources", more)
    assert expect(answer, 200)["totalResources"]["gpuQuota"] == 2
    assert control.call("PATCH", there, {}, headers={"If-Match": '"1"'}).status_code == 412
    assert control.call("PATCH", there, {}, headers={"If-Match": answer.headers["ETag"]}).status_code == 200
    twice = {"resources": [{"gpu": {"deserved": 1}}, {"gpu": {"deserved": 2}}]}
    assert codes(control.call("PATCH", there, twice)) == ["request.wrong_value"]


def test_one_node_and_two_people_who_mark_it(control: ControlPlane) -> None:
    control.push(control.report(whole=True, nodes=(node("n1"), node("n2", gpus=2))))
    seen = control.call("GET", "/api/v1/nodes/n1")
    assert expect(seen, 200)["gpuInfo"]["gpuCount"] == 8
    tag = {"If-Match": seen.headers["ETag"]}
    first = control.call("PUT", "/api/v1/nodes/n1/overrides", {"cordoned": True}, headers=tag)
    assert expect(first, 200)["cordoned"]
    second = control.call("PUT", "/api/v1/nodes/n1/overrides", {"labels": {"a": "b"}}, headers=tag)
    assert (second.status_code, codes(second)) == (412, ["request.changed_meanwhile"])
    assert control.call("GET", "/api/v1/nodes/n1").headers["ETag"] == first.headers["ETag"]
    assert codes(control.call("GET", "/api/v1/nodes/n3")) == ["node.unknown"]


def test_short_lists_are_filtered_sorted_and_paged_too(control: ControlPlane) -> None:
    for name, quota in (("team-b", 1), ("team-c", 0.5)):
        control.project(name, quota)
    control.push(control.report(whole=True, nodes=(node("n1"), node("n2", gpus=2))))

    def names(path: str, noun: str) -> list[str]:
        return [each["name"] for each in expect(control.call("GET", path), 200)[noun]]

    assert names(f"{PROJECTS}?sortBy=gpuQuota", "projects") == ["team-c", "team-b", "team-a"]
    assert names(f"{PROJECTS}?sortBy=gpuQuota&sortOrder=desc", "projects") == ["team-a", "team-b", "team-c"]
    assert names(f"{PROJECTS}?filterBy=gpuQuota<=1,name!=team-b", "projects") == ["team-c"]
    assert names(f"{PROJECTS}?search=-b", "projects") == ["team-b"]
    assert names(f"{PROJECTS}?filterBy=createdAt<=2001-01-01", "projects") == []
    assert expect(control.call("GET", f"{PROJECTS}?limit=2"), 200)["next"] == 2
    assert expect(control.call("GET", f"{PROJECTS}/count?filterBy=gpuQuota>=1"), 200) == {"count": 2}
    assert names("/api/v1/nodes?sortBy=gpuCount", "nodes") == ["n2", "n1"]
    assert names("/api/v1/nodes?filterBy=status==Ready,name=$1", "nodes") == ["n1"]
    assert names(f"{NODE_POOLS}?filterBy=phase!=Empty", "nodepools") == ["default"]
    assert expect(control.call("GET", f"{DEPARTMENTS}/count?search=x"), 200) == {"count": 0}
    wrong = control.call("GET", f"{PROJECTS}?filterBy=color==red,workloads==x&sortBy=size")
    assert [each["field"] for each in wrong.json()["problems"]] == ["filterBy", "filterBy", "sortBy"]


def test_a_pool_in_which_a_project_has_a_quota_stays(control: ControlPlane) -> None:
    pool = {"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}
    expect(control.call("POST", "/api/v1/node-pools", pool), 201)
    owed = [{"nodePool": {"id": "a100"}, "gpu": {"deserved": 2}}]
    expect(control.call("POST", PROJECTS, {"name": "team-b", "resources": owed}), 201)
    assert codes(control.call("DELETE", "/api/v1/node-pools/a100")) == ["pool.in_use"]
    assert codes(control.call("DELETE", "/api/v1/node-pools/default")) == ["pool.default"]
    expect(control.call("DELETE", f"{PROJECTS}/team-b"), 202)
    expect(control.call("DELETE", "/api/v1/node-pools/a100"), 204)


def test_a_pool_cannot_be_left_without_its_label(control: ControlPlane) -> None:
    pool = {"name": "a100", "labelKey": "run.ai/type", "labelValue": "a100"}
    expect(control.call("POST", "/api/v1/node-pools", pool), 201)
    for part in ("labelKey", "labelValue"):
        assert control.call("PATCH", "/api/v1/node-pools/a100", {part: ""}).status_code == 422
    assert expect(control.call("PATCH", "/api/v1/node-pools/a100", {"labelValue": "h100"}), 200)["labelValue"] == "h100"


# --- submit ---


def test_a_submit_is_accepted_and_shown(control: ControlPlane) -> None:
    made = control.train("hyper1", compute={"gpu": "0.5"})
    assert (made["phase"], made["classicStatus"], made["workloadRequestedResources"]["gpu"]["request"]) == (
        "Creating",
        "Pending",
        0.5,
    )
    assert made["spec"] == {"image": "quickstart", "compute": {"gpu": "0.5"}}
    shown = expect(control.call("GET", f"{WORKLOADS}/{made['id']}"), 200)
    assert shown == made


def test_all_that_is_wrong_with_a_submit_is_said_at_once(control: ControlPlane) -> None:
    body = {
        "name": "Bad Name",
        "projectId": "team-a",
        "spec": {"compute": {"gpu": 2.5}, "nodePools": ["nowhere"], "priorityClass": "urgent"},
    }
    answer = control.call("POST", TRAININGS, body)
    assert sorted(codes(answer)) == [
        "gpu.fraction_of_many",
        "spec.no_image",
        "spec.node_pool",
        "spec.priority_class",
        "workload.name",
    ]


def test_a_name_is_taken_until_it_is_given_up(control: ControlPlane) -> None:
    first = control.train("t1")
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "i"}}
    taken = control.call("POST", TRAININGS, body)
    assert (taken.status_code, codes(taken)) == (409, ["workload.exists"])
    assert "the job t1 already exists, please delete it first (use 'runai delete t1')" in taken.json()["message"]
    expect(control.call("DELETE", f"{WORKLOADS}/{first['id']}"), 202)
    control.train("t1")


def test_a_submit_without_a_name_gets_the_first_that_is_free(control: ControlPlane) -> None:
    body: dict[str, Any] = {"projectId": "team-a", "spec": {"image": "i"}}
    names = [expect(control.call("POST", TRAININGS, body), 202)["name"] for _ in range(2)]
    prefixed = expect(control.call("POST", TRAININGS, {**body, "name": "s", "useGivenNameAsPrefix": True}), 202)["name"]
    assert [*names, prefixed] == ["job-0", "job-1", "s-0"]


def test_a_repeated_submit_is_one_submit(control: ControlPlane) -> None:
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "i"}}
    key = {"Idempotency-Key": "4f6c"}
    first = control.call("POST", TRAININGS, body, headers=key)
    again = control.call("POST", TRAININGS, body, headers=key)
    assert (again.status_code, again.json()) == (202, first.json())
    assert expect(control.call("GET", f"{WORKLOADS}/count"), 200)["count"] == 1
    other = control.call("POST", TRAININGS, {**body, "name": "t2"}, headers=key)
    assert (other.status_code, codes(other)) == (422, ["request.key_reused"])


def test_every_creating_call_may_be_repeated_and_no_secret_is_kept(control: ControlPlane) -> None:
    key = {"Idempotency-Key": "k"}
    for path, body, secrets in (
        ("/api/v1/users", {"email": "a@example.com"}, {"tempPassword"}),
        ("/api/v1/apps", {"name": "app"}, {"secret", "clientSecret"}),
        ("/api/v1/clusters", {"name": "other"}, {"token"}),
        (PROJECTS, {"name": "team-x", "clusterId": "local"}, set[str]()),
        ("/api/v1/org-unit/departments", {"name": "d"}, set[str]()),
        ("/api/v1/node-pools", {"name": "p", "labelKey": "k", "labelValue": "v"}, set[str]()),
    ):
        headers = {"Idempotency-Key": key["Idempotency-Key"] + path}
        first = expect(control.call("POST", path, body, headers=headers), 201)
        again = expect(control.call("POST", path, body, headers=headers), 201)
        assert secrets <= set(first)
        assert not any(again.pop(name, "") for name in secrets)
        assert again == {name: value for name, value in first.items() if name not in secrets}


def _submit(spec: bytes) -> bytes:
    return b'{"name": "a", "projectId": "team-a", "spec": ' + spec + b"}"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        pytest.param(b"{", 400, id="no JSON"),
        pytest.param(b"[]", 422, id="no object"),
        pytest.param(b"\xff\xfe", 400, id="no text"),
        pytest.param(b"[" * 50_000, 400, id="deep"),
        pytest.param(b"[" * 100_000, 413, id="deep and long"),
        pytest.param(b'{"name": "\\ud800", "projectId": "team-a", "spec": {"image": "i"}}', 400, id="half a character"),
        pytest.param(b'{"name": "a", "projectId": "../x", "spec": {"image": "i"}}', 422, id="a path as a project"),
        pytest.param(_submit(b'{"image": "a\\u0000b"}'), 422, id="a zero byte"),
        pytest.param(_submit(b'{"image": "i", "gpus": 1}'), 422, id="a slip"),
        pytest.param(_submit(b'{"image": "i", "compute": {"gpu": NaN}}'), 422, id="nan"),
        pytest.param(_submit(b'{"image": "i", "compute": {"gpu": 0.3333}}'), 422, id="too fine"),
        pytest.param(_submit(b'{"image": "i", "backoffLimit": 1e400}'), 422, id="huge"),
        pytest.param(_submit(b'{"image": "i", "backoffLimit": true}'), 422, id="a truth for a number"),
    ],
)
def test_hostile_bodies_are_refused_with_problems(control: ControlPlane, body: bytes, status: int) -> None:
    headers = {"Authorization": f"Bearer {control.tokens['admin']}", "Content-Type": "application/json"}
    answer = control.http.post(TRAININGS, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert codes(answer)


def test_who_forgets_a_header_or_misses_a_path_is_told_so(control: ControlPlane) -> None:
    headers = {
        "Authorization": f"Bearer {control.tokens['admin']}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    forgot = control.http.post(TRAININGS, content=b'{"name": "t1"}', headers=headers)
    assert (forgot.status_code, codes(forgot)) == (415, ["request.not_json"])
    assert "Content-Type: application/json" in forgot.json()["message"]
    assert "no path /api/v1/jobs" in control.call("GET", "/api/v1/jobs").json()["message"]
    wrong = control.call("PUT", WORKLOADS)
    assert (wrong.status_code, codes(wrong)) == (405, ["request.no_such_method"])


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(control: ControlPlane) -> None:
    headers = {"Authorization": f"Bearer {control.tokens['admin']}", "Content-Type": "application/json"}
    answer = control.http.post(TRAININGS, content=b"x" * (2 * 1024 * 1024 + 1), headers=headers)
    assert (answer.status_code, codes(answer)) == (413, ["request.too_large"])
    chunks = (b"x" * 1024 * 1024 for _ in range(11))
    streamed = control.http.post(TRAININGS, content=chunks, headers=headers)
    assert (streamed.status_code, codes(streamed)) == (413, ["request.too_large"])


@pytest.mark.parametrize(("values", "code"), [(10_001, "request.wrong_value"), (30_001, "request.too_many_values")])
def test_a_body_with_very_many_values_is_refused_in_few_words(control: ControlPlane, values: int, code: str) -> None:
    """Neither parsing it nor listing what is wrong with it may keep the event loop busy for long."""
    answer = control.call("POST", TRAININGS, {f"field-{number}": number for number in range(values)})
    assert codes(answer) == [code]
    assert len(answer.content) < 1000


def test_a_large_answer_arrives_whole(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent in pieces, between which others are answered."""
    for number in range(3):
        control.train(f"t{number}")
    whole = control.call("GET", WORKLOADS)
    monkeypatch.setattr(endpoint, "PIECE_BYTES", 100)
    pieces = control.call("GET", WORKLOADS)
    assert len(whole.content) > 300
    assert (pieces.status_code, pieces.content) == (200, whole.content)
    assert pieces.headers["content-length"] == str(len(whole.content))
    with control.http.stream("GET", WORKLOADS, headers={"Authorization": "Bearer wrong"}) as refused:
        assert refused.status_code == 401


def test_a_mark_is_found_also_where_two_pieces_of_a_body_meet(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "PIECE_BYTES", 7)
    for filler in range(7):
        name = "x" * filler + "\ue000"
        answer = control.call("POST", TRAININGS, {"name": name, "projectId": "team-a", "spec": {"image": "i"}})
        assert codes(answer) == ["request.reserved_characters"]


@pytest.mark.slow
def test_ten_thousand_lines_of_environment_are_fine_and_more_are_not(control: ControlPlane) -> None:
    long = [{"name": f"V{number}", "value": "x" * 110_000} for number in range(10)]
    answer = control.call(
        "POST", TRAININGS, {"name": "t", "projectId": "team-a", "spec": {"image": "i", "environmentVariables": long}}
    )
    assert (answer.status_code, codes(answer)) == (422, ["spec.too_many_words"])
    lines = [{"name": f"V{number}", "value": str(number)} for number in range(10_000)]
    made = control.train("env", environmentVariables=lines)
    assert len(control.pull().workloads[0].template.program.environment) == 10_000
    assert made["id"]
    body = {"name": "more", "projectId": "team-a", "spec": {"image": "i", "environmentVariables": [*lines, lines[0]]}}
    assert control.call("POST", TRAININGS, body).status_code == 422


# --- every kind ---


def test_each_kind_is_declared_as_what_it_is(control: ControlPlane) -> None:
    specs: dict[str, dict[str, Any]] = {
        "workspaces": {"preemptibility": "preemptible"},
        "trainings": {"completions": 12, "parallelism": 3},
        "distributed": {"numWorkers": 4},
        "inferences": {"servingPort": {"container": 8000}, "autoscaling": {"minReplicas": 2}},
    }
    for path, spec in specs.items():
        body = {"name": path, "projectId": "team-a", "spec": {"image": "i", **spec}}
        expect(control.call("POST", f"{WORKLOADS}/{path}", body), 202)
    declared = {each.name: each for each in control.pull().workloads}
    assert (declared["workspaces"].kind, declared["workspaces"].preemptible) == ("build", True)
    shown = expect(control.call("GET", f"{WORKLOADS}/{declared['workspaces'].id}"), 200)
    assert (shown["priority"], shown["priorityClassName"]) == (75, "interactive-preemptible")
    sweep = declared["trainings"]
    assert (sweep.arrangement, sweep.pods, sweep.completions) == ("sweep", 3, 12)
    assert (declared["distributed"].arrangement, declared["distributed"].pods) == ("together", 4)
    assert (declared["inferences"].arrangement, declared["inferences"].pods) == ("replicas", 2)
    listed = expect(control.call("GET", f"{WORKLOADS}?sortBy=type"), 200)["workloads"]
    assert [each["type"] for each in listed] == ["Distributed", "Inference", "Training", "Workspace"]
    workspace = next(each for each in listed if each["type"] == "Workspace")
    assert control.call("GET", f"{WORKLOADS}/trainings/{workspace['id']}").status_code == 404
    expect(control.call("GET", f"{WORKLOADS}/workspaces/{workspace['id']}"), 200)


def test_a_model_is_changed_in_place(control: ControlPlane) -> None:
    body = {"name": "m", "projectId": "team-a", "spec": {"image": "v1", "servingPort": {"container": 8000}}}
    made = control.call("POST", f"{WORKLOADS}/inferences", body)
    workload = expect(made, 202)
    change = {"spec": {"image": "v2"}}
    path = f"{WORKLOADS}/inferences/{workload['id']}"
    changed = expect(control.call("PATCH", path, change, headers={"If-Match": made.headers["etag"]}), 202)
    assert changed["spec"] == {"image": "v2", "servingPort": {"container": 8000}}
    assert control.call("PATCH", path, change, headers={"If-Match": made.headers["etag"]}).status_code == 412
    assert control.pull().workloads[0].template.program.image == "v2"


# --- lists ---


def test_lists_are_filtered_sorted_searched_and_paged(control: ControlPlane) -> None:
    for number in range(5):
        control.clock.turn(1)
        control.train(f"t{number}", compute={"gpu": str(number)})

    def names(query: str) -> list[str]:
        return [each["name"] for each in expect(control.call("GET", f"{WORKLOADS}?{query}"), 200)["workloads"]]

    assert names("filterBy=requestedGPU>=3") == ["t3", "t4"]
    assert names("filterBy=name=$3") == ["t3"]
    assert names("filterBy=name!=t3,requestedGPU<=3.5&sortBy=name&sortOrder=desc") == ["t2", "t1", "t0"]
    assert names("filterBy=createdAt>=2027-01-15T08:00:04Z") == ["t3", "t4"]
    assert names("search=T2") == ["t2"]
    assert names("filterBy=name=@%25") == []
    page = expect(control.call("GET", f"{WORKLOADS}?limit=2&offset=2"), 200)
    assert ([each["name"] for each in page["workloads"]], page["next"]) == (["t2", "t3"], 4)
    assert "next" not in expect(control.call("GET", f"{WORKLOADS}?limit=2&offset=4"), 200)
    assert expect(control.call("GET", f"{WORKLOADS}/count?filterBy=requestedGPU>=3"), 200)["count"] == 2
    wrong = control.call("GET", f"{WORKLOADS}?filterBy=colour==red,phase,createdAt>=soon,runningPods=@1&sortBy=mood")
    assert codes(wrong) == [
        "filter.unknown_field",
        "filter.not_a_condition",
        "filter.wrong_value",
        "filter.wrong_operator",
        "filter.unknown_field",
    ]
    assert control.call("GET", f"{WORKLOADS}?limit=501").status_code == 422


def test_a_list_by_attention_has_the_failed_the_longest_waiting_and_the_newest_with_their_numbers(
    control: ControlPlane,
) -> None:
    ids = {}
    for name in ("w0", "r0", "f0", "w1", "r1", "f1", "w2"):
        control.clock.turn(1)
        ids[name] = control.train(name)["id"]
    there = [control.runs(ids[name]) for name in ("r0", "r1")]
    for name in ("w0", "w1", "w2"):
        there.append(WorkloadReport(id=WorkloadId(ids[name]), phase=WorkloadPhase.PENDING, since=control.clock.now))
    control.clock.turn(1)
    control.push(control.report(whole=True, workloads=(*there, control.failed(ids["f0"]))))
    control.clock.turn(1)
    control.push(control.report(workloads=(control.failed(ids["f1"]),)))

    def listed(query: str) -> tuple[list[str], dict[str, Any]]:
        page = expect(control.call("GET", f"{WORKLOADS}?sortBy=attention&{query}"), 200)
        return [each["name"] for each in page.pop("workloads")], page

    whole = ["f1", "f0", "w0", "w1", "w2", "r1", "r0"]
    assert listed("") == (whole, {})
    for limit in (1, 2, 3, 4):
        pages = [listed(f"limit={limit}&offset={offset}") for offset in range(0, len(whole), limit)]
        assert [name for names, _ in pages for name in names] == whole
        assert [rest.get("next") for _, rest in pages] == [*range(limit, len(whole), limit), None]
    numbers = {"Failed": 2, "Pending": 3, "Running": 2}
    assert listed("counts=true&limit=1") == (["f1"], {"total": 7, "phases": numbers, "next": 1})
    assert listed("counts=true&filterBy=phase=@PEND") == (["w0", "w1", "w2"], {"total": 3, "phases": numbers})
    assert listed("counts=true&search=0")[1] == {"total": 3, "phases": dict.fromkeys(numbers, 1)}
    by_name = expect(control.call("GET", f"{WORKLOADS}?sortBy=name&limit=1&counts=true"), 200)
    assert (by_name["workloads"][0]["name"], by_name["total"], by_name["phases"]) == ("f0", 7, numbers)
    assert control.call("GET", "/api/v1/workloads/waiting?sortBy=attention").status_code == 400


# --- suspend, resume, delete, batch ---


def test_suspend_resume_and_delete_are_declared_once(control: ControlPlane) -> None:
    workload = control.train("t1")
    path = f"{WORKLOADS}/{workload['id']}"
    assert expect(control.call("POST", f"{path}/suspend"), 202)["desiredPhase"] == "Stopped"
    before = control.pull().revision
    expect(control.call("POST", f"{path}/suspend"), 202)
    assert control.pull().revision == before
    assert expect(control.call("POST", f"{path}/resume"), 202)["desiredPhase"] == "Running"
    assert control.pull().workloads[0].run == 1
    expect(control.call("POST", f"{path}/resume"), 202)
    assert control.pull().workloads[0].run == 1
    assert expect(control.call("DELETE", path), 202)["phase"] == "Deleting"
    expect(control.call("DELETE", path), 202)
    assert codes(control.call("POST", f"{path}/resume")) == ["workload.being_deleted"]


def test_what_has_failed_can_be_run_again_and_what_has_completed_cannot(control: ControlPlane) -> None:
    failed, done = control.train("failed")["id"], control.train("done")["id"]
    end = WorkloadReport(
        id=WorkloadId(failed), phase=WorkloadPhase.FAILED, reason=Cause.EXITED, since=control.clock.now
    )
    control.push(control.report(whole=True, workloads=(end, control.completed(done))))
    assert expect(control.call("POST", f"{WORKLOADS}/{failed}/resume"), 202)["phase"] == "Creating"
    assert [each.run for each in control.pull().workloads if each.id == failed] == [1]
    answer = control.call("POST", f"{WORKLOADS}/{done}/resume")
    assert (answer.status_code, codes(answer)) == (409, ["workload.completed"])


def test_a_batch_does_what_it_can(control: ControlPlane) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(2)]
    done = expect(control.call("POST", f"{WORKLOADS}/batch", {"ids": [*ids, "absent"], "action": "suspend"}), 200)
    assert done["succeeded"] == ids
    assert done["failed"][0]["code"] == 404


@pytest.mark.parametrize("path", ["current", "legacy"])
def test_a_large_batch_is_done_in_parts_and_other_requests_are_answered_between_them(
    control: ControlPlane, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(20)]
    monkeypatch.setattr(plane_module, "SLICE_S", 0.0)
    seen: list[int] = []
    database, usual = control.app.state.plane.database, control.app.state.plane.database.after_commit

    def count_deleting() -> None:
        usual()
        listing = workload_lists.Listing(filters=(Filter("phase", Operator.EQUALS, "Deleting"),))
        seen.append(database.read_now(lambda connection: workload_lists.count(connection, listing)))

    database.after_commit = count_deleting
    headers = {"Idempotency-Key": "all"}
    if path == "current":
        body: Any = {"ids": [*ids, "absent"], "action": "delete"}
        first, again = (control.call("POST", f"{WORKLOADS}/batch", body, headers=headers) for _ in range(2))
        assert first.json()["succeeded"] == ids
        assert [each["id"] for each in first.json()["failed"]] == ["absent"]
    else:
        body = [{"name": f"t{number}", "project": "team-a"} for number in range(20)]
        first, again = (control.call("DELETE", "/researcher/api/v1/jobs", body, headers=headers) for _ in range(2))
        assert [each["ok"] for each in first.json()] == [True] * 20
    assert sorted(set(seen)) == list(range(1, 21)), "each was seen by others before the next one was done"
    assert again.json() == first.json()
    entries = expect(control.call("GET", "/api/v1/audit/log?limit=100"), 200)["entries"]
    assert len([each for each in entries if each["action"] == "delete"]) == 20


def test_a_project_with_much_work_is_deleted_in_parts(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(5)]
    monkeypatch.setattr(projects_module, "SLICE_S", 0.0)
    seen: list[int] = []
    database, usual = control.app.state.plane.database, control.app.state.plane.database.after_commit

    def count_commits() -> None:
        usual()
        seen.append(1)

    database.after_commit = count_commits
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-a?workloads=delete"), 202)
    assert len(seen) >= 5
    database.after_commit = usual
    assert {each["phase"] for each in expect(control.call("GET", WORKLOADS), 200)["workloads"]} == {"Deleting"}
    control.push(control.report(gone=tuple(gone(each) for each in ids)))
    assert control.call("GET", "/api/v1/org-unit/projects/team-a").status_code == 404


def test_a_forced_delete_is_declared_without_grace_also_when_it_is_being_deleted(control: ControlPlane) -> None:
    path = f"{WORKLOADS}/{control.train('t1')['id']}"
    expect(control.call("DELETE", path), 202)
    (slow,) = control.pull().workloads
    assert (slow.desired_state, slow.grace_s) == (DesiredState.DELETE, 30)
    assert expect(control.call("DELETE", f"{path}?force=true"), 202)["phase"] == "Deleting"
    (forced,) = control.pull().workloads
    assert (forced.desired_state, forced.grace_s) == (DesiredState.DELETE, 0)
    before = control.pull().revision
    expect(control.call("DELETE", f"{path}?force=true"), 202)
    expect(control.call("DELETE", path), 202)
    assert control.pull().revision == before, "repeated, it changes nothing"
    entries = expect(control.call("GET", "/api/v1/audit/log"), 200)["entries"]
    deletes = [each["entity_name"] for each in entries if each["action"] == "delete"]
    assert deletes == ["team-a/t1 (forced)", "team-a/t1"]
    assert control.call("DELETE", f"{path}?force=perhaps").status_code == 422


def test_a_batch_may_be_forced_only_to_delete(control: ControlPlane) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(2)]
    batch = {"ids": ids, "action": "delete", "force": True}
    assert expect(control.call("POST", f"{WORKLOADS}/batch", batch), 200)["succeeded"] == ids
    assert {(each.desired_state, each.grace_s) for each in control.pull().workloads} == {(DesiredState.DELETE, 0)}
    wrong = control.call("POST", f"{WORKLOADS}/batch", {**batch, "action": "suspend"})
    assert wrong.status_code == 422
    assert "force can only be used with the action delete" in wrong.text


def test_who_may_not_delete_may_not_force_it_either(control: ControlPlane) -> None:
    path = f"{WORKLOADS}/{control.train('t1')['id']}"
    control.project("team-b")
    control.researcher("ann", "team-b")
    assert control.call("DELETE", f"{path}?force=true", by="ann").status_code == 404
    assert control.pull().workloads[0].desired_state is DesiredState.RUN


def test_a_batch_goes_on_beside_one_that_is_being_deleted(control: ControlPlane) -> None:
    going, staying = (control.train(name)["id"] for name in ("going", "staying"))
    expect(control.call("DELETE", f"{WORKLOADS}/{going}"), 202)
    done = expect(control.call("POST", f"{WORKLOADS}/batch", {"ids": [going, staying], "action": "suspend"}), 200)
    assert done["succeeded"] == [staying]
    assert [(each["id"], each["code"]) for each in done["failed"]] == [(going, 409)]


def test_a_report_of_a_large_cluster_is_taken(control: ControlPlane) -> None:
    """People may send 2 MiB at once, a cluster more: its report grows with it."""
    workload = control.train("many")["id"]
    waits = WorkloadReport(
        id=WorkloadId(workload), phase=WorkloadPhase.PENDING, detail="x" * (11 * 1024 * 1024), since=control.clock.now
    )
    control.push(control.report(workloads=(waits,)))
    assert expect(control.call("GET", f"{WORKLOADS}/{workload}"), 200)["phase"] == "Pending"


def test_work_stays_on_the_cluster_of_its_project(control: ControlPlane) -> None:
    other = expect(control.call("POST", "/api/v1/clusters", {"name": "other"}), 201)["uuid"]
    body = {"name": "lost", "projectId": "team-a", "clusterId": other, "spec": {"image": "i"}}
    answer = control.call("POST", TRAININGS, body)
    assert (answer.status_code, codes(answer)) == (422, ["cluster.not_the_projects"])
    expect(control.call("POST", PROJECTS, {"name": "team-o", "clusterId": other}), 201)
    control.train("stays")
    answer = control.call("DELETE", f"{PROJECTS}/team-a?workloads=move&to=team-o")
    assert (answer.status_code, codes(answer)) == (422, ["project.no_target"])


# --- lives ---


def ended(number: int, workload: str, incarnation: int, at: Instant, kind: str = "ended") -> EventReport:
    over = kind == "ended"
    return EventReport(
        number=number,
        at=at,
        kind=kind,
        workload=WorkloadId(workload),
        pod=PodId(f"{workload}-0-{incarnation}"),
        node=NodeName("n1"),
        cause="exited" if over else "",
        detail="exit code 3" if over else "",
        outcome=Outcome.ERROR if over else None,
        exit_code=3 if over else None,
    )


def waits(control: ControlPlane, workload: str, incarnation: int) -> WorkloadReport:
    pod = PodReport(id=PodId(f"{workload}-0-{incarnation}"), index=0, incarnation=incarnation, phase=PodPhase.WAITING)
    return WorkloadReport(id=WorkloadId(workload), phase=WorkloadPhase.PENDING, pods=(pod,), since=control.clock.now)


def history(control: ControlPlane, workload: str) -> list[dict[str, Any]]:
    pods: list[dict[str, Any]] = expect(control.call("GET", f"{WORKLOADS}/{workload}/history"), 200)["history"]
    return pods


@pytest.mark.parametrize("late", [False, True], ids=["with the replacement's level", "after it"])
def test_an_earlier_pod_is_closed_by_what_the_history_says(control: ControlPlane, late: bool) -> None:
    """Levels tell of the latest life only; lives before it once ran for ever."""
    workload = control.train("t1")["id"]
    control.push(control.report(workloads=(control.runs(workload),)))
    control.clock.turn(10)
    end = ended(1, workload, 0, control.clock.now)
    control.clock.turn(5)
    control.push(control.report(workloads=(waits(control, workload, 1),), events=() if late else (end,)))
    control.push(control.report(events=(end,)))
    first, second = history(control, workload)
    assert (first["phase"], first["outcome"], first["exitCode"]) == ("ended", "error", 3)
    assert (first["node"], first["cause"], first["detail"]) == ("n1", "exited", "exit code 3")
    assert (first["startedAt"], first["since"]) == (iso(START), iso(Instant(START + 10_000)))
    assert (first["current"], second["current"], second["phase"]) == (False, True, "waiting")


@pytest.mark.parametrize("created", ["created", "born"], ids=["this version", "an older cluster"])
def test_a_pod_too_short_for_any_report_is_in_the_history(control: ControlPlane, created: str) -> None:
    workload = control.train("t1")["id"]
    lines = [
        ended(number, workload, 0, Instant(START + 1000 * number), kind)
        for number, kind in enumerate((created, "bound", "started", "ended"), start=1)
    ]
    control.push(control.report(workloads=(waits(control, workload, 1),), events=tuple(lines)))
    first, _ = history(control, workload)
    assert (first["name"], first["phase"], first["exitCode"]) == ("t1-0-0", "ended", 3)
    seconds = [first[name] for name in ("createdAt", "startedAt", "since")]
    assert seconds == [iso(Instant(START + 1000 * number)) for number in (1, 3, 4)]


def test_a_pod_whose_end_was_never_reported_is_over_when_there_is_the_next(control: ControlPlane) -> None:
    workload = control.train("t1")["id"]
    control.push(control.report(workloads=(control.runs(workload),)))
    control.clock.turn(10)
    control.push(control.report(workloads=(waits(control, workload, 1),)))
    first, _ = history(control, workload)
    assert (first["phase"], first.get("outcome"), first["since"]) == ("ended", None, iso(control.clock.now))


# --- settings ---

SETTINGS = "/api/v1/settings"


def test_settings_are_chosen_while_it_runs_and_stay_chosen(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        listed = expect(control.call("GET", SETTINGS), 200)["settings"]
        assert {each["key"]: each["value"] for each in listed} == {
            "department.use": True,
            "notifications.enabled": True,
            "notifications.mail": True,
            "notifications.webhookHosts": "",
            "notifications.webhookPrivate": False,
            "registries.private": False,
            "security.accessKeyConfirmedDays": 30,
            "security.accessTokenSeconds": 36000,
            "security.browserIdleMinutes": 480,
            "security.directoryIdMinimum": 1000,
            "security.passwordLinkMinutes": 30,
            "security.passwordMinClasses": 1,
            "security.passwordMinLength": 8,
            "security.passwordRefuseCommon": True,
            "security.privateIdentityProviders": False,
            "security.refreshTokenSeconds": 2592000,
            "security.sessionIdleSeconds": 0,
            "security.sessionMaxSeconds": 7776000,
            "security.signInProvider": "",
            "storage.gitMaxMebibytes": 10240,
            "storage.gitTimeoutSeconds": 600,
            "storage.hostPathRoots": "/",
            "support.contact": "",
            "support.feedback": "",
            "uploads.maxFiles": 20000,
            "uploads.maxMebibytes": 256,
            "uploads.totalMebibytes": 20480,
            "workload.evictionGracePeriodSeconds": 60,
            "workload.gracePeriodMaxSeconds": 3600,
        }
        made = expect(control.call("PUT", f"{SETTINGS}/security.accessTokenSeconds", {"value": 600}), 200)
        assert (made["value"], made["default"], made["updatedBy"]) == (600, 36000, "test@run.ai")
    with control_plane(tmp_path) as control:
        body = {"grantType": "password", "username": "test@run.ai", "password": "password"}
        token = expect(control.http.post("/api/v1/token", json=body), 200)
        assert token["expiresIn"] == 600
        control.tokens["short"] = token["accessToken"]
        control.clock.turn(601)
        assert control.call("GET", "/api/v1/me", by="short").status_code == 401


def test_two_administrators_do_not_overwrite_each_others_choice(control: ControlPlane) -> None:
    there = "/api/v1/security/settings/security.passwordMinLength"
    tag = {"If-Match": control.call("GET", there).headers["ETag"]}
    expect(control.call("PUT", there, {"value": 12}, headers=tag), 200)
    assert control.call("PUT", there, {"value": 10}, headers=tag).status_code == 412
    short = control.call("POST", "/api/v1/users", {"email": "ann@example.com", "password": "elevenchars"})
    assert codes(short) == ["access.short_password"]
    change = {"currentPassword": "password", "newPassword": "elevenchars"}
    assert codes(control.call("POST", "/api/v1/me/password", change)) == ["access.short_password"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("department.use", 1), ("security.accessTokenSeconds", 5), ("security.passwordMinLength", True)],
)
def test_a_setting_takes_only_its_values(control: ControlPlane, key: str, value: object) -> None:
    assert codes(control.call("PUT", "/v1/k8s/setting", {"key": key, "value": value})) == ["setting.wrong_value"]
    assert codes(control.call("PUT", f"{SETTINGS}/no.such", {"value": value})) == ["setting.unknown"]
    wrong_door = control.call("PUT", "/api/v1/security/settings/department.use", {"value": True})
    assert codes(wrong_door) == ["setting.unknown"]


def test_without_departments_clusters_hear_of_projects_alone(control: ControlPlane) -> None:
    expect(control.call("POST", DEPARTMENTS, {"name": "research", "resources": [{"gpu": {"deserved": 8}}]}), 201)
    control.project("team-b", parentId="research")
    before = control.pull()
    assert before.organization is not None
    assert "department/research" in {queue.id for queue in before.organization.queues[PoolName("default")]}
    expect(control.call("PUT", "/v1/k8s/setting", {"key": "department.use", "value": False}), 200)
    after = control.pull(before.revision)
    assert after.organization is not None
    assert {(queue.id, queue.parent) for queue in after.organization.queues[PoolName("default")]} == {
        ("team-a", None),
        ("team-b", None),
    }


# --- audit ---


def test_the_audit_log_says_who_did_what_and_who_was_refused(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    control.train("t1", by="ann")
    control.project("team-b")
    body = {"name": "x", "projectId": "team-b", "spec": {"image": "i"}}
    assert control.call("POST", TRAININGS, body, by="ann").status_code == 403
    entries = expect(control.call("GET", "/api/v1/audit/log"), 200)["entries"]
    said = [(each["subject"], each["action"], each["entity_type"], each["result"]) for each in entries]
    assert said[0] == ("ann@example.com", "create", "workloads", "Failed")
    assert ("ann@example.com", "create", "workload", "Succeeded") in said
    assert ("ann@example.com", "sign-in", "user", "Succeeded") in said
    assert ("test@run.ai", "create", "project", "Succeeded") in said
    only = expect(control.call("GET", "/api/v1/audit/log?action=sign-in&limit=1"), 200)
    assert len(only["entries"]) == 1
    assert only["next"] == 1


def test_the_audit_log_is_a_file_that_no_spreadsheet_takes_for_a_formula(control: ControlPlane) -> None:
    body = {"grantType": "password", "username": "=cmd()@example.com", "password": "x"}
    assert control.http.post("/api/v1/token", json=body).status_code == 401
    for number in range(3):
        control.project(f"p{number}")
    answer = control.call("GET", "/api/v1/audit/log/file")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    assert "audit.csv" in answer.headers["content-disposition"]
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    listed = expect(control.call("GET", "/api/v1/audit/log?limit=500"), 200)["entries"]
    assert [row["id"] for row in rows] == [str(each["id"]) for each in listed]
    assert [row["subject"] for row in rows if row["result"] == "Failed"] == ["'=cmd()@example.com"]
    only = control.call("GET", "/api/v1/audit/log/file?action=create&entityType=project&result=Succeeded").text
    assert [row["entity_name"] for row in csv.DictReader(io.StringIO(only))] == ["p2", "p1", "p0", "team-a"]
    wrong = control.call("GET", "/api/v1/audit/log/file?start=then&end=now")
    assert [each["field"] for each in wrong.json()["problems"]] == ["start", "end"]


def test_a_file_of_many_pieces_has_every_line_once(control: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "PIECE", 2)
    for number in range(5):
        control.project(f"p{number}")
    rows = list(csv.DictReader(io.StringIO(control.call("GET", "/api/v1/audit/log/file").text)))
    numbers = [int(row["id"]) for row in rows]
    assert numbers == list(range(numbers[0], 0, -1))


def test_each_of_a_batch_has_its_line_in_the_audit_log(control: ControlPlane) -> None:
    ids = [control.train(f"t{number}")["id"] for number in range(3)]
    expect(control.call("POST", f"{WORKLOADS}/batch", {"ids": [*ids, "no"], "action": "suspend"}), 200)
    entries = expect(control.call("GET", "/api/v1/audit/log?action=update"), 200)["entries"]
    assert [each["entity_id"] for each in entries] == ids[::-1]


def test_what_was_answered_survives_a_restart(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a")
        workload = control.train("t1")
    with control_plane(tmp_path) as control:
        assert expect(control.call("GET", f"{WORKLOADS}/{workload['id']}"), 200) == workload


def test_graces_are_chosen_by_the_administrator_and_clusters_hear_of_them(control: ControlPlane) -> None:
    before = control.pull()
    assert before.organization is not None
    assert (before.organization.graces.most_s, before.organization.graces.eviction_s) == (3600, 60)
    body = {"name": "slow", "projectId": "team-a", "spec": {"image": "i", "terminationGracePeriodSeconds": 3601}}
    (problem,) = control.call("POST", f"{WORKLOADS}/trainings", body).json()["problems"]
    assert problem["what"] == "a grace period of 3601 s exceeds the maximum of 3600 s"
    assert (problem["fix"], problem["field"]) == ("use at most 3600 s", "spec.terminationGracePeriodSeconds")
    expect(control.call("PUT", "/v1/k8s/setting", {"key": "workload.gracePeriodMaxSeconds", "value": 7200}), 200)
    expect(control.call("PUT", "/v1/k8s/setting", {"key": "workload.evictionGracePeriodSeconds", "value": 10}), 200)
    after = control.pull(before.revision)
    assert after.organization is not None
    assert (after.organization.graces.most_s, after.organization.graces.eviction_s) == (7200, 10)
    expect(control.call("POST", f"{WORKLOADS}/trainings", body), 202)


def test_a_model_that_asked_for_more_grace_than_is_allowed_now_can_still_be_changed(control: ControlPlane) -> None:
    spec = {"image": "i", "servingPort": {"container": 8000}, "terminationGracePeriodSeconds": 3600}
    body = {"name": "m", "projectId": "team-a", "spec": spec}
    path = f"{WORKLOADS}/inferences/{expect(control.call('POST', f'{WORKLOADS}/inferences', body), 202)['id']}"
    expect(control.call("PUT", "/v1/k8s/setting", {"key": "workload.gracePeriodMaxSeconds", "value": 100}), 200)
    expect(control.call("PATCH", path, {"spec": {"image": "other", "servingPort": {"container": 8000}}}), 202)
    assert control.pull().workloads[0].grace_s == 100
    too_long = {"spec": {"image": "other", "servingPort": {"container": 8000}, "terminationGracePeriodSeconds": 101}}
    assert codes(control.call("PATCH", path, too_long)) == ["spec.grace_too_long"]


# --- dry runs, dependencies, filters ---

TRAININGS = "/api/v1/workloads/trainings"


def test_a_dry_run_answers_as_a_submit_would_and_does_nothing(control: ControlPlane) -> None:
    before = control.pull().revision
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "python", "compute": {"gpu": "0.5"}}}
    said = expect(control.call("POST", f"{TRAININGS}?dryRun=true", body), 200)
    assert (said["name"], said["id"], said["workloadRequestedResources"]["gpu"]["request"]) == ("t1", "", 0.5)
    assert expect(control.call("GET", "/api/v1/workloads"), 200)["workloads"] == []
    assert control.pull().revision == before
    prefix = {**body, "name": "many", "useGivenNameAsPrefix": True}
    assert expect(control.call("POST", f"{TRAININGS}?dryRun=true", prefix), 200)["name"] == "many-0"
    expect(control.call("POST", TRAININGS, body), 202)


def test_a_dry_run_says_everything_that_is_wrong_at_once(control: ControlPlane) -> None:
    control.train("t1")
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "", "priorityClass": "x", "after": ["absent"]}}
    answer = control.call("POST", f"{TRAININGS}?dryRun=true", body)
    assert answer.status_code == 422
    assert set(codes(answer)) == {"spec.no_image", "spec.priority_class", "spec.after", "workload.exists"}
    taken = control.call("POST", f"{TRAININGS}?dryRun=true", {**body, "spec": {"image": "python"}})
    assert (taken.status_code, codes(taken)) == (409, ["workload.exists"])
    assert control.call("POST", f"{TRAININGS}?dryRun=perhaps", body).status_code == 422


def test_a_dry_run_needs_the_right_to_submit(control: ControlPlane) -> None:
    control.project("team-b")
    control.researcher("ann", "team-a")
    body = {"name": "t1", "projectId": "team-b", "spec": {"image": "python"}}
    assert control.call("POST", f"{TRAININGS}?dryRun=true", body, by="ann").status_code in (403, 404)


def test_a_workload_is_declared_with_the_ids_of_those_it_waits_for(control: ControlPlane) -> None:
    first = control.train("prep")["id"]
    control.project("team-b")
    control.train("elsewhere", "team-b")
    control.train("t1", after=["prep"])
    control.train("t2", after=[f"{first}:any"])
    specs = {each.name: each.to_spec() for each in control.pull().workloads}
    assert [(each.workload, each.name, each.any_end) for each in specs["t1"].after] == [(first, "prep", False)]
    assert [(each.workload, each.any_end) for each in specs["t2"].after] == [(first, True)]
    for wrong in ("elsewhere", "t3"):  # of another project; itself
        body = {"name": "t3", "projectId": "team-a", "spec": {"image": "python", "after": [wrong]}}
        assert codes(control.call("POST", TRAININGS, body)) == ["spec.after"]
    expect(control.call("DELETE", f"/api/v1/workloads/{first}"), 202)
    body = {"name": "t4", "projectId": "team-a", "spec": {"image": "python", "after": ["prep"]}}
    assert codes(control.call("POST", TRAININGS, body)) == ["spec.after"], "one that is deleted is not waited for"


def test_lists_are_filtered_by_label_status_and_user(control: ControlPlane) -> None:
    control.train("a", labels={"team": "nlp", "app.io/tier": "1"})
    control.train("b", labels={"team": "vision"})
    running = control.train("c")["id"]
    control.push(control.report(workloads=(control.runs(running),)))

    def found(filter_by: str) -> list[str]:
        answer = expect(control.call("GET", "/api/v1/workloads", params={"filterBy": filter_by}), 200)
        counted = expect(control.call("GET", "/api/v1/workloads/count", params={"filterBy": filter_by}), 200)
        assert counted["count"] == len(answer["workloads"])
        return sorted(each["name"] for each in answer["workloads"])

    assert found("labels.team==nlp") == ["a"]
    assert found("labels.team!=nlp") == ["b", "c"]
    assert found("labels.team=^vis") == ["b"]
    assert found("labels.team==") == ["c"]
    assert found("labels.app.io/tier==1,status==Pending") == ["a"]
    assert found("status==Running") == ["c"]
    assert found("submittedBy==test@run.ai") == ["a", "b", "c"]
    assert found("submittedBy==absent") == []
    assert expect(control.call("GET", "/api/v1/workloads?sortBy=name"), 200)["workloads"][0]["labels"] == {
        "team": "nlp",
        "app.io/tier": "1",
    }
    for wrong in ("labels==x", "labels.a'b==x", 'labels.a"b==x', "labels.a\\b==x", "phase.x==y"):
        answer = control.call("GET", "/api/v1/workloads", params={"filterBy": wrong})
        assert answer.status_code == 400, wrong
    assert control.call("GET", "/api/v1/workloads", params={"sortBy": "labels"}).status_code == 400

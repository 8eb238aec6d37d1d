"""Policies over the API: written, seen, effective, and enforced on every way in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.control.settings import FIRST_USER
from fairpool.model.spec import DesiredState
from tests.control.asset_requests import ASSETS, asset_body, submit, two_teams
from tests.control.control_plane import ControlPlane, codes, expect

POLICIES = "/api/v2/policy"
WORKLOADS = "/api/v1/workloads"
SCOPES = {"tenant": "", "cluster": "local", "department": "default", "project": "team-a"}
CONFIG_MAPS = "/api/v1/config-maps"
FOUR = {"rules": {"compute": {"gpuDevicesRequest": {"max": 4}}}}


@pytest.fixture(scope="module")
def shared() -> Iterator[ControlPlane]:
    with two_teams() as control:
        yield control


@pytest.fixture
def control(shared: ControlPlane) -> Iterator[ControlPlane]:
    yield shared
    for each in expect(shared.call("GET", POLICIES), 200)["policies"]:
        kind = {"training": "trainings", "workspace": "workspaces", "inference": "inferences"}.get(each["type"])
        expect(shared.call("DELETE", f"{POLICIES}/{kind or 'distributed'}{where(each['meta'])}"), 204)
    for each in expect(shared.call("GET", f"{WORKLOADS}?limit=500"), 200)["workloads"]:
        shared.call("DELETE", f"{WORKLOADS}/{each['id']}")


def where(meta: dict[str, Any]) -> str:
    named = {
        "project": meta.get("projectName"),
        "department": meta.get("departmentId"),
        "cluster": meta.get("clusterId"),
    }
    scope = meta["scope"]
    return f"?scope={scope}" + (f"&{scope}Id={named[scope]}" if scope != "tenant" else "")


def body(policy: Any, scope: str = "tenant", scope_id: str = "", name: str = "p") -> dict[str, Any]:
    return {"meta": {"name": name, "scope": scope, **({f"{scope}Id": scope_id} if scope_id else {})}, "policy": policy}


def write(control: ControlPlane, policy: Any, *said: str, kind: str = "trainings", **more: Any) -> Any:
    return expect(control.call("PUT", f"{POLICIES}/{kind}", body(policy, *said), **more), 200)


@pytest.mark.parametrize("scope", SCOPES)
def test_a_policy_of_each_scope_is_written_read_changed_and_deleted(control: ControlPlane, scope: str) -> None:
    at, scope_id = f"{POLICIES}/trainings", SCOPES[scope]
    query = f"?scope={scope}" + (f"&{scope}Id={scope_id}" if scope_id else "")
    assert control.call("GET", f"{at}{query}").status_code == 404
    tried = expect(control.call("PUT", f"{at}?validateOnly=true", body(FOUR, scope, scope_id)), 200)
    assert tried["policy"] == FOUR
    assert control.call("GET", f"{at}{query}").status_code == 404, "nothing was stored"
    made = write(control, FOUR, scope, scope_id)
    assert (made["meta"]["scope"], made["meta"]["name"], made["meta"]["createdBy"]) == (scope, "p", FIRST_USER)
    assert made["effective"]["rules"]["compute"]["gpuDevicesRequest"]["max"] == 4
    assert expect(control.call("GET", f"{at}{query}"), 200) == made
    change = {**body({"defaults": {"image": "python"}}, scope, scope_id, "q"), "reset": ["compute.gpuDevicesRequest"]}
    changed = expect(control.call("PATCH", at, change), 200)
    assert changed["policy"] == {"defaults": {"image": "python"}, "rules": {}}
    assert (changed["meta"]["id"], changed["meta"]["name"]) == (made["meta"]["id"], "q")
    stale = {"If-Match": f'"{made["meta"]["revision"]}"'}
    assert control.call("PUT", at, body(FOUR, scope, scope_id), headers=stale).status_code == 412
    listed = expect(control.call("GET", f"{POLICIES}{query}&workloadType=training"), 200)["policies"]
    assert [(each["type"], each["meta"]["name"]) for each in listed] == [("training", "q")]
    assert expect(control.call("GET", f"{POLICIES}?workloadType=workspace"), 200)["policies"] == []
    expect(control.call("DELETE", f"{at}{query}&approveClusterDeletion=true"), 204)
    assert control.call("DELETE", f"{at}{query}").status_code == 404
    assert control.call("PATCH", at, change).status_code == 404
    entries = expect(control.call("GET", "/api/v1/audit/log?limit=20"), 200)["entries"]
    done = [each["action"] for each in entries if (each["entity_type"], each["result"]) == ("policy", "Succeeded")]
    assert done[:3] == ["delete", "update", "create"]


@pytest.mark.parametrize("kind", ["workspaces", "trainings", "distributed", "inferences"])
def test_each_kind_has_its_own_policy(control: ControlPlane, kind: str) -> None:
    rules = {"image": {"options": ["python"]}}
    write(control, {"rules": {"worker": rules} if kind == "distributed" else rules}, kind=kind)
    for each in ("workspaces", "trainings", "distributed", "inferences"):
        port = {"servingPort": {"container": 80}} if each == "inferences" else {}
        found = submit(control, each, spec={"image": "other", **port})
        assert (found == ["policy.options"]) == (each == kind), found


def test_what_is_wrong_with_a_policy_is_named_and_nothing_is_stored(control: ControlPlane) -> None:
    at = f"{POLICIES}/trainings"
    wrong: dict[str, Any] = {
        "policy.field": body({"rules": {"imagee": {}}}),
        "policy.range": body({"rules": {"backoffLimit": {"min": 3, "max": 1}}}),
        "policy.max": body({"defaults": {"backoffLimit": 9}, "rules": {"backoffLimit": {"max": 1}}}),
        "policy.asset": body({"imposedAssets": ["nothing"]}),
        "policy.no_scope": body({}, "project"),
        "policy.two_scopes": {"meta": {"name": "p", "scope": "tenant", "projectId": "team-a"}, "policy": {}},
        "project.unknown": body({}, "project", "nowhere"),
        "department.unknown": body({}, "department", "nowhere"),
        "cluster.unknown": body({}, "cluster", "nowhere"),
        "request.wrong_value": body({}, "system"),
        "request.unknown_field": {**body({}), "polic": {}},
    }
    for code, said in wrong.items():
        assert code in codes(control.call("PUT", at, said)), code
    assert expect(control.call("GET", POLICIES), 200)["policies"] == []


def test_policies_that_exclude_each_other_are_refused_in_either_order(control: ControlPlane) -> None:
    at = f"{POLICIES}/trainings"
    wide, narrow = {"rules": {"backoffLimit": {"min": 4}}}, {"rules": {"backoffLimit": {"max": 2}}}
    write(control, narrow, "project", "team-a")
    refusal = control.call("PUT", at, body(wide))
    assert codes(refusal) == ["policy.conflict"]
    assert "(project team-a)" in refusal.json()["message"]
    write(control, wide, "department", "research")
    assert codes(control.call("PUT", at, body(narrow, "project", "team-b"))) == ["policy.conflict"]
    assert codes(control.call("PUT", at, body(narrow, "cluster", "local"))) == ["policy.conflict"], "team-b is in both"


def test_who_sees_and_who_writes(control: ControlPlane) -> None:
    at = f"{POLICIES}/trainings"
    for scope, scope_id in (*SCOPES.items(), ("department", "research"), ("project", "team-b")):
        write(control, FOUR, scope, scope_id)
        assert control.call("PUT", at, body(FOUR, scope, scope_id), by="ann").status_code in (403, 404)
        query = f"?scope={scope}" + (f"&{scope}Id={scope_id}" if scope_id else "")
        assert control.call("DELETE", f"{at}{query}", by="ann").status_code in (403, 404)

    def seen(by: str) -> list[tuple[str, str]]:
        found = expect(control.call("GET", POLICIES, by=by), 200)["policies"]
        ids = [(each["meta"].get("projectName") or each["meta"].get("departmentId") or "") for each in found]
        return sorted((each["meta"]["scope"], scope_id) for each, scope_id in zip(found, ids, strict=True))

    assert len(seen("admin")) == 6
    assert seen("ann") == [("cluster", ""), ("department", "default"), ("project", "team-a"), ("tenant", "")]
    assert control.call("GET", f"{at}?scope=project&projectId=team-b", by="ann").status_code == 404
    assert control.call("GET", f"{at}?scope=department&departmentId=research", by="ann").status_code in (403, 404)
    assert control.call("GET", f"{at}?scope=department&departmentId=default", by="ann").status_code == 200
    assert control.call("GET", f"{POLICIES}/effective?projectId=team-b", by="ann").status_code == 404


def test_the_effective_policy_of_a_project(control: ControlPlane) -> None:
    write(control, {**FOUR, "defaults": {"image": "python", "backoffLimit": 1}})
    write(
        control,
        {"rules": {"compute": {"gpuDevicesRequest": {"max": 2}}}, "defaults": {"backoffLimit": 2}},
        "project",
        "team-a",
    )
    found = expect(control.call("GET", f"{POLICIES}/effective?projectId=team-a", by="ann"), 200)
    assert found["effective"]["defaults"] == {"image": "python", "backoffLimit": 2}
    assert found["effective"]["rules"]["compute"]["gpuDevicesRequest"]["max"] == 2
    assert found["defaultSources"] == {"image": "policy p (tenant)", "backoffLimit": "policy p (project team-a)"}
    assert [each["scope"] for each in found["policies"]] == ["tenant", "project"]
    other = expect(control.call("GET", f"{POLICIES}/effective?projectId=team-b", by="ben"), 200)
    assert other["effective"]["rules"]["compute"]["gpuDevicesRequest"]["max"] == 4
    none = expect(control.call("GET", f"{POLICIES}/effective?projectId=team-a&workloadType=inference"), 200)
    assert none["effective"] == {"defaults": {}, "rules": {}, "imposedAssets": []}
    inherited = expect(control.call("GET", f"{POLICIES}/trainings?scope=project&projectId=team-b", by="ben"), 200)
    assert "meta" not in inherited
    assert "policy" not in inherited
    assert inherited["effective"]["rules"]["compute"]["gpuDevicesRequest"]["max"] == 4


# --- every way in ----------------------------------------------------------------------------------------------------


def test_five_gpus_are_refused_where_four_are_the_most(control: ControlPlane) -> None:
    """F-274."""
    write(control, FOUR)
    answer = control.call(
        "POST",
        f"{WORKLOADS}/trainings",
        {"name": "t", "projectId": "team-a", "spec": {"image": "i", "compute": {"gpu": 5}}},
        by="ann",
    )
    assert codes(answer) == ["policy.max"]
    problem = answer.json()["problems"][0]
    because = "policy p (tenant), by its rule for compute.gpuDevicesRequest"
    assert problem["what"] == f"compute.gpu must be no greater than 4, and it is 5: {because}"
    assert (problem["fix"], problem["field"]) == ("use at most 4", "spec.compute.gpu")
    assert submit(control, spec={"image": "i", "compute": {"gpu": 4}})["images"] == ["i"]


def test_a_default_is_given_with_its_origin_and_a_lock_is_held(control: ControlPlane) -> None:
    write(control, {"defaults": {"image": "python", "compute": {"gpu": 1}}, "rules": {"image": {"canEdit": False}}})
    found = submit(control)
    assert found["spec"]["image"] == "python"
    assert found["valueOrigins"] == dict.fromkeys(("image", "compute.gpu"), "policy p (tenant)")
    assert submit(control, spec={"image": "other"}) == ["policy.locked"]


def test_the_older_api_is_bound(control: ControlPlane) -> None:
    write(control, FOUR)
    job = {"name": "older", "project": "team-a", "image": "python", "gpu": 5}
    refusal = control.call("POST", "/researcher/api/v1/jobs", job, by="ann")
    assert codes(refusal) == ["policy.max"]
    assert refusal.json()["problems"][0]["field"] == "gpu"


def test_templates_and_assets_are_bound(control: ControlPlane) -> None:
    write(control, FOUR)
    template = expect(
        control.call("POST", f"{ASSETS}/workload-template", asset_body("big", {"image": "i", "compute": {"gpu": 8}})),
        201,
    )
    compute = expect(control.call("POST", f"{ASSETS}/compute", asset_body("eight", {"gpuDevicesRequest": 8})), 201)
    try:
        comply = "complyToProject=team-a&complyToWorkloadType="
        found = expect(control.call("GET", f"{ASSETS}/compute/{compute['id']}?{comply}training"), 200)["compliance"]
        assert (found["compliance"], [each["rule"] for each in found["reason"]]) == (False, ["max"])
        other = expect(control.call("GET", f"{ASSETS}/compute/{compute['id']}?{comply}workspace"), 200)
        assert other["compliance"]["compliance"], "the policy is for training"
        for asked in ({"template": "big"}, {"image": "i", "assets": {"compute": "eight"}}):
            assert submit(control, spec=asked) == ["policy.max"]
        assert submit(control, spec={"template": "big", "compute": {"gpu": 1}})["images"] == ["i"]
    finally:
        expect(control.call("DELETE", f"{ASSETS}/workload-template/{template['id']}"), 204)
        expect(control.call("DELETE", f"{ASSETS}/compute/{compute['id']}"), 204)


def test_an_update_is_bound(control: ControlPlane) -> None:
    made = control.train(by="ann", compute={"gpu": 2})
    write(control, FOUR)
    at = f"{WORKLOADS}/trainings/{made['id']}"
    assert codes(control.call("PATCH", at, {"spec": {"compute": {"gpu": 5}}}, by="ann")) == ["policy.max"]
    assert codes(control.call("PATCH", f"{at}?dryRun=true", {"spec": {"compute": {"gpu": 5}}}, by="ann")) == [
        "policy.max"
    ]
    expect(control.call("PATCH", at, {"spec": {"compute": {"gpu": 3}}}, by="ann"), 202)


def test_a_resume_is_bound_one_by_one_in_batches_and_in_the_older_api(control: ControlPlane) -> None:
    made = control.train(by="ann", compute={"gpu": 8})
    at = f"{WORKLOADS}/trainings/{made['id']}"
    expect(control.call("POST", f"{at}/suspend", by="ann"), 202)
    write(control, FOUR)
    refusal = control.call("POST", f"{at}/resume", by="ann")
    assert (refusal.status_code, codes(refusal)) == (409, ["policy.max"])
    assert refusal.json()["problems"][0]["what"].startswith(
        "t1 cannot be resumed: compute.gpu must be no greater than 4"
    )
    batch = {"action": "resume", "ids": [made["id"]]}
    done = expect(control.call("POST", f"{WORKLOADS}/batch", batch, by="ann"), 200)
    assert (done["succeeded"], [each["code"] for each in done["failed"]]) == ([], [409])
    older = [{"name": "t1", "project": "team-a"}]
    answered = expect(control.call("POST", "/researcher/api/v1/jobs/resume", older, by="ann"), 200)
    assert "compute.gpu must be no greater than 4" in str(answered)
    assert [each.desired_state for each in control.pull().workloads if each.id == made["id"]] == [DesiredState.STOP]
    expect(control.call("PATCH", at, {"spec": {"compute": {"gpu": 4}}}, by="ann"), 202)
    expect(control.call("POST", f"{at}/resume", by="ann"), 202)
    write(control, {"rules": {"compute": {"gpuDevicesRequest": {"max": 1}}}})
    expect(control.call("POST", f"{at}/resume", by="ann"), 202)  # it is to run already: nothing changes


def test_a_move_to_another_project_is_bound(control: ControlPlane) -> None:
    control.project("leaving")
    control.train(project="leaving", compute={"gpu": 4})
    write(control, {"rules": {"compute": {"gpuDevicesRequest": {"max": 1}}}}, "project", "team-a")
    gone = "/api/v1/org-unit/projects/leaving?workloads=move&to=team-a"
    refusal = control.call("DELETE", gone)
    assert codes(refusal) == ["policy.max"]
    assert "t1 cannot be moved to team-a" in refusal.json()["message"]
    expect(control.call("DELETE", gone.replace("team-a", "team-b")), 202)


def test_a_policy_goes_with_its_project(control: ControlPlane) -> None:
    control.project("short-lived")
    write(control, FOUR, "project", "short-lived")
    expect(control.call("DELETE", "/api/v1/org-unit/projects/short-lived"), 202)
    assert expect(control.call("GET", POLICIES), 200)["policies"] == []


def test_the_default_pool_of_a_project_is_a_value_with_an_origin(control: ControlPlane) -> None:
    expect(control.call("PATCH", "/api/v1/org-unit/projects/team-b", {"defaultNodePools": ["default"]}), 200)
    write(control, {"rules": {"nodePools": {"options": ["default"]}}})
    found = submit(control, by="ben", project="team-b", spec={"image": "i"})
    assert found["valueOrigins"] == {"nodePools": "project team-b"}


def test_an_imposed_data_source_is_mounted_by_every_workload(control: ControlPlane) -> None:
    mount = {"name": "settings", "mountPath": "/etc/settings"}
    config_map = {"projectId": "team-a", "name": "settings", "data": {"a": "1"}}
    expect(control.call("POST", CONFIG_MAPS, config_map), 201)
    made = expect(control.call("POST", f"{ASSETS}/datasource/config-map", asset_body("shared", mount)), 201)
    write(control, {"imposedAssets": [made["id"]]})
    found = submit(control, spec={"image": "i"})
    assert found["spec"]["storage"]["configMapVolume"] == [mount]
    assert found["spec"]["assets"] == {"datasources": [{"id": made["id"]}]}
    origin = "data source shared (tenant), imposed by policy p (tenant)"
    assert found["valueOrigins"] == {"storage.configMapVolume./etc/settings": origin}
    other = {"configMapVolume": [{"name": "other", "mountPath": "/etc/settings"}]}
    assert submit(control, spec={"image": "i", "storage": other}) == ["policy.imposed"]
    assert control.call("DELETE", f"{ASSETS}/datasource/config-map/{made['id']}").status_code == 412
    expect(control.call("DELETE", f"{POLICIES}/trainings?scope=tenant"), 204)
    expect(control.call("DELETE", f"{ASSETS}/datasource/config-map/{made['id']}"), 204)

"""Environments, compute resources and data sources: stored by scope, named by submits and templates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.control.plane import Plane
from fairpool.control.store import assets as store
from fairpool.control.store.database import Connection
from tests.control.asset_requests import ASSETS, TEMPLATES, asset_body, remove_all, submit, two_teams
from tests.control.control_plane import ControlPlane, codes, expect

SPECS: dict[str, dict[str, Any]] = {
    "environment": {"image": "python", "environmentVariables": [{"name": "A", "value": "1"}]},
    "compute": {"gpuDevicesRequest": 1, "gpuPortionRequest": 0.5},
    "datasource/pvc": {"claimName": "data", "path": "/data"},
    "datasource/nfs": {"server": "files", "path": "/export", "mountPath": "/data"},
    "datasource/git": {"repository": "https://git.example.com/a.git"},
    "datasource/s3": {"bucket": "images", "path": "/data"},
    "datasource/host-path": {"path": "/tmp", "mountPath": "/data"},
    "datasource/config-map": {"name": "settings", "mountPath": "/etc/settings"},
    "datasource/secrets": {"name": "certificates", "mountPath": "/etc/certificates"},
}
LISTS = ("environment", "compute", *(each for each in SPECS if each.startswith("datasource")))


@pytest.fixture(scope="module")
def shared() -> Iterator[ControlPlane]:
    with two_teams() as control:
        yield control


@pytest.fixture
def control(shared: ControlPlane) -> Iterator[ControlPlane]:
    yield shared
    for kind in ("workload-template", *LISTS):
        remove_all(shared, kind)


def body(name: str, kind: str = "environment", *said: str, **more: Any) -> Any:
    return asset_body(name, more.pop("spec", SPECS.get(kind, {})), *said, **more)


def make(control: ControlPlane, name: str, kind: str = "environment", *said: Any, **more: Any) -> Any:
    return expect(control.call("POST", f"{ASSETS}/{kind}", body(name, kind, *said, **more)), 201)


@pytest.mark.parametrize("kind", SPECS)
def test_an_asset_is_made_read_replaced_and_deleted(control: ControlPlane, kind: str) -> None:
    made = make(control, "shared", kind, "project", "team-a", meta={"description": "For all"})
    assert (made["meta"]["projectName"], made["meta"]["description"]) == ("team-a", "For all")
    assert made["meta"]["id"] == made["id"]
    where = f"{ASSETS}/{kind}/{made['id']}"
    assert expect(control.call("GET", where), 200) == made
    assert made["spec"].items() >= SPECS[kind].items()
    stale = {"If-Match": f'"{made["revision"] - 1}"'}
    again = {"meta": {"name": "renamed"}, "spec": SPECS[kind]}
    assert control.call("PUT", where, again, headers=stale).status_code == 412
    assert expect(control.call("PUT", where, again), 200)["meta"]["name"] == "renamed"
    assert codes(control.call("PUT", where, body("renamed", kind)))[0].endswith(".moved")
    assert expect(control.call("GET", f"{ASSETS}/{kind}/count"), 200) == {"count": 1}
    for other in set(SPECS) - {kind}:
        assert control.call("GET", f"{ASSETS}/{other}/{made['id']}").status_code == 404
    expect(control.call("DELETE", where), 204)
    assert control.call("GET", where).status_code == 404


def test_lists_are_filtered_by_name_scope_and_id(control: ControlPlane) -> None:
    first = make(control, "a1")
    make(control, "a2", "environment", "project", "team-a")
    make(control, "a3", "environment", "department", "research")

    def names(query: str, by: str = "admin") -> list[str]:
        found = expect(control.call("GET", f"{ASSETS}/environment?{query}", by=by), 200)
        return [each["meta"]["name"] for each in found["entries"]]

    assert names("") == ["a1", "a2", "a3"]
    assert names("name=a2") == ["a2"]
    assert names("scope=tenant") == ["a1"]
    assert names("projectId=team-a") == ["a2"]
    assert names(f"assetIds={first['id']},none") == ["a1"]
    assert names("filterBy=departmentId==research") == ["a3"]
    assert names("limit=1&offset=1") == ["a2"]
    assert names("search=3") == ["a3"]
    assert names("", by="ann") == ["a1", "a2"]
    assert names("", by="ben") == ["a1", "a3"]


def test_data_sources_of_all_kinds_are_one_list_with_one_set_of_names(control: ControlPlane) -> None:
    make(control, "claim", "datasource/pvc")
    make(control, "export", "datasource/nfs")
    found = expect(control.call("GET", f"{ASSETS}/datasource"), 200)["entries"]
    assert [(each["kind"], list(each["spec"])) for each in found] == [("pvc", ["pvc"]), ("nfs", ["nfs"])]
    assert codes(control.call("POST", f"{ASSETS}/datasource/s3", body("claim", "datasource/s3"))) == [
        "datasource.exists"
    ]


def test_an_asset_of_another_place_is_as_if_it_were_not_there(control: ControlPlane) -> None:
    hidden = make(control, "hidden", "environment", "department", "research")
    missing = "00000000-0000-4000-8000-000000000000"
    for asked in (hidden["id"], missing, "hidden"):
        assert control.call("GET", f"{ASSETS}/environment/{asked}", by="ann").status_code == 404
        assert submit(control, spec={"assets": {"environment": asked}}) == ["environment.unknown"]
    assert submit(control, by="ben", project="team-b", spec={"assets": {"environment": hidden["id"]}})["images"] == [
        "python"
    ]


def test_a_researcher_cannot_write_assets(control: ControlPlane) -> None:
    for kind in SPECS:
        made = make(control, "shared", kind, "project", "team-a")
        where = f"{ASSETS}/{kind}/{made['id']}"
        said = body("x", kind, "project", "team-a")
        assert control.call("POST", f"{ASSETS}/{kind}", said, by="ann").status_code == 403
        assert control.call("PUT", where, said, by="ann").status_code == 403
        assert control.call("DELETE", where, by="ann").status_code == 403
        expect(control.call("DELETE", where), 204)


def test_what_is_wrong_with_an_asset_is_named(control: ControlPlane) -> None:
    make(control, "first")
    wrong = {
        "environment.exists": body("first"),
        "environment.empty": body("x", spec={}),
        "environment.compute": body("x", spec={"image": "i", "compute": {"gpu": 1}}),
        "request.wrong_value": body("a/b"),
        "request.unknown_field": body("x", spec={"imagee": "i"}),
        "asset.no_scope": body("x", "environment", "project"),
        "project.unknown": body("x", "environment", "project", "nowhere"),
    }
    for code, said in wrong.items():
        assert codes(control.call("POST", f"{ASSETS}/environment", said)) == [code]
    for name in ("", " ", "ü", "a" * 64, "../x", "a\nb", "-x", "%00"):
        assert codes(control.call("POST", f"{ASSETS}/environment", body(name))) == ["request.wrong_value"], name
    both = body("x", "compute", spec={"gpu": 1, "gpuMemoryRequest": "4Gi"})
    assert codes(control.call("POST", f"{ASSETS}/compute", both)) == ["gpu.several_ways"]


def test_a_submit_takes_the_values_of_the_assets_that_it_names(control: ControlPlane) -> None:
    make(control, "base")
    make(control, "half", "compute")
    folder = make(control, "folder", "datasource/host-path")
    found = submit(
        control, spec={"assets": {"environment": "base", "compute": "half", "datasources": [{"id": folder["id"]}]}}
    )
    assert (found["images"], found["workloadRequestedResources"]["gpu"]["request"]) == (["python"], 0.5)
    assert found["spec"]["storage"]["hostPath"] == [{"path": "/tmp", "mountPath": "/data"}]
    assert found["valueOrigins"] == {
        "image": "environment base (tenant)",
        "environmentVariables": "environment base (tenant)",
        "compute.gpuDevicesRequest": "compute resource half (tenant)",
        "compute.gpuPortionRequest": "compute resource half (tenant)",
        "storage.hostPath": "data source folder (tenant)",
    }
    own = submit(
        control,
        spec={
            "image": "other",
            "assets": {"environment": "base", "datasources": [{"id": "folder", "overrides": {"containerPath": "/x"}}]},
        },
    )
    assert own["images"] == ["other"]
    assert own["spec"]["storage"]["hostPath"] == [{"path": "/tmp", "mountPath": "/x"}]
    assert "image" not in own["valueOrigins"]


def test_what_is_wrong_with_the_assets_of_a_submit_is_named(control: ControlPlane) -> None:
    make(control, "serving", spec={"image": "python", "connections": [_connection("ServingPort")]})
    make(control, "export", "datasource/nfs")
    assert submit(control, spec={"assets": {"environment": "none", "compute": "none"}}) == [
        "environment.unknown",
        "compute.unknown",
    ]
    assert submit(control, spec={"assets": {"environment": "serving"}}) == ["environment.other_workload"]
    model = submit(control, "inferences", spec={"assets": {"environment": "serving"}})
    assert model["spec"]["servingPort"] == {"container": 8888}
    wrong_kind = {"assets": {"datasources": [{"id": "export", "kind": "pvc"}]}}
    assert submit(control, spec={"image": "i", **wrong_kind}) == ["datasource.other_kind"]


def _connection(kind: str, port: int = 8888) -> dict[str, Any]:
    tool = {"toolType": "jupyter-notebook", "connectionType": kind, "containerPort": port}
    return {"name": "Jupyter", "internalToolInfo": tool}


def test_tools_of_an_environment_become_ports(control: ControlPlane) -> None:
    connections = [_connection("ExternalUrl"), _connection("NodePort", 6006)]
    make(control, "tools", spec={"image": "python", "connections": connections})
    found = submit(control, "workspaces", spec={"assets": {"environment": "tools"}})["spec"]
    tool = {"toolName": "Jupyter", "toolType": "jupyter-notebook"}
    assert found["exposedUrls"] == [{"container": 8888, **tool}]
    assert found["ports"] == [{"container": 6006, "serviceType": "NodePort", **tool}]


def test_a_template_names_assets_and_keeps_to_those_that_it_was_made_with(control: ControlPlane) -> None:
    wide = make(control, "base")
    template = {"meta": {"name": "nightly", "scope": "tenant"}, "spec": {"assets": {"environment": "base"}}}
    made = expect(control.call("POST", TEMPLATES, template), 201)
    assert made["spec"]["assets"] == {"environment": {"id": wide["id"], "name": "base"}}
    again = {"meta": {"name": "nightly"}, "spec": made["spec"]}
    assert expect(control.call("PUT", f"{TEMPLATES}/{made['id']}", again), 200)["spec"] == made["spec"]
    make(control, "base", "environment", "project", "team-a", spec={"image": "shadow"})
    assert submit(control, spec={"template": "nightly"})["images"] == ["python"]
    assert submit(control, spec={"assets": {"environment": "base"}})["images"] == ["shadow"]
    assert codes(control.call("DELETE", f"{ASSETS}/environment/{wide['id']}")) == ["environment.in_use"]
    used = expect(control.call("GET", f"{ASSETS}/environment/{wide['id']}?usageInfo=true"), 200)["usedBy"]
    assert used["templates"] == [{"id": made["id"], "name": "nightly"}]


def test_a_template_cannot_name_an_asset_of_a_narrower_scope_nor_another_template(control: ControlPlane) -> None:
    make(control, "narrow", "environment", "project", "team-a")
    meta = {"name": "x", "scope": "tenant"}
    said = {"meta": meta, "spec": {"assets": {"environment": "narrow"}}}
    assert codes(control.call("POST", TEMPLATES, said)) == ["environment.unknown"]
    cycle = {"meta": meta, "spec": {"template": "x"}}
    assert codes(control.call("POST", TEMPLATES, cycle)) == ["template.field"]


def test_locks_hold_against_assets(control: ControlPlane) -> None:
    make(control, "base")
    make(control, "other", spec={"image": "other"})
    make(control, "folder", "datasource/host-path")
    template = {
        "meta": {"name": "rules", "scope": "tenant"},
        "spec": {"assets": {"environment": "base"}},
        "administrative": True,
        "locked": ["assets.environment", "image", "storage.hostPath"],
    }
    made = expect(control.call("POST", TEMPLATES, template), 201)
    found = submit(control)
    assert (found["images"], found["valueOrigins"]["image"]) == (
        ["python"],
        "administrative template rules (tenant)",
    )
    assert submit(control, spec={"assets": {"environment": "base"}})["images"] == ["python"]
    for said in (
        {"assets": {"environment": "other"}},
        {"image": "other"},
        {"assets": {"datasources": ["folder"]}},
    ):
        assert set(submit(control, spec=said)) == {"template.locked"}
    expect(control.call("DELETE", f"{TEMPLATES}/{made['id']}"), 204)


def test_a_workload_keeps_what_it_was_submitted_with(control: ControlPlane) -> None:
    made = make(control, "base")
    request = {"name": "kept", "projectId": "team-a", "spec": {"assets": {"environment": "base"}}}
    workload = expect(control.call("POST", "/api/v1/workloads/trainings", request, by="ann"), 202)
    where = f"{ASSETS}/environment/{made['id']}"

    def used(by: str = "admin") -> list[str]:
        found = expect(control.call("GET", f"{where}?usageInfo=true", by=by), 200)
        return [each["name"] for each in found["usedBy"]["trainings"]]

    assert (used(), used("ben")) == (["kept"], [])
    expect(control.call("PUT", where, {"meta": {"name": "base"}, "spec": {"image": "changed"}}), 200)
    expect(control.call("DELETE", where), 204)
    shown = expect(control.call("GET", f"/api/v1/workloads/{workload['id']}", by="ann"), 200)
    assert shown["spec"]["image"] == "python"
    assert shown["valueOrigins"]["image"] == "environment base (tenant)"
    pulled = next(each for each in control.pull().workloads if each.id == workload["id"])
    assert pulled.template.program.image == "python"


def test_what_the_runtime_cannot_mount_is_refused_when_it_is_used(control: ControlPlane) -> None:
    make(control, "gone", "datasource/pvc", spec={"claimName": "never-made", "path": "/data"})
    said = {"name": "t", "projectId": "team-a", "spec": {"image": "python", "assets": {"datasources": ["gone"]}}}
    answer = control.call("POST", "/api/v1/workloads/trainings", said, by="ann")
    assert codes(answer) == ["claim.unknown"]
    assert answer.json()["problems"][0]["what"].endswith("(set by data source gone (tenant))")


def test_fields_have_the_names_of_the_original_too(control: ControlPlane) -> None:
    for kind, said, own in (
        ("config-map", {"configMap": "c", "mountPath": "/c"}, {"name": "c", "configMap": "c", "mountPath": "/c"}),
        ("secrets", {"credentialAssetId": "s", "mountPath": "/s"}, {"name": "s", "mountPath": "/s"}),
        (
            "s3",
            {"bucket": "b", "path": "/b", "accessKeyAssetId": "k"},
            {"bucket": "b", "path": "/b", "credential": "k"},
        ),
    ):
        made = make(control, kind, f"datasource/{kind}", spec=said)
        assert made["spec"] == own
        where = f"{ASSETS}/datasource/{kind}/{made['id']}"
        sent_back = expect(control.call("PUT", where, {"meta": {"name": kind}, "spec": own}), 200)
        assert sent_back["spec"] == own


def test_what_clients_of_the_original_always_send_is_taken(control: ControlPlane) -> None:
    """Fields that they send as false, and updates of the name alone; the same fields as true are refused."""
    always: dict[str, Any] = {"autoDelete": False, "private": False}
    connection = {**_connection("ExternalUrl"), "isExternal": False}
    spec = {"image": "python", "connections": [connection], "overrideUidGidInWorkspace": False}
    made = make(control, "e", meta=always, spec=spec)
    assert made["spec"] == {"image": "python", "connections": [_connection("ExternalUrl")]}
    assert "description" not in made["meta"]
    assert made["meta"]["updatedBy"] == made["meta"]["createdBy"] == made["createdBy"]
    make(control, "p", "datasource/pvc", meta=always, spec={**SPECS["datasource/pvc"], "dataSharing": False})
    where = f"{ASSETS}/environment/{made['id']}"
    renamed = expect(control.call("PUT", where, {"meta": {"name": "renamed", "description": "New"}}), 200)
    assert (renamed["meta"]["name"], renamed["spec"]) == ("renamed", made["spec"])
    private = body("x", meta={**always, "private": True})
    assert codes(control.call("POST", f"{ASSETS}/environment", private)) == ["request.unknown_field"]


def test_thousands_of_assets_are_listed_in_pages(control: ControlPlane) -> None:
    made = make(control, "first", "compute", spec={"gpu": 1})
    plane: Plane = control.app.state.plane
    portal = control.http.portal
    assert portal is not None

    def many(connection: Connection) -> None:
        row = store.one(connection, "compute", made["id"])._asdict()
        for number in range(5000):
            store.add(connection, **{**row, "id": f"id-{number}", "name": f"c{number:04}"})

    portal.call(plane.write, many)
    first = expect(control.call("GET", f"{ASSETS}/compute?limit=500"), 200)
    last = expect(control.call("GET", f"{ASSETS}/compute?limit=500&offset=5000"), 200)
    assert (len(first["entries"]), first["next"], len(last["entries"]), last.get("next")) == (500, 500, 1, None)
    named = submit(control, spec={"image": "python", "assets": {"compute": "c4999"}})
    assert named["workloadRequestedResources"]["gpu"]["request"] == 1
    portal.call(plane.write, lambda connection: store.remove_scope(connection, "tenant", ""))


def test_a_data_source_makes_its_claim_once_for_each_project(control: ControlPlane) -> None:
    spec = {"path": "/data", "existingPvc": False, "claimInfo": {"size": "1Gi"}}
    made = make(control, "shared_data", "datasource/pvc", spec=spec)
    asked = {"image": "python", "assets": {"datasources": [made["id"]]}}
    for name, project, by in (("one", "team-a", "ann"), ("two", "team-a", "ann"), ("three", "team-b", "ben")):
        request = {"name": f"claims-{name}", "projectId": project, "spec": asked}
        expect(control.call("POST", "/api/v1/workloads/trainings", request, by=by), 202)
    history = f"{ASSETS}/datasource/pvc/{made['id']}/history"
    assert len(expect(control.call("GET", history), 200)["records"]) == 2
    assert len(expect(control.call("GET", history, by="ben"), 200)["records"]) == 1


def test_whether_a_project_may_use_an_asset_is_answered_with_the_reason(control: ControlPlane) -> None:
    made = make(control, "two-gpus", "compute", spec={"gpu": 2})
    where = f"{ASSETS}/compute/{made['id']}?complyToProject=team-b&complyToWorkloadType=Training"
    assert expect(control.call("GET", where), 200)["compliance"] == {"compliance": True, "reason": []}
    template = asset_body("only-one", {"compute": {"gpu": 1}}, "project", "team-b", administrative=True)
    expect(control.call("POST", f"{ASSETS}/workload-template", {**template, "locked": ["compute.gpu"]}), 201)
    found = expect(control.call("GET", where), 200)["compliance"]
    assert (found["compliance"], found["reason"][0]["rule"]) == (False, "locked")
    assert control.call("GET", where, by="ann").status_code == 404, "a project that she may not see"
    half = f"{ASSETS}/compute/{made['id']}?complyToProject=team-b"
    assert codes(control.call("GET", half)) == ["asset.compliance"]


def test_the_status_of_a_projects_asset_says_what_is_missing(control: ControlPlane) -> None:
    spec = {"name": "absent", "mountPath": "/c"}
    made = make(control, "lost", "datasource/config-map", "project", "team-a", spec=spec)
    found = expect(control.call("GET", f"{ASSETS}/datasource/config-map/{made['id']}?statusInfo=true"), 200)
    assert found["status"] == {"status": "Issues found", "message": "project team-a has no config map absent"}


def test_a_registry_on_this_machine_is_not_asked_unless_that_is_allowed(control: ControlPlane) -> None:
    spec = {"url": "http://127.0.0.1:9", "user": "u", "password": "never-shown"}
    request = {"meta": {"name": "near", "scope": "tenant"}, "spec": spec}
    made = expect(control.call("POST", f"{ASSETS}/registries", request), 201)
    assert "never-shown" not in str(made)
    answer = control.call("GET", f"{ASSETS}/registries/{made['meta']['id']}/repositories")
    assert (answer.status_code, codes(answer)) == (502, ["outbound.url"])

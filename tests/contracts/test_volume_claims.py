"""Volume claims and config maps through the API: who may, what is refused, and that nothing is lost half-way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.control import claims
from fairpool.control.pod_access import PodAccessError
from fairpool.control.store import claims as claim_store
from fairpool.model.problem import Problem
from tests.control.control_plane import ControlPlane, codes, control_plane, expect, gone
from tests.control.pod_access_fakes import NoPodAccess

CLAIMS, MAPS = "/api/v1/claims", "/api/v1/config-maps"


class Storage(NoPodAccess):
    """A cluster whose claims can be removed, unless it is away."""

    def __init__(self) -> None:
        self.removed: list[tuple[str, str]] = []
        self.is_away = False

    async def remove_claim(self, project: str, name: str) -> None:
        if self.is_away:
            raise PodAccessError(Problem("cluster.away", "the cluster is away", "try again"))
        self.removed.append((project, name))


class SlowStorage(Storage):
    """A cluster whose first removal takes until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.has_begun, self.go_on = threading.Event(), asyncio.Event()

    async def remove_claim(self, project: str, name: str) -> None:
        await super().remove_claim(project, name)
        if not self.has_begun.is_set():
            self.has_begun.set()
            await self.go_on.wait()


@pytest.fixture
def cluster() -> Storage:
    return Storage()


@pytest.fixture
def control(tmp_path: Path, cluster: Storage) -> Iterator[ControlPlane]:
    with control_plane(tmp_path / "data", pod_access=cluster) as made:
        for name in ("team-a", "team-b"):
            made.project(name)
        made.researcher("ann", "team-a")
        made.researcher("bob", "team-b")
        yield made


def new(name: str = "data", path: str = "/d", **more: Any) -> dict[str, Any]:
    info = {"size": "1Gi", **more.pop("info", {})}
    return {"pvc": [{"claimName": name, "path": path, "existingPvc": False, "claimInfo": info, **more}]}


def old(name: str = "data") -> dict[str, Any]:
    return {"pvc": [{"claimName": name, "path": "/d"}]}


def listed(control: ControlPlane, project: str = "team-a", by: str = "ann") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = expect(control.call("GET", f"{CLAIMS}?projectId={project}", by=by), 200)["claims"]
    return found


def remove(control: ControlPlane, name: str = "data", project: str = "team-a", by: str = "ann") -> Any:
    return control.call("DELETE", f"{CLAIMS}/{name}?projectId={project}", by=by)


def sweep(control: ControlPlane) -> None:
    assert control.http.portal is not None
    control.http.portal.call(claims.sweep, control.app.state.plane)


def test_a_claim_is_deleted_when_no_job_uses_it_any_more(control: ControlPlane, cluster: Storage) -> None:
    first = control.train("t1", storage=new(info={"accessMode": "rwm"}), by="ann")["id"]
    second = control.train("t2", storage=old(), by="ann")["id"]
    (claim,) = listed(control)
    assert (claim["accessMode"], claim["ephemeral"], claim["phase"]) == ("rwm", False, "Ready")
    assert claim["usedBy"] == ["t1", "t2"]
    refused = remove(control)
    assert (refused.status_code, codes(refused)) == (409, ["claim.in_use"])
    assert refused.json()["problems"][0]["what"] == "claim data is used by t1, t2"
    control.push(control.report(workloads=(control.completed(first),)))
    assert listed(control)[0]["usedBy"] == ["t2"], "one that is finished does not use it"
    expect(control.call("DELETE", f"/api/v1/workloads/{second}", by="ann"), 202)
    assert codes(remove(control)) == ["claim.in_use"], "its pods are still stopping"
    control.push(control.report(gone=(gone(second),)))
    assert expect(remove(control), 202)["phase"] == "Deleting"
    assert (cluster.removed, listed(control)) == ([("team-a", "data")], [])
    assert remove(control).status_code == 404


def test_a_claim_of_a_job_that_can_be_resumed_is_not_deleted(control: ControlPlane, cluster: Storage) -> None:
    job = control.train("t1", storage=new(), by="ann")["id"]
    control.push(control.report(workloads=(control.failed(job),)))
    assert listed(control)[0]["usedBy"] == ["t1"]
    assert codes(remove(control)) == ["claim.in_use"]
    expect(control.call("POST", f"/api/v1/workloads/{job}/resume", by="ann"), 202)
    assert ([each["phase"] for each in listed(control)], cluster.removed) == (["Ready"], [])


def test_a_name_in_another_place_of_a_job_is_no_use_of_the_claim(control: ControlPlane) -> None:
    first = control.train("t1", storage=new(), by="ann")["id"]
    control.push(control.report(workloads=(control.completed(first),)))
    control.train("data", args=["data"], environmentVariables=[{"name": "data", "value": "data"}], by="ann")
    assert listed(control)[0]["usedBy"] == []
    expect(remove(control), 202)


def test_a_claim_of_a_cluster_that_is_away_is_deleted_when_it_is_back(control: ControlPlane, cluster: Storage) -> None:
    job = control.train("t1", storage=new(), by="ann")["id"]
    control.push(control.report(workloads=(control.completed(job),)))
    cluster.is_away = True
    expect(remove(control), 202)
    assert [(each["name"], each["phase"]) for each in listed(control)] == [("data", "Deleting")]
    body = {"name": "t2", "projectId": "team-a", "spec": {"image": "i", "storage": old()}}
    refused = control.call("POST", "/api/v1/workloads/trainings", body, by="ann")
    assert codes(refused) == ["claim.deleting"]
    cluster.is_away = False
    sweep(control)
    sweep(control)
    assert (cluster.removed, listed(control)) == ([("team-a", "data")], [])


def test_two_sweeps_at_a_time_leave_a_claim_that_is_created_in_between(tmp_path: Path) -> None:
    cluster = SlowStorage()
    with control_plane(tmp_path / "data", pod_access=cluster) as control:
        control.project("team-a")
        job = control.train("t1", storage=new())["id"]
        control.push(control.report(workloads=(control.completed(job),)))
        portal, plane = control.http.portal, control.app.state.plane
        assert portal is not None
        portal.call(plane.write, lambda connection: claim_store.mark(connection, "team-a", "data"))
        slow = portal.start_task_soon(claims.sweep, plane)
        assert cluster.has_begun.wait(30)
        second = portal.start_task_soon(claims.sweep, plane)
        portal.call(cluster.go_on.set)
        slow.result(30)
        control.train("t2", storage=new())
        second.result(30)
        assert cluster.removed == [("team-a", "data")], "once, and not that of the new claim"
        assert [(each["name"], each["usedBy"]) for each in listed(control, by="admin")] == [("data", ["t2"])]


def test_a_row_is_removed_only_while_its_claim_is_being_deleted(control: ControlPlane) -> None:
    control.train("t1", storage=new(), by="ann")
    assert control.http.portal is not None
    plane = control.app.state.plane
    control.http.portal.call(plane.write, lambda connection: claim_store.remove_marked(connection, "team-a", "data"))
    assert [each["name"] for each in listed(control)] == ["data"]


def test_a_claim_goes_with_its_job_when_the_job_is_gone_and_not_before(control: ControlPlane, cluster: Storage) -> None:
    job = control.train("t1", storage=new(ephemeral=True), by="ann")["id"]
    kept = control.train("t2", storage=new("kept"), by="ann")["id"]
    assert [(each["name"], each.get("workload")) for each in listed(control)] == [("data", "t1"), ("kept", None)]
    for step in (
        lambda: control.push(control.report(workloads=(control.completed(job),))),
        lambda: expect(control.call("DELETE", f"/api/v1/workloads/{job}", by="ann"), 202),
    ):
        step()
        sweep(control)
        assert cluster.removed == []
    control.push(control.report(gone=(gone(job),)))
    expect(control.call("DELETE", f"/api/v1/workloads/{kept}", by="ann"), 202)
    control.push(control.report(gone=(gone(kept),)))
    sweep(control)
    assert cluster.removed == [("team-a", "data")]
    assert [each["name"] for each in listed(control)] == ["kept"]


def test_claims_of_others_are_neither_seen_nor_deleted(control: ControlPlane) -> None:
    control.train("t1", storage=new(), by="ann")
    assert remove(control, by="bob").status_code == 404
    assert control.call("GET", f"{CLAIMS}?projectId=team-a", by="bob").status_code == 404
    assert expect(control.call("GET", CLAIMS, by="bob"), 200)["claims"] == []
    assert len(expect(control.call("GET", CLAIMS), 200)["claims"]) == 1


# --- config maps


def test_a_job_keeps_the_contents_it_was_submitted_with(control: ControlPlane) -> None:
    body = {"name": "cfg", "projectId": "team-a", "data": {"a.yaml": "one\n", ".env": "x"}}
    made = expect(control.call("POST", MAPS, body, by="ann"), 201)
    assert codes(control.call("POST", MAPS, body, by="ann")) == ["config_map.exists"]
    mounted = {"configMapVolume": [{"name": "cfg", "mountPath": "/c"}]}
    first = control.train("t1", storage=mounted, by="ann")["id"]
    where = f"{MAPS}/cfg?projectId=team-a"
    stale = control.call("PUT", where, {"data": {"a.yaml": "x"}}, by="ann", headers={"If-Match": '"1"'})
    assert stale.status_code == 412
    changed = expect(control.call("PUT", where, {"data": {"a.yaml": "two\n"}}, by="ann"), 200)
    assert (changed["data"], changed["revision"] > made["revision"]) == ({"a.yaml": "two\n"}, True)
    second = control.train("t2", storage=mounted, by="ann")["id"]
    assert control.call("DELETE", where, by="ann").status_code == 204
    assert control.call("GET", where, by="ann").status_code == 404
    specs = {each.id: each.to_spec().template.program.volumes for each in control.pull().workloads}
    assert specs[first][0].files == ((".env", "x"), ("a.yaml", "one\n"))
    assert specs[second][0].files == (("a.yaml", "two\n"),)


@pytest.mark.parametrize(
    "change",
    [
        {"data": {"../x": "1"}},
        {"data": {"..": "1"}},
        {"data": {"a/b": "1"}},
        {"data": {"a\nb": "1"}},
        {"data": {"a": "\0"}},
        {"data": {}},
        {"data": {"a": "x" * 200_000, "b": "ä" * 40_000}},
        {"name": "../etc"},
        {"name": "a\n"},
    ],
)
def test_a_config_map_with_odd_names_or_too_much_is_refused(control: ControlPlane, change: dict[str, Any]) -> None:
    body = {"name": "cfg", "projectId": "team-a", "data": {"a": "1"}, **change}
    assert control.call("POST", MAPS, body, by="ann").status_code == 422
    assert expect(control.call("GET", f"{MAPS}?projectId=team-a", by="ann"), 200)["configMaps"] == []


def test_config_maps_are_those_of_the_projects_members(control: ControlPlane) -> None:
    body = {"name": "cfg", "projectId": "team-a", "data": {"a": "1"}}
    assert control.call("POST", MAPS, body, by="bob").status_code == 404
    expect(control.call("POST", MAPS, body, by="ann"), 201)
    for method in ("GET", "DELETE"):
        assert control.call(method, f"{MAPS}/cfg?projectId=team-a", by="bob").status_code == 404
    expect(control.call("DELETE", "/api/v1/org-unit/projects/team-a"), 202)
    control.project("team-a")
    assert expect(control.call("GET", f"{MAPS}?projectId=team-a"), 200)["configMaps"] == []


# --- folders of nodes


def test_the_administrator_lists_the_folders_that_may_be_mounted(control: ControlPlane) -> None:
    setting = "/v1/k8s/setting/storage.hostPathRoots"
    body = {"name": "t1", "projectId": "team-a", "spec": {"image": "i"}}
    body["spec"] = {"image": "i", "storage": {"hostPath": [{"path": "/etc", "mountPath": "/e"}]}}
    expect(control.call("POST", "/api/v1/workloads/trainings?dryRun=true", body, by="ann"), 200)
    assert control.call("PUT", setting, {"value": "/data"}, by="ann").status_code == 403
    assert expect(control.call("PUT", setting, {"value": "/data, /mnt/x"}), 200)["type"] == "string"
    refused = control.call("POST", "/api/v1/workloads/trainings", body, by="ann")
    assert (refused.status_code, codes(refused)) == (422, ["volume.root"])
    assert "(allowed: /data, /mnt/x)" in refused.json()["problems"][0]["what"]
    for wrong in ("data", "/a/../b", "/a//b", "/a//", "//", "/a\nb", True, 3):
        assert control.call("PUT", setting, {"value": wrong}).status_code == 422, wrong
    for typed, value in {"/data/": "/data", "/a/, /b": "/a,/b", "/": "/", "": ""}.items():
        assert expect(control.call("PUT", setting, {"value": typed}), 200)["value"] == value

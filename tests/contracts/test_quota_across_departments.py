"""A project gets back what it is owed, whichever department the borrower is in: from the API to pods that run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

from fairpool.control.store.migrations import downgrade
from tests.control.cluster import Cluster, machine
from tests.control.control_plane import ControlPlane, control_plane, expect
from tests.postgresql import of_sqlite

DEPARTMENTS = "/api/v1/org-unit/departments"
PROJECTS = "/api/v1/org-unit/projects"
UNLIMITED = -1
pytestmark = pytest.mark.slow


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        yield control


@pytest.fixture
def cluster(control: ControlPlane) -> Cluster:
    return Cluster(control)


def department(control: ControlPlane, name: str, gpus: float | None = None, **more: Any) -> Any:
    owed = {"gpu": {} if gpus is None else {"deserved": gpus}, **more}
    return expect(control.call("POST", DEPARTMENTS, {"name": name, "resources": [owed]}), 201)


def borrow_everything(control: ControlPlane, cluster: Cluster, project: str = "team-a") -> list[Any]:
    jobs = [control.train(f"{project}-{number}", project, compute={"gpu": "8"}) for number in range(2)]
    cluster.run(10)
    assert [cluster.phase(job) for job in jobs] == ["Running", "Running"]
    return jobs


def test_a_project_of_another_department_gets_its_quota_out_of_the_box(control: ControlPlane, cluster: Cluster) -> None:
    """The borrower is in the department that is shipped, whose quota was never set."""
    control.project("team-a", 4)
    borrowers = borrow_everything(control, cluster)
    department(control, "research", 8)
    control.project("speech", 4, parentId="research")
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"
    assert sorted(cluster.phase(each) for each in borrowers) == ["Pending", "Running"]


def test_so_does_one_whose_own_department_has_no_quota(control: ControlPlane, cluster: Cluster) -> None:
    for name in ("vision", "research"):
        department(control, name)
    control.project("team-a", 4, parentId="vision")
    control.project("speech", 4, parentId="research")
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_one_of_the_same_department(control: ControlPlane, cluster: Cluster) -> None:
    department(control, "other")  # departments are queues from here on
    control.project("team-a", 4)
    control.project("speech", 4)
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_the_shipped_department_from_a_named_one(control: ControlPlane, cluster: Cluster) -> None:
    department(control, "research", 4)
    control.project("team-a", 4, parentId="research")
    control.project("speech", 4)
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_one_in_an_unlimited_department(control: ControlPlane, cluster: Cluster) -> None:
    department(control, "research", UNLIMITED)
    control.project("team-a", 4)
    control.project("speech", 4, parentId="research")
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_non_preemptible_work_within_quota_gets_it_too(control: ControlPlane, cluster: Cluster) -> None:
    control.project("team-a", 4)
    department(control, "research")
    control.project("speech", 4, parentId="research")
    borrow_everything(control, cluster)
    body = {"name": "note", "projectId": "speech", "spec": {"image": "python", "compute": {"gpu": "4"}}}
    job = expect(control.call("POST", "/api/v1/workloads/workspaces", body), 202)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_a_quota_that_is_raised_while_work_runs_is_honoured(control: ControlPlane, cluster: Cluster) -> None:
    """The department that was never given a quota follows its projects, also while they change."""
    control.project("team-a", 4)
    department(control, "research")
    control.project("speech", 0, parentId="research")
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run(20)
    assert cluster.phase(job) == "Pending"
    owed = {"resources": [{"gpu": {"deserved": 4}}]}
    expect(control.call("PUT", f"{PROJECTS}/speech/resources", owed), 200)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_a_restart_in_between_changes_nothing(control: ControlPlane, cluster: Cluster) -> None:
    control.project("team-a", 4)
    department(control, "research", 8)
    control.project("speech", 4, parentId="research")
    borrow_everything(control, cluster)
    cluster.restart()
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run(2)
    cluster.restart()
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_in_every_node_pool_the_department_follows_what_its_projects_are_owed_there(control: ControlPlane) -> None:
    cluster = Cluster(control, [machine("n1", 4), machine("n2", 4, pool="fast")])
    expect(control.call("POST", "/api/v1/node-pools", {"name": "fast", "labelKey": "pool", "labelValue": "fast"}), 201)
    department(control, "research", 8)  # said for the default pool only
    in_fast = [{"gpu": {"deserved": 0}}, {"nodePool": {"id": "fast"}, "gpu": {"deserved": 2}}]
    for name, parent in (("team-a", "default"), ("speech", "research")):
        body = {"name": name, "parentId": parent, "resources": in_fast}
        expect(control.call("POST", PROJECTS, body), 201)
    first = control.train("borrow", "team-a", compute={"gpu": "4"}, nodePools=["fast"])
    cluster.run(10)
    assert cluster.phase(first) == "Running"
    job = control.train("owed", "speech", compute={"gpu": "2"}, nodePools=["fast"])
    cluster.run()
    assert cluster.phase(job) == "Running"
    assert cluster.shown(job)["currentNodes"] == ["n2"]


def test_work_without_gpus_gets_its_cpu_quota_back(control: ControlPlane) -> None:
    cluster = Cluster(control, [machine("n1", 0)])  # 64 cores
    department(control, "research")
    for name, parent in (("team-a", "default"), ("speech", "research")):
        owed = [{"gpu": {"deserved": 0}, "cpu": {"deserved": 32_000}}]
        expect(control.call("POST", PROJECTS, {"name": name, "parentId": parent, "resources": owed}), 201)
    compute = {"cpuCoreRequest": 32}
    borrowers = [control.train(f"b{number}", "team-a", compute=compute) for number in range(2)]
    cluster.run(10)
    assert [cluster.phase(each) for each in borrowers] == ["Running", "Running"]
    job = control.train("owed", "speech", compute=compute)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_an_unlimited_department_keeps_it_and_is_named(control: ControlPlane, cluster: Cluster) -> None:
    body = {"resources": [{"gpu": {"deserved": UNLIMITED}}]}
    expect(control.call("PATCH", f"{DEPARTMENTS}/default", body), 200)
    control.project("team-a", 4)
    department(control, "research", 8)
    control.project("speech", 4, parentId="research")
    borrow_everything(control, cluster)
    job = control.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Pending"
    said = cluster.shown(job)["phaseMessage"]
    assert "department default has an unlimited quota, so its GPUs never count as over quota" in said
    assert "runai-adm department update default --gpu-quota" in said
    # Taken back, it is what its projects are owed again, and the job starts.
    expect(control.call("PUT", f"{DEPARTMENTS}/default/resources", {"resources": [{"gpu": {"deserved": None}}]}), 200)
    cluster.run()
    assert cluster.phase(job) == "Running"


# --- what is shown of it ---


def test_a_quota_that_was_never_set_is_told_from_an_unlimited_one(control: ControlPlane) -> None:
    control.project("team-a", 5)
    control.project("team-b", 3)
    shown = expect(control.call("GET", f"{DEPARTMENTS}/default"), 200)
    assert "deserved" not in shown["resources"][0]["gpu"]
    assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (False, 8)
    expect(control.call("PATCH", f"{DEPARTMENTS}/default", {"resources": [{"gpu": {"deserved": UNLIMITED}}]}), 200)
    shown = expect(control.call("GET", f"{DEPARTMENTS}/default"), 200)
    assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (True, UNLIMITED)


@of_sqlite
def test_an_unlimited_department_of_an_earlier_version_counts_as_never_set(tmp_path: Path) -> None:
    with control_plane(tmp_path) as control:
        control.project("team-a", 4)
        department(control, "set", 8)
        read = control.pull().revision
    engine = create_engine(f"sqlite:///{tmp_path / 'control.sqlite'}")
    with engine.begin() as connection:
        downgrade(connection, "0004")
        before = connection.execute(text("select document from departments where name = 'default'")).scalar_one()
    engine.dispose()
    assert json.loads(before)["resources"][0]["gpu"]["deserved"] == UNLIMITED
    with control_plane(tmp_path) as control:
        shown = expect(control.call("GET", f"{DEPARTMENTS}/default"), 200)
        assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (False, 4)
        assert expect(control.call("GET", f"{DEPARTMENTS}/set"), 200)["totalResources"]["gpuQuota"] == 8
        assert control.pull(read).organization is not None, "clusters have to hear of it"

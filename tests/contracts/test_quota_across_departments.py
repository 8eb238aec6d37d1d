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
from tests.control.house import House, expect, house

DEPARTMENTS = "/api/v1/org-unit/departments"
PROJECTS = "/api/v1/org-unit/projects"
UNLIMITED = -1
pytestmark = pytest.mark.slow


@pytest.fixture
def home() -> Iterator[House]:
    with house() as home:
        yield home


@pytest.fixture
def cluster(home: House) -> Cluster:
    return Cluster(home)


def department(home: House, name: str, gpus: float | None = None, **more: Any) -> Any:
    owed = {"gpu": {} if gpus is None else {"deserved": gpus}, **more}
    return expect(home.call("POST", DEPARTMENTS, {"name": name, "resources": [owed]}), 201)


def borrow_everything(home: House, cluster: Cluster, project: str = "team-a") -> list[Any]:
    jobs = [home.train(f"{project}-{number}", project, compute={"gpu": "8"}) for number in range(2)]
    cluster.run(10)
    assert [cluster.phase(job) for job in jobs] == ["Running", "Running"]
    return jobs


def test_a_project_of_another_department_gets_its_quota_out_of_the_box(home: House, cluster: Cluster) -> None:
    """The borrower is in the department that is shipped, whose quota was never set."""
    home.project("team-a", 4)
    borrowers = borrow_everything(home, cluster)
    department(home, "research", 8)
    home.project("speech", 4, parentId="research")
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"
    assert sorted(cluster.phase(each) for each in borrowers) == ["Pending", "Running"]


def test_so_does_one_whose_own_department_has_no_quota(home: House, cluster: Cluster) -> None:
    for name in ("vision", "research"):
        department(home, name)
    home.project("team-a", 4, parentId="vision")
    home.project("speech", 4, parentId="research")
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_one_of_the_same_department(home: House, cluster: Cluster) -> None:
    department(home, "other")  # departments are queues from here on
    home.project("team-a", 4)
    home.project("speech", 4)
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_the_shipped_department_from_a_named_one(home: House, cluster: Cluster) -> None:
    department(home, "research", 4)
    home.project("team-a", 4, parentId="research")
    home.project("speech", 4)
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_so_does_one_in_an_unlimited_department(home: House, cluster: Cluster) -> None:
    department(home, "research", UNLIMITED)
    home.project("team-a", 4)
    home.project("speech", 4, parentId="research")
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_non_preemptible_work_within_quota_gets_it_too(home: House, cluster: Cluster) -> None:
    home.project("team-a", 4)
    department(home, "research")
    home.project("speech", 4, parentId="research")
    borrow_everything(home, cluster)
    body = {"name": "note", "projectId": "speech", "spec": {"image": "python", "compute": {"gpu": "4"}}}
    job = expect(home.call("POST", "/api/v1/workloads/workspaces", body), 202)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_a_quota_that_is_raised_while_work_runs_is_honoured(home: House, cluster: Cluster) -> None:
    """The department that was never given a quota follows its projects, also while they change."""
    home.project("team-a", 4)
    department(home, "research")
    home.project("speech", 0, parentId="research")
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run(20)
    assert cluster.phase(job) == "Pending"
    owed = {"resources": [{"gpu": {"deserved": 4}}]}
    expect(home.call("PUT", f"{PROJECTS}/speech/resources", owed), 200)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_a_restart_in_between_changes_nothing(home: House, cluster: Cluster) -> None:
    home.project("team-a", 4)
    department(home, "research", 8)
    home.project("speech", 4, parentId="research")
    borrow_everything(home, cluster)
    cluster.restart()
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run(2)
    cluster.restart()
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_in_every_node_pool_the_department_follows_what_its_projects_are_owed_there(home: House) -> None:
    cluster = Cluster(home, [machine("n1", 4), machine("n2", 4, pool="fast")])
    expect(home.call("POST", "/api/v1/node-pools", {"name": "fast", "labelKey": "pool", "labelValue": "fast"}), 201)
    department(home, "research", 8)  # said for the default pool only
    in_fast = [{"gpu": {"deserved": 0}}, {"nodePool": {"id": "fast"}, "gpu": {"deserved": 2}}]
    for name, parent in (("team-a", "default"), ("speech", "research")):
        body = {"name": name, "parentId": parent, "resources": in_fast}
        expect(home.call("POST", PROJECTS, body), 201)
    first = home.train("borrow", "team-a", compute={"gpu": "4"}, nodePools=["fast"])
    cluster.run(10)
    assert cluster.phase(first) == "Running"
    job = home.train("owed", "speech", compute={"gpu": "2"}, nodePools=["fast"])
    cluster.run()
    assert cluster.phase(job) == "Running"
    assert cluster.shown(job)["currentNodes"] == ["n2"]


def test_work_without_gpus_gets_its_cpu_quota_back(home: House) -> None:
    cluster = Cluster(home, [machine("n1", 0)])  # 64 cores
    department(home, "research")
    for name, parent in (("team-a", "default"), ("speech", "research")):
        owed = [{"gpu": {"deserved": 0}, "cpu": {"deserved": 32_000}}]
        expect(home.call("POST", PROJECTS, {"name": name, "parentId": parent, "resources": owed}), 201)
    compute = {"cpuCoreRequest": 32}
    borrowers = [home.train(f"b{number}", "team-a", compute=compute) for number in range(2)]
    cluster.run(10)
    assert [cluster.phase(each) for each in borrowers] == ["Running", "Running"]
    job = home.train("owed", "speech", compute=compute)
    cluster.run()
    assert cluster.phase(job) == "Running"


def test_an_unlimited_department_keeps_it_and_is_named(home: House, cluster: Cluster) -> None:
    body = {"resources": [{"gpu": {"deserved": UNLIMITED}}]}
    expect(home.call("PATCH", f"{DEPARTMENTS}/default", body), 200)
    home.project("team-a", 4)
    department(home, "research", 8)
    home.project("speech", 4, parentId="research")
    borrow_everything(home, cluster)
    job = home.train("owed", "speech", compute={"gpu": "4"})
    cluster.run()
    assert cluster.phase(job) == "Pending"
    said = cluster.shown(job)["phaseMessage"]
    assert "department default has an unlimited quota, so its GPUs never count as over quota" in said
    assert "runai-adm department update default --gpu-quota" in said
    # Taken back, it is what its projects are owed again, and the job starts.
    expect(home.call("PUT", f"{DEPARTMENTS}/default/resources", {"resources": [{"gpu": {"deserved": None}}]}), 200)
    cluster.run()
    assert cluster.phase(job) == "Running"


# --- what is shown of it ---


def test_a_quota_that_was_never_set_is_told_from_an_unlimited_one(home: House) -> None:
    home.project("team-a", 5)
    home.project("team-b", 3)
    shown = expect(home.call("GET", f"{DEPARTMENTS}/default"), 200)
    assert "deserved" not in shown["resources"][0]["gpu"]
    assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (False, 8)
    expect(home.call("PATCH", f"{DEPARTMENTS}/default", {"resources": [{"gpu": {"deserved": UNLIMITED}}]}), 200)
    shown = expect(home.call("GET", f"{DEPARTMENTS}/default"), 200)
    assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (True, UNLIMITED)


def test_an_unlimited_department_of_an_earlier_version_counts_as_never_set(tmp_path: Path) -> None:
    with house(tmp_path) as home:
        home.project("team-a", 4)
        department(home, "set", 8)
        read = home.pull().revision
    engine = create_engine(f"sqlite:///{tmp_path / 'control.sqlite'}")
    with engine.begin() as connection:
        downgrade(connection, "0004")
        before = connection.execute(text("select document from departments where name = 'default'")).scalar_one()
    engine.dispose()
    assert json.loads(before)["resources"][0]["gpu"]["deserved"] == UNLIMITED
    with house(tmp_path) as home:
        shown = expect(home.call("GET", f"{DEPARTMENTS}/default"), 200)
        assert (shown["quotaIsSet"], shown["totalResources"]["gpuQuota"]) == (False, 4)
        assert expect(home.call("GET", f"{DEPARTMENTS}/set"), 200)["totalResources"]["gpuQuota"] == 8
        assert home.pull(read).organization is not None, "clusters have to hear of it"

"""Two clusters in one control plane: what belongs to one never reaches the other, and none waits for the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from fairpool.api.clusters import EventReport, NodeReport, PodReport
from fairpool.model.ids import NodeName, PodId, PoolName, WorkloadId
from fairpool.model.lifecycle import PodPhase
from tests.control.control_plane import ControlPlane, codes, control_plane, event, expect, gone, node

pytestmark = pytest.mark.slow

PROJECTS, POOLS = "/api/v1/org-unit/projects", "/api/v1/node-pools"
DEPARTMENTS = "/api/v1/org-unit/departments"


class Two:
    """A control plane as each of its two clusters calls it."""

    def __init__(self, first: ControlPlane) -> None:
        made = expect(first.call("POST", "/api/v1/clusters", {"name": "second"}), 201)
        self.first = first
        self.second = replace(first, cluster=made["uuid"], cluster_token=made["token"], report_number=0)
        for cluster, name in ((self.first, "team-a"), (self.second, "team-b")):
            cluster.project(name, clusterId=cluster.cluster)
            cluster.push(cluster.report(whole=True, nodes=(node("n1", 8 if cluster is first else 2),)))


@pytest.fixture
def two() -> Iterator[Two]:
    with control_plane() as control:
        yield Two(control)


def names(answer: Any, noun: str) -> list[str]:
    return [each["name"] for each in expect(answer, 200)[noun]]


def test_a_new_project_needs_to_name_its_cluster(two: Two) -> None:
    answer = two.first.call("POST", PROJECTS, {"name": "team-c"})
    assert (answer.status_code, codes(answer)) == (422, ["cluster.not_named"])
    assert "local, second" in answer.text
    by_name = expect(two.first.call("POST", PROJECTS, {"name": "team-c", "clusterId": "second"}), 201)
    assert by_name["clusterId"] == two.second.cluster


def test_shares_are_those_of_one_cluster(two: Two) -> None:
    unnamed = two.first.call("GET", "/api/v1/shares")
    assert (unnamed.status_code, codes(unnamed)) == (422, ["cluster.not_named"])
    away = two.first.call("GET", "/api/v1/shares", params={"clusterId": "second"})
    assert (away.status_code, codes(away)) == (503, ["cluster.away"])


def test_each_cluster_pulls_its_own_workloads_projects_and_nothing_of_the_other(two: Two) -> None:
    mine, theirs = two.first.train("mine", "team-a")["id"], two.first.train("theirs", "team-b")["id"]
    for cluster, workload, project in ((two.first, mine, "team-a"), (two.second, theirs, "team-b")):
        answer = cluster.pull()
        assert [each.id for each in answer.workloads] == [workload]
        assert answer.organization is not None
        queues = {each.id for each in answer.organization.queues[PoolName("default")]}
        assert project in queues
        assert not queues & {"team-a", "team-b"} - {project}


def test_a_change_in_one_cluster_names_nothing_of_it_to_the_other(two: Two) -> None:
    read = two.second.pull().revision
    mine = two.first.train("mine", "team-a")["id"]
    expect(two.first.call("DELETE", f"/api/v1/workloads/{mine}"), 202)
    two.first.push(two.first.report(gone=(gone(mine),)))
    answer = two.second.pull(read)
    assert (answer.workloads, answer.removed) == ((), ())
    assert two.first.pull(read).removed == (mine,)


def test_no_cluster_reports_or_removes_the_work_of_another(two: Two) -> None:
    mine = two.first.train("mine", "team-a")["id"]
    two.second.push(two.second.report(workloads=(two.second.runs(mine),), events=(event(1, mine),)))
    two.second.push(two.second.report(gone=(gone(mine),)))
    shown = expect(two.first.call("GET", f"/api/v1/workloads/{mine}"), 200)
    assert (shown["phase"], shown["runningPods"]) == ("Creating", 0)
    assert expect(two.first.call("GET", f"/api/v1/workloads/{mine}/events"), 200)["events"] == []
    two.first.push(two.first.report(events=(event(1, mine),)))
    assert len(expect(two.first.call("GET", f"/api/v1/workloads/{mine}/events"), 200)["events"]) == 1


def test_no_cluster_reports_the_pods_of_another_as_its_own(two: Two) -> None:
    mine, theirs = two.first.train("mine", "team-a")["id"], two.first.train("theirs", "team-b")["id"]
    two.first.push(two.first.report(workloads=(two.first.runs(mine),)))
    stolen = PodReport(id=PodId(f"{mine}-0-0"), index=0, incarnation=0, phase=PodPhase.ENDED, node=NodeName("n1"))
    claimed = two.second.runs(theirs).model_copy(update={"pods": (stolen,)})
    ended = EventReport(
        number=2, at=two.second.clock.now, kind="ended", workload=WorkloadId(theirs), pod=PodId(f"{mine}-0-0")
    )
    two.second.push(two.second.report(workloads=(claimed,), events=(ended,)))
    (pod,) = expect(two.first.call("GET", f"/api/v1/workloads/{mine}/pods"), 200)["pods"]
    assert pod["phase"] == "running"


def test_nodes_of_the_same_name_are_two_nodes(two: Two) -> None:
    listed = expect(two.first.call("GET", "/api/v1/nodes"), 200)["nodes"]
    assert [(each["name"], each["clusterUuid"]) for each in listed] == [
        ("n1", cluster) for cluster in sorted((two.first.cluster, two.second.cluster))
    ]
    of_second = two.first.call("GET", f"/api/v1/nodes?filterBy=clusterId=={two.second.cluster}")
    assert [each["gpuInfo"]["gpuCount"] for each in expect(of_second, 200)["nodes"]] == [2]


def test_what_can_never_start_is_judged_by_the_nodes_of_its_own_cluster(two: Two) -> None:
    large = {"image": "quickstart", "compute": {"gpu": "4"}}
    body = {"name": "large", "projectId": "team-b", "spec": large}
    answer = two.first.call("POST", "/api/v1/workloads/trainings", body)
    assert (answer.status_code, codes(answer)) == (422, ["node.too_small"])
    expect(two.first.call("POST", "/api/v1/workloads/trainings", body | {"projectId": "team-a"}), 202)


def test_images_of_one_cluster_are_not_those_of_the_other(two: Two) -> None:
    only = NodeReport(name=NodeName("n1"), pool=PoolName("default"), gpus=8, images=("python*",))
    two.second.push(two.second.report(nodes=(only,)))
    body = {"name": "other", "spec": {"image": "quickstart", "compute": {"gpu": "1"}}}
    refused = two.first.call("POST", "/api/v1/workloads/trainings", body | {"projectId": "team-b"})
    assert refused.status_code == 422
    expect(two.first.call("POST", "/api/v1/workloads/trainings", body | {"projectId": "team-a"}), 202)


def test_a_node_pool_of_one_cluster_is_not_known_in_the_other(two: Two) -> None:
    body = {"name": "fast", "labelKey": "kind", "labelValue": "fast", "clusterId": "second"}
    made = expect(two.first.call("POST", POOLS, body), 201)
    assert made["clusterId"] == two.second.cluster
    for cluster, knows in ((two.first, False), (two.second, True)):
        organization = cluster.pull().organization
        assert organization is not None
        assert ("fast" in {each.name for each in organization.pools}) is knows
        assert ("fast" in organization.queues) is knows
    quota = {"resources": [{"nodePool": {"name": "fast"}, "gpu": {"deserved": 1}}]}
    answer = two.first.call("PATCH", f"{PROJECTS}/team-a", quota)
    assert (answer.status_code, codes(answer)) == (422, ["pool.unknown"])
    expect(two.first.call("PATCH", f"{PROJECTS}/team-b", quota), 200)
    spec = {"image": "quickstart", "compute": {"gpu": "1"}, "nodePools": ["fast"]}
    job = {"name": "j", "projectId": "team-a", "spec": spec, "waitAnyway": True}
    assert two.first.call("POST", "/api/v1/workloads/trainings", job).status_code == 422
    expect(two.first.call("POST", "/api/v1/workloads/trainings", job | {"projectId": "team-b"}), 202)


def test_a_pool_of_all_clusters_has_the_nodes_of_all_and_one_of_a_cluster_only_its_own(two: Two) -> None:
    where: dict[str, dict[str, str]] = {"wide": {}, "narrow": {"clusterId": "second"}}
    for name, said in where.items():
        expect(two.first.call("POST", POOLS, {"name": name, "labelKey": name, "labelValue": "x", **said}), 201)
    for cluster, prefix in ((two.first, "a"), (two.second, "b")):
        nodes = tuple(
            NodeReport(name=NodeName(f"{prefix}-{pool}"), pool=PoolName(pool), gpus=1) for pool in ("wide", "narrow")
        )
        cluster.push(cluster.report(nodes=nodes))
    pools = {each["name"]: each["nodes"] for each in expect(two.first.call("GET", POOLS), 200)["nodepools"]}
    assert (pools["wide"], pools["narrow"]) == (["a-wide", "b-wide"], ["b-narrow"])


def test_what_was_created_for_one_cluster_stays_there(two: Two) -> None:
    expect(two.first.call("POST", DEPARTMENTS, {"name": "there", "clusterId": "second"}), 201)
    answer = two.first.call("PUT", f"{DEPARTMENTS}/there", {"name": "there", "clusterId": "local"})
    assert (answer.status_code, codes(answer)) == (409, ["cluster.fixed"])
    assert expect(two.first.call("PUT", f"{DEPARTMENTS}/there", {"name": "there"}), 200)["clusterId"]
    answer = two.first.call("PUT", f"{PROJECTS}/team-a", {"name": "team-a", "clusterId": "second"})
    assert (answer.status_code, codes(answer)) == (409, ["cluster.fixed"])
    answer = two.first.call("PATCH", f"{PROJECTS}/team-a", {"parentId": "there"})
    assert (answer.status_code, codes(answer)) == (422, ["department.elsewhere"])
    expect(two.first.call("PATCH", f"{PROJECTS}/team-b", {"parentId": "there"}), 200)


def test_an_unknown_cluster_is_refused_with_those_there_are(two: Two) -> None:
    pool = {"name": "p", "labelKey": "a", "labelValue": "b", "clusterId": "third"}
    for path, body in ((POOLS, pool), (DEPARTMENTS, {"name": "d", "clusterId": "third"})):
        answer = two.first.call("POST", path, body)
        assert (answer.status_code, codes(answer)) == (422, ["cluster.unknown"])
        assert "local, second" in answer.text
    assert two.first.call("GET", "/api/v1/overview?clusterId=third").status_code == 404


def test_department_quota_counts_in_each_cluster_on_its_own(two: Two) -> None:
    expect(two.first.call("PATCH", f"{DEPARTMENTS}/default", {"resources": [{"gpu": {"deserved": 6}}]}), 200)
    for cluster in (two.first, two.second):
        organization = cluster.pull().organization
        assert organization is not None
        (department,) = [each for each in organization.queues[PoolName("default")] if each.parent is None]
        assert department.gpu.quota == 6000


def test_the_overview_of_one_cluster_has_nothing_of_the_other(two: Two) -> None:
    for cluster, project in ((two.first, "team-a"), (two.second, "team-b")):
        workload = two.first.train(f"{project}-job", project)["id"]
        cluster.push(cluster.report(workloads=(cluster.runs(workload),)))
    everything = expect(two.first.call("GET", "/api/v1/overview"), 200)
    assert len(everything["nodes"]) == len(everything["workloads"]) == 2
    shown = expect(two.first.call("GET", "/api/v1/overview?clusterId=second"), 200)
    assert [each["clusterUuid"] for each in shown["nodes"]] == [two.second.cluster]
    assert [each["name"] for each in shown["projects"]] == ["team-b"]
    assert [each["name"] for each in shown["workloads"]] == ["team-b-job"]


def test_a_cluster_that_is_away_changes_nothing_for_the_other(two: Two) -> None:
    two.first.train("theirs", "team-b")
    two.first.clock.turn(3600)
    mine = two.first.train("mine", "team-a", compute={"gpu": "4"})["id"]
    assert [each.id for each in two.first.pull().workloads] == [mine]
    two.first.push(two.first.report(workloads=(two.first.runs(mine),)))
    assert expect(two.first.call("GET", f"/api/v1/workloads/{mine}"), 200)["phase"] == "Running"
    states = {each["name"]: each["status"] for each in expect(two.first.call("GET", "/api/v1/clusters"), 200)}
    assert states["local"] != states["second"]
    expect(two.first.call("POST", PROJECTS, {"name": "team-c", "clusterId": "second"}), 201)


def test_a_cluster_goes_when_nothing_is_declared_for_it(two: Two) -> None:
    expect(two.first.call("POST", POOLS, {"name": "p", "labelKey": "a", "labelValue": "b", "clusterId": "second"}), 201)
    expect(two.first.call("DELETE", f"{PROJECTS}/team-b"), 202)
    answer = two.first.call("DELETE", f"/api/v1/clusters/{two.second.cluster}")
    assert (answer.status_code, codes(answer)) == (412, ["cluster.has_pools"])
    expect(two.first.call("DELETE", f"{POOLS}/p"), 204)
    expect(two.first.call("DELETE", f"/api/v1/clusters/{two.second.cluster}"), 204)
    assert names(two.first.call("GET", "/api/v1/nodes"), "nodes") == ["n1"]
    expect(two.first.call("POST", PROJECTS, {"name": "team-c"}), 201)

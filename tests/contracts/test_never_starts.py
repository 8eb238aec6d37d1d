"""What can never start is refused at submit, over the API: with the figure, and not when it might start after all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api.clusters import NodeReport
from fairpool.model.ids import NodeName, PoolName
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

DEPARTMENTS = "/api/v1/org-unit/departments"
PROJECTS = "/api/v1/org-unit/projects"
TRAININGS = "/api/v1/workloads/trainings"
WORKSPACES = "/api/v1/workloads/workspaces"
JOBS = "/researcher/api/v1/jobs"


@pytest.fixture
def control() -> Iterator[ControlPlane]:
    with control_plane() as control:
        control.project("team-a")
        nodes = tuple(NodeReport(name=NodeName(name), pool=PoolName("default"), gpus=8) for name in ("n1", "n2"))
        control.push(control.report(whole=True, nodes=nodes))
        yield control


def submit(control: ControlPlane, gpus: str, path: str = TRAININGS, **more: Any) -> Any:
    body = {"name": "big", "projectId": "team-a", "spec": {"image": "python", "compute": {"gpu": gpus}}, **more}
    return control.call("POST", path, body)


def test_a_pod_larger_than_any_node_is_refused_with_the_figure(control: ControlPlane) -> None:
    refused = submit(control, "20")
    assert (refused.status_code, codes(refused)) == (422, ["node.too_small"])
    assert "the largest node in node pool default has 8 GPUs" in refused.text
    expect(submit(control, "20", waitAnyway=True), 202)


def test_the_older_api_refuses_it_too_and_takes_the_same_answer(control: ControlPlane) -> None:
    body = {"name": "big", "project": "team-a", "image": "python", "gpu": "20"}
    assert codes(control.call("POST", JOBS, body)) == ["node.too_small"]
    expect(control.call("POST", JOBS, {**body, "waitAnyway": True}), 202)


def test_drained_nodes_count_as_there(control: ControlPlane) -> None:
    for name in ("n1", "n2"):
        overrides = {"cordoned": True, "taints": [{"key": "runai", "value": "drain", "effect": "NoExecute"}]}
        expect(control.call("PUT", f"/api/v1/nodes/{name}/overrides", overrides), 200)
    expect(submit(control, "8"), 202)


def test_a_label_that_an_administrator_gave_counts(control: ControlPlane) -> None:
    spec = {"image": "python", "compute": {"gpu": "1"}, "nodeType": "a100"}
    assert codes(submit(control, "1", spec=spec)) == ["node.none_matches"]
    expect(control.call("PUT", "/api/v1/nodes/n1/overrides", {"labels": {"run.ai/type": "a100"}}), 200)
    expect(submit(control, "1", spec=spec), 202)


def test_a_pool_without_nodes_is_named(control: ControlPlane) -> None:
    expect(control.call("POST", "/api/v1/node-pools", {"name": "fast", "labelKey": "p", "labelValue": "fast"}), 201)
    spec = {"image": "python", "compute": {"gpu": "1"}, "nodePools": ["fast"]}
    assert codes(submit(control, "1", spec=spec)) == ["pool.empty"]
    expect(submit(control, "1", spec={**spec, "nodePools": ["fast", "default"]}), 202)


def test_a_node_labelled_for_a_pool_counts_there_before_the_cluster_reports_it_again(control: ControlPlane) -> None:
    expect(control.call("POST", "/api/v1/node-pools", {"name": "fast", "labelKey": "p", "labelValue": "fast"}), 201)
    expect(control.call("PUT", "/api/v1/nodes/n1/overrides", {"labels": {"p": "fast"}}), 200)
    spec = {"image": "python", "compute": {"gpu": "1"}, "nodePools": ["fast"]}
    expect(submit(control, "1", spec=spec), 202)


def test_nothing_is_refused_for_its_size_while_the_cluster_is_away(control: ControlPlane) -> None:
    control.clock.turn(120)
    expect(submit(control, "20"), 202)


def test_limits_of_project_and_department_and_quotas_of_non_preemptible_work_are_kept(control: ControlPlane) -> None:
    assert codes(submit(control, "5", WORKSPACES)) == ["project.over_quota"]
    owed: dict[str, Any] = {"resources": [{"gpu": {"deserved": 4, "limit": 5}}]}
    expect(control.call("PUT", f"{PROJECTS}/team-a/resources", owed), 200)
    assert codes(submit(control, "6")) == ["project.over_limit"]
    owed = {"resources": [{"gpu": {"deserved": 4, "overQuota": "off"}}]}
    expect(control.call("PUT", f"{PROJECTS}/team-a/resources", owed), 200)
    assert "over quota is off" in submit(control, "6").text
    expect(control.call("PUT", f"{PROJECTS}/team-a/resources", {"resources": [{"gpu": {"deserved": 4}}]}), 200)
    expect(control.call("PATCH", f"{DEPARTMENTS}/default", {"resources": [{"gpu": {"limit": 5}}]}), 200)
    assert codes(submit(control, "6")) == ["department.over_limit"]


def test_a_department_that_follows_its_projects_refuses_nothing_within_their_quota(control: ControlPlane) -> None:
    expect(control.call("POST", DEPARTMENTS, {"name": "research"}), 201)
    expect(submit(control, "4", WORKSPACES), 202)

"""What can never start is refused at submit, over the API: with the figure, and not when it might start after all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fairpool.api.clusters import NodeReport
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import NodeName, PoolName
from fairpool.model.node import RUNTIME_LABEL
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

DEPARTMENTS = "/api/v1/org-unit/departments"
PROJECTS = "/api/v1/org-unit/projects"
TRAININGS = "/api/v1/workloads/trainings"
WORKSPACES = "/api/v1/workloads/workspaces"
DISTRIBUTED = "/api/v1/workloads/distributed"
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


def in_containers(control: ControlPlane, *privileges: Privilege, runtime: str = "podman", known: bool = True) -> None:
    """All nodes of the cluster run containers, which may have these privileges."""
    nodes = tuple(
        NodeReport(
            name=NodeName(name),
            pool=PoolName("default"),
            gpus=8,
            labels={RUNTIME_LABEL: runtime},
            privileges=privileges if known else None,
        )
        for name in ("n1", "n2")
    )
    control.push(control.report(whole=True, nodes=nodes))


ROOT = {"uidGidSource": "custom", "runAsUid": 0, "runAsGid": 0}
ASKED = [
    (TRAININGS, {"security": {"hostNetwork": True}}, Privilege.HOST_NETWORK, "security.host_network"),
    (TRAININGS, {"security": {"hostIpc": True}}, Privilege.HOST_IPC, "security.host_ipc"),
    (TRAININGS, {"security": ROOT}, Privilege.USER, "security.user"),
    (TRAININGS, {"security": {"uidGidSource": "fromTheImage"}}, Privilege.USER, "security.user"),
    (TRAININGS, {"security": {"capabilities": ["NET_ADMIN"]}}, Privilege.CAPABILITIES, "security.capabilities"),
    (DISTRIBUTED, {"numWorkers": 2, "distributedFramework": "PyTorch"}, Privilege.HOST_NETWORK, "runtime.distributed"),
]


@pytest.mark.parametrize(("path", "asked", "privilege", "code"), ASKED)
def test_what_no_node_gives_its_containers_is_refused_with_the_privilege_to_ask_for(
    control: ControlPlane, path: str, asked: dict[str, Any], privilege: Privilege, code: str
) -> None:
    spec = {"image": "python", "compute": {"gpu": "1"}, **asked}
    in_containers(control, *(set(Privilege) - {privilege}))
    for query in ("", "?dryRun=true"):
        refused = submit(control, "1", f"{path}{query}", spec=spec)
        assert (refused.status_code, codes(refused)) == (422, [code])
        assert f"--allow-privilege {privilege.value}" in refused.text
    expect(submit(control, "1", path, spec=spec, name="anyway", waitAnyway=True), 202)
    in_containers(control, privilege)
    expect(submit(control, "1", path, spec=spec), 202)
    in_containers(control, known=False)
    expect(submit(control, "1", path, spec=spec, name="unknown"), 202)


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        ({"environmentVariables": [{"name": "PEM", "value": "one\ntwo"}]}, "environment.lines"),
        ({"environmentVariables": [{"name": "BIG", "value": "x" * 60_001}]}, "environment.long"),
        ({"pythonEnv": "/srv/env"}, "python_env.container"),
    ],
)
def test_what_no_container_can_be_given_is_refused(control: ControlPlane, asked: dict[str, Any], code: str) -> None:
    spec = {"image": "python", "compute": {"gpu": "1"}, **asked}
    in_containers(control, *Privilege)
    assert codes(submit(control, "1", spec=spec)) == [code]
    assert codes(submit(control, "1", f"{TRAININGS}?dryRun=true", spec=spec)) == [code]


def test_capabilities_for_other_users_than_root_are_refused_where_docker_runs_containers(control: ControlPlane) -> None:
    in_containers(control, *Privilege, runtime="docker")
    spec: dict[str, Any] = {"image": "python", "compute": {"gpu": "1"}, "security": {"capabilities": ["NET_ADMIN"]}}
    refused = submit(control, "1", spec=spec)
    assert codes(refused) == ["security.capabilities"]
    assert "docker gives capabilities to root only (NET_ADMIN)" in refused.text
    expect(submit(control, "1", spec={**spec, "security": {**spec["security"], **ROOT}}), 202)


def test_one_node_that_can_run_it_is_enough(control: ControlPlane) -> None:
    nodes = (
        NodeReport(name=NodeName("n1"), pool=PoolName("default"), gpus=8, labels={RUNTIME_LABEL: "podman"}),
        NodeReport(name=NodeName("n2"), pool=PoolName("default"), gpus=8, images=("python",)),
    )
    control.push(control.report(whole=True, nodes=nodes))
    spec = {"image": "python", "environmentVariables": [{"name": "PEM", "value": "one\ntwo"}]}
    expect(submit(control, "1", spec=spec), 202)
    assert codes(submit(control, "1", spec={**spec, "image": "trainer:1"}, name="other")) == ["environment.lines"]

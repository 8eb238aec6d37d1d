"""The program with the account of its chart and nothing more: what it needs it may do, from the namespace of a project
to secrets, claims, services and the end of a project."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.api.workload_spec import SubmitTraining, SubmitWorkspace
from tests.kubernetes import control_plane as parts
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, fake_nodes
from tests.kubernetes.helm import CLUSTER, Helm
from tests.kubernetes.typist import KubernetesClusterProcess
from tests.monitoring import until
from tests.two_programs import ControlProcess, control_at

pytestmark = pytest.mark.slow

ACCOUNT, NAMESPACE, PROJECT = "fairpool-cluster", "runai", "team-a"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ControlPlane]:
    """With the chart installed; its pod is never started, because the nodes are no machines."""
    with parts.control_plane(tmp_path / "kubernetes") as cluster:
        helm = Helm(tmp_path, cluster.kubeconfig())
        where = ("--namespace", NAMESPACE, "--create-namespace")
        helm.run("install", "fairpool", str(CLUSTER), *where, *helm.values(CLUSTER, {"replicas": 1}))
        with fake_nodes(cluster, 2), FakeKubelet(cluster):
            yield cluster


def account_kubeconfig(cluster: ControlPlane, folder: Path) -> Path:
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{ACCOUNT}/token"
    cluster.tokens[ACCOUNT] = cluster.admin.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    return cluster.kubeconfig(ACCOUNT, folder=folder)


def test_everything_works_with_the_permissions_of_the_chart(cluster: ControlPlane, tmp_path: Path) -> None:
    """F-215: also who may do what in the namespace of a project."""
    with control_at(tmp_path) as control:
        flags = ("--kubeconfig", str(account_kubeconfig(cluster, tmp_path)), "--namespace", NAMESPACE)
        shares = ("--reservation-image", "busybox", "--unenforced-shares", "yes")
        token = control.token_file("east")
        program = KubernetesClusterProcess(
            tmp_path / "data", control.address, token, tmp_path / "config", *flags, *shares
        )
        try:
            program.up()
            use_everything(cluster, control)
            log = program.data_directory.log.read_text(encoding="utf-8")
            assert [line for line in log.splitlines() if "orbidden" in line or "cannot be watched" in line] == []
        except BaseException:
            print(program.data_directory.log.read_text(encoding="utf-8")[-8000:])
            raise
        finally:
            program.kill()


def use_everything(cluster: ControlPlane, control: ControlProcess) -> None:
    client, admin = control.administrator(), cluster.admin
    body = {"name": PROJECT, "clusterId": "east", "resources": [{"gpu": {"deserved": 4}}]}
    client.create_project(ProjectRequest.model_validate(body))
    client.create_user({"email": "ann@example.com", "password": "correct horse", "needToChangePassword": False})
    rule = {"subjectId": "ann@example.com", "roleId": "researcher", "scopeType": "project", "scopeId": PROJECT}
    client.create_access_rule(rule)
    namespace = f"/api/v1/namespaces/runai-{PROJECT}"
    until(lambda: admin.find(namespace), "the namespace of the project is there")
    bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/runai-{PROJECT}/rolebindings"
    until(lambda: "ann@example.com" in members(admin.find(f"{bindings}/runai-project-member")), "ann is a member")

    whole = submitted(client, "whole", {"gpu": "1"})
    shared = submitted(client, "shared", {"gpu": "0.5"})
    until(lambda: {client.workload(each).phase for each in (whole, shared)} == {"Running"}, "both run")
    for each in (whole, shared):
        client.delete_workload(each)
    until(lambda: not own_pods(cluster), "all pods are gone")
    client.delete_project(PROJECT)
    until(lambda: is_going(admin.find(namespace)), "its namespace is deleted with it")


def members(binding: Any | None) -> list[str]:
    return [each["name"] for each in binding["subjects"]] if binding else []


def submitted(client: Client, name: str, compute: dict[str, str]) -> str:
    ports = [{"container": 8888, "serviceType": "NodePort"}]
    spec = {"image": "busybox", "command": "sleep", "args": "1000", "compute": compute}
    if name == "whole":
        workspace = {"name": name, "projectId": PROJECT, "spec": {**spec, "ports": ports}}
        return client.submit(SubmitWorkspace.model_validate(workspace)).id
    return client.submit(SubmitTraining.model_validate({"name": name, "projectId": PROJECT, "spec": spec})).id


def own_pods(cluster: ControlPlane) -> list[Any]:
    return list(cluster.admin.get("/api/v1/pods?labelSelector=app.kubernetes.io/managed-by%3Dfairpool")["items"])


def is_going(namespace: Any | None) -> bool:
    return namespace is None or "deletionTimestamp" in namespace["metadata"]

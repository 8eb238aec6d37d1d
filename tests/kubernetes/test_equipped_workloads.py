"""The two programs and a real API server: what a workload is given beside its pods, and how people see it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.calls import Refused
from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.api.workload_spec import SubmitTraining, SubmitWorkspace
from tests.kubernetes import control_plane as parts
from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, fake_nodes
from tests.kubernetes.load_balancer import load_balancer
from tests.kubernetes.typist import KubernetesClusterProcess
from tests.monitoring import until
from tests.two_programs import ControlProcess

pytestmark = pytest.mark.slow
PROJECT = "team-a"
PLACE = f"/api/v1/namespaces/runai-{PROJECT}"
CLASS = {
    "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
    "provisioner": "tests/none",
}


class Platform:
    """Control plane, cluster program and API server, with one project."""

    def __init__(self, plane: ControlPlane, control: ControlProcess) -> None:
        self.plane, self.control, self.client = plane, control, control.administrator()

    def submit(self, name: str, **spec: Any) -> str:
        said = {"image": "busybox", "command": "sleep", "args": "1000", "compute": {"gpu": "0"}, **spec}
        body = {"name": name, "projectId": PROJECT, "spec": said}
        return self.client.submit(SubmitWorkspace.model_validate(body)).id

    def knows_the_classes(self) -> bool:
        address, token = self.control.address, self.control.owner_token()
        asked = urllib.request.Request(
            f"{address}/api/v2/storage-classes", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(asked, timeout=10) as answer:
            return [each["storageClassName"] for each in json.load(answer)["items"]] == ["standard"]

    def until_running(self, workload: str) -> Any:
        return until(lambda: (it := self.client.workload(workload)).phase == "Running" and it, f"{workload} runs")


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder: Path = tmp_path_factory.mktemp("equipped")
    users = {**parts.USERS, "ann@example.com": ()}
    with (
        parts.control_plane(folder / "kubernetes", users=users) as plane,
        fake_nodes(plane, 2),
        FakeKubelet(plane),
        load_balancer(plane),
    ):
        plane.admin.create("/apis/storage.k8s.io/v1/storageclasses", CLASS)
        control = ControlProcess(folder / "control", folder / "config")
        control.up()
        flags = ("--kubeconfig", str(plane.kubeconfig()))
        token = control.token_file("east")
        program = KubernetesClusterProcess(folder / "data", control.address, token, folder / "config", *flags)
        try:
            program.up()
            found = Platform(plane, control)
            body = {"name": PROJECT, "clusterId": "east", "resources": [{"gpu": {"deserved": 4}}]}
            found.client.create_project(ProjectRequest.model_validate(body))
            until(found.knows_the_classes, "the control plane knows the objects of the cluster")
            yield found
        except BaseException:
            print(program.data_directory.log.read_text(encoding="utf-8")[-8000:])
            raise
        finally:
            program.kill()
            control.kill()


def test_the_address_that_the_cluster_gave_is_the_url_of_the_job(platform: Platform) -> None:
    port = {"container": 80, "external": 8080, "serviceType": "LoadBalancer"}
    made = platform.submit("served", ports=[port])
    platform.until_running(made)
    (url,) = until(lambda: _other_than(platform.client, made, "http://127.0.0.1"), "it has the address")
    assert url.startswith("http://192.0.2.")
    assert url.endswith(":8080")
    platform.client.delete_workload(made)
    services = f"{PLACE}/services"
    until(lambda: not platform.plane.admin.get(services)["items"], "its services go with it")


def _other_than(client: Client, workload: str, beginning: str) -> list[str]:
    return [each for each in client.workload(workload).urls if not each.startswith(beginning)]


def test_a_claim_is_made_of_the_default_class_mounted_again_and_deleted_with_its_data(platform: Platform) -> None:
    admin = platform.plane.admin
    new = {"claimName": "data", "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi"}}
    first = platform.submit("first", storage={"pvc": [new]})
    platform.until_running(first)
    claim = admin.get(f"{PLACE}/persistentvolumeclaims/data")
    assert claim["spec"]["storageClassName"] == "standard"
    assert claim["spec"]["resources"]["requests"]["storage"] == "1Gi"
    platform.client.delete_workload(first)
    second = platform.submit("second", storage={"pvc": [{"claimName": "data", "path": "/d"}]})
    platform.until_running(second)
    assert admin.get(f"{PLACE}/persistentvolumeclaims/data")["metadata"]["uid"] == claim["metadata"]["uid"]
    platform.client.delete_workload(second)
    until(lambda: not _pods(platform, "first") and not _pods(platform, "second"), "no pod mounts it")
    platform.client.delete_claim(PROJECT, "data")
    until(lambda: _is_going(admin.find(f"{PLACE}/persistentvolumeclaims/data")), "it is deleted with its data")


def test_a_claim_that_was_made_by_hand_can_be_mounted(platform: Platform) -> None:
    admin = platform.plane.admin
    until(lambda: admin.find(PLACE), "the namespace is there")
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}
    made = admin.create(f"{PLACE}/persistentvolumeclaims", {"metadata": {"name": "by-hand"}, "spec": spec})
    body = {"name": "mounts", "projectId": PROJECT}
    said = {"image": "busybox", "command": "true", "storage": {"pvc": [{"claimName": "by-hand", "path": "/d"}]}}
    asked = SubmitTraining.model_validate({**body, "spec": said})
    until(lambda: _accepts(platform.client, asked), "the control plane knows it")
    (pod,) = until(lambda: _pods(platform, "mounts"), "its pod is there")
    (volume,) = pod["spec"]["volumes"][:1]
    assert volume["persistentVolumeClaim"]["claimName"] == "by-hand"
    now = admin.get(f"{PLACE}/persistentvolumeclaims/by-hand")["metadata"]
    assert now["uid"] == made["metadata"]["uid"]
    assert now.get("labels") is None


def _accepts(client: Client, asked: SubmitTraining) -> bool:
    try:
        client.submit(asked)
    except Refused:
        return False
    return True


def test_a_member_of_the_project_sees_it_with_kubectl_from_the_next_exchange_on(platform: Platform) -> None:
    ann = platform.plane.calls("ann@example.com")
    with pytest.raises(ApiError, match="403"):
        ann.get(f"{PLACE}/pods")
    body = {"email": "ann@example.com", "password": "correct horse", "needToChangePassword": False}
    user = platform.client.create_user(body)
    rule = {"subjectId": user.id, "roleId": "researcher", "scopeType": "project", "scopeId": PROJECT}
    made = platform.client.create_access_rule(rule)
    until(lambda: _sees(ann, f"{PLACE}/pods"), "she sees the pods")
    assert not _sees(ann, f"{PLACE}/secrets")
    assert not _sees(ann, "/api/v1/namespaces/default/pods")
    platform.client.delete_access_rule(made.id)
    until(lambda: not _sees(ann, f"{PLACE}/pods"), "she does not any more")


def _sees(calls: Any, path: str) -> bool:
    try:
        calls.get(path)
    except ApiError:
        return False
    return True


def _pods(platform: Platform, workload: str) -> list[Any]:
    return list(platform.plane.admin.get(f"{PLACE}/pods?labelSelector=release%3D{workload}")["items"])


def _is_going(found: Any | None) -> bool:
    return found is None or "deletionTimestamp" in found["metadata"]

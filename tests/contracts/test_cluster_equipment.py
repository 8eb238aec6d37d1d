"""What a cluster with objects of its own tells its control plane, and what it learns from it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.api.cluster_equipment import CLUSTER_EQUIPMENT, EquipmentAnswer, EquipmentReport
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import QueueId, WorkloadId
from fairpool.model.spec import Exposure, ServicePort
from tests.control.control_plane import ControlPlane, codes, control_plane, expect

TEAM = QueueId("team-a")


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlPlane]:
    with control_plane(tmp_path / "data", pod_host="box") as made:
        made.project("team-a")
        made.project("team-b")
        yield made


def exchange(control: ControlPlane, **report: Any) -> EquipmentAnswer:
    headers = {"Authorization": f"Bearer {control.cluster_token}"}
    answer = control.http.post(CLUSTER_EQUIPMENT, content=EquipmentReport(**report).to_json(), headers=headers)
    assert answer.status_code == 200, answer.text
    return EquipmentAnswer.from_json(answer.content)


def urls(control: ControlPlane, workload: str) -> list[str]:
    return list(expect(control.call("GET", f"/api/v1/workloads/{workload}"), 200)["urls"])


def new_claim(name: str = "data", **info: Any) -> dict[str, Any]:
    return {"pvc": [{"claimName": name, "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi", **info}}]}


def submitted(control: ControlPlane, **spec: Any) -> Any:
    body = {"name": "t2", "projectId": "team-a", "spec": {"image": "quickstart", **spec}}
    return control.call("POST", "/api/v1/workloads/trainings", body)


def test_a_workload_is_sent_with_its_services(control: ControlPlane) -> None:
    ports = [
        {"container": 8888, "serviceType": "Ingress"},
        {"container": 22, "serviceType": "NodePort"},
        {"container": 80, "external": 8080, "serviceType": "LoadBalancer"},
        {"container": 9000},
        {"container": 9001, "serviceType": "PortForward"},
    ]
    control.train("t1", ports=ports)
    (sent,) = control.pull().workloads
    assert sent.to_spec().template.program.services == (
        ServicePort(port=8888, exposure=Exposure.INGRESS),
        ServicePort(port=9000),
        ServicePort(port=22, exposure=Exposure.NODE_PORT, external=30_000),
        ServicePort(port=80, exposure=Exposure.LOAD_BALANCER, external=8080),
    )


def test_reported_addresses_are_shown_while_pods_run_and_survive_a_change(control: ControlPlane) -> None:
    ports = [{"container": 22, "external": 30_022, "serviceType": "NodePort"}]
    made = control.train("t1", ports=ports)["id"]
    exchange(control, addresses={WorkloadId(made): ("http://10.0.0.9:30022",)})
    assert urls(control, made) == []
    control.push(control.report(whole=True, workloads=(control.runs(made),)))
    assert urls(control, made) == ["http://10.0.0.9:30022"]
    expect(control.call("PATCH", f"/api/v1/workloads/trainings/{made}", {"spec": {"labels": {"a": "b"}}}), 202)
    assert urls(control, made) == ["http://10.0.0.9:30022"]
    exchange(control)
    assert urls(control, made) == []


def test_a_refused_service_is_in_the_status_of_its_workload(control: ControlPlane) -> None:
    made = control.train("t1", ports=[{"container": 22, "external": 30_022, "serviceType": "NodePort"}])["id"]
    control.push(control.report(whole=True, workloads=(control.runs(made),)))

    def said() -> str:
        return str(expect(control.call("GET", f"/api/v1/workloads/{made}"), 200)["phaseMessage"])

    words = "Service runai-team-a/t1-external is not as declared: provided port is already allocated"
    exchange(control, problems={WorkloadId(made): words})
    assert said() == words
    expect(control.call("PATCH", f"/api/v1/workloads/trainings/{made}", {"spec": {"labels": {"a": "b"}}}), 202)
    assert said() == words
    exchange(control)
    assert said() == ""


def test_a_cluster_with_services_opens_external_ports_by_itself(control: ControlPlane) -> None:
    exchange(control)
    balanced = {"container": 80, "serviceType": "LoadBalancer"}
    for name in ("a", "b"):  # each has an address of its own
        control.train(name, ports=[balanced, {"container": 22, "serviceType": "NodePort"}])
    sent = {each.name: each.to_spec().template.program.services for each in control.pull().workloads}
    assert [each.external for each in sent["a"]] == [80, 30_000]
    assert [each.external for each in sent["b"]] == [80, 30_001]
    taken = submitted(control, ports=[{"container": 1, "external": 30_000, "serviceType": "NodePort"}])
    assert codes(taken) == ["port.taken"]
    outside = submitted(control, ports=[{"container": 1, "external": 8080, "serviceType": "NodePort"}])
    assert codes(outside) == ["port.range"]


def test_a_cluster_reports_nothing_about_workloads_of_others(control: ControlPlane) -> None:
    exchange(control, addresses={WorkloadId("unknown"): ("http://10.0.0.9:1",)})
    refused = control.http.post(CLUSTER_EQUIPMENT, content=EquipmentReport().to_json())
    assert refused.status_code == 401
    assert control.call("POST", CLUSTER_EQUIPMENT, {}).status_code == 403


def test_a_claim_that_exists_in_the_cluster_can_be_mounted_and_is_not_made_again(control: ControlPlane) -> None:
    existing = {"pvc": [{"claimName": "by-hand", "path": "/d"}]}
    assert codes(submitted(control, storage=existing)) == ["claim.unknown"]
    exchange(control, claims={TEAM: ("by-hand",)}, storage_classes={"fast": "x"}, default_class="fast")
    assert codes(submitted(control, storage=new_claim("by-hand"))) == ["claim.exists"]
    expect(submitted(control, storage=existing), 202)
    (sent,) = control.pull().workloads
    (volume,) = sent.to_spec().template.program.volumes
    assert (volume.claim, volume.size_bytes) == ("by-hand", 0)


def test_new_claims_are_of_a_class_of_the_cluster(control: ControlPlane) -> None:
    exchange(control, storage_classes={"fast": "nfs.example", "slow": "x"})
    assert codes(submitted(control, storage=new_claim())) == ["claim.no_default_class"]
    assert codes(submitted(control, storage=new_claim(storageClass="local"))) == ["claim.class"]
    expect(submitted(control, storage=new_claim(storageClass="fast")), 202)
    (sent,) = control.pull().workloads
    (volume,) = sent.to_spec().template.program.volumes
    assert (volume.claim, volume.size_bytes, volume.storage_class) == ("data", 1 << 30, "fast")
    again = {
        "name": "t3",
        "projectId": "team-a",
        "spec": {"image": "quickstart", "storage": {"pvc": [{"claimName": "data", "path": "/d"}]}},
    }
    made = expect(control.call("POST", "/api/v1/workloads/trainings", again), 202)["id"]
    (mounts,) = [each.to_spec() for each in control.pull().workloads if each.id == made]
    assert mounts.template.program.volumes[0].size_bytes == 1 << 30, "it can have it made again"
    listed = expect(control.call("GET", "/api/v2/storage-classes"), 200)["items"]
    assert [(each["storageClassName"], each["spec"]["provisioner"]) for each in listed] == [
        ("fast", "nfs.example"),
        ("slow", "x"),
    ]


def test_a_cluster_without_classes_of_its_own_has_the_local_one(control: ControlPlane) -> None:
    expect(submitted(control, storage=new_claim(storageClass="local")), 202)
    listed = expect(control.call("GET", "/api/v2/storage-classes"), 200)["items"]
    assert [each["storageClassName"] for each in listed] == ["local"]


def test_members_of_projects_are_granted_what_their_roles_permit(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    rule = {"subjectId": "readers", "subjectType": "group", "roleId": "editor", "scopeType": "tenant", "scopeId": ""}
    expect(control.call("POST", "/api/v1/authorization/access-rules", rule), 201)
    found = {each.to_model() for each in exchange(control).grants}
    assert AccessGrant(subject="ann@example.com", may_operate=True, queue=TEAM) in found
    assert AccessGrant(subject="readers", is_group=True, queue=None) in found
    assert not [each for each in found if each.queue == "team-b"]


def test_a_member_of_a_department_is_granted_its_projects(control: ControlPlane) -> None:
    control.researcher("ann")
    users = expect(control.call("GET", "/api/v1/users"), 200)
    listed = users if isinstance(users, list) else users["users"]
    (user,) = [each for each in listed if each["email"] == "ann@example.com"]
    rule = {"subjectId": user["id"], "roleId": "researcher", "scopeType": "department", "scopeId": "default"}
    expect(control.call("POST", "/api/v1/authorization/access-rules", rule), 201)
    mine = {each.queue for each in exchange(control).grants if each.subject == "ann@example.com"}
    assert mine == {"team-a", "team-b"}


def test_a_disabled_or_deleted_user_is_granted_nothing(control: ControlPlane) -> None:
    control.researcher("ann", "team-a")
    users = expect(control.call("GET", "/api/v1/users"), 200)
    listed = users if isinstance(users, list) else users["users"]
    (user,) = [each for each in listed if each["email"] == "ann@example.com"]
    assert control.call("DELETE", f"/api/v1/users/{user['id']}").status_code < 300
    assert not [each for each in exchange(control).grants if each.subject == "ann@example.com"]

"""Objects beside pods, on a real API server: made, repaired, cleared; those of others are left alone."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from fairpool.agent.pod_secrets import FoundSecrets, SecretsMissing, SecretsUnavailable
from fairpool.engines.kubernetes.equipment_plan import EquipmentSettings
from fairpool.engines.kubernetes.failures import EquipmentMissing
from fairpool.engines.kubernetes.manifests import ObjectKey
from fairpool.engines.kubernetes.names import ServiceRole, service_name
from fairpool.engines.kubernetes.network_objects import IngressSettings
from fairpool.engines.kubernetes.resources import SERVICES
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import Instant, QueueId, WorkloadId
from fairpool.model.node import DRAIN
from fairpool.model.observation import StartOrder
from fairpool.model.organization import NodeOverrides
from fairpool.model.problem import Problem
from fairpool.model.secret import CredentialKind, Secret
from fairpool.model.spec import (
    Exposure,
    PodTemplate,
    Program,
    SecretVariable,
    ServicePort,
    Volume,
    WorkloadSpec,
)
from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import fake_nodes
from tests.kubernetes.load_balancer import INGRESS_ADDRESS, load_balancer
from tests.kubernetes.running_equipment import RunningEquipment, running_equipment
from tests.kubernetes.test_equipment_plan import start_order
from tests.monitoring import until

pytestmark = pytest.mark.slow


@pytest.fixture
def project(control_plane: ControlPlane) -> Iterator[str]:
    """A name that no other test has; its namespace goes with it."""
    name = f"team-{secrets.token_hex(3)}"
    yield name
    control_plane.admin.delete(f"/api/v1/namespaces/runai-{name}")


@pytest.fixture
def running(control_plane: ControlPlane) -> Iterator[RunningEquipment]:
    with running_equipment(control_plane) as made:
        yield made


def workload(project: str, *services: ServicePort, name: str = "train", **program: Any) -> WorkloadSpec:
    return WorkloadSpec(
        id=WorkloadId(f"{name}-{project}"),
        name=name,
        project=QueueId(project),
        created_at=Instant(1),
        template=PodTemplate(program=Program(image="busybox", services=services, **program)),
    )


def order_of(spec: WorkloadSpec) -> StartOrder:
    return replace(start_order(), workload=spec.id, name=spec.name, project=spec.project, program=spec.template.program)


def names(control_plane: ControlPlane, project: str, plural: str, group: str = "/api/v1") -> set[str]:
    found = control_plane.admin.get(f"{group}/namespaces/runai-{project}/{plural}")["items"]
    return {each["metadata"]["name"] for each in found} - {"kube-root-ca.crt"}


@contextmanager
def refused_services(control_plane: ControlPlane, prefix: str) -> Iterator[None]:
    """Services with such names can be neither created nor deleted."""
    admin, api = control_plane.admin, "/apis/admissionregistration.k8s.io/v1"
    name = f"refuse-{secrets.token_hex(3)}"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["services"], "operations": ["CREATE", "DELETE"]}
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [rule]},
        "validations": [{"expression": f"!request.name.startsWith('{prefix}')", "message": "not today"}],
    }
    admin.create(f"{api}/validatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}}
    admin.create(f"{api}/validatingadmissionpolicybindings", binding)
    probe = {"metadata": {"name": f"{prefix}-probe"}, "spec": {"ports": [{"port": 1}]}}
    try:
        until(lambda: _is_refused(control_plane, probe), "the policy is in force")
        yield
    finally:
        admin.delete(f"{api}/validatingadmissionpolicybindings/{name}")
        admin.delete(f"{api}/validatingadmissionpolicies/{name}")


def _is_refused(control_plane: ControlPlane, service: dict[str, Any]) -> bool:
    try:
        control_plane.admin.create("/api/v1/namespaces/default/services?dryRun=All", service)
    except ApiError as error:
        return "not today" in str(error)
    return False


# --- projects ------------------------------------------------------------------------------------------------------


def test_a_project_has_a_namespace_until_it_is_gone(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    path = f"/api/v1/namespaces/runai-{project}"
    running.declare({project: 1})
    found = until(lambda: control_plane.admin.find(path), "the namespace is there")
    assert found["metadata"]["labels"]["runai/queue"] == project
    assert found["metadata"]["managedFields"][0]["manager"] == "fairpool"
    control_plane.admin.delete(path)
    until(
        lambda: (now := control_plane.admin.find(path)) and now["metadata"]["uid"] != found["metadata"]["uid"],
        "a deleted namespace is made again",
    )
    running.declare({})
    until(lambda: control_plane.admin.find(path) is None, "the namespace is gone")


def test_a_namespace_with_claims_outlives_its_project_and_no_later_one_gets_it(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    spec = workload(project, volumes=(Volume(target="/d", claim="data", size_bytes=1 << 30),))
    running.declare({project: 1}, spec)
    path = f"/api/v1/namespaces/runai-{project}/persistentvolumeclaims/data"
    until(lambda: control_plane.admin.find(path), "the claim is there")
    running.declare({project: 2})
    until(lambda: running.equipment.namespaces.problems.get(QueueId(project)), "the new project is refused")
    with pytest.raises(EquipmentMissing, match="former project"):
        running.call(running.equipment.prepare(order_of(spec)))
    running.declare({project: 1})
    until(lambda: QueueId(project) in running.equipment.namespaces.by_project, "the former one has it")
    running.call(running.equipment.remove_claim(QueueId(project), "data"))
    until(lambda: control_plane.admin.find(path) is None, "the claim is gone")
    running.call(running.equipment.remove_claim(QueueId(project), "data"))  # again


def test_an_existing_namespace_is_not_taken_and_a_linked_one_is_used(control_plane: ControlPlane, project: str) -> None:
    admin = control_plane.admin
    settings = EquipmentSettings(create_namespaces=False)
    with control_plane.namespace("kubeflow") as linked, running_equipment(control_plane, settings) as running:
        running.declare({project: 1}, spec := workload(project, ServicePort(port=80)))
        until(lambda: running.equipment.namespaces.problems, "nothing is linked yet")
        assert admin.find(f"/api/v1/namespaces/runai-{project}") is None
        admin.patch(f"/api/v1/namespaces/{linked}", {"metadata": {"labels": {"runai/queue": project}}})
        running.equipment.grant([AccessGrant(subject="alice", queue=QueueId(project))])
        until(lambda: admin.find(f"/api/v1/namespaces/{linked}/services/train"), "the service is in the linked one")
        bindings = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{linked}/rolebindings"
        until(lambda: admin.get(bindings)["items"], "the members are bound")
        assert running.call(running.equipment.prepare(order_of(spec))).namespace == linked
        running.declare({})
        until(lambda: not admin.get(bindings)["items"], "the bindings are gone")
        assert admin.get(f"/api/v1/namespaces/{linked}")["metadata"].get("deletionTimestamp") is None
    admin.create("/api/v1/namespaces", {"metadata": {"name": f"runai-{project}"}})
    with running_equipment(control_plane) as running:
        running.declare({project: 1})
        said = until(lambda: list(running.equipment.problems.values()), "it is refused by name")
        assert said == [f"Namespace runai-{project} exists already and was not made by Fairpool: delete or rename it"]


def test_members_may_do_what_their_role_allows_in_their_project_and_nothing_elsewhere(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    running.declare({project: 1}, workload(project, ServicePort(port=80)))
    running.equipment.grant(
        [
            AccessGrant(subject="researchers", is_group=True, may_operate=True, queue=QueueId(project)),
            AccessGrant(subject="bob", queue=QueueId(project)),
        ]
    )
    place = f"/api/v1/namespaces/runai-{project}"
    alice, bob = (control_plane.calls(each) for each in ("alice", "bob"))  # alice is a researcher
    until(lambda: _status(alice, f"{place}/services/train") == 200, "a member of the group sees the service")
    assert _status(bob, f"{place}/pods") == 200
    assert _status(alice, f"{place}/secrets") == 403
    assert _status(alice, "/api/v1/namespaces/default/pods") == 403
    assert _status(alice, "/api/v1/nodes") == 403
    assert _may(control_plane, "alice", ["researchers"], "create", "pods/exec", project)
    assert not _may(control_plane, "bob", [], "create", "pods/exec", project)
    assert not _may(control_plane, "alice", ["researchers"], "create", "pods", project)
    assert not _may(control_plane, "alice", ["researchers"], "delete", "pods", project)
    running.equipment.grant([AccessGrant(subject="bob", queue=QueueId(project))])
    until(lambda: _status(alice, f"{place}/pods") == 403, "a removed member sees nothing")
    assert _status(bob, f"{place}/pods") == 200


def _status(calls: Any, path: str) -> int:
    try:
        calls.get(path)
    except ApiError as error:
        return error.status
    return 200


def _may(control_plane: ControlPlane, user: str, groups: list[str], verb: str, resource: str, project: str) -> bool:
    plural, _, sub = resource.partition("/")
    asked = {"namespace": f"runai-{project}", "verb": verb, "resource": plural, "subresource": sub}
    review = {"spec": {"user": user, "groups": groups, "resourceAttributes": asked}}
    answer = control_plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
    return bool(answer["status"]["allowed"])


def test_priority_classes_are_there_and_one_of_others_is_not_changed(
    control_plane: ControlPlane, running: RunningEquipment
) -> None:
    admin, path = control_plane.admin, "/apis/scheduling.k8s.io/v1/priorityclasses"
    admin.delete(f"{path}/build")
    admin.create(path, {"metadata": {"name": "build"}, "value": 7})
    try:
        running.declare({})
        until(lambda: admin.find(f"{path}/inference"), "the others are made")
        assert admin.get(f"{path}/inference")["value"] == 125
        until(lambda: "PriorityClass build" in " ".join(running.equipment.problems.values()), "it is said")
        assert admin.get(f"{path}/build")["value"] == 7
    finally:
        admin.delete(f"{path}/build")


# --- workloads -----------------------------------------------------------------------------------------------------


def test_services_are_made_repaired_and_cleared(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    admin = control_plane.admin
    spec = workload(
        project,
        ServicePort(port=8888),
        ServicePort(port=22, exposure=Exposure.NODE_PORT, external=31_987),
        volumes=(Volume(target="/etc/app", files=(("a.yaml", "x: 1"),)),),
    )
    running.declare({project: 1}, spec)
    node_port = service_name("train", spec.id, ServiceRole.NODE_PORT)
    path = f"/api/v1/namespaces/runai-{project}/services"
    until(lambda: names(control_plane, project, "services") == {"train", node_port}, "both services are there")
    assert admin.get(f"{path}/{node_port}")["spec"]["ports"][0]["nodePort"] == 31_987
    until(lambda: len(names(control_plane, project, "configmaps")) == 1, "the config map is there")
    admin.delete(f"{path}/train")
    until(lambda: admin.find(f"{path}/train"), "a deleted service is made again")
    admin.patch(f"{path}/train", {"spec": {"selector": {"app": "mine"}}})
    wanted = {"fairpool.io/workload": spec.id}
    until(
        lambda: admin.get(f"{path}/train")["spec"]["selector"].get("fairpool.io/workload") == spec.id,
        "a changed service is repaired",
    )
    assert wanted.items() <= admin.get(f"{path}/train")["spec"]["selector"].items()
    running.declare({project: 1}, workload(project, ServicePort(port=8888)))
    until(lambda: names(control_plane, project, "services") == {"train"}, "the node port is given back")
    assert names(control_plane, project, "configmaps") == set()
    running.declare({project: 1})
    until(lambda: names(control_plane, project, "services") == set(), "all of it is gone")


def test_a_claim_that_was_deleted_by_hand_is_made_again(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    """Its data is lost; the pods that wait for it are not."""
    spec = workload(project, volumes=(Volume(target="/d", claim="data", size_bytes=1 << 30),))
    running.declare({project: 1}, spec)
    path = f"/api/v1/namespaces/runai-{project}/persistentvolumeclaims/data"
    first = until(lambda: control_plane.admin.find(path), "the claim is there")
    control_plane.admin.delete(path)
    until(
        lambda: (now := control_plane.admin.find(path)) and now["metadata"]["uid"] != first["metadata"]["uid"],
        "there is another one",
    )


def test_a_service_of_others_is_left_alone_and_named(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    running.declare({project: 1})
    path = f"/api/v1/namespaces/runai-{project}"
    until(lambda: control_plane.admin.find(path), "the namespace is there")
    theirs = {"metadata": {"name": "train"}, "spec": {"ports": [{"port": 1}]}}
    made = control_plane.admin.create(f"{path}/services", theirs)
    spec = workload(project, ServicePort(port=80))
    running.declare({project: 1}, spec)
    said = until(lambda: running.equipment.problem_of(spec.id), "it is refused")
    assert said == f"Service runai-{project}/train exists already and was not made by Fairpool: delete or rename it"
    running.declare({project: 1})
    assert control_plane.admin.get(f"{path}/services/train")["metadata"]["uid"] == made["metadata"]["uid"]
    running.declare({project: 1}, spec)
    control_plane.admin.delete(f"{path}/services/train")
    until(
        lambda: (now := control_plane.admin.find(f"{path}/services/train")) and now["metadata"]["labels"],
        "it is ours once theirs is gone",
    )


def test_a_loop_that_was_frozen_leaves_what_its_successor_made(control_plane: ControlPlane, project: str) -> None:
    """It goes on with what it knew, in which the project and the workload of its successor do not exist."""
    admin, namespace = control_plane.admin, f"/api/v1/namespaces/runai-{project}"
    new = workload(project, ServicePort(port=80))
    kept = f"{project}-kept"
    with (
        control_plane.namespace("fence") as fence,
        running_equipment(control_plane, fence=fence, token=1) as older,
    ):
        older.declare({kept: 1})
        until(lambda: admin.find(f"/api/v1/namespaces/runai-{kept}"), "the older loop works")
        with running_equipment(control_plane, fence=fence, token=2) as newer:
            with older.frozen():
                newer.declare({kept: 1, project: 1}, new)
                service = until(lambda: admin.find(f"{namespace}/services/train"), "the newer loop has made a service")
            until(lambda: older.refusals, "the older one wants to clear it, and hears that it does not lead")
            older.declare({})
            until(lambda: older.refusals > 2, "it goes on trying, with whatever it decides")
            assert admin.get(f"{namespace}/services/train")["metadata"] == service["metadata"]
            for name in (project, kept):
                assert "deletionTimestamp" not in admin.get(f"/api/v1/namespaces/runai-{name}")["metadata"]
            newer.declare({})
            until(lambda: admin.find(f"/api/v1/namespaces/runai-{kept}") is None, "the newer one clears it")


def test_an_object_is_deleted_only_as_it_was_seen(control_plane: ControlPlane, project: str) -> None:
    """Frozen between the look at the fence and the call: only the version in which it was seen protects it."""
    with running_equipment(control_plane) as running:
        running.declare({project: 1}, workload(project, ServicePort(port=80)))
        path = f"/api/v1/namespaces/runai-{project}/services/train"
        until(lambda: control_plane.admin.find(path), "the service is there")
        seen = running.seen(SERVICES, f"runai-{project}", "train")
        control_plane.admin.patch(path, {"metadata": {"annotations": {"successor": "here"}}})
        running.call(running.equipment._delete(ObjectKey(SERVICES, f"runai-{project}", "train"), seen))
        assert "deletionTimestamp" not in control_plane.admin.get(path)["metadata"]


def test_one_object_that_cannot_be_removed_or_made_does_not_stop_the_others(
    control_plane: ControlPlane, project: str
) -> None:
    """An admission policy refuses changes of services whose name begins with "stuck"."""
    admin, path = control_plane.admin, f"/api/v1/namespaces/runai-{project}/services"
    first, second, third = (workload(project, ServicePort(port=80), name=name) for name in ("stuck", "a", "b"))
    with running_equipment(control_plane) as running:
        running.declare({project: 1}, first, second)
        until(lambda: names(control_plane, project, "services") == {"stuck", "a"}, "both services are there")
        with refused_services(control_plane, "stuck"):
            made_later = workload(project, ServicePort(port=80), name="stuck-too")
            running.declare({project: 1}, third, made_later)
            until(lambda: names(control_plane, project, "services") == {"stuck", "b"}, "the others are kept up")
            said = until(lambda: running.equipment.problem_of(made_later.id), "the refusal is said")
            assert "not today" in said
            found = running.call(running.equipment.summary())
            assert found is not None
            assert dict(found.problems) == {made_later.id: said}
        until(lambda: names(control_plane, project, "services") == {"stuck-too", "b"}, "it is tried again by itself")
        until(lambda: not running.equipment.problem_of(made_later.id), "nothing is said any more")
        assert admin.get(path)["items"]


def test_addresses_of_load_balancers_and_ingresses_are_found(control_plane: ControlPlane, project: str) -> None:
    settings = EquipmentSettings(ingress=IngressSettings(host="pool.example"))
    spec = workload(
        project,
        ServicePort(port=80, exposure=Exposure.LOAD_BALANCER, external=8080),
        ServicePort(port=8888, exposure=Exposure.INGRESS),
        ServicePort(port=22, exposure=Exposure.NODE_PORT, external=31_986),
    )
    with running_equipment(control_plane, settings) as running, load_balancer(control_plane):
        running.declare({project: 1}, spec)
        found = until(
            lambda: len(each := running.equipment.addresses("10.0.0.7").get(spec.id, ())) == 3 and each,
            "all have addresses",
        )
        assert any(each.startswith("http://192.0.2.") and each.endswith(":8080") for each in found)
        assert {f"http://pool.example/{project}/train-8888", "http://10.0.0.7:31986"} <= set(found)
        path = f"/apis/networking.k8s.io/v1/namespaces/runai-{project}/ingresses/train"
        given = control_plane.admin.get(path)["status"]["loadBalancer"]["ingress"]
        assert given == [{"ip": INGRESS_ADDRESS}]


def test_the_control_plane_is_told_addresses_claims_and_storage_classes(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    admin, classes = control_plane.admin, "/apis/storage.k8s.io/v1/storageclasses"
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    admin.create(classes, {"metadata": {"name": project, "annotations": default}, "provisioner": "tests/none"})
    try:
        spec = workload(project, ServicePort(port=22, exposure=Exposure.NODE_PORT, external=31_985))
        running.declare({project: 1}, spec)
        place = f"/api/v1/namespaces/runai-{project}"
        until(lambda: admin.find(place), "the namespace is there")
        by_hand = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        admin.create(f"{place}/persistentvolumeclaims", {"metadata": {"name": "by-hand"}, "spec": by_hand})
        found = until(lambda: _complete_summary(running, project), "everything is known")
        assert found.storage_classes[project] == "tests/none"
        assert found.default_class == project
        assert found.claims[QueueId(project)] == ("by-hand",)
    finally:
        admin.delete(f"{classes}/{project}")


def _complete_summary(running: RunningEquipment, project: str) -> Any:
    found = running.call(running.equipment.summary())
    return found if found is not None and found.storage_classes and QueueId(project) in found.claims else None


def test_a_new_server_finds_everything_as_it_should_be_and_clears_what_went_meanwhile(
    control_plane: ControlPlane, project: str
) -> None:
    admin, path = control_plane.admin, f"/api/v1/namespaces/runai-{project}/services"
    stays, goes = (workload(project, ServicePort(port=80), name=name) for name in ("stays", "goes"))
    with running_equipment(control_plane) as first:
        first.declare({project: 1}, stays, goes)
        first.equipment.grant([AccessGrant(subject="bob", queue=QueueId(project))])
        until(lambda: names(control_plane, project, "services") == {"stays", "goes"}, "both are there")
        bob, pods = control_plane.calls("bob"), f"/api/v1/namespaces/runai-{project}/pods"
        until(lambda: _status(bob, pods) == 200, "a member sees the pods")
    before = admin.get(f"{path}/stays")["metadata"]
    with running_equipment(control_plane) as second:
        second.declare({project: 1}, stays)
        until(lambda: names(control_plane, project, "services") == {"stays"}, "one is cleared")
        assert _status(bob, pods) == 200, "access stays until the control plane was heard"
        second.equipment.grant([])
        until(lambda: _status(bob, pods) == 403, "access is withdrawn")
    assert admin.get(f"{path}/stays")["metadata"]["resourceVersion"] == before["resourceVersion"]


def test_what_was_declared_while_the_api_server_was_away_is_made_when_it_is_back(
    control_plane: ControlPlane, running: RunningEquipment, project: str
) -> None:
    first, second = (workload(project, ServicePort(port=80), name=name) for name in ("first", "second"))
    running.declare({project: 1}, first)
    until(lambda: control_plane.admin.find(f"/api/v1/namespaces/runai-{project}/services/first"), "one is there")
    control_plane.api_server.kill()
    running.declare({project: 1}, second)
    control_plane.api_server.start()
    until(lambda: _names_or_none(control_plane, project) == {"second"}, "one is cleared, the other made")


def _names_or_none(control_plane: ControlPlane, project: str) -> set[str] | None:
    try:
        return names(control_plane, project, "services")
    except (ApiError, OSError):
        return None


# --- before a pod starts -------------------------------------------------------------------------------------------


class Vault:
    """A control plane's answers about secrets."""

    def __init__(self) -> None:
        self.values = {"db": b"first"}
        self.is_away = False

    def secrets(self, workload: WorkloadId, names: Sequence[str], registry: str) -> FoundSecrets:
        if self.is_away:
            raise SecretsUnavailable("the control plane is away")
        found = {
            name: Secret(name, CredentialKind.GENERIC, {"password": self.values[name]})
            for name in names
            if name in self.values
        }
        missing = [Problem("credential.gone", f"no credential {name}", "") for name in names if name not in found]
        login = {"user": b"me", "password": b"pw"}
        given = Secret("r", CredentialKind.REGISTRY, login) if registry == "registry.example" else None
        return FoundSecrets(found, tuple(missing), given)


def test_what_a_pod_refers_to_is_there_when_it_is_prepared_even_before_its_workload_is_declared(
    control_plane: ControlPlane, project: str
) -> None:
    vault, admin = Vault(), control_plane.admin
    spec = workload(
        project,
        secrets=(SecretVariable(name="PASSWORD", credential="db", key="password"),),
        volumes=(
            Volume(target="/d", claim="data", size_bytes=1 << 20),
            Volume(target="/etc/app", files=(("a", "b"),)),
        ),
    )
    place = f"/api/v1/namespaces/runai-{project}"
    with running_equipment(control_plane, source=vault) as running:
        running.declare({project: 1})
        prepared = until(lambda: _prepared(running, spec), "the projects are known")
        assert (prepared.namespace, prepared.pull_secrets) == (f"runai-{project}", ())
        assert admin.find(f"{place}/persistentvolumeclaims/data")
        assert len(names(control_plane, project, "configmaps")) == 1
        running.declare({project: 1, f"{project}-b": 1})  # the next round leaves them where they are
        until(lambda: QueueId(f"{project}-b") in running.equipment.namespaces.by_project, "a round is over")
        assert len(names(control_plane, project, "configmaps")) == 1
        secret = admin.get(f"{place}/secrets/train.db")
        assert base64.b64decode(secret["data"]["password"]) == b"first"
        running.declare({project: 1}, spec)
        running.declare({project: 1})
        until(lambda: not names(control_plane, project, "configmaps"), "the config map goes with the workload")
        until(lambda: not names(control_plane, project, "secrets"), "the secret goes with the workload")
        assert names(control_plane, project, "persistentvolumeclaims") == {"data"}


def test_the_login_of_a_registry_is_a_pull_secret_and_a_missing_credential_is_said(
    control_plane: ControlPlane, project: str
) -> None:
    vault = Vault()
    spec = workload(project, name="pulls")
    program = replace(spec.template.program, image="registry.example/team/app:1")
    order = replace(order_of(spec), program=program)
    with running_equipment(control_plane, source=vault) as running:
        running.declare({project: 1}, spec)
        until(lambda: _prepared(running, spec), "the projects are known")
        assert running.call(running.equipment.prepare(order)).pull_secrets == ("pulls.image.pull",)
        lacking = replace(program, secrets=(SecretVariable(name="X", credential="gone", key="x"),))
        with pytest.raises(SecretsMissing, match="no credential gone"):
            running.call(running.equipment.prepare(replace(order, program=lacking)))


def _prepared(running: RunningEquipment, spec: WorkloadSpec) -> Any:
    try:
        return running.call(running.equipment.prepare(order_of(spec)))
    except EquipmentMissing:
        return None


# --- nodes ---------------------------------------------------------------------------------------------------------


def test_declared_roles_types_taints_and_cordons_are_on_the_node_and_go_again(
    control_plane: ControlPlane, running: RunningEquipment
) -> None:
    admin = control_plane.admin
    with fake_nodes(control_plane, 1) as nodes:
        (node,) = nodes
        name = getattr(node, "name", node)
        theirs = {"key": "theirs", "effect": "NoSchedule"}
        admin.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [theirs]}, "metadata": {"labels": {"zone": "a"}}})
        role = "node-role.kubernetes.io/runai-gpu-worker"
        wanted = NodeOverrides(cordoned=True, taints=(DRAIN,), labels=((role, ""), ("run.ai/type", "dgx")))
        running.declare({}, nodes={str(name): wanted})
        found = until(
            lambda: (now := admin.get(f"/api/v1/nodes/{name}"))["spec"].get("unschedulable") and now, "it is cordoned"
        )
        assert found["metadata"]["labels"]["run.ai/type"] == "dgx"
        assert role in found["metadata"]["labels"]
        effects = {(each["key"], each["effect"]) for each in found["spec"]["taints"]}
        assert {("theirs", "NoSchedule"), ("runai", "NoExecute")} <= effects
        running.declare({})
        found = until(
            lambda: not (now := admin.get(f"/api/v1/nodes/{name}"))["spec"].get("unschedulable") and now, "it is open"
        )
        assert "run.ai/type" not in found["metadata"]["labels"]
        assert found["metadata"]["labels"]["zone"] == "a"
        left = {each["key"] for each in found["spec"]["taints"]}
        assert "theirs" in left
        assert "runai" not in left

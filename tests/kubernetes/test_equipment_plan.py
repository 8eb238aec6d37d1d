"""Objects beside pods, as values: what is wanted, what is due, what is left alone."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from fairpool.engines.kubernetes.equipment_plan import (
    Declared,
    EquipmentSettings,
    SeenIdentity,
    SeenMetadata,
    SeenObject,
    by_key,
    covers,
    due,
    left_over,
    project_manifests,
    workload_manifests,
)
from fairpool.engines.kubernetes.manifests import KINDS, ObjectKey, ObjectManifest
from fairpool.engines.kubernetes.names import QUEUE, ServiceRole, secret_name, service_name
from fairpool.engines.kubernetes.namespaces import ProjectNamespaces, SeenNamespace, project_namespaces
from fairpool.engines.kubernetes.network_objects import IngressSettings, ingress_addresses, service_addresses
from fairpool.engines.kubernetes.node_overrides import DECLARED, SeenNode, node_patch
from fairpool.engines.kubernetes.object_mirror import WATCHED
from fairpool.engines.kubernetes.pod_files import pull_secret_manifest, secret_manifest
from fairpool.engines.kubernetes.priority_classes import priority_class_manifests
from fairpool.engines.kubernetes.project_rbac import MEMBER, MEMBER_RULES, VIEWER, VIEWER_RULES, binding_manifests
from fairpool.engines.kubernetes.resources import (
    CONFIG_MAPS,
    INGRESSES,
    ROLE_BINDINGS,
    SECRETS,
    SERVICES,
    VOLUME_CLAIMS,
    ApiResource,
)
from fairpool.model.access_grant import AccessGrant
from fairpool.model.ids import GroupId, Instant, NodeName, PodId, QueueId, WorkloadId
from fairpool.model.node import DEFAULT_POOL, DRAIN, Taint, TaintEffect
from fairpool.model.observation import StartOrder
from fairpool.model.organization import NodeOverrides, Organization, Queue, department_queue
from fairpool.model.secret import CredentialKind, Secret, UserLogin
from fairpool.model.spec import (
    AccessMode,
    DesiredState,
    Exposure,
    PodTemplate,
    Program,
    ServicePort,
    Volume,
    WorkloadSpec,
)
from fairpool.model.workload import PodShape, WorkloadKind

TEAM = QueueId("team-a")
PLAIN = EquipmentSettings()
PLACES = ProjectNamespaces({TEAM: "runai-team-a"})


def workload(
    *services: ServicePort, name: str = "train", volumes: tuple[Volume, ...] = (), **fields: Any
) -> WorkloadSpec:
    program = Program(image="busybox", services=services, volumes=volumes)
    values = {"id": WorkloadId(f"id-of-{name}"), "name": name, "project": TEAM, "created_at": Instant(1)}
    return WorkloadSpec(**{**values, "template": PodTemplate(program=program), **fields})


def bodies(spec: WorkloadSpec, resource: ApiResource, settings: EquipmentSettings = PLAIN) -> dict[str, dict[str, Any]]:
    made = workload_manifests(spec, "runai-team-a", settings)
    return {each.key.name: each.body for each in made if each.key.resource == resource}


def seen_as(wanted: ObjectManifest, **labels: str) -> SeenObject:
    """As the API server would show it right after it was applied."""
    metadata = SeenMetadata(
        name=wanted.key.name,
        namespace=wanted.key.namespace,
        uid=f"uid-{wanted.key}",
        labels={**wanted.labels, **labels},
        annotations=dict(wanted.annotations),
    )
    content = dict(wanted.content)
    return SeenObject(
        metadata, spec=content.get("spec"), subjects=content.get("subjects"), role_ref=content.get("roleRef")
    )


# --- services ------------------------------------------------------------------------------------------------------


def test_each_type_of_service_exposes_what_was_asked_for_and_no_more() -> None:
    spec = workload(
        ServicePort(port=8888, exposure=Exposure.INGRESS),
        ServicePort(port=22, exposure=Exposure.NODE_PORT, external=30_022),
        ServicePort(port=80, exposure=Exposure.LOAD_BALANCER, external=8080),
        ServicePort(port=9000),
    )
    found = bodies(spec, SERVICES)
    own = {role: found[service_name("train", spec.id, role)]["spec"] for role in list(ServiceRole)[:3]}
    assert [each["port"] for each in own[ServiceRole.CLUSTER]["ports"]] == [22, 80, 8888, 9000]
    assert own[ServiceRole.NODE_PORT]["ports"] == [
        {"name": "port-22-30022", "port": 22, "targetPort": 22, "protocol": "TCP", "nodePort": 30_022}
    ]
    assert own[ServiceRole.LOAD_BALANCER]["ports"] == [
        {"name": "port-80-8080", "port": 8080, "targetPort": 80, "protocol": "TCP"}
    ]
    assert all(each["selector"] == {"fairpool.io/workload": spec.id} for each in own.values())
    assert len(found) == 3


def test_a_workload_without_services_has_none() -> None:
    assert workload_manifests(workload(), "runai-team-a", PLAIN) == []


def test_pods_that_work_together_have_a_headless_service() -> None:
    spec = workload(pods=4)
    (body,) = bodies(spec, SERVICES).values()
    assert body["metadata"]["name"] == service_name("train", spec.id, ServiceRole.PODS)
    assert body["spec"]["clusterIP"] == "None"
    assert body["spec"]["publishNotReadyAddresses"] is True


def test_names_of_services_of_different_workloads_do_not_meet() -> None:
    """A workload may be called like another one's node port service would be without its id."""
    first = workload(ServicePort(port=1, exposure=Exposure.NODE_PORT), name="a")
    second = workload(ServicePort(port=1), name="a-nodeport")
    assert not bodies(first, SERVICES).keys() & bodies(second, SERVICES).keys()


def test_an_ingress_is_made_only_where_an_administrator_configured_a_controller() -> None:
    spec = workload(ServicePort(port=8888, exposure=Exposure.INGRESS))
    assert not bodies(spec, INGRESSES)
    ingress = IngressSettings(host="pool.example", class_name="nginx", tls_secret="wildcard")
    (body,) = bodies(spec, INGRESSES, EquipmentSettings(ingress=ingress)).values()
    (rule,) = body["spec"]["rules"]
    (path,) = rule["http"]["paths"]
    assert (rule["host"], path["path"]) == ("pool.example", f"/{TEAM}/train-8888")
    assert path["backend"] == {"service": {"name": "train", "port": {"number": 8888}}}
    assert ingress_addresses(body) == []
    served = {**body, "status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}}
    assert ingress_addresses(served) == [f"https://pool.example/{TEAM}/train-8888"]


def test_addresses_are_reported_once_they_exist() -> None:
    balanced = {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}
    assert service_addresses(balanced, "10.0.0.9") == []
    given = {**balanced, "status": {"loadBalancer": {"ingress": [{"ip": "fd00::1"}, {"hostname": "lb.example"}]}}}
    assert service_addresses(given, "10.0.0.9") == ["http://[fd00::1]:80", "http://lb.example:80"]
    node_port = {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30_080}]}}
    assert service_addresses(node_port, "10.0.0.9") == ["http://10.0.0.9:30080"]
    assert service_addresses({"spec": {"type": "ClusterIP", "ports": [{"port": 80}]}}, "10.0.0.9") == []


# --- claims, config maps, secrets ----------------------------------------------------------------------------------


def test_a_claim_with_a_size_is_provided_and_one_without_is_only_mounted() -> None:
    volumes = (
        Volume(target="/data", claim="data", access=AccessMode.ONE_NODE, size_bytes=10 << 30, storage_class="fast"),
        Volume(target="/home", claim="home"),
    )
    (body,) = bodies(workload(volumes=volumes), VOLUME_CLAIMS).values()
    assert body["metadata"]["name"] == "data"
    assert "fairpool.io/workload" not in body["metadata"]["labels"]  # it outlives the workload
    assert body["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "10Gi"}},
        "storageClassName": "fast",
    }


def test_without_a_class_the_cluster_chooses() -> None:
    (body,) = bodies(workload(volumes=(Volume(target="/d", claim="d", size_bytes=1),)), VOLUME_CLAIMS).values()
    assert "storageClassName" not in body["spec"]


@pytest.mark.parametrize("fields", [{"desired_state": DesiredState.STOP}, {"desired_state": DesiredState.DELETE}])
def test_claims_of_workloads_that_do_not_run_are_not_provided_again(fields: dict[str, Any]) -> None:
    volumes = (Volume(target="/d", claim="d", size_bytes=1),)
    assert not bodies(workload(volumes=volumes, **fields), VOLUME_CLAIMS)
    ended = workload_manifests(workload(volumes=volumes), "runai-team-a", PLAIN, has_ended=True)
    assert ended == []


def test_a_config_map_has_the_contents_of_the_submit_and_a_name_that_follows_from_them() -> None:
    one, other = (Volume(target=f"/{text}", files=(("a.yaml", text),)) for text in ("x", "y"))
    found = bodies(workload(volumes=(one, other, one)), CONFIG_MAPS)
    assert sorted(body["data"]["a.yaml"] for body in found.values()) == ["x", "y"]


def test_names_of_secrets_are_valid_and_differ() -> None:
    names = [secret_name("train", each) for each in ("hf-token", "HF_token", "hf.token", "hf_token", "___")]
    assert len(set(names)) == len(names)
    assert names[0] == "train.hf-token"
    assert all(each == each.lower() and "_" not in each for each in names)


def test_secrets_hold_the_values_and_the_login() -> None:
    order = start_order()
    secret = Secret("db", CredentialKind.GENERIC, {"token": b"\x00\xff"})
    body = secret_manifest(secret, "db", order, "runai-team-a").body
    assert base64.b64decode(body["data"]["token"]) == b"\x00\xff"
    pull = pull_secret_manifest(UserLogin("me", "secret"), "", order, "runai-team-a").body
    config = json.loads(base64.b64decode(pull["data"][".dockerconfigjson"]))
    assert config["auths"]["https://index.docker.io/v1/"]["username"] == "me"


def start_order() -> StartOrder:
    return StartOrder(
        pod=PodId("p"),
        workload=WorkloadId("id-of-train"),
        index=0,
        incarnation=0,
        group=GroupId("g"),
        pod_set="",
        run=0,
        name="train",
        project=TEAM,
        kind=WorkloadKind.TRAIN,
        node=NodeName("n1"),
        boot_id="b",
        devices=(),
        shape=PodShape(),
        program=Program(image="busybox"),
        created_at=Instant(1),
    )


# --- projects ------------------------------------------------------------------------------------------------------


def test_a_project_has_its_own_namespace_or_the_one_that_is_linked_to_it() -> None:
    projects = {QueueId(each): Instant(1) for each in ("own", "linked", "twice")}
    seen = [
        SeenNamespace("kubeflow-ann", QueueId("linked"), is_ours=False),
        SeenNamespace("one", QueueId("twice"), is_ours=False),
        SeenNamespace("two", QueueId("twice"), is_ours=False),
    ]
    found = project_namespaces(projects, seen, create=True)
    assert found.by_project == {"own": "runai-own", "linked": "kubeflow-ann"}
    assert "one, two" in found.problems[QueueId("twice")]
    without = project_namespaces(projects, seen, create=False)
    assert without.by_project == {"linked": "kubeflow-ann"}
    assert f"{QUEUE}=own" in without.problems[QueueId("own")]


def test_a_later_project_of_the_same_name_does_not_find_the_claims_of_the_former_one() -> None:
    before = [SeenNamespace("runai-team-a", TEAM, is_ours=True, made_for="1")]
    again = {TEAM: Instant(2)}
    assert (
        "former project" in project_namespaces(again, before, create=True, with_claims={"runai-team-a"}).problems[TEAM]
    )
    assert project_namespaces(again, before, create=True).by_project == {TEAM: "runai-team-a"}
    same = project_namespaces({TEAM: Instant(1)}, before, create=True, with_claims={"runai-team-a"})
    assert same.by_project == {TEAM: "runai-team-a"}


def test_members_are_bound_by_project_department_and_cluster() -> None:
    research = department_queue("research")
    grants = (
        AccessGrant(subject="ann@x", may_operate=True, queue=TEAM),
        AccessGrant(subject="staff", is_group=True, queue=research),
        AccessGrant(subject="root@x", may_operate=True),
        AccessGrant(subject="ann@x", queue=None),
        AccessGrant(subject="eve@x", may_operate=True, queue=QueueId("team-b")),
        AccessGrant(subject="system:authenticated", is_group=True, may_operate=True, queue=TEAM),
    )
    found = {each.key.name: each.body for each in binding_manifests(TEAM, [research], "runai-team-a", grants)}
    assert [each["name"] for each in found[MEMBER]["subjects"]] == ["ann@x", "root@x"]
    assert [(each["kind"], each["name"]) for each in found[VIEWER]["subjects"]] == [("Group", "staff")]


def test_no_role_reads_secrets_or_creates_pods() -> None:
    for rule in (*VIEWER_RULES, *MEMBER_RULES):
        if "" in rule["apiGroups"]:
            assert "secrets" not in rule["resources"]
            assert "pods" not in rule["resources"] or "create" not in rule["verbs"]


def test_departments_are_no_projects() -> None:
    queues = (Queue(id=department_queue("d")), Queue(id=TEAM, parent=department_queue("d")))
    declared = Declared(organization=Organization(queues={DEFAULT_POOL: queues}))
    (made,) = project_manifests(declared, PLACES)
    assert made.key.name == "runai-team-a"
    assert made.labels[QUEUE] == TEAM


def test_priority_classes_have_the_values_of_the_product_and_preempt_nothing() -> None:
    found = {each.key.name: each.body for each in priority_class_manifests()}
    values = {name: body["value"] for name, body in found.items()}
    assert values == {"train": 50, "interactive-preemptible": 75, "build": 100, "inference": 125}
    assert {body["preemptionPolicy"] for body in found.values()} == {"Never"}


# --- what is due ---------------------------------------------------------------------------------------------------

SERVED = workload(ServicePort(port=80))
WANTED = by_key(workload_manifests(SERVED, "runai-team-a", PLAIN))
LIVE = {SERVED.id: TEAM}


def test_what_is_missing_is_applied_and_what_is_there_is_not() -> None:
    assert [each.key for each in due(WANTED.values(), {}, LIVE).apply] == list(WANTED)
    there = {key: seen_as(each) for key, each in WANTED.items()}
    assert due(WANTED.values(), there, LIVE).apply == ()


def test_what_was_changed_by_hand_is_applied_again() -> None:
    (key, each) = next(iter(WANTED.items()))
    edited = seen_as(replace(each, content={"spec": {**each.content["spec"], "selector": {"app": "mine"}}}))
    assert [one.key for one in due(WANTED.values(), {key: edited}, LIVE).apply] == [key]


def test_an_object_of_others_is_named_and_left_alone() -> None:
    (key, each) = next(iter(WANTED.items()))
    others = seen_as(each)
    others.metadata.labels.clear()
    found = due(WANTED.values(), {key: others}, LIVE)
    assert (found.apply, found.delete) == ((), ())
    assert found.problems == {
        key: "Service runai-team-a/train exists already and was not made by Fairpool: delete or rename it"
    }
    assert left_over((), {key: others}, {}, PLACES) == []


def test_a_new_workload_of_the_same_name_waits_until_the_former_one_is_cleared() -> None:
    (key, each) = next(iter(WANTED.items()))
    former = seen_as(each, **{"fairpool.io/workload": "id-of-former"})
    found = due(WANTED.values(), {key: former}, LIVE)
    assert (found.apply, [one for one, _ in found.delete], found.problems) == ((), [key], {})


def test_objects_of_gone_workloads_and_projects_are_left_over() -> None:
    seen: dict[ObjectKey, SeenIdentity] = {key: seen_as(each) for key, each in WANTED.items()}
    secret = secret_manifest(Secret("x", CredentialKind.GENERIC, {}), "x", start_order(), "runai-team-a")
    seen[secret.key] = seen_as(secret)
    (binding,) = binding_manifests(TEAM, (), "runai-team-a", [AccessGrant(subject="ann@x")])
    seen[binding.key] = seen_as(binding)
    gone = {key for key, _ in left_over((), seen, {}, PLACES)}
    assert {key.resource for key in gone} == {SERVICES, SECRETS, ROLE_BINDINGS}
    stays = {key for key, _ in left_over(WANTED, seen, LIVE, PLACES)}
    assert stays == {binding.key}
    moved = ProjectNamespaces({TEAM: "elsewhere"})
    assert {key.resource for key, _ in left_over((), seen, LIVE, moved)} >= {SERVICES, SECRETS}


def test_claims_and_namespaces_are_never_left_over() -> None:
    volumes = (Volume(target="/d", claim="d", size_bytes=1),)
    (claim,) = workload_manifests(workload(volumes=volumes), "runai-team-a", PLAIN)
    assert left_over((), {claim.key: seen_as(claim)}, {}, PLACES) == []


def test_more_fields_are_no_difference_and_more_items_are() -> None:
    assert covers({"a": [{"x": 1}]}, {"a": [{"x": 1, "default": True}], "b": 2})
    assert not covers({"a": [{"x": 1}]}, {"a": [{"x": 1}, {"x": 2}]})
    assert not covers({"a": 1}, {})


# --- nodes ---------------------------------------------------------------------------------------------------------


def test_declared_fields_come_and_go_and_those_of_others_stay() -> None:
    others = {"key": "theirs", "effect": "NoSchedule"}
    node = SeenNode(name="n1", resource_version="7", labels={"zone": "a"}, taints=(others,))
    wanted = NodeOverrides(cordoned=True, taints=(DRAIN,), labels=(("run.ai/type", "dgx"),))
    patch = node_patch(node, wanted)
    assert patch is not None
    assert patch["spec"] == {
        "taints": [others, {"key": "runai", "value": "drain", "effect": "NoExecute"}],
        "unschedulable": True,
    }
    assert patch["metadata"]["resourceVersion"] == "7"
    done = SeenNode(
        name="n1",
        labels={"zone": "a", "run.ai/type": "dgx"},
        taints=tuple(patch["spec"]["taints"]),
        unschedulable=True,
        declared=patch["metadata"]["annotations"][DECLARED],
    )
    assert node_patch(done, wanted) is None
    back = node_patch(done, NodeOverrides())
    assert back is not None
    assert back["spec"] == {"taints": [others], "unschedulable": None}
    assert back["metadata"]["labels"] == {"run.ai/type": None}
    assert back["metadata"]["annotations"] == {DECLARED: None}


def test_a_cordon_by_hand_is_not_undone() -> None:
    by_hand = SeenNode(name="n1", unschedulable=True)
    assert node_patch(by_hand, NodeOverrides()) is None


def test_a_node_has_one_taint_of_a_key_and_effect() -> None:
    node = SeenNode(name="n1", taints=({"key": "a", "value": "1", "effect": "NoSchedule"},))
    patch = node_patch(node, NodeOverrides(taints=(Taint("a", "2", TaintEffect.NO_SCHEDULE),)))
    assert patch is not None
    assert patch["spec"]["taints"] == [{"key": "a", "value": "2", "effect": "NoSchedule"}]


def test_an_annotation_that_others_wrote_counts_as_none() -> None:
    assert node_patch(SeenNode(name="n1", declared='["?"]'), NodeOverrides()) is None


def test_messages_can_name_every_object_that_is_watched() -> None:
    assert WATCHED.keys() <= KINDS.keys()

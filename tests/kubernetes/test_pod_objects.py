"""Start orders as pods on Kubernetes, and pods and nodes read back: without an API server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpool.engines.kubernetes.node_reading import NodeObject, observed_node
from fairpool.engines.kubernetes.objects import (
    FINALIZER,
    LABEL_VALUE,
    ORDER,
    ORDER_MAX,
    POD,
    label_value,
    pod_manifest,
    pod_name,
    stored_order,
)
from fairpool.engines.kubernetes.pod_reading import NOTHING, PodObject, PodUse, observed_pod, use_of
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.quantities import amount, milli
from fairpool.model.container_rules import Privilege
from fairpool.model.ids import PodId, Token
from fairpool.model.node import Taint, TaintEffect
from fairpool.model.observation import EVICTED, PodState, StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import (
    DistributedRun,
    Framework,
    GitClone,
    Program,
    SecretVariable,
    SecurityContext,
    Volume,
)
from fairpool.model.workload import GpuRequest, PodShape, Toleration, gpu_portion, whole_gpus
from tests.contracts.harness import start_order

SETTINGS = PodSettings()
PLAIN = Program(image="busybox:1")


def manifest(order: StartOrder, settings: PodSettings = SETTINGS, **options: Any) -> dict[str, Any]:
    made = pod_manifest(order, Token(7), "runai-vision", settings, **options)
    assert not isinstance(made, Problem), made
    return made


def container(order: StartOrder, **options: Any) -> dict[str, Any]:
    (only,) = manifest(order, **options)["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def variables(order: StartOrder, **options: Any) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in container(order, **options)["env"]}


def problem(program: Program, settings: PodSettings = SETTINGS, **changes: Any) -> Problem:
    made = pod_manifest(replace(start_order(), program=program, **changes), Token(1), "runai-vision", settings)
    assert isinstance(made, Problem)
    return made


# --- what a pod is


def test_a_pod_is_bound_to_its_node_and_kept_until_its_end_was_recorded() -> None:
    order = start_order("a")
    made = manifest(order)
    assert made["spec"]["nodeName"] == order.node
    assert made["spec"]["restartPolicy"] == "Never"
    assert made["metadata"]["finalizers"] == [FINALIZER]
    assert made["metadata"]["labels"][POD] == order.pod
    assert made["metadata"]["namespace"] == "runai-vision"


def test_an_order_is_read_back_from_its_pod() -> None:
    order = replace(
        start_order("a"),
        program=Program(image="busybox:1", command=("sh", "-c", "echo $HOME"), environment=(("ü", "\u2028'\"\\"),)),
        distributed=DistributedRun(framework=Framework.JAX),
    )
    made = manifest(order)["metadata"]
    assert stored_order(made["name"], order.node, made["annotations"]) == order


@pytest.mark.parametrize(
    "text",
    [
        *("", "{}", "[]", "null", "x", '{"pod": 1}', '{"pod": "a-0-0"', "\ud800"),
        pytest.param("[" * 50_000, id="deep"),
        pytest.param(json.dumps({"pod": "a-0-0", "name": "a" * 100_000}), id="long"),
    ],
)
def test_an_edited_order_is_no_order(text: str) -> None:
    assert stored_order("a-0-0-x", "n1", {ORDER: text}) is None


def test_an_order_of_another_pod_or_node_is_no_order() -> None:
    made = manifest(start_order("a"))["metadata"]
    assert stored_order(pod_name(start_order("b")), "n1", made["annotations"]) is None
    assert stored_order(made["name"], "n2", made["annotations"]) is None


@settings(deadline=None)
@given(st.text(min_size=1, max_size=300), st.text(max_size=300), st.integers(0, 10**6), st.integers(0, 10**6))
def test_names_and_labels_are_valid_whatever_a_workload_is_called(pod: str, name: str, index: int, life: int) -> None:
    order = replace(start_order(), pod=PodId(pod.encode(errors="replace").decode()), name=name, index=index)
    made = pod_name(replace(order, incarnation=life))
    assert len(made) <= 63
    assert made.isascii()
    assert made == made.lower()
    assert made[0].isalnum()
    assert all(each.isalnum() or each == "-" for each in made)
    assert LABEL_VALUE.fullmatch(label_value(order.pod))


def test_two_pods_of_one_name_have_different_names() -> None:
    names = {pod_name(replace(start_order("a"), pod=PodId(f"id-{number}"), name="a")) for number in range(1000)}
    assert len(names) == 1000


def test_words_and_variables_reach_the_program_as_they_are() -> None:
    program = replace(PLAIN, command=("echo", "$(HOME)", "$$"), environment=(("A", "$(B)\nsecond line"),))
    made = container(replace(start_order(), program=program))
    assert made["command"] == ["echo", "$$(HOME)", "$$$$"]
    assert {"name": "A", "value": "$$(B)\nsecond line"} in made["env"]


def test_nothing_overrides_who_a_pod_is() -> None:
    program = replace(PLAIN, environment=(("JOB_NAME", "x"), ("POD_UUID", "x"), ("NVIDIA_VISIBLE_DEVICES", "all")))
    order = replace(start_order("a", devices=()), program=program)
    found = variables(order)
    assert (found["JOB_NAME"], found["RUNAI_PROJECT"], found["NVIDIA_VISIBLE_DEVICES"]) == ("a", "vision", "void")
    assert [each["name"] for each in container(order)["env"]].count("POD_UUID") == 1


def test_resources_are_requests_and_gpus_are_limits() -> None:
    shape = PodShape(gpu=whole_gpus(2), cpu_milli=1500, memory_bytes=1 << 30, extended=(("example.com/nic", 1),))
    program = replace(PLAIN, cpu_limit_milli=1000, memory_limit_bytes=2 << 30)
    found = container(replace(start_order(devices=(0, 1), shape=shape), program=program))["resources"]
    assert found["limits"] == {
        "nvidia.com/gpu": "2",
        "example.com/nic": "1",
        "cpu": "1000m",
        "memory": str(2 << 30),
    }
    assert found["requests"] == {**found["limits"], "cpu": "1000m", "memory": str(1 << 30)}


def test_a_part_of_a_gpu_is_a_device_by_its_uuid_and_asks_the_plugin_for_nothing() -> None:
    order = start_order(devices=(3,), shape=PodShape(gpu=gpu_portion(250)))
    found = variables(order, shared_gpus=("GPU-1",), gpu_memory_mib=80_000)
    assert (found["NVIDIA_VISIBLE_DEVICES"], found["GPU_PORTION"]) == ("GPU-1", "0.25")
    assert found["FAIRPOOL_GPU_MEMORY_MIB"] == "20000"
    assert "limits" not in container(order)["resources"] or not container(order)["resources"]["limits"]


def test_a_container_has_no_privileges_unless_they_were_allowed() -> None:
    assert container(start_order())["securityContext"] == {
        "capabilities": {"drop": ["ALL"]},
        "allowPrivilegeEscalation": False,
    }
    asked = replace(PLAIN, security=SecurityContext(capabilities=("CAP_NET_ADMIN",)))
    assert problem(asked).code == "security.capabilities"
    allowed = PodSettings(privileges=frozenset({Privilege.CAPABILITIES}))
    made = manifest(replace(start_order(), program=asked), allowed)["spec"]["containers"][0]["securityContext"]
    assert made["capabilities"] == {"drop": ["ALL"], "add": ["NET_ADMIN"]}


def test_tolerations_are_passed_on_and_a_silent_node_is_left_to_the_loop() -> None:
    shape = PodShape(tolerations=(Toleration("a", "b", TaintEffect.NO_EXECUTE), Toleration()))
    made = manifest(start_order(devices=(), shape=shape))["spec"]["tolerations"]
    assert made[:2] == [
        {"operator": "Equal", "key": "a", "value": "b", "effect": "NoExecute"},
        {"operator": "Exists"},
    ]
    assert {each.get("key") for each in made[2:]} == {
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    }


def test_pods_of_a_run_have_names_by_which_they_find_each_other() -> None:
    order = replace(start_order("dist"), pods=3, together=True, index=1, incarnation=4)
    spec, found = manifest(order)["spec"], variables(order)
    assert spec["hostname"] == "dist-1"
    assert found["MASTER_ADDR"] == f"dist-0.{spec['subdomain']}"
    assert (found["RANK"], found["WORLD_SIZE"]) == ("1", "3")


def test_an_mpi_launcher_has_a_host_file() -> None:
    order = replace(
        start_order("dist"),
        pods=3,
        together=True,
        distributed=DistributedRun(framework=Framework.MPI, slots_per_worker=2),
    )
    made = manifest(order)
    lines = made["metadata"]["annotations"]["fairpool.io/hosts"].splitlines()
    domain = made["spec"]["subdomain"]
    assert lines == [f"dist-worker-0.{domain} slots=2", f"dist-worker-1.{domain} slots=2"]
    assert variables(order)["FAIRPOOL_HOSTFILE"].startswith("/etc/fairpool/")


def test_volumes_are_objects_that_exist_or_come_with_the_pod() -> None:
    volumes = (
        Volume(target="/claim", claim="data", read_only=True),
        Volume(target="/files", files=(("a", "b"),)),
        Volume(target="/secret", secret="token"),
        Volume(target="/scratch", empty=True),
        Volume(target="/host", source="/raid/data"),
    )
    program = replace(PLAIN, volumes=volumes, shm_bytes=1 << 30)
    settings = PodSettings(host_paths=("/raid",))
    spec = manifest(replace(start_order("a"), program=program), settings)["spec"]
    kinds = [next(key for key in each if key != "name") for each in spec["volumes"]]
    assert kinds == ["persistentVolumeClaim", "configMap", "secret", "emptyDir", "hostPath", "emptyDir"]
    mounts = {each["mountPath"]: each.get("readOnly", False) for each in spec["containers"][0]["volumeMounts"]}
    assert mounts == {
        "/claim": True,
        "/files": True,
        "/secret": True,
        "/scratch": False,
        "/host": False,
        "/dev/shm": False,
    }


@pytest.mark.parametrize(
    ("source", "roots", "volume", "below"),
    [
        ("/raid", ("/",), "/raid", None),
        ("/raid/", ("/",), "/raid", None),
        ("/raid/a/b", ("/",), "/raid", "a/b"),
        ("/raid/team/./b", ("/raid/team/",), "/raid/team", "b"),
        ("/raid/team", ("/raid/team",), "/raid/team", None),
        ("/rai/x", ("/",), "/rai", "x"),
    ],
)
def test_a_path_of_the_node_is_resolved_by_the_kubelet_within_what_was_allowed(
    source: str, roots: tuple[str, ...], volume: str, below: str | None
) -> None:
    """Jobs can make links in directories of nodes: a `hostPath` follows them anywhere, a `subPath` does not."""
    program = replace(PLAIN, volumes=(Volume(target="/host", source=source),), host_roots=roots)
    spec = manifest(replace(start_order("a"), program=program), PodSettings(host_paths=("/raid", "/rai")))["spec"]
    assert spec["volumes"][0]["hostPath"] == {"path": volume}
    assert spec["containers"][0]["volumeMounts"][0].get("subPath") == below


def test_secret_variables_are_references() -> None:
    program = replace(PLAIN, secrets=(SecretVariable(name="KEY", credential="login", key="password"),))
    found = [each for each in container(replace(start_order("a"), program=program))["env"] if each["name"] == "KEY"]
    assert found == [{"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "a.login", "key": "password"}}}]


# --- what is refused, by name


@pytest.mark.parametrize(
    ("program", "code"),
    [
        pytest.param(Program(), "image.none", id="no image"),
        pytest.param(replace(PLAIN, python_env="/opt/env"), "python_env.container", id="environment of the machine"),
        pytest.param(replace(PLAIN, volumes=(Volume(target="/w", uploaded=True),)), "upload.kubernetes", id="upload"),
        pytest.param(
            replace(PLAIN, volumes=(Volume(target="/w", git=GitClone(repository="https://a/b")),)),
            "git.kubernetes",
            id="Git",
        ),
        pytest.param(replace(PLAIN, volumes=(Volume(target="/w", source="/etc"),)), "volume.host_path", id="path"),
        pytest.param(replace(PLAIN, volumes=(Volume(target="/w", source="/raid/.."),)), "volume.missing", id="dots"),
        pytest.param(replace(PLAIN, volumes=(Volume(target="/proc/1", empty=True),)), "volume.target", id="/proc"),
        pytest.param(replace(PLAIN, security=SecurityContext(gid=5)), "security.group", id="group without user"),
        pytest.param(
            replace(PLAIN, security=SecurityContext(host_network=True)), "security.host_network", id="network"
        ),
        pytest.param(replace(PLAIN, environment=(("A", "x" * ORDER_MAX),)), "order.long", id="too long"),
    ],
)
def test_what_kubernetes_cannot_give_is_refused(program: Program, code: str) -> None:
    assert problem(program, PodSettings(host_paths=("/raid",))).code == code


FILLING = PodSettings(support_image="registry.example/fairpool:1")


@pytest.mark.parametrize(
    ("volume", "code"),
    [
        pytest.param(Volume(target="/w", git=GitClone(repository="file:///srv/a.git")), "git.kubernetes", id="a path"),
        pytest.param(Volume(target="/w", git=GitClone(repository="ssh://a/b")), "git.ssh", id="SSH"),
        pytest.param(Volume(target="/w", git=GitClone(repository="--upload-pack=x")), "git.address", id="an option"),
        pytest.param(Volume(target="/w", claim="a", credential="login"), "volume.credential", id="login of a claim"),
    ],
)
def test_a_volume_that_cannot_be_filled_is_refused(volume: Volume, code: str) -> None:
    assert problem(replace(PLAIN, volumes=(volume,)), FILLING).code == code


def test_containers_that_fill_volumes_have_no_more_rights_than_the_program_and_not_its_variables() -> None:
    volumes = (
        Volume(target="/w", uploaded=True),
        Volume(target="/src", git=GitClone(repository="https://a/$(b)", size_bytes=5120), credential="login"),
    )
    environment = (("KEY", "value"), ("https_proxy", "http://proxy:3128"))
    program = replace(PLAIN, volumes=volumes, environment=environment, security=SecurityContext(uid=5, gid=6))
    allowed = replace(FILLING, privileges=frozenset({Privilege.USER}))
    spec = manifest(replace(start_order("a"), program=program), allowed)["spec"]
    upload, clone = spec["initContainers"]
    assert {each["image"] for each in (upload, clone)} == {"registry.example/fairpool:1"}
    main = spec["containers"][0]
    assert upload["securityContext"] == clone["securityContext"] == main["securityContext"]
    assert [each["mountPath"] for each in main["volumeMounts"]] == ["/w", "/src"], "not the login"
    variables = {each["name"]: each["value"] for each in clone["env"]}
    assert "KEY" not in variables
    assert variables["https_proxy"] == "http://proxy:3128"
    assert "https://a/$$(b)" in clone["command"], "Kubernetes does not replace it"
    assert {"name": "volume-1", "emptyDir": {"sizeLimit": "5120"}} in spec["volumes"]


@pytest.mark.parametrize(
    ("name", "image", "command"),
    [
        ("python", "registry.example/python:3.12", None),
        ("python:3.11", "python:3.11", None),
        ("team/tool", "registry.example/tool:1", None),
        ("run-ai-demo/quickstart", "registry.example/fairpool:1", ["python3", "-m", "fairpool.agent.pod.trainer"]),
        ("gcr.example/run-ai-demo/quickstart", "gcr.example/run-ai-demo/quickstart", None),
    ],
)
def test_an_image_is_what_the_table_says(name: str, image: str, command: list[str] | None) -> None:
    table = (("python", "registry.example/python:3.12"), ("team/*", "registry.example/tool:1"))
    own = container(replace(start_order("a"), program=Program(image=name)), settings=replace(FILLING, images=table))
    assert (own["image"], own.get("command")) == (image, command)


def test_shapes_that_cannot_be_had_are_refused() -> None:
    mig = PodShape(gpu=GpuRequest(mig=(("nvidia.com/mig-1g.5gb", 1),)))
    assert problem(PLAIN, shape=mig).code == "gpu.mig"
    assert problem(PLAIN, shape=PodShape(labels=(("a b", "c"),))).code == "label.invalid"
    assert problem(PLAIN, shape=PodShape(labels=(("fairpool.io/pod", "b-0-0"),))).code == "label.reserved"


# --- pods that are read


def pod(phase: str = "Running", **fields: Any) -> PodObject:
    status = {"phase": phase, **fields.pop("status", {})}
    return msgspec.convert({"status": status, **fields}, PodObject)


def state(**states: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "state": states}]}


ENDED_AT = "2026-01-01T00:00:10Z"


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        pytest.param(pod("Pending"), (PodState.STARTING, ""), id="nothing known yet"),
        pytest.param(
            pod("Pending", status=state(waiting={"reason": "ContainerCreating"})), (PodState.STARTING, ""), id="begins"
        ),
        pytest.param(
            pod("Pending", status=state(waiting={"reason": "ImagePullBackOff", "message": "no such image"})),
            (PodState.STARTING, "ImagePullBackOff: no such image"),
            id="image",
        ),
        pytest.param(
            pod("Pending", status=state(waiting={"reason": "InvalidImageName", "message": "x"})),
            (PodState.STARTING, "ErrImagePull: InvalidImageName: x"),
            id="image that never comes",
        ),
        pytest.param(
            pod("Pending", status=state(waiting={"reason": "CreateContainerConfigError", "message": "no secret"})),
            (PodState.STARTING, "CreateContainerConfigError: no secret"),
            id="secret",
        ),
        pytest.param(
            pod(status=state(running={"startedAt": "2026-01-01T00:00:00Z"})), (PodState.RUNNING, ""), id="runs"
        ),
        pytest.param(
            pod("Failed", status=state(terminated={"exitCode": 137, "reason": "OOMKilled", "finishedAt": ENDED_AT})),
            (PodState.EXITED, "OOMKilled"),
            id="memory",
        ),
    ],
)
def test_the_state_of_a_pod_says_why(seen: PodObject, expected: tuple[PodState, str]) -> None:
    found = observed_pod(start_order(), seen)
    assert (found.state, found.message) == expected


@pytest.mark.parametrize(
    ("deleted_at", "grace_s", "is_after"),
    [
        pytest.param("2026-01-01T00:00:35Z", 30, True, id="asked before it ended"),
        pytest.param("2026-01-01T00:00:41Z", 30, False, id="asked after it had ended"),
        pytest.param("2026-01-01T00:00:05Z", 0, True, id="grace shortened to nothing"),
        pytest.param("2026-01-01T00:00:13Z", 0, True, id="deleted once more by its kubelet"),
        pytest.param("2026-01-01T00:01:00Z", 0, False, id="deleted by hand long after it had ended"),
    ],
)
def test_a_pod_that_ended_after_it_was_asked_to_was_stopped(deleted_at: str, grace_s: int, is_after: bool) -> None:
    metadata = {"deletionTimestamp": deleted_at, "deletionGracePeriodSeconds": grace_s}
    ended = state(terminated={"exitCode": 0, "startedAt": ENDED_AT, "finishedAt": ENDED_AT})
    found = observed_pod(start_order(), pod("Succeeded", metadata=metadata, status=ended))
    assert (found.exit_code, found.after_notice) == (0, is_after)


def test_a_pod_whose_kubelet_did_not_know_of_the_request_when_it_ended_was_not_stopped() -> None:
    """Deleted seconds after it had ended, while no loop ran: by the times, its kubelet could have stopped it."""
    ended = state(terminated={"exitCode": 0, "startedAt": ENDED_AT, "finishedAt": ENDED_AT})
    asked = {"deletionTimestamp": "2026-01-01T00:00:13Z", "deletionGracePeriodSeconds": 0, "generation": 2}
    for known, is_after in ((1, False), (2, True), (None, True)):
        seen = pod("Succeeded", metadata=asked, status={**ended, "observedGeneration": known})
        assert observed_pod(start_order(), seen).after_notice is is_after


def test_what_its_node_did_to_a_pod_is_no_failure_of_the_pod_unless_it_is_to_blame() -> None:
    rejected = pod("Failed", status={"reason": "UnexpectedAdmissionError", "message": "no devices"})
    found = observed_pod(start_order(), rejected)
    assert (found.after_notice, found.message, found.exit_code) == (True, "UnexpectedAdmissionError: no devices", None)
    low = pod("Failed", status={"reason": "Evicted", "message": "The node was low on resource: memory."})
    assert EVICTED not in observed_pod(start_order(), low).message
    greedy = pod("Failed", status={"reason": "Evicted", "message": "Pod ephemeral local storage usage exceeds 1Gi."})
    assert observed_pod(start_order(), greedy).message.startswith(EVICTED)


def test_a_pod_holds_what_the_default_scheduler_counts() -> None:
    def needs(cpu: str, memory: str = "0", **more: str) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu, "memory": memory, **more}}}

    spec = {
        "nodeName": "n1",
        "containers": [needs("500m", "1Gi", **{"nvidia.com/gpu": "1"}), needs("250m")],
        "initContainers": [needs("2"), {**needs("100m"), "restartPolicy": "Always"}],
        "overhead": {"cpu": "50m"},
    }
    assert use_of(pod(spec=spec)) == PodUse(2050, 1 << 30, 1, (("nvidia.com/gpu", 1),))
    assert use_of(pod("Succeeded", spec=spec)) == NOTHING
    assert use_of(pod(spec={**spec, "nodeName": None})) == NOTHING


@pytest.mark.parametrize(
    ("text", "whole", "thousandths"),
    [
        ("500m", 1, 500),
        ("2", 2, 2000),
        ("1Gi", 1 << 30, (1 << 30) * 1000),
        ("1e3", 1000, 10**6),
        ("1.5k", 1500, 1_500_000),
    ],
)
def test_quantities(text: str, whole: int, thousandths: int) -> None:
    assert (amount(text), milli(text)) == (whole, thousandths)


@settings(deadline=None)
@given(st.text(max_size=80))
def test_no_text_is_too_strange_for_a_quantity(text: str) -> None:
    assert 0 <= amount(text) < 2**63
    assert milli(text) >= 0


# --- nodes that are read


def node(**status: Any) -> NodeObject:
    gpus = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"}
    ready = {"type": "Ready", "status": "True"}
    content = {
        "metadata": {"name": "n1", "labels": {"nvidia.com/gpu.memory": "81559"}},
        "spec": status.pop("spec", {}),
        "status": {
            "capacity": gpus,
            "allocatable": gpus,
            "conditions": [ready],
            "nodeInfo": {"bootID": "b1"},
            **status,
        },
    }
    return msgspec.convert(content, NodeObject)


def test_a_node_without_what_others_use_and_with_their_gpus_withheld() -> None:
    others = PodUse(4000, 2 << 30, 10, (("nvidia.com/gpu", 2),))
    found = observed_node(node(), others, held={7, 0}, settings=SETTINGS)
    assert (found.boot_id, found.node.gpus, found.node.gpu_memory_mib) == ("b1", 8, 81559)
    assert found.node.gpus_withheld == (5, 6)
    assert (found.node.cpu_milli, found.node.memory_bytes, found.node.pods_max) == (60_000, 510 << 30, 100)
    assert "2 in use by pods that Fairpool did not start" in found.message


def test_gpus_that_are_not_healthy_are_withheld_and_never_more_than_there_are() -> None:
    ill = {"cpu": "1", "memory": "1", "pods": "1", "nvidia.com/gpu": "6"}
    assert observed_node(node(allocatable=ill), NOTHING, (), SETTINGS).node.gpus_withheld == (6, 7)
    greedy = PodUse(10**9, 1 << 60, 1000, (("nvidia.com/gpu", 20),))
    found = observed_node(node(), greedy, {0, 1}, SETTINGS).node
    assert (found.gpus_withheld, found.cpu_milli, found.memory_bytes, found.pods_max) == (tuple(range(2, 8)), 0, 0, 0)


def test_a_node_is_silent_if_its_kubelet_is_not_heard_and_not_ready_if_it_says_so() -> None:
    unheard = {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    found = observed_node(node(conditions=[unheard]), NOTHING, (), SETTINGS)
    assert found.silent_since == 1_767_225_600_000
    assert not found.gone
    reported = {"type": "Ready", "status": "False", "message": "no network"}
    found = observed_node(node(conditions=[reported]), NOTHING, (), SETTINGS)
    assert (found.silent_since, found.node.ready) == (None, False)
    assert "no network" in found.message


def test_taints_and_a_cordon_are_seen_and_an_out_of_service_node_is_gone() -> None:
    taints = [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"},
        {"key": "x", "effect": "Whatever"},
    ]
    found = observed_node(node(spec={"taints": taints, "unschedulable": True}), NOTHING, (), SETTINGS)
    assert (found.node.taints, found.node.cordoned, found.gone) == ((Taint("a"),), True, False)
    off = [{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]
    assert observed_node(node(spec={"taints": off}), NOTHING, (), SETTINGS).gone

"""Reservation pods and pods with parts of GPUs as objects, and what is refused; without an API server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import pod_manifest
from fairpool.engines.kubernetes.pod_reading import PodObject
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.reservation_pods import (
    is_reservation,
    read_reservation,
    read_share,
    reservation_manifest,
    reservation_name,
)
from fairpool.engines.kubernetes.shares import Create, NodeShares, NotYet, Ready, answer_to, share_objection
from fairpool.model.ids import NodeName, Token
from fairpool.model.node import Node
from fairpool.model.observation import ObservedNode, StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import Program
from fairpool.model.workload import PodShape, gpu_memory, gpu_portion, whole_gpus
from tests.contracts.harness import start_order

GPU = "GPU-5e1bd69c-0f7d-4f5c-9a53-000000000001"
OTHER = "GPU-5e1bd69c-0f7d-4f5c-9a53-000000000002"
NODE = NodeName("n1")
SETTINGS = PodSettings(reservation_image="busybox:1", unenforced_shares=True)
WANTED = Create(NODE, 3, 0, "boot")


def reservation(**changes: Any) -> PodObject:
    """One that was created, and has reported its GPU."""
    body = reservation_manifest(WANTED, SETTINGS, with_priority=True)
    body["metadata"] |= {"uid": "uid", "resourceVersion": "1", **changes.pop("metadata", {})}
    body["status"] = status(GPU) | changes
    return msgspec.convert(body, PodObject)


def status(message: str, exit_code: int = 0, name: str = "report") -> dict[str, Any]:
    end = {"terminated": {"exitCode": exit_code, "message": message}}
    return {"phase": "Running", "initContainerStatuses": [{"name": name, "state": end}]}


def half() -> StartOrder:
    return start_order("half", node=NODE, boot_id="boot", devices=(3,), shape=PodShape(gpu=gpu_portion(500)))


def share_pod(order: StartOrder, gpus: str = GPU, settings: PodSettings = SETTINGS) -> dict[str, Any]:
    made = pod_manifest(order, Token(1), "runai-vision", settings, shared_gpus=(GPU,), gpu_memory_mib=1000)
    assert isinstance(made, dict), made
    made["metadata"]["annotations"]["fairpool.io/shared-gpus"] = gpus
    return made


def sight(*pods: dict[str, Any], **changes: Any) -> NodeShares:
    node = Node(name=NODE, cpu_milli=1000, memory_bytes=1, gpus=8, gpu_memory_mib=1000)
    read = read_reservation(reservation())
    assert read is not None
    shares = [read_share(msgspec.convert({**pod, "status": {"phase": "Running"}}, PodObject)) for pod in pods]
    found: dict[str, Any] = {"reservations": (read,), "pods": tuple(each for each in shares if each is not None)}
    return NodeShares(observed=ObservedNode(node=node, boot_id="boot"), **found | changes)


def test_a_reservation_asks_the_device_plugin_for_one_gpu_on_its_node() -> None:
    spec = reservation_manifest(WANTED, SETTINGS, with_priority=True)["spec"]
    assert spec["nodeName"] == NODE
    for container in (*spec["initContainers"], *spec["containers"]):
        assert container["resources"]["limits"]["nvidia.com/gpu"] == "1"
        assert container["resources"]["limits"] == container["resources"]["requests"]  # evicted last
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert (spec["restartPolicy"], spec["tolerations"]) == ("Always", [{"operator": "Exists"}])
    assert spec["automountServiceAccountToken"] is False


def test_names_of_reservations_differ_by_node_seat_and_attempt() -> None:
    names = [
        reservation_name(NodeName(node), seat, attempt)
        for node in ("n1", "n2", "N1", "x" * 253, "x" * 252)
        for seat in (0, 1, 11)
        for attempt in (0, 1)
    ]
    assert len(set(names)) == len(names)
    assert all(len(name) < 64 for name in names)


def test_a_reservation_is_read_back() -> None:
    found = read_reservation(reservation())
    assert found is not None
    assert (found.node, found.seat, found.gpu, found.boot_id, found.has_ended) == (NODE, 3, GPU, "boot", False)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(status(f"{GPU},{OTHER}"), id="two"),
        pytest.param(status("all"), id="all"),
        pytest.param(status(GPU.upper()), id="capitals"),
        pytest.param(status(f"{GPU}\nGPU"), id="two lines"),
        pytest.param(status(GPU, exit_code=1), id="failed"),
        pytest.param(status(GPU, name="sidecar"), id="another container"),
        pytest.param(status("GPU-" + "٠" * 8 + GPU[12:]), id="digits of another script"),
        pytest.param({"phase": "Running"}, id="nothing"),
    ],
)
def test_only_one_whole_uuid_of_the_right_container_is_believed(seen: dict[str, Any]) -> None:
    found = read_reservation(reservation(**{"initContainerStatuses": []} | seen))
    assert found is not None
    assert found.gpu == ""


@pytest.mark.parametrize(
    "metadata",
    [
        {"namespace": "runai-vision"},
        {"labels": {"fairpool.io/reservation": "3"}},
        {"name": "something-else"},
        {"labels": {"app.kubernetes.io/managed-by": "fairpool", "fairpool.io/reservation": "٣"}},
        {"labels": {"app.kubernetes.io/managed-by": "fairpool", "fairpool.io/reservation": "-1"}},
        {"annotations": {}},
    ],
)
def test_a_pod_that_pretends_to_be_a_reservation_is_none(metadata: dict[str, Any]) -> None:
    assert read_reservation(reservation(metadata=metadata)) is None


def test_labels_alone_make_no_reservation() -> None:
    assert is_reservation(reservation())
    assert reservation().metadata.namespace == RESERVATION_NAMESPACE
    assert not is_reservation(reservation(metadata={"namespace": "default"}))


@pytest.mark.parametrize("gpus", ["", "all", f"{GPU},{OTHER}", "x" * 100_000])
def test_an_edited_pod_still_keeps_its_seat_reserved(gpus: str) -> None:
    node = sight(share_pod(half(), gpus))
    assert (node.gpus_in_use(3), len(node.living_at(3)), node.lost()) == (frozenset(), 1, {})


def test_the_library_is_mounted_and_preloaded_before_those_of_the_user() -> None:
    settings = PodSettings(reservation_image="a", share_library="/usr/lib/share.so")
    program = Program(image="a", environment=(("LD_PRELOAD", "/own.so"),))
    order = start_order("half", devices=(3,), shape=PodShape(gpu=gpu_portion(500)))
    made = pod_manifest(replace(order, program=program), Token(1), "a", settings, shared_gpus=(GPU,))
    assert isinstance(made, dict)
    [container], [volume] = made["spec"]["containers"], made["spec"]["volumes"]
    assert volume["hostPath"] == {"path": "/usr/lib/share.so", "type": "File"}
    [mount] = container["volumeMounts"]
    assert mount["readOnly"] is True
    assert environment(made)["LD_PRELOAD"] == f"{mount['mountPath']}:/own.so"


def test_pods_with_whole_gpus_have_no_library_and_cannot_ask_for_all_gpus() -> None:
    settings = PodSettings(reservation_image="a", share_library="/usr/lib/share.so")
    program = Program(image="a", environment=(("NVIDIA_VISIBLE_DEVICES", "all"),))
    order = start_order("whole", devices=(3,), shape=PodShape(gpu=whole_gpus(1)))
    made = pod_manifest(replace(order, program=program), Token(1), "a", settings)
    assert isinstance(made, dict)
    assert "volumes" not in made["spec"]
    assert not {"LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES"} & set(environment(made))


@pytest.mark.parametrize(
    ("settings", "labels", "code"),
    [
        (PodSettings(), {}, "gpu.no_reservations"),
        (PodSettings(reservation_image="a"), {}, "gpu.unenforced"),
        (PodSettings(reservation_image="a"), {"fairpool/simulated": "true"}, None),
        (PodSettings(reservation_image="a", unenforced_shares=True), {}, None),
        (PodSettings(reservation_image="a", share_library="/usr/lib/share.so"), {}, None),
    ],
)
def test_parts_of_gpus_need_an_image_and_the_library_or_a_permission(
    settings: PodSettings, labels: dict[str, str], code: str | None
) -> None:
    problem = share_objection(Node(name=NODE, cpu_milli=0, memory_bytes=0, labels=labels), settings)
    assert (problem.code if problem is not None else None) == code


def test_parts_of_a_seat_are_never_more_than_the_gpu() -> None:
    memory = start_order("memory", node=NODE, boot_id="boot", devices=(3,), shape=PodShape(gpu=gpu_memory(500)))
    too_much = start_order("more", node=NODE, boot_id="boot", devices=(3,), shape=PodShape(gpu=gpu_memory(501)))
    node = sight(share_pod(half()))
    assert isinstance(answer_to(memory, node, SETTINGS), Ready)
    assert isinstance(answer_to(too_much, node, SETTINGS), NotYet)


def test_a_reservation_of_another_boot_is_not_used() -> None:
    order = start_order("half", node=NODE, boot_id="later", devices=(3,), shape=PodShape(gpu=gpu_portion(500)))
    assert isinstance(answer_to(order, sight(), SETTINGS), NotYet)


def test_a_seat_that_could_not_be_reserved_is_refused_for_a_while() -> None:
    answer = answer_to(half(), sight(failed={3: "no image"}), SETTINGS)
    assert isinstance(answer, Problem)
    assert "no image" in answer.what


def environment(made: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each.get("value", "") for each in made["spec"]["containers"][0]["env"]}

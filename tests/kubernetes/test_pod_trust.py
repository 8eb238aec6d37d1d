"""What a user who may create pods in the namespace of a project cannot do: take over the identity of a pod, hold or
hide GPUs, or break a cycle. On a real API server: by the signatures of pods alone, and by the policy."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from fairpool.engines.kubernetes.engine import KubernetesEngine
from fairpool.engines.kubernetes.names import RESERVATION_NAMESPACE
from fairpool.engines.kubernetes.objects import FINALIZER, ORDER, RESERVATION, TOKEN, pod_name
from fairpool.engines.kubernetes.pod_signature import SECRET_NAME, SIGNATURE
from fairpool.engines.port import EngineUnreachable
from fairpool.model.ids import Token
from fairpool.model.observation import Observation, OrderStatus, PodState, StartOrder, StopOrder
from tests.contracts.harness import NODE
from tests.contracts.kubernetes_harness import KubernetesHarness, open_engine
from tests.kubernetes.api_calls import ApiCalls, ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import CLUSTER, Helm, applied_policies
from tests.monitoring import until

pytestmark = pytest.mark.slow

ONE, TWO = Token(1), Token(2)
PODS = "/api/v1/namespaces/runai-vision/pods"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCOUNT = "fairpool-cluster"


@pytest.fixture
def harness(control_plane: ControlPlane) -> Iterator[KubernetesHarness]:
    with KubernetesHarness.on(control_plane, reopened=False) as made:
        yield made


@pytest.fixture
def engine(harness: KubernetesHarness, control_plane: ControlPlane) -> Iterator[KubernetesEngine]:
    with control_plane.namespace("engine") as namespace:
        made = open_engine(control_plane, namespace)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture
def user(control_plane: ControlPlane, namespace: str) -> Iterator[ApiCalls]:
    """A user who may do everything with pods, in every namespace, and nothing else."""
    names = ["pods", "pods/status", "pods/binding", "bindings"]
    rule = {"apiGroups": [""], "resources": names, "verbs": ["*"]}
    yield from account_with(control_plane, namespace, "ann", [rule])


def account_with(plane: ControlPlane, namespace: str, name: str, rules: list[Any]) -> Iterator[ApiCalls]:
    """A service account with these rights in the whole cluster, for one test."""
    admin = plane.admin
    admin.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": name}})
    role = f"trust-{name}-{namespace}"
    admin.create(f"{RBAC}/clusterroles", {"metadata": {"name": role}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": role}, "subjects": [subject], "roleRef": reference}
    admin.create(f"{RBAC}/clusterrolebindings", binding)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    token = admin.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    calls = ApiCalls(plane.address, plane.ca, token)
    until(lambda: may_list(calls), "the rights are in force")
    try:
        yield calls
    finally:
        for kind in ("clusterrolebindings", "clusterroles"):
            admin.delete(f"{RBAC}/{kind}/{role}")


def may_list(calls: ApiCalls) -> bool:
    try:
        calls.get("/api/v1/pods?limit=1")
    except ApiError as error:
        return error.status != 403
    return True


def started(engine: KubernetesEngine, order: StartOrder, token: Token = ONE) -> Observation:
    assert [each.status for each in engine.carry_out([order], token)] == [OrderStatus.DONE]
    return sees(engine, lambda seen: seen.pods[order.pod].state is PodState.RUNNING, f"{order.pod} runs", token)


def sees(engine: KubernetesEngine, holds: Any, what: str, token: Token = ONE) -> Observation:
    found: Observation = until(lambda: next((each for each in [engine.observe(token)] if holds(each)), None), what)
    return found


def withheld(seen: Observation) -> int:
    return len(seen.nodes[NODE].node.gpus_withheld)


def copy_of(found: Any, name: str = "", *, gpus: int = 0, order: str = "") -> dict[str, Any]:
    """A pod with the labels and annotations of another one."""
    metadata, resources = found["metadata"], {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "busybox", "resources": resources}
    return {
        "metadata": {
            "name": name or metadata["name"],
            "labels": dict(metadata["labels"]),
            "annotations": {**metadata["annotations"], **({ORDER: order} if order else {})},
        },
        "spec": {"nodeName": NODE, "containers": [container]},
    }


def forged(found: Any, **changes: Any) -> str:
    return json.dumps({**json.loads(found["metadata"]["annotations"][ORDER]), **changes})


# --- signatures


def test_what_a_user_writes_into_pods_is_not_believed(
    engine: KubernetesEngine,
    harness: KubernetesHarness,
    control_plane: ControlPlane,
    user: ApiCalls,
    caplog: pytest.LogCaptureFixture,
) -> None:
    order = harness.order(run_s=None)
    before = started(engine, order).pods[order.pod]
    found = control_plane.admin.get(f"{PODS}/{pod_name(order)}")
    caplog.set_level(logging.WARNING, logger="fairpool.kubernetes")

    # The identity of another pod, which runs: in its namespace, and under its very name in another one.
    user.create(PODS, copy_of(found, "impostor"))
    user.create("/api/v1/namespaces/default/pods", copy_of(found))
    # GPUs that are not used, and numbers and sizes that end or slow down a cycle.
    hostile: list[dict[str, Any]] = [{"devices": list(range(30_000))}, {"index": 10**400}, {"grace_s": -(10**30)}]
    for number, changes in enumerate(hostile):
        user.create(PODS, copy_of(found, f"hold-{number}", order=forged(found, **changes)))
    user.create(PODS, copy_of(found, "deep", order="[" * 100_000))
    user.create(PODS, thousands_of_resources())
    # A GPU that is used, hidden as one that is reserved for others.
    hidden = copy_of(found, "gpu-0-hidden", gpus=1)
    hidden["metadata"]["labels"] |= {RESERVATION: "1"}
    with ExitStack() as made:
        if control_plane.admin.find(f"/api/v1/namespaces/{RESERVATION_NAMESPACE}") is None:
            control_plane.admin.create("/api/v1/namespaces", {"metadata": {"name": RESERVATION_NAMESPACE}})
            made.callback(control_plane.admin.delete, f"/api/v1/namespaces/{RESERVATION_NAMESPACE}")
        reserved = f"/api/v1/namespaces/{RESERVATION_NAMESPACE}"
        until(lambda: control_plane.admin.find(f"{reserved}/serviceaccounts/default"), "its account is there")
        user.create(f"{reserved}/pods", hidden)
        made.callback(control_plane.admin.delete, f"{reserved}/pods/gpu-0-hidden", 0)
        made.callback(control_plane.admin.delete, f"/api/v1/namespaces/default/pods/{pod_name(order)}", 0)

        seen = sees(engine, lambda seen: withheld(seen) == 1, "the GPU that is used is withheld, and no other")
        assert seen.pods == {order.pod: before}
        assert engine.place(order.pod).namespace == "runai-vision"  # type: ignore[union-attr]
        second = harness.order("second", device=1, run_s=None)
        started(engine, second)
        begun = time.monotonic()
        for number in range(20):
            user.patch(f"{PODS}/impostor", {"metadata": {"annotations": {"a": str(number)}}})
            engine.observe(ONE)
        assert time.monotonic() - begun < 10
        said = [each.getMessage() for each in caplog.records if "not its signature" in each.getMessage()]
        assert len(said) == len(set(said)) == 8, "each is reported once"

        newer = open_engine(control_plane, engine._namespace)
        try:  # with the same key, and it does not believe them either
            seen = newer.observe(TWO)
            assert set(seen.pods) == {order.pod, second.pod}
            assert withheld(seen) == 1
            stop = StopOrder(pod=order.pod, node=NODE, grace_s=1, reason="")
            assert newer.carry_out([stop], TWO)[0].status is OrderStatus.DONE
            sees(newer, lambda seen: seen.pods[order.pod].state is PodState.EXITED, "the right one is stopped", TWO)
            assert "deletionTimestamp" not in control_plane.admin.get(f"{PODS}/impostor")["metadata"]
        finally:
            newer.close()


def thousands_of_resources() -> dict[str, Any]:
    """Near the largest object that an API server stores."""
    containers = [
        {"name": f"c{number}", "image": "a", "resources": {"limits": {f"a.io/r{number}": "1"}}}
        for number in range(5_000)
    ]
    labels = {"app.kubernetes.io/managed-by": "fairpool", "fairpool.io/pod": "many"}
    return {"metadata": {"name": "many", "labels": labels}, "spec": {"nodeName": NODE, "containers": containers}}


def test_the_key_is_made_once_and_a_damaged_one_is_not_replaced(
    engine: KubernetesEngine, harness: KubernetesHarness, control_plane: ControlPlane
) -> None:
    """Otherwise every pod that runs would become a pod of others."""
    order = harness.order(run_s=None)
    started(engine, order)
    path = f"/api/v1/namespaces/{engine._namespace}/secrets/{SECRET_NAME}"
    secret = control_plane.admin.get(path)
    assert secret["immutable"] is True
    newer = open_engine(control_plane, engine._namespace)
    try:
        assert newer.observe(TWO).pods[order.pod].state is PodState.RUNNING
        assert control_plane.admin.get(path)["data"] == secret["data"]
    finally:
        newer.close()
    control_plane.admin.delete(path)
    body = {"metadata": {"name": SECRET_NAME}, "data": {"key": "c2hvcnQ="}}
    control_plane.admin.create(f"/api/v1/namespaces/{engine._namespace}/secrets", body)
    last = open_engine(control_plane, engine._namespace)
    try:
        with pytest.raises(EngineUnreachable, match=f"the secret {SECRET_NAME} is damaged"):
            last.observe(Token(3))
    finally:
        last.close()


# --- the policy of the chart


@pytest.fixture
def account_namespace(control_plane: ControlPlane) -> Iterator[str]:
    """Where the chart is installed. Its name is new: other tests delete theirs, which takes the API server a while."""
    with control_plane.namespace("scheduler") as made:
        yield made


@pytest.fixture
def policies(control_plane: ControlPlane, account_namespace: str, tmp_path: Path) -> Iterator[None]:
    with applied_policies(control_plane, Helm(tmp_path).template(CLUSTER, namespace=account_namespace)):
        yield


@pytest.fixture
def scheduler(control_plane: ControlPlane, account_namespace: str) -> Iterator[ApiCalls]:
    """Its service account, with more rights than it has."""
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}
    yield from account_with(control_plane, account_namespace, ACCOUNT, [rule])


def test_no_other_account_may_write_what_the_scheduler_reads(
    control_plane: ControlPlane, namespace: str, policies: None, scheduler: ApiCalls, user: ApiCalls
) -> None:
    admin = control_plane.admin
    admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {"runai/queue": "trust"}}})
    pods = f"/api/v1/namespaces/{namespace}/pods"
    plain: dict[str, Any] = {
        "metadata": {"name": "plain"},
        "spec": {"containers": [{"name": "main", "image": "busybox"}]},
    }
    own = deepcopy(plain)
    own["metadata"] = {
        "name": "own",
        "labels": {"app.kubernetes.io/managed-by": "fairpool", "fairpool.io/pod": "a-0-0", TOKEN: "1"},
        "annotations": {ORDER: "{}", SIGNATURE: "x"},
        "finalizers": [FINALIZER],
    }
    refused(lambda: user.create(pods, own))
    scheduler.create(pods, own)
    user.create(pods, {**plain, "metadata": {"name": "plain", "labels": {"app": "a"}, "finalizers": ["x.io/y"]}})
    taken: list[dict[str, Any]] = [
        {"labels": {"app.kubernetes.io/managed-by": "fairpool"}},
        {"labels": {"fairpool.io/workload": "a"}},
        {"annotations": {ORDER: "{}"}},
        {"annotations": {"share.fairpool.io/0": "a"}},
        {"finalizers": [FINALIZER]},
    ]
    for number, metadata in enumerate(taken):
        refused(lambda: user.create(pods, {**plain, "metadata": {"name": f"made-{number}", **metadata}}))  # noqa: B023
        for path in ("plain", "plain/status"):
            refused(lambda: user.patch(f"{pods}/{path}", {"metadata": metadata}))  # noqa: B023
    bound = {"metadata": {"name": "plain", "annotations": {ORDER: "{}"}}, "target": {"kind": "Node", "name": "n"}}
    refused(lambda: user.create(f"{pods}/plain/binding", bound))
    for metadata in (
        {"labels": {TOKEN: "2"}},
        {"labels": {TOKEN: None}},
        {"labels": {"app.kubernetes.io/managed-by": None}},
        {"annotations": {SIGNATURE: "y"}},
        {"annotations": None},
        {"finalizers": None},
    ):
        refused(lambda: user.patch(f"{pods}/own", {"metadata": metadata}))  # noqa: B023

    # What kubelets, controllers and people do otherwise.
    user.patch(f"{pods}/own", {"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}}})
    admin.patch(f"{pods}/own/status", {"status": {"phase": "Running", "message": "hello"}})
    user.patch(f"{pods}/plain", {"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}, "finalizers": None}})
    user.delete(f"{pods}/own", grace_s=0)
    assert "deletionTimestamp" in user.get(f"{pods}/own")["metadata"], "its finalizer keeps it"
    user.patch(f"{pods}/own", {"metadata": {"finalizers": None}})
    assert user.find(f"{pods}/own") is None

    # Who could delete the policy may clean up without the scheduler, and nothing more.
    scheduler.create(pods, {**own, "metadata": {**own["metadata"], "name": "left"}})
    refused(lambda: admin.patch(f"{pods}/left", {"metadata": {"labels": {TOKEN: "2"}}}))
    admin.patch(f"{pods}/left", {"metadata": {"finalizers": None}})
    left = admin.get(f"{pods}/left")["metadata"]
    assert "finalizers" not in left
    assert "deletionTimestamp" not in left
    admin.delete(f"{pods}/left", grace_s=0)


def refused(call: Any) -> None:
    with pytest.raises(ApiError, match="Only the scheduler of Fairpool may") as error:
        call()
    assert error.value.status == 403

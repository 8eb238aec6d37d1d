"""The charts in a real cluster without nodes: install, upgrade, roll back, uninstall, and what the account may do."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.engines.kubernetes.node_leases import lease_name
from tests.kubernetes import control_plane as parts
from tests.kubernetes.api_calls import ApiCalls, ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import fake_nodes
from tests.kubernetes.helm import CLUSTER, CONTROL, Helm, until_no_policies
from tests.monitoring import until

pytestmark = pytest.mark.slow

ACCOUNT = "fairpool-cluster"
RELEASE = "fairpool"


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A bare cluster: Helm refuses to take over priority classes and roles that programs of other tests applied."""
    with parts.control_plane(tmp_path_factory.mktemp("bare")) as made:
        yield made


@pytest.fixture
def helm(control_plane: ControlPlane, tmp_path: Path) -> Helm:
    return Helm(tmp_path, control_plane.kubeconfig(folder=tmp_path))


@pytest.fixture
def cluster(helm: Helm, control_plane: ControlPlane, namespace: str) -> Iterator[str]:
    """The namespace where the chart of a cluster is installed."""
    helm.run("install", RELEASE, str(CLUSTER), "--namespace", namespace, *helm.values(CLUSTER, None))
    try:
        yield namespace
    finally:
        helm.tried("uninstall", RELEASE, "--namespace", namespace, "--no-hooks", "--wait")
        until_no_policies(control_plane)


def secret(admin: ApiCalls, namespace: str, name: str, key: str) -> str:
    return base64.b64decode(admin.get(f"/api/v1/namespaces/{namespace}/secrets/{name}")["data"][key]).decode()


def test_a_control_plane_is_installed_upgraded_rolled_back_and_uninstalled(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    """F-241, F-245."""
    admin, where = control_plane.admin, ("--namespace", namespace)
    deployment = f"/apis/apps/v1/namespaces/{namespace}/deployments/fairpool-control"
    shown = helm.run("install", RELEASE, str(CONTROL), *where, *helm.values(CONTROL, {"database": {"mode": "bundled"}}))
    assert "Then sign in at https://fairpool.example.com as test@run.ai." in shown
    first = secret(admin, namespace, "fairpool-control-administrator", "password")
    database = secret(admin, namespace, "fairpool-control-database", "password")
    assert len(first) == 24
    assert admin.get(deployment)["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":0.1.0.dev0")

    newer = helm.values(CONTROL, {"database": {"mode": "bundled"}, "image": {"tag": "2"}})
    helm.run("upgrade", RELEASE, str(CONTROL), *where, *newer)
    assert admin.get(deployment)["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":2")
    assert secret(admin, namespace, "fairpool-control-administrator", "password") == first, "kept over upgrades"
    assert secret(admin, namespace, "fairpool-control-database", "password") == database

    helm.run("rollback", RELEASE, "1", *where)
    assert admin.get(deployment)["spec"]["template"]["spec"]["containers"][0]["image"].endswith(":0.1.0.dev0")
    assert secret(admin, namespace, "fairpool-control-administrator", "password") == first

    helm.run("uninstall", RELEASE, *where, "--wait")
    assert admin.find(deployment) is None
    claims = admin.get(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims")["items"]
    kept = ["data-fairpool-control-database-0", "fairpool-control"]
    assert [each["metadata"]["name"] for each in claims] == kept, "data is not deleted with the release"

    helm.run("install", RELEASE, str(CONTROL), *where, *helm.values(CONTROL, {"database": {"mode": "bundled"}}))
    assert secret(admin, namespace, "fairpool-control-database", "password") == database, "the volume knows this one"
    helm.run("uninstall", RELEASE, *where, "--wait")


def test_pods_of_the_charts_are_admitted_under_the_restricted_standard(
    helm: Helm, control_plane: ControlPlane, namespace: str
) -> None:
    """The API server itself checks them: it refuses other pods in this namespace."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    control_plane.admin.patch(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    helm.run("install", RELEASE, str(CONTROL), "--namespace", namespace, *helm.values(CONTROL, None))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    until(lambda: control_plane.admin.get(pods)["items"], "the pod was admitted")
    helm.run("uninstall", RELEASE, "--namespace", namespace, "--wait")


# --- what the account of a cluster may do ----------------------------------------------------------------------------


def may(control_plane: ControlPlane, namespace: str, verb: str, what: str, there: str = "", name: str = "") -> bool:
    """By the API server's own answer; `what`: resource, group/resource or resource/subresource."""
    group, _, rest = what.rpartition(":")
    resource, _, subresource = rest.partition("/")
    attributes = {
        "verb": verb,
        "group": group,
        "resource": resource,
        "subresource": subresource,
        "namespace": there,
        "name": name,
    }
    user = f"system:serviceaccount:{namespace}:{ACCOUNT}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
    body = {"spec": {"user": user, "groups": groups, "resourceAttributes": attributes}}
    answer = control_plane.admin.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


ALLOWED = (
    *[("nodes", verb) for verb in ("list", "watch", "patch")],
    *[("pods", verb) for verb in ("list", "watch", "create", "patch", "delete")],
    *[("pods/log", "get"), ("pods/exec", "create"), ("pods/attach", "create"), ("pods/portforward", "create")],
    *[("namespaces", verb) for verb in ("list", "watch", "create", "patch", "delete")],
    *[(kind, "create") for kind in ("secrets", "configmaps", "services", "persistentvolumeclaims")],
    *[("networking.k8s.io:ingresses", "create"), ("rbac.authorization.k8s.io:rolebindings", "create")],
)
FORBIDDEN = (
    *[("secrets", "update"), ("serviceaccounts", "get"), ("serviceaccounts/token", "create")],
    *[("nodes", "create"), ("nodes", "delete"), ("nodes/proxy", "get"), ("nodes/status", "patch")],
    *[("pods/ephemeralcontainers", "patch"), ("pods/eviction", "create"), ("persistentvolumes", "delete")],
    *[("apps:deployments", "create"), ("apps:daemonsets", "patch"), ("batch:jobs", "create"), ("configmaps", "update")],
    *[("rbac.authorization.k8s.io:clusterroles", verb) for verb in ("create", "patch", "escalate")],
    *[("rbac.authorization.k8s.io:clusterrolebindings", "create"), ("rbac.authorization.k8s.io:roles", "create")],
    *[("admissionregistration.k8s.io:validatingadmissionpolicies", verb) for verb in ("patch", "delete")],
    *[("apiextensions.k8s.io:customresourcedefinitions", "create"), ("users", "impersonate")],
)


def test_the_account_may_do_what_the_scheduler_needs_and_nothing_else(
    control_plane: ControlPlane, cluster: str
) -> None:
    refused = [each for each in ALLOWED if not may(control_plane, cluster, each[1], each[0], "runai-team-a")]
    granted = [each for each in FORBIDDEN if may(control_plane, cluster, each[1], each[0], "kube-system")]
    assert (refused, granted) == ([], [])
    roles = "rbac.authorization.k8s.io:clusterroles"
    assert may(control_plane, cluster, "bind", roles, name="runai-project-member")
    assert not may(control_plane, cluster, "bind", roles, name="cluster-admin")
    leases = "coordination.k8s.io:leases"
    assert may(control_plane, cluster, "update", leases, cluster)
    assert not may(control_plane, cluster, "update", leases, "kube-system"), "it cannot take over other elections"


def test_the_account_is_kept_out_of_namespaces_of_no_project(control_plane: ControlPlane, cluster: str) -> None:
    """What a role cannot say: it may create pods and secrets, but only where a project is."""
    calls = account_calls(control_plane, cluster)
    body = {"metadata": {"name": "made-by-fairpool"}, "data": {"a": "b"}}
    until(lambda: is_refused(calls, "kube-system", body), "the admission policy is in force")
    assert "belongs to no project of Fairpool" in refusal(calls, "kube-system", body)
    namespace = {"metadata": {"name": "runai-policy-test", "labels": {"runai/queue": "policy-test"}}}
    calls.create("/api/v1/namespaces", namespace)
    try:
        calls.create("/api/v1/namespaces/runai-policy-test/configmaps", body)
        with pytest.raises(ApiError, match="begin with runai-"):
            calls.patch("/api/v1/namespaces/kube-system", {"metadata": {"labels": {"runai/queue": "policy-test"}}})
        with pytest.raises(ApiError, match="begin with runai-"):
            calls.create("/api/v1/namespaces", {"metadata": {"name": "another"}})
        with pytest.raises(ApiError, match="begin with runai-"):
            calls.call("DELETE", f"/api/v1/namespaces/{cluster}")
    finally:
        control_plane.admin.delete("/api/v1/namespaces/runai-policy-test")


def account_calls(control_plane: ControlPlane, namespace: str) -> ApiCalls:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    token = control_plane.admin.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    return ApiCalls(control_plane.address, control_plane.ca, token)


def refusal(calls: ApiCalls, namespace: str, body: Any) -> str:
    with pytest.raises(ApiError) as error:
        calls.create(f"/api/v1/namespaces/{namespace}/configmaps", body)
    return str(error.value)


def is_refused(calls: ApiCalls, namespace: str, body: Any) -> bool:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    try:
        calls.create(path, body)
    except ApiError as error:
        return error.status == 422 or "ValidatingAdmissionPolicy" in error.body
    calls.delete(f"{path}/{body['metadata']['name']}")
    return False


# --- what the account of agents on nodes may do ----------------------------------------------------------------------


def test_an_agent_may_renew_the_lease_of_its_own_node_and_read_pods_and_nothing_else(
    control_plane: ControlPlane, cluster: str
) -> None:
    """The token of its pod names the node; a role could not tell one lease from another."""
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{cluster}/leases"

    def renew(calls: ApiCalls, node: str, holder: str) -> None:
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {"holderIdentity": holder}}
        calls.apply(f"{leases}/{lease_name(node)}", {**body, "metadata": {"name": lease_name(node)}})

    def is_refused(calls: ApiCalls, node: str, holder: str) -> bool:
        try:
            renew(calls, node, holder)
        except ApiError as error:
            return "may not renew lease" in error.body
        return False

    with fake_nodes(control_plane, 2) as (here, there):
        agent = agent_calls(control_plane, cluster, here)
        until(lambda: is_refused(agent, there, there), "the admission policy is in force")
        renew(agent, here, here)
        renew(agent, here, here)
        assert is_refused(agent, here, there)
        assert is_refused(agent, "loop", here)
        assert is_refused(agent_calls(control_plane, cluster, ""), here, here), "a token of no pod"
        assert agent.get(f"/api/v1/pods?fieldSelector=spec.nodeName={here}")["items"]
        for method, path in (
            ("DELETE", f"{leases}/{lease_name(here)}"),
            ("GET", f"/api/v1/namespaces/{cluster}/secrets"),
            ("GET", "/api/v1/nodes"),
            ("DELETE", f"/api/v1/namespaces/{cluster}/pods/agent-of-{here}"),
        ):
            with pytest.raises(ApiError, match="forbidden"):
                agent.call(method, path)
        control_plane.admin.delete(f"/api/v1/namespaces/{cluster}/pods/agent-of-{here}", 0)


def agent_calls(control_plane: ControlPlane, namespace: str, node: str) -> ApiCalls:
    """As an agent in a pod on that node; empty: with a token that belongs to no pod."""
    admin, account = control_plane.admin, "fairpool-node-agent"
    bound = {}
    if node:
        spec = {"serviceAccountName": account, "nodeName": node, "containers": [{"name": "agent", "image": "agent"}]}
        body = {"metadata": {"name": f"agent-of-{node}"}, "spec": spec}
        pod = admin.create(f"/api/v1/namespaces/{namespace}/pods", body)["metadata"]
        own = {"kind": "Pod", "apiVersion": "v1", "name": pod["name"], "uid": pod["uid"]}
        bound = {"boundObjectRef": own}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    asked = {"spec": {"expirationSeconds": 3600, **bound}}
    token = admin.create(path, asked)["status"]["token"]
    return ApiCalls(control_plane.address, control_plane.ca, token)


# --- uninstall -------------------------------------------------------------------------------------------------------


def test_the_cleanup_before_an_uninstall_leaves_no_finalizer(
    control_plane: ControlPlane, cluster: str, tmp_path: Path
) -> None:
    """As the hook runs it, with the account of the chart. Pods keep running, unless they are to be deleted."""
    admin, namespace = control_plane.admin, "runai-cleanup-test"
    scheduler = account_calls(control_plane, cluster)
    admin.create("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": {"runai/queue": "cleanup-test"}}})
    try:
        until(lambda: admin.find(f"/api/v1/namespaces/{namespace}/serviceaccounts/default"), "its account is there")
        for name, finalizers in (
            ("train-0", ["fairpool.io/recorded"]),
            ("train-1", ["x.io/y", "fairpool.io/recorded"]),
        ):
            scheduler.create(f"/api/v1/namespaces/{namespace}/pods", pod(name, finalizers))
        admin.delete(f"/api/v1/namespaces/{namespace}/pods/train-0", grace_s=0)
        assert admin.find(f"/api/v1/namespaces/{namespace}/pods/train-0"), "its finalizer keeps it"

        done = cleaned_up(control_plane, cluster, tmp_path, "--scale-down", f"{cluster}/{ACCOUNT}")
        assert done.returncode == 0, done.stderr
        assert "Removed the finalizers of 2 pods." in done.stdout
        scaled = admin.get(f"/apis/apps/v1/namespaces/{cluster}/statefulsets/{ACCOUNT}")
        assert scaled["spec"]["replicas"] == 0, "otherwise it would start pods with new finalizers"
        assert admin.find(f"/api/v1/namespaces/{namespace}/pods/train-0") is None
        left = admin.get(f"/api/v1/namespaces/{namespace}/pods/train-1")["metadata"]
        assert left["finalizers"] == ["x.io/y"], "those of others stay"
        assert "deletionTimestamp" not in left

        again = cleaned_up(control_plane, cluster, tmp_path, "--delete-pods")
        assert "Removed the finalizers of 0 pods." in again.stdout
        assert "deletionTimestamp" in admin.get(f"/api/v1/namespaces/{namespace}/pods/train-1")["metadata"]
    finally:
        admin.patch(f"/api/v1/namespaces/{namespace}/pods/train-1", {"metadata": {"finalizers": None}})
        admin.delete(f"/api/v1/namespaces/{namespace}")


def pod(name: str, finalizers: list[str]) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "fairpool"}
    return {
        "metadata": {"name": name, "finalizers": finalizers, "labels": labels},
        "spec": {"nodeName": "absent", "containers": [{"name": "main", "image": "busybox"}]},
    }


def cleaned_up(
    control_plane: ControlPlane, namespace: str, folder: Path, *flags: str
) -> subprocess.CompletedProcess[str]:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    token = control_plane.admin.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    control_plane.tokens[ACCOUNT] = token
    kubeconfig = control_plane.kubeconfig(ACCOUNT, folder=folder)
    command = [sys.executable, "-m", "fairpool.cli.main", "kubernetes-cleanup", *flags]
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)

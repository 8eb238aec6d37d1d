"""The control plane that other tests run against does what they rely on."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fairpool.engines.simulated.behaviour import Behaviour
from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import GPU, FakeKubelet, fake_nodes
from tests.monitoring import until
from tests.needs import kubernetes_program

pytestmark = pytest.mark.slow
TREE = Path(__file__).resolve().parent.parent.parent
FINALIZER = "fairpool.io/recorded"


@pytest.fixture
def kubelet(control_plane: ControlPlane) -> Iterator[FakeKubelet]:
    with fake_nodes(control_plane, 2, gpus=4), FakeKubelet(control_plane) as made:
        yield made


def test_kubectl_and_users_with_roles(control_plane: ControlPlane, namespace: str) -> None:
    assert _kubectl(control_plane, "auth", "can-i", "list", "pods", "-n", namespace) == "yes"
    alice = control_plane.calls("alice")
    with pytest.raises(ApiError, match="403"):
        alice.get(f"/api/v1/namespaces/{namespace}/pods")
    control_plane.admin.create(
        f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
        {
            "metadata": {"name": "researchers"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "researchers"}],
        },
    )
    until(lambda: _may_list(control_plane, "alice", namespace), "the role holds")
    assert not _may_list(control_plane, "bob", namespace)


def test_the_version_is_the_one_that_was_built(control_plane: ControlPlane) -> None:
    said = control_plane.admin.get("/version")
    assert said["gitVersion"].startswith(f"v{said['major']}.{said['minor']}."), said
    assert int(said["minor"]) >= 30


@pytest.mark.parametrize("part", ["etcd", "api_server", "controller_manager"])
def test_a_part_is_killed_and_started_again_with_everything_kept(
    part: str, control_plane: ControlPlane, namespace: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    control_plane.admin.create(path, {"metadata": {"name": "kept"}, "data": {"a": "b"}})
    daemon = getattr(control_plane, part)
    daemon.restart()
    until(lambda: _answers(control_plane, f"{path}/kept"), "it is there again")
    with control_plane.namespace("after"):
        pass  # its default service account was made


def test_an_api_server_that_is_paused_answers_nothing_until_it_goes_on(control_plane: ControlPlane) -> None:
    admin = control_plane.admin
    control_plane.api_server.pause()
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            _kubectl(control_plane, "get", "namespaces", timeout_s=1)
    finally:
        control_plane.api_server.resume()
    assert admin.get("/readyz") == "ok"


def test_a_watch_from_an_expired_version_is_told_so(control_plane: ControlPlane, namespace: str) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    version = control_plane.admin.get(path)["metadata"]["resourceVersion"]
    for number in range(3):
        control_plane.admin.create(path, {"metadata": {"name": f"later-{number}"}})
    control_plane.expire_watches()
    event = next(control_plane.admin.watch(f"{path}?resourceVersion={version}"))
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


def test_no_part_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
from tests.kubernetes.control_plane import ControlPlane
plane = ControlPlane(Path({str(tmp_path)!r}))
plane.etcd.start()
print("started", flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=TREE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "started\n"
        assert _processes(tmp_path)
        parent.kill()
    until(lambda: not _processes(tmp_path), "etcd has ended")


def test_a_bound_pod_runs_exits_and_keeps_its_code(
    control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet
) -> None:
    kubelet.behaviour = lambda pod: Behaviour(run_s=0.2, exit_code=7)
    _create(control_plane, namespace, "worker")
    status = until(lambda: _phase(control_plane, namespace, "worker", "Failed"), "it failed")["status"]
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (7, "Error")


def test_a_test_ends_a_pod(control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet) -> None:
    _create(control_plane, namespace, "worker")
    until(lambda: _phase(control_plane, namespace, "worker", "Running"), "it runs")
    kubelet.exit(namespace, "worker", 0)
    until(lambda: _phase(control_plane, namespace, "worker", "Succeeded"), "it succeeded")


@pytest.mark.parametrize(
    ("stop_s", "grace_s", "code"),
    [pytest.param(0.1, 30, 143, id="obeys SIGTERM"), pytest.param(60, 1, 137, id="is killed after its grace period")],
)
def test_a_deleted_pod_is_stopped_and_stays_until_its_finalizer_is_gone(
    stop_s: float, grace_s: int, code: int, control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet
) -> None:
    kubelet.behaviour = lambda pod: Behaviour(stop_s=stop_s)
    path = _create(control_plane, namespace, "worker", finalizers=[FINALIZER])
    until(lambda: _phase(control_plane, namespace, "worker", "Running"), "it runs")
    control_plane.admin.delete(path, grace_s)
    pod = until(lambda: _phase(control_plane, namespace, "worker", "Failed"), "it was stopped")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == code
    control_plane.admin.patch(path, {"metadata": {"finalizers": None}})
    until(lambda: control_plane.admin.find(path) is None, "it is gone")


def test_devices_are_given_once_and_too_many_are_refused(
    control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet
) -> None:
    for name in ("a", "b"):
        _create(control_plane, namespace, name, gpus=2)
        until(lambda name=name: _phase(control_plane, namespace, name, "Running"), "it runs")  # type: ignore[misc]
    _create(control_plane, namespace, "c", gpus=2)
    pod = until(lambda: _phase(control_plane, namespace, "c", "Failed"), "it was refused")
    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    given = [*kubelet.devices(namespace, "a"), *kubelet.devices(namespace, "b")]
    assert len(set(given)) == 4


def test_nothing_is_reported_from_a_silent_node_until_it_is_heard_again(
    control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet
) -> None:
    _create(control_plane, namespace, "worker")
    until(lambda: _phase(control_plane, namespace, "worker", "Running"), "it runs")
    kubelet.silence("fake-1")
    kubelet.exit(namespace, "worker", 0)
    _create(control_plane, namespace, "elsewhere", node="fake-2")
    until(lambda: _phase(control_plane, namespace, "elsewhere", "Running"), "the other node is heard")
    assert _phase(control_plane, namespace, "worker", "Running")
    kubelet.end_silence("fake-1")
    until(lambda: _phase(control_plane, namespace, "worker", "Succeeded"), "it is reported")


def test_a_reboot_loses_pods_and_has_another_boot(
    control_plane: ControlPlane, namespace: str, kubelet: FakeKubelet
) -> None:
    def boot() -> str:
        return str(control_plane.admin.get("/api/v1/nodes/fake-1")["status"]["nodeInfo"]["bootID"])

    before = boot()
    _create(control_plane, namespace, "worker")
    until(lambda: _phase(control_plane, namespace, "worker", "Running"), "it runs")
    kubelet.reboot("fake-1")
    until(lambda: _phase(control_plane, namespace, "worker", "Failed"), "it is lost")
    assert boot() != before


def _create(
    plane: ControlPlane, namespace: str, name: str, *, node: str = "fake-1", gpus: int = 0, **metadata: Any
) -> str:
    limits = {GPU: str(gpus)} if gpus else {}
    container = {"name": "main", "image": "program", "resources": {"limits": limits}}
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
    pods = f"/api/v1/namespaces/{namespace}/pods"
    plane.admin.create(pods, {"metadata": {"name": name, **metadata}, "spec": spec})
    return f"{pods}/{name}"


def _phase(plane: ControlPlane, namespace: str, name: str, phase: str) -> Any | None:
    pod = plane.admin.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
    return pod if pod["status"]["phase"] == phase else None


def _may_list(plane: ControlPlane, user: str, namespace: str) -> bool:
    try:
        plane.calls(user).get(f"/api/v1/namespaces/{namespace}/pods")
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


def _answers(plane: ControlPlane, path: str) -> bool:
    try:
        return bool(plane.admin.get(path))
    except (ApiError, OSError):
        return False


def _processes(folder: Path) -> list[str]:
    """With this folder in their arguments, or that work in it."""
    found = []
    for each in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(folder) in (each / "cmdline").read_text(errors="replace") and (each / "exe").exists():
                found.append(each.name)
    return found


def _kubectl(plane: ControlPlane, *arguments: str, timeout_s: float = 60) -> str:
    command = [kubernetes_program("kubectl"), f"--kubeconfig={plane.kubeconfig()}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=True)
    return done.stdout.strip()

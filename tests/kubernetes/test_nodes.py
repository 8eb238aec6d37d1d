"""The real nodes that other tests run pods on: network, services, devices, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kubernetes import images
from tests.kubernetes.control_plane import API_SERVICE, control_plane
from tests.kubernetes.device_ids import device_ids
from tests.kubernetes.nodes import TUNABLES, Cluster, real_nodes
from tests.monitoring import until
from tests.needs import kubernetes_program

pytestmark = pytest.mark.slow
GPU = "nvidia.com/gpu"
SERVES = "mkdir /tmp/www; hostname >/tmp/www/index.html; exec httpd -f -p 8080 -h /tmp/www"
FOREVER = "trap 'exit 5' TERM; while :; do sleep 0.1; done"


class Pods:
    """Pods of one test, in its namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster, self.namespace, self.admin = cluster, namespace, cluster.plane.admin
        self.path = f"/api/v1/namespaces/{namespace}/pods"

    def create(self, name: str, script: str, *, node: int = 1, gpus: int = 0, **spec: Any) -> None:
        container: dict[str, Any] = {"name": "main", "image": images.BUSYBOX, "command": ["sh", "-c", script]}
        if gpus:
            container["resources"] = {"limits": {GPU: str(gpus)}}
        own = {"nodeName": f"node-{node}", "restartPolicy": "Never", "containers": [container], **spec}
        self.admin.create(self.path, {"metadata": {"name": name, "labels": {"app": name}}, "spec": own})

    def until(self, name: str, phase: str) -> Any:
        return until(lambda: self.in_phase(name, phase), f"{name} is {phase}: {json.dumps(self.get(name))[-1500:]}")

    def in_phase(self, name: str, phase: str) -> Any | None:
        pod = self.get(name)
        return pod if pod["status"]["phase"] == phase else None

    def get(self, name: str) -> Any:
        return self.admin.get(f"{self.path}/{name}")

    def log(self, name: str) -> str:
        return str(self.admin.get(f"{self.path}/{name}/log"))

    def first_line(self, name: str) -> str:
        return str(until(lambda: self.log(name), f"{name} has a log")).split()[0]

    def said(self, name: str, script: str, **spec: Any) -> str:
        """What a pod writes, which ends well."""
        self.create(name, script, **spec)
        pod = until(lambda: self.in_phase(name, "Succeeded") or self.in_phase(name, "Failed"), f"{name} ended")
        log = self.log(name)
        assert pod["status"]["phase"] == "Succeeded", log
        return log.strip()

    def service(self, name: str, **spec: Any) -> Any:
        body = {
            "metadata": {"name": name},
            "spec": {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8080}], **spec},
        }
        return self.admin.create(f"/api/v1/namespaces/{self.namespace}/services", body)["spec"]

    def kubectl(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        config = f"--kubeconfig={self.cluster.plane.kubeconfig()}"
        command = [kubernetes_program("kubectl"), config, f"--namespace={self.namespace}", *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def pods(cluster: Cluster) -> Iterator[Pods]:
    with cluster.plane.namespace("nodes") as namespace:
        yield Pods(cluster, namespace)


def test_pods_on_two_nodes_reach_each_other_and_know_who_asks(pods: Pods) -> None:
    pods.create("server", SERVES, node=1)
    address = pods.until("server", "Running")["status"]["podIP"]
    assert address.startswith("10.244.1.")
    for node in (1, 2):
        assert pods.said(f"client-{node}", retried(f"wget -qO- http://{address}:8080/"), node=node) == "server"


def test_services_of_every_kind_answer_from_both_nodes(pods: Pods) -> None:
    pods.create("web", SERVES, node=2)
    pods.until("web", "Running")
    spec = pods.service("web", type="NodePort")
    for node in (1, 2):
        by_address = retried(f"wget -qO- http://{spec['clusterIP']}/")
        by_name = retried(f"wget -qO- http://web.{pods.namespace}.svc.cluster.local/")
        short = retried("wget -qO- http://web/")
        assert pods.said(f"client-{node}", f"{by_address}; {by_name}; {short}", node=node).split() == ["web"] * 3
    port = spec["ports"][0]["nodePort"]
    for real in pods.cluster.nodes:
        with pods.cluster.connect(real.address, port) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            assert connection.makefile().read().split()[-1] == "web", real.name


def test_pods_of_a_headless_service_have_names(pods: Pods) -> None:
    for number in (1, 2):
        pods.create(f"worker-{number}", SERVES, node=number, hostname=f"worker-{number}", subdomain="gang")
        pods.admin.patch(f"{pods.path}/worker-{number}", {"metadata": {"labels": {"app": "gang"}}})
        pods.until(f"worker-{number}", "Running")
    pods.service("gang", clusterIP="None", publishNotReadyAddresses=True)
    asked = "; ".join(retried(f"wget -qO- http://worker-{number}.gang:8080/") for number in (1, 2))
    for node in (1, 2):
        assert pods.said(f"client-{node}", asked, node=node).split() == ["worker-1", "worker-2"]


def test_pods_reach_the_api_server_and_have_a_token(pods: Pods) -> None:
    account = "/var/run/secrets/kubernetes.io/serviceaccount"
    is_open = retried(f"nc -w 5 {API_SERVICE} 443 </dev/null")
    script = f"cat {account}/namespace; test -s {account}/token || exit 1; {is_open}; echo :open"
    assert pods.said("client", script) == f"{pods.namespace}:open"


def test_log_exec_and_attach_reach_a_pod(pods: Pods) -> None:
    pods.create("worker", f"echo started; {FOREVER}", node=2)
    pods.until("worker", "Running")
    until(lambda: pods.log("worker") == "started\n", "it has a log")
    done = pods.kubectl("exec", "-i", "worker", "--", "sh", "-c", "cat; exit 3", text="typed")
    assert (done.stdout, done.returncode) == ("typed", 3), done.stderr


def test_a_deleted_pod_gets_sigterm_and_reports_its_code(pods: Pods) -> None:
    pods.create("worker", FOREVER)
    pods.until("worker", "Running")
    pods.admin.patch(f"{pods.path}/worker", {"metadata": {"finalizers": ["fairpool.io/recorded"]}})
    pods.admin.delete(f"{pods.path}/worker", 20)
    pod = pods.until("worker", "Failed")
    assert pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5
    pods.admin.patch(f"{pods.path}/worker", {"metadata": {"finalizers": None}})
    until(lambda: pods.admin.find(f"{pods.path}/worker") is None, "it is gone")


def test_each_pod_gets_devices_of_its_own_and_too_many_are_refused(pods: Pods) -> None:
    for name in ("a", "b"):
        pods.create(name, f"echo $NVIDIA_VISIBLE_DEVICES; {FOREVER}", gpus=4)
        pods.until(name, "Running")
    given = [each for name in ("a", "b") for each in pods.first_line(name).split(",")]
    assert sorted(given) == sorted(device_ids("node-1", 8))
    pods.create("c", "true", gpus=1)
    assert pods.until("c", "Failed")["status"]["reason"] == "UnexpectedAdmissionError"


def test_a_kubelet_that_was_killed_comes_back_with_its_pods_and_devices(pods: Pods) -> None:
    pods.create("worker", f"echo $NVIDIA_VISIBLE_DEVICES; {FOREVER}", gpus=8, node=2)
    started = pods.until("worker", "Running")["status"]["containerStatuses"][0]["containerID"]
    node = pods.cluster.nodes[1]
    node.kubelet.restart()
    until(node.is_ready, "the node is ready")
    until(node.gpus_are_allocatable, "its GPUs are there")
    assert pods.get("worker")["status"]["containerStatuses"][0]["containerID"] == started
    pods.admin.delete(f"{pods.path}/worker", 1)
    until(lambda: pods.admin.find(f"{pods.path}/worker") is None, "it is gone")
    pods.create("next", "sleep 0", gpus=8, node=2)
    pods.until("next", "Succeeded")


def test_a_node_that_is_not_heard_of_is_found_lost_and_comes_back(pods: Pods) -> None:
    pods.create("worker", FOREVER, node=2)
    started = pods.until("worker", "Running")["status"]["containerStatuses"][0]["containerID"]
    node = pods.cluster.nodes[1]
    node.kubelet.pause()
    try:
        until(lambda: not node.is_ready(), "the node is found lost")
    finally:
        node.kubelet.resume()
    until(node.is_ready, "the node is ready")
    assert pods.get("worker")["status"]["containerStatuses"][0]["containerID"] == started


def test_a_node_that_lost_power_comes_back_with_another_boot_and_reports_its_pods_ended(pods: Pods) -> None:
    node = pods.cluster.nodes[1]

    def boot() -> str:
        return str(pods.admin.get(f"/api/v1/nodes/{node.name}")["status"]["nodeInfo"]["bootID"])

    before = boot()
    pods.create("worker", f"trap '' TERM; {FOREVER}", node=2, gpus=1)
    pods.until("worker", "Running")
    pods.cluster.reboot(node)
    assert boot() != before
    pods.until("worker", "Failed")
    assert pods.said("next", "echo $NVIDIA_VISIBLE_DEVICES", node=2, gpus=8).count("GPU-") == 8


def test_nothing_is_left_of_nodes(tmp_path: Path) -> None:
    before = machine()
    with control_plane(tmp_path / "plane") as plane, real_nodes(plane, tmp_path / "nodes", gpus=1) as made:
        pods = Pods(made, "default")
        until(lambda: plane.admin.find("/api/v1/namespaces/default/serviceaccounts/default"), "pods can be created")
        pods.create("worker", FOREVER)
        pods.until("worker", "Running")
        names = {each.cgroup for each in made.nodes}
    assert machine() == before
    found = [
        path
        for name in names
        for path in (*Path("/sys/fs/cgroup").glob(name), *Path("/sys/fs/cgroup").glob(f"*/{name}"))
    ]
    assert not found
    assert not [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in _text(path)]
    assert not list((tmp_path / "nodes").glob("node-*"))


def machine() -> dict[str, object]:
    """What nodes could change of the machine. Other programs may come and go meanwhile, as bridges of podman."""
    rules = subprocess.run(["iptables-save"], capture_output=True, text=True, check=True).stdout
    return {
        **{name: Path(f"/proc/sys/{name}").read_text() for name in (*TUNABLES, "net/ipv4/ip_forward")},
        "rules": [line for line in rules.splitlines() if "KUBE" in line],
        "links": [each for each in Path("/sys/class/net").iterdir() if each.name.startswith(("eth0@", "veth"))],
        "mounts": [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if "kubelet" in line],
    }


def retried(command: str) -> str:
    """In a shell: rules of the network follow a moment after what they are for."""
    give_up = "[ $n -lt 100 ] || { cat /tmp/why; exit 1; }"
    return f"n=0; until {command} 2>/tmp/why; do n=$((n+1)); {give_up}; sleep 0.1; done"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""

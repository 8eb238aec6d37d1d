"""The agent on real nodes. One that is cut off: containers of Fairpool are killed, those of others run on. And what
agents measure."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY
from fairpool.engines.kubernetes.node_leases import lease_name
from fairpool.engines.kubernetes.objects import POD
from fairpool.platform.kubernetes_cluster import NAMESPACE as OWN
from tests.end_to_end.usage_count import series
from tests.kubernetes.daemons import Daemon
from tests.kubernetes.nodes import API_PORT, TREE, Cluster, Node
from tests.kubernetes.real_nodes_typist import RealNodesTypist, clear_away
from tests.kubernetes.test_nodes import Pods
from tests.kubernetes.test_sample_receiver import token
from tests.kubernetes.typist import KubernetesClusterProcess, watched
from tests.monitoring import free_port, until

pytestmark = pytest.mark.slow

FENCE_S = 6
HOSTILE = "trap '' TERM INT; while :; do (sleep 0.2 &) ; sleep 0.01; done"
"""It forks all the time and ignores what it can ignore."""
CUT = ("INPUT", "--protocol", "tcp", "--dport", str(API_PORT), "--jump", "DROP")


@pytest.fixture
def node(cluster: Cluster) -> Iterator[Node]:
    """It can be cut off, and is not at the end."""
    found = cluster.nodes[1]
    yield found
    while CUT[-2] in found.run("iptables", "--list-rules", "INPUT"):
        found.run("iptables", "--delete", *CUT)
    until(found.is_ready, "the node is ready again")


def agent(node: Node, namespace: str, folder: Path, *more: str) -> Daemon:
    """As its pod would be, with the processes of its node."""
    reach = (f"--kubeconfig={node._kubeconfig('admin')}", f"--namespace={namespace}", f"--node={node.name}")
    times = ("--renew-every=0.5", f"--fence-after={FENCE_S}", f"--state={folder}", "--health-listen=127.0.0.1:18081")
    command = (sys.executable, "-m", "fairpool", "node-agent", *reach, *times, *more)
    check = ("busybox", "wget", "-qO-", "http://127.0.0.1:18081/readyz")
    return node._inside("node-agent", command, check, {"PYTHONPATH": str(TREE / "src")})


def test_a_node_that_is_cut_off_runs_nothing_of_fairpool_any_more(cluster: Cluster, node: Node, tmp_path: Path) -> None:
    admin = cluster.plane.admin
    with cluster.plane.namespace("agent") as namespace:
        pods = Pods(cluster, namespace)
        for name, labels in (("ours", {MANAGED_BY: FAIRPOOL, POD: "ours"}), ("foreign", {})):
            pods.create(name, HOSTILE, node=2)
            admin.patch(f"{pods.path}/{name}", {"metadata": {"labels": labels}})
        uids = {name: pods.until(name, "Running")["metadata"]["uid"] for name in ("ours", "foreign")}
        here = agent(node, namespace, tmp_path)
        here.start()
        try:
            lease = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{lease_name(node.name)}"
            first: Any = until(lambda: admin.find(lease), "the lease is there")["spec"]
            assert (first["holderIdentity"], first["leaseDurationSeconds"]) == (node.name, FENCE_S)
            until(lambda: admin.get(lease)["spec"]["renewTime"] != first["renewTime"], "it is renewed")

            node.run("iptables", "--insert", *CUT)
            here.kill()  # it goes on with what it knew, without an API server to ask
            assert len(processes(node, uids["ours"])) > 1
            here.start(wait=False)
            until(lambda: not processes(node, uids["ours"]), "its pod was killed")
            assert processes(node, uids["foreign"]), "pods of others run on"

            node.run("iptables", "--delete", *CUT)
            here.wait_until_ready()
            state = pods.until("ours", "Failed")["status"]["containerStatuses"][0]["state"]
            assert state["terminated"]["exitCode"] == 137
            assert pods.get("foreign")["status"]["phase"] == "Running"
        finally:
            here.kill()
            for name in uids:
                admin.delete(f"{pods.path}/{name}", 1)


class MeasuredTypist(RealNodesTypist):
    """A person whose cluster takes samples of agents."""

    def __init__(self, folder: Path, nodes: Cluster, port: int) -> None:
        super().__init__(folder, nodes)
        self._port = port

    def cluster_process(self, folder: str, token: Path, *flags: str) -> KubernetesClusterProcess:
        return super().cluster_process(folder, token, "--samples-listen", f"127.0.0.1:{self._port}", *flags)


@contextmanager
def measuring(cluster: Cluster, port: int, folder: Path) -> Iterator[None]:
    """Agents on all nodes send samples to this port of the machine."""
    with ExitStack() as stack:
        for node in cluster.nodes:
            own = folder / node.name
            own.mkdir()
            (own / "token").write_text(token(cluster.plane, OWN, node.name))
            stack.callback(cluster._relay.forward(node.pid, node.address, port, ("127.0.0.1", port)))
            target = (f"--samples-to={node.address}:{port}", f"--samples-token-file={own / 'token'}")
            here = agent(node, OWN, own, *target)
            here.start()
            stack.callback(here.kill)
        yield


def test_what_pods_use_is_measured_by_the_agents_of_their_nodes(
    cluster: Cluster, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Decision 59: sent to the cluster's program with the token of the agent's pod, then as on one machine."""
    port = free_port()
    person = MeasuredTypist(tmp_path_factory.mktemp("platform"), cluster, port)
    with watched(person), measuring(cluster, port, tmp_path):
        person.typed("runai-adm project create team-a --gpu-quota 16")
        since = int(time.time() * 1000)
        for name, script in (("busy", "while :; do :; done"), ("idle", "sleep 1000000")):
            person.run(name, script)

        def cores(name: str) -> list[float]:
            found = series(person.client, f"/api/v1/workloads/{person.jobs()[name].id}", "CPU_USAGE_CORES", since)
            return list(found.values())

        busy = until(lambda: cores("busy"), "the busy job was measured")
        idle = until(lambda: cores("idle"), "the idle job was measured")
        assert max(busy) > 0.1
        assert max(idle) < 0.05
        person.delete_all()
    clear_away(cluster.plane)


def processes(node: Node, uid: str) -> list[str]:
    """Living ones of a pod, by their control groups."""
    lines = node.run("sh", "-c", f"grep --no-messages --files-with-matches pod{uid} /proc/[0-9]*/cgroup || true")
    return [each for each in lines.split() if "State:\tZ" not in _status(node, each)]


def _status(node: Node, path: str) -> str:
    return node.run("sh", "-c", f"cat {path.removesuffix('cgroup')}status 2>/dev/null || echo State:; true")

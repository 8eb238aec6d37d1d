"""A person who types commands against a cluster with real nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote

from fairpool.api.workloads import PodItem
from fairpool.engines.kubernetes.names import NAMESPACE_PREFIX, WORKLOAD
from fairpool.platform.kubernetes_cluster import NAMESPACE as OWN
from tests.end_to_end.test_gateway_on_one_machine import free_port
from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.images import BUSYBOX
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.typist import KubernetesClusterProcess, KubernetesTypist, Pod
from tests.monitoring import until
from tests.needs import kubernetes_program
from tests.two_programs import ControlProcess

NAMESPACE = f"{NAMESPACE_PREFIX}team-a"
SMALL = "--cpu 0.1 --memory 16M --grace-period 2"
"""The machine has fewer cores than its nodes have GPUs, and a GPU comes with a core unless one says otherwise."""


class RealNodesTypist(KubernetesTypist):
    """A person whose cluster has real nodes."""

    def __init__(self, folder: Path, nodes: Cluster, seed: int = 0) -> None:
        super().__init__(folder, nodes.plane, seed)
        self.real = nodes
        self.gateway = free_port()
        flags = ("--gateway-listen", f"127.0.0.1:{self.gateway}")
        self._control = ControlProcess(folder / "control", folder / "config", *flags)

    def cluster_process(self, folder: str, token: Path, *flags: str) -> KubernetesClusterProcess:
        shares = ("--reservation-image", BUSYBOX, "--unenforced-shares", "yes")
        reach = ("--kubeconfig", str(self.plane.kubeconfig()), *shares)
        place = self._folder / folder, self._control.address, token, self._folder / "config"
        return KubernetesClusterProcess(*place, *reach, *flags)

    def submit_script(self, name: str, script: str, flags: str = "") -> None:
        """A job that runs a shell script."""
        self.typed(f"runai submit {name} -i {BUSYBOX} {SMALL} {flags} -p team-a -- sh -c {quote(script)}")

    def run(self, name: str, script: str, flags: str = "") -> PodItem:
        """The same, until it runs; its pod."""
        self.submit_script(name, script, flags)
        self.until_runs(name)
        return self.pods(name)[-1]

    def until_in(self, name: str, phase: str) -> None:
        self.until_jobs(lambda jobs: name in jobs and jobs[name].phase == phase, f"{name} is {phase}")

    def objects(self, name: str) -> list[Pod]:
        """The pods of a job in the cluster."""
        workload = self.jobs()[name].id
        return [each for each in self.own_pods() if each["metadata"]["labels"][WORKLOAD] == workload]

    def logs(self, name: str) -> str:
        return self.typed(f"runai logs {name} -p team-a")

    def delete(self, *names: str) -> None:
        self.typed(f"runai delete {' '.join(names)} -p team-a")
        self.until_jobs(lambda jobs: not set(names) & jobs.keys(), f"{names} are deleted")

    def delete_all(self) -> None:
        names = [each.name for each in self.client.all_workloads() if each.project_name == "team-a"]
        if names:
            self.delete(*names)

    def kubectl(self, *arguments: str, namespace: str = NAMESPACE) -> str:
        where = (f"--kubeconfig={self.plane.kubeconfig()}", f"--namespace={namespace}")
        command = [kubernetes_program("kubectl"), *where, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    @contextmanager
    def forwarding(self, name: str, port: int) -> Iterator[int]:
        """While a port of a job is forwarded, which takes a moment to begin: the local port."""
        local = free_port()
        process = self.begin(f"runai port-forward {name} --port {local}:{port} -p team-a")
        try:
            yield local
        finally:
            process.terminate()
            process.communicate(timeout=60)


def clear_away(plane: ControlPlane) -> None:
    """After a platform has ended: its namespaces and pods, so that the next one finds an empty cluster."""
    found = plane.admin.get("/api/v1/namespaces")["items"]
    names = [each["metadata"]["name"] for each in found]
    ours = [name for name in names if name == OWN or name.startswith(NAMESPACE_PREFIX)]
    for name in ours:
        for pod in plane.admin.get(f"/api/v1/namespaces/{name}/pods")["items"]:
            path = f"/api/v1/namespaces/{name}/pods/{pod['metadata']['name']}"
            with suppress(ApiError):  # it has just gone
                plane.admin.patch(path, {"metadata": {"finalizers": None}})
                plane.admin.delete(path, 1)
        plane.admin.delete(f"/api/v1/namespaces/{name}")
    for name in ours:
        until(lambda name=name: plane.admin.find(f"/api/v1/namespaces/{name}") is None, f"{name} is gone")  # type: ignore[misc]

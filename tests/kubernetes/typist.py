"""A person who types commands against `fairpool control` and `fairpool cluster --engine kubernetes`.

Meanwhile the pods are watched: no pod runs beside its replacement, and no GPU is given twice.
"""

from __future__ import annotations

import random
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fairpool.api.client import Client
from fairpool.api.workloads import PodItem
from fairpool.engines.kubernetes.names import FAIRPOOL, MANAGED_BY, WORKLOAD
from fairpool.engines.kubernetes.objects import DEVICES, POD, label_value
from fairpool.platform.directory_lock import lock_holder
from tests.end_to_end.test_netapp_commands import LOOK_S, Typist
from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.two_programs import ClusterProcess, ControlProcess

Pod = dict[str, Any]
ENDED = ("Succeeded", "Failed")
CONTROL, CLUSTER, API_SERVER, ETCD = "control", "cluster", "API server", "etcd"
FAULTS = ((CLUSTER,), (API_SERVER,), (ETCD,), (CLUSTER, API_SERVER), (API_SERVER, ETCD), (CONTROL, CLUSTER, ETCD))


class KubernetesClusterProcess(ClusterProcess):
    """`fairpool cluster --engine kubernetes`."""

    def tried(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        where = ("--control", self.control, "--token-file", str(self.token_file), "--health-listen", "127.0.0.1:0")
        return self.command("cluster", "--detach", "--engine", "kubernetes", *where, *self._flags, *arguments)


class KubernetesTypist(Typist):
    """A person, the two programs, and a Kubernetes control plane. Its own folder is that of the cluster."""

    has_visible_programs = False

    def __init__(self, folder: Path, plane: ControlPlane, seed: int = 0) -> None:
        super().__init__(folder)
        self.plane = plane
        self._dice = random.Random(seed)
        self._control = ControlProcess(folder / "control", folder / "config")
        self.cluster: KubernetesClusterProcess | None = None
        self._folder = folder
        self.faults_so_far: list[tuple[str, ...]] = []

    def up(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """What is not up."""
        if lock_holder(self._control.data_directory) is None:
            self._control.up()
        for each in (self.plane.etcd, self.plane.api_server):
            if not each.is_running:
                each.start(wait=False)
        self.plane.api_server.wait_until_ready()
        if self.cluster is None:
            self.cluster = self.cluster_process("data", self._control.token_file("east"))
        return self.cluster.up()

    def cluster_process(self, folder: str, token: Path, *flags: str) -> KubernetesClusterProcess:
        shares = ("--reservation-image", "busybox", "--unenforced-shares", "yes")
        reach = ("--kubeconfig", str(self.plane.kubeconfig()), *shares)
        return KubernetesClusterProcess(
            self._folder / folder, self._control.address, token, self._folder / "config", *reach, *flags
        )

    def kill_server(self) -> None:
        """One of the two programs, or a part of Kubernetes, or several."""
        faults: tuple[str, ...] = self._dice.choice(FAULTS)
        self.faults_so_far.append(faults)
        if CONTROL in faults:
            self._control.kill()
        if API_SERVER in faults:
            self.plane.api_server.kill()
        if ETCD in faults:
            self.plane.etcd.kill()
        if CLUSTER in faults:
            assert self.cluster is not None
            self.cluster.kill()

    def owner_token(self) -> str:
        return self._control.owner_token()

    @property
    def status(self) -> dict[str, Any]:
        return self._control.status

    def cluster_status(self) -> dict[str, Any]:
        """Of the cluster program; `status` is that of the control plane."""
        assert self.cluster is not None
        return self.cluster.status

    def open(self) -> None:
        self.start()
        self._client = Client(self.address, self.owner_token())

    def own_pods(self) -> list[Pod]:
        """The pods of workloads, as the API server shows them."""
        found = self.plane.admin.get(f"/api/v1/pods?labelSelector={MANAGED_BY}%3D{FAIRPOOL},{WORKLOAD}")
        return list(found["items"])

    def placed_pods(self) -> list[Pod]:
        """Without those of nodes that were removed: nothing runs there, though the objects stay for a while."""
        pods = self.own_pods()  # before the nodes: a replacement is made after its node was removed
        nodes = {each["metadata"]["name"] for each in self.plane.admin.get("/api/v1/nodes")["items"]}
        return [each for each in pods if each["spec"].get("nodeName") in nodes]

    def marks(self) -> set[str]:
        return {each["metadata"]["labels"][POD] for each in self.own_pods() if is_running(each)}

    def mark(self, pod: PodItem) -> str:
        return label_value(pod.id)

    def clean_up(self) -> None:
        for each in (self.cluster, self._control):
            if each is not None:
                each.kill()

    def _journal(self) -> str:
        log = self.data_directory.log
        return log.read_text(encoding="utf-8")[-6000:] if log.exists() else ""


def is_running(pod: Pod) -> bool:
    return pod.get("status", {}).get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


@dataclass
class PodWatch:
    """Looks at the pods all the time, as far as the API server answers: one for each place of a job, one job for each
    GPU."""

    pods: Callable[[], list[Pod]]
    wrong: list[str] = field(default_factory=list)
    looks: int = 0
    _end: threading.Event = field(default_factory=threading.Event)

    def watch(self) -> None:
        while not self._end.wait(LOOK_S):
            with suppress(ApiError, OSError):
                self.look(self.pods())

    def look(self, pods: list[Pod]) -> None:
        self.looks += 1
        living = [each for each in pods if each.get("status", {}).get("phase") not in ENDED]
        places: dict[str, str] = {}
        seats: dict[tuple[str, str], str] = {}
        for each in living:
            metadata = each["metadata"]
            name = f"{metadata['namespace']}/{metadata['name']}"
            place = metadata["labels"][POD].rpartition("-")[0]  # without its incarnation
            other = places.setdefault(place, name)
            if other != name:
                self.wrong.append(f"{other} and {name} at one moment")
            asked = each["spec"]["containers"][0].get("resources", {}).get("limits", {}).get("nvidia.com/gpu")
            given = metadata.get("annotations", {}).get(DEVICES, "").split(",") if asked else []
            for seat in given:
                holder = seats.setdefault((each["spec"]["nodeName"], seat), name)
                if holder != name:
                    self.wrong.append(f"GPU {seat} of {each['spec']['nodeName']}: {holder} and {name}")

    def leave(self) -> None:
        self._end.set()


@contextmanager
def watched(typist: KubernetesTypist) -> Iterator[KubernetesTypist]:
    """An open platform that is watched all the time and ended afterwards."""
    watch = PodWatch(typist.placed_pods)
    thread = threading.Thread(target=watch.watch)
    thread.start()
    try:
        typist.open()
        yield typist
        assert watch.looks
        assert watch.wrong == []
    finally:
        watch.leave()
        thread.join()
        typist.clean_up()


def wait_until(holds: Callable[[], object], what: str, seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.1)

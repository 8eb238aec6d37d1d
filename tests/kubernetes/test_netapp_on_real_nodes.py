"""The documented commands of sixteen GPUs and four teams, typed, on two real nodes with eight GPUs each.

The scenario and its checks are those of `test_netapp_commands`. Every job is a container; what GPUs it sees was decided
by the device plugins of the nodes, and by us where it shares one.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import needs
from tests.end_to_end.test_netapp_commands import FRACTIONAL, QUICKSTART, play
from tests.kubernetes import images
from tests.kubernetes.nodes import Cluster
from tests.kubernetes.real_nodes_typist import SMALL, RealNodesTypist, clear_away
from tests.kubernetes.typist import Pod, is_running, watched

pytestmark = pytest.mark.slow

STAYS = "trap 'exit 0' TERM; sleep 100000 & wait"
NOTEBOOK = "jupyter/base-notebook"
KILLED = {4: [0.8], 11: [1.2], 14: [0.6, 0.4], 17: [1.0]}
"""When the cluster program is killed: in the line with this number, after so many seconds."""


class Scenario(RealNodesTypist):
    """A person on a machine with fewer cores than GPUs, whose nodes have the images and cannot pull any."""

    def begin(self, line: str) -> subprocess.Popen[str]:
        is_submit = line.startswith("runai submit")
        return super().begin(f"{line} {SMALL} --image-pull-policy IfNotPresent" if is_submit else line)

    def kill_server(self) -> None:
        assert self.cluster is not None
        self.cluster.kill()


@pytest.fixture(scope="module")
def pulled(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """Nodes that have the images of the scenario."""
    folder = tmp_path_factory.mktemp("images")
    start = folder / "start-notebook.sh"
    start.write_text(f"#!/bin/sh\n{STAYS}\n")
    shell = {"bin/busybox": Path(needs.program("busybox", "busybox-static"))}
    links = {f"bin/{name}": images.APPLETS for name in ("sh", "sleep")}
    for name, files in ((QUICKSTART, shell), (NOTEBOOK, {**shell, "bin/start-notebook.sh": start})):
        archive = folder / f"{name.rpartition('/')[2]}.tar"
        command = ("/bin/sh", "-c", STAYS)
        cluster.import_image(images.write_image(archive, f"{name}:latest", files, links=links, command=command))
    return cluster


@pytest.fixture
def typist(pulled: Cluster, tmp_path: Path) -> Iterator[Scenario]:
    made = Scenario(tmp_path, pulled)
    with watched(made):
        made.make_projects()
        yield made
        check_devices(made)
    clear_away(made.plane)


def test_the_documented_commands_reach_the_documented_states_on_real_nodes(typist: Scenario) -> None:
    play(typist, {})


def test_killing_the_cluster_program_changes_nothing_on_real_nodes(typist: Scenario) -> None:
    play(typist, KILLED)


def check_devices(typist: Scenario) -> None:
    """As the containers see them: no device is of two jobs, unless these share it."""
    names = {job.id: name for name, job in typist.jobs().items()}
    holders: dict[str, set[str]] = {}
    for pod in typist.own_pods():
        if is_running(pod):
            for device in visible(typist, pod):
                holders.setdefault(device, set()).add(names[pod["metadata"]["labels"]["fairpool.io/workload"]])
    assert len(holders) == 16
    assert all(len(jobs) == 1 or jobs <= set(FRACTIONAL) for jobs in holders.values()), holders


def visible(typist: Scenario, pod: Pod) -> list[str]:
    metadata = pod["metadata"]
    asked = ("exec", metadata["name"], "--", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
    return typist.kubectl(*asked, namespace=metadata["namespace"]).strip().split(",")

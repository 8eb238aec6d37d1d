"""Two replicas of a cluster on Kubernetes with their ledger on PostgreSQL: one schedules, the other takes over.

A real API server with nodes that have no machines, and real processes that are killed, stopped and cut off.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairpool.api import workload_spec as work
from fairpool.api.client import Client
from fairpool.api.organization import ProjectRequest
from fairpool.engines.kubernetes.names import WORKLOAD
from fairpool.engines.kubernetes.objects import TOKEN
from fairpool.platform import background
from tests.kubernetes import control_plane as parts
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, fake_nodes
from tests.kubernetes.typist import KubernetesClusterProcess, KubernetesTypist, is_running, wait_until, watched
from tests.postgresql import databases

pytestmark = pytest.mark.slow


class TwoReplicas(KubernetesTypist):
    """The control plane, and two processes of one cluster. The first one started leads."""

    def __init__(self, folder: Path, plane: ControlPlane) -> None:
        super().__init__(folder, plane)
        self.ledger = ("--ledger", databases().url(folder))
        self.replicas: list[KubernetesClusterProcess] = []

    def open(self) -> None:
        self._control.up()
        self.address = self._control.address
        token = self._control.token_file("east")
        for name in ("data", "other"):
            replica = self.cluster_process(name, token, *self.ledger)
            self.replicas.append(replica)
            replica.up()
        self._client = Client(self.address, self.owner_token())
        body = {"name": "team-a", "resources": [{"gpu": {"deserved": 16}}]}
        self._client.create_project(ProjectRequest.model_validate(body))

    def leads(self, replica: KubernetesClusterProcess) -> bool:
        status = background.status_of(replica.data_directory, 5.0)
        return status is not None and bool(status["kubernetes"]["leads"])

    def leader(self) -> KubernetesClusterProcess:
        (found,) = [each for each in self.replicas if self.leads(each)]
        return found

    def other(self) -> KubernetesClusterProcess:
        (found,) = [each for each in self.replicas if not self.leads(each)]
        return found

    def submit_gang(self, name: str, pods: int, gpus: int) -> str:
        spec = {"image": "busybox", "command": "sleep", "args": "1000", "compute": {"gpu": str(gpus)}}
        body = {
            "name": name,
            "projectId": "team-a",
            "spec": {**spec, "numWorkers": pods, "distributedFramework": "PyTorch"},
        }
        return self.client.submit(work.SubmitDistributed.model_validate(body)).id

    def running_pods(self, workload: str) -> list[str]:
        found = [each for each in self.own_pods() if each["metadata"]["labels"][WORKLOAD] == workload]
        return sorted(each["metadata"]["name"] for each in found if is_running(each))

    def tokens(self) -> set[int]:
        return {int(each["metadata"]["labels"][TOKEN]) for each in self.own_pods()}

    def clean_up(self) -> None:
        for each in self.replicas:
            each.kill()
        self._control.kill()


@pytest.fixture
def platform(tmp_path: Path) -> Iterator[TwoReplicas]:
    with parts.control_plane(tmp_path / "kubernetes") as plane, fake_nodes(plane, 2), FakeKubelet(plane):
        replicas = TwoReplicas(tmp_path, plane)
        with watched(replicas):
            yield replicas


def _waits(replica: KubernetesClusterProcess) -> bool:
    """Whether it is up and another one leads."""
    status = background.status_of(replica.data_directory, 5.0)
    return status is not None and bool(status["is_ready"]) and not status["kubernetes"]["leads"]


def until_running(platform: TwoReplicas, workload: str) -> None:
    platform.until_phase(workload, "Running")


def test_a_replica_takes_over_from_one_that_is_killed_and_every_job_keeps_its_pod(platform: TwoReplicas) -> None:
    before = platform.submit("before", "import time; time.sleep(1000)", gpu="2")
    until_running(platform, before)
    (pod,) = platform.running_pods(before)
    first = platform.leader()
    second = platform.other()
    assert background.status_of(second.data_directory, 5.0)["is_ready"], "it is ready to take over"  # type: ignore[index]
    while_dying = platform.submit("while-dying", "import time; time.sleep(1000)", gpu="2")
    first.kill()
    wait_until(lambda: platform.leads(second), "the other replica leads")
    until_running(platform, while_dying)
    after = platform.submit("after", "import time; time.sleep(1000)", gpu="2")
    until_running(platform, after)
    assert platform.running_pods(before) == [pod], "it was not started again"
    assert len(platform.running_pods(while_dying)) == 1
    assert max(platform.tokens()) > min(platform.tokens()), "each take-over has a higher token"
    first.up()
    wait_until(lambda: not platform.leads(first) and platform.leads(second), "the one that comes back waits")


def test_a_replica_that_is_stopped_lets_the_other_lead_at_once(platform: TwoReplicas) -> None:
    first, second = platform.leader(), platform.other()
    first.down()
    wait_until(lambda: platform.leads(second), "the other replica leads", seconds=10.0)
    job = platform.submit("job", "import time; time.sleep(1000)", gpu="1")
    until_running(platform, job)


def test_a_replica_that_was_frozen_does_nothing_when_it_goes_on(platform: TwoReplicas) -> None:
    """It was stopped in the middle of something, and the other has led meanwhile."""
    jobs = [platform.submit(f"job-{number}", "import time; time.sleep(1000)", gpu="1") for number in range(3)]
    first, second = platform.leader(), platform.other()
    frozen = first.pid
    os.kill(frozen, signal.SIGSTOP)
    try:
        wait_until(lambda: platform.leads(second), "the other replica leads")
        jobs += [platform.submit(f"late-{number}", "import time; time.sleep(1000)", gpu="1") for number in range(3)]
        for each in jobs:
            until_running(platform, each)
        highest = max(platform.tokens())
    finally:
        os.kill(frozen, signal.SIGCONT)
    wait_until(lambda: _waits(first), "it has noticed, and waits for its turn")
    assert platform.leads(second)
    more = platform.submit("more", "import time; time.sleep(1000)", gpu="1")
    until_running(platform, more)
    assert max(platform.tokens()) == highest, "the loop that leads was not disturbed"
    assert all(len(platform.running_pods(each)) == 1 for each in [*jobs, more])


def test_a_leader_that_is_killed_while_it_starts_a_gang_leaves_it_whole_or_absent(platform: TwoReplicas) -> None:
    gang = platform.submit_gang("gang", pods=8, gpus=2)
    first, second = platform.leader(), platform.other()
    wait_until(lambda: platform.own_pods(), "its first pod exists")
    first.kill()
    wait_until(lambda: platform.leads(second), "the other replica leads")
    until_running(platform, gang)
    wait_until(lambda: len(platform.running_pods(gang)) == 8, "the gang is whole")

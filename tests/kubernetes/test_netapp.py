"""The documented commands of sixteen GPUs and four teams, typed, on a real API server with nodes that have no machines.

The scenario and its checks are those of `test_netapp_commands`; here the cluster program is killed at random moments,
and so are the API server and etcd, and every phase must end in the same state.

FAIRPOOL_KILL_ROUNDS says how often the scenario is played with such faults.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_netapp_commands import AT_MOST_S, FACTS, LINES, QUICKSTART, play
from tests.kubernetes import control_plane as parts
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, fake_nodes
from tests.kubernetes.typist import KubernetesTypist, watched

pytestmark = pytest.mark.slow

AWAY_S = float(os.environ.get("FAIRPOOL_API_SERVER_AWAY_S", "60"))
"""How long the API server is away in one test; ten minutes in `make soak`."""
ROUNDS = int(os.environ.get("FAIRPOOL_KILL_ROUNDS", "1"))
NODES = 2


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """One of its own: its parts are killed."""
    with parts.control_plane(tmp_path / "kubernetes") as plane, fake_nodes(plane, NODES), FakeKubelet(plane):
        yield plane


@pytest.fixture
def typist(plane: ControlPlane, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[KubernetesTypist]:
    seed = request.node.callspec.params["seed"] if hasattr(request.node, "callspec") else 0
    with watched(KubernetesTypist(tmp_path, plane, seed)) as typist:
        yield typist


def test_the_documented_commands_reach_the_documented_states_on_kubernetes(typist: KubernetesTypist) -> None:
    for project in FACTS["projects"]:
        typist.typed(f"runai-adm project create {project['name']} --gpu-quota {project['gpu_quota']}")
    play(typist, {})


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_killing_the_cluster_program_the_api_server_or_etcd_changes_nothing(
    typist: KubernetesTypist, seed: int
) -> None:
    typist.make_projects()
    dice = random.Random(seed)
    when = {*dice.sample(range(13), 2), *dice.sample(range(13, len(LINES)), 3)}
    kills = {number: [dice.uniform(0, AT_MOST_S) for _ in range(dice.choice((1, 1, 2)))] for number in sorted(when)}
    try:
        play(typist, kills)
    finally:
        print(f"seed {seed}: { {LINES[number][1]: moments for number, moments in kills.items()} }")
        print(f"faults: {typist.faults_so_far}")


def test_an_api_server_that_is_away_for_a_minute_loses_and_doubles_nothing(typist: KubernetesTypist) -> None:
    """Longer than the lease of the loop lasts. What is asked for meanwhile is done afterwards."""
    typist.make_projects()
    typist.typed(f"runai submit before -i {QUICKSTART} -g 4 -p team-a")
    typist.typed(f"runai submit deleted -i {QUICKSTART} -g 4 -p team-b")
    typist.until_runs("before", "deleted")
    (pod,) = typist.pods("before")
    typist.plane.api_server.kill()
    ends = time.monotonic() + AWAY_S
    typist.typed(f"runai submit meanwhile -i {QUICKSTART} -g 4 -p team-c")
    typist.typed("runai delete -p team-b deleted")
    assert typist.cluster is not None
    typist.until(lambda: typist.cluster_status()["loop"]["error"], "the loop says why it makes no progress")
    time.sleep(max(0.0, ends - time.monotonic()))
    assert not typist.cluster_status()["kubernetes"]["leads"], "its lease may have expired"
    assert typist.jobs()["before"].phase == "Running", "the pod is not touched"
    typist.plane.api_server.start()
    typist.until_runs("before", "meanwhile")
    typist.until_jobs(lambda jobs: "deleted" not in jobs, "what was deleted is gone")
    assert [each.id for each in typist.pods("before")] == [pod.id]
    marks = {typist.mark(each) for name in ("before", "meanwhile") for each in typist.pods(name)}
    typist.until(lambda: typist.marks() == marks, "just these two run")
    assert typist.cluster_status()["kubernetes"]["leads"]

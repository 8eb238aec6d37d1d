"""Nodes of a cluster that are drained, lost, removed for good and joined again, as an administrator sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_netapp_commands import QUICKSTART
from tests.kubernetes import control_plane as parts
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.fake_nodes import FakeKubelet, fake_nodes, node
from tests.kubernetes.typist import KubernetesTypist, watched

pytestmark = pytest.mark.slow

WORKER = "node-role.kubernetes.io/runai-gpu-worker"


@pytest.fixture
def plane(tmp_path: Path) -> Iterator[ControlPlane]:
    """One of its own: its nodes are removed."""
    with parts.control_plane(tmp_path / "kubernetes") as plane, fake_nodes(plane, 2), FakeKubelet(plane):
        yield plane


@pytest.fixture
def typist(plane: ControlPlane, tmp_path: Path) -> Iterator[KubernetesTypist]:
    with watched(KubernetesTypist(tmp_path, plane)) as typist:
        typist.make_projects()
        yield typist


def nodes_listed(typist: KubernetesTypist) -> list[str]:
    return [line.split()[0] for line in typist.typed("runai-adm node list").splitlines()[1:] if line.strip()]


def test_a_drained_node_loses_its_jobs_to_others_and_gets_them_again(typist: KubernetesTypist) -> None:
    """F-248, F-249, F-250: with the taint that an administrator sets by kubectl."""
    admin = typist.plane.admin
    typist.typed(f"runai submit trained -i {QUICKSTART} -g 8 -p team-a")
    typist.until_runs("trained")
    (first,) = typist.pods("trained")
    taint = {"key": "runai", "value": "drain", "effect": "NoExecute"}
    admin.patch(f"/api/v1/nodes/{first.node}", {"spec": {"taints": [taint]}})
    typist.until_jobs(lambda jobs: len(typist.pods("trained")) == 2, "it has another pod")
    typist.until_runs("trained")
    assert typist.pods("trained")[-1].node not in (None, first.node)
    typist.typed(f"runai submit waits -i {QUICKSTART} -g 8 -p team-b")
    typist.until_jobs(lambda jobs: jobs["waits"].phase == "Pending", "nothing starts on a drained node")
    admin.patch(f"/api/v1/nodes/{first.node}", {"spec": {"taints": None}})
    typist.until_runs("waits")
    assert typist.pods("waits")[-1].node == first.node


def test_training_moves_from_a_node_that_is_removed_and_interactive_work_waits_for_its_user(
    typist: KubernetesTypist,
) -> None:
    """F-252, F-253, F-254."""
    admin = typist.plane.admin
    typist.typed(f"runai submit trained -i {QUICKSTART} -g 2 -p team-a")
    typist.typed(f"runai submit notebook -i {QUICKSTART} -g 2 -p team-a --interactive")
    typist.until_runs("trained", "notebook")
    lost = typist.pods("notebook")[-1].node
    assert lost is not None
    assert typist.pods("trained")[-1].node == lost, "small jobs share a node"
    admin.delete(f"/api/v1/nodes/{lost}")
    typist.until_jobs(lambda jobs: len(typist.pods("trained")) == 2, "training has another pod")
    typist.until_runs("trained")
    assert typist.pods("trained")[-1].node not in (None, lost)
    notebook = typist.jobs()["notebook"]
    assert (notebook.phase, notebook.phase_message) == ("Stopped", f"node {lost} was lost or rebooted")
    typist.until(lambda: lost not in nodes_listed(typist), "a deleted node is not listed")

    admin.create("/api/v1/nodes", node(lost))
    admin.patch(f"/api/v1/nodes/{lost}", {"spec": {"taints": None}})
    typist.until(lambda: lost in nodes_listed(typist), "it is listed again")
    typist.typed(f"runai-adm set node-role --gpu-worker {lost}")
    typist.until(lambda: WORKER in admin.get(f"/api/v1/nodes/{lost}")["metadata"]["labels"], "it has its role")
    assert len(typist.pods("notebook")) == 1, "it does not start by itself, although there is room"
    typist.typed("runai resume notebook -p team-a")
    typist.until_runs("notebook")
    assert typist.pods("notebook")[-1].node == lost, "only a node with the role takes new work"

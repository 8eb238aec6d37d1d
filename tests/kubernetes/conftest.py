"""A Kubernetes control plane for each process that runs tests, and a namespace in it for each test; two real nodes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kubernetes import control_plane as parts
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.nodes import Cluster, real_nodes


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """With fake nodes only: see `fake_nodes.py`. A test that stops a part starts it again."""
    with parts.control_plane(tmp_path_factory.mktemp("control-plane")) as made:
        yield made


@pytest.fixture
def namespace(control_plane: ControlPlane) -> Iterator[str]:
    with control_plane.namespace("test") as made:
        yield made


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With two real nodes of eight GPUs that are not there, and a control plane of its own."""
    folder = tmp_path_factory.mktemp("cluster")
    plane = parts.control_plane(folder / "control-plane", watches_nodes=True)
    with plane as running, real_nodes(running, folder / "nodes") as made:
        yield made

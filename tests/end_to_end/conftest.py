"""Fixtures of end-to-end tests: `fairpool control` and `cluster`, a link between them that can be cut, Keycloak."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.keycloak import running
from tests.two_programs import ClusterProcess, ControlProcess, Relay, control_at


@pytest.fixture
def control(tmp_path: Path) -> Iterator[ControlProcess]:
    with control_at(tmp_path) as control:
        yield control


@pytest.fixture
def relay(control: ControlProcess) -> Iterator[Relay]:
    relay = Relay()
    relay.target = int(control.address.rpartition(":")[2])
    yield relay
    relay.close()


@pytest.fixture
def cluster(control: ControlProcess, relay: Relay, tmp_path: Path) -> Iterator[ClusterProcess]:
    address = f"http://127.0.0.1:{relay.port}"
    cluster = ClusterProcess(tmp_path / "east", address, control.token_file("east"), tmp_path / "config")
    cluster.up()
    yield cluster
    relay.mend()
    cluster.clean_up()


@pytest.fixture(scope="session")
def keycloak() -> Iterator[str]:
    """The address of a real identity provider, started once for the whole run."""
    with running() as address:
        yield address

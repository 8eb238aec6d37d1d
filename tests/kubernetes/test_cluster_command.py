"""`fairpool cluster --engine kubernetes`: how it finds the API server, and what it says if something is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.typist import KubernetesClusterProcess, wait_until
from tests.monitoring import free_port
from tests.running_platform import fairpool
from tests.two_programs import ControlProcess, control_at

pytestmark = pytest.mark.slow

NOT_USABLE = 2


def tried(folder: Path, *flags: str, **variables: str) -> tuple[int, str]:
    """Exit code and messages of a cluster that never gets as far as its control plane."""
    token = folder / "token"
    token.touch(0o600)
    token.write_text("token\n")
    where = ("--control", "http://127.0.0.1:9", "--token-file", str(token), "--data", str(folder / "data"))
    listen = ("--health-listen", "127.0.0.1:0")
    done = fairpool("cluster", *where, *listen, *flags, **{"HOME": str(folder), "KUBECONFIG": "", **variables})
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ("--engine kubernetes", "no Kubernetes API server is configured"),
        ("--engine kubernetes --kubeconfig /nowhere/config", "names no file that exists: /nowhere/config"),
        ("--kubeconfig x", "--kubeconfig: only for clusters with --engine kubernetes"),
        ("--ledger postgresql://db/x", "--ledger: only for clusters with --engine kubernetes"),
        ("--engine kubernetes --nodes 2x8 --hide /x", "--nodes, --hide: only for clusters with --engine local"),
        ("--engine kubernetes --namespace A_b", "--namespace: 'A_b' cannot be the name of a namespace"),
        ("--engine kubernetes --ledger mysql://db/x", "--ledger is not an address of a PostgreSQL database"),
        ("--engine kubernetes --ledger /nowhere/ledger", "/nowhere is not a directory that can be written to"),
        ("--engine kubernetes --ingress-class nginx", "have no effect without --ingress-host"),
        ("--engine kubernetes --host-path data", "--host-path: 'data' is not an absolute path"),
    ],
)
def test_what_is_wrong_with_flags_is_said_at_once(tmp_path: Path, flags: str, says: str) -> None:
    code, messages = tried(tmp_path, *flags.split())
    assert code == NOT_USABLE
    assert says in messages


def test_a_context_that_does_not_exist_is_named(tmp_path: Path, control_plane: ControlPlane) -> None:
    kubeconfig = str(control_plane.kubeconfig(folder=tmp_path))
    code, messages = tried(tmp_path, "--engine", "kubernetes", "--context", "none", KUBECONFIG=kubeconfig)
    assert code == NOT_USABLE
    assert "'none'" in messages


def test_an_account_without_rights_is_told_so(tmp_path: Path, control_plane: ControlPlane) -> None:
    code, messages = tried(
        tmp_path, "--engine", "kubernetes", "--kubeconfig", str(control_plane.kubeconfig("bob", folder=tmp_path))
    )
    assert code != 0
    assert 'User "bob" cannot get resource "namespaces"' in messages


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlProcess]:
    with control_at(tmp_path_factory.mktemp("control")) as control:
        yield control


def test_the_kubeconfig_of_the_environment_is_used_and_the_status_shows_it(
    tmp_path: Path, control_plane: ControlPlane, control: ControlProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-133."""
    monkeypatch.setenv("KUBECONFIG", str(control_plane.kubeconfig(folder=tmp_path)))
    token = control.token_file("by-variable")
    flags = ("--namespace", "fairpool-by-variable")
    cluster = KubernetesClusterProcess(tmp_path / "data", control.address, token, tmp_path / "config", *flags)
    try:
        said = cluster.up().stdout
        assert f"Nodes    Kubernetes at {control_plane.address}" in said
        shown = cluster.command("status").stdout
        assert f"{control_plane.address}, namespace fairpool-by-variable" in shown
        assert "this replica leads" in shown
        other = KubernetesClusterProcess(
            tmp_path / "other", control.address, token, tmp_path / "config", "--namespace", "fairpool-another"
        )
        refused = other.tried()
        assert refused.returncode != 0, "another installation with the same token"
        assert "cluster by-variable has already joined" in refused.stderr
    finally:
        cluster.kill()


def test_a_cluster_waits_for_an_api_server_that_is_not_there_yet(
    tmp_path: Path, control_plane: ControlPlane, control: ControlProcess
) -> None:
    kubeconfig = control_plane.kubeconfig(address=f"https://127.0.0.1:{free_port()}", folder=tmp_path)
    flags = ("--kubeconfig", str(kubeconfig), "--namespace", "fairpool-waits")
    token = control.token_file("waits")
    cluster = KubernetesClusterProcess(tmp_path / "data", control.address, token, tmp_path / "config", *flags)
    try:
        said = cluster.up().stdout
        assert "waiting for the Kubernetes API server" in said
        assert cluster.status["waiting_for"].startswith("the Kubernetes API server, which cannot be reached yet")
        cluster.kill()
        control_plane.kubeconfig(folder=tmp_path)
        cluster.up()
        wait_until(lambda: cluster.status["is_ready"], "it schedules")
    finally:
        cluster.kill()

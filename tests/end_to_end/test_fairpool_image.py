"""The image of the servers, built with its script: control plane and cluster run from it as in the charts, without
root, without capabilities and with a read-only root file system."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.containers import Podman
from tests.fairpool_image import IMAGE, podman_with_image

pytestmark = pytest.mark.slow

PATIENCE_S = 240
RESTRICTED = (
    *("--read-only", "--read-only-tmpfs=false", "--cap-drop=all", "--security-opt=no-new-privileges"),
    *("--mount=type=tmpfs,destination=/tmp,tmpfs-mode=1777", "--mount=type=tmpfs,destination=/data,tmpfs-mode=1777"),
)
FIRST_PASSWORD, PASSWORD = "k3Jx9QpLw2Vn8Rt5Yb1Z", "a better one"


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    with podman_with_image(tmp_path_factory.mktemp("podman")) as podman:
        yield podman


def test_control_plane_and_cluster_run_without_root_on_a_read_only_root(podman: Podman, tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "password").write_text(FIRST_PASSWORD, encoding="ascii")
    command = ("fairpool", "control", "--listen", "0.0.0.0:8080", "--first-password-file", "/secrets/password")
    mounted = f"--volume={secrets}:/secrets:ro"
    podman.run("run", "--detach", "--name=control", "--network=none", mounted, *RESTRICTED, IMAGE, *command)
    until(lambda: '"ready"' in asked(podman, "control", "8080"), lambda: logged(podman, "control"))
    assert podman.run("exec", "control", "python3", "-c", "import os; print(os.getuid())") == "65532"
    assert "control plane starting" in logged(podman, "control")

    (secrets / "east.token").write_text(token_of_new_cluster(podman), encoding="ascii")
    (secrets / "east.token").chmod(0o440)  # as Kubernetes mounts secrets: root's, readable by the group of the pod
    os.chown(secrets / "east.token", 0, 65532)
    command = ("fairpool", "cluster", "--control", "http://127.0.0.1:8080", "--token-file", "/secrets/east.token")
    options = ("--name=cluster", "--network=container:control", mounted)
    podman.run("run", "--detach", *options, *RESTRICTED, IMAGE, *command, "--nodes", "1x2:V100-32GB")
    until(lambda: '"ready"' in asked(podman, "cluster", "8081"), lambda: logged(podman, "cluster"))

    podman.run("stop", "--time=30", "cluster")
    assert podman.run("inspect", "cluster", "--format", "{{.State.ExitCode}}") == "0", "SIGTERM ends it in order"


def token_of_new_cluster(podman: Podman) -> str:
    """Made by the user who runs the server, who is signed in as in any terminal, with a password of their own."""
    both = f"{FIRST_PASSWORD}\n{PASSWORD}\n"
    podman.run("exec", "--interactive", "control", "runai", "password", "--stdin", text=both)
    podman.run("exec", "control", "runai-adm", "cluster", "create", "east", "--token-file", "/tmp/east.token")
    return podman.run("exec", "control", "python3", "-c", "print(open('/tmp/east.token').read())")


def asked(podman: Podman, container: str, port: str) -> str:
    program = (
        f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/readyz', timeout=5).read().decode())"
    )
    return podman.run("exec", container, "python3", "-c", program, check=False)


def logged(podman: Podman, container: str) -> str:
    command = ["podman", "logs", container]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def until(holds: Callable[[], bool], log: Callable[[], str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end, log()
        time.sleep(0.5)

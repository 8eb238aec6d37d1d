"""Programs of a Kubernetes cluster: where they are taken from, and what is said if they cannot be built."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import needs
from tools import kube_assets

TREE = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(autouse=True)
def _empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_given_programs_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etcd").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert kube_assets.program("etcd") == tmp_path / "etcd"
    with pytest.raises(kube_assets.NotAvailable, match=r"kubelet is not in .*KUBEBUILDER_ASSETS"):
        kube_assets.program("kubelet")


def test_what_was_built_is_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(name: str, target: Path) -> None:
        built.append(name)
        target.touch()

    monkeypatch.setattr(kube_assets, "_build", build)
    assert kube_assets.program("etcd") == kube_assets.program("etcd")
    assert built == ["etcd"]


def test_the_cache_is_named_after_the_version(tmp_path: Path) -> None:
    version = kube_assets.version("k8s.io/kubernetes")
    assert kube_assets.folder().parent == tmp_path / "cache" / "fairpool-tests" / "kubernetes"
    assert kube_assets.folder().name.startswith(f"{version}-")


def test_without_go_one_line_says_how_to_get_it(tmp_path: Path) -> None:
    without = {**os.environ, "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = (
        "import sys; from tools import kube_assets; kube_assets.GO_FOLDERS = (); sys.exit(kube_assets.main(['etcd']))"
    )
    done = subprocess.run([python, "-c", script], cwd=TREE, env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [kube_assets.WITHOUT_GO]


def test_where_ci_runs_a_missing_program_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Path:
        raise kube_assets.NotAvailable("no Go")

    monkeypatch.setattr(kube_assets, "program", missing)
    monkeypatch.delenv("FAIRPOOL_PACKAGES_MISSING", raising=False)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no Go"):
        needs.kubernetes_program("etcd")
    monkeypatch.setenv("CI", "")
    with pytest.raises(pytest.skip.Exception, match="no Go"):
        needs.kubernetes_program("etcd")

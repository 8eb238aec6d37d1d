"""The real Helm, and our charts."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.kubernetes.api_calls import ApiError
from tests.kubernetes.control_plane import ControlPlane
from tests.monitoring import until
from tests.needs import kubernetes_program

CHARTS = Path(__file__).resolve().parents[2] / "deploy" / "helm"
CONTROL, CLUSTER = CHARTS / "fairpool-control-plane", CHARTS / "fairpool-cluster"
POLICIES = "/apis/admissionregistration.k8s.io/v1"
PLURALS = {
    "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "validatingadmissionpolicybindings",
}
OLDEST = "1.30.0"
"""Of the versions of Kubernetes that the charts accept."""
NEEDED: Mapping[Path, Mapping[str, Any]] = {
    CONTROL: {"domain": "fairpool.example.com"},
    CLUSTER: {"controlPlane": {"url": "https://fairpool.example.com", "token": "fpc_secret"}},
}
"""The values without which nothing can be installed."""

Document = dict[str, Any]


@dataclass(frozen=True)
class Helm:
    """Runs Helm with folders of its own, against the API server of a kubeconfig if there is one."""

    folder: Path
    kubeconfig: Path | None = None

    def tried(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        own = {f"HELM_{name}_HOME": str(self.folder / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
        environment = {**os.environ, **own, "KUBECONFIG": str(self.kubeconfig or os.devnull)}
        command = [kubernetes_program("helm"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)

    def run(self, *arguments: str) -> str:
        done = self.tried(*arguments)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def template(
        self, chart: Path, values: Mapping[str, Any] | None = None, *flags: str, namespace: str = "runai"
    ) -> list[Document]:
        """What would be applied."""
        where = ("--namespace", namespace, "--kube-version", OLDEST)
        printed = self.run("template", "fairpool", str(chart), *where, *self.values(chart, values), *flags)
        return [each for each in yaml.safe_load_all(printed) if each]

    def refusal(self, chart: Path, values: Mapping[str, Any]) -> str:
        """Why values are refused."""
        done = self.tried("template", "fairpool", str(chart), "--kube-version", OLDEST, *self.values(chart, values))
        assert done.returncode != 0, "these values should be refused"
        return done.stderr

    def values(self, chart: Path, values: Mapping[str, Any] | None) -> tuple[str, ...]:
        """Those that a chart needs and these, as a flag."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(merged(NEEDED[chart], values or {})), encoding="utf-8")
        return ("--values", str(file))


def merged(values: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the second with precedence, object by object as Helm does it."""
    found = dict(values)
    for name, value in others.items():
        former = found.get(name)
        found[name] = merged(former, value) if isinstance(former, dict) and isinstance(value, Mapping) else value
    return found


def one(documents: list[Document], kind: str, name: str = "") -> Document:
    """The only object of a kind, or of a kind and name."""
    found = [each for each in documents if each["kind"] == kind and name in ("", each["metadata"]["name"])]
    assert len(found) == 1, [(each["kind"], each["metadata"]["name"]) for each in documents]
    return found[0]


def pod_templates(documents: list[Document]) -> list[Document]:
    """Of all objects that start pods."""
    found = []
    for each in documents:
        spec = each.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            found.append(spec["template"])
    return found


@contextmanager
def applied_policies(plane: ControlPlane, documents: list[Document]) -> Iterator[None]:
    """The admission policies among these objects are in force; afterwards they are not any more."""
    found = [each for each in documents if each["kind"].startswith("ValidatingAdmissionPolicy")]
    paths = [(f"{POLICIES}/{PLURALS[each['kind']]}", each) for each in found]
    for path, each in paths:
        plane.admin.create(path, each)
    try:
        until(lambda: not takes_pods(plane), "the admission policies are in force")
        yield
    finally:
        for path, each in paths:
            plane.admin.delete(f"{path}/{each['metadata']['name']}")
        until_no_policies(plane)


def until_no_policies(plane: ControlPlane) -> None:
    """API servers notice after a moment that policies are gone; the next test creates pods as an administrator."""
    until(lambda: takes_pods(plane), "the admission policies are gone")


def takes_pods(plane: ControlPlane) -> bool:
    """Whether an administrator may create pods with labels of ours."""
    labels = {"app.kubernetes.io/managed-by": "fairpool"}
    spec = {"containers": [{"name": "main", "image": "busybox"}]}
    try:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        plane.admin.create(path, {"metadata": {"name": "try", "labels": labels}, "spec": spec})
    except ApiError as error:
        if "Only the scheduler of Fairpool" not in error.body:
            raise
        return False
    return True

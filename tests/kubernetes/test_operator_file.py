"""`runai-operator-<cluster>.yaml`: what the control plane gives is what Helm would install, and kubectl applies it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from fairpool.control.operator_manifest import NAMESPACE, OperatorValues, operator_documents, operator_file
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.helm import CLUSTER, Helm, until_no_policies
from tests.needs import kubernetes_program
from tools import operator_manifest

CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"
PLAIN = OperatorValues(url="https://fairpool.example.com", token="fpc_a-b: #c'\"")
AIR_GAPPED = OperatorValues(
    url="https://10.0.0.7:8443",
    token="fpc_x",
    ca_certificate=CERTIFICATE,
    image_registry="registry.example.com:5000/mirror",
    image_pull_secret="registry",
)
ALL_BUT_NAMESPACE = ("--selector", "app.kubernetes.io/part-of=fairpool")


def test_the_file_in_the_package_is_made_from_the_chart() -> None:
    assert operator_manifest.FILE.read_text(encoding="utf-8") == operator_manifest.rendered(), (
        "run: python -m tools.operator_manifest"
    )


@pytest.mark.parametrize("values", [PLAIN, AIR_GAPPED], ids=["plain", "air-gapped, private authority"])
def test_it_is_what_helm_makes_of_the_chart_with_the_same_values(tmp_path: Path, values: OperatorValues) -> None:
    control = {"url": values.url, "token": values.token, "caCertificate": values.ca_certificate}
    pull_secrets = [values.image_pull_secret] if values.image_pull_secret else []
    image = {"registry": values.image_registry, "pullSecrets": pull_secrets}
    made = Helm(tmp_path).template(CLUSTER, {"controlPlane": control, "image": image}, "--no-hooks")
    assert operator_documents(values) == made


@pytest.mark.slow
def test_kubectl_applies_it_again_and_again_and_deletes_it(control_plane: ControlPlane, tmp_path: Path) -> None:
    """F-229, as far as the API server goes."""
    admin = control_plane.admin
    for values in (PLAIN, AIR_GAPPED):
        file = tmp_path / "runai-operator-east.yaml"
        file.write_text(operator_file("east", values), encoding="utf-8")
        kubectl(control_plane, tmp_path, "apply", "-f", str(file))
        found = admin.get(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/fairpool-cluster")
        (container,) = found["spec"]["template"]["spec"]["containers"]
        assert {"name": "FAIRPOOL_CONTROL", "value": values.url} in container["env"]
    file = tmp_path / "runai-operator-east.yaml"
    assert f"kubectl delete -f {file.name} {' '.join(ALL_BUT_NAMESPACE)}" in file.read_text(encoding="utf-8")
    kubectl(control_plane, tmp_path, "delete", "--wait=false", "-f", str(file), *ALL_BUT_NAMESPACE)
    assert admin.find("/apis/rbac.authorization.k8s.io/v1/clusterroles/fairpool-cluster") is None
    assert admin.find(f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets/fairpool-cluster") is None
    assert "deletionTimestamp" not in admin.get(f"/api/v1/namespaces/{NAMESPACE}")["metadata"], (
        "the key of pods is in it"
    )
    admin.delete(f"/api/v1/namespaces/{NAMESPACE}")
    until_no_policies(control_plane)


def kubectl(control_plane: ControlPlane, folder: Path, *arguments: str) -> str:
    kubeconfig = control_plane.kubeconfig(folder=folder)
    command = [kubernetes_program("kubectl"), f"--kubeconfig={kubeconfig}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_token_is_only_in_its_secret() -> None:
    documents: list[dict[str, Any]] = list(yaml.safe_load_all(operator_file("east", AIR_GAPPED)))
    holders = [each["kind"] for each in documents if AIR_GAPPED.token in yaml.safe_dump(each)]
    assert holders == ["Secret"]

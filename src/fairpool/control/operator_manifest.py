"""The file that connects a Kubernetes cluster with `kubectl apply`: `runai-operator-<cluster>.yaml`.

`operator.yaml` beside this module is what Helm makes of the chart `deploy/helm/fairpool-cluster` with every optional
part (`tools/operator_manifest.py` writes it, and a test compares the two). Here the values of one cluster are put into
it, and parts that it does not use are taken out, so that the result is what Helm would make of the chart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

import yaml

NAMESPACE: Final = "runai"
REGISTRY: Final = "registry.invalid"
"""In the file; replaced by the registry of the site."""
NAME: Final = "fairpool-cluster"
CA: Final = "control-ca"
CA_MAP: Final = "fairpool-cluster-ca"
CHECKSUM: Final = "checksum/control-plane"
HEAD: Final = """\
# Connects this Kubernetes cluster to {url}: kubectl apply -f {name}
# It contains the token of the cluster: keep it as you keep other secrets. To remove it again:
#   kubectl -n {namespace} create job --from=cronjob/fairpool-uninstall uninstall
#   kubectl -n {namespace} wait --for=condition=complete --timeout=10m job/uninstall
#   kubectl delete -f {name} --selector app.kubernetes.io/part-of=fairpool
"""

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorValues:
    """What is different from cluster to cluster."""

    url: str
    token: str = field(repr=False)
    ca_certificate: str = ""
    image_registry: str = ""
    image_pull_secret: str = ""


def operator_file_name(cluster: str) -> str:
    return f"runai-operator-{cluster}.yaml"


def operator_file(cluster: str, values: OperatorValues) -> str:
    """The whole file."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    head = HEAD.format(url=values.url, name=operator_file_name(cluster), namespace=NAMESPACE)
    written: str = yaml.safe_dump_all([namespace, *operator_documents(values)], sort_keys=False, width=120)
    return head + written


def operator_documents(values: OperatorValues) -> list[Document]:
    """What the chart would install."""
    text = files("fairpool.control").joinpath("operator.yaml").read_text(encoding="utf-8")
    found = [each for each in yaml.safe_load_all(text) if values.ca_certificate or not _is_named(each, CA_MAP)]
    for each in found:
        if each["kind"] == "Secret" and _is_named(each, NAME):
            each["stringData"]["token"] = values.token
        elif _is_named(each, CA_MAP):
            each["data"]["ca.crt"] = values.ca_certificate
        elif each["kind"] == "StatefulSet":
            _set_control_plane(each["spec"]["template"], values)
        for pod in _pods(each):
            _set_image(pod, values)
    return found


def _is_named(document: Document, name: str) -> bool:
    return bool(document["metadata"]["name"] == name)


def _pods(document: Document) -> Iterator[Document]:
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    if "template" in spec:
        yield spec["template"]["spec"]


def _set_control_plane(template: Document, values: OperatorValues) -> None:
    seen = f"{values.url} {values.token} {values.ca_certificate}"
    template["metadata"]["annotations"][CHECKSUM] = hashlib.sha256(seen.encode()).hexdigest()
    (container,) = template["spec"]["containers"]
    variables = container["env"]
    next(each for each in variables if each["name"] == "FAIRPOOL_CONTROL")["value"] = values.url
    if not values.ca_certificate:
        variables[:] = [each for each in variables if each["name"] != "FAIRPOOL_CA_FILE"]
        container["volumeMounts"] = [each for each in container["volumeMounts"] if each["name"] != CA]
        template["spec"]["volumes"] = [each for each in template["spec"]["volumes"] if each["name"] != CA]


def _set_image(pod: Document, values: OperatorValues) -> None:
    prefix = f"{values.image_registry}/" if values.image_registry else ""
    for container in pod["containers"]:
        container["image"] = container["image"].replace(f"{REGISTRY}/", prefix)
        for each in container.get("env", ()):
            if "value" in each:
                each["value"] = each["value"].replace(f"{REGISTRY}/", prefix)
    if values.image_pull_secret:
        pod["imagePullSecrets"] = [{"name": values.image_pull_secret}]
    else:
        pod.pop("imagePullSecrets", None)

"""The charts without a cluster: what the real Helm makes of their values, and which values it refuses."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from fairpool import __version__
from fairpool.cli.main import main
from fairpool.engines.kubernetes.project_rbac import cluster_role_manifests
from fairpool.engines.kubernetes.reservation_pods import priority_class_manifest
from fairpool.model.precedence import PRIORITY_CLASSES
from tests.kubernetes.helm import CLUSTER, CONTROL, Document, Helm, one, pod_templates

EVERYTHING: Mapping[Path, Mapping[str, Any]] = {
    CONTROL: {
        "database": {"mode": "bundled"},
        "gateway": {"domain": "tools.fairpool.example.com"},
        "metrics": {"enabled": True, "serviceMonitor": {"enabled": True}},
        "tls": {"secretName": "certificate", "inPod": True},
        "image": {"registry": "registry.example.com:5000", "pullSecrets": ["registry"]},
        "nodeSelector": {"node-role.kubernetes.io/runai-system": ""},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "auditForward": "syslog+tcp://logs.example.com:514",
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
    },
    CLUSTER: {
        "controlPlane": {"caCertificate": "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"},
        "replicas": 2,
        "ledger": {"existingSecret": "ledger"},
        "metrics": {"serviceMonitor": {"enabled": True}},
        "image": {"registry": "registry.example.com:5000", "pullSecrets": ["registry"]},
        "nodeSelector": {"node-role.kubernetes.io/runai-system": ""},
        "tolerations": [{"key": "system", "operator": "Exists"}],
        "uninstall": {"deletePods": True},
        "workloads": {
            "hostPaths": ["/data"],
            "images": {"python": "registry.example:5000/python:3.12"},
            "gitImage": "registry.example:5000/git:1",
            "allowPrivileges": ["user"],
            "ingress": {"host": "apps.example.com", "className": "nginx", "tlsSecret": "certificate"},
        },
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
    },
}
"""Values with which every part of the charts is used."""
BOTH = pytest.mark.parametrize("chart", [CONTROL, CLUSTER], ids=["control plane", "cluster"])


@pytest.fixture
def helm(tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@BOTH
def test_the_linter_finds_nothing(helm: Helm, chart: Path) -> None:
    assert "0 chart(s) failed" in helm.run("lint", "--strict", str(chart), *helm.values(chart, EVERYTHING[chart]))


@BOTH
def test_the_version_of_the_chart_is_that_of_the_program(chart: Path) -> None:
    described = yaml.safe_load((chart / "Chart.yaml").read_text(encoding="utf-8"))
    assert described["appVersion"] == __version__
    assert re.sub(r"\.dev(\d+)$", r"-dev.\1", __version__) == described["version"]


@BOTH
def test_every_value_is_documented_and_in_the_schema(chart: Path) -> None:
    text = (chart / "values.yaml").read_text(encoding="utf-8")
    schema = json.loads((chart / "values.schema.json").read_text(encoding="utf-8"))
    values = yaml.safe_load(text)
    assert sorted(paths(values, schema)) == sorted(schema_paths(schema) - {"global"})
    for line, before in zip(text.splitlines()[1:], text.splitlines(), strict=False):
        if re.match(r"[a-z]\w*:", line) and not before.startswith("#"):
            name = line.partition(":")[0]
            following = text.split(f"\n{line}\n", 1)[1].splitlines()
            is_documented_inside = following and following[0].lstrip().startswith("#")
            assert name in SELF_EXPLAINING or is_documented_inside, f"{name} has no comment"


SELF_EXPLAINING = {"resources", "containerSecurityContext", "tolerations", "podAnnotations", "podLabels", "retention"}
"""They are fields of pods, or a group whose members are documented."""
SELF_EXPLAINING |= {
    "image",
    "keys",
    "tls",
    "ingress",
    "service",
    "administrator",
    "metrics",
    "serviceAccount",
    "ledger",
}


def paths(values: Mapping[str, Any], schema: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in values.items():
        below = schema["properties"].get(name, {})
        if isinstance(value, dict) and "properties" in below:
            yield from paths(value, below, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def schema_paths(schema: Mapping[str, Any], prefix: str = "") -> set[str]:
    found: set[str] = set()
    for name, below in schema["properties"].items():
        inside = "properties" in below
        found |= schema_paths(below, f"{prefix}{name}.") if inside else {f"{prefix}{name}"}
    return found


@pytest.mark.parametrize(
    ("chart", "values", "words"),
    [
        pytest.param(CONTROL, {"domain": ""}, "domain is missing: set it to the host name", id="no domain"),
        pytest.param(CONTROL, {"domain": "https://x"}, "/domain", id="a URL instead of a domain"),
        pytest.param(CONTROL, {"replica": 2}, "replica", id="an unknown name"),
        pytest.param(CONTROL, {"replicas": "two"}, "/replicas", id="a word instead of a number"),
        pytest.param(CONTROL, {"replicas": 2}, "set database.mode to external", id="two writers of one file"),
        pytest.param(
            CONTROL,
            {"replicas": 2, "database": {"mode": "bundled"}},
            "set keys.existingClaim",
            id="replicas without common keys",
        ),
        pytest.param(
            CONTROL, {"database": {"mode": "external"}}, "set database.external.existingSecret", id="no address"
        ),
        pytest.param(CONTROL, {"database": {"mode": "mysql"}}, "/database/mode", id="an unknown database"),
        pytest.param(CONTROL, {"tls": {"inPod": True}}, "set tls.secretName", id="TLS without a certificate"),
        pytest.param(
            CONTROL,
            {"metrics": {"serviceMonitor": {"enabled": True}}},
            "set metrics.enabled too",
            id="nothing to scrape",
        ),
        pytest.param(CONTROL, {"retention": {"audit": "1 year"}}, "/retention/audit", id="no age"),
        pytest.param(CLUSTER, {"controlPlane": {"url": ""}}, "controlPlane.url is missing", id="no control plane"),
        pytest.param(CLUSTER, {"controlPlane": {"token": ""}}, "controlPlane.token is missing", id="no token"),
        pytest.param(CLUSTER, {"controlPlane": {"url": "fairpool"}}, "/controlPlane/url", id="no URL"),
        pytest.param(CLUSTER, {"replicas": 2}, "set ledger.existingSecret", id="two writers of one ledger"),
        pytest.param(CLUSTER, {"storage": {"size": "much"}}, "/storage/size", id="no size"),
        pytest.param(
            CLUSTER,
            {"nodeAgent": {"fenceAfterSeconds": 280}},
            "nodeAgent.goneAfterSeconds is less than 5/4",
            id="pods that would be replaced before they are ended",
        ),
        pytest.param(
            CLUSTER,
            {"nodeAgent": {"renewEverySeconds": 100}},
            "nodeAgent.fenceAfterSeconds is less than three times",
            id="pods that one slow answer would end",
        ),
    ],
)
def test_values_that_cannot_work_are_refused_by_name(
    helm: Helm, chart: Path, values: Mapping[str, Any], words: str
) -> None:
    assert words in helm.refusal(chart, values)


@BOTH
@pytest.mark.parametrize("has_everything", [False, True], ids=["defaults", "everything"])
def test_pods_meet_the_restricted_standard(helm: Helm, chart: Path, has_everything: bool) -> None:
    """The security standard of Kubernetes of that name, and a read-only root file system."""
    documents = helm.template(chart, EVERYTHING[chart] if has_everything else None)
    templates = pod_templates(without_agent(documents))
    assert templates
    for each in templates:
        spec = each["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
        assert all("hostPath" not in volume for volume in spec["volumes"])
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}


def without_agent(documents: list[Document]) -> list[Document]:
    return [each for each in documents if each["kind"] != "DaemonSet"]


def test_the_agent_on_nodes_reads_processes_and_their_groups_may_kill_and_has_nothing_else(helm: Helm) -> None:
    spec = one(helm.template(CLUSTER), "DaemonSet")["spec"]["template"]["spec"]
    assert spec["hostPID"] is True
    assert not {"hostNetwork", "hostIPC"} & set(spec)
    (container,) = spec["containers"]
    of_host = {volume["name"]: volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
    assert of_host == {"cgroups": "/sys/fs/cgroup"}
    assert all(each.get("readOnly") for each in container["volumeMounts"] if each["name"] in of_host)
    security = container["securityContext"]
    assert security["capabilities"] == {"drop": ["ALL"], "add": ["KILL"]}
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert container["resources"]["requests"]["memory"] == container["resources"]["limits"]["memory"]


def test_without_the_agent_nothing_of_it_is_left(helm: Helm) -> None:
    documents = helm.template(CLUSTER, {"nodeAgent": {"enabled": False}})
    assert not [each for each in documents if "node-agent" in each["metadata"]["name"]]


@BOTH
def test_an_air_gapped_site_pulls_every_image_from_its_registry(helm: Helm, chart: Path) -> None:
    for each in pod_templates(helm.template(chart, EVERYTHING[chart])):
        assert all(one["image"].startswith("registry.example.com:5000/") for one in each["spec"]["containers"])
        assert each["spec"]["imagePullSecrets"] == [{"name": "registry"}]
    for each in pod_templates(without_agent(helm.template(chart, EVERYTHING[chart]))):
        assert each["spec"]["nodeSelector"] == {"node-role.kubernetes.io/runai-system": ""}


@BOTH
@pytest.mark.parametrize("has_everything", [False, True], ids=["defaults", "everything"])
def test_programs_are_started_with_flags_that_they_have(helm: Helm, chart: Path, has_everything: bool) -> None:
    """Flags in the command, and those that are set by variables."""
    checked = 0
    for each in pod_templates(helm.template(chart, EVERYTHING[chart] if has_everything else None)):
        for container in each["spec"]["containers"]:
            command = container.get("command")
            if command is None:
                continue
            assert command[0] == "fairpool"
            shown = CliRunner().invoke(main, [command[1], "--help"], terminal_width=200).output
            wanted = [word.partition("=")[0] for word in command[2:] if word.startswith("--")]
            wanted += [entry["name"] for entry in container.get("env", []) if entry["name"].startswith("FAIRPOOL_")]
            assert [word for word in wanted if word not in shown] == []
            checked += 1
    assert checked


def test_the_volumes_of_a_control_plane_have_110_gigabytes_together(helm: Helm) -> None:
    """F-231."""
    documents = helm.template(CONTROL, {"database": {"mode": "bundled"}})
    claims = [one(documents, "PersistentVolumeClaim")]
    claims += one(documents, "StatefulSet", "fairpool-control-database")["spec"]["volumeClaimTemplates"]
    sizes = [each["spec"]["resources"]["requests"]["storage"] for each in claims]
    assert sum(int(each.removesuffix("Gi")) for each in sizes) == 110


def test_the_control_plane_may_do_nothing_in_the_cluster(helm: Helm) -> None:
    documents = helm.template(CONTROL, EVERYTHING[CONTROL])
    assert not [each for each in documents if "Role" in each["kind"]]
    assert one(documents, "ServiceAccount")["automountServiceAccountToken"] is False
    assert all(each["spec"]["automountServiceAccountToken"] is False for each in pod_templates(documents))


def test_roles_of_members_and_priority_classes_are_those_of_the_program(helm: Helm) -> None:
    documents = helm.template(CLUSTER)
    for wanted in cluster_role_manifests():
        assert one(documents, "ClusterRole", wanted.key.name)["rules"] == wanted.content["rules"]
    classes = {each["metadata"]["name"]: each for each in documents if each["kind"] == "PriorityClass"}
    reserving = priority_class_manifest()
    wanted_classes = {**PRIORITY_CLASSES, reserving["metadata"]["name"]: reserving["value"]}
    assert {name: each["value"] for name, each in classes.items()} == wanted_classes
    assert {each["preemptionPolicy"] for each in classes.values()} == {"Never"}


def test_several_control_planes_share_database_and_keys(helm: Helm) -> None:
    values = {
        "replicas": 2,
        "database": {"mode": "external", "external": {"existingSecret": "database", "caConfigMap": "database-ca"}},
        "keys": {"existingClaim": "keys"},
    }
    documents = helm.template(CONTROL, values)
    spec = one(documents, "Deployment")["spec"]
    assert spec["strategy"] == {"type": "Recreate"}, "older processes keep a newer one from changing the database"
    volumes = {each["name"]: each for each in spec["template"]["spec"]["volumes"]}
    assert volumes["keys"]["persistentVolumeClaim"] == {"claimName": "keys"}
    assert volumes["data"]["emptyDir"] == {}
    assert not [each for each in documents if each["kind"] == "PersistentVolumeClaim"]
    assert variable(spec, "FAIRPOOL_PEER_LISTEN")["value"] == "$(POD_IP):7443"
    assert variable(spec, "FAIRPOOL_DATABASE")["valueFrom"]["secretKeyRef"] == {"name": "database", "key": "url"}


def variable(spec: Document, name: str) -> Document:
    found = [each for each in spec["template"]["spec"]["containers"][0]["env"] if each["name"] == name]
    assert len(found) == 1
    return dict(found[0])

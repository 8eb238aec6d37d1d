"""Every field of every request is carried out, refused by name, or kept for people to read with a reason.

A new field fails here until it is listed. For workloads that is not only said: each field is sent, and the
declaration must differ, or the refusal must name it.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fairpool.api import (
    access,
    asset_reference,
    authorization,
    classic,
    nodes,
    organization,
    pod_spec,
    settings,
    workload_spec,
    workloads,
)
from fairpool.api.organization import ProjectRequest
from fairpool.api.record import camel
from fairpool.api.wire import Request
from fairpool.control import classic as classic_jobs
from fairpool.control import items
from fairpool.control.admission import AdmissionContext, admit
from fairpool.control.credential_checks import KnownCredential
from fairpool.control.storage_request import KnownClaim, StorageContext
from fairpool.model.ids import Instant, WorkloadId
from fairpool.model.secret import CredentialKind
from fairpool.model.spec import WorkloadSpec

TRAIN, DIST, MODEL = workload_spec.SubmitTraining, workload_spec.SubmitDistributed, workload_spec.SubmitInference


@dataclass(frozen=True)
class Sent:
    """A request with one field said otherwise than before."""

    spec: dict[str, Any]
    kind: type[workload_spec.Submit] = TRAIN
    before: dict[str, Any] | None = None
    """What is said without the field, where it cannot be said alone."""


@dataclass(frozen=True)
class Carried(Sent):
    """The declaration differs."""


@dataclass(frozen=True)
class Refused(Sent):
    """A problem names the field."""

    place: str = ""


@dataclass(frozen=True)
class Elsewhere:
    """Carried out, and shown to be by another test; or kept for people to read. Which, and why."""

    why: str


def compute(**said: Any) -> Carried:
    return Carried({"compute": said})


def pvc(**said: Any) -> dict[str, Any]:
    return {"storage": {"pvc": [{"claimName": "data", "path": "/d", **said}]}}


def new_pvc(**info: Any) -> dict[str, Any]:
    said = {"claimName": "new", "path": "/d", "existingPvc": False, "claimInfo": {"size": "1Gi", **info}}
    return {"storage": {"pvc": [said]}}


def git(**said: Any) -> dict[str, Any]:
    return {"storage": {"git": [{"repository": "https://h/r", **said}]}}


def config(**said: Any) -> dict[str, Any]:
    return {"storage": {"configMapVolume": [{"name": "c", "mountPath": "/c", **said}]}}


def from_config(**said: Any) -> Carried:
    return Carried({"environmentVariables": [{"name": "A", "configMap": said}]})


def host(**said: Any) -> dict[str, Any]:
    return {"storage": {"hostPath": [{"path": "/a", "mountPath": "/b", **said}]}}


def empty(**said: Any) -> dict[str, Any]:
    return {"storage": {"emptyDirVolume": [{"path": "/d", **said}]}}


def security(name: str, value: Any) -> Refused:
    return Refused({"security": {name: value}}, place=f"spec.security.{name}")


def scaling(name: str, value: Any) -> Refused:
    return Refused({"autoscaling": {name: value}}, MODEL, place=f"spec.autoscaling.{name}")


def port(name: str, value: Any) -> Refused:
    said = {"servingPort": {"container": 8000, name: value}}
    return Refused(said, MODEL, place=f"spec.servingPort.{name}")


def secret(**said: Any) -> dict[str, Any]:
    return {"storage": {"secretVolume": [{"name": "tokens", "mountPath": "/s", **said}]}}


def secret_variable(**said: Any) -> dict[str, Any]:
    return {"environmentVariables": [{"name": "A", "credential": {"name": "tokens", "key": "user", **said}}]}


def stored(kind: str, **said: Any) -> Refused:
    return Refused({"storage": {kind: [said]}}, place=f"spec.storage.{kind}")


LINK = Refused(
    {"relatedUrls": [{"url": "https://runs.example/1", "type": "wandb", "name": "run"}]}, place="spec.relatedUrls"
)
URL, EXPOSED = {"container": 8080}, {"container": 8080, "serviceType": "NodePort"}
EXPRESSION = {"key": "disk", "operator": "In", "values": ["ssd"]}


def preference(weight: int = 5, **expression: Any) -> dict[str, Any]:
    return {"weight": weight, "preference": {"matchExpressions": [{**EXPRESSION, **expression}]}}


PREFERENCE = preference()
PREFERENCES_OF_OTHER_NODES = {
    ("MatchExpression", "key"): preference(key="net"),
    ("MatchExpression", "operator"): preference(operator="NotIn"),
    ("MatchExpression", "values"): preference(values=["hdd"]),
    ("NodeAffinityPreference", "weight"): preference(6),
    ("NodeAffinityPreference", "preference"): preference(key="net"),
    ("NodeSelectorTerm", "match_expressions"): preference(key="net"),
}
TAINT = {"key": "k", "operator": "Equal", "value": "v"}
IN_DETAILS = Elsewhere("kept and shown with the workload; it is for people and their programs, nothing acts on it")
WITH_OTHERS = Elsewhere("part of a mount or claim; the other fields of it show that it is carried")

FIELDS: dict[tuple[str, str], Carried | Refused | Elsewhere] = {
    ("Submit", "name"): Elsewhere("the name of the workload: test_control.py"),
    ("Submit", "project_id"): Elsewhere("its project: test_control.py"),
    ("Submit", "cluster_id"): Elsewhere("must be the project's: control.submit._cluster"),
    ("Submit", "use_given_name_as_prefix"): Elsewhere("test_control.py, control.submit._name"),
    ("Submit", "suspended"): Elsewhere("test_submit_says_more_than_its_specification"),
    ("Submit", "wait_anyway"): Elsewhere("test_admission.py, of an image that is not there"),
    ("Submit", "template_id"): Elsewhere("test_templates.py"),
    ("Submit", "source"): IN_DETAILS,
    ("Submit", "command_line"): IN_DETAILS,
    ("PodSpecWire", "image"): Carried({"image": "python:3"}),
    ("PodSpecWire", "image_pull_policy"): Refused({"imagePullPolicy": "Always"}, place="spec.imagePullPolicy"),
    ("PodSpecWire", "command"): Carried({"command": ["x"]}),
    ("PodSpecWire", "args"): Carried({"args": ["x"]}),
    ("PodSpecWire", "python_env"): Carried({"pythonEnv": "/opt/env"}),
    ("PodSpecWire", "working_dir"): Carried({"workingDir": "/w"}),
    ("PodSpecWire", "environment_variables"): Carried({"environmentVariables": [{"name": "A", "value": "1"}]}),
    ("PodSpecWire", "compute"): compute(gpu=1),
    ("EnvironmentVariable", "name"): Carried({"environmentVariables": [{"name": "A"}]}),
    ("EnvironmentVariable", "value"): Carried(
        {"environmentVariables": [{"name": "A", "value": "1"}]}, before={"environmentVariables": [{"name": "A"}]}
    ),
    ("EnvironmentVariable", "config_map"): from_config(name="c", key="k"),
    ("ConfigMapKey", "name"): from_config(name="d", key="k"),
    ("ConfigMapKey", "key"): from_config(name="c", key="l"),
    ("EnvironmentVariable", "credential"): Carried(secret_variable(), before={"environmentVariables": [{"name": "A"}]}),
    ("CredentialKey", "name"): Carried(secret_variable(name="other"), before=secret_variable()),
    ("CredentialKey", "key"): Carried(secret_variable(key="password"), before=secret_variable()),
    ("PodSpecWire", "image_pull_secret"): Refused({"imagePullSecret": "tokens"}, place="spec.imagePullSecret"),
    ("Compute", "gpu"): compute(gpu=0.5),
    ("Compute", "gpu_devices_request"): compute(gpuDevicesRequest=2),
    ("Compute", "gpu_request_type"): Refused(
        {"compute": {"gpuRequestType": "memory", "gpuPortionRequest": 0.5}}, place="spec.compute.gpuRequestType"
    ),
    ("Compute", "gpu_portion_request"): compute(gpuPortionRequest=0.5),
    ("Compute", "gpu_portion_limit"): Refused(
        {"compute": {"gpu": 0.5, "gpuPortionLimit": 1}}, place="spec.compute.gpuPortionLimit"
    ),
    ("Compute", "gpu_memory_request"): compute(gpuMemoryRequest="4Gi"),
    ("Compute", "gpu_memory_limit"): Refused(
        {"compute": {"gpuMemoryRequest": "4Gi", "gpuMemoryLimit": "8Gi"}}, place="spec.compute.gpuMemoryLimit"
    ),
    ("Compute", "mig_profile"): compute(migProfile="1g.5gb"),
    ("Compute", "cpu_core_request"): compute(cpuCoreRequest=2),
    ("Compute", "cpu_core_limit"): compute(cpuCoreLimit=2),
    ("Compute", "cpu_memory_request"): compute(cpuMemoryRequest="1Gi"),
    ("Compute", "cpu_memory_limit"): compute(cpuMemoryLimit="1Gi"),
    ("Compute", "large_shm_request"): compute(largeShmRequest=True),
    ("Compute", "extended_resources"): compute(extendedResources=[{"resource": "a/b", "quantity": 1}]),
    ("ExtendedResource", "resource"): Carried(
        {"compute": {"extendedResources": [{"resource": "a/c", "quantity": 1}]}},
        before={"compute": {"extendedResources": [{"resource": "a/b", "quantity": 1}]}},
    ),
    ("ExtendedResource", "quantity"): Carried(
        {"compute": {"extendedResources": [{"resource": "a/b", "quantity": 2}]}},
        before={"compute": {"extendedResources": [{"resource": "a/b", "quantity": 1}]}},
    ),
    ("HostPath", "path"): Carried(host(path="/c"), before=host()),
    ("HostPath", "mount_path"): Carried(host(mountPath="/c"), before=host()),
    ("HostPath", "read_only"): Carried(host(readOnly=True), before=host()),
    ("HostPath", "mount_propagation"): Refused(
        host(mountPropagation="HostToContainer"), place="spec.storage.hostPath.mountPropagation"
    ),
    ("ClaimInfo", "size"): Elsewhere(
        "kept with the claim and shown by `runai list pvc`, not enforced: its help says so"
    ),
    ("ClaimInfo", "storage_class"): Refused(
        new_pvc(storageClass="fast"), place="spec.storage.pvc.claimInfo.storageClass"
    ),
    ("ClaimInfo", "access_mode"): Carried(new_pvc(accessMode="rom"), before=new_pvc()),
    ("Pvc", "claim_name"): Carried(pvc(), before=pvc(claimName="other")),
    ("Pvc", "path"): Carried(pvc(path="/e"), before=pvc()),
    ("Pvc", "existing_pvc"): Refused(pvc(claimName="nope"), place="spec.storage.pvc.claimName"),
    ("Pvc", "read_only"): Carried(pvc(readOnly=True), before=pvc()),
    ("Pvc", "ephemeral"): Refused(pvc(ephemeral=True), place="spec.storage.pvc.ephemeral"),
    ("Pvc", "claim_info"): Refused(pvc(claimInfo={"size": "1Gi"}), place="spec.storage.pvc.claimInfo"),
    ("Nfs", "server"): stored("nfs", server="s", path="/a", mountPath="/b"),
    ("Nfs", "path"): WITH_OTHERS,
    ("Nfs", "mount_path"): WITH_OTHERS,
    ("Nfs", "read_only"): WITH_OTHERS,
    ("GitSource", "repository"): Carried(git(repository="https://h/s"), before=git()),
    ("GitSource", "branch"): Carried(git(branch="dev"), before=git()),
    ("GitSource", "revision"): Carried(git(revision="v1"), before=git()),
    ("GitSource", "path"): Carried(git(path="/p"), before=git()),
    ("GitSource", "credential"): Carried(git(credential="tokens"), before=git()),
    ("S3Source", "bucket"): stored("s3", bucket="b", path="/b"),
    ("S3Source", "path"): WITH_OTHERS,
    ("S3Source", "url"): WITH_OTHERS,
    ("S3Source", "credential"): WITH_OTHERS,
    ("NamedVolume", "name"): Carried(config(name="d"), before=config()),
    ("NamedVolume", "mount_path"): Carried(config(mountPath="/d"), before=config()),
    ("SecretVolume", "name"): Carried(secret(name="other"), before=secret()),
    **{
        (model, name): Elsewhere("a label, shown with the workload for people to read")
        for model, name in (
            *((each, "name") for each in ("HostPath", "Pvc", "Nfs", "GitSource", "S3Source", "EmptyDir")),
            ("NamedSource", "label"),
            ("EnvironmentVariable", "description"),
        )
    },
    ("EmptyDir", "path"): Carried(empty(path="/e"), before=empty()),
    ("EmptyDir", "medium"): Refused(empty(medium="Memory"), place="spec.storage.emptyDirVolume.medium"),
    ("EmptyDir", "size_limit"): Refused(empty(sizeLimit="1Gi"), place="spec.storage.emptyDirVolume.sizeLimit"),
    ("Storage", "empty_dir_volume"): Carried(empty()),
    ("SecretVolume", "mount_path"): Carried(secret(mountPath="/other"), before=secret()),
    ("Storage", "pvc"): Carried(pvc()),
    ("Storage", "nfs"): stored("nfs", server="s", path="/a", mountPath="/b"),
    ("Storage", "git"): Carried(git()),
    ("Storage", "s3"): stored("s3", bucket="b", path="/b"),
    ("Storage", "host_path"): Carried(host()),
    ("Storage", "config_map_volume"): Carried(config()),
    ("Storage", "secret_volume"): Carried(secret()),
    ("ExposedPort", "container"): Elsewhere("the address that is shown: test_runai_on_one_machine.py"),
    ("ExposedPort", "external"): Elsewhere("what answers there: test_ports_on_one_machine.py"),
    ("ExposedPort", "service_type"): Elsewhere("whether an address is shown: test_runai_on_one_machine.py"),
    ("ExposedPort", "name"): IN_DETAILS,
    ("ExposedUrl", "name"): IN_DETAILS,
    ("PodToleration", "name"): IN_DETAILS,
    ("RelatedUrl", "url"): LINK,
    ("RelatedUrl", "type"): LINK,
    ("RelatedUrl", "name"): LINK,
    ("CommonSpec", "related_urls"): LINK,
    ("CommonSpec", "category"): Refused({"category": "Deploy"}, place="spec.category"),
    ("CommonSpec", "terminate_after_preemption"): Refused(
        {"terminateAfterPreemption": True}, place="spec.terminateAfterPreemption"
    ),
    ("Security", "read_only_root_filesystem"): security("readOnlyRootFilesystem", True),
    ("Security", "run_as_non_root"): security("runAsNonRoot", True),
    ("Security", "seccomp_profile_type"): security("seccompProfileType", "Unconfined"),
    ("ExposedPort", "tool_type"): IN_DETAILS,
    ("ExposedPort", "tool_name"): IN_DETAILS,
    ("ExposedUrl", "container"): Elsewhere("the address that is shown: test_runai_on_one_machine.py"),
    ("ExposedUrl", "url"): Refused({"exposedUrls": [{**URL, "url": "x"}]}, place="spec.exposedUrls.url"),
    ("ExposedUrl", "authorization_type"): Refused(
        {"exposedUrls": [{**URL, "authorizationType": "authorizedUsers"}]}, place="spec.exposedUrls.authorizationType"
    ),
    ("ExposedUrl", "tool_type"): IN_DETAILS,
    ("ExposedUrl", "tool_name"): IN_DETAILS,
    ("PodToleration", "key"): Carried({"tolerations": [{**TAINT, "key": "l"}]}, before={"tolerations": [TAINT]}),
    ("PodToleration", "operator"): Carried(
        {"tolerations": [{**TAINT, "operator": "Exists"}]}, before={"tolerations": [TAINT]}
    ),
    ("PodToleration", "value"): Carried({"tolerations": [{**TAINT, "value": "w"}]}, before={"tolerations": [TAINT]}),
    ("PodToleration", "effect"): Carried(
        {"tolerations": [{**TAINT, "effect": "NoSchedule"}]}, before={"tolerations": [TAINT]}
    ),
    ("PodToleration", "seconds"): Refused({"tolerations": [{**TAINT, "seconds": 5}]}, place="spec.tolerations.seconds"),
    ("Security", "run_as_uid"): security("runAsUid", 5),
    ("Security", "run_as_gid"): security("runAsGid", 5),
    ("Security", "supplemental_groups"): security("supplementalGroups", "5"),
    ("Security", "uid_gid_source"): security("uidGidSource", "custom"),
    ("Security", "run_as_user"): security("runAsUser", True),
    ("Security", "create_home_dir"): security("createHomeDir", True),
    ("Security", "capabilities"): security("capabilities", ["NET_ADMIN"]),
    ("Security", "allow_privilege_escalation"): security("allowPrivilegeEscalation", False),
    ("Security", "host_ipc"): security("hostIpc", True),
    ("Security", "host_network"): security("hostNetwork", True),
    ("TopologyRequest", "name"): Carried(
        {"topology": {"name": "fabric", "required": "host"}}, DIST, {"topology": {"required": "host"}}
    ),
    ("TopologyRequest", "required"): Carried({"topology": {"required": "rack"}}, DIST),
    ("TopologyRequest", "preferred"): Carried({"topology": {"preferred": "rack"}}, DIST),
    **{
        place: Carried({"nodeAffinityPreferred": [PREFERENCE]}, before={"nodeAffinityPreferred": [another]})
        for place, another in PREFERENCES_OF_OTHER_NODES.items()
    },
    ("CommonSpec", "storage"): Carried(host()),
    ("CommonSpec", "ports"): Elsewhere("the address that is shown: test_runai_on_one_machine.py"),
    ("CommonSpec", "exposed_urls"): Elsewhere("the address that is shown: test_runai_on_one_machine.py"),
    ("CommonSpec", "node_pools"): Carried({"nodePools": ["a100"]}),
    ("CommonSpec", "node_type"): Carried({"nodeType": "dgx"}),
    ("CommonSpec", "node_affinity_preferred"): Carried({"nodeAffinityPreferred": [PREFERENCE]}),
    ("CommonSpec", "node_affinity_required"): Carried(
        {
            "nodeAffinityRequired": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]}]
            }
        }
    ),
    ("CommonSpec", "tolerations"): Carried({"tolerations": [TAINT]}),
    ("CommonSpec", "topology"): Carried({"topology": {"required": "rack"}}, DIST),
    ("CommonSpec", "security"): security("hostIpc", True),
    ("CommonSpec", "labels"): Carried({"labels": {"a": "b"}}),
    ("CommonSpec", "annotations"): IN_DETAILS,
    ("CommonSpec", "preemptibility"): Carried({"preemptibility": "non-preemptible"}),
    ("CommonSpec", "priority_class"): Carried({"priorityClass": "build"}),
    ("CommonSpec", "backoff_limit"): Carried({"backoffLimit": 2}),
    ("CommonSpec", "auto_deletion_time_after_completion_seconds"): Carried(
        {"autoDeletionTimeAfterCompletionSeconds": 60}
    ),
    ("CommonSpec", "termination_grace_period_seconds"): Carried({"terminationGracePeriodSeconds": 5}),
    ("CommonSpec", "deadline_seconds"): Carried({"deadlineSeconds": 60}),
    ("CommonSpec", "restart_policy"): Carried({"restartPolicy": "Never"}),
    ("CommonSpec", "stdin"): Carried({"stdin": True}),
    ("CommonSpec", "tty"): Carried({"stdin": True, "tty": True}, before={"stdin": True}),
    ("CommonSpec", "template"): Elsewhere("test_templates.py"),
    ("CommonSpec", "assets"): Elsewhere("test_assets.py"),
    ("AssetReferences", "environment"): Elsewhere("test_assets.py"),
    ("AssetReferences", "compute"): Elsewhere("test_assets.py"),
    ("AssetReferences", "datasources"): Elsewhere("test_assets.py"),
    ("DatasourceReference", "id"): Elsewhere("test_assets.py"),
    ("DatasourceReference", "kind"): Elsewhere("test_assets.py"),
    ("DatasourceReference", "overrides"): Elsewhere("test_assets.py"),
    ("DatasourceOverrides", "container_path"): Elsewhere("test_assets.py"),
    ("TrainingSpec", "completions"): Carried({"completions": 3}),
    ("TrainingSpec", "parallelism"): Carried({"completions": 3, "parallelism": 2}, before={"completions": 3}),
    ("DistributedSpec", "distributed_framework"): Carried({"distributedFramework": "MPI"}, DIST),
    ("DistributedSpec", "num_workers"): Carried({"numWorkers": 3}, DIST),
    ("DistributedSpec", "min_replicas"): Carried({"numWorkers": 3, "minReplicas": 2}, DIST, {"numWorkers": 3}),
    ("DistributedSpec", "max_replicas"): Carried({"maxReplicas": 3}, DIST),
    ("DistributedSpec", "slots_per_worker"): Carried(
        {"distributedFramework": "MPI", "slotsPerWorker": 2}, DIST, {"distributedFramework": "MPI"}
    ),
    ("DistributedSpec", "ssh_auth_mount_path"): Refused(
        {"sshAuthMountPath": "/ssh"}, DIST, place="spec.sshAuthMountPath"
    ),
    ("DistributedSpec", "clean_pod_policy"): Carried({"cleanPodPolicy": "None"}, DIST),
    ("DistributedSpec", "master_spec"): Carried({"masterSpec": {"image": "m"}}, DIST),
    ("DistributedSpec", "master_spec_same_as_worker"): Refused(
        {"masterSpecSameAsWorker": True}, DIST, place="spec.masterSpecSameAsWorker"
    ),
    ("DistributedSpec", "no_master"): Carried(
        {"masterSpec": {"image": "m"}, "noMaster": True}, DIST, {"masterSpec": {"image": "m"}}
    ),
    ("DistributedSpec", "master_no_pvcs"): Carried(
        {"masterSpec": {"image": "m"}, **pvc(), "masterNoPvcs": True}, DIST, {"masterSpec": {"image": "m"}, **pvc()}
    ),
    ("ServingPort", "container"): Elsewhere("the address that is shown: test_control.py"),
    ("ServingPort", "protocol"): port("protocol", "grpc"),
    ("ServingPort", "authorization_type"): port("authorizationType", "authorizedUsers"),
    ("ServingPort", "authorized_users"): port("authorizedUsers", ["a"]),
    ("ServingPort", "authorized_groups"): port("authorizedGroups", ["a"]),
    ("ServingPort", "cluster_local_access_only"): port("clusterLocalAccessOnly", True),
    ("Autoscaling", "min_replicas"): Carried({"autoscaling": {"minReplicas": 2}}, MODEL),
    ("Autoscaling", "max_replicas"): scaling("maxReplicas", 4),
    ("Autoscaling", "initial_replicas"): scaling("initialReplicas", 4),
    ("Autoscaling", "activation_replicas"): scaling("activationReplicas", 4),
    ("Autoscaling", "metric"): scaling("metric", "concurrency"),
    ("Autoscaling", "metric_name"): scaling("metricName", "x"),
    ("Autoscaling", "metric_threshold"): scaling("metricThreshold", 3),
    ("Autoscaling", "metric_threshold_percentage"): scaling("metricThresholdPercentage", 30),
    ("Autoscaling", "concurrency_hard_limit"): scaling("concurrencyHardLimit", 3),
    ("Autoscaling", "scale_to_zero_retention_seconds"): scaling("scaleToZeroRetentionSeconds", 3),
    ("Autoscaling", "scale_down_delay_seconds"): scaling("scaleDownDelaySeconds", 3),
    ("InferenceSpec", "serving_port"): Elsewhere("the address that is shown: test_control.py"),
    ("InferenceSpec", "autoscaling"): Carried({"autoscaling": {"minReplicas": 2}}, MODEL),
    ("SubmitWorkspace", "spec"): Elsewhere("each of its fields is here"),
    ("SubmitTraining", "spec"): Elsewhere("each of its fields is here"),
    ("SubmitDistributed", "spec"): Elsewhere("each of its fields is here"),
    ("SubmitInference", "spec"): Elsewhere("each of its fields is here"),
    ("Update", "wait_anyway"): Elsewhere("test_updates.py"),
    ("WorkspaceUpdate", "spec"): Elsewhere("as a submit of the whole: test_updates.py"),
    ("TrainingUpdate", "spec"): Elsewhere("as a submit of the whole: test_updates.py"),
    ("DistributedUpdate", "spec"): Elsewhere("as a submit of the whole: test_updates.py"),
    ("InferenceUpdate", "spec"): Elsewhere("as a submit of the whole: test_updates.py"),
    ("BatchRequest", "ids"): Elsewhere("test_control.py"),
    ("BatchRequest", "action"): Elsewhere("test_control.py"),
    ("BatchRequest", "force"): Elsewhere("deletes without grace: test_control.py"),
    ("CommonSpec", "after"): Elsewhere("names of other workloads: test_job_file.py"),
    ("CommonSpec", "workdir"): Elsewhere("an uploaded folder: test_uploads.py"),
    ("Workdir", "upload"): Elsewhere("an uploaded folder: test_uploads.py"),
    ("Workdir", "path"): Elsewhere("an uploaded folder: test_uploads.py"),
    ("TrainingSpec", "array"): Carried({"array": {"indices": "0-2"}}),
    ("JobArray", "indices"): Carried({"array": {"indices": "0-2"}}),
    ("JobArray", "parameters"): Carried({"array": {"parameters": [{"name": "lr", "values": ["1", "2"]}]}}),
    ("JobArray", "arguments"): Carried({"array": {"arguments": [["1"], ["2"]]}}),
    ("ArrayParameter", "name"): Carried({"array": {"parameters": [{"name": "lr", "values": ["1", "2"]}]}}),
    ("ArrayParameter", "values"): Carried({"array": {"parameters": [{"name": "lr", "values": ["1", "2"]}]}}),
}


def own_fields(module: Any) -> set[tuple[str, str]]:
    """Model and field of every request that a module defines, each where it is first said."""
    models = [
        each
        for _, each in inspect.getmembers(module, inspect.isclass)
        if issubclass(each, Request) and each.__module__ == module.__name__
    ]
    return {
        (model.__name__, name)
        for model in models
        for name in inspect.get_annotations(model)
        if name in model.model_fields
    }


def test_every_field_of_a_workload_is_listed_here_and_no_other() -> None:
    modules = (pod_spec, workload_spec, workloads, asset_reference)
    assert set().union(*map(own_fields, modules)) == FIELDS.keys()


def answer(sent: Sent, spec: dict[str, Any]) -> Any:
    model = sent.kind is MODEL
    body = {"image": "i", **({"servingPort": {"container": 8000}} if model else {}), **spec}
    submit: Any = sent.kind.model_validate({"name": "a", "projectId": "p", "spec": body})
    storage = StorageContext(
        claims={"data": KnownClaim(), "other": KnownClaim()},
        config_maps={"c": {"k": "v", "l": "w"}, "d": {"k": "u"}},
    )
    known = KnownCredential(CredentialKind.PASSWORD, {"user": 3, "password": 8})
    context = AdmissionContext(
        project=ProjectRequest(name="p"),
        pools=frozenset({"a100"}),
        storage=storage,
        topologies={"cable": ("room", "host"), "fabric": ("zone", "rack", "host")},
        credentials={"tokens": known, "other": known},
    )
    return admit(submit, context, workload_id=WorkloadId("w"), name="a", now=Instant(1))


SENT = [pytest.param(case, id=".".join(key)) for key, case in FIELDS.items() if isinstance(case, Sent)]


@pytest.mark.parametrize("case", SENT)
def test_it_is_carried_out_or_refused_by_name(case: Sent) -> None:
    found = answer(case, case.spec)
    if isinstance(case, Refused):
        assert not isinstance(found, WorkloadSpec), "it was accepted, and nothing carries it out"
        assert case.place in [each.field for each in found]
        assert all(each.fix for each in found), "who is refused is told what to do"
        return
    assert isinstance(found, WorkloadSpec), found
    assert found != answer(case, case.before or {}), "it was accepted, and makes no difference"


def test_submit_says_more_than_its_specification() -> None:
    body = {"name": "a", "projectId": "p", "spec": {"image": "i"}}
    context = AdmissionContext(project=ProjectRequest(name="p"), pools=frozenset())

    def admitted(**more: Any) -> Any:
        submit = TRAIN.model_validate({**body, **more})
        return admit(submit, context, workload_id=WorkloadId("w"), name="a", now=Instant(1))

    assert admitted(suspended=True) != admitted()
    submit = TRAIN.model_validate({**body, "commandLine": "runai submit a", "source": "CLI"})
    assert "runai submit a" in items.declaration(submit, admitted()).to_json()


OTHERS: dict[str, set[str]] = {
    # control.preferences: where the sign-in page leads
    "AutoRedirectRequest": {"enabled", "idp_alias"},
    # control.clusters; domain and version are kept and shown
    "ClusterRequest": {"name", "domain", "version"},
    "JoinRequest": {"installation"},
    # control.operator_manifest
    "OperatorRequest": {"token", "control_url", "ca_certificate", "image_registry", "image_pull_secret"},
    # control.declared: what queues are owed
    "CpuTerms": {"limit", "over_quota_weight"},
    "CpuResource": {"deserved"},
    "DepartmentCpu": {"deserved"},
    "GpuTerms": {"limit", "over_quota", "over_quota_weight"},
    "GpuResource": {"deserved"},
    "DepartmentGpu": {"deserved"},
    "MemoryTerms": {"limit", "over_quota_weight", "units"},
    "MemoryResource": {"deserved"},
    "DepartmentMemory": {"deserved"},
    "PoolReference": {"id", "name"},
    "PoolTerms": {"node_pool", "priority", "preempt_min_runtime_seconds", "reclaim_min_runtime_seconds"},
    "PoolResources": {"gpu", "cpu", "memory"},
    "DepartmentResources": {"gpu", "cpu", "memory"},
    "ResourcesUpdate": {"resources"},
    "DepartmentResourcesUpdate": {"resources"},
    # control.departments; a department is of every cluster, the one that is named is only shown
    "DepartmentRequest": {"name"},
    "DepartmentReplacement": {"name"},
    "DepartmentValues": {"cluster_id", "resources"},
    "DepartmentUpdate": {"description", "default_node_pools", "node_types", "scheduling_rules", "resources"},
    # control.declared.effective
    "OrgUnitValues": {"description", "default_node_pools", "node_types", "scheduling_rules"},
    # control.nodes; a pool is of every cluster, the one that is named is only shown
    "NodeOverridesRequest": {"cordoned", "taints", "labels"},
    "NodePoolRequest": {"name", "label_key", "label_value", "cluster_id", "placement_strategy"},
    "NodePoolReplacement": {"name", "cluster_id"},
    # refused by check_extras, but for the values that say what is so
    "NodePoolExtras": {
        *("over_provisioning_ratio", "gpu_network_acceleration_detection", "gpu_network_acceleration_label_key"),
        *("gpu_resource_optimization", "scheduling_configuration", "network_topology_id"),
    },
    "GpuOptimization": {
        *("swap_enabled", "node_level_scheduler_enabled"),
        *("cpu_swap_memory_size", "reserved_gpu_memory_for_swap_operations"),
    },
    "PoolScheduling": {"placement_strategy", "min_guaranteed_runtime"},
    "NodePoolUpdate": {"label_key", "label_value", "placement_strategy"},
    "PlacementStrategy": {"gpu", "cpu"},
    "NodeTaint": {"key", "value", "effect"},
    # control.topologies
    "NetworkTopologyRequest": {"name", "cluster_id", "levels"},
    # control.projects, control.admission. Of the rules, limits of idle time are kept and not enforced, because nothing
    # measures it yet: `runai-adm project` warns of it.
    "NodeTypes": {"training", "workspace", "names"},
    "ProjectRequest": {"name", "parent_id"},
    "ProjectReplacement": {"name", "parent_id"},
    "ProjectValues": {"cluster_id", "requested_namespace", "enforce_runai_scheduler", "resources"},
    "ProjectUpdate": {
        *("parent_id", "description", "default_node_pools", "node_types", "scheduling_rules", "resources"),
    },
    "SchedulingRules": {
        "interactive_job_time_limit_seconds",
        "interactive_job_max_idle_duration_seconds",
        "interactive_job_preempt_idle_duration_seconds",
        "training_job_max_idle_duration_seconds",
        "training_job_time_limit_seconds",
    },
    # control.access_rules, applications, sign_in, users
    "AccessRuleBatch": {"ids", "action"},
    "AccessRuleBatchCreate": {"payload"},
    "AccessRuleRequest": {"subject_id", "subject_type", "role_id", "scope_id", "scope_type", "cluster_id"},
    "ForgottenRequest": {"email"},
    "ResetRequest": {"new_password", "code"},
    "BrowserSessionTimeoutRequest": {"idle_timeout"},
    "PasswordChange": {"current_password", "new_password"},
    "AccessRuleProduct": {"role_id", "cluster_id", "subjects", "scopes"},
    "RuleSubject": {"subject_id", "subject_type"},
    "RuleScope": {"scope_id", "scope_type"},
    "UserUpdate": {"disabled"},
    # control.roles
    "RolePermission": {"resource_type", "actions"},
    "RoleRequest": {"name", "description", "enabled", "permissions"},
    "RoleUpdate": {"name", "description", "enabled", "permissions"},
    "ScopesRequest": {"permission", "resource_type", "action"},
    "TokenRequest": {
        *("grant_type", "username", "password", "client_id", "client_secret", "refresh_token"),
        *("code", "code_verifier", "device_code"),
    },
    "UserRequest": {"email", "password", "need_to_change_password", "roles", "reset_password", "notify"},
    # control.preferences
    "NamedSettingRequest": {"key"},
    "SettingRequest": {"value"},
}
"""Fields of requests that are not about workloads, by the module that carries them out."""
KEPT_ONLY = (
    "GpuOptimization.cpu_swap_memory_size",  # sizes of a swap that is off: switching it on is refused
    "GpuOptimization.reserved_gpu_memory_for_swap_operations",
)
"""Fields that are stored with their object and shown, and that nothing acts on. A new field needs an effect instead."""


def test_every_field_of_the_other_requests_is_known() -> None:
    found: dict[str, set[str]] = {}
    for module in (organization, nodes, access, authorization, settings):
        for model, name in own_fields(module):
            found.setdefault(model, set()).add(name)
    assert found == OTHERS


FLAGS_OF_PORTS = {"container": ("--port",), "ports": ("--port",), "exposed_urls": ("--service-type",)}
TESTS = Path(__file__).parents[1]
CONTROL = Path(inspect.getfile(items)).parent


def test_a_field_that_another_test_shows_is_named_in_that_test() -> None:
    """Where an entry names a test file, the file exists and sends the field, by its name on the wire or in Python."""
    texts = {path.name: path.read_text() for path in TESTS.rglob("test_*.py")}
    unshown = []
    for (model, name), case in FIELDS.items():
        for file in re.findall(r"test_\w+\.py", case.why) if isinstance(case, Elsewhere) else ():
            spellings = (camel(name), name, f"--{name.replace('_', '-')}", *FLAGS_OF_PORTS.get(name, ()))
            if not any(each in texts.get(file, "") for each in spellings):
                unshown.append(f"{model}.{name}: {file}")
    assert not unshown


def test_every_field_of_the_other_requests_is_read_by_the_control_plane() -> None:
    """A field that is only parsed is accepted and ignored. What is stored as a whole and sent to clusters or shown as
    it is is read by those that make it: `control.declared` and the like."""
    source = "\n".join(path.read_text() for path in sorted(CONTROL.rglob("*.py")))
    read = set(re.findall(r"\.([a-z_]+)\b", source)) | set(re.findall(r'"([a-z_]+)"', source))
    ignored = [f"{model}.{name}" for model, names in OTHERS.items() for name in names if name not in read]
    assert sorted(ignored) == sorted(KEPT_ONLY)


def test_the_older_words_for_a_job_are_all_turned_into_newer_ones() -> None:
    """Whatever an older client may say of a job has a field in the newer request, which is held to account above."""
    said = {name for model, name in own_fields(classic) if model == "ClassicSubmit"}
    source = inspect.getsource(classic_jobs)
    assert not [name for name in said if f"body.{name}" not in source]

"""Fields of a submit that nothing here can carry out: refused by name, with what to do instead. Pure.

A field that is accepted and then ignored would be a broken promise; `tests/specification/test_every_field.py` checks
every field of every request.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fairpool.api import pod_spec
from fairpool.api import workload_spec as wire
from fairpool.api.problems import ProblemItem
from fairpool.control.pod_template import FROM_THE_DIRECTORY, FROM_THE_IMAGE, group_numbers

LEAVE_OUT = "remove it"
NO_OWN_URL = "remove it: the gateway chooses the URL, over HTTP, for the members of the project"
NO_NFS = "ask the administrator to mount it on the nodes and to allow that folder, then mount it with hostPath (-v)"
MASTER = "spec.masterSpec"
CUSTOM = "custom"
OF_DIRECTORY = frozenset(("uidGidSource", "runAsUser"))
"""What asks for the user of a directory."""
OF_USERS = OF_DIRECTORY | {"runAsUid", "runAsGid", "supplementalGroups"}
ONLY_DIRECTORY = "remove it: processes run as the user of their project, or of a directory (sign in there)"
GROUP = re.compile("[0-9]{1,9}", re.ASCII)
CAPABILITY = re.compile("(CAP_)?[A-Z][A-Z_]{1,30}", re.ASCII)


def refusals(
    submit: wire.SubmitAny, *, has_containers: bool = False, directory_users: bool = False
) -> list[ProblemItem]:
    """Everything in a request that cannot be carried out; `has_containers` is whether the cluster can run any, and
    `directory_users` whether its processes can run with the uid and gid of a directory."""
    return [
        ProblemItem(
            code="spec.not_carried",
            what=f"{_plain(place)} is not supported" + ("" if has_containers else " by the process runtime"),
            fix=fix,
            field=place,
        )
        for place, fix in _asked(submit, has_containers, directory_users)
    ]


def needs_container(security: pod_spec.Security, *, directory_users: bool) -> bool:
    """Whether no process can be given what it asks for."""
    return any(_of_processes(security, directory_users))


def _plain(place: str) -> str:
    return place.removeprefix("spec.")


Asked = Iterator[tuple[str, str]]


def _asked(submit: wire.SubmitAny, has_containers: bool, directory_users: bool) -> Asked:
    """Each unsupported field, and what to do instead."""
    spec = submit.spec
    if spec.category not in (None, _category(submit)):
        yield "spec.category", f"remove it, or use {_category(submit)}: the category follows from the kind"
    if spec.related_urls:
        yield "spec.relatedUrls", "remove it: links are not kept; an annotation can hold one"
    if spec.terminate_after_preemption:
        yield "spec.terminateAfterPreemption", "remove it: a preempted workload waits and starts again"
    if any(each.seconds is not None for each in spec.tolerations):
        yield "spec.tolerations.seconds", "remove it: a pod that tolerates a taint stays on the node"
    if has_containers:
        yield from _of_security(spec.security)
    else:
        yield from _of_processes(spec.security, directory_users)
        yield from _of_pull(spec, "spec")
    yield from _of_pod(spec, "spec")
    yield from _of_storage(spec.storage)
    yield from _of_ports(spec)
    match submit:
        case wire.SubmitDistributed(spec=gang):
            yield from _of_gang(gang)
            if gang.master_spec is not None and not has_containers:
                yield from _of_pull(gang.master_spec, MASTER)
        case wire.SubmitInference(spec=model):
            yield from _of_model(model)


def _category(submit: wire.SubmitAny) -> str:
    match submit:
        case wire.SubmitWorkspace():
            return "Build"
        case wire.SubmitInference():
            return "Deploy"
        case _:
            return "Train"


def _of_pull(pod: pod_spec.PodSpecWire, place: str) -> Asked:
    if pod.image_pull_policy == "Always":
        yield f"{place}.imagePullPolicy", "use IfNotPresent, or remove it: images are not pulled"
    if pod.image_pull_secret is not None:
        yield f"{place}.imagePullSecret", "remove it: images are not pulled"


def _of_security(security: pod_spec.Security) -> Asked:
    """What containers cannot do either; what an administrator has to allow is refused by the node."""
    if security.allow_privilege_escalation:
        yield "spec.security.allowPrivilegeEscalation", "remove it: no program in a pod gains privileges"
    if security.read_only_root_filesystem:
        yield "spec.security.readOnlyRootFilesystem", "remove it: the root file system of a pod can be written to"
    if security.run_as_non_root:
        yield "spec.security.runAsNonRoot", "remove it, or set runAsUid: which user an image runs as is not checked"
    if security.seccomp_profile_type is not None:
        yield "spec.security.seccompProfileType", "remove it: the container runtime's own profile is used"
    if security.create_home_dir is False:
        yield "spec.security.createHomeDir", "remove it: every pod has a home directory of its own"
    if security.uid_gid_source not in (None, CUSTOM, FROM_THE_IMAGE, FROM_THE_DIRECTORY):
        sources = f"use {FROM_THE_IMAGE}, {FROM_THE_DIRECTORY}, or {CUSTOM} with runAsUid and runAsGid"
        yield "spec.security.uidGidSource", sources
    is_another = security.uid_gid_source == FROM_THE_IMAGE or (
        security.uid_gid_source == CUSTOM and security.run_as_uid is None
    )
    if security.run_as_user and is_another:
        yield "spec.security.runAsUser", f"remove it, or use the source {FROM_THE_DIRECTORY}"
    is_given = (security.run_as_uid, security.run_as_gid) != (None, None)
    if is_given and security.uid_gid_source in (FROM_THE_IMAGE, FROM_THE_DIRECTORY):
        yield "spec.security.runAsUid", f"remove it, or use the source {CUSTOM}"
    if security.supplemental_groups and security.uid_gid_source == FROM_THE_DIRECTORY:
        yield "spec.security.supplementalGroups", f"remove it, or use the source {CUSTOM}"
    if any(not GROUP.fullmatch(each) for each in group_numbers(security.supplemental_groups)):
        yield "spec.security.supplementalGroups", "use numbers with commas between them, e.g. 100,200"
    if any(not CAPABILITY.fullmatch(each.upper()) for each in security.capabilities):
        yield "spec.security.capabilities", "use names of Linux capabilities, e.g. NET_ADMIN"


def _of_processes(security: pod_spec.Security, directory_users: bool) -> Asked:
    given = _given(security)
    if security.uid_gid_source == FROM_THE_DIRECTORY:
        if directory_users:
            given = [name for name in given if name not in OF_DIRECTORY]
        else:
            yield "spec.security.uidGidSource", "remove it, or ask for nodes that run containers or run as root"
            return
    for name in given:
        yield f"spec.security.{name}", ONLY_DIRECTORY if directory_users and name in OF_USERS else LEAVE_OUT


def _of_pod(pod: pod_spec.PodSpecWire, place: str) -> Asked:
    compute = pod.compute
    if compute.gpu_portion_limit is not None:
        yield f"{place}.compute.gpuPortionLimit", "remove it: the limit always equals the request"
    if compute.gpu_memory_limit is not None:
        yield f"{place}.compute.gpuMemoryLimit", "remove it: the limit always equals the request"
    needs = {
        pod_spec.GpuRequestType.PORTION: (compute.gpu_portion_request, "gpuPortionRequest"),
        pod_spec.GpuRequestType.MEMORY: (compute.gpu_memory_request, "gpuMemoryRequest"),
        pod_spec.GpuRequestType.MIG_PROFILE: (compute.mig_profile, "migProfile"),
    }
    if compute.gpu_request_type is not None and needs[compute.gpu_request_type][0] is None:
        name = needs[compute.gpu_request_type][1]
        yield f"{place}.compute.gpuRequestType", f"set {name} with {compute.gpu_request_type.value}, or remove it"


def _of_storage(storage: pod_spec.Storage) -> Asked:
    mounts = {
        "nfs": (storage.nfs, NO_NFS),
        "s3": (storage.s3, "copy the data in the job's command, with credentials from the environment"),
    }
    yield from ((f"spec.storage.{name}", fix) for name, (asked, fix) in mounts.items() if asked)
    if any(each.mount_propagation != "None" for each in storage.host_path):
        yield "spec.storage.hostPath.mountPropagation", LEAVE_OUT
    if any(each.medium for each in storage.empty_dir_volume):
        yield "spec.storage.emptyDirVolume.medium", "remove it, or use compute.largeShmRequest for memory at /dev/shm"
    if any(each.size_limit is not None for each in storage.empty_dir_volume):
        yield "spec.storage.emptyDirVolume.sizeLimit", "remove it: the size of a folder cannot be limited"
    for claim in storage.pvc:
        if claim.ephemeral and claim.existing_pvc:
            yield "spec.storage.pvc.ephemeral", "remove it: only a new claim can be deleted with its job"
        if claim.claim_info is not None and claim.existing_pvc:
            yield "spec.storage.pvc.claimInfo", "remove it, or set existingPvc: false to create a new claim"


def _of_ports(spec: wire.CommonSpec) -> Asked:
    if any(each.url is not None for each in spec.exposed_urls):
        yield "spec.exposedUrls.url", NO_OWN_URL
    if any(each.authorization_type is not None for each in spec.exposed_urls):
        yield "spec.exposedUrls.authorizationType", NO_OWN_URL


def _of_gang(gang: wire.DistributedSpec) -> Asked:
    framework = gang.distributed_framework
    if gang.slots_per_worker not in (None, 1) and framework != "MPI":
        yield "spec.slotsPerWorker", f"remove it: it is for MPI, and this is {framework}"
    if gang.ssh_auth_mount_path is not None:
        yield "spec.sshAuthMountPath", "remove it: the launcher reaches its workers without ssh"
    if framework != "PyTorch":
        fixed = f"remove it: only PyTorch is elastic, and the pods of {framework} are listed to each other at the start"
        yield from (
            (f"spec.{name}", fixed)
            for name, value in {"minReplicas": gang.min_replicas, "maxReplicas": gang.max_replicas}.items()
            if value is not None
        )
    if gang.no_master and framework == "MPI":
        yield "spec.noMaster", "remove it: MPI needs its launcher"
    if gang.master_no_pvcs and (gang.no_master or (gang.master_spec is None and framework != "MPI")):
        yield "spec.masterNoPvcs", "remove it, or set masterSpec: there is no master"
    if "master_spec_same_as_worker" in gang.model_fields_set and gang.master_spec is None and not gang.no_master:
        yield "spec.masterSpecSameAsWorker", "set masterSpec for a master, or noMaster: true for workers only"
    if gang.master_spec is not None:
        yield from _of_pod(gang.master_spec, MASTER)


def _of_model(model: wire.InferenceSpec) -> Asked:
    port, scaling = model.serving_port, model.autoscaling
    if port is not None:
        if port.protocol != "http":
            yield "spec.servingPort.protocol", NO_OWN_URL
        if port.authorization_type != "public":
            yield "spec.servingPort.authorizationType", NO_OWN_URL
        if port.authorized_users:
            yield "spec.servingPort.authorizedUsers", NO_OWN_URL
        if port.authorized_groups:
            yield "spec.servingPort.authorizedGroups", NO_OWN_URL
        if port.cluster_local_access_only:
            yield "spec.servingPort.clusterLocalAccessOnly", NO_OWN_URL
    fixed = "set only minReplicas: the number of replicas is fixed, autoscaling is not supported yet"
    if scaling.min_replicas == 0:
        yield "spec.autoscaling.minReplicas", "use 1 or more: scaling to zero is not supported yet"
    if scaling.max_replicas not in (None, max(scaling.min_replicas, 1)):
        yield "spec.autoscaling.maxReplicas", fixed
    if scaling.initial_replicas not in (None, max(scaling.min_replicas, 1)):
        yield "spec.autoscaling.initialReplicas", fixed
    others = {
        "activationReplicas": scaling.activation_replicas,
        "metric": scaling.metric,
        "metricName": scaling.metric_name,
        "metricThreshold": scaling.metric_threshold,
        "metricThresholdPercentage": scaling.metric_threshold_percentage,
        "concurrencyHardLimit": scaling.concurrency_hard_limit,
        "scaleToZeroRetentionSeconds": scaling.scale_to_zero_retention_seconds,
        "scaleDownDelaySeconds": scaling.scale_down_delay_seconds,
    }
    yield from ((f"spec.autoscaling.{name}", fixed) for name, value in others.items() if value is not None)


def _given(part: pod_spec.Security) -> list[str]:
    """Fields that are set to something else than their default."""
    said = part.model_dump(by_alias=True, exclude_defaults=True)
    return [name for name, value in said.items() if value is not None]

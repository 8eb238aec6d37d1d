"""The flag that each field of a submit request comes from: refusals of the server are reported by flag."""

from __future__ import annotations

from fairpool.model.problem import Problem

FLAGS = {
    "spec.imagePullPolicy": "--image-pull-policy",
    "spec.compute.gpuPortionLimit": "--gpu-portion-limit",
    "spec.compute.gpuMemoryLimit": "--gpu-memory-limit",
    "spec.compute.gpuPortionRequest": "--gpu-portion-request",
    "spec.compute.gpuDevicesRequest": "--gpu-devices-request",
    "spec.compute.gpuRequestType": "--gpu-request-type",
    "spec.compute.migProfile": "--mig-profile",
    "spec.compute.largeShmRequest": "--large-shm",
    "spec.compute.gpu": "--gpu",
    "spec.storage.pvc.claimInfo": "--new-pvc",
    "spec.storage.pvc.ephemeral": "--new-pvc",
    "spec.storage.hostPath.mountPropagation": "--mount-propagation",
    "spec.security.createHomeDir": "--create-home-dir",
    "spec.security.capabilities": "--add-capability",
    "spec.security.allowPrivilegeEscalation": "--prevent-privilege-escalation",
    "spec.security.hostIpc": "--host-ipc",
    "spec.security.hostNetwork": "--host-network",
    "spec.topology.required": "--required-pod-topology-key",
    "spec.topology.preferred": "--preferred-pod-topology-key",
    "spec.template": "--template",
    "spec.assets.environment": "--environment-asset",
    "spec.assets.compute": "--compute-resource",
    "spec.assets.datasources": "--data-source",
    "spec.priorityClass": "--priority",
    "spec.preemptibility": "--preemptible",
    "spec.autoDeletionTimeAfterCompletionSeconds": "--ttl-after-finish",
    "spec.terminationGracePeriodSeconds": "--grace-period",
    "spec.stdin": "--stdin",
    "spec.tty": "--tty",
    "spec.exposedUrls.url": "--custom-url",
    "spec.exposedUrls": "--service-type",
    "spec.distributedFramework": "the framework",
    "spec.cleanPodPolicy": "--clean-pod-policy",
    "spec.slotsPerWorker": "--slots-per-worker",
    "waitAnyway": "--wait-anyway",
    "clusterId": "--cluster",
    "name": "name",
    "projectId": "--project",
    "spec.image": "--image",
    "spec.workingDir": "--working-dir",
    "spec.pythonEnv": "--python-env",
    "spec.command": "--command",
    "spec.args": "--args",
    "spec.environmentVariables": "--environment",
    "spec.compute.gpuMemoryRequest": "--gpu-memory",
    "spec.compute.cpuCoreRequest": "--cpu",
    "spec.compute.cpuCoreLimit": "--cpu-limit",
    "spec.compute.cpuMemoryRequest": "--memory",
    "spec.compute.cpuMemoryLimit": "--memory-limit",
    "spec.compute.extendedResources": "--extended-resource",
    "spec.storage.hostPath": "--volume",
    "spec.storage.nfs": "--nfs-server",
    "spec.storage.pvc": "--pvc",
    "spec.storage.git": "--git-sync",
    "spec.storage.configMapVolume": "--configmap-volume",
    "spec.storage.secretVolume": "--secret-volume",
    "spec.nodePools": "--node-pools",
    "spec.nodeType": "--node-type",
    "spec.tolerations": "--toleration",
    "spec.labels": "--label",
    "spec.annotations": "--annotation",
    "spec.backoffLimit": "--backoff-limit",
    "spec.deadlineSeconds": "--time-limit",
    "spec.after": "--after",
    "spec.array.parameters": "--for",
    "spec.array.arguments": "--array-args",
    "spec.array": "--array",
    "spec.workdir": "--workdir",
    "spec.topology": "--preferred-pod-topology-key",
    "spec.topology.name": "--topology",
    "spec.nodeAffinityPreferred": "--prefer-node",
    "spec.completions": "--completions",
    "spec.parallelism": "--parallelism",
    "spec.ports": "--port",
    "spec.servingPort": "--port",
    "spec.autoscaling": "--replicas",
    "spec.numWorkers": "--workers",
    "spec.minReplicas": "--min-replicas",
    "spec.maxReplicas": "--max-replicas",
    "spec.masterSpec.compute": "--master-gpu",
    "spec.masterSpec": "--master-args",
    "spec.masterNoPvcs": "--master-no-pvcs",
    "spec.noMaster": "--no-master",
}


def flag_of(path: str) -> str:
    """The flag from which a field of the request comes; empty: no known one."""
    path = ".".join(part for part in path.split(".") if not part.isdigit())  # places in lists
    if path.startswith(("spec.security.runAs", "spec.security.uidGid")):
        return "--run-as-user"  # which sets three fields, from which the control plane concludes the source
    return next((flag for known, flag in FLAGS.items() if path == known or path.startswith(f"{known}.")), "")


def refused_flag(problem: Problem, field: str) -> Problem:
    """A refusal of the control plane that names the flag instead of the field: `--run-as-user is not supported`."""
    flag = flag_of(field)
    named = next((name for name in (field, field.removeprefix("spec.")) if problem.what.startswith(name)), "")
    if not flag or not named:
        return problem
    if problem.code == "template.required":  # as the older command says it
        return Problem(problem.code, f"the flag {flag} is mandatory", problem.what.partition(": ")[2])
    fix = "correct the value" if problem.code == "request.wrong_value" and "openapi" in problem.fix else problem.fix
    return Problem(problem.code, f"{flag}{problem.what.removeprefix(named)}", fix)

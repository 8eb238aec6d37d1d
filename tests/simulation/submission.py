"""Submit requests of the API for randomly made workloads."""

from __future__ import annotations

from typing import Any

from fairpool.api.client import Submission
from fairpool.model.organization import DEFAULT_GRACES
from fairpool.model.precedence import class_name
from fairpool.model.quantity import WHOLE_GPU_MILLI
from fairpool.model.spec import Arrangement, PodTemplate, RestartPolicy, WorkloadSpec
from fairpool.model.workload import GpuKind, WorkloadKind

RESTARTS = {RestartPolicy.ALWAYS: "Always", RestartPolicy.ON_FAILURE: "OnFailure", RestartPolicy.NEVER: "Never"}


def submission_of(spec: WorkloadSpec) -> Submission:
    """What to submit to get this workload; it gets an id and an age of its own."""
    kind, size = _kind_and_size(spec)
    preemptibility = {None: None, True: "preemptible", False: "non-preemptible"}[spec.preemptible]
    shape = spec.template.shape
    fields: dict[str, Any] = {
        **_pod(spec.template),
        **size,
        "tolerations": [{"key": each.key, "operator": "Exists"} for each in shape.tolerations],
        "nodePools": list(spec.pools),
        "preemptibility": preemptibility,
        "priorityClass": class_name(spec.priority) if spec.priority is not None else None,
        "restartPolicy": RESTARTS[spec.restart] if spec.restart is not None else None,
        "backoffLimit": spec.retries,
        "deadlineSeconds": spec.deadline_s,
        "autoDeletionTimeAfterCompletionSeconds": spec.ttl_s,
        "terminationGracePeriodSeconds": min(spec.grace_s, DEFAULT_GRACES.most_s),
    }
    said = {name: value for name, value in fields.items() if value is not None}
    return Submission(kind, {"name": spec.name, "projectId": spec.project, "waitAnyway": True, "spec": said})


def _kind_and_size(spec: WorkloadSpec) -> tuple[str, dict[str, Any]]:
    if spec.kind is WorkloadKind.BUILD:
        return "Workspace", {}
    if spec.kind is WorkloadKind.INFERENCE:
        return "Inference", {"servingPort": {"container": 8000}, "autoscaling": {"minReplicas": spec.pods}}
    if spec.arrangement is Arrangement.SWEEP:
        return "Training", {"parallelism": spec.pods, "completions": spec.completions or spec.pods}
    if spec.pods == 1:
        return "Training", {}
    workers = spec.pods - (spec.leader is not None)
    size: dict[str, Any] = {"numWorkers": workers}
    if spec.leader is not None:
        size["masterSpec"] = _pod(spec.leader)
    if spec.minimum is not None and spec.minimum < spec.pods:
        size |= {"minReplicas": spec.minimum, "maxReplicas": workers}
    return "Distributed", size


def _pod(template: PodTemplate) -> dict[str, Any]:
    shape, gpu = template.shape, template.shape.gpu
    compute: dict[str, Any] = {"cpuCoreRequest": shape.cpu_milli / 1000, "cpuMemoryRequest": str(shape.memory_bytes)}
    if gpu.kind is GpuKind.WHOLE:
        compute["gpu"] = gpu.devices
    elif gpu.kind is GpuKind.PORTION:
        compute |= {"gpuDevicesRequest": gpu.devices, "gpuPortionRequest": gpu.portion_milli / WHOLE_GPU_MILLI}
    elif gpu.kind is GpuKind.MEMORY:
        compute |= {"gpuDevicesRequest": gpu.devices, "gpuMemoryRequest": f"{gpu.memory_mib}Mi"}
    program = template.program
    return {"image": program.image, "command": list(program.command), "compute": compute}

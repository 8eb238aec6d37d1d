"""Node roles: which jobs a node takes, as its labels say.

Roles of workers count as soon as one node of the cluster has one: then pods with GPUs go to GPU workers, the others to
CPU workers, and nodes without a worker's role take nothing. A system worker without such a role never takes a job.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

ROLE_PREFIX = "node-role.kubernetes.io/"
SYSTEM_LABEL = f"{ROLE_PREFIX}runai-system"
GPU_WORKER_LABEL = f"{ROLE_PREFIX}runai-gpu-worker"
CPU_WORKER_LABEL = f"{ROLE_PREFIX}runai-cpu-worker"

ROLE_LABELS = frozenset({SYSTEM_LABEL, GPU_WORKER_LABEL, CPU_WORKER_LABEL})

NOT_A_GPU_WORKER = "not a GPU worker"
NOT_A_CPU_WORKER = "not a CPU worker"
SYSTEM_WORKER = "system worker"
ROLE_OBJECTIONS = frozenset({NOT_A_GPU_WORKER, NOT_A_CPU_WORKER, SYSTEM_WORKER})


class NodeRole(StrEnum):
    """Which pods a node takes."""

    ANY = "any"
    """All: no roles are in use, or it is a worker for both."""
    GPU_WORKER = "gpu worker"
    CPU_WORKER = "cpu worker"
    SYSTEM = "system"
    """None: it is for Fairpool's own services."""
    NONE = "none"
    """None: other nodes are workers, and it is not."""

    @property
    def takes_gpu_pods(self) -> bool:
        return self in (NodeRole.ANY, NodeRole.GPU_WORKER)

    @property
    def takes_cpu_pods(self) -> bool:
        return self in (NodeRole.ANY, NodeRole.CPU_WORKER)


def are_roles_used(labels: Iterable[Mapping[str, str]]) -> bool:
    """Whether some node of a cluster is a worker by its labels."""
    return any(_has(each, GPU_WORKER_LABEL) or _has(each, CPU_WORKER_LABEL) for each in labels)


def role_of(labels: Mapping[str, str], *, are_used: bool) -> NodeRole:
    """The role of a node; `are_used`: some node of its cluster is a worker."""
    if not are_used:
        return NodeRole.SYSTEM if _has(labels, SYSTEM_LABEL) else NodeRole.ANY
    match _has(labels, GPU_WORKER_LABEL), _has(labels, CPU_WORKER_LABEL):
        case True, True:
            return NodeRole.ANY
        case True, False:
            return NodeRole.GPU_WORKER
        case False, True:
            return NodeRole.CPU_WORKER
    return NodeRole.SYSTEM if _has(labels, SYSTEM_LABEL) else NodeRole.NONE


def role_objection(role: NodeRole, *, on_gpus: bool) -> str | None:
    """Why a node of this role does not take a pod; None if it does."""
    if role.takes_gpu_pods if on_gpus else role.takes_cpu_pods:
        return None
    if role is NodeRole.SYSTEM:
        return SYSTEM_WORKER
    return NOT_A_GPU_WORKER if on_gpus else NOT_A_CPU_WORKER


def _has(labels: Mapping[str, str], label: str) -> bool:
    return labels.get(label, "false") != "false"

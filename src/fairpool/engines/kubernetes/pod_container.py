"""The container of a pod on Kubernetes: program, variables, resources and security context. Pure.

A container has no capabilities and no way to get more than it has, as on one machine; more is given only where an
administrator has allowed it. It runs as the user of its image unless another is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fairpool.agent.environment import identity, of_directory
from fairpool.agent.peers import (
    HOSTFILE,
    HOSTFILE_NAME,
    Rendezvous,
    is_mpi,
    mpi_host_name,
    ports_needed,
    variables_of_peers,
)
from fairpool.agent.process_table import POD_UUID
from fairpool.engines.kubernetes.image_aliases import meant_image
from fairpool.engines.kubernetes.names import ServiceRole, host_name, secret_name, service_name
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.engines.kubernetes.share_library import library_variables
from fairpool.model.observation import StartOrder
from fairpool.model.quantity import WHOLE_GPU_MILLI, gpus_text, memory_portion_milli
from fairpool.model.spec import Framework, SecurityContext
from fairpool.model.workload import GpuKind

NAME = "main"
OWN = "/etc/fairpool"
"""Where files of ours are mounted."""
PORT = {Framework.TF: 2222, Framework.XGBOOST: 9991}
"""Where a run of this framework meets; each pod has an address of its own, so that no port is taken."""
DEFAULT_PORT = 29_500
WORKER_PORT = 9990
HOST_NAME_MAX = 63
SHARES = (GpuKind.PORTION, GpuKind.MEMORY)
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
"""Of whole GPUs it is set by the device plugin; a value in the pod would override that and show all GPUs."""


def container(
    order: StartOrder,
    settings: PodSettings,
    mounts: Sequence[Mapping[str, Any]],
    shared_gpus: Sequence[str],
    gpu_memory_mib: int,
) -> dict[str, Any]:
    """The container; `shared_gpus` are the UUIDs of the devices that a part of a GPU is of."""
    program = order.program
    image = meant_image(program.image, settings)
    found: dict[str, Any] = {
        "name": NAME,
        "image": image.reference,
        "command": [_literal(word) for word in program.command or image.entrypoint],
        "args": [_literal(word) for word in program.arguments],
        "env": _environment(order, settings, shared_gpus, gpu_memory_mib),
        "workingDir": program.working_dir,
        "ports": [{"containerPort": port} for port in program.ports],
        "resources": _resources(order, settings),
        "volumeMounts": list(mounts),
        "imagePullPolicy": program.pull_policy.value if program.pull_policy is not None else "",
        "securityContext": security_context(program.security),
        "stdin": program.stdin or program.tty,
        "tty": program.tty,
    }
    return {field: value for field, value in found.items() if value}


def pod_host_name(order: StartOrder, index: int) -> str:
    """The host name of a pod of a distributed run, the same for every incarnation."""
    if is_mpi(order):
        return mpi_host_name(order.name, index)
    return host_name(order.name, index)[-HOST_NAME_MAX:].lstrip("-")


def peer_hosts(order: StartOrder) -> tuple[str, ...]:
    """The names by which the pods of a run reach each other, in the order of their index; empty: they do not."""
    if not ports_needed(order):
        return ()
    domain = service_name(order.name, order.workload, ServiceRole.PODS)
    return tuple(f"{pod_host_name(order, index)}.{domain}" for index in range(order.pods))


def _environment(
    order: StartOrder, settings: PodSettings, shared_gpus: Sequence[str], gpu_memory_mib: int
) -> list[dict[str, Any]]:
    """What the user sets overrides what we offer, and nothing overrides the pod's identity."""
    program = order.program
    gpu_milli = gpu_milli_of(order, gpu_memory_mib)
    own = {**identity(order, "", gpu_milli), **of_directory(program.security)}
    own |= _share(order, shared_gpus, gpu_milli, gpu_memory_mib)
    if order.shape.gpu.kind in SHARES:
        own |= library_variables(dict(program.environment), settings)
    values = {**_peers(order), **dict(program.environment), **own}
    del values[POD_UUID]
    if order.shape.gpu.kind is GpuKind.WHOLE:
        values.pop(VISIBLE, None)
    secret = {each.name: each for each in program.secrets if each.name not in (*own, VISIBLE)}
    plain = [{"name": name, "value": _literal(value)} for name, value in values.items() if name not in secret]
    secrets = [
        {
            "name": name,
            "valueFrom": {"secretKeyRef": {"name": secret_name(order.name, each.credential), "key": each.key}},
        }
        for name, each in secret.items()
        if name != POD_UUID
    ]
    return [*plain, *secrets, {"name": POD_UUID, "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}]


def _literal(text: str) -> str:
    """As it is: Kubernetes would replace `$(NAME)` by a variable, here and in variables."""
    return text.replace("$", "$$")


def gpu_milli_of(order: StartOrder, gpu_memory_mib: int) -> int:
    """How much of GPUs it has, in thousandths of one."""
    request = order.shape.gpu
    if request.memory_mib and gpu_memory_mib:
        return request.devices * memory_portion_milli(request.memory_mib, gpu_memory_mib)
    return request.devices * min(request.portion_milli, WHOLE_GPU_MILLI)


def _share(order: StartOrder, gpus: Sequence[str], gpu_milli: int, gpu_memory_mib: int) -> dict[str, str]:
    """Its devices and how much of each it has: no device plugin is asked for parts of GPUs. A pod without GPUs must not
    see those of its node, which images with CUDA would otherwise get."""
    request = order.shape.gpu
    if request.kind is GpuKind.NONE:
        return {VISIBLE: "void"}
    if request.kind not in SHARES:
        return {}
    visible = ",".join(gpus)
    found = {VISIBLE: visible, "CUDA_VISIBLE_DEVICES": visible}
    found |= {"GPU_PORTION": gpus_text(gpu_milli // max(1, request.devices))}
    if gpu_memory_mib:
        found["FAIRPOOL_GPU_MEMORY_MIB"] = str(request.own_memory_mib(gpu_memory_mib))
    return found


def _peers(order: StartOrder) -> dict[str, str]:
    hosts = peer_hosts(order)
    if not hosts:
        return {}
    if is_mpi(order):
        file = f"{OWN}/{HOSTFILE_NAME}"
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        return {HOSTFILE: file, "OMPI_MCA_orte_default_hostfile": file, "I_MPI_HYDRA_HOST_FILE": file, **root}
    framework = order.distributed.framework if order.distributed is not None else Framework.PYTORCH
    port = PORT.get(framework, DEFAULT_PORT)
    ports = (port, WORKER_PORT) if framework is Framework.XGBOOST else (port,) * ports_needed(order)
    return variables_of_peers(order, Rendezvous(ports, hosts), home="", support="", gang="")


def _resources(order: StartOrder, settings: PodSettings) -> dict[str, Any]:
    """Requests are what was decided with; extended resources and GPUs are limits, which are requests too."""
    shape, program = order.shape, order.program
    counted = {name: str(amount) for name, amount in shape.extended if amount}
    if shape.gpu.kind is GpuKind.WHOLE:
        counted[settings.gpu_resource] = str(shape.gpu.devices)
    requests, limits = dict(counted), dict(counted)
    cpu = _within(shape.cpu_milli, program.cpu_limit_milli)
    memory = _within(shape.memory_bytes, program.memory_limit_bytes)
    # Written even where it is 0: otherwise the API server takes the limit for the request.
    requests |= {"cpu": f"{cpu}m", "memory": str(memory)}
    if program.cpu_limit_milli:
        limits["cpu"] = f"{program.cpu_limit_milli}m"
    if program.memory_limit_bytes:
        limits["memory"] = str(program.memory_limit_bytes)
    return {"requests": requests, "limits": limits}


def _within(request: int, limit: int) -> int:
    """A request above the limit is refused by the API server."""
    return min(request, limit) if limit else request


def security_context(security: SecurityContext) -> dict[str, Any]:
    """What a container of this pod may do."""
    capabilities: dict[str, Any] = {"drop": ["ALL"]}
    if security.capabilities:
        capabilities["add"] = [name.removeprefix("CAP_") for name in security.capabilities]
    found: dict[str, Any] = {"capabilities": capabilities}
    if "SYS_ADMIN" not in capabilities.get("add", ()):  # with it, the API server refuses to forbid anything
        found["allowPrivilegeEscalation"] = False
    if security.uid is not None:
        found["runAsUser"] = security.uid
    if security.gid is not None:
        found["runAsGroup"] = security.gid
    return found

"""The environment variables of a pod: its identity, devices, directories and peers."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from fairpool.agent.images import Image
from fairpool.agent.nvml import Gpu
from fairpool.agent.peers import Rendezvous, variables_of_peers
from fairpool.agent.portion_enforcement import GpuPortion
from fairpool.agent.process_table import POD_UUID
from fairpool.model.observation import StartOrder
from fairpool.model.quantity import WHOLE_GPU_MILLI, gpus_text, memory_portion_milli
from fairpool.model.spec import SecurityContext

INHERITED = ("LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH")
"""What a pod inherits of the server's environment: how the machine is set up, never secrets."""
STANDARD_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

SIMULATED_GPUS = "FAIRPOOL_SIMULATED_GPUS"
REPORTER = "FAIRPOOL_REPORTER"
CHECKPOINTS = "FAIRPOOL_CHECKPOINT_DIR"
SECRET = "\0secret"
"""Stands for the value of a secret variable, which no plan contains; no real value contains a zero byte."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPaths:
    """Where the files of one pod are on the machine; plain strings, because they are formatted at every start."""

    directory: str
    support: str
    checkpoints: str
    reporter: str
    """An address: `file:` and a path, or `http:`."""
    home: str
    """Its own working directory, gone with it."""
    gang: str = ""
    """The directory of sockets through which an MPI launcher reaches its workers; empty: it is no pod of such a run."""
    secrets: str = ""
    """Where its secrets are, in memory; empty: it has none."""


def variables(
    order: StartOrder,
    *,
    pod_uuid: str,
    paths: PodPaths,
    image: Image,
    gpus: Sequence[Gpu],
    portion: GpuPortion,
    is_simulated: bool,
    rendezvous: Rendezvous | None,
    user_name: str = "",
    unseen: Sequence[str] = (),
) -> dict[str, str]:
    """All variables of a pod. What the user sets overrides the image, and nothing overrides the pod's identity.

    `unseen` are directories that are hidden from the pod; nothing in them is on its PATH. Secret variables have the
    value `SECRET`.
    """
    return {
        **_of_the_machine(order.program.python_env, paths, is_simulated, unseen),
        **_of_python(order.program.python_env, paths),
        **_of_the_user(paths, user_name),
        **_directories(paths),
        **variables_of_peers(order, rendezvous, home=paths.home, support=paths.support, gang=paths.gang),
        **dict(image.environment),
        **dict(order.program.environment),
        **{each.name: SECRET for each in order.program.secrets},
        **identity(order, pod_uuid, _gpu_milli(order, gpus)),
        **of_directory(order.program.security),
        **_visible_devices(gpus, portion, is_simulated),
        **dict(portion.environment),
    }


def _of_the_machine(python_env: str, paths: PodPaths, is_simulated: bool, unseen: Sequence[str]) -> dict[str, str]:
    """The PATH contains the machine's programs, never the server's virtual environment or hidden directories."""
    stand_ins = [f"{paths.support}/simulated"] if is_simulated else []
    usable = _machine_path(os.environ.get("PATH", ""), tuple(unseen))
    first = [f"{python_env}/bin"] if python_env else []
    # Ours before the machine's: `python`, `python3` and `pip` are then of one interpreter, whatever the machine has.
    path = [*stand_ins, *first, f"{paths.home}/.local/bin", f"{paths.support}/bin", *usable]
    kept = {name: os.environ[name] for name in INHERITED if name in os.environ}
    return {**kept, "PATH": ":".join(path)}


@cache
def _machine_path(own: str, unseen: tuple[str, ...]) -> tuple[str, ...]:
    hidden = (*unseen, *((sys.prefix,) if sys.prefix != sys.base_prefix else ()))
    inherited = [directory for directory in own.split(":") if directory.startswith("/")]
    return tuple(
        dict.fromkeys(directory for directory in (*inherited, *STANDARD_PATH) if not _is_within(directory, hidden))
    )


def _is_within(directory: str, paths: Sequence[str]) -> bool:
    return any(directory == place or directory.startswith(f"{place}/") for place in paths)


def _of_the_user(paths: PodPaths, name: str) -> dict[str, str]:
    return {"HOME": paths.home, "USER": name, "LOGNAME": name}


def _of_python(python_env: str, paths: PodPaths) -> dict[str, str]:
    """Packages that a pod installs go into its own home; with an environment of its own, that one is used as it is."""
    found = {"PYTHONPATH": f"{paths.support}/python", "PYTHONUNBUFFERED": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    if python_env:
        return {**found, "VIRTUAL_ENV": python_env}
    own = {"PYTHONUSERBASE": f"{paths.home}/.local", "PIP_USER": "1"}
    # Distributions guard their own packages by this; nothing that a pod installs is put beside them.
    return {**found, **own, "PIP_BREAK_SYSTEM_PACKAGES": "1"}


def _directories(paths: PodPaths) -> dict[str, str]:
    return {REPORTER: paths.reporter, CHECKPOINTS: paths.checkpoints}


def identity(order: StartOrder, pod_uuid: str, gpu_milli: int) -> dict[str, str]:
    """Who the pod is, on every engine; nothing overrides these."""
    return {
        "JOB_NAME": order.name,
        "JOB_UUID": order.workload,
        "POD_INDEX": str(order.index),
        POD_UUID: pod_uuid,
        "NODE_NAME": order.node,
        "RUNAI_NUM_OF_GPUS": gpus_text(gpu_milli),
        "RUNAI_PROJECT": order.project,
        "RUNAI_JOB_NAME": order.name,
    }


def of_directory(security: SecurityContext) -> dict[str, str]:
    """As the original names them; scripts of images create an account from them."""
    if not security.directory_user:
        return {}
    return {"LDAP_UID": str(security.uid), "LDAP_GID": str(security.gid)}


def _gpu_milli(order: StartOrder, gpus: Sequence[Gpu]) -> int:
    request = order.shape.gpu
    if request.memory_mib:
        return sum(memory_portion_milli(request.memory_mib, gpu.memory_mib) for gpu in gpus)
    return len(gpus) * min(request.portion_milli, WHOLE_GPU_MILLI)


def _visible_devices(gpus: Sequence[Gpu], portion: GpuPortion, is_simulated: bool) -> Mapping[str, str]:
    """Only the devices of the plan. Real ones by UUID: CUDA may number them differently than we do."""
    names = ",".join(str(gpu.index) if gpu.is_simulated else gpu.uuid for gpu in gpus)
    visible = {"CUDA_VISIBLE_DEVICES": names, "NVIDIA_VISIBLE_DEVICES": names or "void"}
    if not is_simulated:
        return visible
    shown = [
        {"index": gpu.index, "uuid": gpu.uuid, "name": gpu.name, "memory_mib": memory}
        for gpu, memory in zip(gpus, portion.memory_mib, strict=True)
    ]
    return {**visible, SIMULATED_GPUS: json.dumps(shown)}

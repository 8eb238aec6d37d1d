"""Plans the launch of a pod in a container, from the plan of the same pod as a process. Pure, but for the checks that
the other plan makes.

What differs is where files come from: the program, its PATH and its working directory are the image's. A container runs
as the user of its project without capabilities, as a process does; more is given only where the administrator of the
node has allowed it.
"""

from __future__ import annotations

import pwd
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fairpool.agent.container_tool import ContainerOptions, ContainerTool, container_name, create_options, start_options
from fairpool.agent.environment import INHERITED, STANDARD_PATH, PodPaths
from fairpool.agent.images import Image
from fairpool.agent.isolation import PodUser, is_within
from fairpool.agent.launch import MachineFeatures, host_name, plan_launch
from fairpool.agent.nvml import Gpu
from fairpool.agent.peers import Rendezvous
from fairpool.agent.portion_enforcement import enforce_portion
from fairpool.agent.root_filesystem import HOME
from fairpool.model.container_rules import (
    Privilege,
    container_objection,
    privilege_objection,
    user_refused,
    variable_objection,
)
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import SecurityContext

OF_THE_MACHINE = frozenset((*INHERITED, "PYTHONUSERBASE", "PIP_USER", "PIP_BREAK_SYSTEM_PACKAGES"))
"""Variables of a process that mean nothing where the machine's files are not seen."""
NVIDIA_SMI = "/usr/bin/nvidia-smi"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """How containers are run on this machine; determined once, at the start."""

    tool: ContainerTool
    path: str
    """Of the tool's program."""
    environment: Mapping[str, str]
    """Of the tool itself."""
    installation: str
    """The label of all containers that are ours."""
    allowed: frozenset[Privilege] = frozenset()
    init_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerImage:
    """An image that is on the machine."""

    id: str
    name: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    working_dir: str = ""
    user: str = ""
    lacks_working_dir: bool = False
    """The directory that its pod starts in is not in the image, and the tool does not create it."""


def plan_container(
    order: StartOrder,
    image: ContainerImage,
    gpus: Sequence[Gpu],
    *,
    pod_uuid: str,
    paths: PodPaths,
    features: MachineFeatures,
    settings: ContainerSettings,
    is_simulated: bool,
    rendezvous: Rendezvous | None,
    user: PodUser,
) -> dict[str, Any] | Problem:
    """Everything the shim needs, or why the pod cannot run here. `user` is the project's, or that of a directory."""
    program, allowed = order.program, settings.allowed
    problem = container_objection(program) or privilege_objection(
        program, allowed, is_gang=_is_gang(order), runtime=settings.tool.name, image_user=image.user
    )
    if problem:
        return problem
    own = _user(program.security, user, allowed)
    if isinstance(own, Problem):
        return own
    launch = plan_launch(
        order,
        Image(
            name=image.name,
            entrypoint=image.entrypoint,
            command=image.command,
            environment=(("PATH", ":".join(STANDARD_PATH)), *image.environment),
        ),
        gpus,
        pod_uuid=pod_uuid,
        paths=paths,
        features=replace(features, unavailable={}),
        is_simulated=is_simulated,
        rendezvous=rendezvous,
        user=user,
    )
    if isinstance(launch, Problem):
        return launch
    mounts = [each for each in launch["mounts"] if each.get("source") != paths.home]
    cwd = program.working_dir or image.working_dir or HOME
    if image.lacks_working_dir and not is_within(cwd, [each["target"] for each in mounts]):
        mounts.append({"source": paths.home, "target": cwd, "mode": "rw"})  # created for this pod alone
    env = _environment(launch["env"], order, image)
    options = _options(order, gpus, own, user.groups or program.security.groups, cwd, pod_uuid, features, settings)
    view = _view(launch["view"], own, paths, features, is_simulated=is_simulated)
    problem = variable_objection(env.items()) or _misplaced([*view["binds"], *mounts], settings)
    return problem or {
        **launch,
        "env": env,
        "cwd": cwd,
        "mounts": mounts,
        "limits": None,
        "words": enforce_portion(order.shape.gpu, gpus).words,
        "view": view,
        "network": bool(settings.tool.network) and not options.host_network and "network" not in features.unavailable,
        "container": _container(image, options, settings),
    }


def _container(image: ContainerImage, options: ContainerOptions, settings: ContainerSettings) -> dict[str, Any]:
    tool = settings.tool
    return {
        "tool": settings.path,
        "environment": dict(settings.environment),
        "name": options.name,
        "image": image.id,
        "create": create_options(tool, options),
        "start": start_options(options),
        "remove": list(tool.remove),
        "is_local": tool.is_local,
        "pid_option": tool.pid_option,
        "volume_options": tool.volume_options,
        "network_option": tool.network,
    }


def _options(
    order: StartOrder,
    gpus: Sequence[Gpu],
    user: str,
    groups: tuple[int, ...],
    cwd: str,
    pod_uuid: str,
    features: MachineFeatures,
    settings: ContainerSettings,
) -> ContainerOptions:
    program, security = order.program, order.program.security
    return ContainerOptions(
        name=container_name(pod_uuid),
        installation=settings.installation,
        host_name=host_name(order),
        user=user,
        working_dir=cwd,
        groups=groups,
        capabilities=tuple(_plain(each) for each in security.capabilities),
        processes_max=features.isolation.processes_max,
        cpu_milli=program.cpu_limit_milli,
        memory_bytes=program.memory_limit_bytes,
        shm_bytes=program.shm_bytes,
        is_terminal=program.tty,
        has_input=program.stdin or program.tty,
        host_network=security.host_network or _is_gang(order),
        host_ipc=security.host_ipc,
        gpus=tuple(gpu.uuid for gpu in gpus if not gpu.is_simulated),
        init_path=settings.init_path,
    )


def _view(
    view: Mapping[str, Any], user: str, paths: PodPaths, features: MachineFeatures, *, is_simulated: bool
) -> dict[str, Any]:
    """Our own files in the pod; of the machine's, none."""
    binds = [each for each in view["binds"] if each["target"] not in features.isolation.kept]
    if is_simulated:
        binds.append({"source": f"{paths.support}/simulated/nvidia-smi.sh", "target": NVIDIA_SMI, "mode": "ro"})
    uid, _, gid = user.partition(":")
    return {**view, "binds": binds, "user": [int(uid), int(gid)] if user else view["user"]}


def _environment(env: Mapping[str, str], order: StartOrder, image: ContainerImage) -> dict[str, str]:
    named = {name for name, _ in (*image.environment, *order.program.environment)}
    return {name: value for name, value in env.items() if name in named or name not in OF_THE_MACHINE}


# --- what is refused


def _user(security: SecurityContext, user: PodUser, allowed: Collection[Privilege]) -> str | Problem:
    """Uid and gid of the container; empty: those of the image. Users may always run as themselves."""
    if security.image_user:
        return ""
    is_vouched_for = user.is_person or Privilege.USER in allowed
    if security.uid is not None and not is_vouched_for and not _is_group_of(security.uid, security.gid):
        return user_refused()
    uid = user.uid if security.uid is None else security.uid
    return f"{uid}:{user.gid if security.gid is None else security.gid}"


def _is_group_of(uid: int, gid: int | None) -> bool:
    try:
        return gid is None or gid == pwd.getpwuid(uid).pw_gid
    except KeyError:
        return False


def _is_gang(order: StartOrder) -> bool:
    """Whether its pods reach each other by ports, on the network of their node."""
    return order.together and order.pods > 1


def _plain(capability: str) -> str:
    return capability.removeprefix("CAP_")


def _misplaced(mounts: Sequence[Mapping[str, Any]], settings: ContainerSettings) -> Problem | None:
    texts = [each["target"] for each in mounts]
    if not settings.tool.is_local:
        texts += [each["source"] for each in mounts if each.get("source")]
    if wrong := next((text for text in texts if ":" in text), None):
        what = f"{wrong} cannot be a mount in a container: it contains a colon"
        return Problem("volume.colon", what, "mount it at another path")
    return None

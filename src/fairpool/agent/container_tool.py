"""Podman and docker: where their command lines differ, in one table, and the arguments that both take. Pure.

The other container modules know one kind of tool. Whatever is not alike is a column here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

PODMAN, DOCKER = "podman", "docker"
LABEL = "fairpool.installation"
"""The label of every container: the installation that it belongs to."""
NAME_PREFIX = "fairpool-"
INHERITED = (
    *("XDG_RUNTIME_DIR", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "DOCKER_HOST"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "TMPDIR"),
)
"""What the tool needs of the server's environment: how the administrator has set it up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerTool:
    """One row of the table."""

    name: str
    package: str
    """What to install where it is missing."""
    reference: str
    """How `pull` is given an image: podman would otherwise take `dir:x` for a directory of the machine."""
    is_local: bool
    """Containers are started by the command itself, in its own mount namespace, and not by a daemon in another one."""
    makes_working_dir: bool
    """A working directory that the image lacks is created."""
    create: tuple[str, ...]
    """Options of `create` that only this one has."""
    pid_option: str
    """Of `create`: the file for the process id; empty: it is read with `inspect`."""
    volume_options: str
    """After the mode of a volume."""
    remove: tuple[str, ...]
    devices: Callable[[Sequence[str]], list[str]]
    """Options for real GPUs, by their UUIDs."""
    network: str
    """The option that joins a network namespace, by its path; empty: it cannot."""


def _cdi(uuids: Sequence[str]) -> list[str]:
    return [word for each in uuids for word in ("--device", f"nvidia.com/gpu={each}")]


def _gpus(uuids: Sequence[str]) -> list[str]:
    return ["--gpus", f'"device={",".join(uuids)}"'] if uuids else []


TOOLS: Mapping[str, ContainerTool] = MappingProxyType(
    {
        PODMAN: ContainerTool(
            name=PODMAN,
            package="podman, tini, and runc or crun",
            reference="docker://{image}",
            is_local=True,
            makes_working_dir=False,
            create=("--http-proxy=false", "--systemd=false"),
            pid_option="--pidfile",
            volume_options=",rbind,nosuid,nodev",
            remove=("rm", "--force", "--time=0", "--volumes", "--ignore"),
            devices=_cdi,
            network="--network=ns:{path}",
        ),
        DOCKER: ContainerTool(
            name=DOCKER,
            package="docker.io",
            reference="{image}",
            is_local=False,
            makes_working_dir=True,
            create=(),
            pid_option="",
            volume_options="",
            remove=("rm", "--force", "--volumes"),
            devices=_gpus,
            network="",
        ),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerOptions:
    """What a container is created with, besides its environment, its volumes and its program."""

    name: str
    installation: str
    host_name: str
    user: str
    """Uid and gid, with a colon between them; empty: the image's own."""
    working_dir: str
    groups: tuple[int, ...] = ()
    capabilities: tuple[str, ...] = ()
    processes_max: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    shm_bytes: int = 0
    is_terminal: bool = False
    has_input: bool = False
    host_network: bool = False
    host_ipc: bool = False
    gpus: tuple[str, ...] = ()
    """UUIDs of real ones."""
    init_path: str = ""
    """The program that is the first process, passes signals on and reaps orphans; empty: the tool's own."""


def create_options(tool: ContainerTool, options: ContainerOptions) -> list[str]:
    """Options of `create`. A container has no capabilities and gains no privileges unless they are named."""
    limits = {
        "--pids-limit": options.processes_max,
        "--memory": options.memory_bytes,
        "--memory-swap": options.memory_bytes,  # together: without swap
        "--shm-size": 0 if options.host_ipc else options.shm_bytes,
    }
    return [
        *("create", f"--name={options.name}", f"--label={LABEL}={options.installation}", "--pull=never", "--init"),
        *("--log-driver=none", "--no-healthcheck", "--restart=no", "--cap-drop=ALL"),
        *("--security-opt=no-new-privileges", *tool.create),
        *([f"--init-path={options.init_path}"] if options.init_path else []),
        *([f"--user={options.user}"] if options.user else []),
        *(f"--group-add={each}" for each in options.groups),
        *(f"--cap-add={each}" for each in options.capabilities),
        *([] if options.host_network else [f"--hostname={options.host_name}"]),
        *([f"--workdir={options.working_dir}"] if options.working_dir else []),
        *(f"{name}={most}" for name, most in limits.items() if most),
        *([f"--cpus={options.cpu_milli / 1000:g}"] if options.cpu_milli else []),
        *(["--tty"] if options.is_terminal else []),
        *(["--interactive"] if options.has_input else []),
        *(["--network=host"] if options.host_network else []),
        *(["--ipc=host"] if options.host_ipc else []),
        *tool.devices(options.gpus),
    ]


def start_options(options: ContainerOptions) -> list[str]:
    """In the foreground: it ends when the container does, with its exit code, and its output is the container's."""
    return ["start", "--attach", *(["--interactive"] if options.has_input else []), options.name]


def container_name(pod_uuid: str) -> str:
    """The name of a pod's container: there can be one with it, so a pod has one at most."""
    return f"{NAME_PREFIX}{pod_uuid}"


def tool_environment(own: Mapping[str, str], home: str) -> dict[str, str]:
    """The environment of the tool itself; nothing that a user has set is in it."""
    path = own.get("PATH") or "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**{name: own[name] for name in INHERITED if name in own}, "PATH": path, "HOME": home, "LC_ALL": "C.UTF-8"}

"""Flags of the newer `submit` commands, as in `runai training submit`, in terms of those of `runai submit`. Pure.

Most are other names of the same flag. Those with a form of their own are turned into the older form, so that one piece
of code makes the request.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import click

from fairpool.cli.failure import not_yet
from fairpool.cli.runai import mounts
from fairpool.cli.runai.flags import Flag
from fairpool.cli.runai.submit import NETWORK, RESOURCES, STORAGE
from fairpool.model.problem import Problem

OTHER_NAMES = {
    "gpu": "--gpu-devices-request",
    "gpu_memory": "--gpu-memory-request",
    "cpu": "--cpu-core-request",
    "cpu_limit": "--cpu-core-limit",
    "memory": "--cpu-memory-request",
    "memory_limit": "--cpu-memory-limit",
    "pvc_exists": "--existing-pvc",
    "configmap_volume": "--configmap-map-volume",
    "add_capability": "--capability",
    "completions": "--runs",
}
REQUEST_TYPES = ("portion", "memory", "migProfile")
REFUSED = {
    **dict.fromkeys(
        ("run_as_uid", "run_as_gid", "supplemental_groups", "user_group_source"),
        "use --run-as-user to run as yourself, or the fields of security in the API",
    ),
    "wait_for_submit": "leave it out: the command returns when the job is stored",
}
SCALING = dict.fromkeys(
    ("initial_replicas", "activation_replicas", "metric", "metric_threshold"), "the number of replicas is fixed"
)
SERVING = ("container", "protocol", "authorization-type", "authorized-users", "authorized-groups")


def renamed(parameters: Iterable[click.Parameter]) -> list[click.Parameter]:
    """The same flags, with their newer names as well."""
    return [_also_named(each) if each.name in OTHER_NAMES else each for each in parameters]


def _also_named(parameter: click.Parameter) -> click.Parameter:
    named = copy.copy(parameter)
    short = [each for each in parameter.opts if not each.startswith("--")]
    named.opts = [*short, OTHER_NAMES[parameter.name or ""], *(each for each in parameter.opts if each not in short)]
    return named


def own_flags() -> list[click.Parameter]:
    """Flags that the older command does not have."""
    return [
        Flag(
            ["--gpu-portion-request"],
            section=RESOURCES,
            metavar="PORTION",
            help="Request this part of each GPU, such as 0.5; -g is then the number of GPUs.",
        ),
        Flag(["--gpu-portion-limit"], hidden=True),
        Flag(["--gpu-memory-limit"], hidden=True),
        Flag(
            ["--gpu-request-type"],
            type=click.Choice(REQUEST_TYPES),
            section=RESOURCES,
            help="How part of a GPU is requested; by default what the other flags say.",
        ),
        Flag(
            ["--host-path"],
            multiple=True,
            section=STORAGE,
            metavar="KEYS",
            help="Mount a folder on the node: path=FOLDER,mount=PATH[,readonly]; repeatable.",
        ),
        Flag(["--nfs"], multiple=True, hidden=True),
        Flag(
            ["--external-url"],
            multiple=True,
            section=NETWORK,
            metavar="KEYS",
            help="Expose a port at an address of its own: container=8888; repeatable.",
        ),
        *(Flag([f"--{name.replace('_', '-')}"], hidden=True) for name in REFUSED),
    ]


def serving_flags() -> list[click.Parameter]:
    """Flags of a model server."""
    count = click.IntRange(0)
    return [
        Flag(["--serving-port"], section=NETWORK, metavar="PORT", help="Port that the model listens on."),
        Flag(["--min-replicas"], type=count, help="Run this many replicas of the model (1)."),
        Flag(["--max-replicas"], type=count, help="The same number as --min-replicas."),
        *(Flag([f"--{name.replace('_', '-')}"], hidden=True) for name in SCALING),
    ]


def translated(asked: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """Newer flags as older ones; what is wrong with them goes to `problems`."""
    said = dict(asked)
    for name, fix in (REFUSED | SCALING).items():
        if said.pop(name, None) is not None:
            problems.append(not_yet(f"--{name.replace('_', '-')}", fix))
    said["volume"] = (*said["volume"], *_texts(_folder, said.pop("host_path"), problems))
    said["volume"] = (*said["volume"], *_texts(_nfs, said.pop("nfs"), problems))
    said |= _ports(said, said.pop("external_url"), problems)
    said["compute"] = _gpus(said, problems)
    if "serving_port" in said:
        said |= _serving(said, problems)
    return said


def _texts(form: Any, texts: Sequence[str], problems: list[Problem]) -> list[str]:
    found = [form(text) for text in texts]
    problems += [each for each in found if isinstance(each, Problem)]
    return [each for each in found if isinstance(each, str)]


def _folder(text: str) -> str | Problem:
    """`path=,mount=[,readonly]` as `host:container[:ro]`."""
    said = mounts.pairs(
        "--host-path", text, ("path", "mount", "readonly"), required=("path", "mount"), switches=("readonly",)
    )
    if isinstance(said, Problem):
        return said
    return f"{said['path']}:{said['mount']}{':ro' if 'readonly' in said else ''}"


def _nfs(text: str) -> str | Problem:
    """`path=,server=,mountpath=[,readonly]` as `host:container:mode:server`."""
    keys = ("path", "server", "mountpath")
    said = mounts.pairs("--nfs", text, (*keys, "readonly"), required=keys, switches=("readonly",))
    if isinstance(said, Problem):
        return said
    return f"{said['path']}:{said['mountpath']}:{'ro' if 'readonly' in said else 'rw'}:{said['server']}"


def _ports(said: dict[str, Any], urls: Sequence[str], problems: list[Problem]) -> dict[str, Any]:
    """Ports with keys as `--service-type TYPE,port=EXTERNAL:CONTAINER`; plain ones stay if there are no others."""
    kinds: list[str] = []
    for text in [each for each in said["port"] if "=" in each]:
        words = ("service-type", "container", "external", "protocol")
        keys = mounts.pairs("--port", text, words, required=("container",))
        if isinstance(keys, Problem):
            problems.append(keys)
            continue
        if keys.get("protocol", "TCP").upper() != "TCP":
            problems.append(not_yet(f"--port with protocol={keys['protocol']}", "use TCP"))
        number = f"{keys['external']}:{keys['container']}" if "external" in keys else keys["container"]
        kinds.append(f"{keys.get('service-type', 'ClusterIP')},port={number}")
    for text in urls:
        words = ("container", "url", "authusers", "authgroups")
        keys = mounts.pairs("--external-url", text, words, required=("container",))
        if isinstance(keys, Problem):
            problems.append(keys)
            continue
        problems += [not_yet(f"--external-url with {key}") for key in ("authusers", "authgroups") if key in keys]
        kinds.append(f"external-url,port={keys['container']}{',custom-url=' + keys['url'] if 'url' in keys else ''}")
    if not kinds:
        return {}
    plain = [f"ClusterIP,port={each}" for each in said["port"] if "=" not in each]
    return {"port": (), "service_type": (*said["service_type"], *plain, *kinds)}


def _gpus(said: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """GPUs by number and part of each, where the older flags cannot say both; those are then taken out of `said`."""
    portion, type_ = said.pop("gpu_portion_request"), said.pop("gpu_request_type")
    limits = {"gpuPortionLimit": said.pop("gpu_portion_limit"), "gpuMemoryLimit": said.pop("gpu_memory_limit")}
    compute = {name: value for name, value in limits.items() if value is not None}
    devices, memory = said["gpu"], said["gpu_memory"]
    if type_ is not None:
        compute["gpuRequestType"] = type_
    if portion is None and (memory is None or devices is None):
        return compute
    if portion is not None and memory is not None:
        what = "--gpu-portion-request and --gpu-memory-request cannot be used together"
        problems.append(Problem("gpu.several_ways", what, "leave one out"))
    if devices is not None and not devices.isdecimal():
        what = f"--gpu-devices-request {devices!r} is not a whole number of GPUs"
        problems.append(Problem("flag.gpu_devices", what, "write the number of GPUs, and the part of each beside it"))
        return compute
    said["gpu"] = said["gpu_memory"] = None
    own = {"gpuPortionRequest": portion} if portion is not None else {"gpuMemoryRequest": memory}
    return {
        "gpuRequestType": "portion" if portion else "memory",
        **compute,
        "gpuDevicesRequest": int(devices or 1),
        **own,
    }


def _serving(said: dict[str, Any], problems: list[Problem]) -> dict[str, Any]:
    """The port and the replicas of a model."""
    port, least, most = said.pop("serving_port"), said.pop("min_replicas"), said.pop("max_replicas")
    if least == 0:
        problems.append(not_yet("--min-replicas 0", "use 1 or more: a model is not scaled to zero"))
    if most is not None and most != (least or 1):
        problems.append(not_yet(f"--max-replicas {most}", "use the same number as --min-replicas"))
    found: dict[str, Any] = {"replicas": least or said.get("replicas")}
    if port is None:
        return found
    keys = (
        mounts.pairs("--serving-port", port, SERVING, required=("container",)) if "=" in port else {"container": port}
    )
    if isinstance(keys, Problem):
        problems.append(keys)
        return found
    usual = {"protocol": "http", "authorization-type": "public"}
    strange = [f"{key}={value}" for key, value in keys.items() if key != "container" and usual.get(key) != value]
    problems += [not_yet(f"--serving-port with {each}") for each in strange]
    return {**found, "port": (keys["container"], *said["port"])}

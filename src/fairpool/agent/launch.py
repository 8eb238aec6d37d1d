"""From an order to what its keeper does: program, folder, mounts, limits. What cannot be given is a Problem.

The answer is plain data for JSON, because the keeper reads it from the life's folder and knows nothing of the model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpool.agent.cgroup import Limiter
from fairpool.agent.environment import Places, variables
from fairpool.agent.fractions import hold_to_portion
from fairpool.agent.images import Image
from fairpool.agent.nvml import Gpu
from fairpool.agent.uploads import Uploads
from fairpool.model.observation import StartOrder
from fairpool.model.problem import Problem
from fairpool.model.spec import Volume

HOST_NAME_MAX = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRotation:
    """How much of a pod's output is kept."""

    segment_bytes: int = 16 << 20
    segments: int = 3


DEFAULT_ROTATION = LogRotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What this machine gives to every pod: found out once, at the start."""

    forbidden: Mapping[str, str]
    """`mounts`, `host_name`: why the system does not permit them."""
    limiter: Limiter
    claims: Path
    """Where claims live, by project."""
    uploads: Uploads
    """Folders that came with workloads."""
    rotation: LogRotation = DEFAULT_ROTATION


def launch_of(
    order: StartOrder,
    image: Image,
    gpus: Sequence[Gpu],
    *,
    mark: str,
    places: Places,
    conditions: Conditions,
    is_simulated: bool,
    rendezvous: tuple[str, int] | None,
) -> dict[str, Any] | Problem:
    """Everything the keeper needs to know, or why this cannot be done here."""
    program = order.program
    argv = _command_line(order, image)
    if not argv:
        return Problem("program.none", f"{program.image} starts nothing by itself", "give a command")
    mounts = _mounts(order, image, places, conditions)
    if isinstance(mounts, Problem):
        return mounts
    hold = hold_to_portion(order.shape.gpu, gpus)
    env = variables(
        order,
        mark=mark,
        places=places,
        image=image,
        gpus=gpus,
        hold=hold,
        is_simulated=is_simulated,
        rendezvous=rendezvous,
    )
    cwd, mounts = _working_folder(order, image, places, mounts, conditions)
    limits, unlimited = _limits(order, mark, conditions.limiter)
    return {
        "pod": order.pod,
        "mark": mark,
        "argv": list(argv),
        "env": env,
        "cwd": cwd,
        "host_name": "" if "host_name" in conditions.forbidden else host_name(order),
        "mounts": mounts,
        "tty": program.tty,
        "stdin": program.stdin,
        "grace_s": order.grace_s,
        "limits": limits,
        "log": {
            "segment_bytes": conditions.rotation.segment_bytes,
            "segments": conditions.rotation.segments,
        },
        "words": "; ".join(words for words in (hold.words, unlimited) if words),
    }


def host_name(order: StartOrder) -> str:
    """The name a pod goes by, as in the prompt `root@frac05-0-0`."""
    return f"{order.name}-{order.index}-{order.incarnation}"[-HOST_NAME_MAX:].lstrip("-")


def _command_line(order: StartOrder, image: Image) -> tuple[str, ...]:
    """As in a container: a command replaces all that the image starts, arguments replace the image's command only."""
    program = order.program
    if program.command:
        return (*program.command, *program.arguments)
    return (*image.entrypoint, *(program.arguments or image.command))


def _mounts(order: StartOrder, image: Image, places: Places, conditions: Conditions) -> list[dict[str, str]] | Problem:
    """What is bound into the pod's view; empty when everything is already where it is wanted."""
    mounts: list[dict[str, str]] = []
    for volume in order.program.volumes:
        if volume.uploaded and "mounts" in conditions.forbidden:
            continue  # its program is started where the folder really is
        source = _source(order, volume, conditions)
        if isinstance(source, Problem):
            return source
        mode = "ro" if volume.read_only else "rw"
        mounts.append({"source": source, "target": os.path.normpath(volume.target), "mode": mode})
    for target, source in image.files:
        if not os.path.exists(source):
            return Problem("image.file_missing", f"{source} of image {image.name} does not exist", "mend its alias")
        mounts.append({"source": source, "target": os.path.normpath(target), "mode": "ro"})
    if order.program.shm_bytes and not _shm_is_large_enough(order.program.shm_bytes, conditions):
        mounts.append({"size": str(order.program.shm_bytes), "target": "/dev/shm", "mode": "rw"})
    targets = [mount["target"] for mount in mounts]
    if wrong := next((target for target in targets if not target.startswith("/") or target == "/"), None):
        return Problem("volume.target", f"{wrong} is no place for a volume", "name an absolute path below /")
    if double := next((target for target in targets if targets.count(target) > 1), None):
        return Problem("volume.twice", f"two volumes want to be at {double}", "give each a path of its own")
    if all(mount.get("source") == mount["target"] and mount["mode"] == "rw" for mount in mounts):
        return []
    if why := conditions.forbidden.get("mounts"):
        return Problem(
            "runtime.no_mounts",
            f"this machine permits no mount namespaces ({why}), so nothing can be mounted for {order.name}",
            "ask the administrator to permit user namespaces, or use paths as they are on the machine",
        )
    return mounts


def _source(order: StartOrder, volume: Volume, conditions: Conditions) -> str | Problem:
    if volume.uploaded:
        files = conditions.uploads.files_of(order.workload)
        if files.is_dir():
            return str(files)
        what = f"the folder that was uploaded for {order.name} is not on this machine"
        return Problem("upload.missing", what, "submit the job again with --workdir")
    if volume.claim:
        if "/" in volume.claim or volume.claim in (".", ".."):
            return Problem("volume.claim_name", f"{volume.claim!r} is no name for a claim", "use letters and digits")
        claim = conditions.claims / order.project.replace("/", "_") / volume.claim
        claim.mkdir(parents=True, exist_ok=True)
        return str(claim)
    source = os.path.normpath(volume.source) if volume.source.startswith("/") else ""
    if not source or not os.path.exists(source):
        what = f"{volume.source or 'nothing'} cannot be mounted at {volume.target}: it does not exist on {order.node}"
        return Problem("volume.missing", what, "create it, or name an absolute path that exists")
    return source


def _shm_is_large_enough(wanted_bytes: int, conditions: Conditions) -> bool:
    """Where mounts are forbidden the machine's own will do, if it is as large."""
    if "mounts" not in conditions.forbidden:
        return False
    shm = os.statvfs("/dev/shm")
    return shm.f_blocks * shm.f_frsize >= wanted_bytes


def _working_folder(
    order: StartOrder, image: Image, places: Places, mounts: list[dict[str, str]], conditions: Conditions
) -> tuple[str, list[dict[str, str]]]:
    """Where the program starts: what was asked for, made for this pod alone if the machine has no such folder."""
    wanted = order.program.working_dir or image.working_dir
    if not wanted:
        return places.scratch, mounts
    if "mounts" in conditions.forbidden:
        wanted = _in_uploaded(order, wanted, conditions)
    covered = any(wanted == mount["target"] or wanted.startswith(f"{mount['target']}/") for mount in mounts)
    if covered or os.path.isdir(wanted) or not wanted.startswith("/"):
        return wanted, mounts
    if "mounts" in conditions.forbidden:
        # The image's own folder is a convenience; one that a person named is missed when the program starts there.
        return (wanted if order.program.working_dir else places.scratch), mounts
    own = {"source": places.scratch, "target": os.path.normpath(wanted), "mode": "rw"}
    return wanted, [*mounts, own]


def _in_uploaded(order: StartOrder, wanted: str, conditions: Conditions) -> str:
    """Where a path in the uploaded folder really is."""
    for volume in order.program.volumes:
        if volume.uploaded and (wanted == volume.target or wanted.startswith(f"{volume.target}/")):
            return str(conditions.uploads.files_of(order.workload)) + wanted.removeprefix(volume.target)
    return wanted


def _limits(order: StartOrder, mark: str, limiter: Limiter) -> tuple[dict[str, Any] | None, str]:
    program = order.program
    if not program.cpu_limit_milli and not program.memory_limit_bytes:
        return None, ""
    if not limiter.is_able:
        return None, f"its limits on CPU and memory are not enforced: {limiter.missing}"
    limits = {
        "limiter": limiter.to_json(),
        "name": mark,
        "cpu_milli": program.cpu_limit_milli,
        "memory_bytes": program.memory_limit_bytes,
    }
    return limits, ""

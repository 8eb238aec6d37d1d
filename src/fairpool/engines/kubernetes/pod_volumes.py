"""Volumes of a pod on Kubernetes, and those that it cannot have. Pure.

Claims, config maps and secrets are objects that exist before the pod (`names`); scratch space and shared memory come
with it; uploaded folders and clones are filled in before its program starts (`pod_preparation`). Whatever else a
program asks for is refused by name.

A path of the node is checked as text, and a job that may write in an allowed directory can put a link there that leads
out of it. So the directory that was allowed is the volume, and the rest is its `subPath`: kubelets resolve that without
leaving the volume, and refuse to start the pod otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from fairpool.engines.kubernetes.names import claim_name, config_map_name, secret_name
from fairpool.engines.kubernetes.pod_preparation import filled_volume, preparation_objection
from fairpool.engines.kubernetes.pod_settings import PodSettings
from fairpool.model.observation import StartOrder
from fairpool.model.plain_path import normal_path
from fairpool.model.problem import Problem
from fairpool.model.spec import AccessMode, Program, Volume

SHM = "/dev/shm"
RESERVED = ("/proc", "/sys", "/dev")
"""Where nothing is mounted, except shared memory."""
READABLE = 0o444
"""Files of secrets: a pod that is not root could not read files of root only, and no other pod sees them."""


def volume_objection(program: Program, settings: PodSettings) -> Problem | None:
    """Why the volumes of a program cannot be had on Kubernetes."""
    for volume in program.volumes:
        if problem := _objection(volume, program, settings):
            return problem
    return _misplaced([normal_path(volume.target) for volume in program.volumes])


def pod_volumes(order: StartOrder, settings: PodSettings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The volumes of a pod and the mounts of its container, in the same order."""
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    for number, volume in enumerate(order.program.volumes):
        root, below = _host_path(volume, order.program, settings) if volume.is_of_machine else ("", "")
        made = filled_volume(number, volume)
        if made is None:
            source = {"hostPath": {"path": root}} if root else _source(volume, order)
            made = {"name": f"volume-{number}", **source}
        if made not in volumes:  # an uploaded folder may be mounted at several places
            volumes.append(made)
        mount: dict[str, Any] = {"name": made["name"], "mountPath": normal_path(volume.target)}
        if below:
            mount["subPath"] = below
        if _is_read_only(volume):
            mount["readOnly"] = True
        mounts.append(mount)
    if order.program.shm_bytes:
        volumes.append(
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": str(order.program.shm_bytes)}},
        )
        mounts.append({"name": "shm", "mountPath": SHM})
    return volumes, mounts


def _source(volume: Volume, order: StartOrder) -> dict[str, Any]:
    if volume.claim:
        return {"persistentVolumeClaim": {"claimName": claim_name(volume.claim)}}
    if volume.files:
        return {"configMap": {"name": config_map_name(order.name, volume.files)}}
    if volume.secret:
        return {"secret": {"secretName": secret_name(order.name, volume.secret), "defaultMode": READABLE}}
    return {"emptyDir": {}}


def _host_path(volume: Volume, program: Program, settings: PodSettings) -> tuple[str, str]:
    """The smallest allowed directory that a path of the node is in, and the path from there."""
    source = os.path.normpath(volume.source)
    allowed = [os.path.normpath(each) for each in (*settings.host_paths, *program.host_roots)]
    root = max((each for each in allowed if _is_within(source, [each])), key=len)
    return root, os.path.relpath(source, root) if source != root else ""


def _is_read_only(volume: Volume) -> bool:
    is_read_only_claim = bool(volume.claim) and volume.access is AccessMode.READ_ONLY and not volume.size_bytes
    return volume.read_only or bool(volume.secret) or bool(volume.files) or is_read_only_claim


# --- what is refused


def _objection(volume: Volume, program: Program, settings: PodSettings) -> Problem | None:
    at = volume.target
    if problem := preparation_objection(volume, settings):
        return problem
    if volume.credential and volume.git is None:
        what = f"the volume at {at} needs the credential {volume.credential}, which is not available on Kubernetes yet"
        return Problem("volume.credential", what, "use a volume claim of a storage class that has the login")
    return _host_path_objection(volume, program, settings) if volume.is_of_machine else None


def _host_path_objection(volume: Volume, program: Program, settings: PodSettings) -> Problem | None:
    source = os.path.normpath(volume.source) if volume.source.startswith("/") else ""
    if not source or ".." in volume.source.split("/"):
        what = f"{volume.source or 'an empty path'} cannot be mounted at {volume.target}: it is not an absolute path"
        return Problem("volume.missing", what, "use an absolute path that exists")
    if not _is_within(source, settings.host_paths):
        what = f"{source} is not a directory of nodes that pods may mount"
        allowed = ", ".join(settings.host_paths)
        fix = f"use a path in {allowed}, or a volume claim" if allowed else "use a volume claim"
        return Problem("volume.host_path", what, f"{fix}, or ask the administrator to allow it")
    if not _is_within(source, program.host_roots):
        what = f"{source} is not in a directory from which the project may mount paths"
        return Problem("volume.host_root", what, f"use a path in {', '.join(program.host_roots) or 'a volume claim'}")
    return None


def _is_within(path: str, directories: Sequence[str]) -> bool:
    return any(path == each or path.startswith(f"{each.rstrip('/')}/") for each in directories)


def _misplaced(targets: Sequence[str]) -> Problem | None:
    if wrong := next((target for target in targets if not target.startswith("/") or target == "/"), None):
        return Problem("volume.target", f"a volume cannot be mounted at {wrong}", "use an absolute path other than /")
    if double := next((target for target in targets if targets.count(target) > 1), None):
        return Problem("volume.twice", f"two volumes are mounted at {double}", "use a different path for each")
    if wrong := next((target for target in targets if ":" in target), None):
        what = f"{wrong} cannot be a mount in a container: it contains a colon"
        return Problem("volume.colon", what, "mount it at another path")
    if reserved := next((target for target in targets if _is_within(target, RESERVED)), None):
        what = f"{reserved} is reserved and cannot be a mount point"
        return Problem("volume.target", what, "mount it at another path")
    return None

"""Volumes that each pod has for itself, in its directory: files of config maps, room for repositories, empty folders.

They are created before the order is written and removed with the pod's directory, so that nothing needs to know of them
when a server or a shim is killed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from fairpool.agent.environment import PodPaths
from fairpool.agent.isolation import PodUser
from fairpool.model.spec import Volume

VOLUMES = "volumes"


def own_volume(paths: PodPaths, number: int) -> str:
    """The directory for a pod's volume, by its number among the volumes of the program."""
    return f"{paths.directory}/{VOLUMES}/{number}"


def make_own_volumes(volumes: Sequence[Volume], paths: PodPaths, user: PodUser | None) -> None:
    """May be called twice; clones and empty folders belong to the pod's user, files of config maps to ours."""
    for number, volume in enumerate(volumes):
        directory = own_volume(paths, number)
        if volume.git is not None or volume.empty:
            os.makedirs(directory, exist_ok=True)
            if user is not None:
                os.chown(directory, user.uid, user.gid)
        elif volume.files:
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o755)
            for name, text in volume.files:
                _write(directory, name, text)


def _write(directory: str, name: str, text: str) -> None:
    if "/" in name or name in ("", ".", ".."):
        raise OSError(errno.EINVAL, f"{name!r} is not the name of a file")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(f"{directory}/{name}", flags, 0o644), "w", encoding="utf-8", newline="") as file:
        os.fchmod(file.fileno(), 0o644)
        file.write(text)

"""Isolation of pods: what a pod may see and the user it runs as; enforced by `pod_init.py` and `root_filesystem.py`.

A pod sees the machine's files read-only. The data directory, Fairpool's configuration, sockets in `/run`, temporary
files and home directories are hidden; what a pod needs of them is bound in, its own writable.
"""

from __future__ import annotations

import os
import pwd
import resource
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from fairpool.agent.cgroup import PROCESSES_MAX
from fairpool.agent.environment import PodPaths
from fairpool.agent.mount_source import SourceRefused, open_source
from fairpool.agent.root_filesystem import HOME, HOMES, OWN
from fairpool.model.problem import Problem
from fairpool.model.spec import SecurityContext

TEMPORARY = ("/tmp", "/var/tmp")
TMP = ".tmp"
"""In a pod's home: what is mounted there. On the disk, because memory is shared by all pods."""
_SYSTEM = ("/bin", "/boot", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/srv", "/sys", "/usr")
NEVER_HIDDEN = ("", "/", *_SYSTEM, "/usr/local", "/var", "/var/lib")
"""Homes that system accounts have; a pod needs what is in them."""
PROCESSES_VARIABLE = "FAIRPOOL_POD_PROCESSES"


@dataclass(frozen=True, slots=True)
class PodUser:
    """The user a pod runs as, if it is not the server's own."""

    uid: int
    gid: int
    name: str = "pod"
    """Empty: that of its account, which is looked up when the pod is planned."""
    groups: tuple[int, ...] = ()
    """Supplementary groups."""
    is_person: bool = False
    """A user of a directory, who may have an account and a home on this machine."""


def pod_user(security: SecurityContext, project: PodUser) -> PodUser:
    """The user of a pod: its project's, or that of a directory, who is in the group of the project besides: claims
    belong to it."""
    if not security.directory_user or not security.uid or not security.gid:
        return project
    return PodUser(security.uid, security.gid, groups=(*security.groups, project.gid), is_person=True)


def unmapped_id(user: PodUser) -> int | None:
    """An ID of this user that the kernel does not know here, because the server is in a user namespace without it."""
    for name, numbers in (("uid_map", (user.uid,)), ("gid_map", (user.gid, *user.groups))):
        with open(f"/proc/self/{name}", encoding="ascii") as file:
            rows = [[int(word) for word in line.split()] for line in file]
        for number in numbers:
            if not any(first <= number < first + count for first, _, count in rows):
                return number
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Isolation:
    """How pods of this machine are isolated; determined once, at the start."""

    protected: tuple[str, ...]
    """Directories of the platform, with links resolved."""
    kept: tuple[str, ...]
    """The interpreter, where it is in a hidden directory."""
    hidden: tuple[str, ...]
    counts_processes: bool
    processes_max: int


def find_isolation(root: Path, protected: Sequence[Path], *, counts_processes: bool) -> Isolation:
    """For the pods in this state directory; `protected` is what else belongs to the platform."""
    own = sorted({os.path.realpath(path) for path in (root, *protected)})
    paths = [*own, HOMES, "/root", "/run", _home(os.geteuid())]
    hidden = _outermost([os.path.realpath(place) for place in paths if place not in NEVER_HIDDEN])
    covered = (*hidden, *TEMPORARY)
    prefixes = {os.path.realpath(prefix) for prefix in (sys.base_prefix, sys.base_exec_prefix)}
    return Isolation(
        protected=tuple(own),
        kept=tuple(sorted(prefix for prefix in prefixes if is_within(prefix, covered))),
        hidden=tuple(place for place in hidden if not is_within(place, TEMPORARY)),
        counts_processes=counts_processes,
        processes_max=_processes_max(),
    )


def paths_in_pod(paths: PodPaths) -> PodPaths:
    """The paths as the pod sees them."""
    return replace(
        paths,
        support=f"{OWN}/support",
        checkpoints=f"{OWN}/checkpoints",
        reporter=f"file:{HOME}/{os.path.basename(paths.reporter)}",
        home=HOME,
        gang=f"{OWN}/peers" if paths.gang else "",
    )


def pod_view(
    isolation: Isolation, paths: PodPaths, user: PodUser | None, volumes: Mapping[str, Any] | None, shm_bytes: int
) -> dict[str, Any]:
    """What the pod's first process sets up, as plain data; `volumes` is the rule for what is mounted with `-v`."""
    seen = paths_in_pod(paths)
    binds = [
        {"source": paths.home, "target": seen.home, "mode": "rw"},
        *({"source": f"{paths.home}/{TMP}", "target": place, "mode": "rw", "is_made": True} for place in TEMPORARY),
        {"source": paths.checkpoints, "target": seen.checkpoints, "mode": "rw"},
        {"source": paths.support, "target": seen.support, "mode": "ro"},
        *([{"source": paths.gang, "target": seen.gang, "mode": "ro"}] if paths.gang else ()),
        *({"source": prefix, "target": prefix, "mode": "ro"} for prefix in isolation.kept),
    ]
    return {
        "hidden": list(isolation.hidden),
        "binds": binds,
        "volumes": volumes,
        "user": None if user is None else [user.uid, user.gid],
        "groups": [] if user is None else list(user.groups),
        "counts_processes": isolation.counts_processes,
        "processes_max": isolation.processes_max,
        "shm_bytes": shm_bytes,
    }


def volume_rule(
    isolation: Isolation, user: PodUser | None, submitter: int | None, roots: Sequence[str]
) -> dict[str, Any]:
    """Where what is mounted with `-v` must lie, and the user who must be able to open it; see `mount_source.py`.

    The submitter, if known; else the pod's own user; where that is the server's own, all users must be. A pod with the
    user of a directory is given nothing that this user cannot open, even if root submitted it.
    """
    uid, gids = submitter, _groups(submitter) if submitter is not None else []
    if user is not None and (user.is_person or submitter is None):
        uid, gids = user.uid, [user.gid, *user.groups]
    owner = user.uid if user is not None and user.is_person else submitter
    home = os.path.realpath(_home(owner)) if owner is not None and _home(owner) else ""
    return {
        "roots": list(roots),
        "protected": list(isolation.protected),
        "homes": _homes(),
        "home": home,
        "uid": uid,
        "gids": gids,
        "act_as": [uid, gids[0] if gids else uid, gids] if uid and os.geteuid() == 0 else None,
    }


def may_be_mounted(source: str, rule: Mapping[str, Any]) -> Problem | None:
    """Why this may not be mounted under this rule; None: it may. Raises OSError if it cannot be opened."""
    try:
        os.close(open_source(source, rule))
    except SourceRefused as refusal:
        return Problem(refusal.code, refusal.what, refusal.fix)
    return None


def user_name(uid: int) -> str:
    """The name of an account; `pod` for a uid without one. May take long, if accounts are those of a directory."""
    try:
        return _own_name(uid) if uid == os.geteuid() else pwd.getpwuid(uid).pw_name
    except KeyError:
        return "pod"


@cache
def _own_name(uid: int) -> str:
    """Kept once it is known; an error is not."""
    return pwd.getpwuid(uid).pw_name


def is_within(path: str, paths: Sequence[str]) -> bool:
    """Whether it is one of these, or below one."""
    return any(path == place or path.startswith(f"{place}/") for place in paths)


def _outermost(paths: Sequence[str]) -> tuple[str, ...]:
    found = sorted(set(paths))
    return tuple(place for place in found if not is_within(place, [other for other in found if other != place]))


def _home(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return ""


def _homes() -> list[str]:
    found = [entry.path for entry in os.scandir(HOMES) if entry.is_dir()] if os.path.isdir(HOMES) else []
    found += [place for place in ("/root", _home(os.geteuid())) if place not in NEVER_HIDDEN and os.path.isdir(place)]
    return sorted({os.path.realpath(place) for place in found if place})


def _groups(uid: int) -> list[int]:
    """The submitter's own group first."""
    try:
        entry = pwd.getpwuid(uid)
        return [entry.pw_gid, *(gid for gid in os.getgrouplist(entry.pw_name, entry.pw_gid) if gid != entry.pw_gid)]
    except KeyError:
        return []


def _processes_max() -> int:
    """What the administrator has set, else a quarter of what the machine and the server's user can have."""
    chosen = os.environ.get(PROCESSES_VARIABLE, "")
    if chosen.isascii() and chosen.isdigit() and int(chosen) > 0:
        return int(chosen)
    own, _ = resource.getrlimit(resource.RLIMIT_NPROC)
    possible = [PROCESSES_MAX * 4]
    if own != resource.RLIM_INFINITY and os.geteuid() != 0:
        possible.append(own)  # pods run as our user, whose processes are counted together
    for name in ("pid_max", "threads-max"):
        with open(f"/proc/sys/kernel/{name}", encoding="ascii") as file:
            possible.append(int(file.read()))
    return min(possible) // 4
